"""What HTTP adds to a walk, how soon its first event comes, and many walks at once.

The servers run in processes of their own, on the loopback. The peer is an endpoint of Starlette that walks the same
walk and sends the same events, without limits, rights, heartbeats, a log, and a watch for clients that leave.
"""

import asyncio
import re
import statistics
import time

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

import airw
from airw.cli import main as run_airw
from airw.policies.specs import policy_from_spec
from airw.serving.event_streams import encode_event, to_messages
from airw.serving.stream_budgets import StreamBudget
from tests.benchmarks.results import run_in_turn
from tests.support.malformed import attack
from tests.support.restarts import Load, restart, wait_for
from tests.support.serve_command import run_serve
from tests.support.served_corpora import CHAIN_POLICY, CHAIN_WALK, make_chain
from tests.support.serving import MEGABYTE, memory_of, serve_in_process
from tests.support.sse_clients import read_stream, read_streams

QUESTION = "What does a walk over HTTP cost?"
LIMITS = {"max_streams": 4_000, "max_streams_per_client": 4_000, "max_waiting": 4_000, "max_wait": 120, "max_hops": 999}
ROUNDS, WALKS = 5, 20
CALL, STEPS = 0.010, 24
WORKERS = 8
MALFORMED = 10_000
_SECONDS = re.compile(rb'"seconds": [^,]+')  # of a summary; all other bytes of a walk are the same each time


def bare_app(count, nodes):
    """Return a short application that walks, and sends the events that airw sends.

    `/traverse` walks; `/same` sends the pieces of its first walk again, without one.
    """
    corpus = make_chain(count)
    kept = []

    async def walk():
        policy, pieces, first, is_last = policy_from_spec(CHAIN_POLICY), [], 1, False
        stream = airw.traverse("keys", corpus, policy=policy, node_budget=nodes)
        messages = to_messages(stream, edges=False, routers=False, best=None, budget=StreamBudget())
        while not is_last:
            ready = await messages.read()
            numbered = enumerate(ready, first)
            pieces.append("".join(encode_event(number, each, each.make_data()) for number, each in numbered))
            first, is_last = first + len(ready), ready[-1].is_last
            yield pieces[-1]
        kept[:] = pieces

    async def again():
        for piece in kept:
            yield piece

    def answer(make):
        async def send(request: Request):
            await request.json()
            return StreamingResponse(make(), media_type="text/event-stream")

        return send

    routes = [Route(path, answer(make), methods=["POST"]) for path, make in (("/traverse", walk), ("/same", again))]
    return Starlette(routes=routes)


def chain_server(**plan):
    return serve_in_process("tests.support.served_corpora:chain_app", {"limits": LIMITS, **plan})


@pytest.mark.parametrize("nodes", [10, 400])
def test_what_http_adds_to_a_walk(results, nodes):
    """Each of `WALKS` walks, one after the other, by one client."""
    corpus, fields = make_chain(500), {**CHAIN_WALK, "node_budget": nodes}

    def walk_here():
        async def main():
            start = time.perf_counter()
            for _ in range(WALKS):
                walk = airw.traverse("keys", corpus, policy=policy_from_spec(CHAIN_POLICY), node_budget=nodes)
                assert len([hit async for hit in walk]) == nodes
            return time.perf_counter() - start

        return anyio.run(main)

    def read_from(server, path="/traverse"):
        seconds, readings = read_streams(server.port, fields, WALKS, at_once=1, path=path)
        assert {_SECONDS.sub(b"", reading.data) for reading in readings} == {expected}
        return seconds

    bare_server = serve_in_process("tests.benchmarks.bench_serving:bare_app", 500, nodes)
    with chain_server(count=500) as served, bare_server as bare:
        expected = _SECONDS.sub(b"", read_streams(served.port, fields, 1, at_once=1)[1][0].data)
        ways = {
            "airw": lambda: read_from(served),
            "library": walk_here,
            "bare walk": lambda: read_from(bare),
            "bytes": lambda: read_from(bare, "/same"),
        }
        for way in ways.values():
            way()
        rounds = run_in_turn(ways, rounds=ROUNDS, scale=1e3 / WALKS)
    best = {name: min(values) for name, values in rounds.items()}
    added = {name: 1e3 * (best[name] - best["library"]) / nodes for name in ("airw", "bare walk")}
    print(f"\n{nodes} hits: " + ", ".join(f"{name} {value:.2f} ms" for name, value in best.items()))
    print(f"added to the library: {added['airw']:.0f} us a hit; bare endpoint: {added['bare walk']:.0f} us a hit")
    results.compare(
        QUESTION,
        f"a walk of {nodes} hits over HTTP",
        {"airw": rounds["airw"], "bare Starlette endpoint": rounds["bare walk"], "the library": rounds["library"]},
        {"bare Starlette endpoint": 1.5, "the library": None},
    )


