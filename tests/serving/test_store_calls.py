"""`POST /store/read` and `/embed`: values are checked before the store sees them."""

import json
from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus
from airw.embedders import HashingEmbedder
from airw.protocols import CAPABILITIES, Change, Counts, Edges, Ends, Fed, Rank, RecordsOf, VectorsOf
from airw.protocols.wire import REQUEST_NAMES, pack, pack_array, pack_requests
from airw.serving import ServingLimits, Token, app
from airw.stores import MemoryStore, OwnStore
from airw.testing import ScriptedStore
from airw.testing.changes import put
from airw.values import Link
from tests.support.drawing import examples
from tests.support.watched import Limited

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
        await memory.apply(
            Change([put("a", "rotate the keys", links=[Link("b")], dim=8), put("b", "bake bread", dim=8)])
        )
        store = ScriptedStore(memory)
        async with client_of(Corpus("notes", wrap(store), EMBEDDER), **options) as client:
            yield client, store


async def send(client, *requests, **headers):
    body = json.dumps({"corpus": "notes", "requests": requests})
    return await client.post("/store/read", content=body, headers=headers)


async def answer_to(client, kind, **fields):
    """Return what the store answers to one request."""
    answer = await send(client, {"ask": kind, **fields})
    assert answer.status_code == 200, answer.text
    [value] = answer.json()["answers"]
    return value


def vector(numbers=QUERY, dtype=np.float32):
    return pack_array(np.array(numbers, dtype))


GOOD = {
    "Records": {"ids": ["a", "b"]},
    "RecordsOf": {"artifact_ids": ["a"], "kinds": ["chunk"], "limit": 1},
    "Vectors": {"ids": ["a"]},
    "VectorsOf": {"artifact_ids": ["a"]},
    "Rank": {
        "queries": ["keys"],
        "k": 3,
        "filter": {"tag": "x"},
        "surfaces": ["chunk"],
        "per_artifact": True,
        "among": None,
        "records": None,
        "statistics": None,
    },
    "Words": {"queries": ["keys"]},
    "TextLanguage": {},
    "Edges": {"ids": ["a"], "direction": "both", "links": {"types": ["x"], "exclude": [], "origins": None}, "limit": 3},
    "Referrers": {"nodes": ["a", ["else", "b"]], "types": None},
    "Names": {"refs": ["a"]},
    "MaxFanIn": {"types": None},
    "LinkCounts": {},
    "UnresolvedLinks": {"artifact_ids": None, "limit": 3},
    "Matching": {"wanted": [["tag", "x"]], "limit": 3},
    "ArtifactIds": {},
    "Ledger": {"ids": ["a"]},
    "Stale": {"versions": {"a": "1"}, "stamp": ["a", "1", "e", "s", "", "", []]},
    "Config": {},
    "Calibrations": {},
    "Counts": {},
    "Schema": {"paths": ["tag"], "limit": 3},
    "Fed": {"request": {"ask": "Records", "ids": []}, "by": {"take": "Best", "of": 0, "limit": 1}},
}
VECTORS = {"ask": "Rank", "queries": vector([QUERY]), "k": 3}


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


def test_there_is_an_example_of_each_kind_of_request():
    assert GOOD.keys() == {*REQUEST_NAMES}


@pytest.mark.asyncio_only
@pytest.mark.parametrize(
    "kind", [kind if kind in ("Matching", "Fed") else pytest.param(kind, marks=pytest.mark.slow) for kind in GOOD]
)
async def test_no_wrong_value_is_a_failure_of_the_server(kind):
    async with serve_notes() as (client, _):
        good = {"ask": kind, **GOOD[kind]}
        answer = await send(client, VECTORS, good)
        assert answer.status_code == 200, answer.text
        for name in [*good, "odd", *(["queries"] if kind == "Rank" else [])]:
            for value in BAD:
                answer = await send(client, VECTORS, {**good, name: value})
                assert is_fine(answer), (name, value, answer.text)
        for name in good.get("by", ()):
            for value in BAD:
                answer = await send(client, VECTORS, {**good, "by": {**good["by"], name: value}})
                assert is_fine(answer), (name, value, answer.text)


