"""Bounded fan-out, worker threads, and the first error of several tasks."""

import inspect
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar, TypeVarTuple, cast

import anyio
import anyio.lowlevel
import anyio.to_thread

T = TypeVar("T")
R = TypeVar("R")
Args = TypeVarTuple("Args")


async def in_thread(function: Callable[[*Args], R], *args: *Args) -> R:
    """Call `function(*args)` in a worker thread and wait for it, even when cancelled: threads are never abandoned."""
    running = threading.Lock()

    def work() -> R:
        with running:
            return function(*args)

    try:
        return await anyio.to_thread.run_sync(work)
    except anyio.get_cancelled_exc_class():
        await _until_free(running)
        raise


async def _until_free(running: threading.Lock) -> None:
    """Wait for a thread that asyncio's own cancellation left behind; anyio's waits by itself."""
    while True:
        try:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.001)  # first, as the thread may be just about to start
        except anyio.get_cancelled_exc_class():  # cancelled once more; the first one is raised when the thread is done
            continue
        if not running.locked():
            return


async def offload_if(is_long: bool, function: Callable[[*Args], R], *args: *Args) -> R:  # noqa: FBT001
    """Call a function here, or in a worker thread where it would hold up other tasks: above about a millisecond."""
    return await in_thread(function, *args) if is_long else function(*args)


async def call_user_function(function: Callable[[*Args], R | Awaitable[R]], *args: *Args) -> R:
    """Call somebody else's function: one that is async here, any other in a worker thread, as it may block."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):  # noqa: B004
        return await cast("Awaitable[R]", function(*args))
    # In a tuple, as it may be an awaitable after all, which trio takes for a mistake.
    (result,) = await in_thread(lambda: (function(*args),))
    return await result if inspect.isawaitable(result) else result


@contextmanager
def first_error() -> Iterator[None]:
    """Raise the first error of a task group as itself; what failed after it was cancelled or busy meanwhile."""
    try:
        yield
    except BaseExceptionGroup as group:
        error = group.exceptions[0]  # which may be a group that a task raised: that one is its own
        raise error from error.__cause__


async def map_bounded(function: Callable[[T], Awaitable[R]], items: Sequence[T], *, limit: int) -> list[R]:
    """Await `function(item)` for every item, at most `limit` at once; results in the order of the items.

    The first error cancels the rest and arrives as itself.
    """
    results: list[R | None] = [None] * len(items)
    waiting = iter(enumerate(items))

    async def work() -> None:
        for index, item in waiting:
            results[index] = await function(item)

    with first_error():
        async with anyio.create_task_group() as group:
            for _ in range(min(limit, len(items))):
                group.start_soon(work)
    return cast("list[R]", results)


class Pacer:
    """Lets other tasks run every few milliseconds of a long loop."""

    def __init__(self, seconds: float = 0.005) -> None:
        """Allow `seconds` of work between checkpoints."""
        self._seconds = seconds
        self._last = time.perf_counter()

    async def pace(self) -> None:
        """Pass a checkpoint when the time since the last one is used up."""
        if time.perf_counter() - self._last > self._seconds:
            await anyio.lowlevel.checkpoint()
            self._last = time.perf_counter()
