"""Call async functions from sync code, on one event loop in a background thread."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import anyio
import anyio.to_thread
from anyio.from_thread import BlockingPortal

T = TypeVar("T")


class _Closable(Protocol):
    async def aclose(self) -> None: ...


class _LoopThread:
    """An event loop in a background thread, with the objects that are open in it."""

    def __init__(self) -> None:
        self.started: Future[tuple[BlockingPortal, asyncio.AbstractEventLoop]] = Future()
        self.open: set[_Closable] = set()
        threading.Thread(target=anyio.run, args=(self._serve,), name="airw.compat").start()
        self.portal, self.asyncio_loop = self.started.result()

    async def _serve(self) -> None:
        """Run until the main thread ends, then close all open objects."""
        async with BlockingPortal() as portal:
            self.started.set_result((portal, asyncio.get_running_loop()))
            main = threading.main_thread()
            # This wait lasts as long as the program. Its own limiter leaves all of anyio's worker threads to others.
            await anyio.to_thread.run_sync(main.join, limiter=anyio.CapacityLimiter(1))
            while self.open:
                with suppress(Exception):  # the main program has ended, so no code can handle the error
                    await self.open.pop().aclose()
            await portal.stop(cancel_remaining=True)

    def close_soon(self, thing: _Closable) -> None:
        """Start to close an object whose owner was garbage-collected; do not wait for it."""
        if thing in self.open:
            self.open.remove(thing)
            # The garbage collector runs in any thread, even in that of the loop. There the portal would raise an error.
            asyncio.run_coroutine_threadsafe(thing.aclose(), self.asyncio_loop)


_START_LOCK = threading.Lock()
_loops: list[_LoopThread] = []  # empty, or the one loop of this process
os.register_at_fork(after_in_child=_loops.clear)  # a forked child has no threads, so it starts its own loop


def _loop() -> _LoopThread:
    with _START_LOCK:
        if not _loops:
            _loops.append(_LoopThread())
        return _loops[0]


def run(function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Call an async function from sync code and return its result.

    Raises:
        RuntimeError: If an event loop runs in this thread; it would be blocked during the call.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> run(double, 21)
        42
    """
    _refuse_in_loop(function)

    async def call() -> T:
        return await function(*args, **options)

    future = _loop().portal.start_task_soon(call)
    try:
        return future.result()
    except BaseException:
        future.cancel()  # if this thread was interrupted, the call must not run on
        raise


def close_with_owner(owner: object, thing: _Closable) -> None:
    """Close an object when its owner is garbage-collected or the program ends."""
    loop = _loop()
    loop.open.add(thing)
    # At the end of the program the loop closes everything itself.
    weakref.finalize(owner, loop.close_soon, thing).atexit = False


def close(thing: _Closable) -> None:
    """Close an object now; closing it again does nothing."""
    _loop().open.discard(thing)
    run(thing.aclose)


def _refuse_in_loop(function: Callable[..., Any]) -> None:
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:  # no event loop runs in this thread
        return
    import airw

    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "")
    if name in airw.__all__:
        replacement = f"airw.{name}"
    elif module.startswith("airw.") and not module.startswith("airw.compat."):
        replacement = f"{module}.{name}"
    else:
        replacement = "airw's own function"
    raise RuntimeError(f"a sync call would stop the event loop that runs in this thread: await {replacement} instead")


class SyncFunction:
    """A sync version of an async function, `inner`, with the same attributes."""

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self.inner = inner

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call the async function and return its result."""
        return run(self.inner, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def to_async(function: Any) -> Any:
    """Return the async function inside a `SyncFunction`; any other object unchanged."""
    return function.inner if isinstance(function, SyncFunction) else function
