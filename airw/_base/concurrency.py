"""Worker threads, several calls at once, and the first error of several tasks."""

import inspect
import math
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol, TypeVar, TypeVarTuple, cast

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

from airw._base.fairness import note_work

T = TypeVar("T")
R = TypeVar("R")
Args = TypeVarTuple("Args")

_MOST_AT_ONCE = 8  # turns; with half a millisecond each, all else on the event loop waits for a few milliseconds
_TURNS: RunVar["_Turns"] = RunVar("_TURNS")  # of each event loop
_USER_THREADS: RunVar[anyio.CapacityLimiter] = RunVar("_USER_THREADS")
_SPARE_THREADS: RunVar[anyio.CapacityLimiter] = RunVar("_SPARE_THREADS")


class Closable(Protocol):
    """An object that its opener closes."""

    async def aclose(self) -> None:
        """Close the object."""
        ...


async def in_thread(function: Callable[[*Args], R], *args: *Args, limiter: anyio.CapacityLimiter | None = None) -> R:
    """Return `function(*args)`, called in a worker thread.

    A cancelled caller still waits until the thread has finished: the thread may use a file or a connection that the
    caller closes next.
    """
    running = threading.Lock()

    def work() -> R:
        with running, note_work():
            return function(*args)

    cancelled = anyio.get_cancelled_exc_class()  # not where a call is closed that its loop has abandoned
    try:
        return await anyio.to_thread.run_sync(work, limiter=limiter)
    except cancelled:
        # A cancel scope of anyio waits for the thread by itself, but `asyncio.Task.cancel` leaves it running.
        await _wait_until_free(running)
        raise


async def _wait_until_free(running: threading.Lock) -> None:
    """Wait until the worker thread has released its lock."""
    while True:
        # Sleep before the first look: the thread may be about to start and not have the lock yet.
        try:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)
        # Cancelled a second time: go on waiting. The caller raises the first cancellation in the end.
        except anyio.get_cancelled_exc_class():
            continue
        if not running.locked():
            return


async def offload_if(is_long: bool, function: Callable[[*Args], R], *args: *Args) -> R:  # noqa: FBT001
    """Return `function(*args)`, called in a worker thread if it takes long.

    More than about a millisecond is long: it would delay other tasks of the event loop.
    """
    return await in_thread(function, *args) if is_long else function(*args)


async def call_user_function(function: Callable[[*Args], R | Awaitable[R]], *args: *Args) -> R:
    """Return `function(*args)` of a function that a user of the library passed.

    An async function is awaited. Any other runs in a worker thread, because it may block.
    """
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await cast("Awaitable[R]", function(*args))
    # A plain function may still return an awaitable, and trio refuses a thread that returns one: wrap it in a tuple.
    (result,) = await in_thread(lambda: (function(*args),), limiter=user_thread_limiter())
    return await result if inspect.isawaitable(result) else result


def user_thread_limiter() -> anyio.CapacityLimiter:
    """Return the limiter of the worker threads that run users' functions on this event loop.

    It is not that of airw's own work. A function may call `airw.sync`, and would wait for ever if such functions held
    all the threads that this call needs.
    """
    limiter = _USER_THREADS.get(None)
    if limiter is None:
        limiter = anyio.CapacityLimiter(anyio.to_thread.current_default_thread_limiter().total_tokens)
        _USER_THREADS.set(limiter)
    return limiter


def spare_thread_limiter() -> anyio.CapacityLimiter:
    """Return the limiter of threads that end the work of others: there is always one more.

    Long calls may hold all the threads that calls share, and must be stopped all the same.
    """
    limiter = _SPARE_THREADS.get(None)
    if limiter is None:
        _SPARE_THREADS.set(limiter := anyio.CapacityLimiter(math.inf))
    return limiter


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the first error of a task group as it is, instead of an exception group.

    Later errors come from tasks that were cancelled or still busy then.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        # Unpack one level only: if a task itself raised a group, that group is the error.
        error = group.exceptions[0]
        raise error from error.__cause__


async def map_bounded(function: Callable[[T], Awaitable[R]], items: Sequence[T], *, limit: int) -> list[R]:
    """Return the results of `await function(item)` in the order of the items.

    At most `limit` calls run at the same time. The first error cancels the others and is raised as it is.
    """
    results: list[R | None] = [None] * len(items)
    # All workers take from one iterator, so that each starts on the next item as soon as it is free.
    pending = iter(enumerate(items))

    async def work() -> None:
        for index, item in pending:
            results[index] = await function(item)

    with first_error():
        async with anyio.create_task_group() as group:
            for _ in range(min(limit, len(items))):
                group.start_soon(work)
    return cast("list[R]", results)


async def take_turn() -> None:
    """Pass a checkpoint before a short piece of work, in turn with others that are ready.

    An event loop runs everything that is ready before it looks at timers and sockets again. If a hundred walks were
    ready, all else would wait for a hundred pieces of work. Therefore few take their turn at once, and the others
    queue.
    """
    turns = _TURNS.get(None)
    if turns is None:
        turns = _Turns()
        _TURNS.set(turns)
    if turns.free:
        turns.free -= 1
    else:
        await turns.wait()
    # It is free again before the work begins: what has its turn may wait for anything, such as another walk.
    try:
        await anyio.lowlevel.checkpoint()
    finally:
        turns.pass_on()


class _Turns:
    """The turns of one event loop, and who waits for them.

    A semaphore of anyio handles cancellation only. But a request for a hit may also be dropped while it waits: Python
    then raises `GeneratorExit` in it, and its turn would be lost.
    """

    def __init__(self) -> None:
        self.free = _MOST_AT_ONCE
        self._queue: deque[anyio.Event] = deque()  # an event is set if its waiter has a turn, or has gone

    async def wait(self) -> None:
        """Wait for a turn, which the caller must pass on."""
        event = anyio.Event()
        self._queue.append(event)
        try:
            await event.wait()
        except BaseException:
            if event.is_set():
                self.pass_on()
            event.set()
            raise

    def pass_on(self) -> None:
        """Pass a turn to the first who waits."""
        while self._queue:
            event = self._queue.popleft()
            if not event.is_set():
                event.set()
                return
        self.free += 1


class Pacer:
    """Checkpoints for a long loop, so that other tasks run every few milliseconds."""

    def __init__(self, seconds: float = 0.005) -> None:
        """Allow `seconds` of work between checkpoints."""
        self._seconds = seconds
        self._last = time.perf_counter()

    async def pace(self) -> None:
        """Pass a checkpoint if `seconds` have passed since the last one."""
        if time.perf_counter() - self._last > self._seconds:
            await anyio.lowlevel.checkpoint()
            self._last = time.perf_counter()
