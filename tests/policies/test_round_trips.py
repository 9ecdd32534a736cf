"""The round trips of each walk and search: on a server, each one costs milliseconds.

A number that grows here is a call that was added. Calls that overlap are one round trip.
"""

from random import Random

import pytest

from airw import Corpus, discover, search, traverse
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    Mmr,
    PathCoverage,
    PersonalizedPageRank,
    ReverseDependency,
    Scope,
    Scored,
)
from airw.protocols import Change
from airw.stores import MemoryStore
from airw.testing.changes import put
from airw.values import Link
from tests.support.asked import Asked
from tests.support.drawn_walks import EMBEDDER, NearestTwo, rate, rate_paths

pytestmark = pytest.mark.asyncio_only  # the calls are the same on every event loop
NODES = 32
QUERY = "n1 n2 n3"


def make_changes():
    draw, names = Random(1), [f"n{number}" for number in range(150)]
    return [
        put(
            name,
            *(" ".join(draw.choices(names, k=6)) for _ in range(draw.choice([1, 2]))),
            kinds=("description", "chunk"),
            metadata={
                "c": number % 30,
                "value": number % 4 * 25,
                "next": [f"n{number * 7 % 150}", f"n{number * 11 % 150}"],
            },
            links=[Link(end, draw.choice("ab")) for end in draw.choices(names, k=4)],
            dim=8,
        )
        for number, name in enumerate(names)
    ]


# Each policy with its round trips besides one a step. Most walks begin with a search. Where the last records are read
# ahead, the last step costs none.
POLICIES = {
    "Beam": (Beam(max_depth=None), 1),
    "Beam, dense": (Beam(max_depth=None, seeding="dense"), 1),
    "Beam from roots": (Beam(max_depth=None, seed_k=0, roots=["n1"]), 0),
    "Beam with a scope": (Beam(max_depth=None, scope=Scope(keep={"c": {"$lt": 25}})), 0),
    "Eager": (Eager(select_k=NODES), 1),
    "Mmr": (Mmr(select_k=NODES), 0),
    "Scored": (Scored(select_k=NODES, per_iteration_limit=4), 1),
    "Scored by a function": (Scored(scorer=rate, select_k=NODES, per_iteration_limit=4), 0),
    "Scored by paths": (Scored(path_scorer=rate_paths, select_k=NODES, per_iteration_limit=4), 0),
    "a strategy": (NearestTwo(select_k=NODES), 1),
    "PersonalizedPageRank": (PersonalizedPageRank(), 1),
    "PersonalizedPageRank by score": (PersonalizedPageRank(weighting="score"), 1),
    "LinkWalk": (LinkWalk(), 1),
    "LinkWalk from roots": (LinkWalk(roots=["n1"], max_depth=None), 0),
    "LinkWalk by cost": (LinkWalk(weighted=True, max_depth=None), 0),
    "ReverseDependency": (ReverseDependency(seeds=["n0", "n5"], edge_type="a"), 1),
}


async def walk_and_count(policy):
    async with MemoryStore() as store:
        await store.apply(Change(make_changes()))
        asked = Asked(store)
        async with traverse(QUERY, Corpus("c", asked, EMBEDDER), policy=policy, node_budget=NODES) as walk:
            assert [hit async for hit in walk]
        return walk.summary.steps, asked


@pytest.mark.parametrize(
    "name",
    [name if name in ("Beam", "LinkWalk") else pytest.param(name, marks=pytest.mark.slow) for name in POLICIES],
)
async def test_a_step_costs_one_round_trip(name):
    policy, others = POLICIES[name]
    steps, asked = await walk_and_count(policy)
    assert asked.trips <= steps + others, asked.reads


@pytest.mark.slow
async def test_mmr_reads_ahead_of_likely_choices():
    steps, asked = await walk_and_count(Mmr(select_k=NODES))
    assert asked.trips <= 0.75 * steps, asked.reads


async def test_the_default_walk_costs_three_round_trips():
    _, asked = await walk_and_count(PathCoverage())
    search, start, links = asked.reads[0], asked.reads[1], asked.reads[2:]
    assert sorted(search) == ["dense", "lexical"]
    assert {*start} <= {"Words", "scores", "Records"}
    assert [sorted(set(each)) for each in links] == [["Edges", "Records", "scores"]]
    assert asked.trips == 3


async def test_a_walk_along_shared_fields_costs_two_round_trips_a_step():
    for policy in (Eager(select_k=NODES, edges=[("c", "c")]), Mmr(select_k=NODES, edges=[("c", "c")])):
        steps, asked = await walk_and_count(policy)
        assert asked.trips <= 2 * steps, asked.reads


async def test_a_collapsed_tree_costs_three_round_trips():
    _, asked = await walk_and_count(CollapsedTree())
    assert asked.reads == [["dense"], ["RecordsOf"], ["scores"]]


@pytest.mark.parametrize(
    ("mode", "channels"), [("dense", ["dense"]), ("lexical", ["lexical"]), ("hybrid", ["dense", "lexical"])]
)
async def test_a_search_costs_two_round_trips(mode, channels):
    async with MemoryStore() as store:
        await store.apply(Change(make_changes()))
        asked = Asked(store)
        await search(Corpus("c", asked, EMBEDDER), QUERY, mode=mode)
        assert sorted(asked.calls) == sorted([*channels, "Records"])
        assert asked.trips == 2


async def test_a_discovery_costs_two_round_trips():
    async with MemoryStore() as store:
        await store.apply(Change(make_changes()))
        asked = Asked(store)
        await discover(Corpus("c", asked, EMBEDDER), QUERY)
        assert sorted(asked.calls) == ["Calibrations", "Config", "Records", "dense", "lexical"]
        assert asked.trips == 2
