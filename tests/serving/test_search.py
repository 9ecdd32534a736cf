"""`POST /search`: what `airw.search` finds, within the limits of the server."""

import pytest

from airw import search
from airw.serving import ServingLimits, app
from tests.support.served import NOTES, client, notes, serve_notes


async def test_a_search_has_the_hits_of_the_library_in_their_order():
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "signing keys", "k": 2})
        expected = await search(corpus, "signing keys", k=2)
        assert answer.status_code == 200
        assert answer.json() == {"hits": [hit.to_dict() for hit in expected]}


async def test_hits_have_the_name_by_which_the_corpus_is_served():
    async with notes() as corpus, client(app({"kb": corpus})) as asking:
        answer = await asking.post("/search", json={"corpus": "kb", "query": "keys"})
        assert {hit["source"] for hit in answer.json()["hits"]} == {"kb"}
        unknown = await asking.post("/search", json={"corpus": "notes", "query": "keys"})
        assert unknown.status_code == 404


async def test_options_have_the_names_of_the_library():
    options = {"mode": "lexical", "filter": {"title": {"$exists": False}}, "surfaces": ["document"], "fetch_k": 7}
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "keys", **options})
        expected = await search(corpus, "keys", **options)
        assert answer.json() == {"hits": [hit.to_dict() for hit in expected]}


async def test_operators_are_read_if_the_request_says_so():
    fields = {"corpus": "notes", "query": 'key* "signing keys" -bread', "mode": "lexical"}
    async with notes() as corpus, client(app([corpus])) as asking:
        for verb, place in (("search", "hits"), ("discover", "results")):
            answer = await asking.post(f"/{verb}", json={**fields, "operators": True})
            assert [hit["artifact_id"] for hit in answer.json()[place]] == ["keys.md"]
        plain = await asking.post("/search", json=fields)
        assert len(plain.json()["hits"]) == 3


LIMITS = ServingLimits(max_query_chars=50, max_k=5, max_conditions=3, max_body=2_000, max_nesting=8)
BEYOND = {
    "query": ({"query": "x" * 51}, "query must have at most 50 characters, not 51"),
    "k": ({"k": 6}, "k must be at most 5 here, not 6"),
    "fetch_k": ({"fetch_k": 26}, "fetch_k must be at most 25 here, not 26"),
    "conditions": ({"filter": {"a": {"$in": [1, 2, 3, 4]}}}, "filter must have at most 3 conditions here"),
    "surfaces": ({"surfaces": ["a"] * 4}, "surfaces must have at most 3 entries here, not 4"),
    "depth": ({"filter": {"$not": {"$not": {"$not": {"$not": {"$not": {"$not": {"$not": {"a": 1}}}}}}}}}, "nest"),
    "reranker": ({"rerank": "cross-encoder"}, "rerank must be left out here, not 'cross-encoder'"),
    "type": ({"k": "5"}, "k must be a whole number, not '5'"),
    "fraction": ({"k": 1.5}, "k must be a whole number, not 1.5"),
    "truth": ({"k": True}, "k must be a whole number, not True"),
    "unknown": ({"corpus_path": "/etc"}, "/search takes corpus, query, k"),
    "mode": ({"mode": "psychic"}, "mode must be one of"),
    "blank": ({"query": " "}, "query is blank"),
    "operator": ({"filter": {"a": {"$where": "1"}}}, "$where"),
    "timeout": ({"timeout": -1}, "timeout must be a finite number of at least 0, not -1"),
}


async def test_a_request_beyond_a_limit_is_answered_400_with_the_limit():
    async with serve_notes(limits=LIMITS) as asking:
        for name, (fields, message) in BEYOND.items():
            answer = await asking.post("/search", json={"corpus": "notes", "query": "keys", **fields})
            assert answer.status_code == 400, name
            assert answer.headers["content-type"] == "application/problem+json"
            assert message in answer.json()["detail"], name
            assert answer.json()["error"] in ("ArgumentError", "ArgumentKindError", "FilterError")


# httpx leaves its own reader of the body behind when the application stops reading.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_body_beyond_its_limit_is_answered_413():
    async with serve_notes(limits=LIMITS) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "x" * 3_000})
        assert answer.status_code == 413
        assert "2,000 bytes" in answer.json()["detail"]


async def test_rerankers_are_those_of_the_operator():
    async with serve_notes(rerankers=["cross-encoder:tiny"]) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "keys", "rerank": "cross-encoder:/etc"})
        assert answer.json()["detail"] == "rerank must be one of 'cross-encoder:tiny' here, not 'cross-encoder:/etc'"


STRANGE_NAMES = ["../notes", "/srv/notes.airw", "postgresql://db/kb#notes", "http://kb/", "notes.airw"]


async def test_a_corpus_is_a_registered_name_and_nothing_else():
    async with serve_notes() as asking:
        for name in STRANGE_NAMES:
            answer = await asking.post("/search", json={"corpus": name, "query": "keys"})
            assert answer.status_code == 404, name
            assert "known: notes" in answer.json()["detail"], name


async def test_a_search_beyond_its_deadline_is_answered_504():
    async with notes() as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/search", json={"corpus": "notes", "query": "keys", "timeout": 0})
        assert answer.status_code == 504
        assert answer.json()["detail"] == ("the request took longer than 0 seconds; ask for less, or allow more time")


async def test_a_short_search_and_the_notes_of_a_request_are_independent():
    async with serve_notes() as asking:
        found = [await asking.post("/search", json={"corpus": "notes", "query": text}) for text in NOTES.values()]
        assert [answer.json()["hits"][0]["artifact_id"] for answer in found] == list(NOTES)
