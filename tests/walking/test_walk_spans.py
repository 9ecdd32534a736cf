"""The span of a walk: from its first request to its end, current while it works."""

import gc

import anyio
import pytest
from opentelemetry import trace

import airw
from airw.errors import StoreError
from airw.values import SearchHit
from airw.walking import Policy, merge, prefetch
from tests.support.spans import is_inside_a_span
from tests.support.virtual_time import on_virtual_clock

TREE = {0: [1, 2], 1: [3, 4], 2: [5, 6], 3: [], 4: [], 5: [], 6: []}


class Tree(Policy):
    """A walk down a tree of numbers, whose calls of the store are spans."""

    def __init__(self, tracer, fail_at=None, wait_at=None):
        self.tracer, self.fail_at, self.wait_at = tracer, fail_at, wait_at

    async def seed(self, state, store):
        return [0]

    async def score(self, state, nodes, store):
        return [-float(node) for node in nodes]

    async def expand(self, state, committed, store):
        with self.tracer.start_as_current_span("store"):
            await anyio.lowlevel.checkpoint()
            ids = [entry.id for entry in committed]
            if self.fail_at in ids:
                raise StoreError("cannot read 'a secret text'")
            if self.wait_at in ids:
                await anyio.sleep_forever()
            return [TREE[id] for id in ids]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "a secret text") for entry in committed]


class Named:
    name = "tree"


def walk_tree(recorder, **options):
    policy = Tree(recorder.tracer, options.pop("fail_at", None), options.pop("wait_at", None))
    return airw.traverse("a secret query", Named(), policy=policy, max_depth=None, **options)


def walk_attributes(span):
    return {name.removeprefix("airw.walk."): value for name, value in span.attributes.items() if "walk" in name}


async def test_a_span_has_the_numbers_of_the_summary(recorder):
    walk = walk_tree(recorder, node_budget=5, timeout=60)
    assert len([hit async for hit in walk]) == 5
    span = recorder.find("walk tree")
    assert span.attributes["gen_ai.operation.name"] == "retrieval"
    assert span.attributes["gen_ai.data_source.id"] == "tree"
    assert walk_attributes(span) == {
        "policy": "Tree",
        "node_budget": 5,
        "timeout": 60,
        "stop": "node_budget",
        "emitted": 5,
        "routed": 0,
        "steps": walk.summary.steps,
        "edges": walk.summary.edges,
        "depth": 2,
        "truncated": True,
        "left_out.node_budget": walk.summary.left_out["node_budget"],
    }
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("form", ["hits", "events"])
async def test_the_events_of_a_span_are_the_steps_of_the_walk(recorder, form):
    steps = [event.to_dict() async for event in walk_tree(recorder).events() if type(event).__name__ == "StepDone"]
    walk = walk_tree(recorder)
    async for _ in walk if form == "hits" else walk.events():
        pass
    span = [span for span in recorder.spans if span.name == "walk tree"][-1]
    assert {event.name for event in span.events} == {"airw.walk.step"}
    names = ("step", "committed", "edges", "waiting")
    found = [[event.attributes[f"airw.walk.{name}"] for name in names] for event in span.events]
    assert found == [[step[name] for name in names] for step in steps]


async def test_a_span_is_current_while_the_walk_works_and_never_between_two_hits(recorder):
    with recorder.tracer.start_as_current_span("request") as request:
        async for _ in walk_tree(recorder):
            assert trace.get_current_span() is request
        assert trace.get_current_span() is request
    assert recorder.parent_of(recorder.find("walk tree")) == "request"
    calls = [span for span in recorder.spans if span.name == "store"]
    assert len(calls) >= 3
    assert {recorder.parent_of(call) for call in calls} == {"walk tree"}


async def test_a_walk_that_is_never_asked_has_no_span(recorder):
    walk = walk_tree(recorder)
    await walk.aclose()
    assert recorder.spans == []


async def test_each_request_may_come_from_another_task(recorder):
    walk = walk_tree(recorder)

    async def read():
        with recorder.tracer.start_as_current_span("reader"):
            await anext(walk)
            assert trace.get_current_span().name == "reader"

    for _ in range(3):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
    await walk.aclose()
    span = recorder.find("walk tree")
    assert {recorder.parent_of(call) for call in recorder.spans if call.name == "store"} == {"walk tree"}
    assert span.parent.span_id == next(each for each in recorder.spans if each.name == "reader").context.span_id


async def test_closing_ends_the_span(recorder):
    async with walk_tree(recorder) as walk:
        await anext(walk)
        assert recorder.spans == []
    assert walk_attributes(recorder.find("walk tree"))["stop"] == "closed"
    await walk.aclose()
    assert recorder.names.count("walk tree") == 1


@on_virtual_clock
async def test_a_deadline_ends_the_span_without_an_error(recorder):
    async for _ in walk_tree(recorder, wait_at=1, timeout=0.02):
        pass
    span = recorder.find("walk tree")
    assert walk_attributes(span)["stop"] == "timeout"
    assert span.status.status_code is trace.StatusCode.UNSET


async def test_a_failure_is_in_the_span_without_the_text_that_it_quotes(recorder):
    with pytest.raises(StoreError):
        async for _ in walk_tree(recorder, fail_at=1):
            pass
    span = recorder.find("walk tree")
    assert walk_attributes(span)["stop"] == "failed"
    assert span.attributes["error.type"] == "airw.errors.StoreError"
    assert span.status.description == "cannot read"
    assert "secret" not in span.to_json()
    assert not is_inside_a_span()


@on_virtual_clock
async def test_a_cancelled_request_ends_the_span_as_closed(recorder):
    with anyio.move_on_after(0.02):
        async for _ in walk_tree(recorder, wait_at=1):
            pass
    span = recorder.find("walk tree")
    assert walk_attributes(span)["stop"] == "closed"
    assert span.status.status_code is trace.StatusCode.UNSET
    assert not is_inside_a_span()


async def test_a_walk_that_is_dropped_leaves_no_span_open(recorder):
    for _ in range(3):
        walk = walk_tree(recorder)
        await anext(walk)
        del walk
        gc.collect()
    # The last one waits for the next span, or for the end of the program.
    assert recorder.names.count("walk tree") == 2
    await walk_tree(recorder, node_budget=1).aclose()
    assert [hit async for hit in walk_tree(recorder, node_budget=1)]
    spans = [span for span in recorder.spans if span.name == "walk tree"]
    assert [span.attributes.get("airw.dropped") for span in spans] == [True, True, True, None]


async def test_walks_that_run_at_once_have_spans_of_their_own(recorder):
    with recorder.tracer.start_as_current_span("request"):
        async with merge(walk_tree(recorder), walk_tree(recorder), order="turns") as pairs:
            assert len([pair async for pair in pairs]) == 14
        async with prefetch(walk_tree(recorder)) as hits:
            assert len([hit async for hit in hits]) == 7
    walks = [span for span in recorder.spans if span.name == "walk tree"]
    assert {recorder.parent_of(walk) for walk in walks} == {"request"}
    calls = [span.parent.span_id for span in recorder.spans if span.name == "store"]
    assert {calls.count(walk.context.span_id) for walk in walks} == {len(calls) // 3}
