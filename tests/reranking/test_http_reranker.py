"""The HTTP reranker against a real server on the loopback interface.

What it shares with the HTTP embedder is tested there to the last fault; here, that it is what is shared.
"""

import gc
import math
import os
import subprocess
import sys
import time
import traceback
from contextlib import nullcontext
from functools import partial

import anyio
import anyio.to_thread
import httpx
import pytest

from airw import build, from_mapping
from airw.errors import ArgumentError, RerankerError, RerankerUnavailable
from airw.reranking import HttpReranker, is_anonymous, rerank_tag, resolve_reranker, score_texts
from airw.stores import MemoryStore
from tests.support.embedding_server import alone, at_most, changed, cut, dripping, flooding, half, held, later, status
from tests.support.rerank_server import RerankServer

URL = "http://localhost:8080/v1"
SECRET = "sk-S3cret/4711"
QUERY = "rotate the signing keys"


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    alone(monkeypatch)


@pytest.fixture
def server():
    with RerankServer() as running:
        yield running


@pytest.fixture
def reranker(server) -> HttpReranker:
    return HttpReranker(server.url, "m", timeout=30)


@pytest.fixture(params=["m", None], ids=["model", "no model"])
def either(request, server) -> HttpReranker:
    """A reranker that speaks one API or the other."""
    return HttpReranker(server.url, request.param, timeout=30)


def words(count):
    return [f"text number {at}" for at in range(count)]


def expected(server, texts):
    return [server.score(QUERY, text) for text in texts]


async def failure(awaitable) -> str:
    """The message of the error, which is one line."""
    with pytest.raises(RerankerError) as caught:
        await awaitable
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def arrival(server, requests=1):
    """Wait until the server has got so many more requests."""
    for _ in range(requests):
        assert await anyio.to_thread.run_sync(partial(server.arrived.acquire, timeout=30))


# --- scores ---------------------------------------------------------------------------------------------------------


async def test_scores_come_in_the_order_of_the_texts_though_servers_answer_best_first(server, either):
    texts = words(12)
    assert await either(QUERY, texts) == expected(server, texts)
    assert expected(server, texts) != sorted(expected(server, texts), reverse=True)


async def test_it_serves_a_search_as_any_reranker(server, either):
    assert resolve_reranker(either) is either
    assert await score_texts(either, QUERY, words(3)) == expected(server, words(3))


async def test_with_a_model_a_request_is_of_the_form_of_jina_and_cohere(server, reranker):
    await reranker(QUERY, ["", "Straße 東京"])
    (asked,) = server.requests
    assert asked.path == "/v1/rerank"
    assert asked.payload == {"model": "m", "query": QUERY, "documents": ["", "Straße 東京"]}
    assert "Authorization" not in asked.headers


async def test_without_a_model_it_is_of_the_form_of_text_embeddings_inference(server):
    await HttpReranker(server.url)(QUERY, ["a", "b"])
    assert server.requests[0].payload == {"query": QUERY, "texts": ["a", "b"], "truncate": True}


async def test_either_form_of_answer_is_read_whatever_was_asked(server, either):
    texts = words(4)
    server.plan(
        changed(lambda _: {"results": [{"index": at, "relevance_score": at / 4} for at in (2, 0, 3, 1)]}),
        changed(lambda _: [{"index": at, "score": at / 4} for at in (2, 0, 3, 1)]),
    )
    assert [await either(QUERY, texts) for _ in range(2)] == [[0, 0.25, 0.5, 0.75]] * 2


async def test_no_texts_make_no_request(server, reranker):
    assert await reranker(QUERY, []) == []
    assert server.requests == []


async def test_nan_and_the_infinities_are_passed_on(server, reranker):
    server.plan(changed(lambda _: [{"index": at, "score": score} for at, score in enumerate([math.nan, math.inf, 1])]))
    scores = await score_texts(reranker, QUERY, words(3))
    assert math.isnan(scores[0])
    assert scores[1:] == [math.inf, 1.0]


@pytest.mark.parametrize(
    ("query", "texts", "why"),
    [
        (QUERY, "one text", "not one string"),
        (QUERY, ["a", 3], "takes strings, not 3 (text 1 of 2)"),
        (None, ["a"], "the query: it holds None, which is no string"),
        (QUERY, ["a", "b\ud800"], "text 1: it holds an unpaired surrogate at position 1"),
        ("\udfff", ["a"], "the query: it holds an unpaired surrogate at position 0"),
    ],
)
async def test_what_is_no_text_is_refused_before_anything_is_sent(server, reranker, query, texts, why):
    assert why in await failure(reranker(query, texts))
    assert server.requests == []


