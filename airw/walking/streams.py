"""Functions for streams of hits: `top_k`, `prefetch` and `merge`.

A walk has nothing open between two hits. To work ahead of its consumer it needs a task that stays open between them.
Such a task lives in an `async with` block only, so that it always ends with the block.
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
Output = TypeVar("Output")
Order: TypeAlias = Literal["arrival", "turns"]


async def top_k(walk: Walk, k: int = 10) -> list[SearchHit]:
    """Run a walk to its end, close it, and return the first `k` hits of its final ranking.

    Args:
        walk: A walk, as `airw.traverse` returns it.
        k: The number of hits to return at most.

    Returns:
        The hits, best first, in the order of `walk.ranking`.

    Raises:
        ArgumentError: If `walk` is not a walk, or `k` is not a whole number of at least 0.

    Example:
        >>> async def main(corpus):
        ...     from airw.policies import Eager
        ...     return await top_k(airw.traverse("signing keys", corpus, policy=Eager()), k=3)
    """
    if not isinstance(walk, Walk):
        raise ArgumentError(f"walk must be a walk, not {short_repr(walk)}; pass what airw.traverse returns")
    check_count("k", k)
    async with walk:
        async for _ in walk:
            pass
    return (walk.ranking or [])[:k]


def prefetch(walk: AsyncGenerator[Item, Any], *, buffer: int = 32) -> "ReadAhead[Item]":
    """Run a walk ahead of its consumer, by at most `buffer` hits, while the block is open.

    The walk and its `timeout` start when the block is entered. The walk then works while the consumer works. The cost:
    it works, and calls the store, for up to `buffer` hits that the consumer may never request. If the walk fails, the
    hits before the failure come first, then the error is raised. If the consumer stops before it reaches the failure,
    the error is not raised. Leaving the block closes the walk.

    Args:
        walk: A walk, or any other async generator; the block closes it.
        buffer: The number of hits that may wait for the consumer, at least 1. When that many wait, the walk pauses.

    Returns:
        An async context manager and async iterator of the walk's hits, in their order.

    Raises:
        ArgumentError: If an argument cannot be used; raised by this call, before anything runs.

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
    """Run several walks concurrently and merge their hits into one stream.

    The walks run while the block is open. The stream contains pairs `(walk, hit)`, and each walk's hits keep their
    order. The cost is that of `prefetch` for each walk. The first failure ends the stream and closes all walks. Leaving
    the block closes them too.

    Args:
        walks: Walks, or other async generators, without duplicates; the block closes them. Without any walk the stream
            ends at once.
        buffer: The number of hits per walk that may wait for the consumer, at least 1.
        order: `"arrival"` yields hits as they arrive. A failure stops the other walks at once, and is raised after the
            hits that arrived before it. `"turns"` yields one hit of each walk in turn, in the order of the arguments,
            and skips walks that have ended. The result does not depend on timing, but a slow walk delays the others. A
            failure is raised when it is that walk's turn.

    Returns:
        An async context manager and async iterator of pairs.

    Raises:
        ArgumentError: If an argument cannot be used; raised by this call, before anything runs.

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
        raise ArgumentError(f"{function} got the same walk twice; start another one with airw.traverse")
    check_count("buffer", buffer, least=1)


class _Lane:
    """A source, the task that runs it, and the items that wait for the consumer."""

    def __init__(self, source: AsyncGenerator[Any, Any], buffer: int) -> None:
        self.source = source
        self.items: deque[Any] = deque()
        self.failure: BaseException | None = None
        self.stopped = False
        self.closed = anyio.Event()
        self._room = anyio.Semaphore(buffer)
        self._scope = anyio.CancelScope()
        self._is_pulling = False

    async def run(self, announce: Callable[[Self], None]) -> None:
        """Read the source until it ends or fails, or the lane is stopped.

        `announce` is called after each item. The source is closed in the task that ran it, because its cancel scopes
        belong to that task.
        """
        with self._scope:
            async with aclosing(self.source):
                while await self._wait_for_room():
                    try:
                        item = await anext(self.source)
                    except StopAsyncIteration:
                        return
                    finally:
                        self._is_pulling = False
                    # There is no await between receiving an item and storing it, so no cancellation can lose it.
                    self.items.append(item)
                    announce(self)

    async def _wait_for_room(self) -> bool:
        """Wait until the buffer has room; return False if the lane was stopped."""
        await self._room.acquire()
        self._is_pulling = not self.stopped
        return self._is_pulling

    def stop(self) -> None:
        """Stop the lane: cancel its source if it is working, else only close it."""
        self.stopped = True
        if self._is_pulling:
            self._scope.cancel()
        self._room.release()  # wakes a task that waits for room

    def drop_items(self) -> None:
        """Forget the items that wait.

        A walk that yielded them cannot go on, because they would be missing.
        """
        # The source is a walk, or its events; that of a server notes it itself.
        parts: list[Any] = [self.source, *(getattr(self.source, name, None) for name in ("_run", "_walk"))]
        for part in parts:
            if self.items and hasattr(part, "has_lost_items"):
                part.has_lost_items = True
        self.items.clear()

    def is_ready(self) -> bool:
        """Return whether there is an item or a failure for the consumer."""
        return bool(self.items) or self.failure is not None

    def is_done(self) -> bool:
        """Return whether nothing is left and nothing will come."""
        return self.closed.is_set() and not self.is_ready()

    def take(self) -> Any:
        """Return the next item and make room for another; after the items, raise the failure."""
        if self.failure is None or self.items:
            self._room.release()
            return self.items.popleft()
        failure, self.failure = self.failure, None
        try:
            raise failure
        finally:
            del failure  # its traceback refers to this frame: a reference cycle


class ReadAhead(AsyncIterator[Output], Generic[Output]):
    """The block that `prefetch` and `merge` return.

    Its tasks fill buffers, and iterating over it empties them. The block can be entered once. Only one task at a time
    may request items. No item is lost: if a request is cancelled or times out, the next request returns the item that
    the first one would have returned. After the end, a failure or `aclose()` there are no more items. If closing a
    source raises an error, the block raises it, unless the block or a source has failed before.

    Raises:
        RuntimeError: If it is entered twice, or if items are requested outside the block or by two tasks at once.

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
        to_output: Callable[[Any, Any], Output],
        buffer: int,
        order: Order,
    ) -> None:
        self._sources, self._to_output, self._buffer, self._order = sources, to_output, buffer, order
        self._state: Literal["new", "open", "ended", "left"] = "new"
        self._lanes: list[_Lane] = []
        # The lanes whose items come next. By turns: each open lane once. By arrival: a lane once per item.
        self._queue: deque[_Lane] = deque()
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
            self._group.start_soon(self._run_lane, lane)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the walks and wait for their tasks; an error of the block is raised unchanged."""
        self._finish("left")
        # The group is not passed the block's error: it would cancel its tasks, and with them the sources' clean-up.
        with first_error():
            await self._group.__aexit__(None, None, None)
        if self._closing_errors and not self._has_failed and error is None:
            raise self._closing_errors[0]

    async def aclose(self) -> None:
        """Close the walks and end the iteration, also for a task that waits for an item."""
        self._finish("ended")
        for lane in self._lanes:
            await lane.closed.wait()

    async def __anext__(self) -> Output:
        """Return the next item, or raise the failure whose turn it is."""
        if self._busy:
            raise RuntimeError("another task waits for this block; request items from one task at a time")
        self._busy = True
        try:
            await anyio.lowlevel.checkpoint()
            lane = await self._next_lane()
        finally:
            self._busy = False
        # From here on nothing is awaited: an item that left its lane reaches the consumer.
        if not lane.items:
            self._has_failed = True
            self._finish("ended")
        elif self._order == "turns":
            self._queue.append(lane)
        return self._to_output(lane.source, lane.take())

    async def _next_lane(self) -> _Lane:
        """Wait for the lane whose item or failure comes next, and remove it from the queue."""
        while True:
            if self._state in ("new", "left"):
                raise RuntimeError("items can be requested only inside the block of prefetch or merge")
            while self._queue and self._queue[0].is_done():
                self._queue.popleft()
            if self._state == "ended" or all(lane.is_done() for lane in self._lanes):
                raise StopAsyncIteration
            if self._queue and self._queue[0].is_ready():
                return self._queue.popleft()
            # A new event for each wait: one that was set before would not wait again.
            self._news = anyio.Event()
            await self._news.wait()

    async def _run_lane(self, lane: _Lane) -> None:
        """Run a lane, and keep its error for the consumer."""
        try:
            await lane.run(self._announce)
        # A cancellation that the source itself raises is kept too, or the stream would seem to have ended.
        except (Exception, anyio.get_cancelled_exc_class()) as error:  # noqa: BLE001 - the consumer raises it
            self._keep_failure(lane, error)
        finally:
            lane.closed.set()
            self._wake_consumer()

    def _announce(self, lane: _Lane) -> None:
        """Note that a lane has a new item or failure."""
        if self._order == "arrival":
            self._queue.append(lane)
        self._wake_consumer()

    def _keep_failure(self, lane: _Lane, error: BaseException) -> None:
        """Keep a failure for the consumer or, if the lane was stopped before, for the block's end."""
        if lane.stopped:
            self._closing_errors.append(error)
            return
        lane.failure = error
        self._announce(lane)
        # By turns, the other walks go on until it is this lane's turn.
        if self._order == "arrival":
            self._has_failed = True
            self._stop_lanes()

    def _finish(self, state: Literal["ended", "left"]) -> None:
        if self._state == "open" or state == "left":
            self._state = state
        self._stop_lanes()
        for lane in self._lanes:
            lane.drop_items()

    def _stop_lanes(self) -> None:
        """Stop all lanes; each wakes the consumer when it is closed."""
        for lane in self._lanes:
            lane.stop()

    def _wake_consumer(self) -> None:
        if self._news is not None:
            self._news.set()
