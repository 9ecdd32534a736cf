"""`POST /store/{method}` and `/embed`: each argument is checked before the store sees it."""

import json
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus
from airw.embedders import HashingEmbedder
from airw.protocols.wire import STORE_CALLS, pack_array
from airw.serving import ServingLimits, Token, app
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.testing.changes import put
from airw.values import Link
from tests.support.drawing import examples

EMBEDDER = HashingEmbedder(dim=8)
QUERY = [1.0, 0, 0, 0, 0, 0, 0, 0]
READER, OTHER = "reader-0123456789", "other-0123456789a"


@asynccontextmanager
async def client_of(corpus, **options):
    transport = httpx.ASGITransport(app([corpus], **options))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        yield client


@asynccontextmanager
async def serve_notes(*, wrap=lambda store: store, **options):
    """Yield a client of a server with one corpus, and its store, which counts calls."""
    async with MemoryStore() as memory:
        await memory.apply([put("a", "rotate the keys", links=[Link("b")], dim=8), put("b", "bake bread", dim=8)])
        store = ScriptedStore(memory)
        async with client_of(Corpus("notes", wrap(store), EMBEDDER), **options) as client:
            yield client, store


async def ask(client, method, body, **headers):
    return await client.post(f"/store/{method}", content=json.dumps({"corpus": "notes", **body}), headers=headers)


def vector(numbers=QUERY, dtype=np.float32):
    return pack_array(np.array(numbers, dtype))


GOOD = {
    "ids": ["a", "b"],
    "artifact_ids": ["a"],
    "record_ids": ["a"],
    "queries": vector([QUERY]),
    "query": vector(),
    "k": 3,
    "refs": ["a"],
    "nodes": ["a", ["else", "b"]],
    "wanted": [["tag", "x"]],
    "paths": ["tag"],
    "versions": {"a": "1"},
    "stamp": ["a", "1", "e", "s", "", "", []],
}


def good_call(method):
    body = {name: GOOD[name] for name in STORE_CALLS[method].arguments}
    if method in ("search_text", "term_statistics"):
        body["queries"] = ["keys"]
    return body


BAD = [
    *(
        None,
        7,
        -1,
        10**30,
        0.5,
        True,
        "text",
        [],
        {},
        [7],
        [None],
        [["a"]],
        [[["a"]]],
        {"a": 7},
        {"a": None},
        [["a", 1, 2]],
    ),
    *(
        ["x" * 30_000],
        {"shape": [8]},
        vector([]),
        vector([[QUERY]]),
        vector([np.nan] * 8),
        vector([3e38] * 8),
        vector([1.0] * 3),
    ),
    *({**vector(), "shape": shape} for shape in ([9], [-8], [1 << 62], [2.0], ["8"], "8", [8] * 40, [0, 1 << 40])),
    *({**vector(), "dtype": dtype} for dtype in ("<f2", "O", "<U1", None, [])),
    *({**vector(), "base64": text} for text in ("", "AAA", "é", None, "=" * 100)),
    *([["a", "b"]], [["", None]], ["\ud800", "\0"], {"$and": [None]}, {"f": {"$odd": 1}}, ["t", 1, 2, {"w": 5}, {}]),
]


def is_fine(answer):
    """Return whether an answer is one of the server's own, and no failure of it."""
    kind = answer.headers["content-type"]
    return answer.status_code < 500 and (answer.status_code == 200 or kind.startswith("application/problem+json"))


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "method",
    [method if method == "matching" else pytest.param(method, marks=pytest.mark.slow) for method in STORE_CALLS],
)
async def test_no_wrong_argument_is_a_failure_of_the_server(method):
    form = STORE_CALLS[method]
    async with serve_notes() as (client, _):
        answer = await ask(client, method, good_call(method))
        assert answer.status_code == 200 or (method == "find_changed" and answer.status_code == 400), answer.text
        for name in [*form.arguments, *form.options, "odd"]:
            for value in BAD:
                answer = await ask(client, method, {**good_call(method), name: value})
                assert is_fine(answer), (name, value, answer.text)


@pytest.mark.slow
@pytest.mark.asyncio_only
@settings(max_examples=examples(100))
@given(
    method=st.sampled_from(sorted(STORE_CALLS)),
    body=st.dictionaries(
        st.sampled_from(sorted({*GOOD, "filter", "surfaces", "limit", "statistics", "direction"})),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(BAD),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        ),
    ),
)
async def test_no_body_is_a_failure_of_the_server(method, body):
    async with serve_notes() as (client, _):
        assert is_fine(await ask(client, method, {**good_call(method), **body}))