async def test_a_search_is_reranked_by_it(server, either):
    source = from_mapping({"keys": QUERY, "bread": "bake a loaf of bread", "stars": "stars and planets"}, name="notes")
    async with build(source, store=MemoryStore(), embedder="light") as corpus:
        hits = await corpus.search(QUERY, rerank=either)
    assert [hit.score for hit in hits] == sorted(expected(server, [hit.text for hit in hits]), reverse=True)
    assert len(hits) == 3
    assert len(server.requests) == 1


# --- batches --------------------------------------------------------------------------------------------------------


async def test_order_is_kept_whatever_order_the_batches_come_back_in(server):
    server.plan(later(0.1), later(0.05))
    texts = words(7)
    assert await HttpReranker(server.url, "m", batch_size=2)(QUERY, texts) == expected(server, texts)
    assert sorted(server.sizes) == [1, 2, 2, 2]


async def test_no_more_requests_are_on_their_way_than_allowed(server):
    server.always = later(0.02)
    reranker = HttpReranker(server.url, "m", batch_size=1, max_concurrency=3)
    async with anyio.create_task_group() as group:
        group.start_soon(reranker, QUERY, words(6))
        group.start_soon(reranker, QUERY, words(6))
    assert len(server.requests) == 12
    assert server.most_busy == 3


@pytest.mark.parametrize(
    ("code", "body"),
    [(413, None), (422, {"error": "batch size 8 > maximum allowed batch size 3", "error_type": "Validation"})],
)
async def test_a_batch_that_is_too_much_is_halved_until_it_is_taken(server, either, code, body):
    server.always = at_most(3, code, body)
    assert await either(QUERY, words(9)) == expected(server, words(9))
    assert server.sizes == [9, 4, 2, 2, 5, 2, 3]


async def test_a_single_text_that_is_too_much_is_named(server, reranker):
    server.always = status(422, {"detail": [{"msg": "field required"}]})
    said = await failure(reranker(QUERY, words(2)))
    assert "text 0 by itself (13 characters): 422: field required; shorten it" in said


# --- trying again, and giving up ------------------------------------------------------------------------------------

PASSING = {"500": status(500), "429": status(429, Retry_After="0"), "no answer": cut, "half an answer": half}


@pytest.mark.parametrize("fault", PASSING.values(), ids=PASSING)
async def test_a_fault_that_may_pass_is_tried_again(server, either, fault):
    server.plan(fault, fault)
    assert await either(QUERY, words(2)) == expected(server, words(2))
    assert len(server.requests) == 3


async def test_tries_are_bounded_and_the_last_reason_is_told(server):
    server.always = status(503, {"error": "Model is\nloading"})
    said = await failure(HttpReranker(server.url, "m", retries=2)(QUERY, words(2)))
    assert said == f"the reranker 'm' at {server.url} answered 503: Model is loading (3 attempts)"
    assert len(server.requests) == 3


async def test_an_answer_that_only_drips_is_bounded(server):
    server.always = dripping(0.02)
    said = await failure(HttpReranker(server.url, "m", timeout=0.15, retries=0)(QUERY, ["a"]))
    assert "timeout=0.15 s (the whole attempt)" in said


async def test_a_body_without_end_is_not_read_to_its_end(server, reranker, monkeypatch):
    monkeypatch.setattr("airw._base.http.calls.LARGEST_ITEM", 1_000)
    server.plan(flooding)
    with anyio.fail_after(10):
        assert "more than 3,000 bytes for 2 texts" in await failure(reranker(QUERY, words(2)))
    assert await anyio.to_thread.run_sync(server.hung_up.wait, 20)


async def test_a_refusal_is_not_tried_again_and_gives_the_servers_reason(server):
    server.plan(status(404, {"detail": "no such model"}))
    said = await failure(HttpReranker(server.url)(QUERY, ["a"]))
    assert said.startswith(f"the reranker at {server.url} (without a model) answered 404: no such model; check")
    assert len(server.requests) == 1


def edited(at, **values):
    def change(answer):
        answer["results"][at].update(values)
        return answer

    return changed(change)


