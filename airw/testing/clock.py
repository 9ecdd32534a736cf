"""A clock that jumps to the next timer whenever nothing else can run, so that tests of time are exact and take none."""

import asyncio
import selectors
import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from airw._base.checks import check_choice
from airw.errors import ArgumentError

R = TypeVar("R")
Args = TypeVarTuple("Args")

_CALL_PATIENCE = 1.0  # real seconds without a jump while a worker thread of anyio's runs
_THREAD_PATIENCE = 0.02  # the same while any other thread lives, which may be running or not
_IDLE = ("AnyIO worker thread", "Trio thread")  # names of threads whose calls the limiter counts


def run_on_virtual_clock(function: Callable[[*Args], Awaitable[R]], *args: *Args, backend: str = "asyncio") -> R:
    """Run an async function to its end on a clock that starts at 0 and jumps to the next timer when nothing can run.

    `anyio.current_time`, `anyio.sleep`, `move_on_after` and every deadline follow that clock: it stands still while
    code runs, and sleeping for an hour takes no real time. Clocks of the operating system, such as `time.monotonic`,
    go on as ever.

    A worker thread takes no time: while a call of `anyio.to_thread.run_sync` runs, the clock waits for it, for up to
    1 second of real time; then it jumps, as the thread may itself wait for the event loop. While other threads live
    that were started meanwhile, such as those of aiosqlite, whose work cannot be seen, each jump comes after 20 ms of
    real time in which they had nothing to say. A thread that takes longer, or one called under a limiter of its own,
    may see timers go off early. Sockets and other processes are not waited for at all.

    Args:
        function: Called with `args`.
        args: Its arguments.
        backend: `"asyncio"` or `"trio"`.

    Returns:
        What the function returns.

    Raises:
        ArgumentError: There is no such backend, or trio is not installed.

    Example:
        >>> async def main():
        ...     with anyio.move_on_after(60) as scope:
        ...         await anyio.sleep(3600)
        ...     return scope.cancelled_caught, anyio.current_time()
        >>> run_on_virtual_clock(main)
        (True, 60.0)
    """
    check_choice("backend", backend, ("asyncio", "trio"))
    threads = _Threads()

    async def main() -> R:
        threads.limiter = anyio.to_thread.current_default_thread_limiter()
        return await function(*args)

    if backend == "trio":
        return _run_on_trio(main, threads)
    return anyio.run(main, backend_options={"loop_factory": partial(_VirtualLoop, threads)})


class _Threads:
    """Knows how long to wait for threads before time may jump."""

    limiter: anyio.CapacityLimiter | None = None

    def __init__(self) -> None:
        self._others = {*threading.enumerate()}  # those that live already know nothing of the loop that begins

    def patience(self) -> float:
        """Return the real seconds in which nothing must happen before a jump."""
        if self.limiter is not None and self.limiter.borrowed_tokens:
            return _CALL_PATIENCE
        new = (thread for thread in threading.enumerate() if thread not in self._others)
        return 0.0 if all(thread.name.startswith(_IDLE) for thread in new) else _THREAD_PATIENCE


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is what its selector says."""

    def __init__(self, threads: _Threads) -> None:
        self._virtual = _JumpingSelector(threads)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class _JumpingSelector(selectors.DefaultSelector):
    """Moves its clock forward by the time that the event loop would wait, instead of waiting."""

    def __init__(self, threads: _Threads) -> None:
        super().__init__()
        self.now = 0.0
        self._threads = threads

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(self._threads.patience())
        if not events:
            self.now += timeout
        return events


def _run_on_trio(main: Callable[[], Awaitable[R]], threads: _Threads) -> R:
    """Run on trio's own clock of this kind; not by `anyio.run`, which older versions let pass no options to trio."""
    try:
        import trio.testing
    except ImportError as error:
        raise ArgumentError("backend 'trio' needs trio: pip install trio") from error
    clock = trio.testing.MockClock(autojump_threshold=0)

    class Waiting(trio.abc.Instrument):
        """Tells the clock to wait for threads; any step of a task may have started or ended one."""

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            patience = threads.patience()
            if patience != clock.autojump_threshold:
                clock.autojump_threshold = patience

    return trio.run(main, clock=clock, instruments=[Waiting()])