@pytest.mark.parametrize(
    ("method", "body", "told"),
    [
        ("get_records", {}, "get_records needs ids"),
        ("get_records", {"ids": "ab"}, "ids of get_records cannot be used: 'ab' is not a list"),
        ("get_records", {"ids": ["a"], "sort": 1}, "get_records takes ids, not 'sort'"),
        ("counts", {"ids": []}, "counts takes no arguments, not 'ids'"),
        ("get_records", {"ids": ["a"] * 11}, "one call takes at most 10 ids here, not 11"),
        ("neighbors", {"ids": ["a", "b", "a"]}, "ids must be different, but 'a' is there twice; send it once"),
        ("read_step", {"ids": [], "query": None, "hit_ids": ["a", "a"]}, "hit_ids must be different"),
        ("fan_in", {"nodes": [["x", "a"], ["x", "a"]]}, "nodes must be different"),
        ("read_step", {"ids": [], "query": None, "known_ids": ["a"] * 11}, "one call takes at most 10 ids here"),
        (
            "search_text",
            {"queries": ["x"] * 10, "k": 11},
            "k times the number of queries must be at most 100 here, not 110",
        ),
        ("search_text", {"queries": ["x" * 21], "k": 1}, "a query must have at most 20 characters, not 21"),
        ("search_text", {"queries": ["x"], "k": -1}, "k must be a whole number of at least 0"),
        ("search_text", {"queries": ["x"], "k": 1, "filter": {"a": {"$in": [1] * 9}}}, "at most 5 conditions"),
        ("similarities", {"query": vector([np.inf] * 8), "record_ids": []}, "finite numbers"),
        (
            "search_vectors",
            {"queries": {"shape": [1 << 40, 0], "dtype": "<f4", "base64": ""}, "k": 0},
            "one call takes at most 10 queries here, not 1,099,511,627,776",
        ),
        ("apply", {"puts": []}, "there is no method 'apply' here"),
        ("set_config", {"config": {}}, "there is no method 'set_config' here"),
        ("__class__", {}, "there is no method '__class__' here"),
    ],
)
async def test_what_is_wrong_is_told_before_the_store_is_called(method, body, told):
    limits = ServingLimits(max_ids=10, max_query_chars=20, max_conditions=5)
    async with serve_notes(limits=limits) as (client, store):
        before = len(store.log)
        answer = await ask(client, method, body)
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text
        assert len(store.log) == before


async def test_a_corpus_that_the_caller_may_not_read_does_not_exist():
    tokens = [Token(value=READER, read=["notes"]), Token(value=OTHER, read=[])]
    async with serve_notes(tokens=tokens) as (client, store):
        for path, body in (("counts", {}), ("describe", {})):
            assert (await ask(client, path, body)).status_code == 401
            assert (await ask(client, path, body, authorization=f"Bearer {READER}")).status_code == 200
            log = len(store.log)
            answer = await ask(client, path, body, authorization=f"Bearer {OTHER}")
            assert answer.json()["error"] == "CorpusNotFound"
            unknown = await ask(client, path, {**body, "corpus": "none"}, authorization=f"Bearer {OTHER}")
            assert unknown.json()["detail"].replace("none", "notes") == answer.json()["detail"]
            assert len(store.log) == log
        answer = await client.post(
            "/embed", json={"corpus": "notes", "query": "x"}, headers={"authorization": "Bearer no"}
        )
        assert answer.status_code == 401


async def test_a_description_names_what_a_client_must_know():
    async with serve_notes() as (client, _):
        answer = await ask(client, "describe", {})
    told = answer.json()
    assert answer.headers["airw-api"] == "1"
    assert "width" in told["policies"]["beam"]
    assert told["embedder"] == {"id": EMBEDDER.id, "dim": 8}
    assert {"read_step", "first_surfaces", "search_vectors"} <= {*told["methods"]}
    assert told["limits"]["max_ids"] == ServingLimits().max_ids


async def test_a_store_with_few_methods_says_which_are_missing():
    class Small:
        def __init__(self, store):
            self.get_records, self.neighbors = store.get_records, store.neighbors
            self.best_of, self.records_of = store.best_of, store.records_of

    async with serve_notes(wrap=Small) as (client, _):
        methods = (await ask(client, "describe", {})).json()["methods"]
        assert {*methods} == {"get_records", "neighbors", "best_of", "records_of", "first_surfaces", "read_step"}
        answer = await ask(client, "resolve", {"refs": []})
        assert (answer.status_code, answer.json()["detail"]) == (400, "the store of this corpus has no method resolve")
        answer = await ask(client, "first_surfaces", {"artifact_ids": ["a", "none"]})
        assert answer.json()["answer"][2] == ["rotate the keys", ""]
        answer = await ask(client, "read_step", {"ids": ["a"], "query": vector(), "max_ends": 5, "hit_ids": ["a"]})
        assert answer.json()["answer"][1] == ["a", "b"]