UNUSABLE = {
    "too few": (changed(lambda a: {"results": a["results"][1:]}), "2 scores for 3 texts"),
    "too many": (changed(lambda a: {"results": [*a["results"], {"index": 3}]}), "4 scores for 3 texts"),
    "twice": (changed(lambda a: [{"index": at, "score": 0.5} for at in (0, 1, 1)]), "2 scores of index 1, and none of"),
    "out of range": (edited(2, index=3), "index 3 for 3 texts"),
    "negative": (edited(2, index=-1), "index -1 for 3 texts"),
    "index no number": (edited(2, index="2"), "index '2'"),
    "index a bool": (edited(2, index=True), "index True"),
    "no index": (edited(2, index=None), "index None"),
    "score a word": (edited(1, relevance_score="0.5"), "must give numbers, not '0.5'"),
    "score a bool": (edited(1, relevance_score=True), "must give numbers, not True"),
    "no score": (edited(1, relevance_score=None), "must give numbers, not None"),
    "endless score": (edited(1, relevance_score=10**400), "must give numbers, not 1000"),
    "an error": (changed(lambda a: {"error": "model not\nloaded"}), "no list of scores, nor .*: model not loaded"),
    "numbers": (changed(lambda a: [0.1, 0.2, 0.3]), "no list of scores"),
    "a number": (changed(lambda a: 3), "no list of scores"),
    "half of it": (changed(lambda a: '[{"index": 0, "sc'), "half an answer, not JSON"),
    "HTML": (status(200, "<!doctype html>\n<p>Welcome"), "an HTML page, not JSON"),
}


@pytest.mark.parametrize(("fault", "why"), UNUSABLE.values(), ids=UNUSABLE)
async def test_an_answer_that_cannot_be_used_is_an_error_that_says_why(server, reranker, fault, why):
    server.plan(fault)
    with pytest.raises(RerankerError, match=why) as caught:
        await reranker(QUERY, words(3))
    assert "'m' at " + server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert len(server.requests) == 1


# --- keys -----------------------------------------------------------------------------------------------------------


async def test_the_key_is_its_own_and_read_from_the_environment_at_each_request(server, reranker, monkeypatch):
    monkeypatch.setenv("AIRW_EMBEDDER_KEY", "not for rerankers")
    monkeypatch.setenv("OPENAI_API_KEY", "nor this")
    await reranker(QUERY, ["a"])
    monkeypatch.setenv("AIRW_RERANKER_KEY", SECRET)
    await reranker(QUERY, ["a"])
    assert [asked.headers.get("Authorization") for asked in server.requests] == [None, f"Bearer {SECRET}"]


async def test_another_variable_may_hold_the_key_and_must_then_be_set(server, monkeypatch):
    reranker = HttpReranker(server.url, "m", api_key_env="MY_SERVER_KEY")
    with pytest.raises(RerankerUnavailable, match="set the environment variable MY_SERVER_KEY"):
        await reranker(QUERY, ["a"])
    monkeypatch.setenv("MY_SERVER_KEY", SECRET)
    await reranker(QUERY, ["a"])
    assert [asked.headers["Authorization"] for asked in server.requests] == [f"Bearer {SECRET}"]


ECHOES = {
    "refused": status(401, {"error": {"message": "Incorrect API key: {authorization}"}}),
    "unavailable": status(503, {"detail": "{authorization}"}),
    "too large": status(413, {"detail": "{authorization}"}),
    "success without scores": status(200, {"error": "{authorization}"}),
    "redirect": status(302, Location="/login?was={authorization}"),
}


@pytest.mark.parametrize("fault", ECHOES.values(), ids=ECHOES)
async def test_a_server_that_repeats_the_key_gives_it_to_no_error(server, monkeypatch, fault):
    monkeypatch.setenv("AIRW_RERANKER_KEY", SECRET)
    server.always = fault
    with pytest.raises(RerankerError) as caught:
        await HttpReranker(server.url, "m", retries=0)(QUERY, ["a"])
    assert SECRET[:6] not in "".join(traceback.format_exception(caught.value))


async def test_redirects_are_not_followed_and_take_no_key_along(server, reranker, monkeypatch):
    monkeypatch.setenv("AIRW_RERANKER_KEY", SECRET)
    with RerankServer() as other:
        server.plan(status(307, Location=other.url + "/rerank"))
        assert f"points to '{other.url}/rerank'" in await failure(reranker(QUERY, ["a"]))
        assert other.connections == 0


# --- cancellation, clients and event loops --------------------------------------------------------------------------


@pytest.mark.parametrize("held", [True, False])
async def test_cancelling_hangs_up_on_the_server(server, held):
    server.always = later(30)
    reranker = HttpReranker(server.url, "m", batch_size=1)

    async def rerank():
        async with reranker if held else nullcontext():
            await reranker(QUERY, words(8))

    async with anyio.create_task_group() as group:
        group.start_soon(rerank)
        await arrival(server, 4)
        start = time.monotonic()
        group.cancel_scope.cancel()
    assert time.monotonic() - start < 15
    assert await anyio.to_thread.run_sync(server.hung_up.wait, 20)
    assert len(server.requests) == 4


