"""The policy `LinkWalk`: all links in a fixed order, without a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import MAX_HITS, check_count, check_flag
from airw._base.concurrency import offload_if
from airw._base.overriding import override
from airw.links import FollowedLinks, Inverses
from airw.links.costs import COST_EPSILON, COST_SCALE, artifact_value, link_cost
from airw.policies._corpora import (
    Id,
    Walkable,
    check_nodes,
    is_lost,
    member_ranks,
    order_key,
    root_ids,
)
from airw.policies._start import Seeding, check_seeding, find_start, unknown_root
from airw.policies.artifact_memory import MAX_START, ArtifactMemory, Part
from airw.policies.artifact_policy import ArtifactPolicy
from airw.policies.scope import ALLOW_ALL, Scope
from airw.protocols import EdgeRow, Edges, Ends
from airw.retrieval import check_corpus
from airw.values import Direction, Edge, LinkFilter, NodeIdLike
from airw.walking import CommittedNode, Frontier, LazyNeighbors, WalkState
from airw.walking.policy import NeighborValues

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
LinkSteps: TypeAlias = LazyNeighbors | list[LinkStep]

State: TypeAlias = WalkState[ArtifactMemory]


@dataclass(frozen=True, kw_only=True)
class LinkWalk(ArtifactPolicy[ArtifactMemory]):
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
            default `"hybrid"`, or the one channel that the store has. Several ways: see `SearchParameters`.
        operators: Read operators in the query; see `SearchParameters`.
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
    operators: bool = False
    scope: Scope = ALLOW_ALL
    max_depth: int | None = 2
    _compares = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        object.__setattr__(self, "seeding", check_seeding(self.seeding))
        if self.start_k is not None:
            check_count("start_k", self.start_k, most=MAX_HITS)
        object.__setattr__(self, "roots", check_nodes("roots", self.roots))
        for name, value in self._link_choice.filter.options().items():
            object.__setattr__(self, name, value)
        check_flag("weighted", self.weighted)
        self._check_shared()

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override]  # read-only, because it depends on `weighted`
        """True if weighted: paths wait until no cheaper path is possible."""
        return self.weighted

    @property
    def scores_paths(self) -> bool:  # type: ignore[override]  # read-only, because it depends on `weighted`
        """True if weighted: all paths to an artifact are compared."""
        return self.weighted

    @property
    def _link_choice(self) -> FollowedLinks:
        filter = LinkFilter(types=self.types, exclude=self.exclude, origins=self.origins)
        return FollowedLinks(direction=self.direction, filter=filter, inverses=self.inverses)

    @override
    def _ask_edges(self, ids: Sequence[Id]) -> Edges:
        return self._link_choice.ask(ids)

    @property
    @override
    def _reads_fields(self) -> bool:
        return self.weighted or super()._reads_fields

    @override
    def _ask_surfaces(self, state: State, of: Sequence[Id] | Ends, limit: int | None) -> list[Part]:
        if isinstance(of, Ends) and limit is not None:  # without fields, those that are committed next are enough
            of = replace(of, limit=limit)
        return [state.memory.ask_first(of)]

    async def seed(self, state: State, store: Walkable) -> list[LinkStep]:
        """Return the roots and the artifacts that the search finds.

        One store call besides those of the search.
        """
        memory, corpus = state.memory, check_corpus(store)
        default_k = 0 if self.roots else _START_K
        k = default_k if self.start_k is None else self.start_k
        # A hit is the first surface, and not one that the search has found, so this has a memory of its own.
        found_ids = await find_start(
            ArtifactMemory(memory.query, contains=memory.contains),
            corpus,
            "LinkWalk",
            k=k,
            seeding=self.seeding,
            filter=self.scope.start_filter,
        )
        roots = root_ids(self.roots, corpus)
        ids = list(dict.fromkeys([*roots, *found_ids]))
        await self._read_start(state, ids, corpus)
        await self._read_scores(state, ids, corpus)
        missing_ids = [id for id, cosine in zip(ids, memory.cosines(ids).tolist(), strict=True) if cosine < 0]
        for id in missing_ids:
            if id in roots and not is_lost(id, corpus):
                raise await unknown_root(id, corpus)
        ids = [id for id in ids if id not in missing_ids]
        # An artifact that may not be a start can still be reached later, so it must not become a seed.
        if self.scope.start is not None:
            await memory.apply_scope(ids, corpus)
        return [LinkStep(id) for id in ids if memory.permissions_of(id).start]

    @override
    async def _read_surfaces(self, state: State, ids: Sequence[Id], store: Walkable) -> None:
        if self._reads_fields:
            await super()._read_surfaces(state, ids, store)

    @override
    def _count_ahead(self, state: State) -> int | None:
        return None if self._reads_fields else min(self._room(state), MAX_START)

    def value(self, state: State, nodes: Sequence[LinkStep]) -> NDArray[np.float64]:
        """Return minus the cost of the path to each artifact."""
        costs = np.array([self._cost(state.memory, node) for node in nodes], np.float64)
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
        """Return the positions that are not excluded.

        If links are weighted, these are those whose costs are final, cheapest first.

        Ties are ordered by hops, then by discovery.

        Any further path goes on from a waiting artifact. So it costs at least the least waiting cost plus the cheapest
        link. All positions below this sum are final; `COST_EPSILON` is just below the cheapest link. This is why one
        step can commit many artifacts, where Dijkstra's algorithm takes them one by one.
        """
        live = self._selectable(state, frontier)
        if self.weighted and len(live):
            costs = -frontier.scores[live]
            is_final = costs < costs.min() + COST_EPSILON / COST_SCALE
            live, costs = live[is_final], costs[is_final]
            live = live[np.lexsort(([frontier.depths[position] for position in live.tolist()], costs))]
        return live

    async def follow(self, state: State, committed: Sequence[CommittedNode], store: Walkable) -> list[LinkSteps]:
        """Return the steps that lead on from each artifact; one store call."""
        rows, memory = await self._read_edges(state, committed, store), state.memory
        if self.inverses is not None:
            choice, key = self._link_choice, order_key(member_ranks(store))
            is_long = sum(map(len, rows)) > _OFFLOAD_ABOVE
            rows = await offload_if(is_long, lambda: [choice.arrange(row, key) for row in rows])
        return [
            NeighborValues(row.ends, partial(_make_steps, row, self._cost(memory, entry.node)))
            for row, entry in zip(rows, committed, strict=True)
        ]


def _make_steps(row: EdgeRow, cost: float, part: slice) -> list[LinkStep]:
    return list(map(_new_link_step, zip(row.ends[part], row[part], repeat(cost))))
