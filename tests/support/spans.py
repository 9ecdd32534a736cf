"""Spans that the real SDK of OpenTelemetry records, for tests."""

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

TRACER = "the program"


class SpanRecorder:
    """A tracer provider, and the spans that have ended."""

    def __init__(self, **options):
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self._exporter = InMemorySpanExporter()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer(TRACER)

    @property
    def spans(self):
        """The spans that have ended, in the order of their ends."""
        return list(self._exporter.get_finished_spans())

    @property
    def names(self):
        return [span.name for span in self.spans]

    def clear(self):
        self._exporter.clear()

    def find(self, name):
        """The only span of a name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    def parent_of(self, span):
        """The name of the span that a span is inside; `None` for one at the top."""
        names = {each.context.span_id: each.name for each in self.spans}
        return None if span.parent is None else names[span.parent.span_id]


def is_inside_a_span():
    return trace.get_current_span().get_span_context().is_valid


def record_spans(monkeypatch, **options):
    """Record spans until the end of the test, as a program with the SDK does."""
    recorder = SpanRecorder(**options)
    # The API allows one provider in the life of a program; tests need one each.
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: recorder.provider)
    return recorder