@pytest.mark.slow
@pytest.mark.asyncio_only
@settings(max_examples=examples(100))
@given(
    kind=st.sampled_from(sorted(GOOD)),
    fields=st.dictionaries(
        st.sampled_from(sorted({name for fields in GOOD.values() for name in fields})),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(BAD),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        ),
    ),
)
async def test_no_request_is_a_failure_of_the_server(kind, fields):
    async with serve_notes() as (client, _):
        assert is_fine(await send(client, VECTORS, {"ask": kind, **GOOD[kind], **fields}))


ONE = {"ask": "Records", "ids": ["a"]}
FED = {"ask": "Fed", "request": {"ask": "Records", "ids": []}}


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ([{"ask": "Records"}], "Records needs ids"),
        ([{"ask": "Ledger"}], "Ledger needs ids"),
        ([{"ask": "Records", "ids": "ab"}], "ids of Records cannot be used: 'ab' is not a list"),
        ([{"ask": "Records", "ids": ["a"], "sort": 1}], "Records takes ids, not 'sort'"),
        ([{"ask": "Counts", "ids": []}], "Counts takes nothing, not 'ids'"),
        ([{"ask": "Records", "ids": list("abcdefghijk")}], "at most 10 ids and other items here, not 11; split it"),
        (
            [{"ask": "Records", "ids": list("abcdef")}, {"ask": "Vectors", "ids": list("abcdef")}],
            "one message may have at most 10 ids and other items here, not 12; split it",
        ),
        ([{"ask": "Edges", "ids": ["a", "b", "a"]}], "'a' is there twice; send it once"),
        ([{"ask": "Referrers", "nodes": [["x", "a"], ["x", "a"]]}], "('x', 'a') is there twice"),
        ([{"ask": "Edges", "ids": ["a"], "links": {"types": ["x"] * 10}}], "at most 10 ids and other items"),
        (
            [{"ask": "Edges", "ids": ["a"]}, {**FED, "by": {"take": "Best", "of": 0}}],
            "Best must be the best of a Rank",
        ),
        ([{**ONE}, {**FED, "by": {"take": "Ends", "of": 0}}], "Ends must be those of Edges"),
        (
            [{"ask": "Edges", "ids": ["a"]}, {**FED, "by": {"take": "Ends", "of": 0}}],
            "Records cannot be fed by Ends",
        ),
        ([{**FED, "by": {"take": "Best", "of": 0}}], "0 is not the place of an earlier request"),
        ([VECTORS, {**FED, "by": {"take": "Best", "of": -1}}], "-1 is not the place of an earlier request"),
        ([VECTORS, {**FED, "by": {"take": "Best", "of": True}}], "True is not the place of an earlier request"),
        ([VECTORS, {**FED, "by": {"take": "Best", "of": 0, "limit": -1}}], "limit must be"),
        ([VECTORS, {**FED, "by": {"take": "First", "of": 0}}], "take must be one of Ends, Best, not 'First'"),
        ([VECTORS, {**FED, "by": 0}], "0 is not an object"),
        ([VECTORS, {"ask": "Fed", "request": {**FED}}], "ask must be one of"),
        ([{"ask": "Rank", "queries": ["x"] * 10, "k": 11}], "at most 100 rows of rankings here, not 110; split it"),
        ([{"ask": "Rank", "queries": ["x"] * 2}], "at most 100 rows of rankings here, not 200; split it"),
        ([{"ask": "Rank", "queries": ["x" * 21], "k": 1}], "query must have at most 20 characters, not 21"),
        ([{"ask": "Words", "queries": ["x" * 21]}], "query must have at most 20 characters, not 21"),
        ([{"ask": "Rank", "queries": ["x"], "k": -1}], "k must be a whole number of at least 0"),
        ([{"ask": "Rank", "queries": ["x"], "k": 1, "filter": {"a": {"$in": [1] * 9}}}], "at most 5 conditions"),
        ([{"ask": "Rank", "queries": vector([[np.inf] * 8]), "k": 1}], "finite numbers"),
        (
            [{"ask": "Rank", "queries": {"shape": [1 << 40, 0], "dtype": "<f4", "base64": ""}, "k": 0}],
            "at most 10 ids and other items here, not 1,099,511,627,776",
        ),
        ([{"ask": "Counts"}] * 17, "requests must have at most 16 entries here, not 17"),
        ([{"ask": "Matching", "wanted": [[f"f{at}", 1] for at in range(33)]}], "at most 32 different fields"),
        ([{"ask": "Schema", "paths": [f"f{at}" for at in range(33)]}], "at most 32 different fields"),
        (
            [
                {"ask": "Schema", "paths": [f"f{at}" for at in range(20)]},
                {"ask": "Matching", "wanted": [[f"f{at}", 1] for at in range(10, 33)]},
            ],
            "at most 32 different fields of records here, not 33; split it",
        ),
        ([{"ask": "Change", "puts": []}], "ask must be one of"),
        ([{"ask": "__class__"}], "ask must be one of"),
        ([{"ask": ["Records"], "ids": []}], "ask must be one of"),
        ([[]], "[] is not an object"),
    ],
)
async def test_what_is_wrong_is_told_before_the_store_is_asked(requests, told):
    is_wide = "different fields" in told
    limits = ServingLimits(max_ids=100 if is_wide else 10, max_query_chars=20, max_conditions=5)
    async with serve_notes(limits=limits) as (client, store):
        answer = await send(client, *requests)
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text
        assert store.calls == {}


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "requests is missing"),
        ({"requests": None}, "requests must be a list"),
        ({"requests": {}}, "requests must be a list"),
        ({"requests": [], "request": 1}, "a message to a store takes corpus, requests, not 'request'"),
    ],
)
async def test_a_message_without_a_list_of_requests_is_refused(body, told):
    async with serve_notes() as (client, _):
        answer = await client.post("/store/read", json={"corpus": "notes", **body})
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "messages must be a list of messages to stores, at least one"),
        ({"messages": []}, "messages must be a list of messages"),
        ({"messages": [{"corpus": "notes", "requests": []}, 7]}, "messages must be a list of messages"),
        ({"messages": {"corpus": "notes"}}, "messages must be a list"),
        ({"messages": [{}], "corpus": "notes"}, "a batch of messages takes messages, not 'corpus'"),
        ({"messages": [{}] * 65}, "messages must have at most 64 entries here, not 65"),
        (
            {"messages": [{"corpus": "notes", "requests": [{"ask": "Names", "refs": [*"abcdef"]}]}] * 2},
            "one message may have at most 10 ids and other items here, not 12; split it",
        ),
        (
            {"messages": [{"corpus": "notes", "requests": [{"ask": "Rank", "queries": ["x"], "k": 60}]}] * 2},
            "at most 100 rows of rankings here, not 120",
        ),
    ],
)
async def test_messages_that_are_wrong_or_too_much_together_are_refused(body, told):
    async with serve_notes(limits=ServingLimits(max_ids=10)) as (client, store):
        answer = await client.post("/stores/read", json=body)
        assert (answer.status_code, told in answer.json()["detail"]) == (400, True), answer.text
        assert store.calls == {}


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"corpus": "notes"},
        {"corpus": 7, "requests": []},
        {"corpus": "none", "requests": [{"ask": "Counts"}]},
        {"corpus": "hidden", "requests": [{"ask": "Counts"}]},
        {"corpus": "notes", "requests": [{"ask": "Fly"}]},
        {"corpus": "notes", "requests": [{"ask": "Counts"}] * 17},
        {"corpus": "broken", "requests": [{"ask": "Counts"}]},
    ],
    ids=str,
)
async def test_a_message_that_would_be_an_error_has_no_answer_and_the_others_have(wrong):
    async with MemoryStore() as memory:
        await memory.apply(Change([put("a", "rotate the keys", dim=8)]))
        broken = ScriptedStore(memory, failures={Counts: ZeroDivisionError("secret")})
        stores = {"notes": memory, "hidden": memory, "broken": broken}
        corpora = [Corpus(name, store, EMBEDDER) for name, store in stores.items()]
        transport = httpx.ASGITransport(app(corpora, tokens=[Token(value=READER, read=["notes", "broken"])]))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            asked = {"corpus": "notes", "requests": [{"ask": "ArtifactIds"}, {"ask": "Names", "refs": ["a"]}]}
            body = {"messages": [asked, wrong, asked]}
            assert (await client.post("/stores/read", json=body)).status_code == 401
            answer = await client.post("/stores/read", json=body, headers={"authorization": f"Bearer {READER}"})
            alone = await client.post("/store/read", json=asked, headers={"authorization": f"Bearer {READER}"})
    assert answer.json() == {"answers": [alone.json(), None, alone.json()]}


