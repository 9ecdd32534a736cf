"""Walks that have ended and go on."""

import re
from collections import Counter
from dataclasses import dataclass, replace
from random import Random

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, Limits, merge, prefetch, traverse
from airw.errors import AirwError, ArgumentError, WalkNotExtendable
from airw.policies import Strategy
from airw.protocols import Change
from airw.stores import MemoryStore, Wrapper
from airw.testing import run_on_virtual_clock
from airw.values import SearchHit
from airw.walking import EdgeFound, NodeCommitted, Policy, StepDone, WalkEnded, top_k
from tests.support.case_policies import Listed, outcome_of
from tests.support.drawing import examples
from tests.support.drawn_walks import EMBEDDER, draw_changes, draw_limits, draw_policy
from tests.support.walk_cases import case_of

BACKENDS = ["asyncio", "trio"]
numbers = st.integers(0, 2**32)


class Counting(Policy):
    """Counts up from 0: each number has one neighbour."""

    def __init__(self, **attributes):
        vars(self).update(attributes)
        self.calls = []

    async def pause(self, method):
        self.calls.append(method)
        await anyio.sleep(1)

    async def seed(self, state, store):
        await self.pause("seed")
        return [0]

    async def score(self, state, nodes, store):
        await self.pause("score")
        return [-float(node) for node in nodes]

    async def expand(self, state, committed, store):
        await self.pause("expand")
        return [[entry.node + 1] for entry in committed]

    async def to_hits(self, state, committed, store):
        await self.pause("to_hits")
        return [SearchHit(str(entry.node), "number", entry.score, "") for entry in committed]


async def ids_of(walk):
    return [hit.artifact_id async for hit in walk]


def on_clock(function, backend="asyncio"):
    return run_on_virtual_clock(function, backend=backend)


# The law: the parts of a walk are one walk with the larger limits from the start.


def draw_bounds(draw, budget, depth):
    """Return the limits of a walk, and of each time it goes on."""
    bounds = [{"node_budget": budget, "max_depth": depth}]
    for _ in range(draw.randint(1, 3)):
        budget += draw.choice([0, 1, 2, 5, 20])
        if depth is not None and draw.random() < 0.5:
            depth = draw.choice([depth + 1, depth + 2, None])
        bounds.append({"node_budget": budget, "max_depth": depth})
    return bounds


async def walk_in_parts(walk, further):
    """Return all that a walk tells that goes on with further limits; `None` if it refuses."""
    hits = [hit async for hit in walk]
    for limits in further:
        assert outcome_of(walk, hits)[0] == [hit.to_dict() for hit in hits]  # a look at it changes nothing
        try:
            assert walk.extend(**limits) is walk
        except WalkNotExtendable:
            return None
        assert walk.summary is walk.ranking is None
        hits += [hit async for hit in walk]
    return outcome_of(walk, hits)


def may_refuse(walk_limits, policy, bounds):
    raises_depth = any(each["max_depth"] != bounds[0]["max_depth"] for each in bounds)
    return walk_limits.max_hits is not None or (raises_depth and policy.keeps_frontier)


@pytest.mark.parametrize("backend", BACKENDS)
@given(numbers)
@settings(max_examples=examples(200))
def test_the_parts_of_a_walk_are_one_walk_with_the_larger_limits(backend, number):
    async def compare(policy, bounds):
        options = {"policy": policy, "limits": policy.case.limits}
        found = await walk_in_parts(traverse("q", None, **options, **bounds[0]), bounds[1:])
        if found is None:
            assert may_refuse(policy.case.limits, policy, bounds)
        else:
            assert found == await walk_in_parts(traverse("q", None, **options, **bounds[-1]), [])

    case = case_of(number)
    case = replace(case, limits=replace(case.limits, count_beyond_limits=False))
    bounds = draw_bounds(Random(number), case.node_budget, case.max_depth)
    anyio.run(compare, Listed(case), bounds, backend=backend)


class CallLog(Wrapper):
    """Makes each call of a store take a second, and counts those that were answered."""

    def __init__(self, store):
        super().__init__(store)
        self.answered = Counter()

    async def read(self, *requests):
        await anyio.sleep(1)
        answers = await super().read(*requests)
        self.answered[re.sub(r"0x\w+", "", repr(requests))] += 1
        return answers


