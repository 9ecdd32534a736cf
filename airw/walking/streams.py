"""What one does with a stream of hits: rank it, run ahead of it, take several at once.

A walk holds nothing open between two hits. To work ahead of its consumer, a task must stay open between them; it lives
in an `async with` block, and nowhere else.
"""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

import anyio
import anyio.abc
import anyio.lowlevel

from airw._base.checks import check_choice, check_count
from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values import SearchHit
from airw.walking.walk import Walk

Item = TypeVar("Item")
Taken = TypeVar("Taken")
Order: TypeAlias = Literal["arrival", "turns"]


async def top_k(walk: Walk, k: int = 10) -> list[SearchHit]:
    """Run a walk to its end, close it, and give the first `k` hits of its final ranking.

    Raises:
        ArgumentError: `walk` is not a walk, or `k` is not a whole number of at least 0.

    Example:
        >>> async def main(corpus):
        ...     from airw.policies import Eager
        ...     return await top_k(airw.traverse("signing keys", corpus, policy=Eager()), k=3)
    """
    if not isinstance(walk, Walk):
        raise ArgumentError(f"top_k takes what airw.traverse returns, not {short_repr(walk)}")
    check_count("k", k)
    async with walk:
        async for _ in walk:
            pass
    return (walk.ranking or [])[:k]


def prefetch(walk: AsyncGenerator[Item, Any], *, buffer: int = 32) -> "ReadAhead[Item]":
    """Let a walk run ahead of its consumer, by at most `buffer` hits, while the block is open.

    The walk starts when the block is entered, and so does its `timeout`. The consumer's time and the walk's then
    overlap; the cost is that the walk does work, and makes store calls, for up to `buffer` hits that the consumer may
    never take. Hits made before a failure come first, then the failure; one that the consumer never reached is not
    raised. Leaving the block, in whatever way, closes the walk.

    Args:
        walk: A walk, or any other async generator; the block closes it.
        buffer: Hits made and not yet taken, at most; at least 1. When that many wait, the walk waits.

    Returns:
        An async context manager that gives itself: an async iterator of the walk's hits, in its order.

    Raises:
        ArgumentError: An argument cannot be used; raised by this call, before anything runs.

    Example:
        >>> import anyio
        >>> from airw import build, from_mapping, traverse
        >>> from airw.embedders import HashingEmbedder
        >>> from airw.stores import MemoryStore
        >>> from airw.policies import CollapsedTree
        >>> from airw.walking.streams import prefetch
        >>> async def main():
        ...     source = from_mapping({"a": "signing keys", "b": "cake"}, name="docs", embedder=HashingEmbedder())
        ...     async with build(source, store=MemoryStore()) as corpus:
        ...         walk = traverse("rotate the signing keys", corpus, policy=CollapsedTree())
        ...         async with prefetch(walk, buffer=8) as hits:
        ...             async for hit in hits:
        ...                 print(hit.artifact_id)
        ...         print(walk.summary.stop)
        >>> anyio.run(main)
        a
        b
        exhausted
    """
    _check_sources("prefetch", [walk], buffer)
    return ReadAhead([walk], lambda _, hit: hit, buffer, "turns")


