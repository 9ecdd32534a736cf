"""A walk that the server of a corpus walks is the walk of its own machine, hit by hit."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airw import Corpus, Limits, traverse
from airw.remote import RemoteWalk
from airw.stores import MemoryStore
from tests.support.drawn_walks import EMBEDDER, draw_changes, draw_policy
from tests.support.remote_corpora import use_remotely

QUERY = "n1 n2"


def without_seconds(events):
    return [{name: value for name, value in event.items() if name != "seconds"} for event in events]


async def read_walk(walk, *, has_events):
    """Return all that a walk tells: hits or events, the summary and the ranking."""
    async with walk:
        items = [item.to_dict() async for item in (walk.events() if has_events else walk)]
    summary = {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}
    return without_seconds(items), summary, [hit.to_dict() for hit in walk.ranking]


async def compare_walks(draw):
    async with MemoryStore() as store:
        corpus = Corpus("drawn", store, EMBEDDER)
        await store.apply(draw_changes(draw))
        async with use_remotely(corpus) as ([remote], requests):
            for _ in range(4):
                policy, options = draw_policy(draw), {"node_budget": draw.choice([3, 30])}
                options["limits"] = Limits(max_hits=draw.choice([None, 4]), max_fanout=draw.choice([1_000, 2]))
                form = {"has_events": draw.random() < 0.5}
                here = await read_walk(traverse(QUERY, corpus, policy=policy, **options), **form)
                requests.take()
                there = remote.traverse(QUERY, policy=policy, **options)
                assert await read_walk(there, **form) == here
                if isinstance(there, RemoteWalk):
                    assert requests.take() == ["/traverse"]


@settings(max_examples=3)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_on_the_server_are_the_same(draw):
    await compare_walks(draw)


@pytest.mark.slow
@settings(max_examples=40)
@given(draw=st.randoms(use_true_random=False))
async def test_walks_on_the_server_are_the_same_in_many_cases(draw):
    await compare_walks(draw)
