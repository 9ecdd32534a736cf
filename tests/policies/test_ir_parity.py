"""A policy written for `ir` walks in airw as in `ir`: same hits, depths and scores.

`ir` is the published package, used as an oracle. Left out, because the two differ on purpose:

- infinite `seed`, `expand` and `select` (its walk never returns), and fan-outs and frontiers above our limits;
- a `select` that returns a node more than once: ours reads as many triples as wait;
- a `select` that invents depths or scores, or nodes that it was not offered: ours takes its own record, or refuses;
- policies that write to `state.visited`: there that undoes the walk's memory, here it is a mirror;
- negative budgets and depths: an `ArgumentError` here;
- the state that `to_hit` sees: here as at the start of the step, so that a policy can be asked for many at once. None
  of the policies below read `state.visited` or `state.results` in `to_hit`; `expand` and `stop` may.
"""

from functools import partial
from random import Random

import anyio
import ir
import pytest
from hypothesis import given, settings, strategies as st

from airw.policies import per_node
from airw.traversal import traverse
from airw.walking import top_k
from tests.support.drawing import examples

STORE = object()


class Walker:
    """A policy on a random graph that returns hits of ir's own class; `width` makes it a beam."""

    def __init__(self, edges, scores, seeds, *, routers=(), width=None, enough=None, by_path=None):
        self.edges, self.scores, self.seeds, self.routers = edges, scores, seeds, routers
        self.width, self.enough, self.by_path = width, enough, by_path

    def seed(self, state, store):
        assert store is STORE
        return [(node, None) for node in self.seeds]

    def score(self, state, node, store):
        """Score by node, or also by the node it was reached from."""
        id, parent = node
        return self.scores[id] + (self.by_path[parent] if self.by_path and parent is not None else 0)

    def select(self, state, scored):
        return sorted(scored, key=lambda triple: triple[2], reverse=True)[: self.width]

    def expand(self, state, node, store):
        assert node[0] in state.visited
        return iter([(id, node[0]) for id in self.edges[node[0]]])

    def node_id(self, node):
        return node[0]

    def stop(self, state):
        return self.enough is not None and len(state.results) >= self.enough

    def to_hit(self, state, node, score, depth):
        if node[0] in self.routers:
            return None
        metadata = {"depth": depth, "from": node[1], "query": state.query}
        return ir.SearchHit(str(node[0]), "node", score, f"text of {node[0]}", metadata, source="graph")


class AsyncWalker(Walker):
    """The same with async methods, which only airw can run."""

    async def score(self, state, node, store):
        await anyio.lowlevel.checkpoint()
        return super().score(state, node, store)

    async def expand(self, state, node, store):
        await anyio.lowlevel.checkpoint()
        return super().expand(state, node, store)


def parts_of(number):
    """Return the random graph and policy with a number.

    If Hypothesis drew the parts, most graphs would have no walk at all.
    """
    chance = Random(number)
    nodes, degree = range(chance.randint(1, 16)), chance.randint(0, 8)
    numbers = [0, 1, 2, chance.uniform(-1, 1)]
    return {
        "edges": [chance.choices(nodes, k=chance.randint(0, degree)) for _ in nodes],
        "scores": chance.choices(numbers, k=len(nodes)),
        "seeds": chance.choices(nodes, k=chance.randint(1, 4)),
        "routers": set(chance.choices(nodes, k=chance.randint(0, 3))),
        "width": chance.choice([None, 1, 2, 3]),
        "enough": chance.choice([None, None, 1, 4, 8]),
        "by_path": chance.choice([None, chance.choices(numbers, k=len(nodes))]),
    }


def walkers():
    return st.integers(0, 2**32).map(parts_of)


def comparable(hits):
    """Return the fields that a caller compares: order, ids, scores, fields of the policy."""
    own = ("depth", "from", "query")
    return [
        (hit.artifact_id, hit.surface_kind, hit.score, hit.text, hit.source, {name: hit.metadata[name] for name in own})
        for hit in hits
    ]


async def ours(policy, *, k=10, **options):
    walk = traverse("a query", STORE, policy=per_node(policy), **options)
    hits = await top_k(walk, k)
    assert all(hit.metadata["walk_depth"] == hit.metadata["depth"] for hit in hits)
    assert all(hit.metadata["walk_parent"] == hit.metadata["from"] for hit in hits)
    return comparable(hits)


def theirs(policy, **options):
    return comparable(ir.traverse("a query", STORE, policy=policy, **options))


@given(walkers())
@settings(max_examples=examples(150))
def test_walks_with_defaults_are_equal(parts):
    assert anyio.run(ours, Walker(**parts)) == theirs(Walker(**parts))


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(walkers(), st.integers(0, 6), st.integers(0, 20), st.integers(0, 20))
@settings(max_examples=examples(150))
def test_walks_are_equal_for_any_depth_budget_and_k(backend, parts, max_depth, node_budget, k):
    options = {"max_depth": max_depth, "node_budget": node_budget, "k": k}
    expected = theirs(Walker(**parts), **options)
    assert anyio.run(partial(ours, **options), Walker(**parts), backend=backend) == expected
    assert anyio.run(partial(ours, **options), AsyncWalker(**parts), backend=backend) == expected


@given(walkers(), st.integers(0, 6), st.integers(0, 20))
@settings(max_examples=examples(60))
def test_nodes_are_expanded_in_the_same_order_except_in_the_last_step(parts, max_depth, node_budget):
    """Each expansion sees at least its own node as committed.

    A step that ends the walk is not expanded here.
    """

    class Noting(Walker):
        expanded = ()

        def expand(self, state, node, store):
            self.expanded = (*self.expanded, node)
            return super().expand(state, node, store)

    mine, other = Noting(**parts), Noting(**parts)
    options = {"max_depth": max_depth, "node_budget": node_budget}
    theirs(other, **options)
    anyio.run(partial(ours, **options), mine)
    assert mine.expanded == other.expanded[: len(mine.expanded)]


def test_a_policy_of_ir_satisfies_both_protocols():
    policy = Walker([[]], [0], [0])
    assert isinstance(policy, ir.WalkPolicy)
    assert per_node(policy).max_depth == 2
