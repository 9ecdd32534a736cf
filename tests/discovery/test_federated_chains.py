"""A chain of requests to several corpora equals its parts, and costs few calls."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import FederatedCorpus
from airw.errors import ArgumentError
from airw.protocols import (
    Best,
    Edges,
    Ends,
    Fed,
    Rank,
    Records,
    RecordsOf,
    VectorsOf,
    ask,
)
from airw.testing import ScriptedStore
from airw.values import ArtifactRef, LinkFilter, Ranking
from tests.support.artifact_corpora import EIGHTHS
from tests.support.drawing import examples
from tests.support.federated_walks import notes
from tests.support.federations import Federation, split_of

NUMBERS = st.integers(0, 2**32)


@asynccontextmanager
async def open_scripted(parts):
    """Yield the parts of a graph as one corpus, and their stores, which count."""
    async with AsyncExitStack() as stack:
        corpus = await stack.enter_async_context(Federation(parts))
        stores = {name: ScriptedStore(member.store) for name, member in corpus.members.items()}
        yield FederatedCorpus([replace(corpus.members[name], store=store) for name, store in stores.items()]), stores


def to_comparable(answer):
    """Return an answer as values that are equal if it is."""
    if isinstance(answer, Ranking):
        return answer.record_ids, answer.artifact_ids, answer.scores.tolist()
    if isinstance(answer, np.ndarray):
        return answer.tolist()
    return [*map(to_comparable, answer)] if isinstance(answer, list | tuple) else answer


async def ask_in_parts(store, requests):
    """Ask one request after the other."""
    answers = {}
    for request in requests:
        plain = request.fill(answers[request.by.of]) if isinstance(request, Fed) else request
        answers[request] = await ask(store, plain)
    return [*answers.values()]


def draw_chain(draw, split, query):
    """Return random edges, and what follows from them."""
    ids = [ArtifactRef(*split.pair(id)) for id in sorted(split.graph.items)]
    others = [ArtifactRef("mid", "none"), ArtifactRef("elsewhere", "n00"), "n00"]
    links = LinkFilter(types=draw.choice([None, ["x"]]))
    asked = draw.sample([*ids, *others], draw.randint(1, 4))
    edges = Edges(asked, draw.choice(["out", "in", "both"]), links, draw.choice([None, 1, 3]))
    known = draw.sample(ids, draw.randint(0, len(ids)))
    ends = Ends(edges, draw.choice([None, 0, 2, 100]), draw.choice([(), known]))
    k = draw.choice([None, None, 2])
    ranked = Fed(Rank(query, k, among=(), per_artifact=True), ends)
    best = Best(ranked, draw.choice([None, 1, 100]))
    return [
        edges,
        ranked,
        Fed(Records(()), best),
        *draw.sample(
            [
                Fed(RecordsOf((), limit=draw.choice([None, 1])), ends),
                Fed(VectorsOf(()), ends),
                Fed(Edges((), "both"), ends),
                Fed(Rank(query, records=()), best),
            ],
            draw.randint(0, 4),
        ),
    ]


def draw_search(draw, split, query):
    """Return a random search, and the records of its best hits."""
    queries = draw.choice([query, [split.graph.query, "8"], [""]])
    rank = Rank(queries, draw.choice([None, 1, 5]), per_artifact=draw.random() < 0.5)
    return [rank, Fed(Records(()), Best(rank, draw.choice([None, 2])))]


async def compare_chains(number):
    draw, split = Random(number), split_of(number)
    query = np.array([await EIGHTHS.embed_query(split.graph.query)], np.float32)
    async with open_scripted(split.parts) as (corpus, stores):
        for draw_requests in (draw_chain, draw_chain, draw_search):
            requests = draw_requests(draw, split, query)
            start = [store.reads for store in stores.values()]
            answers = await corpus.store.read(*requests)
            middle = [store.reads for store in stores.values()]
            assert to_comparable(answers) == to_comparable(await ask_in_parts(corpus.store, requests)), requests
            end = [store.reads for store in stores.values()]
            for before, between, after in zip(start, middle, end, strict=True):
                assert between - before <= after - between, requests


@given(number=NUMBERS)
@settings(max_examples=examples(20))
async def test_a_chain_equals_its_parts(number):
    await compare_chains(number)


@pytest.mark.slow
@given(number=NUMBERS)
@settings(max_examples=200)
async def test_a_chain_equals_its_parts_in_many_cases(number):
    await compare_chains(number)


NEAR = np.array([[1, 0, 0, 0, 0, 0, 0, 0]], np.float32)
INSIDE = {"a": notes(x=["y", "z"], y=[], z=["x"]), "b": notes(x=["y"], y=["x"]), "c": notes(x=[])}
ACROSS = {
    "a": notes(x=["y", ["b", "x"]], y=[], z=[]),
    "b": notes(x=["y", ["a", "z"]], y=[["a", "x"]]),
    "c": notes(x=[]),
}


@pytest.mark.parametrize("direction", ["out", "both"])
@pytest.mark.parametrize(("parts", "rounds"), [(INSIDE, 1), (ACROSS, 2)], ids=["inside", "across"])
async def test_a_step_of_a_walk_is_one_call_of_each_store_or_two_if_links_lead_to_others(parts, rounds, direction):
    async with open_scripted(parts) as (corpus, stores):
        edges = Edges([ArtifactRef("a", "x"), ArtifactRef("b", "x")], direction)
        ranked = Fed(Rank(NEAR, among=(), per_artifact=True), Ends(edges, 100))
        requests = [edges, ranked, Fed(Records(()), Best(ranked, 10))]
        answers = await corpus.store.read(*requests)
        reads = {name: store.reads for name, store in stores.items()}
        assert to_comparable(answers) == to_comparable(await ask_in_parts(corpus.store, requests))
    assert answers[1][0].artifact_ids
    assert max(reads.values()) == rounds
    assert reads["c"] == (0 if direction == "out" else 1)


async def test_links_to_artifacts_that_were_seen_in_their_corpora_take_no_further_round():
    parts = {"a": notes(x=["y", ["b", "x"]], y=[]), "b": notes(x=[["a", "y"]])}
    async with open_scripted(parts) as (corpus, stores):
        rows = await ask(corpus.store, Edges([ArtifactRef("a", "x"), ArtifactRef("b", "x")]))
    assert [[*row.ends] for row in rows] == [[("a", "y"), ("b", "x")], [("a", "y")]]
    assert [store.reads for store in stores.values()] == [1, 1]


async def test_requests_of_one_call_share_its_rounds():
    async with open_scripted(INSIDE) as (corpus, stores):
        text = Rank(["8", "0"], 3)
        await corpus.store.read(text, Rank(NEAR, 3), Edges([ArtifactRef("a", "x")]), RecordsOf([ArtifactRef("a", "x")]))
        assert [store.reads for store in stores.values()] == [2, 2, 2]  # words are counted first


async def test_a_request_that_is_fed_by_a_later_one_is_refused():
    async with open_scripted(INSIDE) as (corpus, _):
        edges = Edges([ArtifactRef("a", "x")])
        with pytest.raises(ArgumentError, match="does not stand before it"):
            await corpus.store.read(Fed(RecordsOf(()), Ends(edges)), edges)
