"""Spans of OpenTelemetry, in programs that use it.

A program uses it if it has imported `opentelemetry`. In all others there is no span, and asking costs a look at a dict.
"""

import atexit
import os
import re
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, TypeAlias, TypeVarTuple

from airw._base.messages import one_line
from airw.errors import AirwError

Args = TypeVarTuple("Args")
Attributes: TypeAlias = Mapping[str, Any]

CAPTURE_CONTENT = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
"""The environment variable that lets texts into spans, as the GenAI conventions name it."""
_CAPTURES = {"true", "span_only", "span_and_event"}
_QUOTED = re.compile(r"""['"`(\[{<]|: """)  # from here on, a message may quote a query or a document
_LOADED = "opentelemetry.trace"
_ENTERED: ContextVar[object] = ContextVar("_ENTERED", default=None)
# Spans whose owner is gone, each with the time of that. The garbage collector may run while an exporter holds a lock of
# this thread, so it must not end a span: the next start or end of one does, or the end of the program.
_DROPPED: deque[tuple[Any, int]] = deque()


class OpenSpan:
    """A span that has started and not ended.

    If it is dropped, it ends soon afterwards, with the time of the drop and the attribute `airw.dropped`.
    """

    __slots__ = ("_is_ended", "_span")

    def __init__(self, span: Any) -> None:
        """Own a started span."""
        self._span, self._is_ended = span, False

    @contextmanager
    def work(self) -> Iterator[None]:
        """Make the span current in a block, which must not yield."""
        from opentelemetry import context, trace

        token, marker = context.attach(trace.set_span_in_context(self._span)), _ENTERED.set(self)
        try:
            yield
        finally:
            # Python cleans up a dropped coroutine in some other context, where this span was never current.
            with suppress(ValueError):
                _ENTERED.reset(marker)
                context.detach(token)

    def set(self, attributes: Attributes) -> None:
        """Set attributes; those that are `None` are left out."""
        self._span.set_attributes(_without_none(attributes))

    def note(self, event: str, attributes: Attributes) -> None:
        """Add an event."""
        self._span.add_event(event, attributes)

    def fail(self, error: BaseException | None) -> None:
        """Note the type of an error, if there is one, and of the library's own errors the message.

        Texts that the message quotes are left out. A cancellation is no error, but it is noted.
        """
        if error is None:
            return
        if not isinstance(error, Exception):
            self.set({"airw.cancelled": True})
            return
        from opentelemetry.trace import Status, StatusCode

        self.set({"error.type": _name_of(type(error))})
        self._span.set_status(Status(StatusCode.ERROR, _describe(error)))

    def end(self) -> None:
        """End the span; only the first call has an effect."""
        if not self._is_ended:
            self._is_ended = True
            self._span.end()
        _end_dropped()

    def __del__(self) -> None:
        """Keep a span that nobody ended for `_end_dropped`."""
        if not self._is_ended:
            _DROPPED.append((self._span, time.time_ns()))


def start_span(
    operation: str, source: str | None, query: str, describe: Callable[[*Args], Attributes], *args: *Args
) -> OpenSpan | None:
    """Start a span of a retrieval; it is not current before it is entered.

    Args:
        operation: The operation, which begins the name of the span.
        source: The corpus; `None` or `""` if there are several, or if it has no name.
        query: The query; the span has it only if `CAPTURE_CONTENT` says so.
        describe: Returns further attributes, given `args`. It is called only for a span that somebody wants.
        args: The arguments of `describe`.

    Returns:
        The span; `None` if the program has no use for one.
    """
    if _LOADED not in sys.modules:
        return None
    from opentelemetry import trace

    tracer = _get_tracer(trace.get_tracer_provider())
    # These are there from the start, because a sampler decides by them.
    attributes: dict[str, Any] = {"gen_ai.operation.name": "retrieval"}
    if source:
        attributes["gen_ai.data_source.id"] = source
    span = tracer.start_span(f"{operation} {source}" if source else operation, attributes=attributes)
    # Without an SDK there is nothing to do. A span that the sampler leaves out must still keep those inside it out.
    if not span.get_span_context().is_valid:
        return None
    if span.is_recording():
        if _captures_content():
            span.set_attribute("gen_ai.retrieval.query.text", query)
        span.set_attributes(_without_none(describe(*args)))
    _end_dropped()
    return OpenSpan(span)


@contextmanager
def record_span(
    operation: str, source: str | None, query: str, describe: Callable[[*Args], Attributes], *args: *Args
) -> Iterator[OpenSpan | None]:
    """Record a block as a span, which is current in it; see `start_span`.

    The block must not yield, because a span must not be current across a yield.
    """
    span = start_span(operation, source, query, describe, *args)
    if span is None:
        yield None
        return
    try:
        with span.work():
            yield span
    except GeneratorExit:
        raise  # the garbage collector may do this; see `_DROPPED`
    except BaseException as error:
        span.fail(error)
        span.end()
        raise
    span.end()


@lru_cache(maxsize=1)
def _get_tracer(provider: Any) -> Any:
    # After the SDK has registered its own end: the last one registered is the first one called.
    atexit.register(_end_dropped)
    return provider.get_tracer("airw")


def _end_dropped() -> None:
    while _DROPPED:
        try:
            span, end_time = _DROPPED.popleft()
        except IndexError:  # another thread took it
            return
        span.set_attributes({"airw.dropped": True})
        span.end(end_time)


def _without_none(attributes: Attributes) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _captures_content() -> bool:
    return os.environ.get(CAPTURE_CONTENT, "").strip().lower() in _CAPTURES


def _name_of(kind: type) -> str:
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _describe(error: Exception) -> str:
    """Return the message of an error on one line, as far as it may leave the program."""
    if _captures_content():
        return one_line(str(error))
    # Others may put anything into a message.
    return one_line(_QUOTED.split(str(error), maxsplit=1)[0]) if isinstance(error, AirwError) else ""
