"""Spans for OpenTelemetry: no texts unless asked for, and none that stays open."""

import contextvars
import subprocess
import sys

import anyio
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased

from airw._base.telemetry import CAPTURE_CONTENT, record_span, start_span
from airw.errors import ArgumentError, StoreError
from tests.support.spans import is_inside_a_span, record_spans

WALK = """
import sys, anyio, airw
from airw.stores import MemoryStore

async def main():
    source = airw.from_mapping({"a": "signing keys"}, name="notes", embedder="light")
    async with airw.build(source, store=MemoryStore()) as corpus:
        await airw.discover(corpus, "keys")
        assert [hit async for hit in airw.traverse("keys", corpus)]

anyio.run(main)
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
"""


def start(describe=dict):
    return start_span("search", "notes", "signing keys", describe)


@pytest.mark.slow
def test_the_library_never_imports_opentelemetry_by_itself():
    subprocess.run([sys.executable, "-c", WALK], check=True)


def test_there_is_no_span_in_a_program_without_opentelemetry(recorder, monkeypatch):
    monkeypatch.delitem(sys.modules, "opentelemetry.trace")
    assert start() is None


def test_there_is_no_span_without_an_sdk(monkeypatch):
    monkeypatch.setattr(trace, "get_tracer_provider", trace.ProxyTracerProvider)
    assert start(pytest.fail) is None
    with record_span("search", "notes", "signing keys", pytest.fail) as span:
        assert span is None


def test_a_span_that_the_sampler_leaves_out_keeps_those_inside_out(monkeypatch):
    record_spans(monkeypatch, sampler=ParentBased(ALWAYS_OFF))
    with record_span("search", "notes", "signing keys", pytest.fail):
        assert is_inside_a_span()
        assert not trace.get_current_span().get_span_context().trace_flags.sampled
    assert not is_inside_a_span()


def test_a_span_has_the_names_of_the_conventions(recorder):
    start(lambda: {"airw.search.mode": "dense", "airw.none": None}).end()
    (span,) = recorder.spans
    assert span.name == "search notes"
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "notes",
        "airw.search.mode": "dense",
    }
    assert span.instrumentation_scope.name == "airw"


@pytest.mark.parametrize(
    ("value", "is_there"),
    [
        *[(value, False) for value in (None, "", "false", "NO_CONTENT", "EVENT_ONLY")],
        *[(value, True) for value in ("true", "SPAN_ONLY", "SPAN_AND_EVENT")],
    ],
)
def test_a_query_is_recorded_only_if_the_variable_says_so(recorder, monkeypatch, value, is_there):
    monkeypatch.delenv(CAPTURE_CONTENT, raising=False)
    if value is not None:
        monkeypatch.setenv(CAPTURE_CONTENT, value)
    start().end()
    assert recorder.spans[0].attributes.get("gen_ai.retrieval.query.text") == ("signing keys" if is_there else None)


@pytest.mark.parametrize(
    ("error", "kind", "description"),
    [
        (
            ArgumentError("k must be a number, not 'secret'; pass 3"),
            "airw.errors.ArgumentError",
            "k must be a number, not",
        ),
        (StoreError("the server's text\nsecret"), "airw.errors.StoreError", "the server"),
        (StoreError("it failed: secret"), "airw.errors.StoreError", "it failed"),
        (StoreError("it returned <secret>"), "airw.errors.StoreError", "it returned"),
        (KeyError("secret"), "KeyError", None),
    ],
)
def test_an_error_is_recorded_without_the_texts_that_it_quotes(recorder, error, kind, description):
    with pytest.raises(type(error)), record_span("search", "notes", "keys", dict):
        raise error
    (span,) = recorder.spans
    assert span.attributes["error.type"] == kind
    assert span.status.status_code is trace.StatusCode.ERROR
    assert (span.status.description or None) == description
    assert not span.events  # no stack trace, whose lines may show texts


def test_an_error_is_recorded_in_one_whole_line_if_texts_may_leave(recorder, monkeypatch):
    monkeypatch.setenv(CAPTURE_CONTENT, "true")
    with pytest.raises(KeyError), record_span("search", "notes", "keys", dict):
        raise KeyError("a\nlong " + "text " * 100)
    description = recorder.spans[0].status.description
    assert description.startswith("'a\\nlong text")
    assert len(description) == 200


async def test_a_cancellation_is_noted_and_no_error(recorder):
    with anyio.move_on_after(0.01):
        with record_span("search", "notes", "keys", dict):
            await anyio.sleep_forever()
    (span,) = recorder.spans
    assert span.attributes["airw.cancelled"] is True
    assert span.status.status_code is trace.StatusCode.UNSET
    assert not is_inside_a_span()


def test_a_span_that_is_dropped_ends_with_the_next_one(recorder):
    span = start()
    del span
    # Not yet: an exporter must never run inside the garbage collector.
    assert recorder.names == []
    start().end()
    dropped, other = recorder.spans
    assert dropped.attributes["airw.dropped"] is True
    assert dropped.end_time <= other.start_time
    assert "airw.dropped" not in other.attributes


def test_a_coroutine_that_is_dropped_leaves_the_context_of_others_alone(recorder, caplog):
    class Pause:
        def __await__(self):
            yield

    async def work():
        with record_span("search", "notes", "keys", dict):
            await Pause()

    def close_inside_another_span():
        with recorder.tracer.start_as_current_span("outer") as outer:
            coroutine.close()
            assert trace.get_current_span() is outer

    coroutine = work()
    contextvars.copy_context().run(coroutine.send, None)
    contextvars.copy_context().run(close_inside_another_span)
    start().end()
    assert recorder.names == ["outer", "search notes", "search notes"]
    assert caplog.records == []  # OpenTelemetry would log that a context was left in another one


@pytest.mark.slow
def test_a_dropped_span_ends_at_the_end_of_the_program():
    program = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter
from airw._base.telemetry import start_span

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(ConsoleSpanExporter()))
trace.set_tracer_provider(provider)
start_span("walk", "notes", "keys", dict)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert '"airw.dropped": true' in done.stdout
