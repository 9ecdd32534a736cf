"""Many clients at once: each walk is the same as alone, and the server keeps nothing."""

import threading
from collections import Counter

import anyio
import httpx
import pytest

from airw import build, from_mapping
from airw.protocols import Edges
from airw.serving import ServingLimits, app
from tests.support.served_corpora import CHAIN_WALK, make_chain
from tests.support.serving import MEGABYTE, exchange, files_of, memory_of, request_bytes, serve, serve_in_process
from tests.support.sse_clients import read_streams

WALK = {**CHAIN_WALK, "node_budget": 12}
MANY = {
    "max_streams": 2_000,
    "max_streams_per_client": 2_000,
    "max_requests": 64,
    "max_waiting": 2_000,
    "max_wait": 600,
}


def content_of(reading):
    """Return the hits and the final ranking of a stream, without what depends on time."""
    events = reading.events
    hits = [(event.data["artifact_id"], event.data["score"], event.id) for event in events if event.kind == "hit"]
    return hits, events[-1].data["ranking"]


@pytest.mark.slow
def test_many_walks_at_once_are_each_the_same_as_one_alone():
    count = 300  # more than threads, and than connections that wait in a listening socket
    corpus = make_chain(100, seconds=0.001)
    with serve(app([corpus], limits=ServingLimits(**MANY))) as server:
        _, [alone] = read_streams(server.port, WALK, 1, at_once=1)
        _, readings = read_streams(server.port, WALK, count, at_once=count)
        assert Counter((reading.status, reading.error) for reading in readings) == {(200, ""): count}
        assert all(reading.is_complete for reading in readings)
        expected = content_of(alone)
        assert len(expected[0]) == 12
        assert all(content_of(reading) == expected for reading in readings[::6])
    assert (server.tasks_left, server.connections_left, corpus.store.running) == ([], 0, 0)


@pytest.mark.slow
def test_more_walks_than_a_server_takes_are_refused_and_the_others_are_whole():
    def pause():  # so no walk ends before another one is refused
        return 0.0 if "airw_refused_total{" in application.state.service.metrics.to_text() else 1.0

    limits = ServingLimits(max_streams=20, max_streams_per_client=20)
    application = app([make_chain(100, seconds={Edges: pause})], limits=limits)
    with serve(application) as server:
        _, readings = read_streams(server.port, WALK, 60, at_once=60)
        counts = Counter(reading.status for reading in readings)
        assert set(counts) == {200, 429}
        assert counts[200] >= 20
        assert all(reading.is_complete for reading in readings if reading.status == 200)
        _, [after] = read_streams(server.port, WALK, 1, at_once=1)
        assert after.is_complete
    assert server.tasks_left == []


@pytest.mark.slow
def test_1_000_walks_leave_memory_flat():
    plan = {"count": 100, "limits": MANY}
    with serve_in_process("tests.support.served_corpora:chain_app", plan) as server:
        pid = server.processes[0].pid
        short = {**WALK, "node_budget": 2}
        read_streams(server.port, short, 300, at_once=16)
        memory, files = memory_of(pid), files_of(pid)
        _, readings = read_streams(server.port, short, 700, at_once=16)
        assert all(reading.is_complete for reading in readings)
        assert memory_of(pid) - memory < 3 * MEGABYTE
        assert files_of(pid) <= files + 16  # the connections that end last


@pytest.mark.slow
def test_4_processes_on_one_corpus_file_answer_the_same_while_it_changes(tmp_path):
    """Eight clients read and one writes, each request through any process."""
    texts = {f"n{at:03}": f"keys and doors {at}" for at in range(200)}
    path = tmp_path / "notes.airw"

    async def make():
        async with build(from_mapping(texts, name="notes", embedder="light"), store=path):
            pass

    anyio.run(make)
    request = request_bytes("POST", "/search", {"corpus": "notes", "query": "doors 7", "k": 5})
    statuses, written = Counter(), []

    def read():
        for _ in range(60):
            statuses[exchange(server.port, request).status] += 1

    def write():
        for at in range(20):
            body = {"corpus": "notes", "id": f"new{at}", "value": "zebra"}
            statuses[exchange(server.port, request_bytes("PUT", "/artifact", body)).status] += 1
            found = httpx.post(f"{server.url}/search", json={"corpus": "notes", "query": "zebra", "k": 100})
            written.append(sum(hit["artifact_id"].startswith("new") for hit in found.json()["hits"]))

    plan = [[str(path)], {"writable": ["notes"]}]
    with serve_in_process("tests.support.serving:serve_files", *plan, workers=4) as server:
        threads = [threading.Thread(target=read) for _ in range(8)] + [threading.Thread(target=write)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert statuses == {200: 8 * 60 + 20}
    assert written == list(range(1, 21))  # each process sees what any of them has acknowledged
    assert [process.returncode for process in server.processes] == [-15] * 4
