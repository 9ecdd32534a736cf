"""Strategies written as for graph-retriever, run by the batched operator."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from airw._base.arrays import Floats, NDArray
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import ArgumentError, PolicyError
from airw.policies._capabilities import Walkable
from airw.policies._seeding import Seeding
from airw.policies._several_corpora import Id
from airw.policies._shared_fields import Edges
from airw.policies.admitting_policy import AdmittingMemory, AdmittingPolicy, Node
from airw.policies.artifact_memory import node_of_hit
from airw.policies.artifact_policy import ArtifactNode
from airw.policies.scope import ALLOW_ALL, Scope
from airw.values import Direction, Edge, NodeIdLike, SearchHit
from airw.walking import CommittedNode, Frontier, Policy, WalkState

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
class Strategy(Policy["StrategyMemory"], ABC):
    """A policy by `iteration`, which is shown the nodes that a step let in and tells a tracker what to do with them.

    A strategy may keep what it needs in itself: each walk works on a deep copy. For that it is a plain dataclass, as
    in graph-retriever, and neither frozen nor to be changed while it walks. A step selects and goes on from what
    `iteration` says; the walk ends with the step that has selected `select_k` nodes, or goes on from none. The order of
    the stream is that of selection, and final unless `finalize_nodes` reorders; `walk.ranking` is what that gives. A
    node is selected and gone on from in the same step, or only one of both. Artifacts without surfaces are not shown.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        select_k: End with the step in which this many nodes are selected; `None` to run to the limits of the walk.

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
    roots: Sequence[NodeIdLike] = ()
    edges: Edges | None = None
    direction: Direction = "out"
    types: Sequence[str] | None = None
    scope: Scope = ALLOW_ALL
    keeps_frontier = True
    query_embedding: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters of every strategy at birth."""
        self._make_run()

    def _make_run(self) -> "_Run":
        shared = {each.name: getattr(self, each.name) for each in fields(_Run) if each.name != "name"}
        return _Run(**shared, name=type(self).__name__)

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

    @override
    def begin(self, state: "WalkState[StrategyMemory]") -> "StrategyMemory":
        memory = StrategyMemory(state.query, self.scope, keeps_records=True)
        memory.strategy = copy.deepcopy(self)
        memory.tracker = NodeTracker(self.select_k, state.max_depth, lambda each: memory.verdict(each).keep)
        memory.run = self._make_run()
        return memory

    async def seed(self, state: "WalkState[StrategyMemory]", store: Walkable) -> list[ArtifactNode]:
        """Search for the start; one search, and the roots."""
        return await state.memory.run.seed(state, store)

    async def score(
        self, state: "WalkState[StrategyMemory]", nodes: Sequence[ArtifactNode], store: Walkable
    ) -> NDArray[Any]:
        """Score by cosine of the best surface, and keep its vector; one store call."""
        return await state.memory.run.score(state, nodes, store)

    async def select(self, state: "WalkState[StrategyMemory]", frontier: Frontier) -> list[int]:
        """Ask `iteration` of the walk's own copy; one store call."""
        return await state.memory.run.select(state, frontier)

    async def expand(
        self, state: "WalkState[StrategyMemory]", committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        """Return the artifacts behind those to go on from; one store call."""
        return await state.memory.run.expand(state, committed, store)

    @override
    def node_id(self, node: ArtifactNode) -> Id:
        return node.id

    @override
    def edge_of(self, node: ArtifactNode) -> Edge | None:
        return node.edge

    def stop(self, state: "WalkState[StrategyMemory]") -> bool:
        """Stop at the end of the step in which `select_k` hits are out."""
        return state.memory.run.stop(state)

    async def to_hits(
        self, state: "WalkState[StrategyMemory]", committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return what was selected as hits; its record is there already."""
        return await state.memory.run.to_hits(state, committed, store)

    def rank(self, state: "WalkState[StrategyMemory]", hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Order as `finalize_nodes` says."""
        return state.memory.run.rank(state, hits) if hits else hits


@dataclass(slots=True, eq=False)
class StrategyMemory(AdmittingMemory):
    """What one walk of a strategy remembers besides.

    Args:
        strategy: The copy of the strategy that this walk is given to work with.
        tracker: What it selects and goes on from.
        run: The policy that walks for it, with its parameters.
        corpus: The corpus that is walked; `select` is not given it.
        places: The positions of nodes that were shown to it and wait.
        shown: The nodes that were shown to it.
        chosen: The nodes that it selected in this step.
        is_over: Whether it has all it wants, or goes on from nothing.
    """

    strategy: Strategy = field(init=False)
    tracker: NodeTracker = field(init=False)
    run: "_Run" = field(init=False)
    corpus: Walkable = field(init=False)
    places: dict[Id, int] = field(default_factory=dict)
    shown: dict[Id, Node] = field(default_factory=dict)
    chosen: dict[Id, Node] = field(default_factory=dict)
    is_over: bool = False


@dataclass(frozen=True, kw_only=True)
class _Run(AdmittingPolicy[StrategyMemory]):
    """The parameters that strategies share, as a policy that asks the walk's own strategy what to select."""

    name: str
    keeps_frontier = True

    @property
    @override
    def _name(self) -> str:
        return self.name

    @override
    async def seed(self, state: WalkState[StrategyMemory], store: Walkable) -> list[ArtifactNode]:
        state.memory.corpus = store
        return await super().seed(state, store)

    @override
    async def score(
        self, state: WalkState[StrategyMemory], nodes: Sequence[ArtifactNode], store: Walkable
    ) -> NDArray[Any]:
        await self._keep_vectors(state, nodes, store)
        return await super().score(state, nodes, store)

    async def select(self, state: WalkState[StrategyMemory], frontier: Frontier) -> list[int]:
        memory = state.memory
        if memory.is_over or self.select_k == 0:
            return self._select_nothing(state, frontier)
        tracker, places = memory.tracker, memory.places
        memory.strategy.query_embedding = memory.vector
        for id, position in places.items():
            memory.shown[id].depth = frontier.depths[position]  # it may have been found nearer meanwhile
        nodes, before = await self._let_in(state, frontier), len(tracker.selected)
        memory.shown.update((node.id, node) for node in nodes)
        answer = memory.strategy.iteration(nodes, tracker)
        if answer is not None:
            await answer
        chosen = memory.chosen = {node.id: node for node in tracker.selected[before:]}
        going = [id for id in tracker.to_traverse if id not in chosen]
        memory.is_over = not (tracker.num_remaining and tracker.to_traverse)
        taken = [_take(places, id) for id in (*chosen, *going)]
        self._expect(state, chosen)
        return taken or self._select_nothing(state, frontier)

    async def _let_in(self, state: WalkState[StrategyMemory], frontier: Frontier) -> list[Node]:
        """Return the artifacts with surfaces that this step admits; one store call."""
        memory, admitted = state.memory, self._admit(state, frontier).tolist()
        ids: list[Id] = [frontier.ids[at] for at in admitted]
        records = await memory.best_records(ids, memory.corpus)
        found = [each for each in zip(admitted, ids, records, strict=True) if each[2] is not None]
        memory.places.update((id, at) for at, id, _ in found)
        return [
            memory.node(id, record, frontier.depths[at], memory.rows[at].copy())
            for at, id, record in found
            if record is not None
        ]

    @override
    async def expand(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        tracker = state.memory.tracker
        going = [entry for entry in committed if entry.id in tracker.to_traverse or entry.id in tracker.at_cap]
        found = dict(zip((entry.id for entry in going), await super().expand(state, going, store), strict=True))
        tracker.to_traverse.clear()
        return [found.get(entry.id, []) for entry in committed]

    @override
    def stop(self, state: WalkState[StrategyMemory]) -> bool:
        return self._has_step(state)

    @override
    async def to_hits(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        hits = await super().to_hits(state, committed, store)
        for at, (entry, hit) in enumerate(zip(committed, hits, strict=True)):
            if hit is not None:
                selected = state.memory.chosen.get(entry.node.id)
                hits[at] = replace(hit, metadata=selected.extra_metadata | hit.metadata) if selected else None
        return hits

    @override
    def rank(self, state: WalkState[StrategyMemory], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        memory = state.memory
        final = {node.id: node for node in memory.strategy.finalize_nodes(list(memory.tracker.selected))}
        made = {node_of_hit(hit, final): hit for hit in hits}
        return [
            replace(made[id], metadata=node.extra_metadata | made[id].metadata)
            for id, node in final.items()
            if id in made
        ]


def _take(places: dict[Id, int], id: Id) -> int:
    """Return the position of a node that waits, once.

    Raises:
        PolicyError: It does not wait.
    """
    if id not in places:
        raise PolicyError(f"a strategy selects and traverses nodes in the same step, and each once; {id!r} is gone")
    return places.pop(id)