@overload
def merge(*walks: Walk, buffer: int = 32, order: Order = "arrival") -> "ReadAhead[tuple[Walk, SearchHit]]": ...
@overload
def merge(
    *walks: AsyncGenerator[Item, Any], buffer: int = 32, order: Order = "arrival"
) -> "ReadAhead[tuple[AsyncGenerator[Item, Any], Item]]": ...
def merge(*walks: AsyncGenerator[Any, Any], buffer: int = 32, order: Order = "arrival") -> "ReadAhead[tuple[Any, Any]]":
    """Run several walks concurrently while the block is open, and take their hits as one stream of `(walk, hit)`.

    Within the stream each walk's hits keep their order. The cost is that of `prefetch`, for each walk: work for up to
    `buffer` hits that the consumer may never take. The first failure ends the stream and closes all walks; leaving the
    block, in whatever way, closes them too.

    Args:
        walks: Walks, or other async generators, each given once; the block closes them. None at all end at once.
        buffer: Hits of each walk made and not yet taken, at most; at least 1.
        order: `"arrival"`: as they come; a failure stops the other walks at once and is raised after the hits that came
            before it. `"turns"`: one from each walk in the order given, passing over those that have ended, the same
            whatever the timing; so a slow walk holds up the rest, and a failure is raised when it is that walk's turn.

    Returns:
        An async context manager that gives itself: an async iterator of pairs.

    Raises:
        ArgumentError: An argument cannot be used; raised by this call, before anything runs.

    Example:
        >>> import anyio
        >>> from airw.walking.streams import merge
        >>> async def count(start, end):
        ...     for number in range(start, end):
        ...         yield number
        >>> async def main():
        ...     few, many = count(0, 2), count(10, 13)
        ...     async with merge(few, many, order="turns") as pairs:
        ...         async for source, number in pairs:
        ...             print("few" if source is few else "many", number)
        >>> anyio.run(main)
        few 0
        many 10
        few 1
        many 11
        many 12
    """
    _check_sources("merge", walks, buffer)
    return ReadAhead(walks, lambda walk, hit: (walk, hit), buffer, check_choice("order", order, ("arrival", "turns")))


def _check_sources(function: str, sources: Sequence[object], buffer: int) -> None:
    for source in sources:
        if not isinstance(source, AsyncGenerator):
            raise ArgumentError(f"{function} takes walks and other async generators, not {short_repr(source)}")
    if len({id(source) for source in sources}) < len(sources):
        raise ArgumentError(f"{function} takes each walk once; start another one with airw.traverse")
    check_count("buffer", buffer, least=1)


class _Lane:
    """One source, run by one task, and what it has made that nobody has taken yet."""

    def __init__(self, source: AsyncGenerator[Any, Any], buffer: int) -> None:
        self.source = source
        self.items: deque[Any] = deque()
        self.failure: BaseException | None = None
        self.stopped = False
        self.closed = anyio.Event()
        self._room = anyio.Semaphore(buffer)
        self._scope = anyio.CancelScope()
        self._pulling = False

    async def run(self, tell: Callable[[Self], None]) -> None:
        """Fill the lane until its source ends or fails or the lane is stopped; close the source in this same task."""
        with self._scope:
            async with aclosing(self.source):
                while await self._may_pull():
                    try:
                        item = await anext(self.source)
                    except StopAsyncIteration:
                        return
                    finally:
                        self._pulling = False
                    self.items.append(item)
                    tell(self)

    async def _may_pull(self) -> bool:
        await self._room.acquire()
        self._pulling = not self.stopped
        return self._pulling

    def stop(self) -> None:
        """End the lane: a source at work is cancelled; one at rest is closed with its clean-up undisturbed."""
        self.stopped = True
        if self._pulling:
            self._scope.cancel()
        self._room.release()

    def is_ready(self) -> bool:
        """Say whether there is an item or a failure to take."""
        return bool(self.items) or self.failure is not None

    def is_done(self) -> bool:
        """Say whether nothing is left and nothing will come."""
        return self.closed.is_set() and not self.is_ready()

    def take(self) -> Any:
        """Give the next item and make room for another; after the items, raise the failure."""
        if self.failure is None or self.items:
            self._room.release()
            return self.items.popleft()
        failure, self.failure = self.failure, None
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame


