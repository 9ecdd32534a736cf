"""The policy `LinkWalk`: all links in a fixed order, without a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress, repeat
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_choice, check_count
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import is_newer, override
from airw.errors import ArgumentError
from airw.links import Inverses
from airw.links.columns import LinkColumnReader, LinkColumns, Numbers, returns_columns
from airw.links.costs import COST_EPSILON, COST_SCALE, artifact_value, link_cost
from airw.links.inverses import FollowedLinks
from airw.policies._capabilities import require
from airw.policies._columns import speaks_columns
from airw.policies._read_ahead import MAX_ENDS, MAX_START, ReadOptions
from airw.policies._roots import unknown_root
from airw.policies._seeding import Seeding, check_seeding, find_start
from airw.policies._several_corpora import Id, check_nodes, is_lost, member_ranks, order_key, other_ends, root_ids
from airw.policies.artifact_memory import ArtifactMemory, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import FirstSurfaceReader, FirstSurfaces, GraphStore, OpenCorpus
from airw.retrieval import check_corpus
from airw.stores.steps import reads_steps
from airw.values import DIRECTIONS, Direction, Edge, HitBatch, LinkFilter, NodeId, NodeIdLike, SearchHit
from airw.values.hits import keep_fields
from airw.walking import Columns, CommittedNode, CommittedNodes, Frontier, LazyNeighbors, Policy, WalkState

_START_K = 4
_OFFLOAD_ABOVE = 2_000  # link steps; handling this many takes about a millisecond


class LinkStep(NamedTuple):
    """The last step of a path to an artifact.

    Args:
        id: The artifact.
        edge: The edge that leads to it; `None` at the start.
        cost: The cost of the path to the beginning of that edge, in units of `1 / COST_SCALE`.
    """

    id: Any
    edge: Edge | None = None
    cost: float = 0


_new_link_step = partial(tuple.__new__, LinkStep)  # takes half the time of `LinkStep(...)`, and runs per neighbour
_LinkSteps: TypeAlias = LazyNeighbors | list[LinkStep]


@dataclass(slots=True, eq=False)
class LinkMemory(ArtifactMemory):
    """The memory of one walk along links.

    Args:
        hops: In a walk in columns, the hops from the start to the artifacts discovered last.
    """

    hops: int = 0


State: TypeAlias = WalkState[LinkMemory]


@dataclass(frozen=True, kw_only=True)
class LinkWalk(Policy[LinkMemory]):
    """Walk breadth-first along links from the roots and from artifacts found by search.

    The neighbours of an artifact are ordered by edge type, then by the id at the other end. Artifacts are committed in
    order of discovery. That order is final when it streams, and it is the order of `walk.ranking`. A hit is the first
    surface of an artifact. Its score is minus the cost of the path, which is the number of hops; 0 at the start. An
    artifact without surfaces is a router. A link to another corpus is followed if that corpus is walked too, see
    `FederatedCorpus`. A walk from roots alone embeds nothing and reads no vectors.

    With `inverses`, a link that is walked backwards has the name of its inverse. This name is compared with `types` and
    `exclude`, and orders the neighbours: a note that supports another one is reached from there as `supported-by`. The
    origin and the cost remain those of the stored link, and so does the edge in hits and events.

    With `weighted`, an edge costs `t * (1 + (100 - v) / 100)`. `t` is 0.5 for structure and identity (`part-of`,
    `has-part`, `follows`, `precedes`, `same-as`, `alias-of`, `has-alias`) and 1 for other types. `v` is the field
    `value` of the artifact it leads to, from 0 to 100; 50 if there is no such number. These are the costs of qipu's
    `link tree`. Artifacts are committed in order of cost, each by the cheapest path over artifacts committed before it.
    The algorithm is Dijkstra's (A Note on Two Problems in Connexion with Graphs, 1959). Depth and parent are those of
    that path. Of paths with equal costs the one with fewer hops counts, then the one discovered first; artifacts with
    equal costs are ordered the same way. The depth cap counts the hops of the cheapest path, even if a dearer path is
    shorter.

    Args:
        roots: Ids of artifacts to start from; in several corpora, `(source, id)` pairs.
        direction: Follow links `"both"` ways, `"out"` or `"in"` (backlinks).
        types: Follow links of these types only; `None` for all types.
        exclude: Follow no links of these types.
        origins: Follow links of these origins only: `"typed"`, `"inline"`, `"derived"`; `None` for all.
        inverses: The names of links that are walked backwards; `None` for the stored names.
        weighted: Order by cost instead of hops.
        start_k: The number of artifacts to start from after the roots, found by the seeding. By default 4 without roots
            and 0 with roots.
        seeding: How to find them: by `"dense"`, `"lexical"` or `"hybrid"` search, or by `"titles"` in the query. By
            default `"hybrid"`, or the one channel that the store has. Several ways: see `ArtifactPolicy`.
        scope: The artifacts that may be started from, crossed and returned; applied to first surfaces.
        max_depth: The depth cap if the caller of `traverse` passes none; `None` for no cap.

    Raises:
        ArgumentError: If a parameter cannot be used.
        NoLedgerEntry: If the corpus does not contain one of the roots; raised by the walk.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.links import MarkdownLinks
        >>> notes = {"a.md": "[[c]] and [[b]]", "b.md": "See [d](d.md).", "c.md": "A leaf.", "d.md": "The end."}
        >>> async def main():
        ...     source = from_mapping(notes, name="notes", embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         async for hit in traverse("", corpus, policy=LinkWalk(roots=["a.md"], direction="out")):
        ...             print(hit.artifact_id, hit.score, hit.metadata["walk_parent"])
        >>> anyio.run(main)
        a.md 0.0 None
        b.md -1.0 a.md
        c.md -1.0 a.md
        d.md -2.0 b.md
    """

    roots: Sequence[NodeIdLike] = ()
    direction: Direction = "both"
    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None
    inverses: Inverses | None = None
    weighted: bool = False
    start_k: int | None = None
    seeding: Seeding | None = None
    scope: Scope = ALLOW_ALL
    max_depth: int | None = 2
    speaks_columns = True

    def __post_init__(self) -> None:
        """Check the parameters."""
        check_choice("direction", self.direction, DIRECTIONS)
        object.__setattr__(self, "seeding", check_seeding(self.seeding))
        if self.start_k is not None:
            check_count("start_k", self.start_k, most=MAX_HITS)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)
        object.__setattr__(self, "roots", check_nodes("roots", self.roots))
        for name, value in self._filter.options().items():
            object.__setattr__(self, name, value)
        if not (self.inverses is None or isinstance(self.inverses, Inverses)):
            raise ArgumentError(
                f"inverses must be Inverses such as airw.links.INVERSES, or None, not {short_repr(self.inverses)}"
            )
        if not isinstance(self.weighted, bool):
            raise ArgumentError(f"weighted must be True or False, not {short_repr(self.weighted)}")
        check_scope(self.scope)

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override]  # read-only, because it depends on `weighted`
        """True if weighted: paths wait until no cheaper path is possible."""
        return self.weighted

    @property
    def scores_paths(self) -> bool:  # type: ignore[override]  # read-only, because it depends on `weighted`
        """True if weighted: all paths to an artifact are compared."""
        return self.weighted

    @property
    def _filter(self) -> LinkFilter:
        return LinkFilter(types=self.types, exclude=self.exclude, origins=self.origins)

    @property
    def _reads_fields(self) -> bool:
        return self.weighted or self.scope != ALLOW_ALL

    @override
    def begin(self, state: State) -> LinkMemory:
        return LinkMemory(state.query, self.scope, keeps_records=True)

    async def seed(self, state: State, store: OpenCorpus[GraphStore]) -> list[LinkStep] | Numbers:
        """Return the roots and the artifacts that the search finds.

        One store call besides those of the search. The answer is an array of numbers if the store returns links as
        columns; the walk is then in columns.
        """
        memory, corpus = state.memory, check_corpus(store)
        require(corpus, "records_of", "LinkWalk")
        default_k = 0 if self.roots else _START_K
        k = default_k if self.start_k is None else self.start_k
        found_ids = await find_start(
            memory, corpus, "LinkWalk", k=k, seeding=self.seeding, filter=self.scope.start_filter
        )
        memory.best_surfaces.clear()  # a hit is the first surface, not the best one that the search has remembered
        roots = root_ids(self.roots, corpus)
        ids = list(dict.fromkeys([*roots, *found_ids]))
        if len(ids) <= MAX_START:
            await self._read_step(state, ids, ids if state.max_depth != 0 else [], corpus)
        missing_ids = await _read_first_surfaces(memory, ids, corpus)
        for id in missing_ids:
            if id in roots and not is_lost(id, corpus):
                raise await unknown_root(id, corpus)
        ids = [id for id in ids if id not in missing_ids]
        # An artifact that may not be a start can still be reached later, so it must not become a seed.
        if self.scope.start is not None:
            memory.apply_scope_to_records(ids, memory.records_in_memory(ids))
        may_use_numbers = state.may_use_numbers and not self._reads_fields and speaks_columns(self)
        if not may_use_numbers or reads_steps(corpus.store) or not returns_columns(corpus.store):
            return [LinkStep(id) for id in ids if memory.permissions_of(id).start]
        links = FollowedLinks(direction=self.direction, filter=self._filter, inverses=self.inverses)
        memory.reader = LinkColumnReader(corpus.store, links, str)
        return await memory.reader.find_numbers(ids)

    async def score(
        self, state: State, nodes: Sequence[LinkStep] | Numbers, store: OpenCorpus[GraphStore]
    ) -> NDArray[np.float64]:
        """Score by minus the cost; one store call if fields are needed, else none."""
        memory = state.memory
        if isinstance(nodes, np.ndarray):
            return np.full(len(nodes), 0.0 - memory.hops)
        if self._reads_fields:
            ids = list(dict.fromkeys(node.id for node in nodes))
            await _read_first_surfaces(memory, ids, store)
            if self.scope != ALLOW_ALL:
                memory.apply_scope_to_records(ids, memory.records_in_memory(ids))
        return await offload_if(len(nodes) > _OFFLOAD_ABOVE, self._scores, memory, nodes)

    def _scores(self, memory: ArtifactMemory, nodes: Sequence[LinkStep]) -> NDArray[np.float64]:
        costs = np.array([self._cost(memory, node) for node in nodes], np.float64)
        scores: NDArray[np.float64] = 0.0 - costs / COST_SCALE  # `-costs` would be -0.0 at the start
        return scores

    def _cost(self, memory: ArtifactMemory, step: LinkStep) -> float:
        """Return the cost of the path to the end of a step, in units of `1 / COST_SCALE`."""
        if step.edge is None:
            return step.cost
        if not self.weighted:
            return step.cost + COST_SCALE
        [record] = memory.records_in_memory([step.id])
        return step.cost + link_cost(step.edge.type, artifact_value(record))

    async def select(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        """Commit all artifacts in order of discovery or, if weighted, those whose cost is final."""
        if not self._reads_fields:
            return frontier.live
        return await offload_if(len(frontier.live) > _OFFLOAD_ABOVE, self._positions_to_commit, state, frontier)

    def _positions_to_commit(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        live = frontier.live
        if self.scope != ALLOW_ALL:
            live = selectable(state.memory, frontier, partial(state.memory.are_excluded, is_start=not state.visited))
        return _select_cheapest(frontier, live) if self.weighted and len(live) else live

    async def expand(
        self, state: State, committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[_LinkSteps] | Columns:
        """Return the steps that lead on from each artifact; one store call."""
        if state.memory.reader is not None:
            links, offsets = await self._read_links(state, committed, state.memory.reader)
            make_edges = partial(state.memory.reader.make_edges, links)
            return Columns(links.ends, offsets, make_edges, partial(state.memory.reader.find_types, links))
        crossable = state.memory.filter_crossable(committed)
        edges = await self._read_edges(state, crossable, store)
        key = order_key(member_ranks(store))
        starts = [entry.node for entry in crossable]
        is_long = sum(map(len, edges)) > _OFFLOAD_ABOVE
        steps = await offload_if(is_long, self._steps_from, state.memory, starts, edges, key)
        steps_of = dict(zip((entry.id for entry in crossable), steps, strict=True))
        return [steps_of.get(entry.id, []) for entry in committed]

    async def _read_edges(
        self, state: State, crossable: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[list[Edge]]:
        """Return the edges of each artifact; one store call at most."""
        # Without fields, what lies at the other ends is read when it is committed.
        is_counting = not self._filter_followed(state, crossable)
        reads_more = self._reads_fields and reads_steps(store.store) and not is_counting

        async def read_step(ids: list[Id]) -> None:
            await self._read_step(state, [], ids, store)

        ids: list[Id] = [entry.node.id for entry in crossable]
        edge_reader = require(store, "neighbors", "LinkWalk")
        return await state.memory.ahead.read_edges(ids, edge_reader, self._links, read_step if reads_more else None)

    @property
    def _links(self) -> dict[str, Any]:
        by_name = self._links_by_name
        return {
            "direction": self.direction,
            **(self._filter if by_name is None else by_name.to_store_filter()).options(),
        }

    def _filter_followed(self, state: State, committed: Sequence[CommittedNode]) -> list[Id]:
        """Return the committed artifacts that the walk will expand."""
        if len(state.visited) >= state.node_budget:
            return []
        crossable = state.memory.filter_crossable(committed)
        return [entry.node.id for entry in crossable if state.max_depth is None or entry.depth < state.max_depth]

    async def _read_step(
        self, state: State, hit_ids: Sequence[Id], ids: Sequence[Id], store: OpenCorpus[GraphStore]
    ) -> None:
        """Read first records and edges of artifacts, in one call if the store can."""
        if (hit_ids or ids) and reads_steps(store.store):
            most = MAX_ENDS if self._reads_fields else 0
            await state.memory.read_step(
                ids,
                hit_ids,
                store.store,
                query=None,
                links=self._links,
                options=ReadOptions(max_ends=most, max_records=most),
                visited=state.visited,
            )

    async def _read_links(
        self, state: State, committed: Sequence[CommittedNode], reader: LinkColumnReader
    ) -> tuple[LinkColumns, Numbers]:
        """Return the links that lead on, and where those of each artifact begin; one store call."""
        nodes = cast("CommittedNodes", committed)
        state.memory.hops = int(nodes.depths[0]) + 1  # all nodes of a step are equally far from the start
        return await reader.read(cast("Numbers", nodes.nodes))

    async def name_nodes(self, state: State, numbers: Numbers, store: OpenCorpus[GraphStore]) -> list[NodeId]:
        """Return the ids of artifacts by their numbers in a walk in columns."""
        return cast("LinkColumnReader", state.memory.reader).find_ids(numbers)

    @property
    def _links_by_name(self) -> "_LinksByName | None":
        """The filter and order of links by name; `None` if the stored types are the names."""
        if self.inverses is None or self.direction == "out":
            return None
        return _LinksByName(self.inverses, self.direction, self._filter)

    def _steps_from(
        self,
        memory: ArtifactMemory,
        starts: Sequence[LinkStep],
        edges: Sequence[Sequence[Edge]],
        key: Callable[[Id], Any],
    ) -> list[_LinkSteps]:
        ids, links_by_name = [start.id for start in starts], self._links_by_name
        ends_and_edges = map(other_ends, ids, edges) if links_by_name is None else links_by_name.select(ids, edges, key)
        costs = [self._cost(memory, start) for start in starts]
        return [
            _steps_along(ends, id_edges, cost) for (ends, id_edges), cost in zip(ends_and_edges, costs, strict=True)
        ]

    @override
    def node_id(self, node: LinkStep) -> Id:
        return node.id

    @override
    def edge_of(self, node: LinkStep) -> Edge | None:
        return node.edge

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> Sequence[SearchHit | None]:
        """Return each artifact's first surface; one store call, none if fields were needed before."""
        memory = state.memory
        ids: list[Any] = (
            [entry.id for entry in committed] if memory.reader is None else cast("CommittedNodes", committed).ids
        )
        if memory.reader is not None and not memory.best_surfaces.keys() >= set(ids):
            return await _make_first_hits(ids, cast("CommittedNodes", committed).scores, store)
        new_ids = [id for id in ids if not memory.has_record(id)]
        if new_ids and reads_steps(store.store):
            followed = [id for id in self._filter_followed(state, committed) if id not in memory.ahead.edges]
            await self._read_step(state, new_ids, followed, store)
        await _read_first_surfaces(memory, ids, store)
        hits = [
            None
            if record is None or not memory.permissions_of(entry.id).keep
            else record.as_hit(entry.score, store.name)
            for entry, record in zip(committed, memory.records_in_memory(ids), strict=True)
        ]
        # Without `weighted` and a scope, nothing reads these records a second time.
        if not self._reads_fields:
            for id in ids:
                memory.records.pop(memory.best_surfaces[id][0] or "", None)
        return hits


async def _make_first_hits(ids: Sequence[str], scores: NDArray[np.float64], corpus: OpenCorpus[GraphStore]) -> HitBatch:
    """Return the first surface of each artifact as a hit; one store call."""
    store = corpus.store
    if isinstance(store, FirstSurfaceReader) and not is_newer(type(store), "records_of", "first_surfaces"):
        found = await store.first_surfaces(ids)
    else:
        found = FirstSurfaces.from_records(await store.records_of(ids, limit=1))
    # If the store returned too few, the walk reports it.
    artifact_ids = [None if kind is None else id for id, kind in zip(ids, found.kinds, strict=False)]
    kinds = [kind or "" for kind in found.kinds]
    # What a store returns is the caller's own, so values need no copy.
    return HitBatch(
        artifact_ids,
        kinds,
        scores,
        found.texts,
        lambda row: keep_fields({**found.metadata[row]}),
        corpus.name,
        found.indexes,
    )


async def _read_first_surfaces(memory: ArtifactMemory, ids: Sequence[Id], corpus: OpenCorpus[GraphStore]) -> list[Id]:
    """Read the first surface of each new artifact; return the ids missing from the corpus.

    The first surface takes the place of the best one in memory. One store call.
    """
    for id, (record_id, _) in memory.ahead.take_best(ids).items():
        first = memory.ahead.take_records([record_id])
        if first:  # else it has no records, or is no artifact, or its record was not read
            memory.best_surfaces[id] = (record_id, 0.0)
            memory.records.update(first)
    new_ids = [id for id in ids if id not in memory.best_surfaces]
    surfaces = await corpus.store.records_of(new_ids, limit=1) if new_ids else []
    for id, records in zip(new_ids, surfaces, strict=True):
        memory.best_surfaces[id] = (records[0].id if records else None, 0.0)
        memory.records.update({record.id: record for record in records or ()})
    return [id for id, records in zip(new_ids, surfaces, strict=True) if records is None]


def _select_cheapest(frontier: Frontier, live: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the positions whose costs are final, cheapest first.

    Ties are ordered by hops, then by discovery.

    Any further path goes on from a waiting artifact. So it costs at least the least waiting cost plus the cheapest
    link. All positions below this sum are final; `COST_EPSILON` is just below the cheapest link. This is why one step
    can commit many artifacts, where Dijkstra's algorithm takes them one by one.
    """
    costs = -frontier.scores[live]
    is_final = costs < costs.min() + COST_EPSILON / COST_SCALE
    live, costs = live[is_final], costs[is_final]
    depths = [frontier.depths[position] for position in live.tolist()]
    return live[np.lexsort((depths, costs))]


def _steps_along(ends: Sequence[Any], edges: Sequence[Edge], cost: float) -> _LinkSteps:
    """Return the steps along the edges of an artifact, lazy unless there are many.

    Many steps are created at once, because this function then runs in a worker thread.
    """
    make = partial(_make_steps, ends, edges, cost)
    return make(slice(None)) if len(ends) > _OFFLOAD_ABOVE else LazyNeighbors(ends, make)


def _make_steps(ends: Sequence[Any], edges: Sequence[Edge], cost: float, part: slice) -> list[LinkStep]:
    return list(map(_new_link_step, zip(ends[part], edges[part], repeat(cost))))


@dataclass(frozen=True, slots=True)
class _LinksByName:
    """The filter and order of links by their names, in the direction in which they are walked.

    A link that is walked backwards has the name of its inverse. A store knows stored types only. So it filters by them
    as far as possible, and this class does the rest by name.
    """

    inverses: Inverses
    direction: Direction
    filter: LinkFilter

    def to_store_filter(self) -> LinkFilter:
        """Return a filter for the store that keeps every link whose name may pass `filter`."""
        by_name = self.filter
        types = None if by_name.types is None else self.inverses.to_stored_types(by_name.types, self.direction)
        exclude = self.inverses.to_stored_types(by_name.exclude, self.direction)
        # The store excludes a type in both directions, so both of its names must be excluded.
        if self.direction == "both":
            exclude = tuple(type for type in exclude if {type, self.inverses.of(type)} <= set(by_name.exclude))
        return LinkFilter(types=types, exclude=exclude, origins=by_name.origins)

    def select(
        self, ids: Sequence[Id], edges: Sequence[Sequence[Edge]], key: Callable[[Id], Any]
    ) -> list[tuple[Sequence[Id], Sequence[Edge]]]:
        """Return the other ends and the edges of each artifact that pass the filter by name.

        The order is by name, then by end (references by corpus first), out before in, then by origin.
        """
        inverse = cache(self.inverses.of)
        return [
            self._select_edges(id, *other_ends(id, id_edges), inverse, key)
            for id, id_edges in zip(ids, edges, strict=True)
        ]

    def _select_edges(
        self,
        id: Id,
        ends: Sequence[Id],
        edges: Sequence[Edge],
        inverse: Callable[[str], str],
        key: Callable[[Id], Any],
    ) -> tuple[Sequence[Id], Sequence[Edge]]:
        types, exclude = self.filter.types, self.filter.exclude
        # 1. Name each edge in the direction in which it is walked.
        names = [edge.type if edge.source == id else inverse(edge.type) for edge in edges]
        # 2. Filter by these names.
        if types is not None or exclude:
            passes = [(types is None or name in types) and name not in exclude for name in names]
            names, ends, edges = (list(compress(column, passes)) for column in (names, ends, edges))
        # 3. Sort by these names. The store has sorted by stored type, so often nothing has to be done.
        if names == [edge.type for edge in edges]:
            return ends, edges
        rows = zip(names, map(key, ends), edges, strict=True)
        keys = [(name, end, edge.source != id, edge.origin, edge.type) for name, end, edge in rows]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [ends[index] for index in order], [edges[index] for index in order]
