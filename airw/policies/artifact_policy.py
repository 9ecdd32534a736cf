"""The base classes of policies whose nodes are artifacts."""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, islice, repeat
from typing import Any, NamedTuple, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count, check_flag, check_strings
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.errors import ArgumentError
from airw.policies._corpora import Id, Walkable, check_nodes, require
from airw.policies._shared_fields import FieldEdges, FieldValue, check_edges, edges_from, field_values, find_artifacts
from airw.policies._start import Seeding, check_roots, check_seeding, find_start
from airw.policies.artifact_memory import MAX_ENDS, MAX_START, A, ArtifactMemory, Part
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import EdgeRow, Edges, Ends
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeIdLike, ParsedQuery, SearchHit, read_operators
from airw.values.hits import add_facts
from airw.walking import CommittedNode, Frontier, LazyNeighbors, Neighbors, Policy, WalkState
from airw.walking.policy import NeighborValues, NewNodes

_OFFLOAD_ABOVE = 10_000  # nodes; scoring so many takes about a millisecond


class ArtifactNode(NamedTuple):
    """A node of the walk: an artifact, and where the edge that led to it stands in a row."""

    id: Id
    row: EdgeRow | None = None
    place: int = 0

    @property
    def edge(self) -> Edge | None:
        """The edge that led to the artifact, made now."""
        return None if self.row is None else self.row[self.place]


_new_node = partial(tuple.__new__, ArtifactNode)  # takes half the time of `ArtifactNode(...)`


def ids_of(nodes: Sequence[Any]) -> Sequence[Id]:
    """Return the ids of nodes; those that the walk has not made yet are not made for that."""
    return nodes.ids if isinstance(nodes, NewNodes) else [node.id for node in nodes]


def parents_of(nodes: Sequence[Any]) -> Sequence[Id | None]:
    """Return the artifacts from which nodes were reached; `None` for the start."""
    if isinstance(nodes, NewNodes):
        return nodes.parents
    return [None if node.row is None else node.row.id for node in nodes]


