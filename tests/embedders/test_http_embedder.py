"""The HTTP embedder against a real server on the loopback interface, with all its faults.

The behaviour that it shares with other clients is tested in tests/base/test_http_clients.py.
"""

import gc
import logging
import math
import os
import traceback
from contextlib import nullcontext
from functools import partial

import anyio
import anyio.to_thread
import httpx
import numpy as np
import pytest

from airw import build, from_mapping, open_corpus
from airw.embedders import CachedEmbedder, HttpEmbedder
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, EmbedderUnavailable
from airw.protocols import Embedder
from airw.testing import EmbedderSuite
from tests.support.embedding_server import (
    EmbeddingServer,
    alone,
    alter,
    at_most,
    cut,
    later,
    status,
)
from tests.support.waiting import PATIENCE, cancel_once, skip_time

SECRET = "sk-S3cret/4711"  # with a slash, which some servers escape


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture
def server():
    with EmbeddingServer() as running:
        yield running


@pytest.fixture
def embedder(server) -> HttpEmbedder:
    return HttpEmbedder(server.url, "m", timeout=30)


def rows_of(server, texts):
    rows = np.array([server.row(text) for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


async def failure(awaitable) -> str:
    """Return the message of the error, which is one line."""
    with pytest.raises(EmbedderError) as caught:
        await awaitable
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def wait_for_arrival(server, requests=1):
    """Wait until the server has received this many more requests."""
    for _ in range(requests):
        assert await anyio.to_thread.run_sync(partial(server.arrived.acquire, timeout=PATIENCE))


def words(count):
    return [f"text number {at}" for at in range(count)]


# --- vectors --------------------------------------------------------------------------------------------------------


async def test_documents_become_unit_rows_in_their_order(server, embedder):
    texts = words(5)
    rows = await embedder.embed_documents(texts)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(rows, rows_of(server, texts), atol=1e-6)
    assert isinstance(embedder, Embedder)


async def test_a_query_is_the_row_of_its_text(server, embedder):
    row = await embedder.embed_query("signing keys")
    assert row.shape == (8,)
    np.testing.assert_allclose(row, rows_of(server, ["signing keys"])[0], atol=1e-6)


async def test_a_request_has_exactly_the_fields_that_the_api_needs(server, embedder):
    await embedder.embed_documents(["", "Straße 東京"])
    (asked,) = server.requests
    assert asked.path == "/v1/embeddings"
    assert asked.payload == {"model": "m", "input": ["", "Straße 東京"]}
    assert "Authorization" not in asked.headers


async def test_dimensions_are_requested_and_become_the_width(server):
    embedder = HttpEmbedder(server.url, "m", dimensions=8)
    assert (embedder.dim, embedder.id) == (8, "api:m@8")
    assert (await embedder.embed_documents([])).shape == (0, 8)
    assert server.requests == []
    await embedder.embed_query("a")
    assert server.requests[0].payload["dimensions"] == 8


async def test_the_width_is_learned_from_the_first_answer_even_without_texts(server, embedder):
    with pytest.raises(EmbedderError, match="before the first answer of its server"):
        _ = embedder.dim
    assert (await embedder.embed_documents([])).shape == (0, 8)
    assert embedder.dim == 8
    assert (await embedder.embed_documents([])).shape == (0, 8)
    assert server.sizes == [1]


async def test_answers_out_of_order_are_put_in_order(server, embedder):
    server.plan(alter(lambda answer: {**answer, "data": answer["data"][::-1]}))
    np.testing.assert_allclose(await embedder.embed_documents(words(9)), rows_of(server, words(9)), atol=1e-6)


def drop_indexes(*dropped, order=1):
    """Return a fault: an answer that lacks some indexes; `order=-1` reverses its items."""

    def change(answer):
        for at in dropped:
            del answer["data"][at]["index"]
        return {**answer, "data": answer["data"][::order]}

    return alter(change)


@pytest.mark.parametrize(
    "fault", [drop_indexes(0), drop_indexes(0, order=-1), drop_indexes(0, 1, 2)], ids=["zero", "zero last", "all"]
)
async def test_an_answer_without_index_zero_or_without_any_index_is_usable(server, embedder, fault):
    """JSON of protobuf leaves out zeros, as that of Google does; some servers number nothing."""
    server.plan(fault, drop_indexes(0))
    np.testing.assert_allclose(await embedder.embed_documents(words(3)), rows_of(server, words(3)), atol=1e-6)
    np.testing.assert_allclose(await embedder.embed_query("keys"), rows_of(server, ["keys"])[0], atol=1e-6)


# --- batches --------------------------------------------------------------------------------------------------------


async def test_batches_keep_to_count_and_characters_and_order(server):
    texts = ["x" * 30, "y", "z" * 30, "a", "b", "c", "d", "w" * 100, "e"]
    embedder = HttpEmbedder(server.url, "m", batch_size=3, max_chars=40, max_concurrency=1)
    rows = await embedder.embed_documents(texts)
    assert [asked.texts for asked in server.requests] == [
        texts[0:2],
        texts[2:5],
        texts[5:7],
        texts[7:8],
        texts[8:9],
    ]
    np.testing.assert_allclose(rows, rows_of(server, texts), atol=1e-6)


async def test_at_most_the_allowed_number_of_requests_runs_concurrently_including_queries(server):
    server.always = later(0.05)
    embedder = HttpEmbedder(server.url, "m", batch_size=1, max_concurrency=3)
    async with anyio.create_task_group() as group:
        group.start_soon(embedder.embed_documents, words(9))
        group.start_soon(embedder.embed_documents, words(3))
        for at in range(4):
            group.start_soon(embedder.embed_query, f"query {at}")
    assert len(server.requests) == 16
    assert server.most_busy == 3


async def test_rows_keep_their_order_if_batches_return_in_another_order(server):
    server.plan(later(0.1), later(0.05))
    embedder = HttpEmbedder(server.url, "m", batch_size=2)
    np.testing.assert_allclose(await embedder.embed_documents(words(7)), rows_of(server, words(7)), atol=1e-6)


SIZE_REFUSALS = [
    (413, None),
    (422, {"error": "batch size 8 > maximum allowed batch size 3", "error_type": "Validation"}),
    (400, {"error": {"message": "This model's maximum context length is 512 tokens"}}),
    (400, {"error": {"message": "Too many inputs. The max number of inputs is 3."}}),
    (429, {"error": {"message": "Request too large for m on tokens per min"}}),
    (500, {"error": {"message": "input is too large to process. increase the physical batch size"}}),
]


@pytest.mark.parametrize(("code", "body"), SIZE_REFUSALS)
async def test_a_batch_that_is_too_large_is_halved_until_the_server_accepts_it(server, embedder, code, body):
    server.always = at_most(3, code, body)
    np.testing.assert_allclose(await embedder.embed_documents(words(9)), rows_of(server, words(9)), atol=1e-6)
    assert server.sizes == [9, 4, 2, 2, 5, 2, 3]


def refuse_long(handler, texts):
    """Refuse texts that contain the word "long", whatever their batch is."""
    refused = any("long" in text for text in texts)
    (status(413, {"error": "must have less than 512 tokens"}) if refused else type(handler).send_rows)(handler, texts)


async def test_a_single_text_that_is_too_large_is_named_in_the_error(server):
    server.always = refuse_long
    texts = [*words(13), "long", *words(3)]
    said = await failure(HttpEmbedder(server.url, "m", batch_size=5).embed_documents(texts))
    assert "text 13 by itself (4 characters): 413: must have less than 512 tokens; shorten it" in said


async def test_the_error_knows_all_texts_of_the_running_batches_that_are_too_large(server):
    server.always = refuse_long
    texts = ["a", "long b", "c", "long d", "e", "f", "long g", "h"]
    embedder = HttpEmbedder(server.url, "m", batch_size=4, max_concurrency=2)
    with pytest.raises(EmbedderError, match=r"refuses text 1 by itself .* \(and 2 more texts\)$") as caught:
        await embedder.embed_documents(texts)
    assert list(caught.value.refused) == [1, 3, 6]
    assert "must have less than 512 tokens" in caught.value.refused[6]


async def test_a_server_that_accepts_nothing_is_not_asked_about_each_text(server, embedder):
    server.always = status(422, {"error": "field required"})
    assert "text 0 by itself" in await failure(embedder.embed_documents(words(64)))
    assert server.sizes == [64, 32, 16, 8, 4, 2, 1]


@pytest.mark.parametrize("cached", [False, True])
async def test_a_cache_names_the_same_texts(server, cached):
    server.always = refuse_long
    async with CachedEmbedder(HttpEmbedder(server.url, "m")) as embedder:
        if cached:
            await embedder.embed_documents(["a", "b"])
        with pytest.raises(EmbedderError) as caught:
            await embedder.embed_documents(["a", "long", "b", "b", "c", "long", "longer"])
    assert sorted(caught.value.refused) == ([1, 5] if cached else [1, 5, 6])  # accepted nothing yet


@pytest.mark.parametrize(
    ("model", "limit"),
    [
        ("m", None),
        ("all-minilm", 256),
        ("BAAI/bge-small-en-v1.5", 512),
        ("intfloat/multilingual-e5-large", 512),
        ("text-embedding-3-small", 8191),
        ("models/gemini-embedding-001", 2048),
        ("nomic-embed-text:latest", 2048),
    ],
)
async def test_the_limits_of_known_models_are_known(server, model, limit):
    embedder = HttpEmbedder(server.url, model)
    assert embedder.max_tokens == limit
    assert HttpEmbedder(server.url, model, max_tokens=100).max_tokens == 100
    texts = ["short", "x" * 50_000]
    assert await embedder.find_ends(texts) == [5, 50_000 if limit is None else limit * 5]
    assert server.requests == []


async def test_a_limit_never_ends_inside_a_character(server):
    embedder = HttpEmbedder(server.url, "m", max_tokens=1)
    assert await embedder.find_ends(["äöü", "日本語", "ab"]) == [2, 1, 2]


# --- retries --------------------------------------------------------------------------------------------------------


async def test_a_slow_answer_is_retried_after_the_timeout(server):
    server.plan(later(600))
    async with anyio.create_task_group() as group:
        group.start_soon(HttpEmbedder(server.url, "m", timeout=500).embed_query, "a")
        await wait_for_arrival(server)
        skip_time(1_500)
    assert len(server.requests) == 2


async def test_a_refused_connection_is_an_error_after_all_attempts(server, monkeypatch):
    with EmbeddingServer() as gone:
        url = gone.url
    said = await failure(HttpEmbedder(url, "m", retries=1).embed_query("a"))
    assert url in said
    assert "ConnectError" in said
    assert "is it running? (2 attempts)" in said


# --- invalid answers ------------------------------------------------------------------------------------------------


def edit(at, **values):
    def change(answer):
        answer["data"][at].update(values)
        return answer

    return alter(change)


def without_first(answer):
    return {**answer, "data": answer["data"][1:]}


UNUSABLE = {
    "NaN": (edit(1, embedding=[math.nan] * 8), "not finite"),
    "infinity": (edit(1, embedding=[1e999] * 8), "not finite"),
    "ragged": (edit(1, embedding=[1.0] * 7), "one width"),
    "words": (edit(1, embedding=["a"] * 8), "numbers"),
    "nothing in it": (edit(1, embedding=None), "one width|numbers"),
    "no width": (alter(lambda a: {"data": [{**item, "embedding": []} for item in a["data"]]}), "empty vectors"),
    "nested": (alter(lambda a: {"data": [{**item, "embedding": [[1.0]]} for item in a["data"]]}), "shape"),
    "base64": (alter(lambda a: {"data": [{**item, "embedding": "AACAPw=="} for item in a["data"]]}), "numbers"),
    "too few": (alter(without_first), "2 vectors for 3 texts"),
    "too many": (alter(lambda a: {"data": a["data"] + [{"index": 3, "embedding": [1.0]}]}), "4 vectors for 3 texts"),
    "twice": (edit(2, index=1), "2 vectors of index 1, and none of index 2"),
    "out of range": (edit(2, index=3), "index 3 for 3 texts"),
    "index no number": (edit(2, index="2"), "index '2'"),
    "no index": (edit(2, index=None), "index None"),
    "some without index": (drop_indexes(0, 2), "index None for 3 texts"),
    "another without index": (drop_indexes(1), "index None for 3 texts"),
    "no data": (
        alter(lambda a: {"error": "model not\nloaded"}),
        "without a list of vectors as 'data': model not loaded",
    ),
    "data no list": (alter(lambda a: {"data": {"0": 1}}), "without a list of vectors"),
    "items no objects": (alter(lambda a: {"data": [1, 2, 3]}), "without a list of vectors"),
    "a list": (alter(lambda a: [a]), "1 vectors for 3 texts"),
    "half of it": (alter(lambda a: '{"data": [{"index": 0, "embed'), "half an answer, not JSON"),
    "empty": (alter(lambda a: ""), "nothing, not JSON"),
    "deep": (alter(lambda a: "[" * 100_000), "half an answer, not JSON"),
    "HTML": (status(200, "<!doctype html>\n<p>Welcome"), "an HTML page, not JSON; check that url is the base of"),
}


@pytest.mark.parametrize(("fault", "why"), UNUSABLE.values(), ids=UNUSABLE)
async def test_an_invalid_answer_is_an_error_with_the_reason(server, embedder, fault, why):
    server.plan(fault)
    with pytest.raises(EmbedderError, match=why) as caught:
        await embedder.embed_documents(words(3))
    assert "'m' at " + server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert len(server.requests) == 1


async def test_a_width_that_changes_is_refused(server, embedder):
    await embedder.embed_query("a")
    server.width = 6
    assert "width 6, not 8 as before" in await failure(embedder.embed_documents(words(3)))
    assert embedder.dim == 8


async def test_a_width_that_changes_between_batches_of_one_call_is_refused(server):
    def narrower(answer):
        return {"data": [{**item, "embedding": item["embedding"][1:]} for item in answer["data"]]}

    server.plan(alter(lambda answer: answer), alter(narrower))
    said = await failure(HttpEmbedder(server.url, "m", batch_size=1, max_concurrency=1).embed_documents(words(2)))
    assert "width 7, not 8 as before" in said


async def test_a_server_that_ignores_dimensions_is_refused(server):
    said = await failure(HttpEmbedder(server.url, "m", dimensions=4).embed_query("a"))
    assert "width 8, not 4 as requested" in said


REFUSALS = [
    (400, {"error": {"message": "bad\n input", "type": "invalid_request_error"}}, "answered 400: bad input; check"),
    (404, {"detail": [{"loc": ["model"], "msg": "no such model"}]}, "answered 404: no such model; check"),
    (404, "<html><h1>Not Found</h1></html>", "answered 404: an HTML page; check the URL and the model"),
    (302, {}, "answered 302: no reason given; check"),
    (405, {"object": "error", "message": "wrong method"}, "answered 405: wrong method"),
    (418, {}, "answered 418: no reason given"),
    (501, {"error": "x" * 5_000}, "answered 501: xxxxx"),
]


@pytest.mark.parametrize(("code", "body", "why"), REFUSALS)
async def test_a_refusal_is_not_retried_and_reports_the_reason_of_the_server(server, embedder, code, body, why):
    server.plan(status(code, body))
    said = await failure(embedder.embed_documents(words(3)))
    assert why in said
    assert len(said) < 500
    assert len(server.requests) == 1


@pytest.mark.parametrize("texts", ["one string", ["a", 3], [None]])
async def test_a_value_that_is_not_a_list_of_texts_is_refused_before_any_request(server, embedder, texts):
    await failure(embedder.embed_documents(texts))
    assert server.requests == []


async def test_unpaired_surrogates_are_refused_with_their_position(server):
    said = await failure(HttpEmbedder(server.url, "m", batch_size=2).embed_documents([*words(3), "a\ud800"]))
    assert "text 3: it contains an unpaired surrogate" in said


# --- keys -----------------------------------------------------------------------------------------------------------


async def key_sent_to(url, monkeypatch) -> str | None:
    seen = []

    def answer(request):
        seen.append(request.headers.get("Authorization"))
        return httpx.Response(200, json={"data": [{"index": 0, "embedding": [1.0]}]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await HttpEmbedder(url, "m", client=client).embed_query("a")
    return seen[0]


async def test_openais_key_goes_to_openai_and_nowhere_else(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    for url in ("https://api.openai.com/v1", "https://API.openai.com:443/v1", "https://api.openai.com"):
        assert await key_sent_to(url, monkeypatch) == f"Bearer {SECRET}"
    for url in (
        "http://api.openai.com/v1",
        "https://api.openai.com:8443/v1",
        "https://api.openai.com.evil.org/v1",
        "https://evil.org/api.openai.com/v1",
        "https://evil.org/https://api.openai.com/v1",
        "https://xapi.openai.com/v1",
    ):
        assert await key_sent_to(url, monkeypatch) is None


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("key", [None, SECRET])
async def test_a_refused_key_is_an_error_that_names_its_variable(server, embedder, monkeypatch, code, key):
    if key:
        monkeypatch.setenv("AIRW_EMBEDDER_KEY", key)
    server.plan(status(code, {"error": {"message": "Incorrect API key: {authorization}"}}))
    said = await failure(embedder.embed_query("a"))
    state = "set" if key else "not set"
    assert f"answered {code}" in said
    assert said.endswith(f"the environment variable AIRW_EMBEDDER_KEY, which is {state}")
    assert SECRET not in said
    assert len(server.requests) == 1


@pytest.mark.parametrize("key", ["two\nlines-S3cret", "nul-S3cret\0", "S3cret-é"])
async def test_a_key_that_http_cannot_carry_is_refused_and_not_repeated(server, embedder, monkeypatch, key):
    monkeypatch.setitem(os.environ, "AIRW_EMBEDDER_KEY", key) if "\0" not in key else monkeypatch.setattr(
        os, "environ", {**os.environ, "AIRW_EMBEDDER_KEY": key}
    )
    with pytest.raises(EmbedderUnavailable, match="AIRW_EMBEDDER_KEY contains no valid key") as caught:
        await embedder.embed_query("a")
    assert "S3cret" not in "".join(traceback.format_exception(caught.value))


async def test_no_log_repr_or_attribute_contains_the_key(server, embedder, monkeypatch, caplog):
    monkeypatch.setenv("AIRW_EMBEDDER_KEY", SECRET)
    server.plan(status(503), cut)
    with caplog.at_level(logging.DEBUG):
        async with embedder:
            await embedder.embed_query("a")
            held = repr([vars(embedder), vars(embedder._api), embedder._api._loop_state.get().client.headers])
    assert "send_request_headers" in caplog.text
    assert SECRET not in caplog.text + repr(embedder) + held


async def test_an_authorization_header_of_the_client_is_not_changed(server, monkeypatch):
    monkeypatch.setenv("AIRW_EMBEDDER_KEY", SECRET)
    async with httpx.AsyncClient(headers={"Authorization": "Bearer own-1"}) as client:
        server.plan(status(400, {"error": "{authorization}"}))
        said = await failure(HttpEmbedder(server.url, "m", client=client).embed_query("a"))
    async with httpx.AsyncClient(auth=("me", "own-2")) as client:
        await HttpEmbedder(server.url, "m", client=client).embed_query("a")
    own, basic = [asked.headers["Authorization"] for asked in server.requests]
    assert own == "Bearer own-1"
    assert "own-1" not in said
    assert basic.startswith("Basic ")


# --- shared queries -------------------------------------------------------------------------------------------------


async def gather(*calls):
    results = [None] * len(calls)

    async def run(at, call):
        results[at] = await call()

    async with anyio.create_task_group() as group:
        for at, call in enumerate(calls):
            group.start_soon(run, at, call)
    return results


async def test_equal_queries_at_the_same_time_share_one_request(server, embedder):
    server.always = later(0.05)
    rows = await gather(*[lambda: embedder.embed_query("a")] * 20, lambda: embedder.embed_query("b"))
    assert sorted(asked.texts[0] for asked in server.requests) == ["a", "b"]
    rows[0][:] = 0  # a caller's own
    assert rows[1].any()
    await embedder.embed_query("a")
    assert len(server.requests) == 3


async def test_if_the_first_caller_is_cancelled_the_others_get_their_answer(server, embedder):
    server.plan(later(600))
    answers = []

    async def ask():
        answers.append(await embedder.embed_query("a"))

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            first = anyio.CancelScope()

            async def ask_first():
                with first:
                    await ask()

            group.start_soon(ask_first)
            await wait_for_arrival(server)
            group.start_soon(ask)
            group.start_soon(ask)
            await anyio.sleep(0.05)
            first.cancel()
    assert len(answers) == 2
    assert len(server.requests) == 2
    assert embedder._shared_queries.get() == {}


async def test_equal_queries_share_a_failure_and_the_next_one_sends_a_request_again(server, embedder):
    async def catch_error():
        with pytest.raises(EmbedderError) as caught:
            await embedder.embed_query("a")
        return caught.value

    server.plan(status(404, {"error": "no model"}))
    errors = await gather(*[catch_error] * 5)
    assert len(server.requests) == 1
    assert len({str(error) for error in errors}) == 1
    assert len({id(error) for error in errors}) == 5
    await embedder.embed_query("a")
    assert embedder._shared_queries.get() == {}


# --- cancellation, clients and event loops --------------------------------------------------------------------------


@pytest.mark.parametrize("held", [True, False])
async def test_cancelling_closes_the_connection(server, held):
    server.always = later(600)
    embedder = HttpEmbedder(server.url, "m", batch_size=1)

    async def embed():
        async with embedder if held else nullcontext():
            await embedder.embed_documents(words(8))

    await cancel_once(lambda: len(server.requests) == 4, embed)
    assert await anyio.to_thread.run_sync(server.hung_up.wait, PATIENCE)
    assert len(server.requests) == 4


async def test_waiting_for_a_retry_can_be_cancelled(server, embedder):
    server.always = status(503, Retry_After="60")
    await cancel_once(lambda: server.requests, embedder.embed_query, "a")
    assert embedder._shared_queries.get() == {}


async def test_the_first_failure_stops_the_other_batches(server):
    server.plan(later(600), later(600), status(404))
    with anyio.fail_after(PATIENCE):
        await failure(HttpEmbedder(server.url, "m", batch_size=1, max_concurrency=3).embed_documents(words(50)))
    assert len(server.requests) == 3


async def test_closing_during_a_request_ends_it_with_an_error(server, embedder):
    server.always = later(600)
    said = []

    async def ask():
        said.append(await failure(embedder.embed_query("a")))

    with anyio.fail_after(PATIENCE):
        async with embedder, anyio.create_task_group() as group:
            group.start_soon(ask)
            await wait_for_arrival(server)
            await embedder.aclose()
    assert "its client is closed" in said[0]


# --- identity -------------------------------------------------------------------------------------------------------

URL = "http://localhost:8080/v1"


def test_its_id_contains_the_model_and_never_the_server():
    assert HttpEmbedder(URL, "org/m").id == HttpEmbedder("https://other.org", "org/m").id == "api:org/m"


def test_embedders_of_the_same_model_at_the_same_url_are_equal():
    one = HttpEmbedder(URL, "m", dimensions=4)
    assert one == HttpEmbedder("HTTP://LocalHost:8080/v1/", "m", dimensions=4, retries=0)
    others = {HttpEmbedder(URL, "m"), HttpEmbedder(URL, "n", dimensions=4), HttpEmbedder(URL + "2", "m", dimensions=4)}
    assert one not in others
    assert one != "m"
    assert repr(one) == "HttpEmbedder('http://localhost:8080/v1', 'm', dimensions=4)"


@pytest.mark.parametrize(
    "url",
    [
        "http://h",
        "https://h/",
        "http://127.0.0.1:1/v1",
        "http://[::1]:80/v1",
        "http://my_host/a/@cf/v1",
        " http://h/v1 ",
    ],
)
def test_a_base_url_is_accepted(url):
    assert HttpEmbedder(url, "m").id == "api:m"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:8080/v1", "base of an API"),
        ("ftp://host/v1", "base of an API"),
        ("http://", "base of an API"),
        ("http://:80/v1", "base of an API"),
        ("http://host:99999/v1", "base of an API"),
        ("http://1.2.3.999/v1", "base of an API"),
        ("http://[::g]/v1", "base of an API"),
        ("http://ho st/v1", "base of an API"),
        ("http://host/v1\n/x", "base of an API"),
        ("http://host\\x/v1", "base of an API"),
        (b"http://host/v1", "not bytes"),
        ("http://host/v1#m", "second argument"),
        ("http://host/v1/embeddings", "write 'http://host/v1'"),
        ("http://me:S3cret@host/v1", "user or password"),
        ("http://S3cret@host/v1", "user or password"),
        ("http://host\\@S3cret/v1", "base of an API"),
        ("https://host/v1?api-key=S3cret", "without a query"),
    ],
)
def test_an_invalid_url_is_refused_without_repeating_its_secrets(url, why):
    with pytest.raises(ArgumentError, match=why) as caught:
        HttpEmbedder(url, "m")
    assert "\n" not in str(caught.value)
    assert "S3cret" not in str(caught.value) or "\\" in str(url)


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": None},
        {"dimensions": 0},
        {"batch_size": 0},
        {"max_chars": 0},
        {"max_concurrency": 0},
        {"timeout": 0},
        {"timeout": math.inf},
        {"timeout": math.nan},
        {"timeout": None},
        {"retries": -1},
        {"api_key_env": "sk-not-a-name"},
        {"api_key_env": ""},
        {"client": object()},
    ],
)
def test_invalid_options_are_refused_when_an_embedder_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))) as caught:
        HttpEmbedder(**{"url": URL, "model": "m", **options})
    assert "sk-not" not in str(caught.value)