async def test_a_width_that_a_store_does_not_check_is_refused_by_name():
    class Careless:
        async def similarities(self, query, record_ids):
            return np.ones((len(record_ids), 8)) @ query

    async with serve_notes(wrap=lambda _: Careless()) as (client, _):
        answer = await ask(client, "similarities", {"query": vector([1.0] * 3), "record_ids": ["a"]})
        assert (answer.status_code, answer.json()["error"]) == (400, "EmbedderMismatch")
        assert "has 3 numbers, and those of the corpus have 8" in answer.json()["detail"]


async def test_settings_are_sent_without_the_problems_of_artifacts_of_which_there_may_be_thousands():
    async with serve_notes() as (client, store):
        await store.set_config({"dim": 8, "problems": {"a": ["a link leads out"]}})
        assert (await ask(client, "config", {})).json()["answer"] == {"dim": 8}


async def test_absolute_paths_stay_on_the_server():
    async with MemoryStore() as store:
        metadata = {"path": "/srv/secret/a.md", "tags": ["x"]}
        await store.apply([put("a", "keys", metadata=metadata, links=[Link("none", file="/srv/secret/a.md")], dim=8)])
        await store.set_config({"root": "/srv/secret"})
        async with client_of(Corpus("notes", store, EMBEDDER)) as client:
            for method in STORE_CALLS:
                answer = await ask(
                    client, method, good_call(method) | ({"hit_ids": ["a"]} if method == "read_step" else {})
                )
                assert "/srv" not in answer.text, (method, answer.text)
            [[record]] = (await ask(client, "records_of", {"artifact_ids": ["a"]})).json()["answer"]
            assert record[-1] == {"path": "a.md", "tags": ["x"]}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "send either a query or texts"),
        ({"query": "x", "texts": ["x"]}, "send either a query or texts"),
        ({"query": 7}, "query must be a string"),
        ({"query": "x" * 21}, "query must have at most 20 characters, not 21"),
        ({"texts": ["x"] * 257}, "texts must have at most 256 entries"),
        ({"texts": ["x", 7]}, "query must be a string"),
        ({"texts": ["x", "x" * 21]}, "query must have at most 20 characters, not 21"),
        ({"query": "\ud800"}, "unpaired surrogate"),
        ({"text": "x"}, "/embed takes corpus, query, texts"),
    ],
)
async def test_texts_that_cannot_be_embedded_are_refused(body, told):
    async with serve_notes(limits=ServingLimits(max_query_chars=20)) as (client, _):
        answer = await client.post("/embed", content=json.dumps({"corpus": "notes", **body}))
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text


@pytest.mark.parametrize(
    ("method", "body"),
    [("matching", {"wanted": [[f"f{number}", 1] for number in range(33)]}), ("has_fields", {"paths": ["f"] * 33})],
)
async def test_one_call_asks_for_few_fields_as_each_may_cost_a_scan(method, body):
    async with serve_notes() as (client, store):
        answer = await ask(client, method, body)
        assert (answer.status_code, "at most 32" in answer.json()["detail"]) == (400, True), answer.text
        assert store.calls == {}


async def test_a_corpus_without_a_name_is_refused():
    async with serve_notes() as (client, _):
        for path in ("/store/counts", "/store/describe", "/embed"):
            for body in ({}, {"corpus": 7}, {"corpus": None}, {"corpus": ["notes"]}):
                answer = await client.post(path, json=body)
                assert (answer.status_code, "corpus" in answer.json()["detail"]) == (400, True)


@pytest.mark.slow
async def test_an_answer_that_is_too_long_is_refused_before_the_store_has_made_all_of_it():
    async with MemoryStore() as memory:
        await memory.apply([put(f"n{at}", "x", metadata={"note": "x" * 1_000}, dim=8) for at in range(2_500)])
        store = ScriptedStore(memory)
        async with client_of(Corpus("notes", store, EMBEDDER), limits=ServingLimits(max_answer=500_000)) as client:
            answer = await ask(client, "records_of", {"artifact_ids": [f"n{at}" for at in range(2_500)]})
            assert (answer.status_code, answer.json()["error"]) == (413, "ArgumentError")
            told = "the answer has more than 500,000 bytes; ask about fewer artifact_ids at once"
            assert answer.json()["detail"] == told
            assert store.calls == {"records_of": 1}


@pytest.mark.slow
async def test_a_long_call_is_answered_in_slices_as_in_one():
    ids = [f"n{at}" for at in range(1_500)]
    async with MemoryStore() as memory:
        await memory.apply([put(id, f"keys {id}", links=[Link("n0")], dim=8) for id in ids])
        async with client_of(Corpus("notes", memory, EMBEDDER)) as client:
            for method in ("records_of", "vectors_of", "neighbors"):
                body = {"ids" if method == "neighbors" else "artifact_ids": ids}
                answer = (await ask(client, method, body)).json()["answer"]
                expected = await getattr(memory, method)(ids)
                assert answer == json.loads(json.dumps(STORE_CALLS[method].answer.pack(expected)))
