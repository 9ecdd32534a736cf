"""`sse(walk)` sends a walk at the pace of its client, and stops when the client goes."""

import json
import math
from dataclasses import replace

import anyio
import httpx
import pytest

from airw import discover_stream, traverse
from airw.errors import ArgumentError, StoreError
from airw.policies import LinkWalk
from airw.protocols import Edges, RecordsOf
from airw.serving import sse
from airw.serving.event_streams import encode_event
from airw.serving.stream_messages import Message
from airw.testing import run_on_virtual_clock
from tests.support.event_streams import StreamClient, parse_events
from tests.support.serving import serve
from tests.support.streamed_notes import NAMES, TEXTS, open_chain, walk_chain
from tests.support.waiting import wait_for

BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def read(response, headers=None, **options):
    return await StreamClient(headers, **options).call(response)


async def test_a_walk_is_sent_as_hits_progress_and_a_summary():
    async with open_chain() as corpus:
        walk = walk_chain(corpus)
        client = await read(sse(walk))
    hits = [event.data for event in client.events if event.kind == "hit"]
    assert [hit["artifact_id"] for hit in hits] == NAMES
    assert [hit["text"] for hit in hits] == list(TEXTS.values())
    assert client.kinds == ["hit", "progress"] * len(NAMES) + ["summary"]
    assert [event.id for event in client.events] == [*map(str, range(1, 2 * len(NAMES) + 1)), "end"]
    summary = client.events[-1].data
    assert walk.summary.to_dict().items() <= summary.items()
    assert (summary["hits"], summary["budget"]) == (len(NAMES), None)
    assert client.status == 200
    assert client.is_complete
    assert client.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (client.headers["cache-control"], client.headers["x-accel-buffering"]) == ("no-store", "no")
    assert "content-length" not in client.headers


async def test_each_frame_is_the_event_of_the_walk():
    async with open_chain() as corpus:
        client = await read(sse(walk_chain(corpus), edges=True))
        events = [event.to_dict() async for event in walk_chain(corpus).events()]
    *sent, summary = [{**event.data, "seconds": 0} for event in client.events]
    *walked, end = [{**event, "seconds": 0} for event in events]
    assert sent == walked
    assert end.items() <= summary.items()
    assert {event["type"] for event in sent} == {"hit", "edge", "progress"}


async def test_the_summary_has_the_final_order_of_the_hits():
    async with open_chain() as corpus:
        walk = walk_chain(corpus)
        client = await read(sse(walk))
    hits = [event.data for event in client.events if event.kind == "hit"]
    ranking = client.events[-1].data["ranking"]
    assert [(entry["artifact_id"], entry["score"]) for entry in ranking] == [
        (hit.artifact_id, hit.score) for hit in walk.ranking
    ]
    for entry in ranking:
        hit = hits[entry["hit"]]
        assert entry["id"] == hit["id"]
        assert all(entry[name] == hit[name] for name in ("source", "artifact_id", "surface_kind", "surface_index"))
        assert "replaced" not in entry


@pytest.mark.parametrize("last", [0, 1, 7, 24, 1_000])
async def test_a_client_that_comes_back_gets_the_rest(last):
    async with open_chain() as corpus:
        whole = await read(sse(walk_chain(corpus)))
        rest = await read(sse(walk_chain(corpus)), {"Last-Event-ID": str(last)})
    assert [event.id for event in rest.events] == [*[event.id for event in whole.events[:-1]][last:], "end"]
    assert [event.data for event in rest.events[:-1]] == [event.data for event in whole.events[:-1]][last:]


@pytest.mark.parametrize("count", [0, 1, 500, 501, 1_700])
def test_a_long_ranking_is_encoded_as_a_short_one(count):
    data = {"type": "summary", "ranking": [{"id": f"é{at}", "score": at / 8} for at in range(count)], "budget": None}
    text = encode_event(1, Message("summary", dict, is_last=True), data)
    assert text == f"id: end\nevent: summary\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"


async def test_a_client_that_has_all_events_is_told_to_stop():
    async with open_chain() as corpus:
        client = await read(sse(walk_chain(corpus)), {"Last-Event-ID": "end"})
        assert corpus.store.calls.total() == 0
    assert (client.status, client.body) == (204, b"")