def test_how_soon_the_first_event_comes(results):
    """A PageRank walk of 24 steps on a store that takes 10 ms a call."""
    fields = {**CHAIN_WALK, "node_budget": STEPS}
    with chain_server(count=100, seconds=CALL) as server:
        read_streams(server.port, fields, 1, at_once=1)
        readings = read_streams(server.port, fields, 10, at_once=1)[1]
    firsts = [1e3 * reading.first for reading in readings]
    shares = [100 * reading.first / reading.last for reading in readings]
    assert all(reading.is_complete for reading in readings)
    print(f"\nfirst event after {min(firsts):.1f} ms or more, {min(shares):.1f} % of the last or more")
    results.amount(
        QUESTION, "first event of a walk of 24 steps, 10 ms a call", firsts, unit="ms", goal=3 * 1e3 * CALL + 30
    )
    results.amount(QUESTION, "the same, of the time of the last event", shares, unit="%", goal=15)


@pytest.mark.parametrize("count", [1, 100, 1_000])
def test_many_walks_at_once(results, count):
    """Each walk has 12 steps on a store that takes 10 ms a call."""
    fields = {**CHAIN_WALK, "node_budget": 12}
    with chain_server(count=100, seconds=CALL) as server:
        read_streams(server.port, fields, 5, at_once=1)
        seconds, readings = read_streams(server.port, fields, max(count, 10), at_once=count)
    assert all(reading.is_complete for reading in readings)
    firsts = sorted(1e3 * reading.first for reading in readings)
    p50, p99 = statistics.median(firsts), firsts[int(0.99 * (len(firsts) - 1))]
    rate = len(readings) / seconds
    print(f"\n{count} at once, no error: {rate:.0f} walks/s, first event p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    results.amount(QUESTION, f"{count:,} walks at once: first event, median", [p50], unit="ms", goal=None)
    results.amount(QUESTION, f"{count:,} walks at once: first event, 99th percentile", [p99], unit="ms", goal=None)
    results.amount(
        QUESTION, f"{count:,} walks at once: time a walk", [1e3 * seconds / len(readings)], unit="ms", goal=None
    )


def test_memory_of_10_000_walks(results):
    fields = {**CHAIN_WALK, "node_budget": 2}
    with chain_server(count=100) as server:
        pid = server.processes[0].pid
        read_streams(server.port, fields, 2_000, at_once=8)
        before = memory_of(pid)
        seconds, readings = read_streams(server.port, fields, 8_000, at_once=8)
        growth = (memory_of(pid) - before) / MEGABYTE
    assert all(reading.is_complete for reading in readings)
    print(f"\nmemory grew by {growth:.1f} MB from walk 2,000 to 10,000; {8_000 / seconds:.0f} walks/s")
    results.amount(QUESTION, "memory that 8,000 further walks add", [growth], unit="MB", goal=5)


@pytest.mark.parametrize("count", [1, 30, 100])
def test_gap_of_the_loop_under_load(results, count):
    """The longest time in which walks hold up the loop of a server, less that of an idle one."""
    fields = {**CHAIN_WALK, "node_budget": 12}

    async def keep_walking(port):
        while True:
            await read_stream(port, fields)

    async def main(server):
        async def ask():
            async with httpx.AsyncClient() as client:
                return (await client.get(f"{server.url}/gap")).json()

        await ask()
        await asyncio.sleep(2)
        idle = await ask()
        loads = [asyncio.create_task(keep_walking(server.port)) for _ in range(count)]
        await asyncio.sleep(1)
        await ask()
        await asyncio.sleep(4)
        busy = await ask()
        for load in loads:
            load.cancel()
        await asyncio.gather(*loads, return_exceptions=True)
        return idle, busy

    with chain_server(count=100, seconds=CALL) as server:
        idle, busy = asyncio.run(main(server))
    print(f"\nlongest gap of the loop: {1e3 * idle:.1f} ms idle, {1e3 * busy:.1f} ms beside {count} walks")
    results.amount(QUESTION, f"longest gap of the loop beside {count} walks", [1e3 * (busy - idle)], unit="ms", goal=50)


@pytest.fixture
def notes(tmp_path, monkeypatch):
    """The file of a corpus of 1,000 linked notes, which `airw serve` knows as `notes`."""
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    folder = tmp_path / "notes"
    folder.mkdir()
    for at in range(1_000):
        (folder / f"n{at:03}.md").write_text(f"Signing keys of door {at}. See [[n{at + 1:03}]].", encoding="utf-8")
    assert run_airw(["build", str(folder), "--embedder", "light"]) == 0
    return tmp_path / "home" / "corpora" / "notes.airw"


def test_8_workers_on_one_file(results, notes):
    """64 walks of 16 clients, answered by one process or by eight."""
    fields = {"corpus": "notes", "query": "signing keys", "node_budget": 50}
    plan = ["tests.support.serving:serve_files", [str(notes)], {}]

    def walk_at(server):
        seconds, readings = read_streams(server.port, fields, 64, at_once=16)
        assert all(reading.is_complete for reading in readings)
        return seconds

    with serve_in_process(*plan) as alone, serve_in_process(*plan, workers=WORKERS) as crew:
        ways = {"airw": lambda: walk_at(crew), "1 worker": lambda: walk_at(alone)}
        for way in ways.values():
            way()
            way()
        rounds = run_in_turn(ways, rounds=ROUNDS, scale=1e3 / 64)
    results.compare(QUESTION, f"a walk of 50 notes, {WORKERS} workers on one file", rounds, {"1 worker": None})


def test_requests_lost_by_rolling_restarts(results, notes):
    """Five clients, one of which writes, while both workers are replaced again and again."""

    async def main(server):
        load, restarts = Load(server.url), 0
        async with anyio.create_task_group() as tasks:
            for send in [load.search_with_new_connections, load.search_with_one_connection] * 2:
                tasks.start_soon(send)
            tasks.start_soon(load.write, "new")
            while load.answers < 1_000:
                at_least = load.answers + 100
                await wait_for(lambda: load.answers >= at_least)  # noqa: B023 - it is called here
                await restart(server)
                restarts += 1
            load.is_over = True
        return load, restarts

    options = ["notes", "--workers", 2, "--write", "notes", "--limit", "max_wait=30"]
    with run_serve(*options) as server:
        load, restarts = anyio.run(main, server)
    print(f"\n{restarts} restarts: {load.answers} requests answered, {len(load.failures)} lost or refused")
    lost = [float(len(load.failures))]
    results.amount(QUESTION, "lost of 1,000 requests beside rolling restarts", lost, unit="requests", goal=0)


def test_malformed_requests(results, notes):
    """10,000 malformed requests of 16 clients, and 1,000 correct ones among them."""
    with serve_in_process("tests.support.serving:serve_files", [str(notes)], {"writable": ["notes"]}) as server:
        answers = attack(server.port, 0, MALFORMED)
    errors, correct = len(answers.failures), answers.correct
    print(f"\n{answers.statuses.total():,} answers to malformed requests: {dict(sorted(answers.statuses.items()))}")
    print(f"{correct.total():,} correct requests among them: {dict(correct)}")
    refused = correct.total() - correct[200]
    results.amount(QUESTION, "5xx answers to 10,000 malformed requests", [float(errors)], unit="answers", goal=0)
    results.amount(
        QUESTION, "1,000 correct requests among them: not answered 200", [float(refused)], unit="requests", goal=0
    )
