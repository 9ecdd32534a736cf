"""The call that checks its arguments and starts a walk."""

import math
from types import EllipsisType
from typing import Any

from airw._base.checks import check_count, check_query
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values import Limits
from airw.walking.operator import Walk
from airw.walking.policy import WalkPolicy
from airw.walking.steps import Steps

__all__ = ["traverse"]

_LIMITS = Limits()
_POLICY_METHODS = ("seed", "score", "select", "expand", "node_id", "stop", "to_hits", "edge_of", "rank")
_POLICY_ATTRIBUTES = ("max_depth", "keeps_frontier", "scores_paths")


def traverse(
    query: str,
    store: Any,
    *,
    policy: WalkPolicy,
    max_depth: int | EllipsisType | None = ...,
    node_budget: int = 64,
    timeout: float | None = None,
    limits: Limits | None = None,
) -> Walk:
    """Walk a corpus or graph from a query and stream each hit the moment it is committed.

    The policy owns the meaning of the walk; the operator enforces its bounds, and no policy can loop or flood.

    Args:
        query: What to look for.
        store: Handed to the policy as it is: an open corpus, or anything the policy understands.
        policy: Where to start, what is near, what lies behind a node: see `airw.policies`.
        max_depth: Nodes at this depth are not expanded; `None` for no cap; left out, the policy's own.
        node_budget: Commit at most this many nodes, routers included.
        timeout: Seconds from the first request, the consumer's own time included; `None` for none.
        limits: Further bounds.

    Returns:
        An async generator of hits in the order of commitment, and an async context manager that closes itself. After
        its end `summary` says why it stopped and what was left out, and `ranking` is the policy's final order.

    Raises:
        ArgumentError: An argument cannot be used; raised by this call, before the walk starts.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.policies import CollapsedTree
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "cake"}, name="docs", embedder=HashingEmbedder())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         async with traverse("rotate the signing keys", corpus, policy=CollapsedTree()) as walk:
        ...             async for hit in walk:
        ...                 print(hit.artifact_id, hit.metadata["walk_depth"])
        ...         print(walk.summary.stop)
        >>> anyio.run(main)
        a 0
        b 0
        exhausted
    """
    check_query(query)
    if isinstance(store, str):
        raise ArgumentError(f"store must be open, not the name {store!r}; use `await airw.open_corpus({store!r})`")
    _check_policy(policy)
    depth = policy.max_depth if max_depth is ... else max_depth
    if depth is not None:
        check_count("max_depth", depth)
    check_count("node_budget", node_budget)
    if timeout is not None and not _is_seconds(timeout):
        raise ArgumentError(f"timeout must be seconds of at least 0, or None, not {timeout!r}")
    if limits is not None and not isinstance(limits, Limits):
        raise ArgumentError(f"limits must be a Limits value, not {short_repr(limits)}")
    steps = Steps(query, store, policy, max_depth=depth, node_budget=node_budget, limits=limits or _LIMITS)
    return Walk(steps, timeout=math.inf if timeout is None else timeout)


def _check_policy(policy: object) -> None:
    if isinstance(policy, type):
        raise ArgumentError(f"policy must be an instance; write {policy.__name__}(...)")
    missing = [name for name in _POLICY_METHODS if not callable(getattr(policy, name, None))]
    missing += [name for name in _POLICY_ATTRIBUTES if not hasattr(policy, name)]
    if missing and callable(getattr(policy, "to_hit", None)):
        raise ArgumentError(
            f"{type(policy).__name__} works one node at a time; wrap it: airw.policies.per_node(policy)"
        )
    if missing:
        raise ArgumentError(
            f"{short_repr(policy)} is not a walk policy: it has no {', '.join(missing)}; inherit airw.Policy"
        )


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
