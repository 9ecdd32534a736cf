"""A deterministic walk along links: a tree from given artifacts, without a model in sight."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias, TypeVar, TypeVarTuple

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_choice, check_count
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import Inverses
from airw.links.costs import JUST_BELOW_LEAST, PARTS, link_parts, value_of
from airw.policies._artifacts import (
    OPEN,
    are_shut,
    artifact_hits,
    best_of,
    judge,
    keep_records,
    open_positions,
    verdict,
)
from airw.policies._link_ends import NamedEnds, stored_ends
from airw.policies._seeding import SEEDINGS, Seeding, check_nodes, member_names, root_ids, seed_artifacts
from airw.policies.scope import Scope, check_scope
from airw.protocols import OpenCorpus
from airw.retrieval import check_corpus
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeId, SearchHit
from airw.walking import Behind, Entry, Frontier, Policy, WalkState

__all__ = ["LinkWalk"]

R = TypeVar("R")
Args = TypeVarTuple("Args")

_START_K = 4
_MANY = 2_000  # ways, looked at in about a millisecond


class Way(NamedTuple):
    """One way to an artifact: its last edge, and what it costs up to where that edge begins, in parts."""

    id: Any
    edge: Edge | None = None
    cost: float = 0


_way = partial(tuple.__new__, Way)  # half the time of `Way(...)`, which matters once a neighbour
_Ways: TypeAlias = Behind | list[Way]


@dataclass(frozen=True, kw_only=True)
class LinkWalk(Policy):
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

    roots: Sequence[NodeId] = ()
    direction: Direction = "both"
    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None
    inverses: Inverses | None = None
    weighted: bool = False
    start_k: int | None = None
    seeding: Seeding = "dense"
    scope: Scope = OPEN
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
        chosen = LinkFilter(types=self.types, exclude=self.exclude, origins=self.origins)
        for name, value in chosen.options().items():
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
    def _reads_fields(self) -> bool:
        return self.weighted or self.scope != OPEN

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[Way]:
        """Look up the roots and search for more; one store call, and those of the search and of `scope.start`."""
        k = self.start_k if self.start_k is not None else 0 if self.roots else _START_K
        found = await seed_artifacts(
            state, check_corpus(store), k=k, seeding=self.seeding, roots=(), filter=self.scope.of_starts
        )
        best_of(state).clear()  # a hit is the first surface, whichever the search has found
        roots = root_ids(self.roots, store)
        ids = list(dict.fromkeys([*roots, *(node.id for node in found)]))
        absent = await _read_first(state, ids, store)
        for id in roots:
            if id in absent:
                raise NoLedgerEntry(
                    f"corpus {store.name!r} holds no artifact {short_repr(id)}; a root is an artifact's id"
                )
        if self.scope.start is not None:  # what is barred may still be reached, so it must not wait as a start
            await judge(state, ids, store, self.scope)
        return [Way(id) for id in ids if verdict(state, id).start]

    async def score(self, state: WalkState, nodes: Sequence[Way], store: OpenCorpus) -> NDArray[np.float64]:
        """Score by minus the cost; one store call where fields decide, else none."""
        if self._reads_fields:
            ids = list(dict.fromkeys(node.id for node in nodes))
            await _read_first(state, ids, store)
            await judge(state, ids, store, self.scope)
        return await offload_if(len(nodes) > _MANY, self._scores, state, nodes)

    def _scores(self, state: WalkState, nodes: Sequence[Way]) -> NDArray[np.float64]:
        costs = np.array([self._cost(state, node) for node in nodes], np.float64)
        scores: NDArray[np.float64] = 0.0 - costs / PARTS  # 0, not -0, at the start
        return scores

    def _cost(self, state: WalkState, way: Way) -> float:
        """Give what a way costs up to its end, in parts."""
        if way.edge is None:
            return way.cost
        if not self.weighted:
            return way.cost + PARTS
        return way.cost + link_parts(way.edge.type, value_of(state.cache["records"].get(best_of(state)[way.id][0])))

    async def select(self, state: WalkState, frontier: Frontier) -> NDArray[np.intp]:
        """Commit all in order of discovery, or those to which no cheaper way can be found any more, cheapest first."""
        return await offload_if(len(frontier.live) > _MANY, self._next, state, frontier)

    def _next(self, state: WalkState, frontier: Frontier) -> NDArray[np.intp]:
        is_bounded = self.scope != OPEN
        live = open_positions(frontier, partial(are_shut, state)) if is_bounded else frontier.live
        return _cheapest(frontier, live) if self.weighted and len(live) else live

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[_Ways]:
        """Give the ways that lead on from each one; one store call."""
        crossed = [entry for entry in committed if verdict(state, entry.id).cross]
        ids, named = [entry.node.id for entry in crossed], self._named
        asked = {"types": self.types, "exclude": self.exclude} if named is None else named.asked()
        choice: dict[str, Any] = {"direction": self.direction, "origins": self.origins, **asked}
        edges = await store.store.neighbors(ids, **choice) if ids else []
        places = {name: place for place, name in enumerate(member_names(store))}
        starts = [entry.node for entry in crossed]
        ways = await offload_if(sum(map(len, edges)) > _MANY, self._ways, state, starts, edges, places)
        found = dict(zip((entry.id for entry in crossed), ways, strict=True))
        return [found.get(entry.id, []) for entry in committed]

    @property
    def _named(self) -> NamedEnds | None:
        """Give what to go by where links have other names against their direction, which need not be asked along it."""
        if self.inverses is None or self.direction == "out":
            return None
        return NamedEnds(self.inverses, self.direction, self.types, self.exclude)

    def _ways(
        self, state: WalkState, starts: Sequence[Way], edges: Sequence[Sequence[Edge]], places: Mapping[str, int]
    ) -> list[_Ways]:
        ids, named = [way.id for way in starts], self._named
        ends = map(stored_ends, ids, edges) if named is None else named.followed(ids, edges, places)
        costs = [self._cost(state, way) for way in starts]
        return [_behind(*each, cost) for each, cost in zip(ends, costs, strict=True)]

    def node_id(self, node: Way) -> NodeId:
        """Identify a node by its artifact."""
        id: NodeId = node.id
        return id

    def edge_of(self, node: Way) -> Edge | None:
        """Give the edge it was reached by."""
        return node.edge

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        """Give each artifact's first surface; one store call, none where fields decided."""
        ids = [entry.node.id for entry in committed]
        await _read_first(state, ids, store)
        hits = await artifact_hits(state, committed, store)
        if not self._reads_fields:  # nobody asks again for what was given
            for id in ids:
                state.cache["records"].pop(best_of(state)[id][0], None)
        return hits


