"""Strategies written as for graph-retriever, run by the batched operator."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from airw._base.arrays import Floats, NDArray
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.policies._artifacts import OPEN, ArtifactNode, best_records, best_vectors, keep_records, node_of_hit, verdict
from airw.policies._edges import Edges
from airw.policies._nodes import Node, Rows, node_of
from airw.policies._seeding import Seeding
from airw.policies._selecting import Selecting
from airw.policies.scope import Scope
from airw.protocols import OpenCorpus
from airw.values import Direction, Edge, NodeId, SearchHit
from airw.walking import Entry, Frontier, Policy, WalkState

__all__ = ["NodeTracker", "Strategy"]

S = TypeVar("S")


class NodeTracker:
    """What a strategy has selected and wants to go on from; a strategy is given one.

    Args:
        select_k: How many nodes are to be selected; `None` for no end.
        max_depth: The depth from which no node is gone on from; `None` for none.
        keeps: Says of an id whether it may be a hit; one that may not is not selected.
    """

    def __init__(
        self, select_k: int | None, max_depth: int | None, keeps: Callable[[str], bool] = lambda _: True
    ) -> None:
        self._select_k, self._max_depth, self._keeps = select_k, max_depth, keeps
        self._visited: set[str] = set()
        self.at_cap: set[str] = set()
        self.selected: list[Node] = []
        self.to_traverse: dict[str, Node] = {}

    @property
    def num_remaining(self) -> int:
        """How many more nodes are to be selected."""
        return 2**63 - 1 if self._select_k is None else max(self._select_k - len(self.selected), 0)

    def select(self, nodes: Iterable[Node]) -> None:
        """Add nodes to the hits, in this order."""
        chosen = [node for node in nodes if self._keeps(node.id)]
        for node in chosen:
            node.extra_metadata |= {"_depth": node.depth, "_similarity_score": node.similarity_score}
        self.selected += chosen

    def traverse(self, nodes: Iterable[Node]) -> int:
        """Go on from nodes that are above the depth cap, each once a walk; give how many were added."""
        wanted = {node.id: node for node in nodes if node.id not in self._visited}
        new = {id: node for id, node in wanted.items() if self._is_above_cap(node)}
        self.at_cap |= wanted.keys() - new.keys()
        self.to_traverse.update(new)
        self._visited.update(new)
        return len(new)

    def select_and_traverse(self, nodes: Iterable[Node]) -> int:
        """Do both; give how many were added to go on from."""
        chosen = list(nodes)
        self.select(chosen)
        return self.traverse(chosen)

    def _is_above_cap(self, node: Node) -> bool:
        return self._max_depth is None or node.depth < self._max_depth


@dataclass(kw_only=True)
class Strategy(Policy, ABC):
    """A policy by `iteration`, which is shown the nodes that a step let in and tells a tracker what to do with them.

    A strategy may keep what it needs in itself: each walk works on a deep copy. For that it is a plain dataclass, as
    in graph-retriever, and neither frozen nor to be changed while it walks. A step selects and goes on from what
    `iteration` says; the walk ends with the step that has selected `select_k` nodes, or goes on from none. The order of
    the stream is that of selection, and final unless `finalize_nodes` reorders; `walk.ranking` is what that gives. A
    node is selected and gone on from in the same step, or only one of both. Artifacts without surfaces are not shown.

    Args:
        select_k: End with the step in which this many nodes are selected; `None` to run to the limits of the walk.
        start_k: Artifacts to start from, found by search; 0 for `roots` alone.
        adjacent_k: New artifacts let in per step, those nearest to the query; `None` for all. With `edges`, what is
            known already takes up places too, as in graph-retriever.
        max_traverse: Artifacts to go on from, in order of commitment; `None` for all.
        max_depth: The depth cap when the caller of `traverse` names none; `None` for none.
        seeding: What finds the start: `"dense"`, `"lexical"` or `"hybrid"` search, or `"titles"` in the query.
        roots: Ids of artifacts to start from besides those found; of several corpora, `(source, id)` pairs.
        edges: Instead of links, fields that lead on; see `Eager`.
        direction: Follow links `"out"`, `"in"` (backlinks) or `"both"`.
        types: Follow links of these types only; `None` for all.
        scope: What may be started from, crossed and returned.

    Example:
        >>> class Nearest(Strategy):
        ...     def iteration(self, nodes, tracker):
        ...         tracker.select_and_traverse(sorted(nodes, key=lambda node: -node.similarity_score)[:1])
        >>> Strategy.build(Nearest(start_k=1), k=7).select_k
        7
    """

    select_k: int | None = 5
    start_k: int = 4
    adjacent_k: int | None = 10
    max_traverse: int | None = None
    max_depth: int | None = None
    seeding: Seeding = "dense"
    roots: Sequence[NodeId] = ()
    edges: Edges | None = None
    direction: Direction = "out"
    types: Sequence[str] | None = None
    scope: Scope = OPEN
    keeps_frontier = True
    query_embedding: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters of every strategy at birth."""
        Selecting(**self._shared())

    def _shared(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(Selecting)}

    @abstractmethod
    def iteration(self, nodes: Iterable[Node], tracker: NodeTracker) -> Awaitable[None] | None:
        """Tell the tracker what to do with the nodes that this step let in, nearest first; there may be none.

        It may be async.
        """

    def finalize_nodes(self, selected: Iterable[Node]) -> Iterable[Node]:
        """Give the final order of what was selected; by default that of selection, cut at `select_k`."""
        return list(selected)[: self.select_k]

    @staticmethod
    def build(base: S, **options: Any) -> S:
        """Give a policy like `base`, or like `strategy=`, with other parameters; `k` stands for `select_k`.

        Raises:
            ArgumentError: `strategy` comes after another option, or is no policy; or a parameter cannot be used.
            TypeError: There is no such parameter.

        Example:
            >>> from airw.policies.eager import Eager
            >>> Strategy.build(Eager(select_k=10), select_k=5).select_k
            5
        """
        if "strategy" in options and next(iter(options)) != "strategy":
            raise ArgumentError("strategy must come before the other options")
        base = options.pop("strategy", base)
        if isinstance(base, type) or not is_dataclass(base) or not hasattr(base, "to_hits"):
            raise ArgumentError(f"strategy must be a policy such as Eager(), not {short_repr(base)}")
        if "k" in options:
            options["select_k"] = options.pop("k")
        return cast("S", replace(cast("Any", base), **options))

    async def seed(self, state: WalkState, store: OpenCorpus) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        keep_records(state)
        tracker = NodeTracker(self.select_k, state.max_depth, lambda each: verdict(state, each).keep)
        run = _Run(**self._shared(), strategy=copy.deepcopy(self), tracker=tracker, corpus=store)
        state.cache["run"] = run
        return await run.seed(state, store)

    async def score(self, state: WalkState, nodes: Sequence[ArtifactNode], store: OpenCorpus) -> NDArray[Any]:
        """Score by cosine of the best surface, and keep its vector; one store call."""
        return await _run(state).score(state, nodes, store)

    async def select(self, state: WalkState, frontier: Frontier) -> list[int]:
        """Ask `iteration` of the walk's own copy; one store call."""
        return await _run(state).select(state, frontier)

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[ArtifactNode]]:
        """Give the artifacts behind those to go on from; one store call."""
        return await _run(state).expand(state, committed, store)

    def node_id(self, node: ArtifactNode) -> NodeId:
        """Identify a node by its artifact."""
        id: NodeId = node.id
        return id

    def edge_of(self, node: ArtifactNode) -> Edge | None:
        """Give the edge it was reached by."""
        return node.edge

    def stop(self, state: WalkState) -> bool:
        """Stop at the end of the step in which `select_k` hits are out."""
        return _run(state).stop(state)

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        """Give what was selected as hits; its record is there already."""
        return await _run(state).to_hits(state, committed, store)

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Order as `finalize_nodes` says."""
        return _run(state).rank(state, hits) if hits else hits


def _run(state: WalkState) -> "_Run":
    run: _Run = state.cache["run"]
    return run


@dataclass(frozen=True, kw_only=True)
class _Run(Selecting):
    """One walk of a strategy."""

    strategy: Strategy
    tracker: NodeTracker
    corpus: OpenCorpus
    keeps_frontier = True

    async def score(self, state: WalkState, nodes: Sequence[ArtifactNode], store: OpenCorpus) -> NDArray[Any]:
        rows: Rows = state.cache.setdefault("rows", Rows())
        rows.add(await best_vectors(state, [node.id for node in nodes], store))
        return await super().score(state, nodes, store)

    async def select(self, state: WalkState, frontier: Frontier) -> list[int]:
        if state.cache.get("is_over") or self.select_k == 0:
            return self._rest(state, frontier)
        self.strategy.query_embedding = state.cache["query_vector"]
        places: dict[str, int] = state.cache.setdefault("places", {})
        shown_before: dict[str, Node] = state.cache.setdefault("shown", {})
        for id, position in places.items():
            shown_before[id].depth = frontier.depths[position]  # it may have been found nearer meanwhile
        nodes, before = await self._let_in(state, frontier, places), len(self.tracker.selected)
        shown_before.update((node.id, node) for node in nodes)
        said = self.strategy.iteration(nodes, self.tracker)
        if said is not None:
            await said
        chosen = {node.id: node for node in self.tracker.selected[before:]}
        going = {id: node for id, node in self.tracker.to_traverse.items() if id not in chosen}
        state.cache["nodes"] = chosen
        state.cache["is_over"] = not (self.tracker.num_remaining and self.tracker.to_traverse)
        taken = [_taken(places, id) for id in (*chosen, *going)]
        self._expect(state, chosen)
        return taken or self._rest(state, frontier)

    async def _let_in(self, state: WalkState, frontier: Frontier, places: dict[str, int]) -> list[Node]:
        admitted = self._admitted(state, frontier)
        ids = [cast("str", frontier.ids[at]) for at in admitted.tolist()]
        read = zip(admitted.tolist(), await best_records(state, ids, self.corpus), strict=True)
        found = [(at, record) for at, record in read if record is not None]
        places.update((record.artifact_id, at) for at, record in found)
        rows = state.cache["rows"].at([at for at, _ in found]) if found else ()
        return [node_of(state, record, frontier.depths[at], row) for (at, record), row in zip(found, rows, strict=True)]

    async def expand(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[list[ArtifactNode]]:
        going = [
            entry for entry in committed if entry.id in self.tracker.to_traverse or entry.id in self.tracker.at_cap
        ]
        found = dict(zip((entry.id for entry in going), await super().expand(state, going, store), strict=True))
        self.tracker.to_traverse.clear()
        return [found.get(entry.id, []) for entry in committed]

    def stop(self, state: WalkState) -> bool:
        return self._has_step(state)

    async def to_hits(self, state: WalkState, committed: Sequence[Entry], store: OpenCorpus) -> list[SearchHit | None]:
        chosen: dict[str, Node] = state.cache["nodes"]
        hits = await super().to_hits(state, committed, store)
        for at, (entry, hit) in enumerate(zip(committed, hits, strict=True)):
            if hit is not None:
                selected = chosen.get(entry.node.id)
                hits[at] = replace(hit, metadata=selected.extra_metadata | hit.metadata) if selected else None
        return hits

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        final = {node.id: node for node in self.strategy.finalize_nodes(list(self.tracker.selected))}
        made = {node_of_hit(hit, final): hit for hit in hits}
        return [
            replace(made[id], metadata=node.extra_metadata | made[id].metadata)
            for id, node in final.items()
            if id in made
        ]


def _taken(places: dict[str, int], id: str) -> int:
    """Give the position of a node that waits, once.

    Raises:
        PolicyError: It does not wait.
    """
    if id not in places:
        raise PolicyError(f"a strategy selects and traverses nodes in the same step, and each once; {id!r} is gone")
    return places.pop(id)
