"""The base class of policies whose nodes are artifacts."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count, check_strings
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.errors import ArgumentError
from airw.links.columns import LinkColumnReader, Numbers
from airw.links.inverses import FollowedLinks
from airw.policies._capabilities import Walkable, require
from airw.policies._columns import has_numbers, speaks_columns
from airw.policies._read_ahead import MAX_ENDS, MAX_START, ReadOptions
from airw.policies._roots import check_roots
from airw.policies._seeding import Seeding, check_seeding, find_start
from airw.policies._several_corpora import Id, check_nodes, other_ends
from airw.policies._shared_fields import Edges, FieldValue, check_edges, edges_from, field_values, find_artifacts
from airw.policies.artifact_memory import A, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import OpenCorpus, RecordLookup, StepReader
from airw.stores.steps import reads_steps
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeId, NodeIdLike, SearchHit
from airw.walking import Columns, CommittedNode, CommittedNodes, Frontier, Policy, WalkState

_OFFLOAD_ABOVE = 1_000  # links; handling so many takes about two milliseconds


class ArtifactNode(NamedTuple):
    """A node of the walk: an artifact, and the edge that led to it."""

    id: Id
    edge: Edge | None = None


@dataclass(frozen=True, kw_only=True)
class ArtifactPolicy(Policy[A]):
    """A policy whose nodes are artifacts, joined by links or by shared fields.

    An artifact scores by the cosine of its best surface to the query; that surface is also the hit. A subclass adds
    `seed`, `select` and `stop`. A step costs at most three store calls: for neighbours, scores and records.

    By default a walk starts from a hybrid search, and follows links both ways. A walk that starts from a search needs
    a query that is not blank.

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
        scope: The artifacts that may be started from, crossed and returned.
        max_depth: The depth cap if the caller of `traverse` passes none; `None` for no cap.
    """

    seeding: Seeding | None = None
    roots: Sequence[NodeIdLike] = ()
    edges: Edges | None = None
    direction: Direction = "both"
    types: Sequence[str] | None = None
    scope: Scope = ALLOW_ALL
    max_depth: int | None = None
    speaks_columns = True

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
        check_scope(self.scope)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)

    @property
    def _name(self) -> str:
        return type(self).__name__

    @property
    def _reads_fields(self) -> bool:
        return self.edges is not None or self.scope != ALLOW_ALL

    async def _find_start(self, state: WalkState[A], corpus: Walkable, k: int) -> list[ArtifactNode]:
        """Return the start of the walk: `k` artifacts found by the seeding, and the roots."""
        if self.edges is not None:
            require(corpus, "matching", self._name, "edges=...")
        filter = self.scope.start_filter
        ids = await find_start(
            state.memory, corpus, self._name, k=k, seeding=self.seeding, roots=self.roots, filter=filter
        )
        await self._read_start(state, ids, corpus)
        return [ArtifactNode(id) for id in ids]

    async def _to_seeds(self, state: WalkState[A], nodes: list[Any], corpus: Walkable) -> list[Any] | Numbers:
        """Return the start of the walk as numbers if it is to be in columns, else as it is."""
        may_use_numbers = self.edges is None and state.may_use_numbers and speaks_columns(self)
        if may_use_numbers and has_numbers(corpus.store) and not reads_steps(corpus.store):
            links = FollowedLinks(direction=self.direction, filter=LinkFilter(types=self.types), inverses=None)
            reader = LinkColumnReader(corpus.store, links, str)
            numbers = await reader.find_numbers([node.id for node in nodes])
            if len(numbers) == len(nodes):  # else a root is unknown
                state.memory.reader = reader
                return numbers
        return nodes

    async def score(
        self, state: WalkState[A], nodes: Sequence[ArtifactNode] | Numbers, store: Walkable
    ) -> NDArray[np.float64]:
        """Score by the cosine of the best surface; one store call if an artifact is new."""
        ids = state.memory.ids_of(nodes)
        scores = await state.memory.score(ids, store)
        await check_roots(state.memory, store)
        await state.memory.apply_scope(ids, store)
        return scores

    async def expand(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[Any]] | Columns:
        """Return the neighbours of each artifact that may be crossed; one store call."""
        crossable = self._filter_crossable(state.memory, committed)
        if state.memory.reader is not None:
            return await self._read_columns(state.memory, crossable, cast("CommittedNodes", committed))
        neighbors = await self._neighbors(state, crossable, store)
        if len(crossable) == len(committed):
            return neighbors
        neighbors_of = dict(zip((entry.id for entry in crossable), neighbors, strict=True))
        return [neighbors_of.get(entry.id, []) for entry in committed]

    def _filter_crossable(self, memory: A, committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes whose neighbours are to be read."""
        return memory.filter_crossable(committed)

    async def _read_columns(self, memory: A, crossable: Sequence[CommittedNode], committed: CommittedNodes) -> Columns:
        """Return the neighbours of the artifacts that may be crossed, as columns."""
        reader, numbers = cast("LinkColumnReader", memory.reader), cast("Numbers", committed.nodes)
        if len(crossable) < len(committed):
            # The number -1 has no neighbours.
            crossable_ids = {entry.id for entry in crossable}
            numbers = np.where([id in crossable_ids for id in committed.ids], numbers, -1)
        links, offsets = await reader.read(numbers)
        return Columns(links.ends, offsets, partial(reader.make_edges, links), partial(reader.find_types, links))

    async def name_nodes(self, state: WalkState[A], numbers: Numbers, store: Walkable) -> list[NodeId]:
        """Return the ids of artifacts by their numbers in a walk in columns."""
        return state.memory.ids_of(numbers)

    async def _neighbors(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        """Return the neighbours of each artifact.

        One store call, and with `edges` one more for the records that are not kept.
        """
        if self.edges is not None:
            return await self._neighbors_by_fields(state, committed, store, self.edges)
        ids: list[Id] = [entry.node.id for entry in committed]
        edges = await self._read_edges(state, committed, store)
        return await offload_if(sum(map(len, edges)) > _OFFLOAD_ABOVE, _other_nodes, ids, edges)

    # A store that reads steps is asked once a step: when hits are made, or, if their records are known, for the edges.

    @property
    def _read_options(self) -> ReadOptions:
        """The data to read about the other ends with the edges of a step."""
        return ReadOptions(max_records=MAX_ENDS if self.scope != ALLOW_ALL else 0)

    async def _read_start(self, state: WalkState[A], ids: Sequence[Id], corpus: Walkable) -> None:
        """Read the records of the start, and what follows it, in one call if the store can."""
        if ids and len(ids) <= MAX_START and reads_steps(corpus.store):
            nodes = [CommittedNode(ArtifactNode(id), id, 0, 0.0, None) for id in ids]
            await self._read_ahead(state, self._filter_followed(state, nodes), ids, corpus)

    async def _read_step(self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable) -> None:
        """Read the records of committed nodes and what follows them, if one call can."""
        memory = state.memory
        if memory.reader is not None or not reads_steps(store.store):
            return
        kept = [entry.id for entry in committed if memory.permissions_of(entry.id).keep]
        hit_ids = [id for id in kept if not memory.has_record(id)]
        followed = self._filter_followed(state, committed)
        # What is known needs no call, and records alone have a method of their own.
        if hit_ids and (followed or not memory.best_surfaces.keys() >= set(hit_ids)):
            if followed:
                likely = memory.filter_crossable(memory.ahead.likely)
                followed = [*followed, *likely]
                hit_ids += [entry.id for entry in likely if not memory.has_record(entry.id)]
            await self._read_ahead(state, followed, hit_ids, store)

    async def _read_ahead(
        self, state: WalkState[A], followed: Sequence[CommittedNode], hit_ids: Sequence[Id], store: Walkable
    ) -> None:
        memory, ids = state.memory, [entry.id for entry in followed]
        await memory.read_step(
            [id for id in ids if id not in memory.ahead.edges],
            hit_ids,
            cast("StepReader", store.store),
            query=await memory.embed_query(store),
            links=self._links,
            options=self._read_options,
            visited=state.visited,
        )

    async def _read_edges(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[Edge]]:
        """Return the edges of each artifact; one store call at most."""
        reads_more = reads_steps(store.store) and not self._is_counting(state, committed)

        async def read_step(ids: list[Id]) -> None:
            missing = set(ids)
            await self._read_ahead(state, [entry for entry in committed if entry.id in missing], [], store)

        ids = [entry.node.id for entry in committed]
        edge_reader = require(store, "neighbors", self._name)
        return await state.memory.ahead.read_edges(ids, edge_reader, self._links, read_step if reads_more else None)

    @property
    def _links(self) -> dict[str, Any]:
        return {"direction": self.direction, "types": self.types}

    def _filter_followed(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> Sequence[CommittedNode]:
        """Return the committed nodes that the walk is likely to expand."""
        most = state.limits.max_hits
        is_last = most is not None and len(state.results) + len(committed) >= most
        if self.edges is not None or is_last or len(state.visited) >= state.node_budget:
            return []
        crossable = state.memory.filter_crossable(committed)
        return [entry for entry in crossable if state.max_depth is None or entry.depth < state.max_depth]

    def _is_counting(self, state: WalkState[A], committed: Sequence[CommittedNode]) -> bool:
        """Return whether the operator only counts what lies beyond a limit."""
        is_deep = state.max_depth is not None and any(entry.depth >= state.max_depth for entry in committed)
        return is_deep or len(state.visited) >= state.node_budget

    async def _neighbors_by_fields(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable, edges: Edges
    ) -> list[list[ArtifactNode]]:
        """Return the artifacts that the field values of each artifact lead to.

        The store is asked about each field value once per walk.
        """
        values_of, artifacts = await self._field_values(state, committed, store, edges), state.memory.artifacts_by_value
        new_values = {
            value.key: value for values in values_of.values() for value in values if value.key not in artifacts
        }
        matcher = require(store, "matching", self._name, "edges=...")
        artifacts.update(await find_artifacts(list(new_values.values()), matcher))
        neighbors = [to_nodes(entry.node.id, values_of[entry.node.id], artifacts) for entry in committed]
        await self._read_found(state, committed, neighbors, store)
        return neighbors

    async def _read_found(
        self,
        state: WalkState[A],
        committed: Sequence[CommittedNode],
        neighbors: Sequence[Sequence[ArtifactNode]],
        store: Walkable,
    ) -> None:
        """Read the records of a few new artifacts in one call if the store can."""
        options, memory = self._read_options, state.memory

        def find_new(neighbors: Iterable[Sequence[ArtifactNode]]) -> list[Id]:
            ids = dict.fromkeys(node.id for nodes in neighbors for node in nodes)
            if options.with_vectors:
                return [id for id in ids if id not in state.visited and id not in memory.ahead.vectors_read]
            return [id for id in ids if not memory.has_record(id)]

        new_ids = find_new(neighbors)
        is_few = 0 < len(new_ids) <= MAX_START
        if is_few and reads_steps(store.store) and not self._is_counting(state, committed):
            more = [id for id in find_new(self._likely_neighbors(state, store)) if id not in new_ids]
            await self._read_ahead(state, [], [*new_ids, *more][:MAX_START], store)

    def _likely_neighbors(self, state: WalkState[A], store: Walkable) -> list[list[ArtifactNode]]:
        """Return the neighbours of likely choices that are known without a call."""
        return []

    async def _field_values(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: OpenCorpus[RecordLookup], edges: Edges
    ) -> dict[Id, list[FieldValue]]:
        """Return the field values that lead on from each artifact.

        The store is called only for routers: the records of hits were read before.
        """
        ids = [entry.node.id for entry in committed]
        records = zip(ids, await state.memory.best_records(ids, store), strict=True)
        return {id: [] if record is None else field_values(id, record, edges, store) for id, record in records}

    def _selectable(self, state: WalkState[A], frontier: Frontier) -> NDArray[np.intp]:
        """Return the live positions that are not excluded, and drop the excluded ones."""
        if not self._reads_fields:
            return frontier.live
        return selectable(state.memory, frontier, lambda ids: self._are_excluded(state, ids))

    def _are_excluded(self, state: WalkState[A], ids: Sequence[Id]) -> list[bool]:
        """Return for each artifact whether it is excluded.

        The scope may exclude it. With `edges`, an artifact without surfaces is excluded too: it has no fields.
        """
        excluded = state.memory.are_excluded(ids, is_start=not state.visited)
        if self.edges is None:
            return excluded
        return [out or not state.memory.has_surface(id) for id, out in zip(ids, excluded, strict=True)]

    @override
    def node_id(self, node: ArtifactNode) -> Id:
        return node.id

    @override
    def edge_of(self, node: ArtifactNode) -> Edge | None:
        return node.edge

    async def to_hits(
        self, state: WalkState[A], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return each artifact's best surface as its hit; one store call."""
        await self._read_step(state, committed, store)
        return await state.memory.make_hits(committed, [entry.score for entry in committed], store)


def _other_nodes(ids: Sequence[Id], edges: Sequence[Sequence[Edge]]) -> list[list[ArtifactNode]]:
    """Return a node for the other end of each edge."""
    return [list(map(ArtifactNode, *other_ends(id, id_edges))) for id, id_edges in zip(ids, edges, strict=True)]


def to_nodes(id: Id, values: Sequence[FieldValue], artifacts: Mapping[Hashable, Sequence[Id]]) -> list[ArtifactNode]:
    """Return a node, with its edge, for each artifact that the field values lead to."""
    return [ArtifactNode(edge.target, edge) for edge in edges_from(id, values, artifacts)]
