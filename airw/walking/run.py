"""The life of one walk: one request at a time, one scope with the deadline a step, one end."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from airw.values import StopReason
from airw.walking.steps import Steps
from airw.walking.summary import WalkSummary

T = TypeVar("T")
_RUNNING: ContextVar[tuple["Run", ...]] = ContextVar("_RUNNING", default=())
"""The walks in whose steps this code runs, outermost first; tasks that a policy starts inherit it."""


class Run:
    """What hits and events of a walk share: who may take, until when, and how it ended.

    Nothing is open between two requests: no task, no scope, no timer.
    """

    def __init__(self, steps: Steps, timeout: float) -> None:
        """Prepare; the clock starts with the first request."""
        self.steps = steps
        self.summary: WalkSummary | None = None
        self.busy = self.closing = False
        self._timeout = timeout
        self._start: float | None = None
        self._scope: anyio.CancelScope | None = None
        self._idle: anyio.Event | None = None

    @property
    def started(self) -> bool:
        """Say whether anything was requested."""
        return self._start is not None

    async def take(self, work: Callable[[], Awaitable[T | None]]) -> T:
        """Do the work of one request.

        Raises:
            StopAsyncIteration: There is nothing more to give.
            RuntimeError: Another task is waiting for a request of its own.
        """
        if self.summary is not None:
            raise StopAsyncIteration
        if self.busy:
            raise RuntimeError(
                "another task waits for this walk; one task takes at a time, and airw.prefetch lets a walk run ahead"
            )
        self.busy, self.steps.at_rest = True, False
        around = _RUNNING.get()
        _RUNNING.set((*around, self))
        try:
            self._start = anyio.current_time() if self._start is None else self._start
            given = await work()
        except GeneratorExit:  # the request itself was dropped, perhaps after the end of the event loop
            self.summary = self.steps.summed_up("closed", 0.0)
            raise
        except BaseException as error:
            self.end("closed" if _is_cancellation(error) else "failed")
            raise
        finally:
            _RUNNING.set(around)  # not `reset`: a dropped request may end in another context
            self.busy = False
            if self._idle is not None:
                self.end("closed")
                self._idle.set()
            self.steps.at_rest = self.summary is None
        if given is None:
            raise StopAsyncIteration
        return given

    async def close(self) -> None:
        """Stop the walk; from another task, cancel its running step, wait for it, and end that task's loop."""
        if self.busy:
            self.closing = True
            self._idle = self._idle or anyio.Event()
            if self._scope is not None:
                self._scope.cancel()
            if self in _RUNNING.get():  # a policy closes its own walk, and cannot wait for itself
                return
            await self._idle.wait()
        self.end("closed")

    def end(self, stop: StopReason) -> None:
        """Say how the walk ended, once; closing comes before every end but a failure."""
        if self.summary is None:
            stop = "closed" if self.closing and stop != "failed" else stop
            seconds = (
                0.0 if self._start is None else max(0.0, anyio.current_time() - self._start)
            )  # another loop's clock
            self.summary = self.steps.summed_up(stop, seconds)
            self.steps.at_rest = False

    async def enough(self) -> bool:
        """Ask the policy whether to stop; also true when the walk ended while it thought."""
        if self.steps.ask() is False:
            return False
        if await self.in_time(self.steps.enough()):
            self.end("sufficient")
        return self.summary is not None

    async def in_time(self, work: Awaitable[T]) -> T | None:
        """Await what may wait, in one scope with the deadline; when that is cut short, the walk has ended."""
        answer = None
        with anyio.CancelScope(deadline=(self._start or 0.0) + self._timeout) as self._scope:
            answer = await work
        if self._scope.cancelled_caught:
            self._interrupted()
        self._scope = None
        return answer

    def _interrupted(self) -> None:
        if self.closing:
            self.end("closed")
        elif self.steps.stop is not None:  # everything was yielded; only the look over the edge was cut short
            self.steps.tally.unknown.update(self.steps.edges_to_look_over())
            self.end(self.steps.stop)
        else:
            self.end("timeout")

    async def rest(self) -> bool:
        """Let other tasks run between hits that are ready; false when the walk was closed meanwhile."""
        await anyio.lowlevel.checkpoint()
        if self.closing:
            self.end("closed")
        return not self.closing


def thrown(typ: Any, val: Any, trace: TracebackType | None) -> BaseException:
    """Make the exception that `athrow` was called with, in any of the forms that Python allows."""
    error: BaseException | None = next((given for given in (typ, val) if isinstance(given, BaseException)), None)
    error = error or (typ() if val is None else typ(val))
    return error if trace is None else error.with_traceback(trace)


def _is_cancellation(error: BaseException) -> bool:
    """Say whether an error is the task's cancellation, alone or as the groups in which trio's nurseries wrap it."""
    kind = anyio.get_cancelled_exc_class()
    rest = error.split(kind)[1] if isinstance(error, BaseExceptionGroup) else error
    return rest is None or isinstance(rest, kind)