async def compare_policies(number, *, with_deadlines):
    """Compare walks of policies of the library, and the calls of their stores."""
    draw = Random(number)
    async with MemoryStore() as store:
        await store.apply(Change(draw_changes(draw)))
        for _ in range(3):
            policy, limits = draw_policy(draw), replace(draw_limits(draw), count_beyond_limits=False)
            bounds = draw_bounds(draw, draw.choice([0, 1, 3, 8]), draw.choice([None, 0, 1, policy.max_depth]))
            if with_deadlines:
                for seconds, each in enumerate(bounds):
                    each["timeout"] = 0.4321 + draw.randint(0, 2) + 3 * seconds
                bounds.append({**bounds[-1], "timeout": None})
            options = {"policy": policy, "limits": limits}
            log, whole = CallLog(store), CallLog(store)
            corpus = Corpus("drawn", log, EMBEDDER)
            found = await walk_in_parts(traverse("n1 n2", corpus, **options, **bounds[0]), bounds[1:])
            if found is None:
                assert may_refuse(limits, policy, bounds)
                continue
            last = {**bounds[-1], "timeout": None}
            assert found == await walk_in_parts(traverse("n1 n2", replace(corpus, store=whole), **options, **last), [])
            # Only what a method had asked when a deadline cancelled it is asked again.
            again = len(bounds) - 1 if with_deadlines else 0
            assert not [call for call, n in log.answered.items() if n > 1 and n > whole.answered[call] + again]


