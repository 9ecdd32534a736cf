"""Stores of others that answer something else, and requests about something else.

Each is a typed error.
"""

import math

import numpy as np
import pytest

import airw
from airw.embedders import resolve_embedder
from airw.errors import ArgumentKindError, StoreError
from airw.protocols import (
    Change,
    Edges,
    Ledger,
    Matching,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Vectors,
    VectorsOf,
    ask,
)
from airw.stores import MemoryStore, OwnStore
from airw.testing.changes import put
from airw.values import Edge, Ranking, Record, SearchHit


def rank(ids, scores):
    return Ranking(ids, ids, scores)


WHOLE = rank(["a", "b"], np.array([2.0, 1.0]))
RANKINGS = {
    "scores of None": rank(["a", "b"], [None, 1.0]),
    "scores in a list": rank(["a", "b"], [2.0, 1.0]),
    "scores of texts": rank(["a"], ["x"]),
    "scores in two dimensions": rank(["a"], np.ones((1, 2))),
    "too few scores": rank(["a", "b"], np.array([1.0])),
    "a score of NaN": rank(["a", "b"], np.array([math.nan, 1.0])),
    "an infinite score": rank(["a", "b"], np.array([math.inf, 1.0])),
    "scores that rise": rank(["a", "b"], np.array([1.0, 2.0])),
    "ids of numbers": rank([1, 2], np.array([2.0, 1.0])),
    "None for ids": rank(None, np.array([])),
    "a score without a list": rank(["a"], np.array(1.0)),
    "ids of None": rank([None, "a"], np.array([2.0, 1.0])),
    "pairs": [("a", 1.0)],
    "None": None,
}
ANSWERS = {
    **{name: {"rank": lambda _, answer=answer: [answer]} for name, answer in RANKINGS.items()},
    "no rankings": {"rank": lambda _: []},
    "two rankings": {"rank": lambda _: [WHOLE, WHOLE]},
    "None for rankings": {"rank": lambda _: None},
    "a number in an array": {"rank": lambda _: np.array(1.0)},
    "None for records": {"records": lambda _: None},
    "too few records": {"records": lambda _: []},
    "dicts for records": {"records": lambda request: [{"id": id} for id in request.ids]},
    "records without text": {"records": lambda request: [Record(id, id, "page", 0, None) for id in request.ids]},
    "None for edges": {"edges": lambda _: None},
    "too few edges": {"edges": lambda _: []},
    "texts for edges": {"edges": lambda request: ["ab" for _ in request.ids]},
    "None for each row of edges": {"edges": lambda request: [None for _ in request.ids]},
}


class Strange(OwnStore):
    """A store of two artifacts, some of whose answers are replaced."""

    capabilities = frozenset({"records", "dense", "lexical", "edges", "scores"})

    def __init__(self, answers):
        self.answers = answers

    def answer(self, name, request, whole):
        return self.answers[name](request) if name in self.answers else whole

    async def rank(self, request):
        return self.answer("rank", request, [WHOLE for _ in request.queries])

    async def records(self, request):
        return self.answer("records", request, [Record(id, id, "page", 0, "text") for id in request.ids])

    async def edges(self, request):
        return self.answer("edges", request, [[Edge(id, "b", "see")] for id in request.ids])


def verbs(corpus):
    return {
        **{mode: lambda mode=mode: airw.search(corpus, "key", mode=mode) for mode in ("lexical", "dense", "hybrid")},
        "discover": lambda: airw.discover(corpus, "key"),
        "traverse": lambda: airw.top_k(airw.traverse("key", corpus, policy=airw.policies.Beam()), k=5),
    }


@pytest.mark.parametrize("what", ANSWERS)
async def test_a_store_that_answers_something_else_is_named_in_a_typed_error(what):
    [name] = ANSWERS[what]
    for verb, call in verbs(airw.Corpus("strange", Strange(ANSWERS[what]), resolve_embedder("light"))).items():
        if name == "edges" and verb != "traverse":  # what does not ask for them does not mind
            await call()
            continue
        with pytest.raises(StoreError, match=f"Strange.{name} returned .*; return ") as caught:
            await call()
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


async def test_a_store_that_answers_as_asked_is_used():
    for call in verbs(airw.Corpus("whole", Strange({}), resolve_embedder("light"))).values():
        assert await call()


@pytest.mark.parametrize("request_about", [Records, RecordsOf, Ledger, Edges, Names, Referrers, Vectors, VectorsOf])
@pytest.mark.parametrize("item", [1, None, ["a"], {"a": 1}, b"a", ("a",), (1, "a")], ids=repr)
def test_a_request_about_something_that_is_no_id_is_refused_when_it_is_made(request_about, item):
    with pytest.raises(ArgumentKindError, match="must be a list of strings, not of"):
        request_about(["a", item])


@pytest.mark.parametrize("pair", ["ab", None, ("a",), (1, "a"), {"a": 1}], ids=repr)
def test_a_value_to_match_needs_its_field(pair):
    with pytest.raises(ArgumentKindError, match="wanted must be a list of pairs of a field and a value"):
        Matching([pair])


async def test_ids_of_other_corpora_and_sets_of_ids_are_asked_for():
    async with MemoryStore() as store:
        await store.apply(Change([put("a", "text")]))
        assert await ask(store, Edges([("other", "a")])) == [[]]
        [record] = await ask(store, RecordsOf({"a"}))
        assert record[0].artifact_id == "a"
        assert len((await ask(store, Rank(["text"], 5, among=["a"])))[0]) == 1


HIT = SearchHit("a", "page", 1.0, "text")


@pytest.mark.parametrize(
    "hits",
    [
        [[HIT], [HIT]],
        {"x": None, "y": [HIT]},
        {"x": [None], "y": [HIT]},
        {"x": ["a"], "y": [HIT]},
        {"x": [SearchHit("a", "page", None, "text")], "y": [HIT]},
        {"x": [SearchHit("a", "page", "1", "text")], "y": [HIT]},
        {"x": [SearchHit(1, "page", None, "text")]},
    ],
    ids=["a list", "None for hits", "no hit", "an id", "no score", "a text as score", "a number as id"],
)
def test_only_hits_are_fused(hits):
    with pytest.raises(ArgumentKindError, match="hit"):
        airw.fuse_hits(hits)


async def test_a_member_that_answers_something_else_does_not_hide_the_others():
    strange = airw.Corpus("strange", Strange(ANSWERS["a score of NaN"]), resolve_embedder("light"))
    async with airw.build(
        airw.from_mapping({"a": "key"}, name="whole", embedder="light"), store=MemoryStore()
    ) as whole:
        result = await airw.discover([strange, whole], "key", min_score=None)
    assert [(hit.source, hit.artifact_id) for hit in result.results] == [("whole", "a")]
    assert "Strange.rank returned" in str(result.missing)
