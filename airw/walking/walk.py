"""`start_walk`, and `Walk`, the async generator that it returns."""

import math
from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Hashable
from itertools import islice
from types import EllipsisType, TracebackType
from typing import Any, Self

from airw._base.checks import check_flag, check_kind, check_query
from airw._base.concurrency import take_turn
from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.values import Limits, SearchHit
from airw.walking.answers import label_error, require_plain
from airw.walking.events import WalkEvents
from airw.walking.policy import WalkPolicy, is_iterable
from airw.walking.run import WalkRun, to_exception
from airw.walking.stages import WalkStages
from airw.walking.summary import WalkSummary, check_bounds, check_extendable, check_raised

_LIMITS = Limits()
_POLICY_METHODS = ("seed", "score", "select", "expand", "node_id", "stop", "to_hits", "edge_of", "rank")
_POLICY_ATTRIBUTES = ("max_depth", "keeps_frontier", "scores_paths")


def start_walk(
    query: str,
    store: Any,
    policy: WalkPolicy,
    *,
    max_depth: int | EllipsisType | None = ...,
    node_budget: int = 64,
    timeout: float | None = None,
    limits: Limits | None = None,
) -> "Walk":
    """Return a walk; `airw.traverse` is the same, with a default policy.

    Raises:
        ArgumentError: If an argument cannot be used.

    Example:
        >>> import airw
        >>> start_walk("keys", None, airw.policies.Eager(), node_budget=5).summary is None
        True
    """
    check_query(query)
    if isinstance(store, str):
        from airw.retrieval import describe_mistaken_corpus  # here, as a walk needs nothing else of it

        raise ArgumentError(f"store must be an open corpus, not {describe_mistaken_corpus(store)}")
    _check_policy(policy)
    depth = policy.max_depth if max_depth is ... else max_depth
    check_bounds(depth, node_budget, timeout)
    check_kind("limits", limits, Limits | None, "be a Limits object", error=ArgumentError)
    seconds = math.inf if timeout is None else timeout
    stages = WalkStages(
        query, store, policy, max_depth=depth, node_budget=node_budget, timeout=seconds, limits=limits or _LIMITS
    )
    return Walk(stages, timeout=seconds)


def _check_policy(policy: object) -> None:
    if isinstance(policy, str):
        raise ArgumentError(
            f"policy must be an object, not the name {short_repr(policy)}; pass one such as airw.policies.Eager()"
        )
    if isinstance(policy, type):
        raise ArgumentError(f"policy must be an instance, not the class {policy.__name__}; pass {policy.__name__}(...)")
    missing = [name for name in _POLICY_METHODS if not callable(getattr(policy, name, None))]
    missing += [name for name in _POLICY_ATTRIBUTES if not hasattr(policy, name)]
    if missing and callable(getattr(policy, "to_hit", None)):
        raise ArgumentError(
            f"policy {type(policy).__name__} works one node at a time; pass airw.policies.per_node(policy)"
        )
    if missing:
        raise ArgumentError(
            f"policy must be a walk policy, not {short_repr(policy)}, which has no {', '.join(missing)}; "
            "inherit from airw.Policy"
        )
    for name in ("keeps_frontier", "scores_paths"):
        value = getattr(policy, name)
        check_flag(f"{name} of the policy {type(policy).__name__}", value)
    if getattr(policy, "rescores_committed", False) and not policy.scores_paths:  # type: ignore[attr-defined]
        raise ArgumentError(
            f"rescores_committed of the policy {type(policy).__name__} needs scores_paths = True: it scores paths"
        )


