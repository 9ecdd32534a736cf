"""Async functions called by sync programs: one event loop, in a thread that lives as long as the program."""

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


class _Loop:
    """An event loop in a thread of its own, and what is open in it."""

    def __init__(self) -> None:
        self.started: Future[tuple[BlockingPortal, asyncio.AbstractEventLoop]] = Future()
        self.open: set[_Closable] = set()
        threading.Thread(target=anyio.run, args=(self._serve,), name="airw.compat").start()
        self.portal, self.asyncio_loop = self.started.result()

    async def _serve(self) -> None:
        """Run until the main thread has ended, then close what is open."""
        async with BlockingPortal() as portal:
            self.started.set_result((portal, asyncio.get_running_loop()))
            main = threading.main_thread()
            await anyio.to_thread.run_sync(main.join, limiter=anyio.CapacityLimiter(1))
            while self.open:
                with suppress(Exception):  # nobody is left to be told
                    await self.open.pop().aclose()
            await portal.stop(cancel_remaining=True)

    def discard(self, thing: _Closable) -> None:
        """Begin to close what nobody can reach any more; called by the garbage collector in whatever thread."""
        if thing in self.open:
            self.open.remove(thing)
            asyncio.run_coroutine_threadsafe(thing.aclose(), self.asyncio_loop)


_STARTING = threading.Lock()
_loops: list[_Loop] = []
os.register_at_fork(after_in_child=_loops.clear)  # threads stay behind


def _loop() -> _Loop:
    with _STARTING:
        if not _loops:
            _loops.append(_Loop())
        return _loops[0]


def run(function: Callable[..., Awaitable[T]], *args: Any, **options: Any) -> T:
    """Call an async function from sync code and return what it gives.

    Raises:
        RuntimeError: An event loop runs in this thread, and would stand still meanwhile.

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
        future.cancel()  # where it was this thread that was interrupted
        raise


def keep_open(owner: object, thing: _Closable) -> None:
    """Have a thing closed when its owner is forgotten, at the latest when the program ends."""
    loop = _loop()
    loop.open.add(thing)
    weakref.finalize(owner, loop.discard, thing).atexit = False


def close(thing: _Closable) -> None:
    """Close a thing now; what is closed already may be closed again."""
    _loop().open.discard(thing)
    run(thing.aclose)


def _refuse_in_loop(function: Callable[..., Any]) -> None:
    try:
        anyio.get_cancelled_exc_class()
    except RuntimeError:  # no event loop here
        return
    import airw

    name, module = getattr(function, "__name__", ""), getattr(function, "__module__", "")
    is_told = module.startswith("airw.") and not module.startswith("airw.compat.")
    there = f"airw.{name}" if name in airw.__all__ else f"{module}.{name}" if is_told else "airw's own function"
    raise RuntimeError(f"a sync call would stop the event loop that runs in this thread: await {there} instead")


class Synced:
    """An async function as a sync one; `inner` is the async one, whose attributes it has."""

    def __init__(self, inner: Callable[..., Awaitable[Any]]) -> None:
        self.inner = inner

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Call it and wait."""
        return run(self.inner, *args, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def unsynced(function: Any) -> Any:
    """Return the async function in a sync one; anything else as it is."""
    return function.inner if isinstance(function, Synced) else function
