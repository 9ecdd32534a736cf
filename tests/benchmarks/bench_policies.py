"""Policies: beside graph-retriever, and many walks at once.

10,000 artifacts with 64-dimensional vectors. Over metadata, each has ten of 5,000 tags; over ids and links, ten links.
"""

import random
from functools import partial

import anyio
import graph_retriever
import numpy as np
import pytest
from graph_retriever import strategies as theirs
from graph_retriever.adapters.in_memory import InMemory

from airw.policies import Beam, Eager, Mmr, PersonalizedPageRank, ReverseDependency, Scored
from airw.stores import MemoryStore, SqliteStore
from tests.benchmarks.results import run_in_turn
from tests.support.policy_graphs import COUNT, DEGREE, DIM, QUERY, open_graph, walk_of

TAGS, RUNS = 5_000, 5
QUESTION = "How fast are the policies?"
EDGES = {"metadata": [("tags", "tags")], "ids": [("links", "$id")]}


@pytest.fixture(scope="module")
def graph():
    """Fields and vectors by id; the query has a vector as well."""
    draw, normal = random.Random(5), np.random.default_rng(5)
    ids = [f"n{at:05}" for at in range(COUNT)]
    tags = [f"t{at}" for at in range(TAGS)]
    fields_of = {id: {"tags": draw.sample(tags, DEGREE), "links": draw.sample(ids, DEGREE)} for id in ids}
    vectors = dict(zip([*ids, QUERY], normal.standard_normal((COUNT + 1, DIM)).tolist(), strict=True))
    return fields_of, vectors


STRATEGIES = [
    ("metadata", Eager(select_k=50, edges=EDGES["metadata"]), theirs.Eager(select_k=50), 50),
    ("ids", Eager(select_k=50, edges=EDGES["ids"]), theirs.Eager(select_k=50), 10),
    ("metadata", Mmr(select_k=200, edges=EDGES["metadata"]), theirs.Mmr(select_k=200), 10),
    ("ids", Mmr(select_k=200, edges=EDGES["ids"]), theirs.Mmr(select_k=200), 10),
    ("ids", Mmr(select_k=200, adjacent_k=50, edges=EDGES["ids"]), theirs.Mmr(select_k=200, adjacent_k=50), 10),
]


def test_strategies(graph, results):
    fields_of, vectors = graph
    contents = [graph_retriever.Content(id, id, vectors[id], metadata=each) for id, each in fields_of.items()]
    store = InMemory(vectors.__getitem__, contents)
    with open_graph(graph, MemoryStore()) as (corpus, portal):
        for edges, policy, strategy, goal in STRATEGIES:
            own, other = [], []

            def walk_theirs(edges=edges, strategy=strategy, other=other):
                found = anyio.run(
                    partial(graph_retriever.atraverse, QUERY, edges=EDGES[edges], strategy=strategy, store=store)
                )
                other[:] = [node.id for node in found]

            ways = {"airw": partial(portal.call, walk_of, corpus, policy, own), "graph-retriever": walk_theirs}
            portal.call(walk_of, corpus, policy, own)  # the first walk over a field indexes it
            rounds = run_in_turn(ways, rounds=1 if edges == "metadata" else RUNS)
            work = f"{type(policy).__name__}, {policy.select_k} of {policy.adjacent_k} a step, over {edges}"
            results.compare(QUESTION, work, rounds, {"graph-retriever": 1 / goal})
            assert own[0] == other


POLICIES = {
    "Eager, 50 hits": Eager(select_k=50, direction="out"),
    "Eager, all, 1,000 hits": Eager(select_k=None, adjacent_k=None, direction="out"),
    "Mmr, 200 hits, one a step": Mmr(select_k=200, direction="out"),
    "Scored, 200 hits": Scored(select_k=200, direction="out"),
    "Beam of 10, 20 steps": Beam(width=10, max_depth=20),
    "PersonalizedPageRank, 1,000 hits": PersonalizedPageRank(),
    "ReverseDependency, 1,000 hits": ReverseDependency(seeds=["n00001"], edge_type="links", max_depth=4),
}


@pytest.mark.parametrize("kind", ["MemoryStore", "SqliteStore"])
def test_policies_along_links(graph, results, kind, tmp_path):
    store = MemoryStore() if kind == "MemoryStore" else SqliteStore(tmp_path / "graph.airw")
    with open_graph(graph, store) as (corpus, portal):
        for name, policy in POLICIES.items():
            walk = partial(portal.call, walk_of, corpus, policy)
            walk([])  # the first walk reads the links
            rounds = run_in_turn({"airw": partial(walk, [])}, rounds=RUNS)
            results.compare(QUESTION, f"{name}, {kind}", rounds, {})


async def walk_many(corpus, policy, count, *, at_once):
    answers = [[] for _ in range(count)]
    if not at_once:
        for answer in answers:
            await walk_of(corpus, policy, answer)
    else:
        async with anyio.create_task_group() as group:
            for answer in answers:
                group.start_soon(walk_of, corpus, policy, answer)
    return answers[0][0]


@pytest.mark.parametrize("kind", ["MemoryStore", "SqliteStore"])
def test_walks_at_once(graph, results, kind, tmp_path):
    store = MemoryStore() if kind == "MemoryStore" else SqliteStore(tmp_path / "graph.airw")
    with open_graph(graph, store) as (corpus, portal):
        for name in ("Eager, 50 hits", "Beam of 10, 20 steps"):
            for count in (8, 64):
                walk = partial(walk_many, corpus, POLICIES[name], count)
                ways = {
                    "airw": partial(portal.call, partial(walk, at_once=True)),
                    "one by one": partial(portal.call, partial(walk, at_once=False)),
                }
                assert ways["airw"]() == ways["one by one"]()
                ways = {each: partial(discard, way) for each, way in ways.items()}
                rounds = run_in_turn(ways, rounds=3)
                results.compare(QUESTION, f"{count} walks at once, {name}, {kind}", rounds, {"one by one": None})


def discard(way):
    way()
