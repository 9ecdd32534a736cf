"""The spans of a discovery: one for all of it, one inside for each source."""

import anyio
import pytest
from opentelemetry import trace

from airw import discover, discover_stream, search
from airw.errors import DiscoveryError, StoreError
from airw.policies import Eager
from airw.protocols import Rank
from tests.support.discoveries import ALL, corpora
from tests.support.spans import is_inside_a_span
from tests.support.virtual_time import on_virtual_clock


async def test_a_search_is_a_span(recorder):
    async with corpora(ALL) as (keys, *_):
        hits = await search(keys, "signing keys", k=2, mode="lexical")
    (span,) = recorder.spans
    assert dict(span.attributes) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.data_source.id": "keys",
        "gen_ai.retrieval.top_k": 2,
        "airw.search.mode": "lexical",
        "airw.search.rerank": False,
        "airw.search.hits": len(hits),
    }


async def test_each_source_is_a_span_inside_that_of_the_discovery(recorder):
    failures = {"food": {Rank: StoreError("cannot read 'a secret text'")}}
    async with corpora(ALL, failures=failures) as sources:
        result = await discover(sources, "signing keys", k=5)
    whole = recorder.find("discover")
    assert dict(whole.attributes) == {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.top_k": 5,
        "airw.discover.sources": ("keys", "food", "cars"),
        "airw.discover.mode": "hybrid",
        "airw.discover.strategy": "conservative",
        "airw.discover.n_retrieved": result.n_retrieved,
        "airw.discover.selected": len(result.results),
        "airw.discover.abstained": False,
        "airw.discover.reason": result.reason,
    }
    for name, report in result.signals["per_source"].items():
        span = recorder.find(f"source {name}")
        assert recorder.parent_of(span) == "discover"
        assert span.attributes["airw.source.status"] == report["status"]
        assert span.attributes["airw.source.abstained"] == report["abstained"]
        assert span.attributes["airw.source.seconds"] == report["seconds"]
    lost = recorder.find("source food")
    assert lost.attributes["error.type"] == "airw.errors.StoreError"
    assert lost.status.status_code is trace.StatusCode.ERROR
    assert recorder.parent_of(recorder.find("search keys")) == "source keys"
    assert "secret" not in "".join(span.to_json() for span in recorder.spans)


@on_virtual_clock
async def test_a_source_that_is_late_is_reported_by_its_span(recorder):
    async with corpora(ALL, delays={"food": 5.0}) as sources:
        await discover(sources, "signing keys", source_timeout=0.1)
    late = recorder.find("source food")
    assert late.attributes["airw.source.status"] == "timeout"
    assert late.attributes["error.type"] == "TimeoutError"
    assert not is_inside_a_span()


async def test_the_walks_of_a_discovery_are_inside_its_sources(recorder):
    async with corpora(ALL) as sources:
        await discover(sources, "signing keys", walk=Eager())
    for name in ALL:
        assert recorder.parent_of(recorder.find(f"walk {name}")) == f"source {name}"


async def test_a_discovery_that_fails_ends_its_span_as_failed(recorder):
    failures = {name: {Rank: OSError("a secret text")} for name in ALL}
    async with corpora(ALL, failures=failures) as sources:
        with pytest.raises(DiscoveryError):
            await discover(sources, "signing keys")
        async with discover_stream(sources, "signing keys") as updates:
            for _ in ALL:
                await anext(updates)
            with pytest.raises(DiscoveryError):
                await anext(updates)
    spans = [span for span in recorder.spans if span.name == "discover"]
    assert [span.attributes["error.type"] for span in spans] == ["airw.errors.DiscoveryError"] * 2
    assert "secret" not in "".join(span.to_json() for span in recorder.spans)


async def test_two_discoveries_at_once_keep_their_sources_apart(recorder):
    async def ask(name, query):
        with recorder.tracer.start_as_current_span(name):
            await discover(sources, query)

    async with corpora(ALL, delays={"food": 0.01}) as sources, anyio.create_task_group() as group:
        group.start_soon(ask, "one", "signing keys")
        group.start_soon(ask, "other", "bread")
    assert len({span.context.trace_id for span in recorder.spans}) == 2
    for span in recorder.spans:
        same = [each.name for each in recorder.spans if each.context.trace_id == span.context.trace_id]
        assert sorted(name for name in same if name.startswith("source")) == [
            "source cars",
            "source food",
            "source keys",
        ]


async def test_a_stream_of_a_discovery_is_a_span_that_is_never_current_in_its_block(recorder):
    async with corpora(ALL) as sources:
        with recorder.tracer.start_as_current_span("request") as request:
            async with discover_stream(sources, "signing keys") as updates:
                assert trace.get_current_span() is request
                async for _ in updates:
                    assert trace.get_current_span() is request
            assert trace.get_current_span() is request
    whole = recorder.find("discover")
    assert recorder.parent_of(whole) == "request"
    assert whole.attributes["airw.discover.selected"] == len(updates.result.results)
    assert {recorder.parent_of(recorder.find(f"source {name}")) for name in ALL} == {"discover"}
    assert {span.context.trace_id for span in recorder.spans} == {whole.context.trace_id}


async def test_a_stream_that_is_left_early_ends_its_span(recorder):
    async with corpora(ALL, delays={"food": 5.0}) as sources, discover_stream(sources, "signing keys") as updates:
        await anext(updates)
    assert "airw.discover.selected" not in recorder.find("discover").attributes
    assert recorder.find("source food").attributes["airw.cancelled"] is True


async def test_a_stream_that_is_cancelled_before_its_block_ends_its_span(recorder):
    begun = anyio.Event()

    async def formulate(query):
        begun.set()
        await anyio.sleep_forever()

    async def enter(sources):
        async with discover_stream(sources, "signing keys", formulate=formulate):
            pass

    async with corpora(ALL) as sources, anyio.create_task_group() as tasks:
        tasks.start_soon(enter, sources)
        await begun.wait()
        tasks.cancel_scope.cancel()
    whole = recorder.find("discover")
    assert whole.attributes["airw.cancelled"] is True
    assert "airw.dropped" not in whole.attributes
