"""Reading ahead of a consumer with `prefetch` and `merge`: bounds, order, and clean ends."""

import asyncio
import random
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.lowlevel
import pytest
import trio
from hypothesis import given, strategies as st

from airw.errors import ArgumentError, PolicyError
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from airw.walking import Policy, merge, prefetch
from tests.support.virtual_time import on_virtual_clock
from tests.support.waiting import PATIENCE


class Boom(Exception):
    """The error that the tests raise."""


class Source:
    """An async generator of `name0`, `name1`, ...

    It counts the items it made, and records whether it was opened and closed.
    """

    def __init__(self, name="", size=None, *, delays=(), fails_at=None, hangs_at=None, gate=None, closing=None):
        self.made, self.opened, self.closed, self.cleaned = 0, False, False, False
        self.closing, self.error = closing, Boom(name)
        self.fails_at, self.hangs_at, self.gate = fails_at, hangs_at, gate
        self.items = self._generate(name, size, list(delays))

    async def _generate(self, name, size, delays):
        self.opened = True
        try:
            while size is None or self.made < size:
                await anyio.sleep(delays.pop(0) if delays else 0)
                if self.made == self.fails_at:
                    if self.gate is not None:
                        await self.gate.wait()
                    raise self.error
                if self.made == self.hangs_at:
                    await anyio.sleep_forever()
                self.made += 1
                yield f"{name}{self.made - 1}"
        finally:
            self.closed = True
            if self.closing is not None:
                await self.closing()
                self.cleaned = True