def test_a_synchronous_client_is_refused():
    with httpx.Client() as client, pytest.raises(ArgumentError, match="AsyncClient"):
        HttpEmbedder(URL, "m", client=client)


# --- the exam -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_it_passes_the_exam_of_every_embedder(server):
    server.width = 64
    report = await EmbedderSuite(lambda: HttpEmbedder(server.url, "m")).run()
    assert report.failed == ()


# --- in a corpus ----------------------------------------------------------------------------------------------------

TEXTS = {"keys": "rotate the signing keys", "bread": "bake a loaf of bread", "stars": "stars and planets"}


@pytest.mark.asyncio_only
async def test_a_corpus_file_built_with_a_url_opens_and_searches_with_it(server, tmp_path):
    server.width, file = 64, tmp_path / "notes.airw"
    source = from_mapping(TEXTS, name="notes")
    async with build(source, store=file, embedder=f"{server.url}#m") as corpus:
        assert (corpus.embedder_id, corpus.report.added) == ("api:m", 3)
    async with build(source, store=file, embedder=f"{server.url}#m") as corpus:
        assert corpus.report.unchanged == 3
    async with open_corpus(file) as corpus:
        hits = await corpus.search("signing keys")
    assert hits[0].artifact_id == "keys"


@pytest.mark.asyncio_only
async def test_a_corpus_opens_with_the_same_model_on_another_server_but_with_no_other_model(server, tmp_path):
    server.width, file = 64, tmp_path / "notes.airw"
    await (await build(from_mapping(TEXTS, name="notes"), store=file, embedder=f"{server.url}#m")).aclose()
    with EmbeddingServer(width=64) as other:
        async with open_corpus(file, embedder=f"{other.url}#m") as corpus:
            assert (await corpus.search("a loaf"))[0].artifact_id == "bread"
        assert len(other.requests) == 1
        with pytest.raises(EmbedderMismatch, match=r"'api:m', not 'api:n'; pass the embedder it was built with"):
            await open_corpus(file, embedder=f"{other.url}#n")
        other.width = 32
        async with open_corpus(file, embedder=f"{other.url}#m") as corpus:
            with pytest.raises(EmbedderMismatch, match="32"):
                await corpus.search("a loaf")


@pytest.mark.asyncio_only
async def test_a_build_whose_server_fails_ends_with_its_reason_and_can_be_completed(server, tmp_path):
    source, file = from_mapping(TEXTS, name="notes"), tmp_path / "notes.airw"
    server.plan(alter(lambda answer: answer), status(404, {"error": "no such model"}))
    with pytest.raises(EmbedderError, match="no such model"):
        await build(source, store=file, embedder=f"{server.url}#m")
    async with build(source, store=file, embedder=f"{server.url}#m") as corpus:
        assert len(await corpus.search("stars", mode="dense")) == 3


async def test_a_request_that_is_cancelled_while_sending_leaves_no_open_generator():
    """Trio warns about an open generator, and warnings are errors here."""
    sending = anyio.Event()

    class Stuck(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request):
            await anext(aiter(request.stream))
            sending.set()
            await anyio.sleep_forever()

    async with httpx.AsyncClient(transport=Stuck()) as client, anyio.create_task_group() as group:
        group.start_soon(HttpEmbedder("http://localhost:8080/v1", "m", client=client).embed_documents, ["a text"])
        await sending.wait()
        group.cancel_scope.cancel()
    gc.collect()