class Walk(AsyncGenerator[SearchHit, None]):
    """A walk: an async generator of hits, returned by `airw.traverse`.

    Nothing is open between two hits: no task, no timer, no connection. So a walk that is dropped half-way needs no
    clean-up. Only one task at a time may request hits. All work in progress stops when the `async with` block is left,
    when `aclose()` is called or a request is cancelled. It stops at the deadline, too. `asend(x)` does the same as
    `anext`; `athrow(e)` closes the walk and raises `e`.
    """

    def __init__(self, stages: WalkStages, *, timeout: float) -> None:
        """Prepare a walk; nothing runs before the first request."""
        self._stages = stages
        self._run = WalkRun(stages, timeout)
        self._yields_events = False
        self._ranking: list[SearchHit] | None = None
        self._positions: dict[Hashable, int] = {}  # by the identity of a hit: see `path`
        self._indexed_rows = 0

    def extend(
        self,
        *,
        node_budget: int | EllipsisType = ...,
        max_depth: int | EllipsisType | None = ...,
        timeout: float | EllipsisType | None = ...,
    ) -> Self:
        """Raise limits of a walk that has ended, and return the walk, which goes on.

        Limits are totals, and one that is left out stays. The hits before and after are those of one walk with the
        larger limits from the start. Nothing is asked of the store again, except by the call that a deadline cancelled.
        If the walk ended for another reason than these limits, it has no more hits. Events go on, too.

        Args:
            node_budget: The number of nodes to commit at most, those before included.
            max_depth: The depth cap; `None` for no cap. It can be raised only if the policy does not keep its frontier.
            timeout: The seconds until the deadline, those before included; `None` for none. The time between the end of
                the walk and the next request does not count.

        Raises:
            ArgumentError: If an argument cannot be used, or lowers a limit.
            WalkNotExtendable: If the walk has not ended, was closed before its end, failed or reached `max_hits`. Also
                if it counts beyond its limits, or if a higher depth cap would have changed the hits that it yielded.
                Also if `prefetch` or `merge` has read hits that nobody took, or if the policy finds an obstacle. The
                walk and its summary then stay as they are.

        Example:
            >>> import anyio
            >>> from airw import build, from_mapping, traverse
            >>> from airw.embedders import HashingEmbedder
            >>> from airw.stores import MemoryStore
            >>> async def main():
            ...     notes = {"a": "signing keys", "b": "keys", "c": "door keys"}
            ...     source = from_mapping(notes, name="docs", embedder=HashingEmbedder())
            ...     async with build(source, store=MemoryStore()) as corpus:
            ...         walk = traverse("signing keys", corpus, node_budget=1)
            ...         print([hit.artifact_id async for hit in walk])
            ...         print([hit.artifact_id async for hit in walk.extend(node_budget=3)])
            >>> anyio.run(main)
            ['a']
            ['b', 'c']
        """
        stages = self._stages
        budget = stages.node_budget if node_budget is ... else node_budget
        depth = stages.max_depth if max_depth is ... else max_depth
        seconds = self._run.timeout if timeout is ... else timeout
        check_bounds(depth, budget, seconds)
        check_raised("node_budget", budget, stages.node_budget)
        check_raised("max_depth", depth, stages.max_depth)
        check_raised("timeout", seconds, self._run.timeout)
        find_obstacle = getattr(self.policy, "find_obstacle", None)  # a policy need not have it
        check_extendable(
            self.summary,
            self.policy,
            stages.limits,
            max_depth=stages.max_depth,
            raises_depth=depth != stages.max_depth,
            has_lost_items=self._run.has_lost_items,
            find_obstacle=lambda: None if find_obstacle is None else find_obstacle(stages.state),
        )
        stages.extend(max_depth=depth, node_budget=budget)
        self._run.go_on(math.inf if seconds is None else seconds)
        self._ranking = None
        return self

    # The methods of an async generator and context manager.

    async def __aenter__(self) -> Self:
        """Return the walk itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walk."""
        await self.aclose()

    async def __anext__(self) -> SearchHit:
        """Return the next hit.

        Raises:
            StopAsyncIteration: If the walk has ended.
            RuntimeError: If another task is waiting for a hit, or if the walk is read as events.
        """
        # A hit that is ready leaves without the cost of a request, unless the policy may want to stop the walk.
        stages = self._stages
        row = stages.next
        if self._yields_events:
            raise RuntimeError("this walk is read as events; read its events, or start another walk for hits")
        if row < stages.ready_until:
            hit = self._pop_ready() if stages.asks_stop else stages.hits[row]
            if hit is not None:
                if not stages.asks_stop:
                    stages.next = row + 1
                return hit
        return await self._run.serve(self._next_hit)

    def _pop_ready(self) -> SearchHit | None:
        """Deliver the next hit; `None` if it is not ready, or the policy may stop before it."""
        try:
            return self._stages.pop_hit() if self._stages.call_stop() is False else None
        except BaseException as error:
            self._run.fail(error)
            raise

    async def _read_ready(self) -> list[SearchHit]:
        """Return the hits that are ready, at least one; none at the end."""
        hit, hits, stages = await anext(self, None), list[SearchHit](), self._stages
        while hit is not None:
            hits.append(hit)
            hit = stages.pop_ready()
        return hits

    def asend(self, value: None, /) -> Coroutine[Any, Any, SearchHit]:
        """Return the next hit, as `anext` does."""
        return self.__anext__()

    async def athrow(self, typ: Any, val: Any = None, tb: TracebackType | None = None, /) -> SearchHit:
        """Close the walk and raise the exception."""
        await self.aclose()
        raise to_exception(typ, val, tb)

    async def aclose(self) -> None:
        """Close the walk.

        If another task is waiting for a hit, its step is cancelled and its loop over the walk ends. This call returns
        when that step has stopped.
        """
        await self._run.close()

    # Properties and methods for the caller.

    @property
    def policy(self) -> WalkPolicy:
        """The policy of the walk."""
        return self._stages.policy

    @property
    def summary(self) -> WalkSummary | None:
        """Why the walk ended and how much it left out; `None` until it has ended."""
        return self._run.summary

    @property
    def ranking(self) -> list[SearchHit] | None:
        """The hits in the policy's final order, best first; `None` until the walk has ended.

        If the policy scores committed nodes again, a hit found by a better path is a copy with the score of that path.
        """
        if self._ranking is None and self.summary is not None:
            hits, name = self._stages.hits_to_rank(), type(self.policy).__name__
            if not hits:  # the walk may have ended before its first step, and then the policy has no memory of it
                self._ranking = []
                return self._ranking
            try:
                answer = require_plain("rank", self.policy, self.policy.rank(self._stages.state, tuple(hits)))
                ranked = list(islice(answer, len(hits) + 1)) if is_iterable(answer) else None
            except Exception as error:
                label_error(error, "rank", self.policy)
                raise
            wrong = [answer] if ranked is None else [hit for hit in ranked if not isinstance(hit, SearchHit)]
            if ranked is None or wrong:
                raise PolicyError(f"{name}.rank returned {short_repr(wrong[0])}; return a list of hits of the walk")
            if not Counter(map(self._identity, ranked)) <= Counter(map(self._identity, hits)):
                raise PolicyError(
                    f"{name}.rank returned a hit that the walk did not yield; return only hits of the walk"
                )
            self._ranking = ranked
        return self._ranking

    def path(self, hit: SearchHit) -> list[Hashable]:
        """Return the ids of the nodes from the seed to a hit of this walk, routers included.

        This is the path by which the walk committed it.

        Raises:
            ArgumentError: If the hit does not come from this walk.
        """
        # Index only the hits that are new since the last call.
        for position, known_hit in self._stages.hits_since(self._indexed_rows):
            # Two nodes may have hits of one surface, so the object itself counts first. A hit that `rank` replaced is
            # another object, and is recognised by its surface.
            self._positions[id(known_hit)] = position
            self._positions.setdefault(self._identity(known_hit), position)
        self._indexed_rows = self._stages.next
        key = id(hit) if id(hit) in self._positions else self._identity(hit)
        if key not in self._positions:
            raise ArgumentError(
                f"hit {short_repr(hit.artifact_id)} is not of this walk; pass a hit that the walk yielded"
            )
        position = self._positions[key]
        self._stages.record.require_stable([position])
        return self._stages.record.path_to(position)

    def events(self, *, edges: bool = True) -> WalkEvents:
        """Return the walk as a stream of events instead of hits, for drawing or logging it.

        Call it before the first hit is requested.

        Args:
            edges: Report each edge that is read. Without that, a walk of many edges costs less.

        Raises:
            RuntimeError: If hits or events of this walk were requested before.

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
        if self._yields_events or self._run.has_started:
            raise RuntimeError("this walk is being read already; call events() before the first request")
        self._yields_events = True
        return WalkEvents(self._run, edges=edges)

    def _identity(self, hit: SearchHit) -> Hashable:
        """Return what tells the surface of a hit from others.

        Raises:
            PolicyError: If it cannot be hashed.
        """
        identity = (hit.source, hit.artifact_id, hit.surface_kind, hit.surface_index)
        try:
            hash(identity)
        except TypeError as error:
            raise PolicyError(
                f"{type(self.policy).__name__}.to_hits returned hits whose identity cannot be compared ({error}); "
                "return hits with a hashable source, artifact_id, surface_kind and surface_index"
            ) from error
        return identity

    async def _next_hit(self) -> SearchHit | None:
        """Return the next hit; `None` at the end of the walk."""
        run, stages = self._run, self._stages
        # 1. The policy may stop the walk after each hit, before any further work is done for it.
        #    Most policies have no such rule, and then a hit costs no question.
        if stages.call_stop() is not False and await run.should_end():
            return None
        # 2. A hit that is ready needs no work, so the deadline does not apply to it.
        if stages.next < stages.end:
            if not await run.run_other_tasks():
                return None
            hit = stages.pop_hit()
            if hit is not None:
                return hit
        # 3. Otherwise work until there is a hit, under the deadline.
        hit = None if stages.is_over() else await run.run_until_deadline(self._work())
        if hit is None:
            run.end(stages.stop_reason or "exhausted")
        return hit

    async def _work(self) -> SearchHit | None:
        # Trio and asyncio check for cancellation at checkpoints only, and a policy may never wait.
        await take_turn()
        while await self._stages.advance():
            hit = self._stages.pop_hit()
            if hit is not None:
                return hit
        return None


async def read_ready(walk: Walk) -> list[SearchHit]:
    """Return the hits of a walk that are ready, at least one; none at the end.

    It is for callers to whom a request costs much more than a hit.
    """
    return await walk._read_ready()  # noqa: SLF001 - a function of this module, and no promise to others
