"""Many walks on one event loop: they leave turns to other tasks, and to each other."""

from itertools import pairwise

import anyio
import pytest

from airw.traversal import traverse
from airw.values import SearchHit
from airw.walking import Policy
from tests.support.waiting import PATIENCE

WALKS, NODES = 60, 5
READ = {"hits": lambda walk: walk, "events": lambda walk: walk.events()}


class Endless(Policy):
    """A policy that never waits; each step has one node."""

    def __init__(self):
        self.steps = 0  # of all walks

    async def seed(self, state, store):
        return [0]

    async def score(self, state, nodes, store):
        self.steps += 1
        return [1.0] * len(nodes)

    async def expand(self, state, committed, store):
        return [[committed[0].id + 1]]

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "text", entry.score, "") for entry in committed]


async def read_to_end(policy, read=READ["hits"]):
    walk = traverse("query", None, policy=policy, node_budget=NODES)
    async for _ in read(walk):
        pass
    return walk.summary.stop


@pytest.mark.parametrize("form", READ)
async def test_between_two_turns_of_another_task_few_walks_do_a_step(form):
    policy, seen = Endless(), []

    async def beat():
        while True:
            seen.append(policy.steps)
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as beating:
        beating.start_soon(beat)
        async with anyio.create_task_group() as walking:
            for _ in range(WALKS):
                walking.start_soon(read_to_end, policy, READ[form])
        beating.cancel_scope.cancel()
    assert policy.steps == WALKS * NODES
    # Trio runs the tasks of a batch in any order: a beat may be the first in one batch, and the last in the next.
    assert max(after - before for before, after in pairwise(seen)) <= 3 * 8


@pytest.mark.parametrize("passes", [1, 2, 3, 5])
async def test_walks_cancelled_while_they_wait_for_their_turn_leave_it_to_others(passes):
    policy = Endless()
    async with anyio.create_task_group() as walking:
        for _ in range(WALKS):
            walking.start_soon(read_to_end, policy)
        for _ in range(passes):
            await anyio.lowlevel.checkpoint()
        walking.cancel_scope.cancel()
    assert policy.steps < WALKS * NODES
    with anyio.fail_after(PATIENCE):
        assert await read_to_end(policy) == "node_budget"