async def test_a_chain_is_answered_as_its_parts():
    async with serve_notes() as (client, store):
        scores = {"ask": "Rank", "queries": vector([QUERY]), "per_artifact": True, "among": []}
        answer = await send(
            client,
            {"ask": "Edges", "ids": ["a"]},
            {"ask": "Fed", "request": scores, "by": {"take": "Ends", "of": 0, "limit": 5, "without": ["z"]}},
            {"ask": "Fed", "request": {"ask": "Records", "ids": []}, "by": {"take": "Best", "of": 1, "limit": 1}},
        )
        edges, rankings, records = answer.json()["answers"]
        assert store.reads == 1
        assert edges == await answer_to(client, "Edges", ids=["a"])
        assert rankings == await answer_to(client, "Rank", **{**scores, "among": ["b"]})
        assert records == await answer_to(client, "Records", ids=rankings[0][0])
        assert records[0][4] == "bake bread"


async def test_a_corpus_that_the_caller_may_not_read_does_not_exist():
    tokens = [Token(value=READER, read=["notes"]), Token(value=OTHER, read=[])]
    async with serve_notes(tokens=tokens) as (client, store):
        for path, body in (("/store/read", {"requests": [{"ask": "Counts"}]}), ("/store/describe", {})):

            async def ask(corpus="notes", token=None, path=path, body=body):
                headers = {} if token is None else {"authorization": f"Bearer {token}"}
                return await client.post(path, json={"corpus": corpus, **body}, headers=headers)

            assert (await ask()).status_code == 401
            assert (await ask(token=READER)).status_code == 200
            reads = store.reads
            answer = await ask(token=OTHER)
            assert answer.json()["error"] == "CorpusNotFound"
            unknown = await ask("none", token=OTHER)
            assert unknown.json()["detail"].replace("none", "notes") == answer.json()["detail"]
            assert store.reads == reads
        answer = await client.post(
            "/embed", json={"corpus": "notes", "query": "x"}, headers={"authorization": "Bearer no"}
        )
        assert answer.status_code == 401


