"""The run of one walk: one request at a time, one cancel scope per step, one end."""

import math
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import Any, TypeVar

import anyio
import anyio.lowlevel

from airw._base.telemetry import OpenSpan, start_span
from airw.values import StopReason
from airw.walking.answers import label_error
from airw.walking.stages import WalkStages
from airw.walking.summary import WalkSummary

T = TypeVar("T")
_RUNNING: ContextVar[tuple["WalkRun", ...]] = ContextVar("_RUNNING", default=())
"""The walks whose steps call this code, outermost first; tasks that a policy starts inherit it."""


class WalkRun:
    """The requests, the deadline and the end of a walk, for streams of hits and of events.

    `has_started` is True from the first request on, and `timeout` are the seconds until the deadline. `has_lost_items`
    is True if a stream that read ahead was left before its consumer took all that the walk had yielded.

    Nothing is open between two requests: no task, no cancel scope, no timer. A generator that keeps one open across a
    `yield` leaves it open when its consumer goes away. Python may then close it in another task, where a cancel scope
    must not be closed. Here each request closes what it opened before it returns.
    """

    def __init__(self, stages: WalkStages, timeout: float) -> None:
        """Prepare the run; the clock starts with the first request."""
        self.stages = stages
        self._stop: StopReason | None = None
        self._summary: WalkSummary | None = None
        self.busy: bool = False
        self.closing: bool = False
        self.timeout: float = timeout
        self.has_started: bool = False
        self.has_lost_items: bool = False
        self._start: float | None = None
        self._seconds = 0.0  # until the walk ended, if it was extended
        self._scope: anyio.CancelScope | None = None
        self._request_ended: anyio.Event | None = None

    @property
    def summary(self) -> WalkSummary | None:
        """The summary of the walk, made when it is looked at; `None` until the walk has ended."""
        if self._summary is None and self._stop is not None:
            self._summary = self.stages.summarize(self._stop, self._seconds)
        return self._summary

    @property
    def has_ended(self) -> bool:
        """True if the walk has ended."""
        return self._stop is not None

    def go_on(self, timeout: float) -> None:
        """Take back the end of the walk.

        Its clock has stood still since then, and runs on with the next request.
        """
        self._stop, self._summary = None, None
        self._start, self.timeout, self.closing, self._request_ended = None, timeout, False, None

    async def serve(self, work: Callable[[], Awaitable[T | None]]) -> T:
        """Run the work of one request and return its result.

        Raises:
            StopAsyncIteration: If the walk has ended, or `work` returns `None`.
            RuntimeError: If a request of another task is still running.
        """
        if self._stop is not None:
            raise StopAsyncIteration
        if self.busy:
            raise RuntimeError(
                "another task waits for this walk; request hits from one task at a time, or use airw.prefetch"
            )
        self.busy, self.stages.ready_until = True, 0
        outer_walks = _RUNNING.get()
        _RUNNING.set((*outer_walks, self))
        try:
            if self._start is None:
                self._start, self.has_started = anyio.current_time() - self._seconds, True
                self._start_span()
            span = self.stages.span
            with nullcontext() if span is None else span.work():
                result = await work()
        except GeneratorExit:
            # The coroutine of the request was dropped. The event loop may be closed, so its clock cannot be read.
            self._stop = self._stop or "closed"
            self.stages.span = None  # it was dropped, too
            raise
        except BaseException as error:
            if _is_cancellation(error):
                self.end("closed")
            self.fail(error)
            raise
        finally:
            # `ContextVar.reset` would fail here: a dropped request may end in another context.
            _RUNNING.set(outer_walks)
            self.busy = False
            # Another task that called `close` waits for this request.
            if self._request_ended is not None:
                self.end("closed")
                self._request_ended.set()
            if self._stop is None:
                self.stages.open_ready()
        if result is None:
            raise StopAsyncIteration
        return result

    def _start_span(self) -> None:
        """Start the span of the walk, with its policy and limits, if the program wants spans."""
        stages = self.stages
        name = getattr(stages.store, "name", None)
        source = name if isinstance(name, str) else None
        stages.span = start_span("walk", source, stages.state.query, self._describe)

    def _describe(self) -> dict[str, Any]:
        return {
            "airw.walk.policy": type(self.stages.policy).__name__,
            "airw.walk.node_budget": self.stages.node_budget,
            "airw.walk.max_depth": self.stages.max_depth,
            "airw.walk.timeout": None if math.isinf(self.timeout) else self.timeout,
        }

    async def close(self) -> None:
        """End the walk as closed; cancel a request of another task and wait for it."""
        if self.busy:
            self.closing = True
            self._request_ended = self._request_ended or anyio.Event()
            if self._scope is not None:
                self._scope.cancel()
            # A policy that closes its own walk runs inside the request: it would wait for itself.
            if self in _RUNNING.get():
                return
            await self._request_ended.wait()
        self.end("closed")

    def end(self, stop: StopReason) -> None:
        """Record the stop reason; only the first call has an effect.

        If `close` was called, the reason is `closed`, unless the walk failed: an error must not go unnoticed.
        """
        if self._stop is None:
            self._stop, self.stages.ready_until = "closed" if self.closing and stop != "failed" else stop, 0
            if self._start is not None:  # a walk closed in another event loop meets another clock
                self._seconds = max(self._seconds, anyio.current_time() - self._start)
            if self.stages.span is not None:
                summary = self.stages.summarize(self._stop, self._seconds)
                _end_span(self.stages.span, summary, sys.exception() if stop == "failed" else None)
                self.stages.span = None

    def fail(self, error: BaseException) -> None:
        """End the walk as failed, unless it has ended, and add the policy's method to the error."""
        self.end("failed")
        if isinstance(error, Exception):
            label_error(error, self.stages.asking, self.stages.policy)

    async def should_end(self) -> bool:
        """Return True if the policy wants to stop, or if the walk ended while it answered."""
        if self.stages.call_stop() is False:
            return False
        if await self.run_until_deadline(self.stages.should_stop()):
            self.end("sufficient")
        return self._stop is not None

    async def run_until_deadline(self, work: Awaitable[T]) -> T | None:
        """Await work in a cancel scope that ends at the deadline.

        `close` cancels the same scope. If it is cancelled, the walk has ended and the result is `None`.
        """
        answer = None
        with anyio.CancelScope(deadline=(self._start or 0.0) + self.timeout) as self._scope:
            answer = await work
        if self._scope.cancelled_caught:
            self._end_interrupted()
        self._scope = None
        return answer

    def _end_interrupted(self) -> None:
        """Record why a step was cancelled: by `close`, during the last count, or at the deadline."""
        # `closed` precedes all reasons but `failed`, even if the deadline has passed meanwhile.
        if self.closing:
            self.end("closed")
        # If the reason is known, every hit was yielded, so the deadline cost no hits and is not the reason. Only the
        # count beyond the limits was cut short, and stays unknown.
        elif self.stages.stop_reason is not None:
            self.stages.counts.unknown.update(self.stages.nodes_not_expanded())
            self.end(self.stages.stop_reason)
        else:
            self.end("timeout")

    async def run_other_tasks(self) -> bool:
        """Run other tasks between two ready hits; return False if one of them closed the walk."""
        await anyio.lowlevel.checkpoint()
        if self.closing:
            self.end("closed")
        return not self.closing


def _end_span(span: OpenSpan, summary: WalkSummary, error: BaseException | None) -> None:
    """End the span of a walk with the numbers of its summary."""
    names = ("stop", "emitted", "routed", "steps", "edges", "depth", "truncated")
    lost = [corpus.name for corpus in summary.lost] or None
    left_out = {f"airw.walk.left_out.{limit}": count for limit, count in summary.left_out.items()}
    span.set({f"airw.walk.{name}": getattr(summary, name) for name in names} | {"airw.walk.lost": lost} | left_out)
    span.fail(error)
    span.end()


def to_exception(typ: Any, val: Any, trace: TracebackType | None) -> BaseException:
    """Return the exception of an `athrow` call: from a type, a type and a value, or itself."""
    error: BaseException | None = next((value for value in (typ, val) if isinstance(value, BaseException)), None)
    error = error or (typ() if val is None else typ(val))
    return error if trace is None else error.with_traceback(trace)


def _is_cancellation(error: BaseException) -> bool:
    """Return whether an error is the task's cancellation, perhaps in exception groups of trio."""
    kind = anyio.get_cancelled_exc_class()
    others = error.split(kind)[1] if isinstance(error, BaseExceptionGroup) else error
    return others is None or isinstance(others, kind)
