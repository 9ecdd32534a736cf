"""The HTTP reranker against a real server on the loopback interface.

The behaviour that it shares with other clients is tested in tests/base/test_http_clients.py.
"""

import math
from functools import partial

import anyio
import anyio.to_thread
import pytest

from airw import build, from_mapping
from airw.errors import ArgumentError, RerankerError
from airw.reranking import HttpReranker, is_anonymous, rerank_tag, resolve_reranker, score_texts
from airw.stores import MemoryStore
from tests.support.embedding_server import alone, alter, at_most, later, status
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
    """Return a reranker for one API or for the other."""
    return HttpReranker(server.url, request.param, timeout=30)


def words(count):
    return [f"text number {at}" for at in range(count)]


def scores_of(server, texts):
    return [server.score(QUERY, text) for text in texts]


async def failure(awaitable) -> str:
    """Return the message of the error, which is one line."""
    with pytest.raises(RerankerError) as caught:
        await awaitable
    assert "\n" not in str(caught.value)
    return str(caught.value)


async def wait_for_arrival(server, requests=1):
    """Wait until the server has received this many more requests."""
    for _ in range(requests):
        assert await anyio.to_thread.run_sync(partial(server.arrived.acquire, timeout=30))


# --- scores ---------------------------------------------------------------------------------------------------------


async def test_scores_have_the_order_of_the_texts_although_servers_answer_best_first(server, either):
    texts = words(12)
    assert await either(QUERY, texts) == scores_of(server, texts)
    assert scores_of(server, texts) != sorted(scores_of(server, texts), reverse=True)


async def test_it_works_like_any_other_reranker(server, either):
    assert resolve_reranker(either) is either
    assert await score_texts(either, QUERY, words(3)) == scores_of(server, words(3))


async def test_with_a_model_requests_have_the_form_of_jina_and_cohere(server, reranker):
    await reranker(QUERY, ["", "Straße 東京"])
    (asked,) = server.requests
    assert asked.path == "/v1/rerank"
    assert asked.payload == {"model": "m", "query": QUERY, "documents": ["", "Straße 東京"]}
    assert "Authorization" not in asked.headers


async def test_without_a_model_requests_have_the_form_of_text_embeddings_inference(server):
    await HttpReranker(server.url)(QUERY, ["a", "b"])
    assert server.requests[0].payload == {"query": QUERY, "texts": ["a", "b"], "truncate": True}


async def test_both_forms_of_answers_are_read_for_both_forms_of_requests(server, either):
    texts = words(4)
    server.plan(
        alter(lambda _: {"results": [{"index": at, "relevance_score": at / 4} for at in (2, 0, 3, 1)]}),
        alter(lambda _: [{"index": at, "score": at / 4} for at in (2, 0, 3, 1)]),
    )
    assert [await either(QUERY, texts) for _ in range(2)] == [[0, 0.25, 0.5, 0.75]] * 2


async def test_without_texts_no_request_is_sent(server, reranker):
    assert await reranker(QUERY, []) == []
    assert server.requests == []


async def test_only_the_index_zero_may_be_missing(server, reranker):
    """JSON of protobuf leaves out zeros. Without any index, the order may be that of scores."""
    server.plan(alter(lambda _: [{"index": 2, "score": 0.5}, {"score": 0.75}, {"index": 1, "score": 0.25}]))
    assert await reranker(QUERY, words(3)) == [0.75, 0.25, 0.5]
    server.plan(alter(lambda _: [{"score": 0.5}, {"score": 0.25}]))
    assert "a score of index None for 2 texts" in await failure(reranker(QUERY, words(2)))


@pytest.mark.parametrize(
    ("query", "texts", "why"),
    [
        (QUERY, "one text", "not one string"),
        (QUERY, ["a", 3], "takes strings, not 3 (text 1 of 2)"),
        (None, ["a"], "the query: it contains None, which is not a string"),
        (QUERY, ["a", "b\ud800"], "text 1: it contains an unpaired surrogate at position 1"),
        ("\udfff", ["a"], "the query: it contains an unpaired surrogate at position 0"),
    ],
)
async def test_values_that_are_not_strings_are_refused_before_any_request(server, reranker, query, texts, why):
    assert why in await failure(reranker(query, texts))
    assert server.requests == []


async def test_a_search_is_reranked_by_it(server, either):
    source = from_mapping({"keys": QUERY, "bread": "bake a loaf of bread", "stars": "stars and planets"}, name="notes")
    async with build(source, store=MemoryStore(), embedder="light") as corpus:
        hits = await corpus.search(QUERY, mode="dense", rerank=either)
    assert [hit.score for hit in hits] == sorted(scores_of(server, [hit.text for hit in hits]), reverse=True)
    assert len(hits) == 3
    assert len(server.requests) == 1


# --- batches --------------------------------------------------------------------------------------------------------


