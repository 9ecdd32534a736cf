"""Call async functions from sync code, on one event loop in a background thread."""

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import ParamSpec, TypeVar, cast

import anyio
from anyio.from_thread import BlockingPortal

from airw._base.concurrency import Closable

P = ParamSpec("P")
T = TypeVar("T")

_SECONDS_TO_STOP = 5.0
"""How long an interrupted call may clean up before its caller goes on without it."""


class LoopThread:
    """An event loop in a background thread, with the objects that are open in it."""

    def __init__(self) -> None:
        self.started: Future[tuple[BlockingPortal, asyncio.AbstractEventLoop]] = Future()
        self.open: set[Closable] = set()
        self._closings: set[Future[None]] = set()  # of objects whose owner is gone
        self._waiting: set[Callable[[], object]] = set()  # each wakes a caller on another loop
        self.has_ended = False
        # The threads that the loop starts inherit `daemon`. That tells them from those of the program.
        self.thread = threading.Thread(target=anyio.run, args=(self._serve,), name="airw", daemon=True)
        self.thread.start()
        self.portal, self.asyncio_loop = self.started.result()
        threading.Thread(target=self._end_with_program, name="airw end", daemon=False).start()

    def _end_with_program(self) -> None:
        """End the loop after the last thread of the program; Python waits for this one."""
        own = threading.current_thread()
        while threads := [each for each in {*threading.enumerate()} - {own} if each.is_alive() and not each.daemon]:
            threads[0].join()
        self.has_ended = True
        self.portal.call(self.portal.stop)
        self.thread.join()
        for wake in [*self._waiting]:
            with suppress(RuntimeError):  # the loop of the caller has ended
                wake()

    async def _serve(self) -> None:
        """Run until the program ends, then close all open objects."""
        async with BlockingPortal() as portal:
            self.started.set_result((portal, asyncio.get_running_loop()))
            await portal.sleep_until_stopped()
            while self.open or self._closings:
                with suppress(Exception):  # the main program has ended, so no code can handle the error
                    await (asyncio.wrap_future(self._closings.pop()) if self._closings else self.open.pop().aclose())
            await portal.stop(cancel_remaining=True)

    @contextmanager
    def note_waiting(self, function: Callable[..., object], wake: Callable[[], object]) -> Iterator[None]:
        """Note how to wake a caller on another loop that waits for a function within the block.

        Raises:
            RuntimeError: If the loop has ended.
        """
        # At its end the loop wakes all that are noted, so a caller that is noted too late must see that it has ended.
        self._waiting.add(wake)
        try:
            if self.has_ended:
                raise _make_end_error(function)
            yield
        finally:
            self._waiting.discard(wake)

    def close_soon(self, thing: Closable) -> None:
        """Start to close an object whose owner was garbage-collected; do not wait for it."""
        # At its end the loop closes everything itself, and a forked process has no thread that runs the loop.
        if thing in self.open and not self.has_ended and self in _loops:
            # The garbage collector runs in any thread, even in that of the loop. There the portal would raise an error.
            closing = asyncio.run_coroutine_threadsafe(thing.aclose(), self.asyncio_loop)
            self._closings.add(closing)
            self.open.discard(thing)
            closing.add_done_callback(self._closings.discard)


_START_LOCK = threading.Lock()
_loops: list[LoopThread] = []  # empty, or the one loop of this process


def _forget_loop() -> None:
    _loops.clear()
    _START_LOCK.release()


# A forked child has no threads, so it starts a loop of its own. The lock is held meanwhile, or a child that is forked
# while another thread starts the loop would wait for that thread, which it does not have.
os.register_at_fork(before=_START_LOCK.acquire, after_in_parent=_START_LOCK.release, after_in_child=_forget_loop)


def background_loop() -> LoopThread:
    """Return the loop of this process; the first call starts it."""
    with _START_LOCK:
        if not _loops:
            _loops.append(LoopThread())
        return _loops[0]


def run(function: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """Call an async function from sync code and return its result.

    If the caller is interrupted, as by Ctrl-C, the call is cancelled. The traceback of an error shows the function, and
    no frames of the threads in between.

    Raises:
        RuntimeError: If the caller runs in the loop itself, which would wait for itself; or if the program has ended.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> run(double, 21)
        42
    """
    loop = background_loop()
    name = getattr(function, "__name__", "the function")
    if loop.has_ended:
        raise _make_end_error(function)
    if threading.current_thread() is loop.thread:
        raise RuntimeError(f"a sync call within airw's own event loop would wait for itself: await {name} instead")
    ended = threading.Event()

    async def call() -> tuple[T | None, BaseException | None]:
        try:
            return await function(*args, **options), None
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - the caller raises it, even a SystemExit: it must not end the loop
            return None, error
        finally:
            ended.set()

    future = loop.portal.start_task_soon(call)
    try:
        result, error = future.result()
    except BaseException as reason:
        if loop.has_ended and isinstance(reason, CancelledError):
            raise _make_end_error(function) from None
        if future.cancel():  # if this thread was interrupted, the call must not run on
            ended.wait(_SECONDS_TO_STOP)
        raise
    if error is None:
        return cast("T", result)
    try:
        trace = error.__traceback__
        raise error.with_traceback(trace.tb_next if trace else None)
    finally:
        del error, future  # its traceback refers to this frame: a reference cycle


def _make_end_error(function: Callable[..., object]) -> RuntimeError:
    name = getattr(function, "__name__", "the function")
    return RuntimeError(f"{name} was called after the end of the program; call it in threads that are not daemons")


async def run_from_loop(function: Callable[P, Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
    """Await an async function that runs on the background loop, from any loop of asyncio.

    If the caller is cancelled, the function is cancelled, too, and the caller waits until it has cleaned up.

    Raises:
        RuntimeError: If the program has ended, or ends meanwhile.

    Example:
        >>> async def double(number):
        ...     return 2 * number
        >>> asyncio.run(run_from_loop(double, 21))
        42
    """
    loop, own_loop = background_loop(), asyncio.get_running_loop()
    background = loop.asyncio_loop
    if own_loop is background:
        return await function(*args, **options)
    ended, started = asyncio.Event(), list[asyncio.Task[T]]()

    async def call() -> T:
        return await function(*args, **options)

    def start() -> None:
        started.append(background.create_task(call()))
        started[0].add_done_callback(report)

    def report(task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # asyncio complains of an error that nobody looked at, even if the caller has gone
        with suppress(RuntimeError):  # the loop of the caller has ended
            wake()

    def wake() -> None:
        own_loop.call_soon_threadsafe(ended.set)

    def cancel() -> None:
        started[0].cancel()

    with loop.note_waiting(function, wake):
        background.call_soon_threadsafe(start)
        try:
            await ended.wait()
        except asyncio.CancelledError:
            with suppress(RuntimeError):  # the background loop has ended
                background.call_soon_threadsafe(cancel)
            with anyio.move_on_after(_SECONDS_TO_STOP, shield=True):
                await ended.wait()
            raise
    if loop.has_ended and (not started or started[0].cancelled()):
        raise _make_end_error(function)
    return started[0].result()


def close_with_owner(owner: object, thing: Closable) -> None:
    """Close an object when its owner is garbage-collected or the program ends."""
    loop = background_loop()
    loop.open.add(thing)
    # At the end of the program the loop closes everything itself.
    weakref.finalize(owner, loop.close_soon, thing).atexit = False


def close(thing: Closable) -> None:
    """Close an object now; closing it again does nothing."""
    loop = background_loop()
    loop.open.discard(thing)
    if not loop.has_ended:  # it has closed everything
        run(thing.aclose)