async def describe(client):
    return await client.post("/store/describe", json={"corpus": "notes"})


async def test_a_description_names_what_a_client_must_know():
    async with serve_notes() as (client, _):
        answer = await describe(client)
    told = answer.json()
    assert answer.headers["airw-api"] == "1"
    assert "width" in told["policies"]["beam"]
    assert told["embedder"] == {"id": EMBEDDER.id, "dim": 8}
    assert {*told["capabilities"]} == CAPABILITIES - {"writing"}
    assert told["limits"]["max_ids"] == ServingLimits().max_ids


async def test_a_store_with_few_capabilities_says_which_are_missing():
    few = {"edges", "records", "scores"}
    async with serve_notes(wrap=lambda store: Limited(store, without=CAPABILITIES - few)) as (client, _):
        assert (await describe(client)).json()["capabilities"] == sorted(few)
        answer = await send(client, {"ask": "Names", "refs": []})
        assert answer.status_code == 400
        assert "Names needs a store with the capability 'names'" in answer.json()["detail"]
        [record] = await answer_to(client, "Records", ids=["none"])
        assert record is None


async def test_a_width_that_a_store_does_not_check_is_refused_by_name():
    class Careless(OwnStore):
        capabilities = frozenset({"scores"})

        async def rank(self, request):
            return [np.ones((len(request.records), 8)) @ query for query in request.queries]

    async with serve_notes(wrap=lambda _: Careless()) as (client, _):
        answer = await send(client, {"ask": "Rank", "queries": vector([[1.0] * 3]), "records": ["a"]})
        assert (answer.status_code, answer.json()["error"]) == (400, "EmbedderMismatch")
        assert "has 3 numbers, and those of the corpus have 8" in answer.json()["detail"]


