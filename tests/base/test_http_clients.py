"""The common behaviour of all HTTP clients, each with its server.

These are the embedder, the reranker and the chat client.
"""

import gc
import json
import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import anyio
import anyio.to_thread
import httpx
import pytest

from airw.chat import ChatClient
from airw.embedders import HttpEmbedder
from airw.errors import (
    AirwError,
    ChatError,
    ChatUnavailable,
    EmbedderError,
    EmbedderUnavailable,
    RerankerError,
    RerankerUnavailable,
)
from airw.reranking import HttpReranker
from airw.testing import run_on_virtual_clock
from tests.support.chat_server import ChatServer
from tests.support.embedding_server import (
    EmbeddingServer,
    alone,
    count_resources,
    cut,
    dripping,
    flooding,
    half,
    later,
    raw,
    status,
)
from tests.support.rerank_server import RerankServer
from tests.support.waiting import PATIENCE, cancel_once, skip_time, wait_for

SECRET = "sk-S3cret/4711"  # with a slash, which some servers escape
KEYS = ("AIRW_EMBEDDER_KEY", "AIRW_RERANKER_KEY", "AIRW_CHAT_KEY", "OPENAI_API_KEY")


@dataclass(frozen=True)
class Kind:
    """A client, its server, and a function that sends one text."""

    make: type
    server: type
    ask: Callable
    label: str
    path: str
    key: str
    error: type[AirwError]
    unavailable: type[AirwError]


KINDS = {
    "embedder": Kind(
        HttpEmbedder,
        EmbeddingServer,
        lambda client, text: client.embed_documents([text]),
        "the embedder 'm'",
        "/embeddings",
        "AIRW_EMBEDDER_KEY",
        EmbedderError,
        EmbedderUnavailable,
    ),
    "reranker": Kind(
        HttpReranker,
        RerankServer,
        lambda client, text: client("rotate the signing keys", [text]),
        "the reranker 'm'",
        "/rerank",
        "AIRW_RERANKER_KEY",
        RerankerError,
        RerankerUnavailable,
    ),
    "chat": Kind(
        ChatClient,
        ChatServer,
        lambda client, text: client.complete(text),
        "the model 'm'",
        "/chat/completions",
        "AIRW_CHAT_KEY",
        ChatError,
        ChatUnavailable,
    ),
}


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def kind(request) -> Kind:
    return request.param


@pytest.fixture
def server(kind):
    with kind.server() as running:
        yield running


@pytest.fixture
def make(kind, server):
    return partial(kind.make, server.url, "m")


