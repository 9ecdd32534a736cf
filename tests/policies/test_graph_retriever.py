"""Walks of random graphs equal those of graph-retriever 0.8.0: order, depths and scores.

How the two are compared, and where they differ on purpose, is in `tests/support/graph_retriever_oracle.py`.
"""

import math
import warnings
from functools import partial
from random import Random

import anyio
import pytest
from graph_retriever import strategies
from hypothesis import given, settings

from airw.policies import Eager, Mmr, Scored
from tests.support.drawing import examples
from tests.support.graph_retriever_oracle import bounds_of, compare, graph_of, numbers, their_bounds, weight


async def slow_weight(node):
    await anyio.lowlevel.checkpoint()
    return weight(node)


def similarity(node):
    return node.similarity_score


def pair_eager(chance, bounds, shared):
    return Eager(**bounds, **shared), strategies.Eager(**their_bounds(bounds))


def pair_scored(chance, bounds, shared):
    limit = chance.choice([None, 1, 2, 3])
    mine, other = chance.choice([(None, similarity), (similarity, similarity), (weight, weight), (slow_weight, weight)])
    return (
        Scored(scorer=mine, per_iteration_limit=limit, **bounds, **shared),
        strategies.Scored(scorer=other, per_iteration_limit=limit, **their_bounds(bounds)),
    )


def pair_mmr(chance, bounds, shared):
    options = {
        "lambda_mult": chance.uniform(0.2, 0.9),
        "min_mmr_score": chance.choice([-math.inf, -math.inf, -0.3, 0.0, 0.1]),
    }
    return Mmr(**options, **bounds, **shared), strategies.Mmr(**options, **their_bounds(bounds))


KINDS = {"eager": pair_eager, "scored": pair_scored, "mmr": pair_mmr}


def draw(number, kind=None):
    """Return the random graph with a number, our policy and their strategy."""
    chance = Random(number)
    graph, bounds = graph_of(chance), bounds_of(chance)
    make = KINDS[kind or chance.choice(sorted(KINDS))]
    return graph, *make(chance, bounds, graph.ours)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@given(number=numbers())
@settings(max_examples=examples(60))
def test_random_graphs_are_walked_alike(kind, number):
    anyio.run(compare, *draw(number, kind))


@pytest.mark.slow
@given(numbers())
@settings(max_examples=examples(30))
def test_random_graphs_are_walked_alike_on_trio_too(number):
    anyio.run(compare, *draw(number), backend="trio")


@given(numbers())
@settings(max_examples=examples(40))
def test_their_async_side_walks_alike(number):
    anyio.run(partial(compare, is_async=True), *draw(number))


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("kind", KINDS)
async def test_files_are_walked_alike(kind, tmp_path):
    for number in range(12):
        await compare(*draw(number, kind), store=tmp_path / f"{number}.airw")


@pytest.mark.slow
def test_the_random_graphs_have_long_walks():
    """Otherwise the tests above would compare only searches."""
    graphs = [(graph, strategy) for graph, _, strategy in map(draw, range(150))]
    with warnings.catch_warnings(action="ignore"):
        depths = [
            max((node.depth for node in graph.oracle(strategy).traverse()), default=0) for graph, strategy in graphs
        ]
    assert sum(depth >= 1 for depth in depths) > 50
    assert sum(depth >= 2 for depth in depths) > 20
