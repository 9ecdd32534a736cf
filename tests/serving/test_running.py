"""Servers in real processes: how they end, and are restarted under load."""

import os
import pathlib
import re
import resource
import signal
import socket
import time
from contextlib import ExitStack
from itertools import product

import anyio
import httpx
import pytest

from airw.cli import main
from tests.support.restarts import BODY, Load, restart
from tests.support.serve_command import build_notes, refuses, run_serve
from tests.support.waiting import PATIENCE, wait_for, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


@pytest.fixture
def notes(tmp_path):
    return build_notes(tmp_path)


def children_of(pid):
    """Return the processes that serve for a process."""
    try:
        with pathlib.Path(f"/proc/{pid}/task/{pid}/children").open(encoding="ascii") as file:
            pids = list(map(int, file.read().split()))
        return [each for each in pids if b"resource_tracker" not in command_of(each)]
    except FileNotFoundError:
        return []


def command_of(pid):
    try:
        with pathlib.Path(f"/proc/{pid}/cmdline").open("rb") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def is_running(pid):
    return command_of(pid) != b""


async def test_a_rolling_restart_under_load_loses_no_request(notes):
    """No request fails, and each acknowledged write is there afterwards."""
    with run_serve("notes", "--workers", 2, "--write", "notes", "--limit", "max_wait=30") as server:
        load = Load(server.url)
        before = children_of(server.process.pid)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(load.search_with_new_connections)
                tasks.start_soon(load.search_with_one_connection)
            tasks.start_soon(load.write, "a")
            for _ in range(2):
                at_least = load.answers + 20
                await wait_for(lambda: load.answers >= at_least)  # noqa: B023 - it is called here
                await restart(server)
            load.is_over = True
        assert load.failures == []
        after = children_of(server.process.pid)
        assert len(before) == len(after) == 2
        assert not set(before) & set(after)
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for id in load.written:
                answer = await client.get(f"{server.url}artifact", params={"corpus": "notes", "id": id})
                assert answer.status_code == 200
        assert load.written
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        assert not any(map(is_running, after))


async def test_four_workers_share_one_corpus_file(notes):
    """Whichever worker writes, each of them finds it, while all are searching."""
    with run_serve("notes", "--workers", 4, "--write", "notes", "--limit", "max_wait=30") as server:
        assert len(children_of(server.process.pid)) == 4
        load, artifact = Load(server.url), f"{server.url}artifact"
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(load.search_with_new_connections)
            for number in range(16):
                note = {"corpus": "notes", "id": f"{number}.md", "value": f"Note {number}."}
                async with httpx.AsyncClient(timeout=PATIENCE) as client:  # a connection leads to any of the workers
                    assert (await client.put(artifact, json=note)).status_code == 200
                async with httpx.AsyncClient(timeout=PATIENCE) as client:
                    found = await client.get(artifact, params={"corpus": "notes", "id": note["id"]})
                    assert found.json()["records"][0]["text"].endswith(f"Note {number}.")
            await wait_for(lambda: load.answers >= 100)
            load.is_over = True
        assert load.failures == []
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0


def test_a_worker_that_dies_is_started_again(notes):
    with run_serve("notes", "--workers", 2) as server:
        assert httpx.post(f"{server.url}search", json=BODY, timeout=PATIENCE).status_code == 200
        victim, other = children_of(server.process.pid)
        os.kill(victim, signal.SIGKILL)
        wait_until(lambda: any(f"worker {victim} died" in line for line in server.lines))
        wait_until(lambda: len(children_of(server.process.pid)) == 2)
        assert other in children_of(server.process.pid)
        assert httpx.post(f"{server.url}search", json=BODY, timeout=PATIENCE).status_code == 200
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(PATIENCE) == 0


def count_of_requests(server):
    text = httpx.get(f"{server.url}metrics", timeout=PATIENCE).text
    found = re.findall(r'airw_requests_total{endpoint="/search",method="POST",status="200"} (\d+)', text)
    return sum(map(int, found))


async def test_the_numbers_are_those_of_all_workers_and_outlive_them(notes):
    with run_serve("notes", "--workers", 2) as server:
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for _ in range(20):
                assert (await client.post(f"{server.url}search", json=BODY)).status_code == 200
        await wait_for(lambda: count_of_requests(server) == 20)
        await restart(server)
        await wait_for(lambda: count_of_requests(server) == 20)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0


def test_workers_end_with_the_process_that_started_them(notes):
    with run_serve("notes", "--workers", 2) as server:
        assert httpx.post(f"{server.url}search", json=BODY, timeout=PATIENCE).status_code == 200
        workers = children_of(server.process.pid)
        server.process.kill()
        wait_until(lambda: not any(map(is_running, workers)))


