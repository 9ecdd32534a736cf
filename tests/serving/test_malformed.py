"""Malformed requests on a socket: no error of the server, and correct ones are answered."""

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, from_mapping
from airw.serving import app
from airw.stores import MemoryStore
from tests.support.drawing import examples
from tests.support.malformed import CORRECT, KINDS, attack, send_malformed
from tests.support.serving import MEGABYTE, Wire, exchange, request_bytes, serve, serve_in_process
from tests.support.waiting import wait_until

NOTES = {"a": "signing keys [[b]]", "b": "cake and keys", "c": "doors"}


@pytest.fixture(scope="module")
def server():
    """A server of a corpus in memory that everybody may change."""

    async def make():
        return await build(from_mapping(NOTES, name="notes", embedder="light"), store=MemoryStore())

    with serve(app([anyio.run(make)], writable=["notes"])) as running:
        yield running
    assert (running.tasks_left, running.connections_left) == ([], 0)


@pytest.fixture
def corpus_file(tmp_path):
    async def make():
        async with build(from_mapping(NOTES, name="notes", embedder="light"), store=tmp_path / "notes.airw"):
            pass

    anyio.run(make)
    return str(tmp_path / "notes.airw")


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(8))
@given(st.randoms(use_true_random=False))
def test_a_malformed_request_is_not_an_error_of_the_server(server, kind, random):
    pieces = KINDS[kind](random)
    statuses = send_malformed(server.port, pieces, random, seconds=0.01)
    assert all(status < 500 for status in statuses), (statuses, pieces)


@pytest.mark.slow
def test_2_000_malformed_requests_fail_nothing_and_hold_no_memory(corpus_file):
    with serve_in_process("tests.support.serving:serve_files", [corpus_file], {"writable": ["notes"]}) as server:
        answers = attack(server.port, 0, 1_000)
        after_some = server.memory()
        answers.add(attack(server.port, 1_000, 2_000))
        growth = server.memory() - after_some
        assert exchange(server.port, CORRECT).status == 200
    assert answers.failures == []
    assert answers.correct == {200: 200}
    assert set(answers.statuses) <= {
        100,
        200,
        204,
        206,
        400,
        403,
        404,
        405,
        406,
        408,
        409,
        411,
        413,
        414,
        415,
        421,
        422,
        431,
    }, answers.statuses
    assert growth < 20 * MEGABYTE


@pytest.mark.slow
def test_requests_that_never_end_hold_up_no_other_client(corpus_file):
    """300 clients send headers, and 100 send bodies, one byte at a time."""
    head = request_bytes("POST", "/search", content_length="1000", content_type="application/json")
    with serve_in_process("tests.support.serving:serve_files", [corpus_file]) as server:
        assert exchange(server.port, CORRECT).status == 200  # the corpus is open
        slow = [Wire(server.port) for _ in range(400)]
        try:
            for at, wire in enumerate(slow):
                wire.send(head[:20] if at < 300 else head + b"{")
            for round in range(5):
                for at, wire in enumerate(slow):
                    wire.send(head[20 + round : 21 + round] if at < 300 else b" ")
                assert [exchange(server.port, CORRECT, source="127.0.0.2").status for _ in range(5)] == [200] * 5
        finally:
            for wire in slow:
                wire.abort()
        wait_until(lambda: exchange(server.port, CORRECT).status == 200)