async def test_waiting_to_try_again_can_be_cancelled(server, reranker):
    server.always = status(503, Retry_After="60")
    with anyio.move_on_after(0.2) as scope:
        await score_texts(reranker, QUERY, ["a"])
    assert scope.cancelled_caught


async def test_connections_are_kept_between_calls_inside_async_with_only(server, reranker):
    async with reranker:
        for _ in range(3):
            await reranker(QUERY, ["a"])
        assert server.connections == 1
    await reranker(QUERY, ["a"])
    await reranker(QUERY, ["b"])
    assert server.connections == 3
    await reranker.aclose()
    await reranker.aclose()


async def test_the_callers_client_is_used_and_stays_open(server):
    async with httpx.AsyncClient(headers={"X-Mine": "1"}) as client:
        async with HttpReranker(server.url, "m", client=client) as reranker:
            await reranker(QUERY, ["a"])
        assert not client.is_closed
        assert server.requests[0].headers["X-Mine"] == "1"
    assert "its client is closed" in await failure(reranker(QUERY, ["a"]))


def test_one_reranker_serves_several_event_loops_and_nothing_is_left_open(server, reranker, recwarn):
    async def use():
        await reranker(QUERY, words(3))
        async with reranker:
            return await reranker(QUERY, ["a"])

    for backend in ("asyncio", "trio", "asyncio"):
        assert anyio.run(use, backend=backend) == expected(server, ["a"])
    gc.collect()
    assert not recwarn.list


async def test_a_forgotten_reranker_leaves_nothing_behind(server):
    gc.collect()
    before = held()
    reranker = HttpReranker(server.url, "m")
    await reranker(QUERY, ["a"])
    assert held() > before
    del reranker
    assert held() == before


# --- what it is -----------------------------------------------------------------------------------------------------


def test_its_id_names_the_model_and_never_the_server():
    assert HttpReranker(URL, "org/m").id == HttpReranker("https://other.org", "org/m").id == "api:org/m"
    assert rerank_tag(HttpReranker(URL, "org/m")) == "rerank-api%3Aorg%2Fm+surface"


def test_without_a_model_it_is_anonymous_unless_it_is_given_a_name():
    assert HttpReranker(URL).id is None
    assert is_anonymous(rerank_tag(HttpReranker(URL)))
    assert HttpReranker(URL, id="bge-base").id == HttpReranker(URL, "m", id="bge-base").id == "bge-base"
    assert not is_anonymous(rerank_tag(HttpReranker(URL, id="bge-base")))


def test_rerankers_of_the_same_model_at_the_same_place_are_equal():
    one = HttpReranker(URL, "m")
    assert one == HttpReranker("HTTP://LocalHost:8080/v1/", " m ", retries=0)
    assert one not in {HttpReranker(URL), HttpReranker(URL, "n"), HttpReranker(URL + "2", "m")}
    assert one != "m"
    assert repr(one) == "HttpReranker('http://localhost:8080/v1', 'm')"
    assert repr(HttpReranker("http://localhost:8080")) == "HttpReranker('http://localhost:8080')"


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"model": 3},
        {"id": " "},
        {"batch_size": 0},
        {"max_concurrency": True},
        {"timeout": 0},
        {"timeout": math.nan},
        {"retries": -1},
        {"api_key_env": "sk-not-a-name"},
        {"client": object()},
    ],
)
def test_unusable_options_are_refused_at_birth(options):
    with pytest.raises(ArgumentError, match=next(iter(options))) as caught:
        HttpReranker(**{"url": URL, **options})
    assert "sk-not" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("localhost:8080", "base of an API"),
        ("http://host/v1/rerank", "write 'http://host/v1'"),
        ("http://me:S3cret@host/v1", "user or password"),
        ("http://host/v1#m", "second argument"),
    ],
)
def test_what_is_no_base_of_an_api_is_refused(url, why):
    with pytest.raises(ArgumentError, match=why) as caught:
        HttpReranker(url)
    assert "S3cret" not in str(caught.value)


@pytest.mark.slow
def test_making_one_loads_no_http_library():
    code = (
        "import sys; from airw.reranking import HttpReranker; HttpReranker('http://localhost/v1', 'm');"
        "print({'httpx', 'httpcore', 'ssl'} & {*sys.modules})"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