async def failure(kind, client, text="a") -> str:
    """Return the message of the error and check that it is one line."""
    with pytest.raises(kind.error) as caught:
        await kind.ask(client, text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- retries and their limits ---------------------------------------------------------------------------------------

PASSING = {
    "500": status(500),
    "502": status(502, "<html>Bad Gateway</html>"),
    "503": status(503),
    "504": status(504),
    "429": status(429, Retry_After="0"),
    "no answer": cut,
    "half an answer": half,
    "not HTTP": raw(lambda handler: b"*2\r\n"),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
async def test_a_request_is_repeated_after_a_temporary_fault(kind, server, make, fault):
    right = await kind.ask(make(timeout=30), "a")
    server.plan(fault, fault)
    assert repr(await kind.ask(make(timeout=30), "a")) == repr(right)
    assert len(server.requests) == 4


async def test_tries_are_bounded_and_the_last_reason_is_reported(kind, server, make):
    server.always = status(503, {"error": {"message": "Model is\nloading"}})
    said = await failure(kind, make(retries=2))
    assert said == f"{kind.label} at {server.url} answered 503: Model is loading (3 attempts)"
    assert len(server.requests) == 3


@pytest.mark.slow
async def test_the_timeout_bounds_an_answer_that_arrives_slowly(kind, server, make):
    server.always, said = dripping(0.01), []

    async def ask():
        said.append(await failure(kind, make(timeout=9_000, retries=0)))

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        while not said:
            drips = server.drips
            await wait_for(lambda: said or server.drips > drips)  # noqa: B023 - it is called here
            await anyio.sleep(0.02)  # the client reads what came, and waits for more
            skip_time(8_000)
    assert "timeout=9000 s (the whole attempt)" in said[0]


async def test_reading_an_endless_body_stops(kind, server, make, monkeypatch):
    monkeypatch.setattr("airw._base.http.calls.LARGEST_ITEM", 1_000)
    server.plan(flooding)
    with anyio.fail_after(PATIENCE):
        assert "more than 2,000 bytes for 1 texts" in await failure(kind, make(timeout=30))
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)


async def test_answers_are_requested_without_compression(kind, server, make):
    await kind.ask(make(), "a")
    assert server.requests[0].headers["Accept-Encoding"] == "identity"


@pytest.mark.pairwise
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, identity"])
async def test_a_compressed_answer_is_refused_and_never_unpacked(kind, server, make, encoding):
    """A small one may unpack to gigabytes before any bound on the answer is compared."""
    server.plan(status(200, "[" * 100, Content_Encoding=encoding))
    said = await failure(kind, make(timeout=30))
    assert f"answered in the encoding {encoding!r}, although the request asked for none" in said
    assert len(server.requests) == 1


async def test_the_reason_inside_a_compressed_refusal_is_not_read(kind, server, make):
    server.plan(status(400, {"error": "secret reason"}, Content_Encoding="gzip"))
    said = await failure(kind, make(timeout=30))
    assert "answered 400: nothing" in said


async def test_an_answer_that_states_that_it_is_not_compressed_is_read(kind, server, make):
    def send(handler, texts):
        body = json.dumps(handler.owner.answer(texts)).encode()
        handler.send(200, body, headers={"Content-Encoding": "Identity"})

    server.plan(send)
    await kind.ask(make(), "a")


@pytest.mark.pairwise
@pytest.mark.parametrize(("asked", "waited"), [("7", 7), ("86400", 60)])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_retry_after_is_respected_up_to_a_minute(kind, backend, asked, waited):
    times = []

    def answer(request):
        times.append(anyio.current_time())
        return httpx.Response(429 if len(times) == 1 else 404, headers={"Retry-After": asked})

    async def main():
        async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
            await failure(kind, kind.make("http://server.test", "m", client=client))

    run_on_virtual_clock(main, backend=backend)
    first, second = times
    assert waited <= second - first < waited + 0.1


HOSTILE = "\x1b[2J\x1b]0;owned\x07 \u202egnp.exe\r\nline two\u2028 \x9b31m \u200b end"


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "fault",
    {
        "json": status(400, {"error": {"message": HOSTILE}}),
        "plain": raw(lambda handler: b"HTTP/1.1 400 X\r\nConnection: close\r\n\r\n" + HOSTILE.encode()),
        "busy": status(503, {"detail": HOSTILE}),
        "too large": status(413, {"detail": HOSTILE}),
        "refused": status(401, {"error": HOSTILE}),
        "answer": status(200, {"error": {"message": HOSTILE}}),
        "place": raw(lambda handler: b"HTTP/1.1 302 X\r\nLocation: http://x/\x1b[2J\r\nConnection: close\r\n\r\n"),
        "encoding": raw(lambda handler: b"HTTP/1.1 200 X\r\nContent-Encoding: \x9b31m\r\nConnection: close\r\n\r\n{}"),
    }.items(),
    ids=lambda item: item[0],
)
async def test_what_a_server_writes_reaches_no_terminal_as_a_command(kind, server, make, fault):
    """ESC, BEL, C1, line ends and what changes the direction of text become visible escapes."""
    server.plan(*[fault[1]] * 2)
    said = await failure(kind, make(timeout=30, retries=1))
    assert said.isprintable()
    assert len(said) < 500


# --- keys -----------------------------------------------------------------------------------------------------------


async def test_each_client_reads_its_own_key_from_the_environment_at_each_request(kind, server, make, monkeypatch):
    client = make(timeout=30)
    for name in KEYS:
        monkeypatch.setenv(name, "not for this one")
    monkeypatch.delenv(kind.key)
    await kind.ask(client, "a")
    for key in (" one\n", SECRET):
        monkeypatch.setenv(kind.key, key)
        await kind.ask(client, "a")
    sent = [asked.headers.get("Authorization") for asked in server.requests]
    assert sent == [None, "Bearer one", f"Bearer {SECRET}"]
    assert SECRET not in repr(client) + client.id


