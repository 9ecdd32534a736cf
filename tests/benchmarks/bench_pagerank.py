"""Local personalised PageRank compared with the exact one: time and error.

The graph is a random digraph of 1,000,000 nodes in arrays, each with ten links out. The store that answers from them
contains nothing specific to walks. The exact methods are power iteration over a sparse matrix (scipy), and PRPACK in
igraph, as HippoRAG ranks with it. Matrix and graph are made before the clock starts.
"""

import time
from dataclasses import dataclass, field

import anyio
import igraph
import numpy as np
from scipy import sparse

from airw.embedders import HashingEmbedder
from airw.policies import PersonalizedPageRank
from airw.stores import OwnStore
from airw.traversal import traverse
from airw.values import Edge, Ranking, Record

COUNT, DEGREE, BUDGET, RESTART, RUNS = 1_000_000, 10, 200, 0.5, 5


class Arrays(OwnStore):
    """A digraph that answers what the walk asks; all surfaces are equal."""

    capabilities = frozenset({"edges", "records", "scores"})

    def __init__(self, targets):
        self.targets = targets

    async def edges(self, request):
        return [[Edge(id, str(end), "links") for end in self.targets[int(id)].tolist()] for id in request.ids]

    async def rank(self, request):
        return [Ranking(request.among, request.among, np.zeros(len(request.among)))]

    async def records(self, request):
        return [Record(id, id, "document", 0, "") for id in request.ids]


@dataclass(frozen=True)
class Graph:
    store: Arrays
    name: str = "graph"
    embedder: HashingEmbedder = field(default_factory=lambda: HashingEmbedder(dim=8))


def digraph():
    """Draw links of each node from different tenths of the nodes.

    No link is double or leads back.
    """
    share = COUNT // DEGREE
    tenths = np.arange(DEGREE) * share
    targets = tenths + np.random.default_rng(7).integers(0, share, (COUNT, DEGREE))
    return np.where(targets == np.arange(COUNT)[:, None], tenths + (targets + 1 - tenths) % share, targets)


def exact(matrix, seeds):
    start = np.zeros(COUNT)
    start[seeds] = 1 / len(seeds)
    value = start
    while True:
        after = (1 - RESTART) * (matrix @ value) + RESTART * start
        if np.abs(after - value).sum() < 1e-9:
            return after
        value = after


def rank_by_igraph(graph, seeds):
    start = np.zeros(COUNT)
    start[seeds] = 1 / len(seeds)
    options = {"damping": 1 - RESTART, "reset": start.tolist(), "implementation": "prpack"}
    return np.array(graph.personalized_pagerank(**options))


async def local(graph, seeds):
    policy = PersonalizedPageRank(restart=RESTART, seed_k=0, roots=[str(seed) for seed in seeds], direction="out")
    start = time.perf_counter()
    async with traverse("", graph, policy=policy, node_budget=BUDGET) as walk:
        async for _ in walk:
            pass
        ranking = walk.ranking
    return time.perf_counter() - start, ranking


def test_local_pagerank(results):
    targets = digraph()
    graph = Graph(Arrays(targets))
    places = targets.ravel(), np.repeat(np.arange(COUNT), DEGREE)
    matrix = sparse.csr_matrix((np.full(COUNT * DEGREE, 1 / DEGREE), places), (COUNT, COUNT))
    whole_graph = igraph.Graph(COUNT, np.column_stack([places[1], places[0]]), directed=True)
    rounds = {"airw": [], "scipy": [], "igraph, as in HippoRAG": []}
    print(f"\n{'error, L1':>12}{'largest':>10}{'ten alike':>11}{'proven':>8}")
    for number in range(RUNS):
        seeds = np.random.default_rng(number).choice(COUNT, 5, replace=False)
        seconds, ranking = anyio.run(local, graph, seeds)
        begun = time.perf_counter()
        values = exact(matrix, seeds)
        whole = time.perf_counter() - begun
        begun = time.perf_counter()
        assert np.abs(rank_by_igraph(whole_graph, seeds) - values).max() < 1e-6
        by_igraph = time.perf_counter() - begun
        ids = np.array([int(hit.artifact_id) for hit in ranking])
        scores = np.array([hit.score for hit in ranking])
        off = np.abs(values - np.bincount(ids, scores, COUNT))
        ten = set(ids[:10].tolist()) & set(np.argsort(-values)[:10].tolist())
        proven = sum(hit.metadata["rank_final"] for hit in ranking)
        rounds["airw"].append(1e3 * seconds)
        rounds["scipy"].append(1e3 * whole)
        rounds["igraph, as in HippoRAG"].append(1e3 * by_igraph)
        print(f"{off.sum():>12.4f}{off.max():>10.6f}{len(ten):>8}/10{proven:>8}")
        for at, hit in zip(ids, ranking, strict=True):
            assert hit.metadata["ppr_lower"] - 1e-9 <= values[at] <= hit.metadata["ppr_upper"] + 1e-9
    work = f"PersonalizedPageRank, {BUDGET} of 1,000,000 nodes, beside the exact one"
    results.compare("How fast are the policies?", work, rounds, {"scipy": 1 / 20, "igraph, as in HippoRAG": None})