@pytest.mark.parametrize("backend", BACKENDS)
@given(numbers)
@settings(max_examples=examples(40))
def test_a_walk_of_any_policy_goes_on_as_if_it_had_never_stopped(backend, number):
    run_on_virtual_clock(lambda: compare_policies(number, with_deadlines=False), backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@given(numbers)
@settings(max_examples=examples(40))
def test_a_walk_of_any_policy_goes_on_after_a_deadline(backend, number):
    run_on_virtual_clock(lambda: compare_policies(number, with_deadlines=True), backend=backend)


@given(numbers)
@settings(max_examples=examples(100))
def test_events_go_on_too(number):
    """A step that a limit cut short is reported again when it is complete."""
    case = case_of(number)
    limits = replace(case.limits, count_beyond_limits=False, max_hits=None)
    bounds = draw_bounds(Random(number), case.node_budget, None)

    async def read(policy, bounds):
        walk = traverse("q", None, policy=policy, limits=limits, **bounds[0])
        events = walk.events()
        found = [event async for event in events]
        for further in bounds[1:]:
            walk.extend(**further)
            found += [event async for event in events]
        found = [event for event in found if not isinstance(event, WalkEnded) or event is found[-1]]
        steps = {event for event in found if isinstance(event, StepDone)}
        others = [event for event in found if not isinstance(event, StepDone)]
        return [str({**event.to_dict(), "seconds": 0}) for event in others], steps

    async def compare():
        policy = Listed(case)
        (found, steps), (expected, complete_steps) = await read(policy, bounds), await read(policy, bounds[-1:])
        assert found == expected
        assert steps >= complete_steps

    anyio.run(compare)


# What a user sees.


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_agent_reads_on_and_the_time_in_which_it_thinks_does_not_count(backend):
    async def main():
        walk = traverse("q", None, policy=Counting(), node_budget=2, timeout=10.5)
        assert await ids_of(walk) == ["0", "1"]
        assert (walk.summary.stop, walk.summary.seconds) == ("node_budget", 6)
        await anyio.sleep(100)
        assert await ids_of(walk.extend(node_budget=3)) == ["2"]
        assert (walk.summary.stop, walk.summary.seconds, walk.summary.emitted) == ("node_budget", 9, 3)
        await anyio.sleep(100)
        assert await ids_of(walk.extend(node_budget=9)) == []
        assert (walk.summary.stop, walk.summary.seconds) == ("timeout", 10.5)
        assert await ids_of(walk.extend(timeout=12.7)) == ["3"]
        assert await ids_of(walk.extend(timeout=None)) == ["4", "5", "6", "7", "8"]
        assert [hit.artifact_id for hit in walk.ranking] == list("012345678")
        assert walk.path(walk.ranking[-1]) == list(range(9))

    on_clock(main, backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("seconds", range(1, 8))
def test_only_the_call_that_a_deadline_cancelled_is_made_again(backend, seconds):
    whole, policy = Counting(), Counting()

    async def main():
        await ids_of(traverse("q", None, policy=whole, node_budget=2))
        walk = traverse("q", None, policy=policy, node_budget=2, timeout=seconds - 0.5)
        hits = await ids_of(walk)
        assert hits + await ids_of(walk.extend(timeout=None)) == ["0", "1"]

    on_clock(main, backend)
    if seconds <= len(whole.calls):
        cut = whole.calls[seconds - 1]
        assert policy.calls == [*whole.calls[:seconds], cut, *whole.calls[seconds:]]
    else:
        assert policy.calls == whole.calls


async def test_a_depth_cap_can_be_raised_and_removed():
    walk = traverse("q", None, policy=Counting(max_depth=1, pause=nothing))
    assert await ids_of(walk) == ["0", "1"]
    assert await ids_of(walk.extend(max_depth=3)) == ["2", "3"]
    assert (walk.summary.stop, walk.summary.unknown) == ("exhausted", ("max_depth",))
    assert len(await ids_of(walk.extend(max_depth=None))) == 60
    assert (walk.summary.stop, walk.summary.unknown) == ("node_budget", ("node_budget",))


async def nothing(method):
    pass


async def test_a_walk_that_ended_for_another_reason_has_no_more_hits():
    class Enough(Counting):
        def stop(self, state):
            return len(state.results) == 2

    class Finite(Counting):
        async def expand(self, state, committed, store):
            return [[] for _ in committed]

    for kind, stop in ((Enough, "sufficient"), (Finite, "exhausted")):
        walk = traverse("q", None, policy=kind(pause=nothing), node_budget=5)
        await ids_of(walk)
        before = walk.summary
        assert before.stop == stop
        assert await ids_of(walk.extend(node_budget=50, max_depth=None, timeout=None)) == []
        assert replace(walk.summary, seconds=0) == replace(before, seconds=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_policy_is_asked_again_whether_it_has_enough(backend):
    class Slowly(Counting):
        async def stop(self, state):
            await anyio.sleep(1)
            return len(state.results) == 2

    async def main():
        walk = traverse("q", None, policy=Slowly(), timeout=3.5)
        assert await ids_of(walk) == ["0"]
        assert await ids_of(walk.extend(timeout=None)) == ["1"]
        assert walk.summary.stop == "sufficient"

    on_clock(main, backend)


async def test_a_part_may_be_read_with_top_k_and_after_its_block():
    walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=2)
    assert [hit.artifact_id for hit in await top_k(walk)] == ["0", "1"]
    assert [hit.artifact_id for hit in await top_k(walk.extend(node_budget=4))] == ["0", "1", "2", "3"]


async def test_a_walk_that_goes_on_can_be_left_early():
    walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=2)
    await ids_of(walk)
    async for _ in walk.extend(node_budget=5):
        break
    await walk.aclose()
    assert (walk.summary.stop, walk.summary.emitted) == ("closed", 3)
    with pytest.raises(WalkNotExtendable, match="it was closed"):
        walk.extend(node_budget=9)


# What is refused.


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"node_budget": 1}, r"node_budget must be at least 2, as before, not 1"),
        ({"max_depth": 4}, r"max_depth must be at least 5, as before, not 4"),
        ({"timeout": 8.5}, r"timeout must be at least 9, as before, not 8.5"),
        ({"node_budget": None}, r"node_budget must be"),
        ({"timeout": "long"}, r"timeout must be a number of seconds"),
    ],
)
async def test_limits_can_only_be_raised(limits, message):
    walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=2, max_depth=5, timeout=9)
    await ids_of(walk)
    before = walk.summary
    with pytest.raises(ArgumentError, match=message):
        walk.extend(**limits)
    assert walk.summary is before


async def test_what_has_no_limit_keeps_none():
    walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=2)
    await ids_of(walk)
    with pytest.raises(ArgumentError, match="max_depth must be None, as before, not 3"):
        walk.extend(max_depth=3)
    with pytest.raises(ArgumentError, match="timeout must be None, as before, not 3"):
        walk.extend(timeout=3)


