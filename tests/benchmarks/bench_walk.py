"""What a walk costs per committed node: airw with a batched policy, ir one node at a time, and a bare numpy loop.

The same best-first beam on the same random digraph (out-degree 10, 64-dimensional unit vectors): each step commits all
that was found, nearest first. All three must give the same nodes.
"""

import time
from functools import partial

import anyio
import ir
import numpy as np
import pytest

from airw.limits import Limits
from airw.traversal import traverse
from airw.values import SearchHit
from airw.walk import Policy

DEGREE, DIM, SEEDS, RUNS = 10, 64, 10, 3


class Digraph:
    def __init__(self, size):
        random = np.random.default_rng(7)
        vectors = random.standard_normal((size, DIM), dtype=np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.query = self.vectors[0] + self.vectors[1]
        self.edges = random.integers(0, size, (size, DEGREE)).tolist()
        self.seeds = random.choice(size, SEEDS, replace=False).tolist()


class Batched(Policy):
    """One matrix product a step."""

    def __init__(self, graph):
        self.graph = graph

    async def seed(self, state, store):
        return self.graph.seeds

    async def score(self, state, nodes, store):
        return self.graph.vectors[nodes] @ self.graph.query

    async def expand(self, state, committed, store):
        return [self.graph.edges[entry.id] for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


class OneByOne:
    """One dot product a node, as ir asks for."""

    def __init__(self, graph):
        self.graph = graph

    def seed(self, state, store):
        return self.graph.seeds

    def score(self, state, node, store):
        return float(self.graph.vectors[node] @ self.graph.query)

    def select(self, state, scored):
        return sorted(scored, key=lambda triple: triple[2], reverse=True)

    def expand(self, state, node, store):
        return self.graph.edges[node]

    def node_id(self, node):
        return node

    def stop(self, state):
        return False

    def to_hit(self, state, node, score, depth):
        return ir.SearchHit(str(node), "node", score, "", {})


def by_airw(graph, budget, **limits):
    async def main():
        walk = traverse(
            "query", None, policy=Batched(graph), max_depth=None, node_budget=budget, limits=Limits(**limits)
        )
        start = time.perf_counter()
        ids = [int(hit.artifact_id) async for hit in walk]
        return time.perf_counter() - start, ids

    return anyio.run(main)


def by_ir(graph, budget):
    start = time.perf_counter()
    hits = ir.traverse("query", None, policy=OneByOne(graph), max_depth=10**6, node_budget=budget, k=budget)
    return time.perf_counter() - start, [int(hit.artifact_id) for hit in hits]


def by_hand(graph, budget):
    """The least that could give the same hits: no bounds but the budget, no record of how a node was reached."""
    start = time.perf_counter()
    seen, ids, frontier = set(graph.seeds), [], list(graph.seeds)
    while frontier and len(ids) < budget:
        scores = graph.vectors[frontier] @ graph.query
        order = np.argsort(-scores, kind="stable")[: budget - len(ids)].tolist()
        committed = [frontier[at] for at in order]
        hits = [SearchHit(str(node), "node", float(scores[at]), "") for node, at in zip(committed, order, strict=True)]
        ids += [int(hit.artifact_id) for hit in hits]
        frontier = []
        for node in committed:
            for neighbour in graph.edges[node]:
                if neighbour not in seen:
                    seen.add(neighbour)
                    frontier.append(neighbour)
    return time.perf_counter() - start, ids


@pytest.mark.parametrize(("size", "budget"), [(10_000, 64), (10_000, 1_000), (100_000, 10_000)])
def test_cost_per_committed_node(size, budget):
    graph = Digraph(size)
    ways = {
        "by hand": by_hand,
        "airw": by_airw,
        "airw, no look over": partial(by_airw, look_over=False),
        "ir": by_ir,
    }
    best, found = {}, {}
    for name, way in ways.items():
        runs = [way(graph, budget) for _ in range(RUNS)]
        best[name], found[name] = min(seconds for seconds, _ in runs) / budget * 1e6, set(runs[0][1])
    print(f"\n{size:,} nodes, budget {budget:,}")
    for name, cost in best.items():
        print(f"  {name:20}{cost:8.1f} us/node{cost / best['by hand']:8.1f} x by hand{cost / best['ir']:8.2f} x ir")
    assert found["airw"] == found["airw, no look over"] == found["by hand"] == found["ir"]
