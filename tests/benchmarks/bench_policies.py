"""Three strategies compared with graph-retriever, over metadata and ids: hits and times.

10,000 artifacts with 64-dimensional vectors. Over metadata, each has ten of 5,000 tags; over ids, ten links.
"""

import random
import time
from dataclasses import dataclass
from functools import partial

import anyio
import graph_retriever
import numpy as np
import pytest
from graph_retriever import strategies as theirs
from graph_retriever.adapters.in_memory import InMemory

from airw.corpora import build
from airw.embedders import embedder_from
from airw.policies import Eager, Mmr
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface
from airw.walking import traverse

COUNT, DIM, DEGREE, TAGS, RUNS = 10_000, 64, 10, 5_000, 5
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
    fields = {id: {"tags": draw.sample(tags, DEGREE), "links": draw.sample(ids, DEGREE)} for id in ids}
    vectors = dict(zip([*ids, QUERY], normal.standard_normal((COUNT + 1, DIM)).tolist(), strict=True))
    return fields, vectors


async def our_times(fields, vectors, policies):
    """Return the fastest walk per policy, and its hits.

    Times are seconds to the first hit, and in all.
    """
    embedder = embedder_from(lambda texts: [vectors[text] for text in texts], id="given", dim=DIM)
    source = from_mapping(fields, name="graph", strategy=Whole(), embedder=embedder)
    found = []
    async with build(source, store=MemoryStore()) as corpus:
        for policy in policies:
            times = []
            for _ in range(RUNS):
                ids, start = [], time.perf_counter()
                async with traverse(QUERY, corpus, policy=policy, node_budget=1_000) as walk:
                    async for hit in walk:
                        if not ids:
                            first = time.perf_counter() - start
                        ids.append(hit.artifact_id)
                times.append((time.perf_counter() - start, first))
            found.append((min(times), ids))
    return found


def their_time(fields, vectors, edges, strategy, runs):
    contents = [graph_retriever.Content(id, id, vectors[id], metadata=each) for id, each in fields.items()]
    store = InMemory(vectors.__getitem__, contents)
    walk = partial(graph_retriever.atraverse, QUERY, edges=edges, strategy=strategy, store=store)
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        nodes = anyio.run(walk)
        times.append(time.perf_counter() - start)
    return min(times), [node.id for node in nodes]


CASES = [
    ("metadata", Eager(select_k=50, edges=EDGES["metadata"]), theirs.Eager(select_k=50)),
    ("ids", Eager(select_k=50, edges=EDGES["ids"]), theirs.Eager(select_k=50)),
    ("metadata", Mmr(select_k=200, edges=EDGES["metadata"]), theirs.Mmr(select_k=200)),
    ("ids", Mmr(select_k=200, edges=EDGES["ids"]), theirs.Mmr(select_k=200)),
    ("ids", Mmr(select_k=200, adjacent_k=50, edges=EDGES["ids"]), theirs.Mmr(select_k=200, adjacent_k=50)),
]


def test_bench_strategies(graph):
    fields, vectors = graph
    ours = anyio.run(our_times, fields, vectors, [ours for _, ours, _ in CASES])
    print(f"\n{'':34}{'airw':>10}{'first hit':>11}{'graph-retriever':>17}{'ratio':>8}")
    for (edges, policy, strategy), ((seconds, first), ids) in zip(CASES, ours, strict=True):
        other, same = their_time(fields, vectors, EDGES[edges], strategy, 1 if edges == "metadata" else RUNS)
        name = f"{type(policy).__name__} {policy.select_k} of {policy.adjacent_k} over {edges}"
        print(f"{name:34}{1e3 * seconds:>7.1f} ms{1e3 * first:>8.1f} ms{1e3 * other:>14.1f} ms{other / seconds:>7.1f}x")
        assert ids == same
