"""A virtual clock that jumps to the next timer, so that tests of time are exact and fast."""

import asyncio
import selectors
import threading
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar, TypeVarTuple

import anyio
import anyio.to_thread

from airw._base.checks import check_choice
from airw._base.concurrency import spare_thread_limiter, user_thread_limiter
from airw.errors import ArgumentError

R = TypeVar("R")
Args = TypeVarTuple("Args")

# A jump must not overtake a thread that is about to wake the event loop. These are the real seconds to wait for one:
_CALL_PATIENCE = 5.0  # while an anyio worker thread runs a call
_THREAD_PATIENCE = 0.1  # while another thread lives; it cannot be seen whether that one works or is idle
_POOL_THREADS = ("AnyIO worker thread", "Trio thread")  # names of worker threads; their limiter counts running calls


def run_on_virtual_clock(function: Callable[[*Args], Awaitable[R]], *args: *Args, backend: str = "asyncio") -> R:
    """Run an async function on a virtual clock and return its result.

    The clock starts at 0. It stands still while code runs, and jumps to the next timer when no task can run. So
    sleeping for an hour takes no real time. `anyio.current_time`, `anyio.sleep`, `move_on_after` and all deadlines
    follow this clock. Clocks of the operating system, such as `time.monotonic`, do not.

    Threads take no virtual time, with these limits:

    - While a call of `anyio.to_thread.run_sync` runs, the clock waits for it up to 5 seconds of real time. Then it
      jumps, since the thread may itself wait for the event loop.
    - The work of other threads, such as those of a driver, cannot be seen. While such a thread lives that was started
      during the run, the clock jumps after 0.1 seconds of real time without an event.
    - A thread that takes longer, or a call with its own limiter, may see timers fire too early.
    - The clock does not wait for sockets and other processes.

    Args:
        function: The async function; it is called with `args`.
        args: The arguments of the function.
        backend: `"asyncio"` or `"trio"`.

    Returns:
        The result of the function.

    Raises:
        ArgumentError: If the backend does not exist or trio is not installed.

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
        threads.limiters = [
            anyio.to_thread.current_default_thread_limiter(),
            user_thread_limiter(),
            spare_thread_limiter(),
        ]
        return await function(*args)

    if backend == "trio":
        return _run_on_trio(main, threads)
    return anyio.run(main, backend_options={"loop_factory": partial(_VirtualLoop, threads)})


class _Threads:
    """The threads that may wake the event loop, and how long to wait for them before a jump."""

    limiters: Sequence[anyio.CapacityLimiter] = ()

    def __init__(self) -> None:
        self._older_threads = {*threading.enumerate()}  # started before the loop, so they cannot wake it

    def patience(self) -> float:
        """Return the real seconds to wait for an event before the clock jumps."""
        if any(limiter.borrowed_tokens for limiter in self.limiters):
            return _CALL_PATIENCE
        new = (thread for thread in threading.enumerate() if thread not in self._older_threads)
        return 0.0 if all(thread.name.startswith(_POOL_THREADS) for thread in new) else _THREAD_PATIENCE


class _VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that takes its time from the clock of its selector."""

    def __init__(self, threads: _Threads) -> None:
        self._virtual = _JumpingSelector(threads)
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class _JumpingSelector(selectors.DefaultSelector):
    """A selector that moves its clock forward instead of waiting for the next timer.

    asyncio passes the time until its next timer as `timeout`; `None` means no timer, 0 means that a task can run.
    """

    def __init__(self, threads: _Threads) -> None:
        super().__init__()
        self.now = 0.0
        self._threads = threads

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        events = super().select(self._threads.patience())
        # An event may make a task run, which may set an earlier timer. So only jump if there is none.
        if not events:
            self.now += timeout
        return events


def _run_on_trio(main: Callable[[], Awaitable[R]], threads: _Threads) -> R:
    """Run an async function on trio's `MockClock`."""
    # Not with `anyio.run`: old versions of anyio pass no options on to trio.
    try:
        import trio.testing
    except ImportError as error:
        raise ArgumentError("backend 'trio' needs trio: pip install trio") from error
    clock = trio.testing.MockClock(autojump_threshold=0)

    class ThreadPatience(trio.abc.Instrument):
        """Sets how long the clock waits for threads; each step of a task may start or end one."""

        def after_task_step(self, task: trio.lowlevel.Task) -> None:
            patience = threads.patience()
            if patience != clock.autojump_threshold:
                clock.autojump_threshold = patience

    return trio.run(main, clock=clock, instruments=[ThreadPatience()])
