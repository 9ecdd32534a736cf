"""`airw mcp --http` and `airw.mcp.app`: the tools over HTTP, and who may ask them."""

import math
import signal
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import anyio
import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from starlette.applications import Starlette
from starlette.routing import Mount

from airw.mcp import app
from airw.serving import ServingLimits, Token
from tests.support.agents import ask, fail
from tests.support.serve_command import build_notes, refuses, run_serve
from tests.support.served_corpora import make_chain, make_corpus
from tests.support.serving import serve
from tests.support.waiting import PATIENCE, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
INFO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
BEGIN = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": INFO}
ACCEPT = {"Accept": "application/json, text/event-stream"}

ADA = Token(value="correct-horse-ada", label="ada")
BOB = Token(value="correct-horse-bob", label="bob", read=[])


def bearer(token):
    return {"Authorization": f"Bearer {token.value}"}


@pytest.fixture(scope="module")
def notes():
    return make_corpus({"keys": "Rotate the signing keys."})


def test_the_command_serves_until_it_is_told_to_stop(tmp_path):
    build_notes(tmp_path)
    with run_serve("notes", "--http", name="mcp") as running:

        async def main():
            # In this mode the client keeps a stream of its own open.
            async with Client(f"{running.url}mcp", mode="legacy") as client:
                found = await ask(client, "discover", query="rotate the signing keys")
                running.process.send_signal(signal.SIGTERM)
                await wait_for(lambda: running.process.poll() is not None)
                return found["hits"][0]["id"]

        assert anyio.run(main) == "keys.md"
        assert running.process.wait(PATIENCE) == 0
        assert refuses(running.url)
        assert running.process.stdout.read() == ""
        assert any("POST /mcp 200" in line for line in running.lines)
        assert all("/mcp" in line for line in running.lines)  # each is a request, none a complaint


@pytest.fixture
def hanging():
    return make_chain(10, seconds=math.inf)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_cancelled_call_is_cancelled_at_the_store(hanging, mode):
    with serve(app([hanging])) as server:
        async with Client(f"{server.url}/mcp", mode=mode) as client:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "traverse", {"query": "keys", "timeout": 60})
                await wait_for(lambda: hanging.store.running)
                tasks.cancel_scope.cancel()
            await wait_for(lambda: not hanging.store.running)
            assert (await client.list_tools()).tools


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),
        ({"Origin": "https://evil.example"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, 403),
    ],
)
def test_strange_hosts_and_pages_are_refused(notes, headers, status):
    with serve(app([notes])) as server:
        assert httpx.post(f"{server.url}/mcp", json=PING, headers=headers).status_code == status


def test_a_page_of_an_allowed_origin_can_hold_a_session(notes):
    page = {"Origin": "https://kb.example"}
    ask = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "mcp-session-id"}
    with serve(app([notes], tokens=[ADA], origins=[page["Origin"]])) as server:
        url = f"{server.url}/mcp"
        allowed = httpx.options(url, headers={**page, **ask}).headers["access-control-allow-headers"].lower()
        needed = {"authorization", "content-type", "last-event-id", "mcp-session-id", "mcp-protocol-version"}
        assert needed | {"mcp-method", "mcp-name"} <= set(allowed.split(", "))
        begun = httpx.post(url, json=BEGIN, headers={**page, **ACCEPT, **bearer(ADA)})
        assert begun.headers["mcp-session-id"]
        assert begun.headers["access-control-allow-origin"] == page["Origin"]
        assert "Mcp-Session-Id" in begun.headers["access-control-expose-headers"]
        assert httpx.post(url, json=BEGIN, headers=page).headers["access-control-allow-origin"] == page["Origin"]


def test_without_a_valid_token_nothing_is_answered(notes):
    with serve(app([notes], tokens=[ADA])) as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}):
            assert httpx.post(f"{server.url}/mcp", json=PING, headers=headers).status_code == 401


def begin(server, token):
    return httpx.post(f"{server.url}/mcp", json=BEGIN, headers={**ACCEPT, **bearer(token)})


def ping(server, token, begun):
    session = {"Mcp-Session-Id": begun.headers["mcp-session-id"]}
    return httpx.post(f"{server.url}/mcp", json=PING, headers={**ACCEPT, **session, **bearer(token)}).status_code


