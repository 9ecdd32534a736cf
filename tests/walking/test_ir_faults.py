"""Faults of `ir` 0.1.61 in its walks, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

from dataclasses import dataclass

import pytest

import airw
from airw.policies import CollapsedTree
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from tests.support.small_corpora import Kinds, in_memory


@dataclass
class Graph:
    """A per-node policy whose neighbours come from a function; it counts the nodes it scores."""

    edges: object
    seeds: object = (0,)
    scored: int = 0

    def seed(self, state, store):
        return self.seeds

    def score(self, state, node, store):
        self.scored += 1
        return 0.5

    def expand(self, state, node, store):
        return self.edges(node)

    def node_id(self, node):
        return node

    def to_hit(self, state, node, score, depth):
        return SearchHit(str(node), "node", score, "", {"depth": depth})


async def test_a_hit_has_the_depth_and_score_of_the_walk_whatever_select_returns():
    """F5: a `select` that returns `(node, -5, 9.0)` cannot change depths or scores."""

    class Liar(Graph):
        def select(self, state, scored):
            return [(node, -5, 9.0) for node, _, _ in scored]

    walk = traverse("query", None, policy=airw.policies.per_node(Liar(lambda node: [node + 1])), max_depth=1)
    assert [(hit.artifact_id, hit.metadata["depth"], hit.score) async for hit in walk] == [("0", 0, 0.5), ("1", 1, 0.5)]


class Net(airw.Policy):
    """A policy like `Graph` that handles a whole step at a time."""

    def __init__(self, edges, seeds=(0,)):
        self.edges, self.seeds, self.scored = edges, seeds, []

    async def seed(self, state, store):
        return self.seeds

    async def score(self, state, nodes, store):
        self.scored += nodes
        return [0.0] * len(nodes)

    async def expand(self, state, committed, store):
        return [self.edges(entry.id) for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


async def test_a_walk_scores_no_more_nodes_than_its_limits_allow():
    """F6: it scores `max_frontier` of 100,000 seeds, and `max_fanout` of 5,000 neighbours."""
    policy = Net(lambda _: (), seeds=range(100_000))
    walk = traverse("query", None, policy=policy, node_budget=1, limits=Limits(max_frontier=10))
    assert len([hit async for hit in walk]) == 1
    assert len(policy.scored) == 10
    hub = Net(lambda node: range(1, 5001) if node == 0 else ())
    assert len([hit async for hit in traverse("query", None, policy=hub, limits=Limits(max_fanout=100))]) == 64
    assert len(hub.scored) == 101


async def test_a_node_with_many_parents_is_scored_once():
    """F6: 50 parents in one step and 50 in the next lead to one node."""
    edges = {0: range(1, 51), 1000: range(51, 101)} | {parent: [1000] for parent in range(1, 51)}
    policy = Net(lambda node: edges.get(node, [1000, *range(1, 51)]))
    assert len([hit async for hit in traverse("query", None, policy=policy, node_budget=500)]) == 102
    assert len(policy.scored) == len(set(policy.scored)) == 102


COUNTED = Limits(count_beyond_limits=True)


@pytest.mark.parametrize(("budget", "hits", "left"), [(5, 0, 7), (10, 0, 2), (12, 0, 12), (15, 3, 9), (24, 12, None)])
async def test_a_walk_summary_counts_routers_and_the_nodes_left_out(budget, hits, left):
    """F26: 12 routers come first; the summary counts them separately."""
    items = {f"{at:02}": [("description", f"about {at}"), ("chunk", f"part {at}")] for at in range(12)}
    corpus = await in_memory(items, strategy=Kinds())
    walk = traverse("about", corpus, policy=CollapsedTree(seed_k=12), node_budget=budget, limits=COUNTED)
    found = [hit async for hit in walk]
    summary = walk.summary
    assert (len(found), summary.emitted, summary.routed) == (hits, hits, budget - hits)
    assert (summary.truncated, summary.left_out) == ((True, {"node_budget": left}) if left else (False, {}))


async def test_a_walk_over_summaries_returns_the_matching_surface():
    """F27: the description matches word for word; the synopsis before it does not match."""
    items = {"a": [("synopsis", "unrelated words"), ("description", "rotate the keys")], "b": [("synopsis", "bread")]}
    corpus = await in_memory(items, strategy=Kinds())
    best, *_ = await airw.top_k(traverse("rotate the keys", corpus, policy=CollapsedTree()), k=5)
    assert (best.artifact_id, best.surface_kind, best.score) == ("a", "description", pytest.approx(1.0))