class ArtifactPolicy(Policy[A]):
    """A policy whose nodes are artifacts; nodes have the fields `id` and `edge`.

    Three methods say what a walk means: `seed` returns its first nodes, `value` the score of nodes, and `follow` the
    neighbours of artifacts. This class does the rest: it reads scores and records, applies the scope, checks the roots
    and makes the hits. By default an artifact scores by the cosine of its best surface to the query. A hit shows the
    surface that a search would show: the one that the search for the start has found, else the best one.

    A step costs one store call: with the links of artifacts come the scores of what lies at their ends, and the records
    of the nearest, as far as the next hits need them.
    """

    scope: Scope
    operators: bool = False
    _memory: type[ArtifactMemory] = ArtifactMemory
    """What one walk remembers."""

    _compares: bool = True
    """False if the first surface of an artifact counts, and not the best one."""

    def value(self, state: WalkState[A], nodes: Sequence[Any]) -> Sequence[float] | NDArray[np.float64]:
        """Return the score of each node, by default its cosine; the surfaces have been read."""
        return state.memory.cosines(ids_of(nodes))

    async def follow(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[Neighbors]:
        """Return the neighbours of artifacts that may be crossed."""
        raise NotImplementedError

    @property
    def _name(self) -> str:
        return type(self).__name__

    def _check_shared(self) -> None:
        """Check the parameters that all these policies have."""
        check_scope(self.scope)
        check_flag("operators", self.operators)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)

    # What the operator calls.

    @override
    def begin(self, state: WalkState[A]) -> A:
        query = read_operators(state.query) if self.operators else ParsedQuery(state.query, None)
        return cast("A", self._memory(query.text, self.scope, self._reads_fields, query.contains))

    async def score(
        self, state: WalkState[A], nodes: Sequence[Any], store: Walkable
    ) -> Sequence[float] | NDArray[np.float64]:
        """Return the value of each node; one store call if an artifact is new."""
        await self._read_surfaces(state, list(dict.fromkeys(ids_of(nodes))), store)
        return await offload_if(len(nodes) > _OFFLOAD_ABOVE, self.value, state, nodes)

    async def _read_surfaces(self, state: WalkState[A], ids: Sequence[Id], store: Walkable) -> None:
        """Score artifacts, check the roots among them, and apply the scope."""
        await self._read_scores(state, ids, store)
        await check_roots(state.memory, store)
        await state.memory.apply_scope(ids, store)

    async def _read_scores(self, state: WalkState[A], ids: Sequence[Id], store: Walkable) -> None:
        """Remember the best surface of each artifact; one store call for those that are new."""
        memory = state.memory
        if new_ids := memory.find_new(ids):
            # Without fields, only what the search for the start has found is known to be needed.
            needed = ids if memory.keeps_records else [id for id in new_ids if id in memory.passages]
            await self._read(state, store, new_ids, needed, self._count_ahead(state))

    def select(self, state: WalkState[A], frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Commit all artifacts that are not excluded, best first; ties in order of discovery."""
        return super().select(state, replace(frontier, live=self._selectable(state, frontier)))

    @property
    def _reads_fields(self) -> bool:
        """True if fields of artifacts say where the walk goes."""
        return self.scope != ALLOW_ALL

    def _selectable(self, state: WalkState[A], frontier: Frontier) -> NDArray[np.intp]:
        """Return the live positions that are not excluded, and drop the excluded ones.

        Only the positions of this step are checked: earlier ones were checked in their own step.
        """
        if not self._reads_fields:
            return frontier.live
        ids = [frontier.ids[position] for position in frontier.fresh]
        excluded = list(compress(frontier.fresh, self._are_excluded(state, ids)))
        frontier.drop(excluded)
        return frontier.live[~np.isin(frontier.live, excluded)] if excluded else frontier.live

    def _are_excluded(self, state: WalkState[A], ids: Sequence[Id]) -> list[bool]:
        """Return for each artifact whether it is excluded.

        It is if it may be neither crossed nor kept or, at the start, if it may not be a start.
        """
        memory, is_start = state.memory, not state.visited
        if not memory.permissions:
            return [False] * len(ids)
        permissions = map(memory.permissions_of, ids)
        return [not (may.cross or may.keep) or (is_start and not may.start) for may in permissions]

    async def expand(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[Neighbors]:
        """Return the neighbours of each artifact that may be crossed; one store call."""
        crossable = self._filter_crossable(state.memory, committed)
        neighbors = await self.follow(state, crossable, store)
        if getattr(self.node_id, "__func__", None) is not ArtifactPolicy.node_id:
            neighbors = [list(nodes) if isinstance(nodes, LazyNeighbors) else nodes for nodes in neighbors]
        if len(crossable) == len(committed):
            return neighbors
        neighbors_of = dict(zip((entry.id for entry in crossable), neighbors, strict=True))
        return [neighbors_of.get(entry.id, []) for entry in committed]

    def _filter_crossable(self, memory: A, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes whose neighbours are to be read."""
        return memory.filter_crossable(committed)

    @override
    def node_id(self, node: Any) -> Id:
        return node.id

    @override
    def edge_of(self, node: Any) -> Edge | None:
        edge: Edge | None = node.edge
        return edge

    async def to_hits(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface as its hit; one store call."""
        await self._read_hits(state, committed, store)
        hits = await state.memory.make_hits(committed, self._hit_scores(state, committed), store)
        for entry, hit in zip(committed, hits, strict=True):
            if hit is not None and (facts := self._facts(state, entry)):
                add_facts(hit.metadata, facts)
        return hits

    def _hit_scores(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> Sequence[float]:
        return [entry.score for entry in committed]

    def _facts(self, state: WalkState[A], entry: CommittedNode) -> Mapping[str, Any]:
        """Return what the metadata of a hit tell about the policy's choice."""
        return {}

    # Reading.

    def _ask_edges(self, ids: Sequence[Id]) -> Edges:
        """Return the request for the links of artifacts."""
        raise NotImplementedError

    def _ask_surfaces(self, state: WalkState[A], of: Sequence[Id] | Ends, limit: int | None) -> list[Part]:
        """Return what to ask about artifacts or ends of links: scores, and the nearest records."""
        return state.memory.ask_best(of, limit)

    def _count_ahead(self, state: WalkState[A]) -> int | None:
        """Return how many artifacts of a step need records, the nearest first; `None` for all."""
        return None if self.scope != ALLOW_ALL else self._room(state)

    def _room(self, state: WalkState[A]) -> int:
        """Return how many artifacts the walk may still commit, at most `MAX_ENDS`."""
        return max(min(state.node_budget - len(state.visited), MAX_ENDS), 0)

    async def _read(
        self,
        state: WalkState[A],
        store: Walkable,
        ids: Sequence[Id] = (),
        needed: Sequence[Id] = (),
        limit: int | None = None,
        *,
        followed: Sequence[Id] = (),
        looks_ahead: bool = True,
        parts: Sequence[Part] = (),
    ) -> None:
        """Read about artifacts, and the links of others with what lies at their ends.

        That is one store call at most.

        Args:
            state: The state of the walk.
            store: The corpus.
            ids: The artifacts to score.
            needed: The artifacts whose records are needed.
            limit: How many of those that are scored need records, the nearest first; `None` for all.
            followed: The artifacts whose links are needed.
            looks_ahead: Whether to score what lies at the ends of these links.
            parts: What else to read.
        """
        memory, parts = state.memory, [*parts]
        if self._compares:
            await memory.embed_query(store)
        if followed and looks_ahead:
            expected = [id for id in self._list_expected(memory) if id not in memory.edges and id not in followed]
            ids, needed, followed = [*ids, *expected], [*needed, *expected], [*followed, *expected]
        if new_ids := memory.find_new(ids):
            parts += self._ask_surfaces(state, new_ids, limit)
        missing = memory.find_missing(needed)
        if missing:
            parts.append(memory.ask_records(missing))
        if followed:
            edges = self._ask_edges(followed)
            parts.append(memory.ask_edges(edges))
            if looks_ahead:
                parts += self._ask_surfaces(state, memory.ends_of(edges, state.visited), self._count_ahead(state))
        await memory.read(store, parts)

    def _list_expected(self, memory: A) -> Sequence[Id]:
        """Return artifacts that wait, and are likely to be committed soon."""
        return ()

    async def _read_start(self, state: WalkState[A], ids: Sequence[Id], corpus: Walkable) -> None:
        """Read scores and records of the start, and what follows it, in one call."""
        if not 0 < len(ids) <= MAX_START:
            return
        followed: list[Id] = []
        if self.scope.cross is None:  # else it is not known yet which links may be followed
            entries = [CommittedNode(ArtifactNode(id), id, 0, 0.0, None) for id in ids]
            followed = [entry.id for entry in self._filter_followed(state, entries)]
        # Links may lead to what the search has found: a hit may show it, or a scope need it.
        passages = state.memory.passages if state.memory.keeps_records else ()
        await self._read(state, corpus, ids, [*ids, *islice(passages, MAX_START)], followed=followed)

    async def _read_hits(self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable) -> None:
        """Read the records that hits lack and, if there are any, what follows these hits."""
        memory = state.memory
        kept = memory.list_kept(committed)
        if memory.find_new(kept) or memory.find_missing(kept):
            # Many artifacts are worth a call of their own, and may be the last that the budget allows.
            followers = self._filter_followed(state, committed) if len(committed) <= MAX_START else ()
            followed = [entry.node.id for entry in followers]
            await self._read(state, store, kept, kept, followed=[id for id in followed if id not in memory.edges])

    async def _read_edges(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[EdgeRow]:
        """Return the edges of each artifact within the walked corpora; one store call at most."""
        edges, ids = state.memory.edges, [entry.node.id for entry in committed]
        missing = [id for id in ids if id not in edges]
        await self._read(state, store, followed=missing, looks_ahead=not self._is_counting(state, committed))
        return [edges.pop(id) for id in ids]

    def _filter_followed(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes that the walk is likely to expand."""
        most = state.limits.max_hits
        is_last = most is not None and len(state.results) + len(committed) >= most
        if is_last or len(state.visited) >= state.node_budget:
            return []
        crossable = state.memory.filter_crossable(committed)
        return [entry for entry in crossable if state.max_depth is None or entry.depth < state.max_depth]

    def _is_counting(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> bool:
        """Return whether the operator only counts what lies beyond a limit."""
        is_deep = state.max_depth is not None and any(entry.depth >= state.max_depth for entry in committed)
        return is_deep or len(state.visited) >= state.node_budget


@dataclass(frozen=True, kw_only=True)
class SearchParameters:
    """The parameters of a policy that starts from a search and follows links or shared fields.

    Args:
        seeding: How to find the start: by `"dense"`, `"lexical"` or `"hybrid"` search, or by `"titles"` in the query.
            By default `"hybrid"`, or the one channel that the store has. Of a tuple such as `("titles", "hybrid")`,
            each way finds as many artifacts as the policy starts from; those of the first come first.
        roots: Ids of further artifacts to start from; in several corpora, `(source, id)` pairs. The walk raises a
            `NoLedgerEntry` if one does not exist.
        edges: Fields to follow instead of links. A list of pairs such as `("keywords", "keywords")`: each value of the
            first field leads to the artifacts whose second field equals or contains it. Or a function of a `Record`
            that returns `(field, value)` pairs. The field `"$id"` is the id.
        direction: Follow links `"both"` ways, `"out"` or `"in"` (backlinks).
        types: Follow links of these types only; `None` for all types.
        operators: Read operators in the query, as `airw.search` does: they choose where the walk starts, and links may
            lead on to any artifact.
        scope: The artifacts that may be started from, crossed and returned.
        max_depth: The depth cap if the caller of `traverse` passes none; `None` for no cap.
    """

    seeding: Seeding | None = None
    roots: Sequence[NodeIdLike] = ()
    edges: FieldEdges | None = None
    direction: Direction = "both"
    types: Sequence[str] | None = None
    operators: bool = False
    scope: Scope = ALLOW_ALL
    max_depth: int | None = None


class SearchingPolicy(ArtifactPolicy[A]):
    """A policy that starts from a search and follows links or shared fields.

    By default a walk starts from a hybrid search, and follows links both ways. A walk that starts from a search needs
    a query that is not blank. A subclass has the fields of `SearchParameters`.
    """

    seeding: Seeding | None
    roots: Sequence[NodeIdLike]
    edges: FieldEdges | None
    direction: Direction
    types: Sequence[str] | None

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "seeding", check_seeding(self.seeding))
        check_choice("direction", self.direction, DIRECTIONS)
        check_edges(self.edges)
        object.__setattr__(self, "roots", check_nodes("roots", self.roots))
        if self.types is not None:
            object.__setattr__(self, "types", check_strings("types", self.types))
        if self.edges is not None and self.types is not None:
            raise ArgumentError(
                "types filters links, but edges follows fields instead; pass fewer pairs of fields in edges"
            )
        if self.edges is not None and self.direction != type(self).direction:
            raise ArgumentError(
                "direction is for links, but edges follows fields instead; swap the fields of a pair in edges"
            )
        self._check_shared()

    @property
    @override
    def _reads_fields(self) -> bool:
        return self.edges is not None or super()._reads_fields

    async def _find_start(self, state: WalkState[A], corpus: Walkable, k: int) -> list[ArtifactNode]:
        """Return `k` artifacts found by the seeding, and the roots."""
        if self.edges is not None:
            require(corpus, "matching", self._name, "edges=...")
        filter = self.scope.start_filter
        ids = await find_start(
            state.memory, corpus, self._name, k=k, seeding=self.seeding, roots=self.roots, filter=filter
        )
        await self._read_start(state, ids, corpus)
        return [ArtifactNode(id) for id in ids]

    @override
    def _ask_edges(self, ids: Sequence[Id]) -> Edges:
        return Edges(ids, self.direction, LinkFilter(types=self.types))

    @override
    def _count_ahead(self, state: WalkState[A]) -> int | None:
        # With fields, records say which artifacts a step finds.
        return super()._count_ahead(state) if self.edges is None or self.scope != ALLOW_ALL else MAX_START

    @override
    def _filter_followed(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        return [] if self.edges is not None else super()._filter_followed(state, committed)

    async def follow(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[LazyNeighbors]:
        """Return the neighbours along links or shared fields; two store calls at most."""
        rows = await self._find_edges(state, committed, store)
        return [NeighborValues(row.ends, partial(_make_nodes, row)) for row in rows]

    async def _find_edges(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> Sequence[EdgeRow]:
        """Return the edges that lead on from each artifact.

        One store call, and with `edges` one more for the records that are not kept.
        """
        if self.edges is None:
            return await self._read_edges(state, committed, store)
        memory, edges = state.memory, self.edges
        # 1. Read the field values, without a call unless routers are among the artifacts. If artifacts of one step
        #    share a value, the shallowest one comes first.
        ids = [entry.id for entry in sorted(committed, key=lambda entry: entry.depth)]
        records = zip(ids, await memory.best_records(ids, store), strict=True)
        values_of = {
            id: self._choose_values(memory, [] if record is None else field_values(id, record, edges, store))
            for id, record in records
        }
        # 2. The store is asked about each of them once per walk.
        artifacts = memory.artifacts_by_value
        new_values = {value.key: value for own in values_of.values() for value in own if value.key not in artifacts}
        artifacts.update(await find_artifacts(list(new_values.values()), store.store))
        return [edges_from(entry.id, values_of[entry.id], artifacts) for entry in committed]

    def _choose_values(self, memory: A, values: list[FieldValue]) -> list[FieldValue]:
        """Return the field values of an artifact that are followed."""
        return values

    @override
    def _are_excluded(self, state: WalkState[A], ids: Sequence[Id]) -> list[bool]:
        excluded = super()._are_excluded(state, ids)
        if self.edges is None:
            return excluded
        # An artifact without surfaces has no fields.
        return [out or not state.memory.has_surface(id) for id, out in zip(ids, excluded, strict=True)]


def _make_nodes(row: EdgeRow, part: slice) -> list[ArtifactNode]:
    """Return a node for the other end of each edge in a part of a row."""
    return list(map(_new_node, zip(row.ends[part], repeat(row), range(len(row))[part])))
