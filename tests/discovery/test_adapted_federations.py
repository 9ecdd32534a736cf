"""Walks over several corpora, some of which are functions with few methods of a store."""

from itertools import product

import pytest

from airw import FederatedCorpus, adapt, build, from_records, traverse
from airw.errors import ArgumentError, StoreError
from airw.links import extractor_from
from airw.policies import Beam, Eager, LinkWalk, PersonalizedPageRank
from airw.protocols import Edges, ask
from airw.stores import MemoryStore
from airw.values import ArtifactRef

LINKS = extractor_from(lambda _, fields: {"see": fields.get("see", [])}, id="see")


async def search(query, k):
    return [("x", 1.0), ("y", 0.5)][:k]


async def search_without_index(query, k):
    raise StoreError("the index is down")


async def get(ids):
    return {id: f"text of {id} about signing keys" for id in ids}


async def neighbors(ids):
    return {id: ["y"] if id == "x" else [] for id in ids}


PARTS = {
    "whole": {"search": search, "get": get, "neighbors": neighbors},
    "searched": {"search": search, "get": get},
    "linked": {"get": get, "neighbors": neighbors},
    "down": {"search": search_without_index, "get": get, "neighbors": neighbors},
}
POLICIES = {
    "the default": None,
    "words": LinkWalk(start_k=3, seeding="lexical"),
    "any": LinkWalk(start_k=3),
    "Beam": Beam(),
    "Eager": Eager(),
    "PageRank": PersonalizedPageRank(),
}


async def make(kind, name):
    if kind != "built":
        return adapt(**PARTS[kind], name=name, embedder="light")
    records = [{"id": "x", "text": "signing keys", "see": ["y"]}, {"id": "y", "text": "the keys of others"}]
    return await build(from_records(records, name=name, embedder="light"), store=MemoryStore(), edge_extractor=LINKS)


async def walk(kinds, policy):
    corpora = [await make(kind, name) for kind, name in zip(kinds, ("a", "b"), strict=True)]
    async with traverse("signing keys", FederatedCorpus(corpora), policy=policy) as walk:
        hits = {(hit.source, hit.artifact_id) async for hit in walk}
    return hits, [lost.name for lost in walk.summary.lost]


CAN_SEARCH, CAN_LINK = {"whole", "searched", "built"}, {"whole", "linked", "built"}
PAIRS = [
    pair
    for pair in product(["whole", "searched", "linked", "built"], repeat=2)
    if CAN_SEARCH & {*pair} and CAN_LINK & {*pair}
]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("kinds", PAIRS, ids=" and ".join)
async def test_a_walk_finds_what_each_corpus_can_find(kinds, policy):
    hits, lost = await walk(kinds, POLICIES[policy])
    assert {source for source, _ in hits} == {
        name for name, kind in zip(("a", "b"), kinds, strict=True) if kind in CAN_SEARCH
    }
    assert lost == []


@pytest.mark.parametrize("policy", POLICIES)
async def test_if_the_only_corpus_that_can_be_searched_fails_the_walk_is_empty_and_names_it(policy):
    assert await walk(("down", "linked"), POLICIES[policy]) == (set(), ["a"])


@pytest.mark.parametrize("policy", POLICIES)
async def test_if_one_of_two_that_can_be_searched_fails_the_other_is_walked(policy):
    hits, lost = await walk(("down", "whole"), POLICIES[policy])
    assert (hits, lost) == ({("b", "x"), ("b", "y")}, ["a"])


@pytest.mark.parametrize(
    ("kinds", "policy", "capability"),
    [
        (("searched", "searched"), Beam(), "edges"),
        (("linked", "linked"), Beam(), "dense"),
        (("linked", "linked"), None, "dense"),
        (("whole", "built"), Beam(edges=[("see", "see")]), "matching"),
        (("whole", "built"), LinkWalk(seeding="titles"), "names"),
    ],
)
async def test_a_policy_that_needs_what_they_do_not_have_is_refused(kinds, policy, capability):
    with pytest.raises(ArgumentError, match=f"capability '{capability}'"):
        await walk(kinds, policy)


async def test_a_corpus_that_knows_no_referrers_answers_about_one_artifact_as_about_many():
    store = FederatedCorpus([await make("whole", "a"), await make("built", "b")]).store
    ids = [ArtifactRef(source, id) for source in "ab" for id in "xy"]
    rows = await ask(store, Edges(ids, "both"))
    assert rows == [(await ask(store, Edges([id], "both")))[0] for id in ids]
    assert [[*row.ends] for row in rows] == [[("a", "y")], [], [("b", "y")], [("b", "x")]]