async def test_another_variable_may_contain_the_key_and_must_then_be_set(kind, server, make, monkeypatch):
    client = make(api_key_env="MY_SERVER_KEY")
    monkeypatch.setenv(kind.key, "another")
    with pytest.raises(kind.unavailable, match="set the environment variable MY_SERVER_KEY"):
        await kind.ask(client, "a")
    monkeypatch.setenv("MY_SERVER_KEY", SECRET)
    await kind.ask(client, "a")
    assert [asked.headers["Authorization"] for asked in server.requests] == [f"Bearer {SECRET}"]


async def test_a_key_that_is_bound_to_an_origin_goes_to_no_other(kind, server, make, monkeypatch):
    origin = server.url.removesuffix("/v1")
    client = make(timeout=30)
    for value in (
        f"{origin}={SECRET}",
        f" http://a.example=sk-1,{origin.upper()}/v1={SECRET} \n",
        f"http://a.example=sk-1 {origin}={SECRET}==",
        "http://a.example=sk-1",
        f"http://127.0.0.1=sk-1,https{origin.removeprefix('http')}=sk-2",
    ):
        monkeypatch.setenv(kind.key, value)
        await kind.ask(client, "a")
    sent = [asked.headers.get("Authorization") for asked in server.requests]
    assert sent == [f"Bearer {SECRET}", f"Bearer {SECRET}", f"Bearer {SECRET}==", None, None]


async def test_a_server_that_needs_a_key_that_is_bound_to_another_says_so(kind, server, make, monkeypatch):
    monkeypatch.setenv(kind.key, f"http://a.example={SECRET}")
    server.plan(status(401, "no"))
    said = await failure(kind, make(timeout=30))
    assert said.endswith(f"{kind.key}, which has no key for {server.url.removesuffix('/v1')}")


@pytest.mark.pairwise
@pytest.mark.parametrize("value", ["a://S3cret", "http://h=k,S3cret", "http://u:S3cret@h=k", "http://S3cret="])
async def test_a_list_of_keys_that_cannot_be_read_is_an_error_that_repeats_nothing(
    kind, server, make, monkeypatch, value
):
    monkeypatch.setenv(kind.key, value)
    with pytest.raises(kind.unavailable, match=f"{kind.key} contains neither one key nor a list") as caught:
        await kind.ask(make(timeout=30), "a")
    assert "S3cret" not in "".join(traceback.format_exception(caught.value))
    assert server.requests == []


ECHOES = {
    "refused": status(401, {"error": {"message": "Incorrect API key: {authorization}"}}),
    "plain text": status(400, "you sent {authorization}, did you not"),
    "unavailable": status(503, {"detail": "{authorization}"}),
    "too large": status(413, {"detail": "{authorization}"}),
    "success without what was asked for": status(200, {"error": "{authorization}"}),
    "cut inside of the key": status(400, {"error": "x" * 185 + "{authorization}"}),
    "slashes escaped": raw(
        lambda handler: (
            b'HTTP/1.1 404 X\r\nConnection: close\r\n\r\n{"error": "%s"}'
            % handler.headers["Authorization"].replace("/", "\\/").encode()
        )
    ),
    "illegal header": raw(lambda handler: f"HTTP/1.1 200 OK\r\n{handler.headers['Authorization']}\r\n\r\n".encode()),
    "redirect": status(302, Location="/login?was={authorization}"),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("fault", ECHOES.values(), ids=ECHOES)
async def test_a_key_that_the_server_repeats_is_in_no_error(kind, server, make, monkeypatch, fault):
    """It is neither in the message nor in the traceback, including causes."""
    monkeypatch.setenv(kind.key, SECRET)
    server.always = fault
    with pytest.raises(kind.error) as caught:
        await kind.ask(make(retries=1), "a")
    shown = "".join(traceback.format_exception(caught.value))
    assert all(secret not in shown for secret in (SECRET, SECRET.replace("/", "\\/"), SECRET[:6]))


async def test_redirects_are_not_followed_and_receive_no_key(kind, server, make, monkeypatch):
    monkeypatch.setenv(kind.key, SECRET)
    with kind.server() as other:
        server.plan(*[status(307, Location=other.url + kind.path)] * 2)
        assert f"points to '{other.url}{kind.path}'" in await failure(kind, make())
        async with httpx.AsyncClient(follow_redirects=True) as client:
            await failure(kind, make(client=client))
        assert other.connections == 0


# --- cancellation, connections and event loops ----------------------------------------------------------------------


@pytest.mark.parametrize("enters", [True, False])
async def test_cancelling_closes_the_connection_to_the_server(kind, server, make, enters):
    server.always = later(600)
    client = make()

    async def ask():
        async with client if enters else nullcontext():
            await kind.ask(client, "a")

    await cancel_once(lambda: server.requests, ask)
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)


