"""`Strategy`: policies that are written as strategies of graph-retriever."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from airw._base.arrays import Floats, NDArray
from airw._base.messages import short_repr
from airw._base.overriding import override
from airw.errors import ArgumentError, PolicyError
from airw.links.columns import Numbers
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
    """The nodes that a strategy has selected and wants to traverse; a strategy receives one.

    To traverse a node means to read its neighbours in the next step.

    Args:
        select_k: The number of nodes to select; `None` for no end.
        max_depth: The depth cap: nodes at this depth are not traversed; `None` for no cap.
        keeps: A function that returns whether an id may be a hit; others are not selected.
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
        """The number of nodes still to be selected."""
        return 2**63 - 1 if self._select_k is None else max(self._select_k - len(self.selected), 0)

    def select(self, nodes: Iterable[Node]) -> None:
        """Add nodes to the hits, in this order."""
        new = [node for node in nodes if self._keeps(node.id)]
        for node in new:
            node.extra_metadata |= {"_depth": node.depth, "_similarity_score": node.similarity_score}
        self.selected += new

    def traverse(self, nodes: Iterable[Node]) -> int:
        """Add nodes to be traversed, and return how many were added.

        Nodes at the depth cap, and nodes that were added before in this walk, are left out.
        """
        candidates = {node.id: node for node in nodes if node.id not in self._visited}
        new = {id: node for id, node in candidates.items() if self._is_above_cap(node)}
        self.at_cap |= candidates.keys() - new.keys()
        self.to_traverse.update(new)
        self._visited.update(new)
        return len(new)

    def select_and_traverse(self, nodes: Iterable[Node]) -> int:
        """Select and traverse nodes, and return how many were added to be traversed."""
        node_list = list(nodes)
        self.select(node_list)
        return self.traverse(node_list)

    def _is_above_cap(self, node: Node) -> bool:
        return self._max_depth is None or node.depth < self._max_depth


@dataclass(kw_only=True)
class Strategy(Policy["StrategyMemory"], ABC):
    """A policy that decides in one method, `iteration`.

    `iteration` receives the new nodes of a step and a tracker. In each step, the walk commits the nodes that
    `iteration` selects or traverses. A node must be selected and traversed in the same step, if both. The walk ends
    with the step in which `select_k` nodes are selected, or no node is traversed. Artifacts without surfaces are not
    passed to `iteration`.

    The order of the stream is the order of selection. It is final, unless `finalize_nodes` reorders: `walk.ranking` is
    the order that it returns.

    A strategy may store data in its own fields, because each walk works on a deep copy. So it is a plain dataclass, as
    in graph-retriever, and not frozen. Do not change it while it walks.

    The other parameters are those of `AdmittingPolicy`.

    Args:
        select_k: End with the step in which this number of nodes is selected; `None` to run to the limits of the walk.

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
    seeding: Seeding | None = None
    roots: Sequence[NodeIdLike] = ()
    edges: Edges | None = None
    direction: Direction = "both"
    types: Sequence[str] | None = None
    scope: Scope = ALLOW_ALL
    keeps_frontier = True
    query_embedding: Floats | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters that all strategies share."""
        self._to_policy()

    def _to_policy(self) -> "_StrategyPolicy":
        shared = {field.name: getattr(self, field.name) for field in fields(_StrategyPolicy) if field.name != "name"}
        return _StrategyPolicy(**shared, name=type(self).__name__)

    @abstractmethod
    def iteration(self, nodes: Iterable[Node], tracker: NodeTracker) -> Awaitable[None] | None:
        """Select and traverse nodes by calls of the tracker; it may be async.

        Args:
            nodes: The nodes admitted in this step, nearest first; there may be none.
            tracker: The tracker of the walk.
        """

    def finalize_nodes(self, selected: Iterable[Node]) -> Iterable[Node]:
        """Return the selected nodes in their final order; by default the first `select_k`."""
        return list(selected)[: self.select_k]

    @staticmethod
    def build(base: S, **options: Any) -> S:
        """Return a copy of a policy with other parameters.

        Args:
            base: The policy to copy.
            options: The parameters to change; `k` means `select_k`. An option `strategy` replaces `base`, and must come
                first.

        Raises:
            ArgumentError: If `strategy` is not the first option or no policy, or if a parameter cannot be used.
            TypeError: If there is no such parameter.

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
        memory.tracker = NodeTracker(
            self.select_k, state.max_depth, lambda node_id: memory.permissions_of(node_id).keep
        )
        memory.policy = self._to_policy()
        return memory

    async def seed(self, state: "WalkState[StrategyMemory]", store: Walkable) -> list[ArtifactNode]:
        """Return the start: the artifacts of one search, and the roots."""
        return await state.memory.policy.seed(state, store)

    async def score(
        self, state: "WalkState[StrategyMemory]", nodes: Sequence[ArtifactNode], store: Walkable
    ) -> NDArray[Any]:
        """Score by the cosine of the best surface, and keep its vector; one store call."""
        return await state.memory.policy.score(state, nodes, store)

    async def select(self, state: "WalkState[StrategyMemory]", frontier: Frontier) -> list[int]:
        """Commit the nodes that `iteration` selects or traverses; one store call."""
        return await state.memory.policy.select(state, frontier)

    async def expand(
        self, state: "WalkState[StrategyMemory]", committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        """Return the neighbours of the nodes to traverse; one store call."""
        return await state.memory.policy.expand(state, committed, store)

    @override
    def node_id(self, node: ArtifactNode) -> Id:
        return node.id

    @override
    def edge_of(self, node: ArtifactNode) -> Edge | None:
        return node.edge

    def stop(self, state: "WalkState[StrategyMemory]") -> bool:
        """Stop at the end of the step in which `select_k` hits are reached."""
        return state.memory.policy.stop(state)

    async def to_hits(
        self, state: "WalkState[StrategyMemory]", committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        """Return the selected nodes as hits; no store call, as `select` has read their records."""
        return await state.memory.policy.to_hits(state, committed, store)

    def rank(self, state: "WalkState[StrategyMemory]", hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the hits in the order of `finalize_nodes`."""
        return state.memory.policy.rank(state, hits) if hits else hits

    @override
    def find_obstacle(self, state: "WalkState[StrategyMemory]") -> str | None:
        # The cancelled call may have changed fields, so it cannot be repeated. Before `seed` the memory is None.
        is_cut = getattr(state.memory, "is_iterating", False)
        return f"a deadline has cancelled {type(self).__name__}.iteration" if is_cut else None