class Chain(Policy):
    """Walks nodes 0, 1, 2, ..., one per step.

    Expanding node `hangs_at` never ends, expanding node `fails_at` fails.
    """

    max_depth = None

    def __init__(self, first=0, *, hangs_at=None, fails_at=None, fanout=1):
        self.first, self.hangs_at, self.fails_at, self.fanout = first, hangs_at, fails_at, fanout

    async def seed(self, state, store):
        return [self.first]

    async def score(self, state, nodes, store):
        return [-float(node) for node in nodes]

    async def expand(self, state, committed, store):
        await anyio.lowlevel.checkpoint()
        for entry in committed:
            if entry.id == self.fails_at:
                raise Boom(entry.id)
            if entry.id == self.hangs_at:
                await anyio.sleep_forever()
        return [range(entry.id + 1, entry.id + 1 + self.fanout) for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


def walk_of(policy, store=None, **options):
    return traverse("query", store, policy=policy, **options)


def tasks():
    """Return the tasks of the running loop, asyncio or trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        waiting, found = [trio.lowlevel.current_root_task()], set()
        while waiting:
            task = waiting.pop()
            found.add(task)
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
        return found
    return asyncio.all_tasks()


@asynccontextmanager
async def nothing_left(*sources):
    """Check that a block leaves no task and no open source, and ends in time."""
    before = tasks()
    with anyio.fail_after(PATIENCE):
        yield
    assert tasks() <= before
    assert [source.closed for source in sources] == [source.opened for source in sources]


async def settle():
    """Run other tasks until all of them wait."""
    for _ in range(500):
        await anyio.lowlevel.checkpoint()


async def read_items(block):
    return [item async for item in block]


async def read_names(block):
    """Return the items of a merge, without their sources."""
    return [item async for _, item in block]


def run_on_both(main):
    for backend in ("asyncio", "trio"):
        anyio.run(main, backend=backend)


BLOCKS = {
    "prefetch": prefetch,
    "arrival": lambda source, **options: merge(source, order="arrival", **options),
    "turns": lambda source, **options: merge(source, order="turns", **options),
}


@pytest.fixture(params=BLOCKS)
def block_of(request):
    """A function that reads ahead of one source, in each of the three modes."""
    return BLOCKS[request.param]


async def leave(block, error=None):
    """Take one item and leave the block, by an error if there is one."""
    async with block as items:
        await anext(items)
        await settle()
        if error is not None:
            raise error


def plain(item):
    return item[1] if isinstance(item, tuple) else item


# Order and bounds.


async def test_prefetch_yields_all_items_in_order():
    source = Source("a", 100)
    async with nothing_left(source), prefetch(source.items, buffer=7) as hits:
        assert await read_items(hits) == [f"a{number}" for number in range(100)]
        assert await anext(hits, "the end") == "the end"


@pytest.mark.parametrize("buffer", [1, 2, 32])
async def test_no_more_than_the_buffer_is_made_ahead_of_the_consumer(block_of, buffer):
    source = Source()
    async with nothing_left(source), block_of(source.items, buffer=buffer) as items:
        for number in range(5):
            await settle()
            assert source.made == number + buffer
            await anext(items)
        await settle()
        assert source.made == 5 + buffer


@pytest.mark.parametrize("order", ["arrival", "turns"])
async def test_merge_keeps_the_bound_for_each_source(order):
    sources = [Source("a"), Source("b", hangs_at=1), Source("c")]
    async with nothing_left(*sources), merge(*(s.items for s in sources), buffer=3, order=order) as pairs:
        await settle()
        assert [source.made for source in sources] == [3, 1, 3]
        taken_from = [(await anext(pairs))[0] for _ in range(2)]
        await settle()
        assert [source.made for source in sources] == [
            source.made if source is sources[1] else 3 + taken_from.count(source.items) for source in sources
        ]


async def test_the_source_works_while_the_consumer_does_something_else():
    source = Source(size=3)
    async with prefetch(source.items) as hits:
        await settle()
        assert source.closed
        assert source.made == 3
        assert len(await read_items(hits)) == 3


async def test_the_first_item_is_there_before_the_buffer_is_full():
    source = Source(hangs_at=1)
    async with nothing_left(source), prefetch(source.items, buffer=32) as hits:
        assert await anext(hits) == "0"


async def test_a_source_that_never_waits_fills_no_more_than_the_buffer_and_lets_others_run():
    async def count():
        for number in range(10**9):
            made.append(number)
            yield number

    made = []
    async with nothing_left(), prefetch(count(), buffer=4) as hits:
        assert [await anext(hits) for _ in range(10)] == list(range(10))
        await settle()
        assert len(made) == 14


async def test_turns_take_one_item_from_each_source_in_order_and_skip_ended_ones():
    sources = [Source("a", 1), Source("b", 4), Source("c", 0), Source("d", 2)]
    async with nothing_left(*sources), merge(*(s.items for s in sources), order="turns") as pairs:
        assert await read_names(pairs) == ["a0", "b0", "d0", "b1", "d1", "b2", "b3"]


PLANS = st.lists(st.tuples(st.integers(0, 5), st.booleans()), max_size=4)


@given(PLANS, st.integers(1, 3), st.randoms(use_true_random=False))
def test_turns_are_the_same_for_every_timing(plans, buffer, chance):
    """Items and failure are those of a plain loop.

    Sources have any length, end or fail, and run at any pace.
    """
    expected = []
    for turn in range(6):
        for index, (size, fails) in enumerate(plans):
            if "stop" not in expected and turn <= size:
                expected += [f"{index}.{turn}"] if turn < size else ["stop"] if fails else []

    async def main():
        pace = lambda: [chance.choice([0, 0, 0.0002]) for _ in range(6)]  # noqa: E731
        sources = [
            Source(f"{index}.", size + fails, delays=pace(), fails_at=size if fails else None)
            for index, (size, fails) in enumerate(plans)
        ]
        async with nothing_left(*sources):
            seen = []
            try:
                async with merge(*(s.items for s in sources), buffer=buffer, order="turns") as pairs:
                    async for _, item in pairs:
                        seen.append(item)
                        await anyio.sleep(chance.choice([0, 0.0002]))
            except Boom:
                seen.append("stop")
        assert seen == expected

    run_on_both(main)


async def test_arrival_yields_items_as_they_come_with_their_source():
    slow, fast = Source("slow", 2, hangs_at=1), Source("fast", 3)
    async with nothing_left(slow, fast), merge(slow.items, fast.items) as pairs:
        seen = [await anext(pairs) for _ in range(4)]
    assert sorted(item for _, item in seen) == ["fast0", "fast1", "fast2", "slow0"]
    assert all(source is (slow if item.startswith("slow") else fast).items for source, item in seen)


async def test_in_arrival_all_sources_run_at_once_and_lose_nothing():
    """Each of them waits until all of them have begun."""
    begun = [anyio.Event() for _ in range(5)]

    async def count(index):
        begun[index].set()
        for event in begun:
            await event.wait()
        for number in range(50):
            await anyio.lowlevel.checkpoint()
            yield index, number

    async with nothing_left(), merge(*map(count, range(5)), buffer=2) as pairs:
        seen = await read_names(pairs)
    assert sorted(seen) == [(index, number) for index in range(5) for number in range(50)]
    assert all([n for i, n in seen if i == index] == list(range(50)) for index in range(5))


@pytest.mark.parametrize("order", ["arrival", "turns"])
async def test_a_merge_of_nothing_ends_at_once(order):
    async with nothing_left(), merge(order=order) as pairs:
        assert await read_names(pairs) == []


# Walks.


@pytest.mark.parametrize(
    "options",
    [
        {"node_budget": 5},
        {"node_budget": 0},
        {"limits": Limits(max_hits=4)},
        {"limits": Limits(max_fanout=2, count_beyond_limits=True), "node_budget": 9},
        {"max_depth": 3},
        {"timeout": 0},
    ],
)
async def test_a_prefetched_walk_has_the_hits_the_summary_and_the_ranking_of_a_plain_one(options):
    alone, ahead = (walk_of(Chain(fanout=3), **options) for _ in range(2))
    expected = [hit async for hit in alone]
    async with nothing_left(), prefetch(ahead, buffer=3) as hits:
        assert await read_items(hits) == expected
    says = [walk.summary.to_dict() | {"seconds": 0} for walk in (alone, ahead)]
    assert says[0] == says[1]
    assert ahead.ranking == alone.ranking


@on_virtual_clock
async def test_a_deadline_ends_a_prefetched_walk_after_its_finished_items():
    walk = walk_of(Chain(hangs_at=2), timeout=0.2)
    async with nothing_left(), prefetch(walk) as hits:
        assert [hit.artifact_id for hit in await read_items(hits)] == ["0", "1", "2"]
    assert walk.summary.stop == "timeout"


@pytest.mark.parametrize("order", ["arrival", "turns"])
async def test_merged_walks_yield_what_each_yields_alone(order):
    class Shared(Chain):
        async def expand(self, state, committed, store):
            store["calls"] += 1
            await anyio.sleep(random.choice([0, 0.001]))
            return await super().expand(state, committed, store)

    store = {"calls": 0}
    policies = [Shared(first, fanout=2) for first in (0, 100, 200)]
    alone = [[hit async for hit in walk_of(policy, store, node_budget=20)] for policy in policies]
    walks = [walk_of(policy, store, node_budget=20) for policy in policies]
    seen = {walk: [] for walk in walks}
    async with nothing_left(), merge(*walks, buffer=2, order=order) as pairs:
        async for walk, hit in pairs:
            seen[walk].append(hit)
    assert [seen[walk] for walk in walks] == alone
    assert {walk.summary.stop for walk in walks} == {"node_budget"}


@pytest.mark.parametrize("order", ["arrival", "turns"])
async def test_leaving_closes_a_walk_whose_policy_hangs(order):
    hung, idle, ended = walk_of(Chain(hangs_at=0)), walk_of(Chain()), walk_of(Chain(), node_budget=1)
    async with nothing_left(), merge(hung, idle, ended, buffer=4, order=order) as pairs:
        await anext(pairs)
        await settle()
        assert hung.summary is None
    assert [walk.summary.stop for walk in (hung, idle, ended)] == ["closed", "closed", "node_budget"]


async def test_a_walk_closed_by_its_own_aclose_ends_the_iteration_after_its_finished_items():
    walk = walk_of(Chain(hangs_at=1))
    async with nothing_left(), prefetch(walk) as hits:
        await settle()
        await walk.aclose()
        assert [hit.artifact_id for hit in await read_items(hits)] == ["0", "1"]


# Failures.


async def test_items_made_before_a_failure_come_first_then_the_failure_as_itself(block_of):
    source = Source(fails_at=3)
    async with nothing_left(source), block_of(source.items) as items:
        await settle()
        assert [plain(await anext(items)) for _ in range(3)] == ["0", "1", "2"]
        with pytest.raises(Boom) as caught:
            await anext(items)
        assert caught.value is source.error
        assert await anext(items, "the end") == "the end"


async def test_a_failure_that_the_body_lets_through_leaves_the_block_as_itself(block_of):
    source = Source(fails_at=0)
    async with nothing_left(source):
        with pytest.raises(Boom) as caught:
            async with block_of(source.items) as items:
                await anext(items)
        assert caught.value is source.error


async def test_the_failure_of_a_walk_keeps_its_note_and_its_summary_reports_it():
    walk = walk_of(Chain(fails_at=1))
    async with nothing_left(), prefetch(walk) as hits:
        with pytest.raises(Boom) as caught:
            await read_items(hits)
    assert "expand" in caught.value.__notes__[0]
    assert walk.summary.stop == "failed"


async def test_in_arrival_the_first_failure_closes_the_others_at_once_and_follows_earlier_items():
    gate = anyio.Event()
    sources = [Source("a", hangs_at=2), Source("b"), Source("c", fails_at=1, gate=gate)]
    async with nothing_left(*sources), merge(*(s.items for s in sources), buffer=3) as pairs:
        await settle()
        gate.set()
        await settle()
        assert all(source.closed for source in sources)
        assert sorted([(await anext(pairs))[1] for _ in range(6)]) == ["a0", "a1", "b0", "b1", "b2", "c0"]
        with pytest.raises(Boom) as caught:
            await anext(pairs)
        assert caught.value is sources[2].error
        assert await read_names(pairs) == []


@pytest.mark.parametrize("order", ["arrival", "turns"])
async def test_a_failure_caused_by_another_failure_is_not_raised(order):
    async def fail():
        raise Boom("closing")

    gate = anyio.Event()
    sources = [Source("a", fails_at=0, gate=gate), Source("b", hangs_at=0, closing=fail), Source("c", closing=fail)]
    async with nothing_left(*sources), merge(*(s.items for s in sources), buffer=1, order=order) as pairs:
        await settle()
        gate.set()
        with pytest.raises(Boom) as caught:
            await read_names(pairs)
        assert caught.value is sources[0].error


async def test_in_turns_a_failure_waits_for_its_turn_and_then_closes_the_others():
    sources = [Source("a", delays=[0.01] * 3), Source("b", fails_at=1), Source("c")]
    async with nothing_left(*sources), merge(*(s.items for s in sources), buffer=2, order="turns") as pairs:
        await settle()
        assert sources[1].closed
        assert [(await anext(pairs))[1] for _ in range(4)] == ["a0", "b0", "c0", "a1"]
        with pytest.raises(Boom, match="b"):
            await anext(pairs)
        await settle()
        assert all(source.closed for source in sources)


async def test_a_failure_that_the_consumer_never_reached_is_not_raised(block_of):
    source = Source(fails_at=1)
    async with nothing_left(source), block_of(source.items) as items:
        await anext(items)
        await settle()
        assert source.closed


async def test_failures_caused_by_an_unreached_failure_are_not_raised():
    async def fail():
        raise Boom("closing")

    sources = [Source("a", 1), Source("b", fails_at=0), Source("c", hangs_at=0, closing=fail)]
    async with nothing_left(*sources), merge(*(s.items for s in sources)):
        await settle()
        assert all(source.closed for source in sources)


async def test_a_consumer_shielded_from_a_cancellation_sees_it_and_no_end_when_the_source_was_cancelled(block_of):
    source = Source(hangs_at=1)
    seen = []
    async with nothing_left(source):
        with anyio.CancelScope() as scope:
            async with block_of(source.items) as items:
                await anext(items)
                scope.cancel()
                with anyio.CancelScope(shield=True):
                    seen += await read_items(items)
                seen.append("the end")
        assert scope.cancelled_caught
        assert seen == []


async def test_an_error_group_raised_by_a_source_stays_a_group():
    async def failing():
        raise ExceptionGroup("its own", [Boom()])
        yield

    async with nothing_left(), prefetch(failing()) as hits:
        with pytest.raises(ExceptionGroup, match="its own"):
            await anext(hits)


async def test_an_exit_of_the_program_in_a_source_is_raised_at_once():
    """It need not be taken: it ends the block at once, as itself."""

    class Exit(BaseException):
        pass

    async def leaving():
        yield 0
        raise Exit

    source = Source(hangs_at=0)
    async with nothing_left(source):
        with pytest.raises(Exit):
            async with merge(leaving(), source.items):
                await anyio.sleep_forever()


@pytest.mark.asyncio_only
async def test_a_source_that_awaits_something_cancelled_does_not_end_the_stream_in_silence():
    async def awaiting():
        yield 0
        other = asyncio.ensure_future(asyncio.sleep(10))
        other.cancel()
        await other

    async with nothing_left(), prefetch(awaiting()) as hits:
        assert await anext(hits) == 0
        with pytest.raises(asyncio.CancelledError):
            await anext(hits)
        assert await anext(hits, "the end") == "the end"


# Leaving.


async def test_leaving_in_the_middle_closes_the_source_and_ends_its_task(block_of):
    for hangs_at in (None, 1):  # waiting for room, and at work
        source = Source(hangs_at=hangs_at)
        async with nothing_left(source):
            async with block_of(source.items) as items:
                async for _ in items:
                    break
                await settle()
                assert source.opened
            assert source.closed


async def test_an_error_of_the_body_arrives_as_itself_and_closes_the_sources(block_of):
    source = Source(hangs_at=2)
    error = Boom("body")
    async with nothing_left(source):
        with pytest.raises(Boom) as caught:
            await leave(block_of(source.items), error)
        assert caught.value is error


async def test_leaving_without_taking_anything_runs_nothing_more():
    source = Source()
    walk = walk_of(Chain())
    async with nothing_left(source):
        async with merge(source.items, walk):
            pass
        assert source.made == 0
    assert walk.summary.stop == "closed"


async def test_cancelling_a_waiting_consumer_is_immediate_and_closes_the_sources(block_of):
    source = Source(hangs_at=1)
    reached = []
    async with nothing_left(source):
        with anyio.CancelScope() as scope:
            async with block_of(source.items) as items, anyio.create_task_group() as group:
                await anext(items)
                group.start_soon(anext, items)
                await settle()
                scope.cancel()
                await anyio.lowlevel.checkpoint()
                reached.append(items)
        assert scope.cancelled_caught
        assert source.closed
        assert not reached


async def test_a_cancelled_consumer_stops_even_when_items_wait(block_of):
    source = Source()
    async with nothing_left(source), block_of(source.items) as items:
        await settle()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anext(items)
        assert scope.cancelled_caught
        assert plain(await anext(items)) == "0"


@on_virtual_clock
async def test_a_timeout_round_the_block_closes_the_sources(block_of):
    source = Source(hangs_at=1)
    async with nothing_left(source):
        with pytest.raises(TimeoutError), anyio.fail_after(0.02):
            async with block_of(source.items) as items:
                await read_items(items)
        assert source.closed


@pytest.mark.asyncio_only
async def test_a_cancellation_by_asyncio_closes_the_sources(block_of):
    source = Source(hangs_at=1)

    async def consume():
        async with block_of(source.items) as items:
            await read_items(items)

    async with nothing_left(source):
        task = asyncio.ensure_future(consume())
        await settle()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert source.closed


@on_virtual_clock
async def test_a_request_that_timed_out_loses_no_item(block_of):
    source = Source(size=40, delays=[0.001] * 40)
    seen = []
    async with nothing_left(source), block_of(source.items, buffer=2) as items:
        while len(seen) < 40:
            with anyio.move_on_after(0.0007):
                seen.append(plain(await anext(items)))
    assert seen == [str(number) for number in range(40)]


@pytest.mark.asyncio_only
@pytest.mark.parametrize("passes", range(15))
async def test_a_request_that_asyncio_cancels_as_its_item_comes_loses_no_item(block_of, passes):
    """This holds for any number of loop passes between the item and the cancellation."""
    gate = asyncio.Event()

    async def wait_at_gate():
        await gate.wait()
        yield 1
        yield 2

    seen = []
    async with nothing_left(), block_of(wait_at_gate()) as items:
        request = asyncio.ensure_future(anext(items))
        await settle()
        gate.set()
        for _ in range(passes):
            await asyncio.sleep(0)
        request.cancel()
        with suppress(asyncio.CancelledError):
            seen.append(await request)
        seen += await read_items(items)
    assert [plain(item) for item in seen] == [1, 2]


@on_virtual_clock
async def test_a_source_at_rest_may_finish_its_cleanup_however_the_block_ends(block_of):
    sources = [Source(closing=lambda: anyio.sleep(0.01)) for _ in range(2)]
    async with nothing_left(*sources):
        await leave(block_of(sources[0].items, buffer=1))
        with pytest.raises(Boom):
            await leave(block_of(sources[1].items, buffer=1), Boom())
    assert [source.cleaned for source in sources] == [True, True]


@pytest.mark.parametrize("error", [None, Boom("body")])
async def test_an_error_of_closing_is_raised_unless_the_body_raised_one(error):
    async def fail():
        raise Boom("closing")

    sources = [Source(closing=fail), Source(closing=fail, hangs_at=0), Source(hangs_at=0)]
    async with nothing_left(*sources):
        with pytest.raises(Boom, match="body" if error else "closing"):
            await leave(merge(*(s.items for s in sources)), error)


async def test_a_source_is_run_and_closed_by_one_task():
    seen = []

    async def generate():
        try:
            while True:
                seen.append(anyio.get_current_task().id)
                yield 0
        finally:
            seen.append(anyio.get_current_task().id)

    async with nothing_left(), prefetch(generate(), buffer=2) as hits:
        await anext(hits)
        await settle()
    assert len(seen) == 4
    assert len(set(seen)) == 1


async def test_aclose_closes_the_sources_and_ends_the_iteration_of_another_task(block_of):
    source = Source(hangs_at=1)
    seen = []

    async def consume(items):
        seen.extend([plain(item) async for item in items])
        seen.append("the end")

    async with nothing_left(source), block_of(source.items) as items:
        async with anyio.create_task_group() as group:
            group.start_soon(consume, items)
            await settle()
            await items.aclose()
            assert source.closed
            await items.aclose()
        assert seen == ["0", "the end"]
        assert await read_items(items) == []


async def test_aclose_drops_items_that_were_not_taken(block_of):
    source = Source()
    async with nothing_left(source), block_of(source.items) as items:
        await settle()
        await items.aclose()
        assert await read_items(items) == []


# Wrong uses.


async def test_two_tasks_cannot_take_at_once(block_of):
    source = Source(hangs_at=0)
    async with nothing_left(source), block_of(source.items) as items, anyio.create_task_group() as group:
        group.start_soon(anext, items, None)
        await settle()
        with pytest.raises(RuntimeError, match="request items from one task at a time"):
            await anext(items)
        await items.aclose()


async def test_items_can_be_taken_only_inside_the_block(block_of):
    source = Source()
    block = block_of(source.items)
    with pytest.raises(RuntimeError, match="inside the block"):
        await anext(block)
    await block.aclose()
    async with nothing_left(source), block as items:
        await anext(items)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="inside the block"):
            await anext(items)
    await items.aclose()


async def test_another_task_that_waits_when_the_block_is_left_gets_an_error():
    source = Source(hangs_at=0)
    block = prefetch(source.items)

    async def wait():
        with pytest.raises(RuntimeError, match="inside the block"):
            await anext(block)

    async with nothing_left(source), anyio.create_task_group() as group, block:
        group.start_soon(wait)
        await settle()


async def test_a_block_cannot_be_entered_twice(block_of):
    source = Source(size=1)
    block = block_of(source.items)
    async with nothing_left(source), block:
        with pytest.raises(RuntimeError, match="entered before"):
            await block.__aenter__()
    with pytest.raises(RuntimeError, match="entered before"):
        await block.__aenter__()


async def test_a_block_never_entered_runs_and_closes_nothing(block_of):
    source = Source()
    block_of(source.items)
    await settle()
    assert not source.opened
    await source.items.aclose()


class Ugly:
    def __repr__(self):
        return "two\nlines"


@pytest.mark.parametrize("wrong", [None, 1, "walk", [1], iter([1]), Source._generate, Ugly(), Chain()])
def test_a_value_that_is_no_async_generator_is_refused_at_the_call(wrong):
    for call in (prefetch, merge):
        with pytest.raises(ArgumentError, match="takes walks and other async generators, not ") as caught:
            call(wrong)
        assert str(caught.value).startswith(call.__name__)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("buffer", [0, -1, 1.0, True, None, "32", float("inf")])
def test_a_buffer_is_a_whole_number_of_at_least_one(block_of, buffer):
    with pytest.raises(ArgumentError, match="buffer must be a whole number of at least 1, not "):
        block_of(walk_of(Chain()), buffer=buffer)


def test_merge_refuses_duplicate_walks_and_unknown_orders():
    walk = walk_of(Chain())
    with pytest.raises(ArgumentError, match="the same walk twice"):
        merge(walk, walk_of(Chain()), walk)
    for wrong in ("sorted", None, ""):
        with pytest.raises(ArgumentError, match="order must be one of 'arrival', 'turns', not "):
            merge(walk, order=wrong)


async def test_an_error_of_a_policy_is_the_same_with_and_without_prefetch():
    class Broken(Chain):
        async def score(self, state, nodes, store):
            return [float("nan")] * len(nodes)

    async with nothing_left(), prefetch(walk_of(Broken())) as hits:
        with pytest.raises(PolicyError, match="Broken"):
            await anext(hits)