def test_a_client_that_ends_no_session_makes_room_by_its_own(notes):
    limits = ServingLimits(max_streams=5, max_streams_per_client=3)
    with serve(app([notes], tokens=[ADA, BOB], limits=limits)) as server:
        first = [begin(server, ADA) for _ in range(3)]
        assert ping(server, ADA, first[0]) == 200  # so the second was not used for longest
        others = [begin(server, BOB) for _ in range(2)]
        further = begin(server, ADA)
        assert [answer.status_code for answer in (*first, *others, further)] == [200] * 6
        assert [ping(server, ADA, answer) for answer in (*first, further)] == [200, 404, 200, 200]
        third = begin(server, BOB)  # all together have too many: the client with the most makes room
        assert [ping(server, BOB, answer) for answer in (*others, third)] == [200] * 3
        assert [ping(server, ADA, answer) for answer in (*first, further)] == [404, 404, 200, 200]


def test_a_session_in_use_keeps_its_place_and_a_client_with_too_many_is_told_when_to_ask(notes):
    limits = ServingLimits(max_streams_per_client=2)
    with serve(app([notes], tokens=[ADA, BOB], limits=limits)) as server, ExitStack() as streams:
        for _ in range(2):
            session = {"Mcp-Session-Id": begin(server, ADA).headers["mcp-session-id"]}
            headers = {"Accept": "text/event-stream", **session, **bearer(ADA)}
            answer = streams.enter_context(httpx.stream("GET", f"{server.url}/mcp", headers=headers))
            assert answer.status_code == 200
        refused = begin(server, ADA)
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert begin(server, BOB).status_code == 200


def test_a_session_that_its_client_ends_has_no_place(notes):
    with serve(app([notes], tokens=[ADA], limits=ServingLimits(max_streams_per_client=2))) as server:
        kept, ended = begin(server, ADA), begin(server, ADA)
        session = {"Mcp-Session-Id": ended.headers["mcp-session-id"]}
        assert httpx.delete(f"{server.url}/mcp", headers={**session, **bearer(ADA)}).status_code == 200
        assert begin(server, ADA).status_code == 200
        assert ping(server, ADA, kept) == 200


def test_a_session_belongs_to_the_token_that_began_it(notes):
    with serve(app([notes], tokens=[ADA, BOB])) as server:
        url = f"{server.url}/mcp"
        begun = httpx.post(url, json=BEGIN, headers={**ACCEPT, **bearer(ADA)})
        session = {**ACCEPT, "Mcp-Session-Id": begun.headers["mcp-session-id"]}
        assert httpx.post(url, json=PING, headers={**session, **bearer(ADA)}).status_code == 200
        assert httpx.post(url, json=PING, headers={**session, **bearer(BOB)}).status_code == 404


async def test_a_token_opens_its_corpora_alone(notes):
    with serve(app([notes], tokens=[ADA, BOB])) as server:
        url = f"{server.url}/mcp"
        clients = {}
        async with AsyncExitStack() as stack:
            for token in (ADA, BOB):
                http = httpx.AsyncClient(headers=bearer(token))
                transport = streamable_http_client(url, http_client=await stack.enter_async_context(http))
                clients[token.label] = await stack.enter_async_context(Client(transport))
            assert (await ask(clients[ADA.label], "discover", query="signing keys"))["hits"]
            assert "corpus" in await fail(clients[BOB.label], "discover", query="signing keys")


async def test_the_tools_work_inside_another_application(notes):
    tools = app([notes])

    @asynccontextmanager
    async def lifespan(site):
        async with tools.router.lifespan_context(tools):
            yield

    with serve(Starlette(routes=[Mount("/kb", tools)], lifespan=lifespan)) as server:
        async with Client(f"{server.url}/kb/mcp") as client:
            assert (await ask(client, "discover", query="signing keys"))["hits"]


def test_a_body_that_is_too_long_is_refused(notes):
    with serve(app([notes])) as server:
        long = {**PING, "params": {"x": "x" * 1_000_000}}
        assert httpx.post(f"{server.url}/mcp", json=long).status_code == 413
