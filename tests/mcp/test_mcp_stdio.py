"""`airw mcp` as an agent starts it: a real process, cancelled, killed and left midway."""

import json
import os
import pty
import signal
import subprocess
import sys
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from tests.support.agents import ask
from tests.support.serve_command import ROOT, build_notes
from tests.support.waiting import PATIENCE, wait_for, wait_until

pytestmark = pytest.mark.slow


@asynccontextmanager
async def start(log, *arguments):
    """Start a module as a server; yield its client."""
    with log.open("w") as errors:
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        server = StdioServerParameters(command=sys.executable, args=["-m", *arguments], env=environment, cwd=ROOT)
        async with Client(stdio_client(server, errlog=errors)) as client:
            yield client


def run(*arguments, stdin=subprocess.PIPE):
    """Return the process of a module, whose standard streams are pipes."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def send(server, **message):
    server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    server.stdin.flush()


def pid_in(log):
    return int(log.read_text().split()[1])


def is_there(pid):
    """Return whether a process is there, a zombie included."""
    return Path(f"/proc/{pid}").exists()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "errors.log"


@pytest.fixture
def notes(tmp_path):
    return build_notes(tmp_path)


async def test_the_command_answers_and_logs_nothing(notes, log):
    async with start(log, "airw", "mcp", "notes", "--limit", "max_timeout=4") as client:
        tools = (await client.list_tools()).tools
        assert [tool.name for tool in tools] == ["discover", "traverse", "read", "link_path"]
        assert {tool.input_schema["properties"]["timeout"]["default"] for tool in tools} == {4}
        found = await ask(client, "discover", query="rotate the signing keys")
        assert found["hits"][0]["id"] == "keys.md"
        assert (await ask(client, "read", id="vault.md"))["text"].endswith("The vault is locked.")
        path = await ask(client, "link_path", start="keys.md", end="vault.md")
        assert path["hops"] == 1
    assert log.read_text() == ""


async def walk_until_it_hangs(client, hangs):
    """Walk with `hanging_tools`, and set the event once a hit was committed."""

    async def tell(progress, total, message):
        hangs.set()

    await client.call_tool("traverse", {"query": "keys", "timeout": 60}, progress_callback=tell)


async def test_a_cancelled_walk_is_cancelled_at_the_store_and_the_server_goes_on(log):
    async with start(log, "tests.support.hanging_tools") as client:
        hangs = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(walk_until_it_hangs, client, hangs)
            await hangs.wait()
            tasks.cancel_scope.cancel()
        await wait_for(lambda: "cancelled" in log.read_text())
        assert (await ask(client, "read", id="n00000"))["text"] == "keys"
    assert not is_there(pid_in(log))


async def test_a_server_that_is_killed_is_an_error_for_its_client_and_no_zombie(log):
    messages = []

    async def walk(client, hangs):
        try:
            await walk_until_it_hangs(client, hangs)
        except MCPError as error:
            messages.append(str(error))

    async with start(log, "tests.support.hanging_tools") as client:
        hangs = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(walk, client, hangs)
            await hangs.wait()
            os.kill(pid_in(log), signal.SIGKILL)
    assert len(messages) == 1
    assert not is_there(pid_in(log))


def test_a_server_whose_client_is_gone_ends_and_printed_only_the_protocol():
    with run("tests.support.hanging_tools") as server:
        info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        call = {"name": "traverse", "arguments": {"query": "keys", "timeout": 60}, "_meta": {"progressToken": 7}}
        for message in (
            {"id": 1, "method": "initialize", "params": info},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": call},
        ):
            send(server, **message)
        lines = [json.loads(server.stdout.readline())]
        while lines[-1].get("method") != "notifications/progress":
            lines.append(json.loads(server.stdout.readline()))
        server.stdin.close()
        lines += map(json.loads, server.stdout)
        errors = server.stderr.read()
        assert server.wait(PATIENCE) == 0
    assert {line["jsonrpc"] for line in lines} == {"2.0"}
    assert "cancelled" in errors
    assert "a library speaks of" in errors


def test_a_client_that_takes_no_answers_is_gone(notes):
    with run("airw", "mcp", "notes") as server:
        send(server, id=1, method="ping")
        assert server.stdout.readline()
        server.stdout.close()

        def is_over():
            with suppress(BrokenPipeError):
                os.write(server.stdin.fileno(), b'{"jsonrpc": "2.0", "id": 2, "method": "ping"}\n')
            return server.poll() is not None

        wait_until(is_over)
        assert (server.returncode, server.stderr.read()) == (0, "")


UNREADABLE = {  # each line with the id and the code of its answer
    r'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"read","arguments":{"id":"\ud83d"}}}': (2, -32700),
    '{"jsonrpc":"2.0","id":"a","method":"ping","params":' + 300 * '{"a":' + "1" + 301 * "}": ("a", -32700),
    '{"jsonrpc":"2.0","id":"half": "method"': (None, -32700),
    r'{"jsonrpc":"2.0","id":"\ud83d","method":"ping"}': (None, -32700),
    100_000 * "[": (None, -32700),
    "hello": (None, -32700),
    '[{"jsonrpc":"2.0","id":4,"method":"ping"}]': (None, -32600),
    '{"jsonrpc":"2.0","id":5,"method":null}': (5, -32600),
    '{"jsonrpc":"1.0","id":6,"method":"ping"}': (6, -32600),
    '{"jsonrpc":"2.0","id":1.5,"method":"ping"}': (None, -32600),
    '{"jsonrpc":"2.0","id":7}': (None, -32600),
    "5": (None, -32600),
}


def test_a_line_that_is_no_message_is_answered_and_the_server_goes_on(notes):
    with run("airw", "mcp", "notes") as server:
        for line, expected in UNREADABLE.items():
            server.stdin.write(line + "\n")
            server.stdin.flush()
            answer = json.loads(server.stdout.readline())
            assert (answer["id"], answer["error"]["code"]) == expected, line
            assert len(answer["error"]["message"]) < 200
        # Blank lines and notifications have no answer.
        server.stdin.write("\n \n")
        send(server, method="notifications/initialized")
        send(server, method="odd")
        send(server, id=8, method="ping")
        assert json.loads(server.stdout.readline())["id"] == 8
        server.stdin.close()
        assert server.stdout.read() == server.stderr.read() == ""


def test_somebody_at_a_terminal_learns_what_it_waits_for(notes):
    terminal, other_end = pty.openpty()
    with run("airw", "mcp", "notes", stdin=other_end) as server:
        assert "waiting for a client" in server.stderr.readline()
        server.terminate()
        assert server.stdout.read() == ""
    os.close(terminal)
    os.close(other_end)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server_at_once(number):
    with run("tests.support.hanging_tools") as server:
        send(server, id=1, method="ping")
        assert server.stdout.readline()
        server.send_signal(number)
        assert server.wait(PATIENCE) == -number
        wait_until(lambda: not is_there(server.pid))