class ReadAhead(AsyncIterator[Taken], Generic[Taken]):
    """What `prefetch` and `merge` give: a block whose tasks fill buffers, and the iterator that empties them.

    It is entered once. One task takes from it at a time. No item is lost: when a request is cancelled or times out, the
    next one gets what it would have got. After the end, a failure or `aclose()` it gives no more; asking it outside the
    block is an error. What a source raises while it is closed leaves the block, unless the block or a source has failed
    before.

    Raises:
        RuntimeError: It is entered twice, asked for items before or after its block, or by two tasks at once.

    Example:
        >>> import anyio
        >>> from airw.walking.streams import prefetch
        >>> async def ticks():
        ...     yield 1
        ...     await anyio.sleep_forever()
        >>> async def main():
        ...     async with prefetch(ticks()) as numbers:
        ...         print(await anext(numbers))
        ...         with anyio.move_on_after(0.01):
        ...             print(await anext(numbers))
        ...         await numbers.aclose()
        ...         print([number async for number in numbers])
        >>> anyio.run(main)
        1
        []
    """

    def __init__(
        self,
        sources: Sequence[AsyncGenerator[Any, Any]],
        give: Callable[[Any, Any], Taken],
        buffer: int,
        order: Order,
    ) -> None:
        self._sources, self._give, self._buffer, self._order = sources, give, buffer, order
        self._state: Literal["new", "open", "ended", "left"] = "new"
        self._lanes: list[_Lane] = []
        self._queue: deque[_Lane] = deque()  # whose items come next: by turns the lanes still open, else one an arrival
        self._news: anyio.Event | None = None
        self._busy = self._has_failed = False
        self._closing_errors: list[BaseException] = []
        self._group: anyio.abc.TaskGroup

    async def __aenter__(self) -> Self:
        """Start the walks."""
        if self._state != "new":
            raise RuntimeError("this block was entered before; call prefetch or merge again, with new walks")
        self._state = "open"
        self._lanes = [_Lane(source, self._buffer) for source in self._sources]
        self._group = await anyio.create_task_group().__aenter__()
        if self._order == "turns":
            self._queue.extend(self._lanes)
        for lane in self._lanes:
            self._group.start_soon(self._run, lane)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walks and wait for their tasks; an error of the block stays what it is."""
        self._finish("left")
        with first_error():  # not told of the block's error, on which it would cancel the clean-up of the sources
            await self._group.__aexit__(None, None, None)
        if self._closing_errors and not self._has_failed and error is None:
            raise self._closing_errors[0]

    async def aclose(self) -> None:
        """Close the walks and end the iteration, also that of a task that waits for an item."""
        self._finish("ended")
        for lane in self._lanes:
            await lane.closed.wait()

    async def __anext__(self) -> Taken:
        """Give the next item, or raise the failure whose turn it is."""
        if self._busy:
            raise RuntimeError("another task is taking from this block; one task takes at a time")
        self._busy = True
        try:
            await anyio.lowlevel.checkpoint()
            lane = await self._next_lane()
        finally:
            self._busy = False
        if not lane.items:
            self._has_failed = True
            self._finish("ended")
        elif self._order == "turns":
            self._queue.append(lane)
        return self._give(lane.source, lane.take())

    async def _next_lane(self) -> _Lane:
        """Wait for the lane whose item or failure comes next, and take it off the queue."""
        while True:
            if self._state in ("new", "left"):
                raise RuntimeError("hits are taken inside the `async with` block of prefetch or merge, and only there")
            while self._queue and self._queue[0].is_done():
                self._queue.popleft()
            if self._state == "ended" or all(lane.is_done() for lane in self._lanes):
                raise StopAsyncIteration
            if self._queue and self._queue[0].is_ready():
                return self._queue.popleft()
            self._news = anyio.Event()
            await self._news.wait()

    async def _run(self, lane: _Lane) -> None:
        """Run a lane and keep what it raises for the consumer."""
        try:
            await lane.run(self._arrived)
        except (Exception, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - raised where it is come to
            self._failed(lane, error)  # a cancellation that is not ours too, or the stream would seem to have ended
        finally:
            lane.closed.set()
            self._wake()

    def _arrived(self, lane: _Lane) -> None:
        """Note an item or a failure."""
        if self._order == "arrival":
            self._queue.append(lane)
        self._wake()

    def _failed(self, lane: _Lane, error: BaseException) -> None:
        """Keep a failure for the consumer, or, of a lane that was stopped before, for the end of the block."""
        if lane.stopped:
            self._closing_errors.append(error)
            return
        lane.failure = error
        self._arrived(lane)
        if self._order == "arrival":
            self._has_failed = True
            self._stop()

    def _finish(self, state: Literal["ended", "left"]) -> None:
        if self._state == "open" or state == "left":
            self._state = state
        self._stop()

    def _stop(self) -> None:
        """Stop all lanes; each wakes the consumer when it is closed."""
        for lane in self._lanes:
            lane.stop()

    def _wake(self) -> None:
        if self._news is not None:
            self._news.set()