@pytest.mark.parametrize("last", ["-1", "1.5", "x", "٣", "9" * 40, "end "])
async def test_another_id_is_refused(last):
    async with open_chain() as corpus:
        client = await read(sse(walk_chain(corpus)), {"Last-Event-ID": last})
        assert corpus.store.calls.total() == 0
    assert client.status == 400
    assert json.loads(client.body)["detail"].startswith("Last-Event-ID must be the id of an event")


HOSTILE = {
    "frame": "x\n\nevent: hit\ndata: {}\n\n",
    "cr": "x\r\revent: hit\rdata: {}\r\r",
    "crlf": "x\r\n\r\nid: end\r\n\r\n",
    "separators": "a\u2028b\u2029c\x85d\x0be\x0cf\x1cg",
    "controls": "\x00\x1b[2J\x7f\u202egnp.exe\ufeff",
    "scripts": "</script><script>alert(1)</script><!--",
    "emoji": "🔑 ключи 鍵",
}


async def test_the_text_of_a_document_cannot_begin_a_frame():
    metadata = {id: {"title": text, "deep": {text: [text]}} for id, text in HOSTILE.items()}
    async with open_chain(HOSTILE, metadata=metadata) as corpus:
        client = await read(sse(walk_chain(corpus, start="frame")))
    lines = client.body.decode().split("\n")
    assert {line.partition(":")[0] for line in lines if line} == {"id", "event", "data"}
    assert not set(client.body.decode()) & set("\r\u2028\u2029\x85\x0b\x0c\x00\x1b\x7f\u202e\ufeff")
    hits = [event.data for event in client.events if event.kind == "hit"]
    assert {hit["artifact_id"]: hit["text"] for hit in hits} == HOSTILE
    assert all(hit["metadata"]["deep"] == {hit["text"]: [hit["text"]]} for hit in hits)


@BACKENDS
def test_a_client_that_goes_away_stops_the_walk_within_one_step(backend):
    async def main():
        async with open_chain(delays=1.0) as corpus:
            walk = walk_chain(corpus)
            client = await read(sse(walk), leaves_after=4)  # two steps, each a hit and its progress
            calls = corpus.store.calls.total()
            await anyio.sleep(60)
            assert corpus.store.calls.total() == calls
            assert corpus.store.running == 0
            return walk.summary.stop, walk.summary.emitted, client.sends[-1][0], client.is_complete

    async def reference():
        async with open_chain(delays=1.0) as corpus:
            await read(sse(walk_chain(corpus)))
            return corpus.store.calls.total()

    stop, emitted, left_at, is_complete = run_on_virtual_clock(main, backend=backend)
    assert (stop, emitted, is_complete) == ("closed", 2, False)
    assert left_at < 0.4 * run_on_virtual_clock(reference, backend=backend)


@BACKENDS
def test_a_client_that_goes_away_during_a_call_ends_that_call(backend):
    async def main():
        async with open_chain(delays=float("inf")) as corpus:
            walk = walk_chain(corpus)
            client = StreamClient()
            async with anyio.create_task_group() as group:
                group.start_soon(client.call, sse(walk))
                await anyio.sleep(5)
                assert corpus.store.running == 1
                client._has_left.set()
                await anyio.sleep(0.001)
                assert corpus.store.running == 0
            return walk.summary.stop

    assert run_on_virtual_clock(main, backend=backend) == "closed"


@BACKENDS
def test_a_server_that_reports_a_lost_connection_ends_the_walk(backend):
    async def main():
        async with open_chain(delays=1.0) as corpus:
            walk = walk_chain(corpus)
            await read(sse(walk), leaves_after=2, error=OSError("gone"))
            return walk.summary.stop

    assert run_on_virtual_clock(main, backend=backend) == "closed"


@BACKENDS
def test_a_slow_client_slows_its_own_walk(backend):
    async def main():
        async with open_chain(delays={Edges: 0.001}) as corpus:
            client = StreamClient(stalls_after=4)
            walk = walk_chain(corpus)
            with anyio.move_on_after(30):
                await client.call(sse(walk))
            return len(client.sends), walk.summary.emitted

    sends, emitted = run_on_virtual_clock(main, backend=backend)
    assert sends == 4
    assert emitted <= 3  # two were sent, one was read for the send that waits


