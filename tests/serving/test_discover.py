"""`POST /discover`: what `airw.discover` finds in one or several corpora."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from airw import discover
from airw.errors import ArgumentError
from airw.serving import ServingLimits, app
from tests.support.served import client, notes, serve_notes

FOOD = {"bread.md": "Bake a loaf of bread.", "soup.md": "Soup of keys and locks."}


@asynccontextmanager
async def two_corpora(**options):
    """Yield two corpora by name, and a client of an application that serves them."""
    async with AsyncExitStack() as stack:
        corpora = {
            "notes": await stack.enter_async_context(notes()),
            "food": await stack.enter_async_context(notes(FOOD, "cookbook")),
        }
        yield corpora, await stack.enter_async_context(client(app(corpora, **options)))


def without_times(result):
    """Return a result without what differs from run to run."""
    signals = dict(result["signals"])
    for name, report in signals.get("per_source", {}).items():
        signals["per_source"][name] = {key: value for key, value in report.items() if key != "seconds"}
    return {**result, "signals": signals}


async def test_a_discovery_is_that_of_the_library():
    async with notes() as corpus, client(app([corpus])) as asking:
        body = {"corpus": "notes", "query": "signing keys", "min_score": None, "max_k": 2}
        answer = await asking.post("/discover", json=body)
        expected = await discover(corpus, "signing keys", min_score=None, max_k=2)
        assert answer.status_code == 200
        assert without_times(answer.json()) == without_times(expected.to_dict())


async def test_several_corpora_answer_as_one_by_the_names_they_are_served_by():
    async with two_corpora() as (corpora, asking):
        body = {"corpora": ["notes", "food"], "query": "loaf of bread", "min_score": None, "strategy": "top_k"}
        answer = (await asking.post("/discover", json=body)).json()
        assert set(answer["signals"]["per_source"]) == {"notes", "food"}
        assert {result["source"] for result in answer["results"]} <= {"notes", "food"}
        expected = await discover(dict(corpora), "loaf of bread", min_score=None, strategy="top_k")
        assert [result["artifact_id"] for result in answer["results"]] == expected.ids


@pytest.mark.asyncio_only
async def test_a_corpus_that_cannot_be_opened_is_reported_and_the_others_answer(tmp_path):
    file = tmp_path / "broken.airw"
    file.write_bytes(b"no corpus" * 1_000)
    async with notes() as one, client(app({"notes": one, "broken": file})) as asking:
        body = {"corpora": ["broken", "notes"], "query": "keys", "min_score": None}
        answer = await asking.post("/discover", json=body)
        assert answer.status_code == 200
        report = answer.json()["signals"]["per_source"]
        assert (report["notes"]["status"], report["broken"]["status"]) == ("ok", "failed")
        assert "StoreCorrupt" in report["broken"]["error"]
        assert [each["source"] for each in answer.json()["missing"]] == ["broken"]
        assert str(tmp_path) not in answer.text
        alone = await asking.post("/discover", json={"corpora": ["broken"], "query": "keys"})
        assert alone.status_code == 503


async def test_a_discovery_can_walk_with_a_policy_by_name_and_parameters():
    async with notes() as corpus, client(app([corpus])) as asking:
        body = {"corpus": "notes", "query": "keys", "walk": {"name": "beam", "params": {"width": 2}}, "min_score": None}
        answer = await asking.post("/discover", json=body)
        assert (answer.status_code, answer.json()["mode"]) == (200, "walk")
        unknown = await asking.post("/discover", json={**body, "walk": "teleport"})
        assert (unknown.status_code, "known: beam" in unknown.json()["detail"]) == (400, True)


BEYOND = {
    "both": ({"corpora": ["notes"]}, "send either corpus"),
    "budget": ({"walk": True, "node_budget": 11}, "node_budget must be at most 10 here, not 11"),
    "width": ({"walk": {"name": "beam", "params": {"width": 11}}}, "width must be at most 10 here, not 11"),
    "hops": ({"walk": {"name": "beam", "params": {"max_depth": 4}}}, "max_depth must be at most 3 here, not 4"),
    "scope": (
        {"walk": {"name": "beam", "params": {"scope": {"keep": {"a": {"$in": [1, 2, 3, 4]}}}}}},
        "filter must have at most 3 conditions here",
    ),
    "body": ({"disclose_level": "body"}, "disclose_level must be 'metadata' here"),
    "roots": ({"roots": ["/"]}, "/discover takes corpus"),
    "most": ({"max_k": 9}, "max_k must be at most 5 here, not 9"),
}


async def test_a_discovery_beyond_a_limit_is_answered_400_with_the_limit():
    limits = ServingLimits(max_k=5, max_node_budget=10, max_hops=3, max_conditions=3)
    async with serve_notes(limits=limits) as asking:
        for name, (fields, message) in BEYOND.items():
            answer = await asking.post("/discover", json={"corpus": "notes", "query": "keys", **fields})
            assert answer.status_code == 400, name
            assert message in answer.json()["detail"], name


async def test_a_federation_has_few_different_members():
    async with two_corpora(limits=ServingLimits(max_corpora=1)) as (_, asking):
        for names in (["notes", "food"], ["notes", "notes"], [], [1]):
            answer = await asking.post("/discover", json={"corpora": names, "query": "keys"})
            assert answer.status_code == 400, names
            assert answer.json()["error"] == ArgumentError.__name__
