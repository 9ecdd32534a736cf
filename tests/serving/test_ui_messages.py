"""The UI message stream of the AI SDK: its parts, in the order that the SDK expects."""

import json

import pytest

from airw.errors import StoreError
from airw.protocols import Edges
from airw.serving import sse
from airw.serving.ui_messages import wants_ui_messages
from tests.support.event_streams import StreamClient
from tests.support.streamed_notes import NAMES, open_chain, walk_chain

pytestmark = pytest.mark.asyncio_only  # streams on trio are in test_sse.py

ASKS = {"Accept": "text/event-stream; format=ui-messages"}


async def parts_of(response, headers=ASKS):
    client = await StreamClient(headers).call(response)
    lines = [line for line in client.body.decode().split("\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") for line in lines)
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]], client


@pytest.mark.parametrize("headers", [ASKS, {"x-vercel-ai-ui-message-stream": "v1"}])
async def test_a_walk_becomes_parts_of_one_message(headers):
    metadata = {"n01": {"title": "Keys"}, "n02": {"title": ["no text"]}}
    async with open_chain(metadata=metadata) as corpus:
        parts, client = await parts_of(sse(walk_chain(corpus)), headers)
    assert client.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert client.headers["content-type"].startswith("text/event-stream")
    kinds = ["data-hit", "source-document", "data-progress"] * len(NAMES)
    assert [part["type"] for part in parts] == ["start", *kinds, "data-summary", "finish"]
    hits = [part for part in parts if part["type"] == "data-hit"]
    sources = [part for part in parts if part["type"] == "source-document"]
    assert [hit["data"]["artifact_id"] for hit in hits] == NAMES
    assert [source["sourceId"] for source in sources] == [hit["id"] for hit in hits]
    assert len({hit["id"] for hit in hits}) == len(NAMES)
    assert [source["title"] for source in sources][:3] == ["n00", "Keys", "n02"]
    assert all(part["transient"] for part in parts if part["type"] == "data-progress")
    assert parts[-2]["data"]["stop"] == "exhausted"


async def test_the_id_of_a_hit_is_the_same_in_each_stream():
    async with open_chain() as corpus:
        first, _ = await parts_of(sse(walk_chain(corpus)))
        second, _ = await parts_of(sse(walk_chain(corpus)))
    assert first[0]["messageId"] != second[0]["messageId"]
    assert first[1:-2] == second[1:-2]


@pytest.mark.parametrize(("name", "kind"), [("a.md", "text/markdown"), ("a", "text/plain"), ("a.html", "text/html")])
async def test_a_source_has_the_media_type_of_its_name(name, kind):
    async with open_chain({name: "signing keys"}) as corpus:
        parts, _ = await parts_of(sse(walk_chain(corpus, start=name)))
    assert parts[2] == {
        "type": "source-document",
        "sourceId": parts[1]["id"],
        "mediaType": kind,
        "title": name,
    }


async def test_the_best_hits_are_one_part_that_changes():
    async with open_chain() as corpus:
        parts, _ = await parts_of(sse(walk_chain(corpus), best=3))
    best = [part for part in parts if part["type"] == "data-best"]
    assert {part["id"] for part in best} == {"best"}
    assert [len(part["data"]["hits"]) for part in best] == [1, 2, 3]


async def test_edges_are_transient_parts():
    async with open_chain() as corpus:
        parts, _ = await parts_of(sse(walk_chain(corpus), edges=True))
    edges = [part for part in parts if part["type"] == "data-edge"]
    assert len(edges) == len(NAMES) - 1
    assert all(part["transient"] for part in edges)


async def test_a_failure_is_an_error_part_without_a_finish():
    async with open_chain(failures={Edges: [None, StoreError("disk full")]}) as corpus:
        parts, _ = await parts_of(sse(walk_chain(corpus)))
    assert parts[-1] == {"type": "error", "errorText": "disk full"}
    assert "finish" not in {part["type"] for part in parts}


@pytest.mark.parametrize(
    ("accept", "wants"),
    [
        ("text/event-stream;format=ui-messages", True),
        ("application/json, text/event-stream ; format = UI-messages; q=0.5", True),
        ("text/event-stream", False),
        ("format=ui-messages-2", False),
        ("", False),
    ],
)
def test_the_form_is_a_parameter_of_accept(accept, wants):
    assert wants_ui_messages({"accept": accept}) is wants