@BACKENDS
def test_a_client_that_takes_nothing_is_cut(backend):
    async def main():
        async with open_chain() as corpus:
            walk = walk_chain(corpus)
            client = await read(sse(walk, max_stall=7, heartbeat=1), stalls_after=4)
            return walk.summary.stop, client.is_complete, anyio.current_time() - client.sends[-1][0]

    stop, is_complete, waited = run_on_virtual_clock(main, backend=backend)
    assert (stop, is_complete) == ("closed", False)
    assert waited == pytest.approx(7, abs=0.01)


@BACKENDS
def test_a_client_that_reads_slowly_gets_everything(backend):
    async def main():
        async with open_chain({id: text * 5_000 for id, text in TEXTS.items()}) as corpus:
            return await read(sse(walk_chain(corpus), max_stall=2), pause=1.5)

    client = run_on_virtual_clock(main, backend=backend)
    assert client.is_complete
    assert max(len(data) for _, data in client.sends) <= 32_768
    assert len([event for event in client.events if event.kind == "hit"]) == len(NAMES)


@BACKENDS
def test_heartbeats_come_only_when_nothing_else_does(backend):
    async def main():
        async with open_chain(delays={Edges: [0.5] * 3 + [10.0]}) as corpus:
            return await read(sse(walk_chain(corpus), heartbeat=3))

    client = run_on_virtual_clock(main, backend=backend)
    beats = [at for at, data in client.sends if data == b": \n\n"]
    others = [at for at, data in client.sends if data != b": \n\n"]
    assert [beat - max(at for at in others if at < beats[0]) for beat in beats] == pytest.approx([3, 6, 9], abs=0.01)
    assert client.is_complete


@BACKENDS
def test_a_heartbeat_can_be_the_first_thing_that_is_sent(backend):
    async def main():
        async with open_chain(delays=[10.0], failures={Edges: StoreError("disk full")}) as corpus:
            return await read(sse(walk_chain(corpus), heartbeat=3))

    client = run_on_virtual_clock(main, backend=backend)
    assert client.status == 200
    assert [data for _, data in client.sends[:3]] == [b": \n\n"] * 3
    assert client.kinds[-1] == "error"


async def test_a_failure_before_the_first_event_is_the_answer():
    async with open_chain(failures={RecordsOf: StoreError("disk full")}) as corpus:
        client = await read(sse(walk_chain(corpus)))
    assert client.status == 503
    assert client.headers["content-type"] == "application/problem+json"
    assert json.loads(client.body) == {"error": "StoreError", "status": 503, "detail": "disk full"}


async def test_a_failure_in_the_midst_is_the_last_event():
    async with open_chain(failures={Edges: [None, None, StoreError("disk\n\nfull")]}) as corpus:
        walk = walk_chain(corpus)
        client = await read(sse(walk))
    assert client.status == 200
    assert client.kinds[-1] == "error"
    assert client.events[-1].id == "end"
    assert client.events[-1].data == {"error": "StoreError", "status": 503, "detail": "disk full"}
    assert client.is_complete
    assert walk.summary.stop == "failed"


async def test_the_message_of_an_unexpected_failure_stays_in_the_log(caplog):
    async with open_chain(failures={Edges: [None, None, ZeroDivisionError("secret-42")]}) as corpus:
        client = await read(sse(walk_chain(corpus)))
    assert client.events[-1].data["status"] == 500
    assert "secret-42" not in client.body.decode()
    assert "secret-42" in caplog.text


async def test_a_request_for_the_headers_walks_nothing():
    async with open_chain() as corpus:
        client = await read(sse(walk_chain(corpus)), method="HEAD")
        assert corpus.store.calls.total() == 0
    assert (client.status, client.body, client.is_complete) == (200, b"", True)


async def test_a_walk_that_is_closed_by_others_ends_with_its_summary():
    async with open_chain() as corpus:
        walk = walk_chain(corpus)
        await walk.aclose()
        client = await read(sse(walk))
    assert client.kinds == ["summary"]
    assert client.events[0].data["stop"] == "closed"