@dataclass(slots=True, eq=False)
class StrategyMemory(AdmittingMemory):
    """The memory of one walk of a strategy.

    Args:
        strategy: The copy of the strategy that this walk works with.
        tracker: The nodes that it selects and traverses.
        policy: The policy that walks for the strategy, with its parameters.
        corpus: The walked corpus; `select` needs it and does not receive it.
        waiting: The positions of nodes that were passed to `iteration` and wait.
        nodes: The nodes that were passed to `iteration`, by id.
        selected: The nodes that were selected in this step, by id.
        is_over: Whether enough nodes are selected, or no node is to be traversed.
        is_iterating: Whether `iteration` was called and has not returned.
    """

    strategy: Strategy = field(init=False)
    tracker: NodeTracker = field(init=False)
    policy: "_StrategyPolicy" = field(init=False)
    corpus: Walkable = field(init=False)
    waiting: dict[Id, int] = field(default_factory=dict)
    nodes: dict[Id, Node] = field(default_factory=dict)
    selected: dict[Id, Node] = field(default_factory=dict)
    is_over: bool = False
    is_iterating: bool = False


@dataclass(frozen=True, kw_only=True)
class _StrategyPolicy(AdmittingPolicy[StrategyMemory]):
    """The policy that walks for a strategy, with its parameters, and calls its `iteration`."""

    name: str
    keeps_frontier = True

    @property
    @override
    def _needs_vectors(self) -> bool:
        return True

    @property
    @override
    def _needs_records(self) -> bool:
        return True

    @property
    @override
    def _name(self) -> str:
        return self.name

    @override
    async def seed(self, state: WalkState[StrategyMemory], store: Walkable) -> list[ArtifactNode]:
        state.memory.corpus = store
        return await self._find_start(state, store, self.start_k)

    @override
    async def score(
        self, state: WalkState[StrategyMemory], nodes: Sequence[ArtifactNode] | Numbers, store: Walkable
    ) -> NDArray[Any]:
        return await self._score_and_keep_vectors(state, nodes, store)

    async def select(self, state: WalkState[StrategyMemory], frontier: Frontier) -> list[int]:
        """Call `iteration`, and return the positions of the nodes that it selects, then traverses."""
        memory = state.memory
        if memory.is_over or self.select_k == 0:
            return self._select_nothing(state, frontier)
        tracker = memory.tracker
        memory.strategy.query_embedding = memory.vector
        # 1. A waiting node may have been reached on a shorter path since it was passed to `iteration`.
        for id, position in memory.waiting.items():
            memory.nodes[id].depth = frontier.depths[position]
        # 2. Let the strategy decide about the new nodes. Earlier ones it may have kept for itself.
        nodes, count_before = await self._admit_nodes(state, frontier), len(tracker.selected)
        memory.nodes.update((node.id, node) for node in nodes)
        answer = memory.strategy.iteration(nodes, tracker)
        if answer is not None:
            memory.is_iterating = True
            await answer
            memory.is_iterating = False
        # 3. Commit what it selected, then what it only traverses, which becomes a router.
        memory.selected = {node.id: node for node in tracker.selected[count_before:]}
        only_traversed = [id for id in tracker.to_traverse if id not in memory.selected]
        memory.is_over = not (tracker.num_remaining and tracker.to_traverse)
        positions = [self._pop_position(memory.waiting, id) for id in (*memory.selected, *only_traversed)]
        self._expect_hits(state, memory.selected)
        return positions or self._select_nothing(state, frontier)

    async def _admit_nodes(self, state: WalkState[StrategyMemory], frontier: Frontier) -> list[Node]:
        """Return the artifacts with surfaces that this step admits; one store call."""
        memory, admission = state.memory, self._admit(state, frontier)
        positions = admission.positions.tolist()
        ids: list[Id] = [frontier.ids[position] for position in positions]
        nodes, records = [], await memory.best_records(ids, memory.corpus)
        memory.keep_admission(admission)
        for position, id, record in zip(positions, ids, records, strict=True):
            if record is not None:
                memory.waiting[id] = position
                nodes.append(memory.to_node(id, record, frontier.depths[position], memory.rows[position].copy()))
        return nodes

    def _pop_position(self, waiting: dict[Id, int], id: Id) -> int:
        """Return the position of a waiting node, and remove it from `waiting`.

        Raises:
            PolicyError: If the node does not wait.
        """
        if id not in waiting:
            raise PolicyError(
                f"{self.name}.iteration selected or traversed {id!r}, which does not wait; "
                "select and traverse a node in the same step, and only once"
            )
        return waiting.pop(id)

    @override
    async def expand(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[list[ArtifactNode]]:
        tracker = state.memory.tracker
        to_expand = [entry for entry in committed if entry.id in tracker.to_traverse or entry.id in tracker.at_cap]
        neighbors = cast("list[list[ArtifactNode]]", await super().expand(state, to_expand, store))
        neighbors_of = dict(zip((entry.id for entry in to_expand), neighbors, strict=True))
        tracker.to_traverse.clear()
        return [neighbors_of.get(entry.id, []) for entry in committed]

    @override
    def stop(self, state: WalkState[StrategyMemory]) -> bool:
        return self._has_complete_step(state)

    @override
    async def to_hits(
        self, state: WalkState[StrategyMemory], committed: Sequence[CommittedNode], store: Walkable
    ) -> list[SearchHit | None]:
        hits = await super().to_hits(state, committed, store)
        for index, (entry, hit) in enumerate(zip(committed, hits, strict=True)):
            if hit is not None:
                node = state.memory.selected.get(entry.node.id)
                hits[index] = replace(hit, metadata=node.extra_metadata | hit.metadata) if node else None
        return hits

    @override
    def rank(self, state: WalkState[StrategyMemory], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        memory = state.memory
        final_nodes = {node.id: node for node in memory.strategy.finalize_nodes(list(memory.tracker.selected))}
        hit_of = {node_of_hit(hit, final_nodes): hit for hit in hits}
        return [
            replace(hit_of[id], metadata=node.extra_metadata | hit_of[id].metadata)
            for id, node in final_nodes.items()
            if id in hit_of
        ]