async def test_settings_are_sent_without_the_problems_of_artifacts_of_which_there_may_be_thousands():
    async with serve_notes() as (client, store):
        await store.apply(Change(config={"dim": 8, "problems": {"a": ["a link leads out"]}}))
        assert await answer_to(client, "Config") == {"dim": 8}


async def test_absolute_paths_stay_on_the_server():
    async with MemoryStore() as store:
        metadata = {"path": "/srv/secret/a.md", "tags": ["x"]}
        await store.apply(
            Change([put("a", "keys", metadata=metadata, links=[Link("none", file="/srv/secret/a.md")], dim=8)])
        )
        await store.apply(Change(config={"root": "/srv/secret"}))
        async with client_of(Corpus("notes", store, EMBEDDER)) as client:
            for kind, fields in GOOD.items():
                answer = await send(client, VECTORS, {"ask": kind, **fields})
                assert answer.status_code == 200, answer.text
                assert "/srv" not in answer.text, (kind, answer.text)
            [[record]] = await answer_to(client, "RecordsOf", artifact_ids=["a"])
            assert record[-1] == {"path": "a.md", "tags": ["x"]}
            answer = await send(client, VECTORS, {"ask": "Fed", **GOOD["Fed"]})
            assert answer.json()["answers"][1][0][-1] == {"path": "a.md", "tags": ["x"]}
            assert await answer_to(client, "Matching", wanted=[["path", "/srv/secret/a.md"], ["tags", "x"]]) == [
                [],
                ["a"],
            ]


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


async def test_a_corpus_without_a_name_is_refused():
    async with serve_notes() as (client, _):
        for path in ("/store/read", "/store/describe", "/embed"):
            for body in ({}, {"corpus": 7}, {"corpus": None}, {"corpus": ["notes"]}):
                answer = await client.post(path, json=body)
                assert (answer.status_code, "corpus" in answer.json()["detail"]) == (400, True)


@pytest.mark.slow
async def test_an_answer_that_is_too_long_is_refused_before_the_store_has_made_all_of_it():
    async with MemoryStore() as memory:
        await memory.apply(Change([put(f"n{at}", "x", metadata={"note": "x" * 1_000}, dim=8) for at in range(2_500)]))
        store = ScriptedStore(memory)
        async with client_of(Corpus("notes", store, EMBEDDER), limits=ServingLimits(max_answer=500_000)) as client:
            answer = await send(client, {"ask": "RecordsOf", "artifact_ids": [f"n{at}" for at in range(2_500)]})
            assert (answer.status_code, answer.json()["error"]) == (413, "ArgumentError")
            assert answer.json()["detail"] == "the answer has more than 500,000 bytes; ask for less at once"
            assert store.calls == {RecordsOf: 1}


@pytest.mark.slow
async def test_a_long_message_is_answered_in_slices_as_at_once():
    ids = [f"n{at}" for at in range(1_500)]
    async with MemoryStore() as memory:
        await memory.apply(Change([put(id, f"keys {id}", links=[Link("n0")], dim=8) for id in ids]))
        edges = Edges(ids)
        ends = Fed(RecordsOf(()), Ends(edges))
        requests = [RecordsOf(ids), VectorsOf(ids), edges, ends, Rank(np.eye(1, 8, dtype=np.float32), among=ids)]
        async with client_of(Corpus("notes", memory, EMBEDDER), limits=ServingLimits(max_ids=10_000)) as client:
            answer = await send(client, *pack_requests(requests))
            expected = await memory.read(*requests)
            assert answer.json()["answers"] == json.loads(json.dumps(pack(expected)))