@pytest.mark.parametrize(
    ("options", "attributes", "message"),
    [
        ({"limits": Limits(max_hits=2)}, {}, "it has reached max_hits=2"),
        ({"limits": Limits(count_beyond_limits=True)}, {}, "leave count_beyond_limits out"),
        ({"max_depth": 1}, {"keeps_frontier": True}, "below max_depth=1 would have competed with the hits of Counting"),
        ({}, {"rank": None}, "it has not ended; request its hits"),
    ],
)
async def test_a_walk_that_cannot_go_on_as_one_walk_refuses(options, attributes, message):
    walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=2, **options)
    vars(walk.policy).update({name: value for name, value in attributes.items() if value is not None})
    if "rank" not in attributes:
        await ids_of(walk)
    with pytest.raises(WalkNotExtendable, match=message) as caught:
        walk.extend(node_budget=9, max_depth=None)
    assert isinstance(caught.value, AirwError)
    assert isinstance(caught.value, RuntimeError)


async def test_a_walk_that_failed_cannot_go_on():
    class Failing(Counting):
        async def expand(self, state, committed, store):
            raise KeyError("gone")

    walk = traverse("q", None, policy=Failing(pause=nothing))
    with pytest.raises(KeyError):
        await ids_of(walk)
    with pytest.raises(WalkNotExtendable, match="it failed; start another walk"):
        walk.extend(node_budget=99)


@dataclass(kw_only=True)
class Waiting(Strategy):
    async def iteration(self, nodes, tracker):
        tracker.select_and_traverse(nodes)
        await anyio.sleep(10)


def test_a_strategy_that_a_deadline_cancelled_cannot_go_on():
    async def main():
        async with MemoryStore() as store:
            await store.apply(Change(draw_changes(Random(1))))
            walk = traverse("n1", Corpus("drawn", store, EMBEDDER), policy=Waiting(), timeout=1)
            assert await ids_of(walk) == []
            before = walk.summary
            with pytest.raises(WalkNotExtendable, match=r"a deadline has cancelled Waiting\.iteration; start another"):
                walk.extend(timeout=60)
            assert walk.summary is before
            early = traverse("n1", Corpus("drawn", store, EMBEDDER), policy=Waiting(), timeout=0)
            assert await ids_of(early) == []
            assert await ids_of(early.extend(timeout=60))

    on_clock(main)


@pytest.mark.parametrize("form", ["hits", "events"])
def test_a_walk_whose_hits_were_read_ahead_and_lost_cannot_go_on(form):
    async def main():
        for taken, is_refused in ((1, True), (100, False)):
            walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=6)
            stream = walk if form == "hits" else walk.events()
            async with prefetch(stream) as items:
                await anyio.sleep(1)  # on the virtual clock: until the walk has ended
                assert len([await anext(items, None) for _ in range(taken)]) == taken
            assert walk.summary.stop == "node_budget"
            if is_refused:
                with pytest.raises(WalkNotExtendable, match="prefetch or merge was left before all its hits"):
                    walk.extend(node_budget=8)
            else:
                walk.extend(node_budget=8)
                assert len([item async for item in stream if not isinstance(item, StepDone | EdgeFound)]) >= 2

    on_clock(main)


def test_walks_of_a_merge_go_on_if_all_their_hits_were_taken():
    async def main():
        few, many = (traverse("q", None, policy=Counting(pause=nothing), node_budget=count) for count in (1, 4))
        async with merge(few, many, order="turns") as pairs:
            await anyio.sleep(1)  # until both have ended
            for _ in range(3):
                await anext(pairs)
        assert await ids_of(few.extend(node_budget=2)) == ["1"]
        with pytest.raises(WalkNotExtendable, match="prefetch or merge was left"):
            many.extend(node_budget=9)

    on_clock(main)


def test_events_of_a_cut_step_come_in_order():
    async def main():
        walk = traverse("q", None, policy=Counting(pause=nothing), node_budget=1)
        events = walk.events()
        kinds = [type(event) async for event in events]
        assert kinds == [NodeCommitted, StepDone, WalkEnded]
        walk.extend(node_budget=2)
        found = [event async for event in events]
        assert list(map(type, found)) == [EdgeFound, StepDone, NodeCommitted, StepDone, WalkEnded]
        assert [event.step for event in found if isinstance(event, StepDone)] == [1, 2]

    on_clock(main)
