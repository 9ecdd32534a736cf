"""Policies: beside graph-retriever, in columns beside lists, and many walks at once.

10,000 artifacts with 64-dimensional vectors. Over metadata, each has ten of 5,000 tags; over ids and links, ten links.
"""

import random
import time
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial

import anyio
import graph_retriever
import numpy as np
import pytest
from anyio.from_thread import start_blocking_portal
from graph_retriever import strategies as theirs
from graph_retriever.adapters.in_memory import InMemory

from airw.corpora import build
from airw.embedders import embedder_from
from airw.links import extractor_from
from airw.policies import Beam, Eager, Mmr, PersonalizedPageRank, ReverseDependency, Scored
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from airw.traversal import traverse
from airw.values import IndexPlan, Surface
from tests.benchmarks.results import run_in_turn

COUNT, DIM, DEGREE, TAGS, RUNS, BUDGET = 10_000, 64, 10, 5_000, 5, 1_000
QUESTION = "How fast are the policies?"
QUERY = "query"
EDGES = {"metadata": [("tags", "tags")], "ids": [("links", "$id")]}


@dataclass(frozen=True)
class Whole:
    """A strategy with one surface per artifact, whose text is the id."""

    id: str = "whole"

    def decompose(self, artifact):
        return IndexPlan(artifact.raw, [Surface(artifact.id, "document", artifact.id)])


@pytest.fixture(scope="module")
def graph():
    """Fields and vectors by id; the query has a vector as well."""
    draw, normal = random.Random(5), np.random.default_rng(5)
    ids = [f"n{at:05}" for at in range(COUNT)]
    tags = [f"t{at}" for at in range(TAGS)]
    fields_of = {id: {"tags": draw.sample(tags, DEGREE), "links": draw.sample(ids, DEGREE)} for id in ids}
    vectors = dict(zip([*ids, QUERY], normal.standard_normal((COUNT + 1, DIM)).tolist(), strict=True))
    return fields_of, vectors


@contextmanager
def open_graph(graph, store):
    """Yield the corpus in a store, and a function that times walks in its event loop."""
    fields_of, vectors = graph
    source = from_mapping(
        fields_of,
        name="graph",
        strategy=Whole(),
        embedder=embedder_from(lambda texts: [vectors[text] for text in texts], id="given", dim=DIM),
        edge_extractor=extractor_from(lambda _, fields: {"links": fields["links"]}, id="links"),
        metadata_of=lambda _, fields: fields,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(store) as opened,
        portal.wrap_async_context_manager(build(source, store=opened)) as corpus,
    ):
        yield corpus, portal


async def walk_of(corpus, policy, answers):
    """Return the seconds of a walk; keep the ids of its hits, and the seconds to the first."""
    ids, first, start = [], 0.0, time.perf_counter()
    async with traverse(QUERY, corpus, policy=policy, node_budget=BUDGET) as walk:
        async for hit in walk:
            first = first or time.perf_counter() - start
            ids.append(hit.artifact_id)
    answers[:] = [ids, first]
    return time.perf_counter() - start


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


class Plain:
    """A class that overrides a method: its walks are walks of lists."""

    async def score(self, state, nodes, store):
        return await super().score(state, nodes, store)


def to_lists(policy):
    """Return a policy that does the same in lists."""
    kind = type(policy)
    return type(kind.__name__, (Plain, kind), {})(**{each.name: getattr(policy, each.name) for each in fields(policy)})


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
            own, other = [], []
            ways = {
                "airw": partial(portal.call, walk_of, corpus, policy, own),
                "the same in lists": partial(portal.call, walk_of, corpus, to_lists(policy), other),
            }
            portal.call(walk_of, corpus, policy, own)  # the first walk reads the links
            rounds = run_in_turn(ways, rounds=RUNS)
            results.compare(QUESTION, f"{name}, {kind}", rounds, {"the same in lists": None})
            assert own[0] == other[0]


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