async def test_waiting_to_try_again_can_be_cancelled(kind, server, make):
    server.always = status(503, Retry_After="60")
    await cancel_once(lambda: server.requests, kind.ask, make(), "a")


async def test_connections_are_kept_between_calls_inside_async_with_only(kind, server, make):
    client = make(timeout=30)
    async with client:
        for _ in range(3):
            await kind.ask(client, "a")
        assert server.connections == 1
        async with client:
            await kind.ask(client, "inner")
        await kind.ask(client, "outer")
    assert server.connections == 1
    await kind.ask(client, "a")
    await kind.ask(client, "b")
    assert server.connections == 3


async def test_closing_twice_is_harmless_and_the_client_can_be_used_again(kind, server, make):
    client = make(timeout=30)
    await client.aclose()
    async with client:
        await kind.ask(client, "a")
        await client.aclose()
        await kind.ask(client, "a")
    await client.aclose()
    await client.aclose()
    await kind.ask(client, "a")
    assert len(server.requests) == 3


async def test_the_client_of_the_caller_is_used_and_stays_open(kind, server, make):
    async with httpx.AsyncClient(headers={"X-Mine": "1"}, base_url="http://elsewhere.invalid") as own:
        async with make(client=own) as client:
            await kind.ask(client, "a")
            await kind.ask(client, "b")
        await client.aclose()
        assert not own.is_closed
        assert server.connections == 1
        assert [asked.headers["X-Mine"] for asked in server.requests] == ["1", "1"]
    assert "its client is closed" in await failure(kind, client)


def test_one_client_serves_several_event_loops_and_nothing_is_left_open(kind, server, make, recwarn):
    client = make(timeout=30)

    async def use():
        await kind.ask(client, "a")
        async with client:
            return repr(await kind.ask(client, "b"))

    assert len({anyio.run(use, backend=backend) for backend in ("asyncio", "trio", "asyncio")}) == 1
    gc.collect()
    assert not recwarn.list


async def test_a_forgotten_client_leaves_no_connection(kind, make):
    gc.collect()
    before = count_resources()
    clients = [make(timeout=30) for _ in range(3)]
    for client in clients:
        await kind.ask(client, "a")
    assert count_resources() > before
    del clients, client
    assert count_resources() == before


@pytest.mark.slow
def test_construction_loads_no_http_library():
    code = (
        "import sys, airw.chat, airw.embedders, airw.reranking; airw.chat.resolve_chat('http://localhost/v1#m');"
        "airw.embedders.resolve_embedder('http://localhost/v1#m'); airw.reranking.HttpReranker('http://localhost/v1');"
        "print({'httpx', 'httpcore', 'ssl'} & {*sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


EMBED = """
import asyncio, airw
from airw.embedders import HttpEmbedder

async def main():
    embedder = HttpEmbedder("http://127.0.0.1:9/v1", model="m", retries=0)
    try:
        await embedder.embed_documents(["keys"])
    except airw.errors.AirwError as error:
        print(type(error).__name__, error)

asyncio.run(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("variables", "error"),
    [
        ({"SSL_CERT_FILE": "/no/such.pem"}, "ArgumentError a proxy or certificates of the environment"),
        ({"HTTP_PROXY": "foo://ada:s3cret@127.0.0.1:3128"}, "ArgumentError a proxy or certificates of the environment"),
        ({"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "fd00::/8"}, "ArgumentError a proxy or certificates of"),
        ({}, "EmbedderError"),
    ],
)
def test_what_the_environment_says_about_connections_is_used_or_a_typed_error(variables, error):
    command = [sys.executable, "-c", EMBED]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **variables}, check=False)
    assert result.stdout.startswith(error), result.stderr
    assert "s3cret" not in result.stdout
    assert len(result.stdout.splitlines()) == 1
