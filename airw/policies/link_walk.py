"""A deterministic walk along links: a tree from given artifacts, without a model in sight."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import compress, repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import Inverses
from airw.links.costs import COST_EPSILON, COST_SCALE, artifact_value, link_cost
from airw.policies._capabilities import require
from airw.policies._seeding import SEEDINGS, Seeding, find_start
from airw.policies._several_corpora import Id, check_nodes, order_key, other_ends, places_of, root_ids
from airw.policies.artifact_memory import ArtifactMemory, selectable
from airw.policies.scope import ALLOW_ALL, Scope, check_scope
from airw.protocols import GraphStore, OpenCorpus
from airw.retrieval import check_corpus
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeIdLike, SearchHit
from airw.walking import CommittedNode, Frontier, LazyNeighbors, Policy, WalkState

_START_K = 4
_MANY = 2_000  # ways, looked at in about a millisecond


class LinkStep(NamedTuple):
    """One way to an artifact: its last edge, and what it costs up to where that edge begins, in parts."""

    id: Any
    edge: Edge | None = None
    cost: float = 0


_way = partial(tuple.__new__, LinkStep)  # half the time of `Way(...)`, which matters once a neighbour
_Ways: TypeAlias = LazyNeighbors | list[LinkStep]


State: TypeAlias = WalkState[ArtifactMemory]


@dataclass(frozen=True, kw_only=True)
class LinkWalk(Policy[ArtifactMemory]):
    """Walk breadth-first along links from the given roots, then from what a search finds.

    Neighbours of an artifact come in order of edge type, then of the id at the other end, and artifacts are committed
    in order of discovery; that order is final when it streams, and is that of `walk.ranking`. A hit is an artifact's
    first surface, its score minus the cost of the way there: hops, 0 at the start. An artifact without surfaces only
    routes; links to another corpus are followed where it is walked too, see `FederatedCorpus`. From roots alone nothing
    is embedded and no vector is read.

    With `inverses`, a link that is walked against is called by its inverse, where it is compared with `types` and
    `exclude` and where neighbours are ordered by type: what supports a note is found as `supported-by`. Its origin and
    its cost, and the edge that hits and events tell, stay those of the link as it is stored.

    With `weighted`, an edge costs `t * (1 + (100 - v) / 100)`: `t` is 0.5 for structure and identity (`part-of`,
    `has-part`, `follows`, `precedes`, `same-as`, `alias-of`, `has-alias`) and 1 for other types; `v`, from 0 to 100, is
    the field `value` of the artifact it leads to, 50 where there is no such number. These are the costs of qipu's
    `link tree`. Artifacts are then committed in order of cost, each by the cheapest way over artifacts committed before
    it, with the depth and the parent of that way: as in Dijkstra (A Note on Two Problems in Connexion with Graphs,
    1959). Of ways that cost the same the one of fewer hops counts, then the one discovered first; artifacts of the same
    cost come in that order too. The depth cap counts hops along these ways: an artifact is not expanded where its
    cheapest way has that many, even if a dearer way to it is shorter.

    Args:
        roots: Ids of artifacts to start from; of several corpora, `(source, id)` pairs.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        exclude: Follow no links of these types.
        origins: Follow links of these origins only: `"typed"`, `"inline"`, `"derived"`; `None` for all.
        inverses: What links are called against their direction; `None` for what they are called along it.
        weighted: Go by cost instead of hops.
        start_k: Artifacts to start from, after the roots, found by search; left out, 4 without roots and 0 with them.
        seeding: What finds them: `"dense"`, `"lexical"` or `"hybrid"` search, or `"titles"` in the query.
        scope: What may be started from, crossed and returned, asked of first surfaces.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.

    Raises:
        ArgumentError: A parameter cannot be used.
        NoLedgerEntry: The corpus does not hold one of the roots; raised by the walk.

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
    seeding: Seeding = "dense"
    scope: Scope = ALLOW_ALL
    max_depth: int | None = 2

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_choice("direction", self.direction, DIRECTIONS)
        check_choice("seeding", self.seeding, SEEDINGS)
        if self.start_k is not None:
            check_count("start_k", self.start_k)
        if self.max_depth is not None:
            check_count("max_depth", self.max_depth)
        object.__setattr__(self, "roots", check_nodes("roots", self.roots))
        for name, value in self._filter.options().items():
            object.__setattr__(self, name, value)
        if not (self.inverses is None or isinstance(self.inverses, Inverses)):
            raise ArgumentError(f"inverses must be None or Inverses such as INVERSES, not {short_repr(self.inverses)}")
        if not isinstance(self.weighted, bool):
            raise ArgumentError(f"weighted must be True or False, not {short_repr(self.weighted)}")
        check_scope(self.scope)

    @property
    def keeps_frontier(self) -> bool:  # type: ignore[override]  # nobody writes it, as nobody may: it follows `weighted`
        """Whether ways wait until none can be cheaper."""
        return self.weighted

    @property
    def scores_paths(self) -> bool:  # type: ignore[override]  # the same
        """Whether all ways to an artifact are compared."""
        return self.weighted

    @property
    def _filter(self) -> LinkFilter:
        return LinkFilter(types=self.types, exclude=self.exclude, origins=self.origins)

    @property
    def _reads_fields(self) -> bool:
        return self.weighted or self.scope != ALLOW_ALL

    @override
    def begin(self, state: State) -> ArtifactMemory:
        return ArtifactMemory(state.query, self.scope, keeps_records=True)

    async def seed(self, state: State, store: OpenCorpus[GraphStore]) -> list[LinkStep]:
        """Look up the roots and search for more; one store call, and those of the search and of `scope.start`."""
        memory, corpus = state.memory, check_corpus(store)
        require(corpus, "records_of", "LinkWalk")
        k = self.start_k if self.start_k is not None else 0 if self.roots else _START_K
        found = await find_start(memory, corpus, "LinkWalk", k=k, seeding=self.seeding, filter=self.scope.of_starts)
        memory.best.clear()  # a hit is the first surface, whichever the search has found
        roots = root_ids(self.roots, corpus)
        ids = list(dict.fromkeys([*roots, *found]))
        absent = await _read_first(memory, ids, corpus)
        for id in roots:
            if id in absent:
                raise NoLedgerEntry(
                    f"corpus {store.name!r} holds no artifact {short_repr(id)}; a root is an artifact's id"
                )
        if self.scope.start is not None:  # what is barred may still be reached, so it must not wait as a start
            memory.judge_by(ids, memory.kept_records(ids))
        return [LinkStep(id) for id in ids if memory.verdict(id).start]

    async def score(
        self, state: State, nodes: Sequence[LinkStep], store: OpenCorpus[GraphStore]
    ) -> NDArray[np.float64]:
        """Score by minus the cost; one store call where fields decide, else none."""
        memory = state.memory
        if self._reads_fields:
            ids = list(dict.fromkeys(node.id for node in nodes))
            await _read_first(memory, ids, store)
            if self.scope != ALLOW_ALL:
                memory.judge_by(ids, memory.kept_records(ids))
        return await offload_if(len(nodes) > _MANY, self._scores, memory, nodes)

    def _scores(self, memory: ArtifactMemory, nodes: Sequence[LinkStep]) -> NDArray[np.float64]:
        costs = np.array([self._cost(memory, node) for node in nodes], np.float64)
        scores: NDArray[np.float64] = 0.0 - costs / COST_SCALE  # 0, not -0, at the start
        return scores

    def _cost(self, memory: ArtifactMemory, way: LinkStep) -> float:
        """Return what a way costs up to its end, in parts."""
        if way.edge is None:
            return way.cost
        if not self.weighted:
            return way.cost + COST_SCALE
        [record] = memory.kept_records([way.id])
        return way.cost + link_cost(way.edge.type, artifact_value(record))

    async def select(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        """Commit all in order of discovery, or those to which no cheaper way can be found any more, cheapest first."""
        return await offload_if(len(frontier.live) > _MANY, self._next, state, frontier)

    def _next(self, state: State, frontier: Frontier) -> NDArray[np.intp]:
        live = frontier.live
        if self.scope != ALLOW_ALL:
            live = selectable(frontier, partial(state.memory.are_excluded, is_start=not state.visited))
        return _cheapest(frontier, live) if self.weighted and len(live) else live

    async def expand(
        self, state: State, committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[_Ways]:
        """Return the ways that lead on from each one; one store call."""
        crossed, named = state.memory.crossed(committed), self._named
        ids: list[Id] = [entry.node.id for entry in crossed]
        asked = self._filter if named is None else named.stored_filter()
        edges = await store.store.neighbors(ids, direction=self.direction, **asked.options()) if ids else []
        key = order_key(places_of(store))
        starts = [entry.node for entry in crossed]
        ways = await offload_if(sum(map(len, edges)) > _MANY, self._ways, state.memory, starts, edges, key)
        found = dict(zip((entry.id for entry in crossed), ways, strict=True))
        return [found.get(entry.id, []) for entry in committed]

    @property
    def _named(self) -> "_NamedLinks | None":
        """What to go by where links have other names against their direction, which need not be asked along it."""
        if self.inverses is None or self.direction == "out":
            return None
        return _NamedLinks(self.inverses, self.direction, self._filter)

    def _ways(
        self,
        memory: ArtifactMemory,
        starts: Sequence[LinkStep],
        edges: Sequence[Sequence[Edge]],
        key: Callable[[Id], Any],
    ) -> list[_Ways]:
        ids, named = [way.id for way in starts], self._named
        ends = map(other_ends, ids, edges) if named is None else named.followed(ids, edges, key)
        costs = [self._cost(memory, way) for way in starts]
        return [_behind(*each, cost) for each, cost in zip(ends, costs, strict=True)]

    @override
    def node_id(self, node: LinkStep) -> Id:
        return node.id

    @override
    def edge_of(self, node: LinkStep) -> Edge | None:
        return node.edge

    async def to_hits(
        self, state: State, committed: Sequence[CommittedNode], store: OpenCorpus[GraphStore]
    ) -> list[SearchHit | None]:
        """Return each artifact's first surface; one store call, none where fields decided."""
        memory, ids = state.memory, [entry.node.id for entry in committed]
        await _read_first(memory, ids, store)
        hits = [
            None if record is None or not memory.verdict(entry.id).keep else record.as_hit(entry.score, store.name)
            for entry, record in zip(committed, memory.kept_records(ids), strict=True)
        ]
        if not self._reads_fields:  # nobody asks again for what was given
            for id in ids:
                memory.records.pop(memory.best[id][0] or "", None)
        return hits


async def _read_first(memory: ArtifactMemory, ids: Sequence[Id], corpus: OpenCorpus[GraphStore]) -> list[Id]:
    """Read the first surface of artifacts, which stands for them; return those that the corpus does not hold.

    One store call, for what is new.
    """
    new = [id for id in ids if id not in memory.best]
    found = await corpus.store.records_of(new, limit=1) if new else []
    for id, records in zip(new, found, strict=True):
        memory.best[id] = (records[0].id if records else None, 0.0)
        memory.records.update({record.id: record for record in records or ()})
    return [id for id, records in zip(new, found, strict=True) if records is None]


def _cheapest(frontier: Frontier, live: NDArray[np.intp]) -> NDArray[np.intp]:
    """Return the ways, in order, that cost less than any further one can: that one goes on from one that waits."""
    costs = -frontier.scores[live]
    is_final = costs < costs.min() + COST_EPSILON / COST_SCALE
    live, costs = live[is_final], costs[is_final]
    depths = [frontier.depths[position] for position in live.tolist()]
    return live[np.lexsort((depths, costs))]


def _behind(ends: Sequence[Any], edges: Sequence[Edge], cost: float) -> _Ways:
    """Return ways to make when they are read; where they are many, those that are made already."""
    make = partial(_made, ends, edges, cost)
    return make(slice(None)) if len(ends) > _MANY else LazyNeighbors(ends, make)


def _made(ends: Sequence[Any], edges: Sequence[Edge], cost: float, part: slice) -> list[LinkStep]:
    return list(map(_way, zip(ends[part], edges[part], repeat(cost))))


@dataclass(frozen=True, slots=True)
class _NamedLinks:
    """Which links are followed, and in which order, where one that is walked against is called by its inverse."""

    inverses: Inverses
    direction: Direction
    filter: LinkFilter

    def stored_filter(self) -> LinkFilter:
        """Return what to ask a store for: the types that may have a right name, without those that never have."""
        chosen = self.filter
        types = None if chosen.types is None else self.inverses.stored(chosen.types, self.direction)
        exclude = self.inverses.stored(chosen.exclude, self.direction)
        if self.direction == "both":  # what a store drops is dropped either way
            exclude = tuple(each for each in exclude if {each, self.inverses.of(each)} <= set(chosen.exclude))
        return LinkFilter(types=types, exclude=exclude, origins=chosen.origins)

    def followed(
        self, ids: Sequence[Id], edges: Sequence[Sequence[Edge]], key: Callable[[Id], Any]
    ) -> list[tuple[Sequence[Id], Sequence[Edge]]]:
        """Return the other ends of the edges of each artifact that are followed.

        In order of the name, then of the end, out before in, then of the origin; pairs by the place of their corpus.
        """
        inverse = cache(self.inverses.of)
        return [self._followed(id, *other_ends(id, each), inverse, key) for id, each in zip(ids, edges, strict=True)]

    def _followed(
        self,
        id: Id,
        ends: Sequence[Id],
        edges: Sequence[Edge],
        inverse: Callable[[str], str],
        key: Callable[[Id], Any],
    ) -> tuple[Sequence[Id], Sequence[Edge]]:
        types, exclude = self.filter.types, self.filter.exclude
        names = [edge.type if edge.source == id else inverse(edge.type) for edge in edges]
        if types is not None or exclude:
            are_right = [(types is None or name in types) and name not in exclude for name in names]
            names, ends, edges = (list(compress(each, are_right)) for each in (names, ends, edges))
        if names == [edge.type for edge in edges]:  # so they are in order
            return ends, edges
        rows = zip(names, map(key, ends), edges, strict=True)
        keys = [(name, place, edge.source != id, edge.origin, edge.type) for name, place, edge in rows]
        order = sorted(range(len(keys)), key=keys.__getitem__)
        return [ends[at] for at in order], [edges[at] for at in order]