async def test_scores_keep_their_order_if_batches_return_in_another_order(server):
    server.plan(later(0.1), later(0.05))
    texts = words(7)
    assert await HttpReranker(server.url, "m", batch_size=2)(QUERY, texts) == scores_of(server, texts)
    assert sorted(server.sizes) == [1, 2, 2, 2]


async def test_at_most_the_allowed_number_of_requests_runs_concurrently(server):
    server.always = later(0.05)
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
async def test_a_batch_that_is_too_large_is_halved_until_the_server_accepts_it(server, either, code, body):
    server.always = at_most(3, code, body)
    assert await either(QUERY, words(9)) == scores_of(server, words(9))
    assert server.sizes == [9, 4, 2, 2, 5, 2, 3]


async def test_a_single_text_that_is_too_large_is_named_in_the_error(server, reranker):
    server.always = status(422, {"detail": [{"msg": "field required"}]})
    said = await failure(reranker(QUERY, words(2)))
    assert "text 0 by itself (13 characters): 422: field required; shorten it" in said


# --- retries and failures -------------------------------------------------------------------------------------------


async def test_a_refusal_is_not_retried_and_reports_the_reason_of_the_server(server):
    server.plan(status(404, {"detail": "no such model"}))
    said = await failure(HttpReranker(server.url)(QUERY, ["a"]))
    assert said.startswith(f"the reranker at {server.url} (without a model) answered 404: no such model; check")
    assert len(server.requests) == 1


def edit(at, **values):
    def change(answer):
        answer["results"][at].update(values)
        return answer

    return alter(change)


UNUSABLE = {
    "too few": (alter(lambda a: {"results": a["results"][1:]}), "2 scores for 3 texts"),
    "too many": (alter(lambda a: {"results": [*a["results"], {"index": 3}]}), "4 scores for 3 texts"),
    "twice": (alter(lambda a: [{"index": at, "score": 0.5} for at in (0, 1, 1)]), "2 scores of index 1, and none of"),
    "out of range": (edit(2, index=3), "index 3 for 3 texts"),
    "negative": (edit(2, index=-1), "index -1 for 3 texts"),
    "index no number": (edit(2, index="2"), "index '2'"),
    "index a bool": (edit(2, index=True), "index True"),
    "no index": (edit(2, index=None), "index None"),
    "score a word": (edit(1, relevance_score="0.5"), "must return finite numbers, not '0.5'"),
    "score a bool": (edit(1, relevance_score=True), "must return finite numbers, not True"),
    "no score": (edit(1, relevance_score=None), "must return finite numbers, not None"),
    "NaN": (edit(1, relevance_score=math.nan), "must return finite numbers, not nan .text 1."),
    "infinity": (edit(0, relevance_score=math.inf), "must return finite numbers, not inf .text 0."),
    "endless score": (edit(1, relevance_score=10**400), "must return finite numbers, not 1000"),
    "an error": (alter(lambda a: {"error": "model not\nloaded"}), "without a list of scores .*: model not loaded"),
    "numbers": (alter(lambda a: [0.1, 0.2, 0.3]), "without a list of scores"),
    "a number": (alter(lambda a: 3), "without a list of scores"),
    "half of it": (alter(lambda a: '[{"index": 0, "sc'), "half an answer, not JSON"),
    "HTML": (status(200, "<!doctype html>\n<p>Welcome"), "an HTML page, not JSON"),
}


@pytest.mark.parametrize(("fault", "why"), UNUSABLE.values(), ids=UNUSABLE)
async def test_an_invalid_answer_is_an_error_with_the_reason(server, reranker, fault, why):
    server.plan(fault)
    with pytest.raises(RerankerError, match=why) as caught:
        await reranker(QUERY, words(3))
    assert "'m' at " + server.url in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
    assert len(server.requests) == 1


# --- identity -------------------------------------------------------------------------------------------------------


def test_its_id_contains_the_model_and_never_the_server():
    assert HttpReranker(URL, "org/m").id == HttpReranker("https://other.org", "org/m").id == "api:org/m"
    assert rerank_tag(HttpReranker(URL, "org/m")) == "rerank-api%3Aorg%2Fm+surface"


def test_without_a_model_it_is_anonymous_unless_it_has_a_name():
    assert HttpReranker(URL).id is None
    assert is_anonymous(rerank_tag(HttpReranker(URL)))
    assert HttpReranker(URL, id="bge-base").id == HttpReranker(URL, "m", id="bge-base").id == "bge-base"
    assert not is_anonymous(rerank_tag(HttpReranker(URL, id="bge-base")))


def test_rerankers_of_the_same_model_at_the_same_url_are_equal():
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
def test_invalid_options_are_refused_when_a_reranker_is_created(options):
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
def test_an_invalid_base_url_is_refused(url, why):
    with pytest.raises(ArgumentError, match=why) as caught:
        HttpReranker(url)
    assert "S3cret" not in str(caught.value)
