"""Walks that give a list, and policies that judge one node at a time; the module is also the function `traverse`."""

import sys
from collections.abc import AsyncIterator, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol, runtime_checkable

from airw import walking
from airw._base.concurrency import in_thread
from airw.compat._sync import run
from airw.compat.ir._both import CallableModule
from airw.compat.ir.index import opened
from airw.policies import CollapsedTree, PerNode, ReverseDependency, per_node
from airw.policies.collapsed_tree import LEAF_KINDS, SUMMARY_KINDS
from airw.values import Limits, SearchHit

DFLT_SUMMARY_KINDS = SUMMARY_KINDS
DFLT_LEAF_KINDS = LEAF_KINDS
DFLT_MAX_DEPTH = 2
DFLT_NODE_BUDGET = 64
DFLT_SEED_K = 10
_PAGE = 100


@dataclass
class WalkState:
    """One walk as its policy sees it."""

    query: str
    max_depth: int
    budget: int
    visited: set[Hashable] = field(default_factory=set)
    results: list[SearchHit] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)


@runtime_checkable
class WalkPolicy(Protocol):
    """What a walk means: where it starts, what is near, what lies behind a node, what is a hit."""

    def seed(self, state: WalkState, store: Any) -> Iterable[Any]:
        """Return the nodes to start from."""
        ...

    def score(self, state: WalkState, node: Any, store: Any) -> float:
        """Return how near a node is to the query."""
        ...

    def select(self, state: WalkState, scored: Sequence[tuple[Any, int, float]]) -> Iterable[tuple[Any, int, float]]:
        """Return what to commit of `(node, depth, score)` triples, in that order."""
        ...

    def expand(self, state: WalkState, node: Any, store: Any) -> Iterable[Any]:
        """Return what lies behind a node."""
        ...

    def node_id(self, node: Any) -> Hashable:
        """Return what identifies a node."""
        ...

    def stop(self, state: WalkState) -> bool:
        """Return whether the walk has found enough."""
        ...

    def to_hit(self, state: WalkState, node: Any, score: float, depth: int) -> SearchHit | None:
        """Return a node as a hit; `None` where it only routes."""
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
    """Walk under a policy and return the best `k` hits, the best first; see `airw.traverse`.

    Args:
        query: What to look for.
        store: A corpus, or whatever else the policy walks.
        policy: One of the two below, any policy of airw, or one of your own that judges one node at a time. Its methods
            are called in worker threads, one at a time, and may search and read as they like.
        max_depth: How far from its start the walk goes.
        node_budget: How many nodes are visited.
        k: How many hits are returned.

    Raises:
        ArgumentError: A parameter cannot be used, or the policy lacks a method.
        PolicyError: The policy gave what cannot be used.

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
    is_own = not hasattr(policy, "to_hits")
    if is_own:
        per_node(policy)  # which says what it lacks
    walked = _Walked(_InThreads(policy)) if is_own else policy
    limits = Limits(max_concurrency=1) if is_own else None

    async def walk() -> list[SearchHit]:
        found = walking.traverse(
            query,
            store if is_own else opened(store),
            policy=walked,
            max_depth=max_depth,
            node_budget=node_budget,
            limits=limits,
        )
        return await walking.top_k(found, k)

    return run(walk)


@dataclass(frozen=True)
class _Walked(PerNode):
    """A policy of `ir`, all nodes of a step scored in one turn."""

    async def score(self, state: walking.WalkState, nodes: Sequence[Any], store: Any) -> list[float]:
        return await self.policy.scores(state, nodes, store)  # type: ignore[no-any-return]


class _InThreads:
    """A policy of `ir` for one walk, whose methods may block and call what waits for this library."""

    def __init__(self, policy: Any) -> None:
        self.policy = policy
        self._state: WalkState | None = None

    async def seed(self, state: walking.WalkState, store: Any) -> Any:
        return _lazily(await in_thread(self.policy.seed, self._seen(state), store))

    async def score(self, state: walking.WalkState, node: Any, store: Any) -> Any:
        return (await self.scores(state, [node], store))[0]

    async def scores(self, state: walking.WalkState, nodes: Sequence[Any], store: Any) -> list[Any]:
        seen = self._seen(state)
        return await in_thread(lambda: [self.policy.score(seen, node, store) for node in nodes])

    async def select(self, state: walking.WalkState, scored: Sequence[Any]) -> Any:
        if not callable(getattr(self.policy, "select", None)):
            return sorted(scored, key=lambda triple: -triple[2])
        return await in_thread(lambda: _first(self.policy.select(self._seen(state), scored), len(scored)))

    async def expand(self, state: walking.WalkState, node: Any, store: Any) -> Any:
        return _lazily(await in_thread(self.policy.expand, self._seen(state), node, store))

    def node_id(self, node: Any) -> Hashable:
        id: Hashable = self.policy.node_id(node)
        return id

    async def stop(self, state: walking.WalkState) -> bool:
        return hasattr(self.policy, "stop") and bool(await in_thread(self.policy.stop, self._seen(state)))

    async def to_hit(self, state: walking.WalkState, node: Any, score: float, depth: int) -> Any:
        return await in_thread(self.policy.to_hit, self._seen(state), node, score, depth)

    def _seen(self, state: walking.WalkState) -> WalkState:
        if self._state is None:
            given = (state.query, state.max_depth or 0, state.node_budget)
            self._state = WalkState(*given, state.visited, state.results, state.cache)
        return self._state


def _lazily(nodes: Any) -> Any:
    """Return nodes as they are where they are there already, else as they are made, some at a time."""
    return (
        nodes if isinstance(nodes, list | tuple | set | frozenset) or not isinstance(nodes, Iterable) else _made(nodes)
    )


async def _made(nodes: Iterable[Any]) -> AsyncIterator[Any]:
    iterator = iter(nodes)
    while page := await in_thread(lambda: list(islice(iterator, _PAGE))):
        for node in page:
            yield node


def _first(picked: Any, count: int) -> Any:
    return list(islice(picked, count)) if isinstance(picked, Iterable) else picked


def collapsed_tree_policy(
    *,
    summary_kinds: Iterable[str] = DFLT_SUMMARY_KINDS,
    leaf_kinds: Iterable[str] = DFLT_LEAF_KINDS,
    seed_k: int = DFLT_SEED_K,
) -> CollapsedTree:
    """Return the policy that routes by summaries down to parts.

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
    """Return the policy that walks from libraries to what depends on them.

    Raises:
        ArgumentError: A parameter cannot be used.

    Example:
        >>> reverse_dependency_policy(seeds=["numpy", "anyio"]) == ReverseDependency(seeds={"anyio", "numpy"})
        True
    """
    chosen: Any = seeds if isinstance(seeds, str) else list(seeds)
    return ReverseDependency(
        seeds=chosen, edge_type=edge_type, fan_in_weight=fan_in_weight, proximity_weight=proximity_weight
    )


sys.modules[__name__].__class__ = CallableModule
