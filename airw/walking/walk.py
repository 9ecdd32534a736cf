"""`traverse` starts a walk; a `Walk` is the walk as its consumer holds it: an async generator of hits."""

import math
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Hashable
from itertools import islice
from types import EllipsisType, TracebackType
from typing import Any, Self

import anyio.lowlevel

from airw._base.checks import check_count, check_query
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.values import Limits, SearchHit
from airw.walking.events import WalkEvents
from airw.walking.policy import WalkPolicy
from airw.walking.reading import stage
from airw.walking.run import Run, thrown
from airw.walking.steps import Steps
from airw.walking.summary import WalkSummary

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
) -> "Walk":
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


class Walk(AsyncGenerator[SearchHit, None]):
    """One walk: an async generator of hits that holds nothing open between them.

    One task takes hits at a time. Leaving `async with`, `aclose()`, a cancelled request or the deadline stop all work
    in flight; a walk that is dropped half-way needs no finaliser. `asend(x)` is `anext`; `athrow(e)` closes and raises
    `e`. Made by `airw.traverse`.
    """

    def __init__(self, steps: Steps, *, timeout: float) -> None:
        """Prepare a walk; nothing runs before the first request."""
        self._steps = steps
        self._run = Run(steps, timeout)
        self._as_events = False
        self._ranking: list[SearchHit] | None = None
        self._nodes_of: dict[Hashable, Hashable] = {}
        self._indexed = 0

    # The generator's manners.

    async def __aenter__(self) -> Self:
        """Give the walk itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walk."""
        await self.aclose()

    async def __anext__(self) -> SearchHit:
        """Give the next hit.

        Raises:
            StopAsyncIteration: The walk has ended.
            RuntimeError: Another task waits for a hit, or the walk is read as events.
        """
        if self._as_events:
            raise RuntimeError("this walk is read as events; take those, or make another walk")
        try:
            hit = self._steps.hit_at_once()
        except BaseException:
            self._run.end("failed")
            raise
        return await self._run.take(self._next_hit) if hit is None else hit

    def asend(self, value: None, /) -> Coroutine[Any, Any, SearchHit]:
        """Give the next hit, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> SearchHit:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise thrown(typ, val, tb)

    async def aclose(self) -> None:
        """Stop the walk; from another task, cancel its running step, wait for it, and end that task's loop."""
        await self._run.close()

    # What the caller may ask of it.

    @property
    def policy(self) -> WalkPolicy:
        """The policy that decides."""
        return self._steps.policy

    @property
    def summary(self) -> WalkSummary | None:
        """Why the walk ended and what was left out; `None` until it has ended."""
        return self._run.summary

    @property
    def ranking(self) -> list[SearchHit] | None:
        """The policy's final order of the hits, best first; `None` until the walk has ended."""
        if self._ranking is None and self.summary is not None:
            hits = self._steps.hits
            with stage("rank", self.policy):
                ranked = list(islice(self.policy.rank(self._steps.state, tuple(hits)), len(hits) + 1))
            try:
                adds = not Counter(map(_identity, ranked)) <= Counter(map(_identity, hits))
            except TypeError as error:
                raise PolicyError(
                    f"{type(self.policy).__name__} made hits that cannot be told apart: {error}"
                ) from error
            if adds:
                raise PolicyError(f"{type(self.policy).__name__}.rank must not add hits")
            self._ranking = ranked
        return self._ranking

    def path(self, hit: SearchHit) -> list[Hashable]:
        """Give the ids of the nodes from the seed to a hit of this walk, routers included.

        Raises:
            ArgumentError: The hit is not of this walk.
        """
        steps = self._steps
        steps.settle()
        for made, node in zip(steps.hits[self._indexed :], steps.ids_of_hits[self._indexed :], strict=True):
            self._nodes_of[id(made)] = node
            self._nodes_of.setdefault(_identity(made), node)  # for hits that a ranking replaced
        self._indexed = len(steps.hits)
        key = id(hit) if id(hit) in self._nodes_of else _identity(hit)
        if key not in self._nodes_of:
            raise ArgumentError(f"the hit {short_repr(hit.artifact_id)} is not of this walk")
        return steps.record.path(self._nodes_of[key])

    def events(self) -> WalkEvents:
        """Read the walk as events instead of hits, to draw or to log it; called before the first hit.

        Raises:
            RuntimeError: The walk is being read already.

        Example:
            >>> import anyio
            >>> from airw import build, from_mapping, traverse
            >>> from airw.embedders import HashingEmbedder
            >>> from airw.stores import MemoryStore
            >>> from airw.policies import CollapsedTree
            >>> async def main():
            ...     source = from_mapping({"a": "signing keys"}, name="docs", embedder=HashingEmbedder())
            ...     async with build(source, store=MemoryStore()) as corpus:
            ...         async for event in traverse("keys", corpus, policy=CollapsedTree()).events():
            ...             print(event.to_dict()["type"])
            >>> anyio.run(main)
            hit
            progress
            summary
        """
        if self._as_events or self._run.started:
            raise RuntimeError("this walk is being read already; ask for its events before anything else")
        self._as_events = True
        return WalkEvents(self._run)

    async def _next_hit(self) -> SearchHit | None:
        """Give the next hit, or `None` at the end."""
        run, steps = self._run, self._steps
        if await run.enough():
            return None
        if steps.at_hand:
            if not await run.rest():
                return None
            hit = steps.next_hit()
            if hit is not None:
                return hit
        hit = await run.in_time(self._work())
        if hit is None:
            run.end(steps.stop or "exhausted")
        return hit

    async def _work(self) -> SearchHit | None:
        await anyio.lowlevel.checkpoint()
        while await self._steps.advance():
            hit = self._steps.next_hit()
            if hit is not None:
                return hit
        return None


def _identity(hit: SearchHit) -> Hashable:
    return hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index
