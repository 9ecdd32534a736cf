"""The spans of what a server does are inside the span of the request."""

import anyio
import pytest

from tests.support.served import serve_notes

pytestmark = pytest.mark.slow

SECRET = "an unusual question"


async def ask(recorder, method, path, **request):
    """Ask a server inside a span, as a program does that records its requests."""
    async with serve_notes() as asking:
        with recorder.tracer.start_as_current_span("request"):
            answer = await asking.request(method, path, **request)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    ("path", "name"), [("/search", "search notes"), ("/discover", "discover notes"), ("/traverse", "walk notes")]
)
async def test_what_a_request_starts_is_inside_its_span(recorder, path, name):
    await ask(recorder, "POST", path, json={"corpus": "notes", "query": SECRET})
    assert recorder.parent_of(recorder.find(name)) == "request"
    assert SECRET not in "".join(span.to_json() for span in recorder.spans)


async def test_a_stream_ends_the_span_of_its_walk_with_the_numbers_of_the_summary(recorder):
    await ask(recorder, "GET", "/traverse", params={"corpus": "notes", "query": "keys", "node_budget": 2})
    span = recorder.find("walk notes")
    assert span.attributes["airw.walk.stop"] == "node_budget"
    assert span.attributes["airw.walk.emitted"] == 2


async def test_requests_at_once_keep_their_spans_apart(recorder):
    async with serve_notes() as asking:

        async def search(name):
            with recorder.tracer.start_as_current_span(name):
                await asking.post("/search", json={"corpus": "notes", "query": SECRET})

        async with anyio.create_task_group() as group:
            for number in range(3):
                group.start_soon(search, f"request {number}")
    searches = [span for span in recorder.spans if span.name == "search notes"]
    assert sorted(map(recorder.parent_of, searches)) == ["request 0", "request 1", "request 2"]
