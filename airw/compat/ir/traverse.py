"""Walks that return a list of hits; the module is also the function `traverse`."""

import sys
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from airw import walking
from airw._base.concurrency import in_thread
from airw.compat._sync import run
from airw.compat.ir._callable_module import CallableModule
from airw.compat.ir.index import to_airw
from airw.policies import CollapsedTree, PerNode, ReverseDependency, per_node
from airw.policies.collapsed_tree import LEAF_KINDS, SUMMARY_KINDS
from airw.values import Limits, SearchHit

DFLT_SUMMARY_KINDS = SUMMARY_KINDS
DFLT_LEAF_KINDS = LEAF_KINDS
DFLT_MAX_DEPTH = 2
DFLT_NODE_BUDGET = 64
DFLT_SEED_K = 10
_PAGE = 100  # nodes of an iterable that are read in one call of a worker thread


@dataclass
class WalkState:
    """The state of one walk, as policies of `ir` see it."""

    query: str
    max_depth: int
    budget: int
    visited: set[Hashable] = field(default_factory=set)
    results: list[SearchHit] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)


@runtime_checkable
class WalkPolicy(Protocol):
    """A policy that handles one node at a time."""

    def seed(self, state: WalkState, store: Any) -> Iterable[Any]:
        """Return the nodes to start from."""
        ...

    def score(self, state: WalkState, node: Any, store: Any) -> float:
        """Return the score of a node; higher is better."""
        ...

    def select(self, state: WalkState, scored: Sequence[tuple[Any, int, float]]) -> Iterable[tuple[Any, int, float]]:
        """Return the `(node, depth, score)` triples to commit, in order."""
        ...

    def expand(self, state: WalkState, node: Any, store: Any) -> Iterable[Any]:
        """Return the neighbours of a node."""
        ...

    def node_id(self, node: Any) -> Hashable:
        """Return the id of a node."""
        ...

    def stop(self, state: WalkState) -> bool:
        """Return whether to stop the walk."""
        ...

    def to_hit(self, state: WalkState, node: Any, score: float, depth: int) -> SearchHit | None:
        """Return the hit of a node, or `None` for a router."""
        ...


def traverse(
    query: str,
    store: Any,
    *,
    policy: Any,
    max_depth: int = DFLT_MAX_DEPTH,
    node_budget: int = DFLT_NODE_BUDGET,
    k: int = 10,
) -> list[SearchHit]:
    """Walk with a policy and return the best `k` hits, best first; see `airw.traverse`.

    Args:
        query: The text to search for.
        store: A corpus, or other data that the policy walks.
        policy: One of the two policies below, a policy of airw, or a policy of your own that handles one node at a
            time. Its methods are called in worker threads, one at a time; they may block and call this library.
        max_depth: Maximum depth of a node.
        node_budget: Maximum number of nodes to commit.
        k: Maximum number of hits to return.

    Raises:
        ArgumentError: If a parameter is not valid, or the policy lacks a method.
        PolicyError: If the policy returns an invalid value.

    Example:
        >>> class Countdown:
        ...     def seed(self, state, store): return [3]
        ...     def score(self, state, node, store): return float(node)
        ...     def select(self, state, scored): return scored
        ...     def expand(self, state, node, store): return [node - 1] if node else []
        ...     def node_id(self, node): return node
        ...     def stop(self, state): return False
        ...     def to_hit(self, state, node, score, depth): return SearchHit(str(node), "number", score, "")
        >>> [hit.artifact_id for hit in traverse("count", None, policy=Countdown())]
        ['3', '2', '1']
    """
    is_per_node = not hasattr(policy, "to_hits")
    if is_per_node:
        per_node(policy)  # raises an error that names the missing methods
    async_policy = _IrPolicy(_ThreadedPolicy(policy)) if is_per_node else policy
    limits = Limits(max_concurrency=1) if is_per_node else None

    async def walk() -> list[SearchHit]:
        hits = walking.start_walk(
            query,
            store if is_per_node else to_airw(store),
            async_policy,
            max_depth=max_depth,
            node_budget=node_budget,
            limits=limits,
        )
        return await walking.top_k(hits, k)

    return run(walk)


