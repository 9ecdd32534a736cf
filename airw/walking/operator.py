"""The walk as its consumer holds it: an async generator, a context manager, and what may be asked of it."""

from collections import Counter
from collections.abc import AsyncGenerator, Coroutine, Hashable
from itertools import islice
from types import TracebackType
from typing import Any, Self

import anyio.lowlevel

from airw._base.messages import short_repr
from airw.errors import ArgumentError, PolicyError
from airw.values import SearchHit
from airw.walking.event_stream import WalkEvents
from airw.walking.policy import WalkPolicy
from airw.walking.reading import stage
from airw.walking.run import Run, thrown
from airw.walking.steps import Steps
from airw.walking.summary import WalkSummary

__all__ = ["Walk"]


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