def test_a_token_file_that_is_damaged_meanwhile_leaves_the_old_workers(notes, tmp_path):
    file = tmp_path / "tokens.json"
    file.touch(mode=0o600)
    file.write_text('[{"value": "correct-horse-battery"}]', encoding="utf-8")
    bearer = {"Authorization": "Bearer correct-horse-battery"}
    with run_serve("notes", "--workers", 2, "--tokens", file) as server:
        before = children_of(server.process.pid)
        file.write_text("[", encoding="utf-8")
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: any("the old ones go on" in line for line in server.lines))
        assert any("it is not JSON" in line for line in server.lines)
        assert children_of(server.process.pid) == before
        assert httpx.post(f"{server.url}search", json=BODY, headers=bearer, timeout=PATIENCE).status_code == 200


@pytest.fixture
def many_notes(tmp_path, monkeypatch):
    """An index that leads to 1,640 notes in two steps."""
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "index.md").write_text("Index: " + " ".join(f"[[part-{part}]]" for part in range(40)), encoding="utf-8")
    for part in range(40):
        links = " ".join(f"[[note-{part}-{number}]]" for number in range(40))
        (folder / f"part-{part}.md").write_text(f"Part {part}. {links}", encoding="utf-8")
        for number in range(40):
            (folder / f"note-{part}-{number}.md").write_text("Words of a note. " * 40, encoding="utf-8")
    assert main(["build", str(folder), "--embedder", "light"]) == 0


def test_a_stream_is_told_when_the_server_stops(many_notes):
    """It gets a last event, but no `id: end`: an `EventSource` connects to the next process."""
    with run_serve("notes") as server:
        query = {"corpus": "notes", "query": "index", "policy": "link-walk", "node_budget": 1_640}
        with httpx.stream("GET", f"{server.url}traverse", params=query, timeout=PATIENCE) as answer:
            assert answer.status_code == 200
            pieces = answer.iter_text()
            text = next(pieces)
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: refuses(server.url))  # the walk waits for this client, which reads nothing
            text += "".join(pieces)
        *_, last = [frame for frame in text.split("\n\n") if "event: " in frame]
        assert "event: hit" in text
        assert "event: error" in last
        assert "going to stop" in last
        assert "id: end" not in text
        assert server.process.wait(PATIENCE) == 0
        assert any("stop=stopping" in line for line in server.lines)


async def test_a_server_that_stops_answers_the_requests_it_has(notes):
    with run_serve("notes") as server:
        load = Load(server.url)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(load.search_with_one_connection)
            await wait_for(lambda: load.answers >= 20)
            server.process.send_signal(signal.SIGTERM)
            await wait_for(lambda: server.process.poll() is not None)
            load.is_over = True
        assert server.process.returncode == 0
        assert sum("POST /search 200" in line for line in server.lines) == load.answers


@pytest.mark.parametrize("workers", [1, 2])
def test_without_file_descriptors_it_complains_in_one_line_and_goes_on(notes, workers):
    with run_serve("notes", "--workers", workers) as server, ExitStack() as held:
        for pid in children_of(server.process.pid) or [server.process.pid]:
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (64, 64))
        address = httpx.URL(server.url)
        with httpx.Client(base_url=server.url, timeout=PATIENCE) as client:
            assert client.get("/healthz").status_code == 200
            for _ in range(200):
                held.enter_context(socket.create_connection((address.host, address.port), timeout=PATIENCE))
            wait_until(lambda: any("new connections wait" in line for line in server.lines))
            for _ in range(30):  # meanwhile asyncio has tried again
                assert client.get("/healthz").status_code == 200
                time.sleep(0.1)
        held.close()
        assert httpx.get(f"{server.url}healthz", timeout=PATIENCE).status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        others = [line for line in server.lines if "GET /healthz" not in line]
        assert len(others) <= workers, others


def test_a_request_whose_body_is_malformed_gets_one_answer_and_no_traceback(notes):
    targets = ["POST /healthz", "POST /search", "GET /healthz", "POST /nothing"]
    bodies = [b"zz\r\nx", b"2\r\n{}\r\nzz\r\n", b"-1\r\n", b"2\r\n{}{}\r\n"]
    with run_serve("notes") as server:
        for target, body, delay in product(targets, bodies, (0, 0.05)):
            head = f"{target} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            with socket.create_connection(("127.0.0.1", httpx.URL(server.url).port), timeout=PATIENCE) as connection:
                connection.sendall(head.encode("ascii"))
                time.sleep(delay)
                connection.sendall(body)
                answer = b""
                while piece := connection.recv(65_536):
                    answer += piece
            assert answer.count(b"HTTP/1.1 ") == 1, (target, body, delay)
        assert httpx.get(f"{server.url}healthz", timeout=PATIENCE).status_code == 200
    assert not [line for line in server.lines if "Traceback" in line or "Error" in line]
