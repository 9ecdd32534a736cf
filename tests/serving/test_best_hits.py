"""The best hits so far: always the top of what has arrived, and sent only when it changes."""

import math
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from airw import traverse
from airw.policies import LinkWalk, Mmr
from airw.serving import sse
from airw.serving.best_hits import BestHits
from airw.values import SearchHit
from tests.support.event_streams import StreamClient
from tests.support.served import notes
from tests.support.streamed_notes import NAMES, open_chain

pytestmark = pytest.mark.asyncio_only  # streams on trio are in test_sse.py

SCORES = st.sampled_from([0.0, 0.25, 0.5, -1.0, math.inf, -math.inf, math.nan])


@given(st.integers(1, 4), st.lists(st.lists(SCORES, max_size=3), max_size=8))
def test_the_best_are_the_first_of_all_in_the_order_of_their_scores(size, batches):
    best, arrived, before = BestHits(size), [], []
    for scores in batches:
        batch = [SearchHit(str(len(arrived) + at), "chunk", score, "") for at, score in enumerate(scores)]
        arrived += batch
        has_changed = best.add(batch)
        expected = sorted(arrived, key=lambda hit: math.inf if math.isnan(hit.score) else -hit.score)[:size]
        assert [hit.artifact_id for hit in best.hits] == [hit.artifact_id for hit in expected]
        assert has_changed == (best.hits != before)
        before = best.hits


async def lists_of(walk, size):
    client = await StreamClient().call(sse(walk, best=size))
    return [event.data["hits"] for event in client.events if event.kind == "best"], client


async def test_each_list_is_the_top_of_the_hits_so_far():
    async with open_chain() as corpus:
        policy = LinkWalk(roots=["n05"], direction="out", weighted=False)
        lists, client = await lists_of(traverse("keys", corpus, policy=policy, max_depth=None), 3)
    assert [[hit["artifact_id"] for hit in each] for each in lists] == [NAMES[5:6], NAMES[5:7], NAMES[5:8]]
    assert "hit" not in client.kinds
    assert client.events[-1].data["hits"] == len(NAMES[5:])
    assert lists[-1][0]["text"] == "signing keys, part 5"


@pytest.mark.parametrize("size", [1, 3, 50])
async def test_the_last_list_is_the_top_of_the_final_ranking(size):
    async with open_chain() as corpus:
        walk = traverse("part 7 of the keys", corpus, policy=Mmr(start_k=3))
        lists, client = await lists_of(walk, size)
    top = [hit.artifact_id for hit in walk.ranking][:size]
    assert [hit["artifact_id"] for hit in lists[-1]] == top
    ranking = client.events[-1].data["ranking"]
    assert [entry["artifact_id"] for entry in ranking][:size] == top
    assert all(one != other for one, other in pairwise(lists))


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 60])
async def test_long_lists_send_at_most_ten_hits_for_each_that_was_found(size):
    texts = {f"n{at:03}": f"keys [[n{at + 1:03}]]" for at in range(200)}
    async with notes(texts) as corpus:
        policy = LinkWalk(roots=["n000"], direction="out", weighted=False)
        walk = traverse("keys", corpus, policy=policy, max_depth=None, node_budget=200)
        lists, client = await lists_of(walk, size)
        found = client.events[-1].data["hits"]
    assert found == 200
    assert sum(map(len, lists)) <= 10 * found + size
    assert [*map(len, lists)][:10] == [*range(1, 11)]  # short lists come at each change
    assert len(lists[-1]) == size