async def _read_first(state: WalkState, ids: Sequence[Any], corpus: OpenCorpus) -> list[Any]:
    """Read the first surface of artifacts, which stands for them; give those that the corpus does not hold.

    One store call, for what is new.
    """
    keep_records(state)
    known, kept = best_of(state), state.cache["records"]
    new = [id for id in ids if id not in known]
    found = await corpus.store.records_of(new, limit=1) if new else []
    for id, records in zip(new, found, strict=True):
        known[id] = (records[0].id if records else None, 0.0)
        kept.update({record.id: record for record in records or ()})
    return [id for id, records in zip(new, found, strict=True) if records is None]


def _cheapest(frontier: Frontier, live: NDArray[np.intp]) -> NDArray[np.intp]:
    """Give the ways, in order, that cost less than any further one can: that one goes on from one that waits."""
    costs = -frontier.scores[live]
    is_final = costs < costs.min() + JUST_BELOW_LEAST / PARTS
    live, costs = live[is_final], costs[is_final]
    depths = [frontier.depths[position] for position in live.tolist()]
    return live[np.lexsort((depths, costs))]


def _behind(ends: Sequence[Any], edges: Sequence[Edge], cost: float) -> _Ways:
    """Give ways to make when they are read; where they are many, those that are made already."""
    make = partial(_made, ends, edges, cost)
    return make(slice(None)) if len(ends) > _MANY else Behind(ends, make)


def _made(ends: Sequence[Any], edges: Sequence[Edge], cost: float, part: slice) -> list[Way]:
    return list(map(_way, zip(ends[part], edges[part], repeat(cost))))
