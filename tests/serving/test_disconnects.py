"""Clients that leave, read slowly or read nothing hold up nobody but themselves.

What a walk has done is counted at the store.
"""

import math
import socket

import httpx
import pytest

from airw.protocols import Edges
from airw.serving import ServingLimits, app
from tests.support.event_streams import parse_events
from tests.support.served_corpora import CALLS_A_STEP, CHAIN_WALK, calls_of, make_chain
from tests.support.serving import MEGABYTE, Wire, exchange, files_of, memory_of, request_bytes, serve
from tests.support.waiting import wait_until

SEARCH = request_bytes("POST", "/search", {"corpus": "chain", "query": "keys", "k": 1})
WALK = request_bytes("POST", "/traverse", CHAIN_WALK)


class Calls:
    """The calls of the store of a corpus.

    A task of the server makes each of them. So once it has no more tasks than before the first request, no call can
    follow.
    """

    def __init__(self, corpus, server):
        self.corpus, self.server, self.idle = corpus, server, server.tasks()

    def rest(self):
        """Return how many there are from now to the last one."""
        before = calls_of(self.corpus)
        wait_until(lambda: self.server.connections == 0 and self.server.tasks() <= self.idle)
        assert self.corpus.store.running == 0
        return calls_of(self.corpus) - before


def leave(wire):
    wire.socket.close()


def reset(wire):
    wire.abort()


def finish(wire):
    wire.finish()
    while wire.socket.recv(65_536):
        pass


@pytest.mark.parametrize(
    "go", [leave, pytest.param(reset, marks=pytest.mark.slow), pytest.param(finish, marks=pytest.mark.slow)]
)
def test_a_client_that_leaves_stops_the_walk_within_one_step(go):
    corpus = make_chain(100, seconds={Edges: [0, math.inf]})  # it hangs after the first hits
    with serve(app([corpus])) as server, Wire(server.port) as wire:
        calls = Calls(corpus, server)
        wire.send(WALK)
        assert b"event: hit" in wire.read_until(b"event: hit")
        go(wire)
        assert calls.rest() <= CALLS_A_STEP
    assert (server.tasks_left, server.connections_left) == ([], 0)


@pytest.mark.slow
def test_a_client_that_leaves_before_the_first_event_stops_the_walk():
    corpus = make_chain(100, seconds=math.inf)
    with serve(app([corpus])) as server, Wire(server.port) as wire:
        calls = Calls(corpus, server)
        wire.send(WALK)
        wait_until(lambda: calls_of(corpus))
        reset(wire)
        assert calls.rest() <= CALLS_A_STEP
    assert server.tasks_left == []


@pytest.mark.slow
def test_a_client_that_leaves_stops_its_search():
    corpus = make_chain(100, seconds=math.inf)
    with serve(app([corpus])) as server, Wire(server.port) as wire:
        calls = Calls(corpus, server)
        wire.send(SEARCH)
        wait_until(lambda: corpus.store.running)
        leave(wire)
        assert calls.rest() <= 1
    assert server.tasks_left == []


@pytest.mark.slow
def test_the_end_of_a_server_ends_its_walks():
    corpus = make_chain(1_000, seconds=0.02)
    with serve(app([corpus]), timeout_graceful_shutdown=0.1) as server, Wire(server.port) as wire:
        wire.send(WALK)
        wire.read_until(b"event: hit")
        server.stop()
        wire.read_until(b"\r\n0\r\n\r\n")
    assert (server.tasks_left, corpus.store.running) == ([], 0)


@pytest.mark.slow
def test_a_client_that_reads_nothing_slows_its_own_walk_and_no_other():
    corpus = make_chain(1_000, text="keys " * 6_000)
    limits = ServingLimits(max_stall=300, max_hops=1_000)
    with serve(app([corpus], limits=limits)) as server, Wire(server.port, receive_bytes=4_096) as wire:

        def steps():
            return corpus.store.calls[Edges]

        def stands():
            """Return whether the walk takes no step while another client gets many answers."""
            before = steps()
            assert [exchange(server.port, SEARCH).status for _ in range(20)] == [200] * 20
            return steps() == before > 0

        exchange(server.port, SEARCH)
        memory = memory_of()
        wire.send(WALK)
        wait_until(stands)
        assert steps() < 100  # of 1,000, what fits into the buffers
        assert memory_of() - memory < 10 * MEGABYTE
        # Once it reads again, the walk goes on to its end.
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, MEGABYTE)
        text = wire.read_until(b"\nid: end\n", most=1 << 30)
        assert text.count(b"event: hit") == 1_000


@pytest.mark.slow
def test_a_client_that_reads_nothing_for_long_is_cut():
    corpus = make_chain(1_000, text="keys " * 6_000)
    limits = ServingLimits(max_stall=1, max_streams_per_client=1, max_hops=1_000)
    with serve(app([corpus], limits=limits), max_stall=3) as server, Wire(server.port, receive_bytes=4_096) as wire:
        wire.send(WALK)
        wait_until(lambda: calls_of(corpus) > 10)
        # Its place is free again once it has taken nothing for a second.
        short = {**CHAIN_WALK, "node_budget": 3}
        answers = []
        wait_until(lambda: answers.append(_post(server, short)) or answers[-1].status_code == 200)
        assert {answer.status_code for answer in answers[:-1]} == {429}
        assert parse_events(answers[-1].content)[-1].id == "end"
        assert calls_of(corpus) < CALLS_A_STEP * 100
        wait_until(lambda: server.connections == 0)  # the system has dropped it, with what it did not take
    assert server.tasks_left == []


@pytest.mark.slow
def test_walks_that_are_left_or_finished_keep_no_file_and_no_memory():
    corpus = make_chain(60, seconds=0.0)
    short = {**CHAIN_WALK, "node_budget": 10}
    with serve(app([corpus])) as server:

        def work(count):
            with httpx.Client() as client:
                for at in range(count):
                    if at % 3:
                        with Wire(server.port) as wire:
                            wire.send(WALK)
                            wire.read_until(b"event: hit")
                            (leave if at % 2 else reset)(wire)
                    else:
                        assert client.post(f"{server.url}/traverse", json=short).status_code == 200
            corpus.store.log.clear()
            wait_until(lambda: server.connections == 0)

        work(100)
        files, memory, tasks = files_of(), memory_of(), server.tasks()
        work(400)
        assert files_of() <= files
        assert server.tasks() <= tasks
        assert memory_of() - memory < 5 * MEGABYTE
    assert (server.tasks_left, server.connections_left) == ([], 0)


def _post(server, fields):
    return httpx.post(f"{server.url}/traverse", json=fields)