async def test_a_discovery_sends_each_answer_and_the_result():
    async with open_chain() as notes, open_chain(name="books") as books:
        client = await read(sse(discover_stream([notes, books], "signing keys", min_score=None)))
        again = await read(sse(discover_stream([notes, books], "signing keys", min_score=None)))
    assert client.kinds == ["source", "source", "result"]
    assert {event.data["source"] for event in client.events[:2]} == {"notes", "books"}
    assert client.events[-1].id == "end"
    assert client.events[-1].data["results"] == again.events[-1].data["results"] != []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"heartbeat": 0}, "heartbeat must be a number of seconds above 0"),
        ({"heartbeat": "often"}, "heartbeat must be"),
        ({"max_stall": float("inf")}, "max_stall must be"),
        ({"best": 0}, "best must be"),
        ({"best": 3, "max_hits": 3}, "best sends whole lists of hits"),
        ({"max_hits": 0}, "max_hits must be"),
        ({"max_chars": 1.5}, "max_chars must be"),
        ({"max_tokens": True}, "max_tokens must be"),
    ],
)
async def test_an_argument_that_cannot_be_used_is_an_error(arguments, said):
    async with open_chain() as corpus:
        with pytest.raises(ArgumentError, match=said):
            sse(walk_chain(corpus), **arguments)


async def test_what_is_no_walk_is_an_error():
    with pytest.raises(ArgumentError, match="stream must be a walk"):
        sse([1, 2])
    async with open_chain() as corpus:
        with pytest.raises(ArgumentError, match="edges, best and budgets are for walks"):
            sse(discover_stream([corpus], "keys"), max_hits=3)
        walk = walk_chain(corpus)
        await anext(walk)
        with pytest.raises(RuntimeError, match="is being read already"):
            sse(walk)


@pytest.mark.parametrize("changed", ["score", "metadata", "text", "less"])
async def test_a_hit_that_the_ranking_replaces_can_be_made_again(changed):
    """The summary has what a policy's own `rank` changes, and no more than that."""

    class Own(LinkWalk):
        def rank(self, state, hits):
            new = {
                "score": {"score": 7.0},
                "metadata": {"metadata": {**hits[0].metadata, "rank": 1}},
                "text": {"text": "another"},
                "less": {"metadata": {}},
            }[changed]
            return [replace(hits[0], **new), *hits[1:]]

    async with open_chain() as corpus:
        walk = traverse("", corpus, policy=Own(roots=["n00"], direction="out"))
        client = await read(sse(walk))
    first, *others = client.events[-1].data["ranking"]
    assert all(entry.keys().isdisjoint({"metadata", "replaced"}) for entry in others)
    assert first["score"] == walk.ranking[0].score
    assert first.get("metadata") == ({"rank": 1} if changed == "metadata" else None)
    assert first.get("replaced") == (walk.ranking[0].to_dict() if changed in ("text", "less") else None)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_an_endpoint_of_fastapi_returns_a_walk_in_one_line():
    """A real server; a client that reads the first hit and goes ends the calls of the store."""
    from fastapi import FastAPI  # takes half a second, which quick runs save

    api = FastAPI()

    @api.get("/find")
    async def find():
        return sse(walk_chain(corpus))

    waits = [0.0] * 1_000
    async with open_chain(delays={Edges: waits.pop}) as corpus:
        with serve(api) as server:
            idle = server.tasks()
            async with httpx.AsyncClient() as asking:
                whole = await asking.get(f"{server.url}/find")
                calls = corpus.store.calls.total()
                waits[:] = [math.inf, 0.0]  # the first notes are read with their links
                async with asking.stream("GET", f"{server.url}/find") as answer:
                    async for line in answer.aiter_lines():
                        if line == "event: hit":
                            break
                await wait_for(lambda: server.tasks() <= idle)  # nobody is left to call the store
                begun = corpus.store.calls.total() - calls
    assert [event.data["artifact_id"] for event in parse_events(whole.content) if event.kind == "hit"] == NAMES
    assert begun <= 6  # three requests of the first step, and those of at most one that had begun
    assert server.tasks_left == []