@dataclass(frozen=True)
class _IrPolicy(PerNode):
    """A policy of `ir` that scores all nodes of a step in one call of a worker thread."""

    async def score(self, state: walking.WalkState, nodes: Sequence[Any], store: Any) -> list[float]:
        return await self.policy.scores(state, nodes, store)  # type: ignore[no-any-return]


class _ThreadedPolicy:
    """A policy of `ir` whose methods run in worker threads, for one walk.

    So they may block and call sync functions of this library.
    """

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self._state: WalkState | None = None

    async def seed(self, state: walking.WalkState, store: Any) -> Any:
        return _iterate_lazily(await in_thread(self.policy.seed, self._ir_state(state), store))

    async def score(self, state: walking.WalkState, node: Any, store: Any) -> Any:
        return (await self.scores(state, [node], store))[0]

    async def scores(self, state: walking.WalkState, nodes: Sequence[Any], store: Any) -> list[Any]:
        ir_state = self._ir_state(state)
        return await in_thread(lambda: [self.policy.score(ir_state, node, store) for node in nodes])

    async def select(self, state: walking.WalkState, scored: Sequence[Any]) -> Any:
        if not callable(getattr(self.policy, "select", None)):
            return sorted(scored, key=lambda triple: -triple[2])
        return await in_thread(lambda: _take(self.policy.select(self._ir_state(state), scored), len(scored)))

    async def expand(self, state: walking.WalkState, node: Any, store: Any) -> Any:
        return _iterate_lazily(await in_thread(self.policy.expand, self._ir_state(state), node, store))

    def node_id(self, node: Any) -> Hashable:
        id: Hashable = self.policy.node_id(node)
        return id

    async def stop(self, state: walking.WalkState) -> bool:
        return hasattr(self.policy, "stop") and bool(await in_thread(self.policy.stop, self._ir_state(state)))

    async def to_hit(self, state: walking.WalkState, node: Any, score: float, depth: int) -> Any:
        return await in_thread(self.policy.to_hit, self._ir_state(state), node, score, depth)

    def _ir_state(self, state: walking.WalkState) -> WalkState:
        if self._state is None:
            options = (state.query, state.max_depth or 0, state.node_budget)
            self._state = WalkState(*options, state.visited, state.results, state.cache)
        return self._state


def _iterate_lazily(nodes: Any) -> Any:
    """Return a collection unchanged; read any other iterable page by page in worker threads."""
    if isinstance(nodes, list | tuple | set | frozenset) or not isinstance(nodes, Iterable):
        return nodes
    return _read_pages(nodes)


async def _read_pages(nodes: Iterable[Any]) -> AsyncIterator[Any]:
    iterator = iter(nodes)
    while page := await in_thread(lambda: list(islice(iterator, _PAGE))):
        for node in page:
            yield node


def _take(nodes: Any, count: int) -> Any:
    return list(islice(nodes, count)) if isinstance(nodes, Iterable) else nodes


def collapsed_tree_policy(
    *,
    summary_kinds: Iterable[str] = DFLT_SUMMARY_KINDS,
    leaf_kinds: Iterable[str] = DFLT_LEAF_KINDS,
    seed_k: int = DFLT_SEED_K,
) -> CollapsedTree:
    """Return the policy that walks from summaries down to their parts.

    Example:
        >>> collapsed_tree_policy(seed_k=3) == CollapsedTree(seed_k=3)
        True
    """
    return CollapsedTree(summary_kinds=tuple(summary_kinds), leaf_kinds=tuple(leaf_kinds), seed_k=seed_k)


def reverse_dependency_policy(
    *,
    seeds: Iterable[str | tuple[str, str]],
    edge_type: str = "REF",
    fan_in_weight: float = 0.0,
    proximity_weight: float = 0.0,
) -> ReverseDependency:
    """Return the policy that walks from libraries to their dependents.

    Raises:
        ArgumentError: If a parameter is not valid.

    Example:
        >>> reverse_dependency_policy(seeds=["numpy", "anyio"]) == ReverseDependency(seeds={"anyio", "numpy"})
        True
    """
    seed_list: Any = seeds if isinstance(seeds, str) else list(seeds)
    return ReverseDependency(
        seeds=seed_list, edge_type=edge_type, fan_in_weight=fan_in_weight, proximity_weight=proximity_weight
    )


sys.modules[__name__].__class__ = CallableModule
