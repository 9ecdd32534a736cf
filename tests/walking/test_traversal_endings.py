"""The ends of walks: by policies, by consumers in every manner, and by event loops.

Invalid answers of policies are tested in `test_traversal_adversary.py`, errors in `test_traversal_errors.py`.
"""

import asyncio
import gc
import weakref
from contextlib import aclosing, suppress
from itertools import count

import anyio
import outcome
import pytest

from airw.values import SearchHit
from airw.walking import top_k
from tests.support.adversaries import (
    CHAIN,
    FORMS,
    PATIENCE,
    STAR,
    AsyncIterator,
    Batched,
    Sources,
    every_form,
    failing,
    leaving_nothing,
    run_walk,
    running,
    walk_of,
)
from tests.support.virtual_time import on_virtual_clock

STAGES = [
    "seed",
    "read seeds",
    "score",
    "select",
    "to_hits",
    "stop",
    "expand",
    "read neighbours",
    "count beyond limits",
]
every_stage = pytest.mark.parametrize("stage", STAGES)
two_forms = pytest.mark.parametrize("form", [Batched, FORMS["per node, async"]], ids=["batched", "per node, async"])


class Stage:
    """A policy method that waits forever at one stage.

    It may also swallow its cancellation or raise an error.
    """

    def __init__(self, stage, *, swallows=0, error=None, read="hits"):
        self.stage, self.swallows, self.error, self.read = stage, swallows, error, read
        self.started, self.left, self.options = anyio.Event(), 0, {}
        self.patience = anyio.CancelScope()
        if stage == "count beyond limits":
            self.stage, self.options = "expand", {"max_depth": 0}

    def policy(self, form, edges=STAR):
        return form(edges, at=self.stage, do=self)

    def stream(self, walk):
        self.taken_from = walk if self.read == "hits" else walk.events()
        return self.taken_from

    async def __call__(self, state):
        self.started.set()
        self.patience.deadline = anyio.current_time()
        try:
            for _ in range(self.swallows):
                with suppress(anyio.get_cancelled_exc_class()):
                    await anyio.sleep_forever()
            if not self.swallows:
                await anyio.sleep_forever()
        finally:
            self.left += 1
            if self.error is not None:
                raise self.error


async def by_deadline(stage, policy, seen):
    for timeout in (0.02, 0.2, 2.0, 20.0):  # a busy machine may need more to get to the stage
        seen.clear()
        walk = walk_of(policy, timeout=timeout, **stage.options)
        await take(stage.stream(walk), seen)
        if stage.left:
            break
    return walk


async def by_cancellation(stage, policy, seen):
    walk = walk_of(policy, **stage.options)
    async with anyio.create_task_group() as group:
        group.start_soon(take, stage.stream(walk), seen)
        await stage.started.wait()
        group.cancel_scope.cancel()
    return walk


async def by_closing_elsewhere(stage, policy, seen):
    walk, ended = walk_of(policy, **stage.options), []
    async with anyio.create_task_group() as group:
        group.start_soon(take, stage.stream(walk), seen, ended)
        await stage.started.wait()
        await walk.aclose()
        assert walk.summary is not None
    assert ended == ["normally"]
    return walk


async def by_a_timeout_of_each_request(stage, policy, seen):
    walk = walk_of(policy, **stage.options)
    stream = stage.stream(walk)
    with suppress(StopAsyncIteration):
        while not stage.left:
            with anyio.CancelScope() as stage.patience:  # it ends once the stage is reached
                seen.append(await anext(stream))
    return walk


async def take(stream, seen, ended=()):
    """Take all hits or events, and record how the walk ended."""
    async for one in stream:
        seen.append(one)
    if isinstance(ended, list):
        ended.append("normally")


def hits_in(seen):
    """Return the hits among hits or events."""
    found = [one if isinstance(one, SearchHit) else getattr(one, "hit", None) for one in seen]
    return [hit.artifact_id for hit in found if hit is not None]


ENDS = [by_deadline, by_cancellation, by_closing_elsewhere, by_a_timeout_of_each_request]
every_end = pytest.mark.parametrize("end", ENDS)
as_hits_and_as_events = pytest.mark.parametrize("read", ["hits", "events"])


# Policies that return late or never.


@pytest.mark.pairwise
@every_form
@every_stage
@every_end
@as_hits_and_as_events
async def test_a_policy_that_never_returns_is_interrupted(form, stage, end, read):
    at, seen = Stage(stage, read=read), []
    async with leaving_nothing():
        walk = await end(at, at.policy(form), seen)
        assert await anext(at.taken_from, None) is None
    assert at.left == 1
    cut = "exhausted" if stage == "count beyond limits" else "timeout"
    assert walk.summary.stop == (cut if end is by_deadline else "closed")
    assert walk.summary.emitted == len(hits_in(seen)) == int(STAGES.index(stage) > STAGES.index("to_hits"))


@pytest.mark.pairwise
@two_forms
@every_stage
@every_end
async def test_a_walk_waits_for_a_policy_that_swallows_cancellation_and_then_ends(form, stage, end):
    at, seen = Stage(stage, swallows=3), []
    async with leaving_nothing():
        walk = await end(at, at.policy(form), seen)
        if end is by_a_timeout_of_each_request:
            await walk.aclose()
        assert await anext(walk, None) is None
    assert at.left >= 1
    stops = {
        by_deadline: {"timeout", "exhausted"} if stage == "count beyond limits" else {"timeout"},
        by_cancellation: {"closed", "exhausted"} if stage == "count beyond limits" else {"closed"},
        by_closing_elsewhere: {"closed", "exhausted"} if stage == "count beyond limits" else {"closed"},
        by_a_timeout_of_each_request: {"closed", "exhausted"},
    }
    assert walk.summary.stop in stops[end]
    assert walk.summary.emitted == len(seen)


@pytest.mark.pairwise
@two_forms
@every_stage
@pytest.mark.parametrize("end", ENDS[:3])
async def test_a_policy_that_raises_while_it_is_interrupted_fails_the_walk(form, stage, end):
    at, found = Stage(stage, error=KeyError("mine")), None
    async with leaving_nothing():
        try:
            await end(at, at.policy(form), [])
        except KeyError as error:
            found = error
        except ExceptionGroup as group:  # of the consumer's own tasks
            [found] = group.exceptions
    assert found is at.error
    assert at.left == 1


@on_virtual_clock
async def test_iterables_that_never_close_delay_a_walk_by_one_second_at_most():
    """Ten of them are read side by side."""
    closing = []

    class Stuck(AsyncIterator):
        async def aclose(self):
            closing.append(self)
            await anyio.sleep_forever()

    policy = Batched(lambda node: Stuck(count(node * 10)), seeds=range(10))
    ids, _ = await run_walk(policy, node_budget=12, limits={"max_fanout": 5})
    assert anyio.current_time() <= 1
    assert len(ids) == 12
    assert len(closing) == 10


@pytest.mark.pairwise
@every_form
@every_end
async def test_the_sources_of_an_interrupted_step_are_closed(form, end):
    """Eight sources are read side by side; one of them never ends."""
    at, sources = Stage("reading"), Sources()

    async def never():
        await at(None)
        yield 0

    def neighbours(id):
        if id == 7:
            return never()
        return sources.make("async cursor" if id % 2 else "generator", count(100 * id)) if id else range(1, 9)

    async with leaving_nothing():
        walk = await end(at, form(neighbours), [])
    assert walk.summary.emitted == 9
    assert sum(sources.taken) > 0
    assert sources.open == 0


async def test_sources_are_closed_even_when_the_policy_swallows_the_cancellation_of_their_reading():
    """Of eight async iterables read side by side, one never ends and the next one swallows."""
    sources, started = Sources(), anyio.Event()

    async def never(id):
        started.set()
        for _ in range(2):
            with suppress(anyio.get_cancelled_exc_class()):
                await anyio.sleep_forever()
        yield id * 100

    def neighbours(id):
        if id == 0:
            return range(1, 9)
        return never(id) if id > 6 else sources.make("async cursor", count(id * 100))

    seen, ended = [], []
    async with leaving_nothing():
        walk = walk_of(Batched(neighbours), limits={"max_fanout": 10})
        async with anyio.create_task_group() as group:
            group.start_soon(take, walk, seen, ended)
            await started.wait()
            await walk.aclose()
    assert (ended, sources.open) == (["normally"], 0)
    assert walk.summary.emitted == len(seen)


@on_virtual_clock
async def test_tasks_that_a_policy_starts_end_with_its_method():
    began, ended = [], []

    async def work():
        began.append(1)
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(1)

    async def do(state):
        async with anyio.create_task_group() as group:
            for _ in range(5):
                group.start_soon(work)

    for stage in STAGES[:-1]:
        for form in FORMS.values():
            _, summary = await run_walk(form(CHAIN, at=stage, do=do), timeout=0.005)
            assert summary.stop == "timeout"
    assert len(began) == len(ended) > 0


# A policy that takes hits from, or closes, its own walk.


ASYNC_STAGES = STAGES[:-1]


def acting(form, stage, act):
    """Return a walk whose policy does something to it at a stage, once."""
    walks = []

    async def do(state):
        while walks:
            await act(walks.pop())

    walks.append(walk_of(form(CHAIN, at=stage, do=do)))
    return walks[0]


@pytest.mark.pairwise
@two_forms
@pytest.mark.parametrize("stage", ASYNC_STAGES)
@pytest.mark.parametrize("method", ["anext", "asend", "async for", "top_k"])
async def test_a_policy_that_takes_hits_from_its_own_walk_gets_an_error(form, stage, method):
    async def act(walk):
        if method == "anext":
            await anext(walk)
        elif method == "asend":
            await walk.asend(None)
        elif method == "async for":
            async for _ in walk:
                pass
        else:
            await top_k(walk)

    async with leaving_nothing():
        walk = acting(form, stage, act)
        with suppress(RuntimeError):
            async for _ in walk:
                pass
    assert walk.summary.stop in ("failed", "closed")
    assert await anext(walk, None) is None


@pytest.mark.pairwise
@two_forms
@pytest.mark.parametrize("stage", ASYNC_STAGES)
@pytest.mark.parametrize("method", ["aclose", "athrow", "async with", "in a task of its own"])
async def test_a_policy_that_closes_its_own_walk_ends_it(form, stage, method):
    async def act(walk):
        if method == "aclose":
            await walk.aclose()
        elif method == "athrow":
            await walk.athrow(KeyError("mine"))
        elif method == "async with":
            async with walk:
                pass
        else:
            async with anyio.create_task_group() as group:
                group.start_soon(walk.aclose)

    async with leaving_nothing():
        walk = acting(form, stage, act)
        with suppress(RuntimeError, KeyError):
            async for _ in walk:
                pass
    assert walk.summary.stop in ("failed", "closed")
    assert await anext(walk, None) is None


@pytest.mark.parametrize("stage", ASYNC_STAGES)
async def test_a_policy_that_closes_its_own_walk_in_a_shield_does_not_wait_for_itself(stage):
    waited = []

    async def act(walk):
        with anyio.move_on_after(PATIENCE / 2, shield=True) as scope:
            try:
                await walk.aclose()
            finally:
                waited.append(scope.cancel_called)

    async with leaving_nothing():
        walk = acting(Batched, stage, act)
        with suppress(RuntimeError):
            async for _ in walk:
                pass
    assert waited == [False]
    assert walk.summary.stop in ("failed", "closed")


# Consumers that leave.


def lively(sources):
    """Return a policy that waits at each stage; its async neighbours are counted."""

    class Lively(Batched):
        async def score(self, state, nodes, store):
            await anyio.lowlevel.checkpoint()
            return [0.0] * len(nodes)

        async def to_hits(self, state, committed, store):
            await anyio.lowlevel.checkpoint()
            return await super().to_hits(state, committed, store)

        async def stop(self, state):
            await anyio.lowlevel.checkpoint()
            return False

    return Lively(lambda node: sources.make("async cursor", range(3 * node + 1, 3 * node + 4)))


TURNS = range(70)


async def whole():
    return (await run_walk(lively(Sources()), max_depth=2))[0]


@pytest.mark.parametrize("how", ["cancelled", "closed elsewhere"])
@as_hits_and_as_events
async def test_a_walk_left_at_any_moment_has_counted_exactly_the_hits_it_yielded(how, read):
    """No hit is lost or repeated, even if one is just ready, and no source stays open."""
    expected = await whole()
    stops = []
    for turns in TURNS:
        sources, seen, ended = Sources(), [], []
        async with leaving_nothing():
            walk = walk_of(lively(sources), max_depth=2)
            stream = walk if read == "hits" else walk.events()
            async with anyio.create_task_group() as group:
                group.start_soon(take, stream, seen, ended)
                for _ in range(turns):
                    await anyio.lowlevel.checkpoint()
                if how == "cancelled":
                    group.cancel_scope.cancel()
                else:
                    await stream.aclose()
                    assert walk.summary is not None
            await walk.aclose()
        assert hits_in(seen) == expected[: walk.summary.emitted]
        assert sources.open == 0
        stops.append(walk.summary.stop)
        assert how == "cancelled" or ended == ["normally"]
    assert {"closed", "exhausted"} == set(stops)


@pytest.mark.asyncio_only
@pytest.mark.parametrize("how", ["task.cancel", "wait_for", "timeout"])
async def test_timeouts_and_cancellations_of_asyncio_leave_nothing_behind(how):
    expected = await whole()
    for turns in TURNS:
        sources, seen = Sources(), []

        async def consume(walk, seen):
            with suppress(TimeoutError):
                if how == "timeout":
                    async with asyncio.timeout(0.00005 * turns):  # noqa: B023 (awaited in this turn)
                        await take(walk, seen)
                elif how == "wait_for":
                    await asyncio.wait_for(take(walk, seen), 0.00005 * turns)  # noqa: B023
                else:
                    await take(walk, seen)

        async with leaving_nothing():
            walk = walk_of(lively(sources), max_depth=2)
            task = asyncio.create_task(consume(walk, seen))
            for _ in range(turns):
                await asyncio.sleep(0)
            if how == "task.cancel":
                task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await walk.aclose()
        assert [hit.artifact_id for hit in seen] == expected[: len(seen)]
        assert walk.summary.emitted == len(seen)
        assert sources.open == 0


async def requests(walk, patience):
    while True:
        yield await asyncio.wait_for(anext(walk), patience)


@pytest.mark.asyncio_only
@two_forms
@every_stage
async def test_wait_for_around_a_request_closes_the_walk_at_every_stage(form, stage):
    for patience in (0.01, 0.2, 2.0, 20.0):  # a busy machine may need more to get to the stage
        at = Stage(stage)
        async with leaving_nothing():
            walk = walk_of(at.policy(form), **at.options)
            with pytest.raises(TimeoutError):
                [hit async for hit in requests(walk, patience)]
            assert walk.summary.stop == "closed"
        if at.left:
            break
    assert at.left == 1


@pytest.mark.pairwise
@two_forms
@pytest.mark.parametrize("taken", [0, 5])
@pytest.mark.parametrize("how", ["break", "return", "raise", "aclosing", "async with", "dropped"])
@as_hits_and_as_events
async def test_nothing_is_left_behind_for_every_end_of_a_loop(form, taken, how, read):
    sources = Sources()

    async def consume():
        walk = walk_of(form(lambda node: sources.make("async generator", range(9 * node + 1, 9 * node + 10))))
        gone = weakref.ref(walk)
        stream = walk if read == "hits" else walk.events()
        if how == "dropped":
            for _ in range(taken):
                await anext(stream)
            return gone
        if how in ("aclosing", "async with"):
            async with walk if how == "async with" else aclosing(stream):
                for _ in range(taken):
                    await anext(stream)
            assert walk.summary.stop == "closed"
            return gone
        seen = 0
        async for _ in stream:
            assert sources.open == 0
            seen += 1
            if seen > taken:
                if how == "raise":
                    raise KeyError("the consumer's")
                if how == "return":
                    return gone
                break
        return gone

    async with leaving_nothing():
        with suppress(KeyError):
            gone = await consume()
            assert gone() is None, "no cycle keeps it"
        gc.collect()
    assert gc.garbage == []
    assert sources.open == 0


@pytest.mark.parametrize("stage", [stage for stage in STAGES if not stage.startswith("read")])
async def test_a_request_dropped_in_the_middle_of_a_step_ends_the_walk(stage, anyio_backend):
    """The task is destroyed.

    Its coroutine is closed where it waits, and cannot wait for anything more.
    """
    at = Stage(stage)
    async with leaving_nothing():
        walk = walk_of(at.policy(Batched), **at.options)
        answer_of = outcome.Value if anyio_backend == "trio" else lambda value: value  # to a checkpoint
        while not at.started.is_set():
            request, answer = walk.asend(None), None
            with suppress(StopIteration):
                while not at.started.is_set():
                    request.send(answer)
                    answer = answer_of(None)
        request.close()
        del request
        gc.collect()
        assert await anext(walk, None) is None
    assert (walk.summary.stop, at.left) == ("closed", 1)


async def test_the_error_for_a_second_reader_suggests_prefetch_and_the_first_reader_continues():
    walk, messages, seen = walk_of(lively(Sources()), max_depth=2), [], []

    async def second():
        for method in (walk.__anext__, lambda: walk.asend(None)):
            try:
                await method()
            except RuntimeError as error:
                messages.append(str(error))

    async with leaving_nothing(), anyio.create_task_group() as group:
        group.start_soon(take, walk, seen)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()
        await second()
    assert [hit.artifact_id for hit in seen] == await whole()
    assert len(messages) == 2
    assert all("prefetch" in message for message in messages)


async def test_two_tasks_may_take_hits_in_turns():
    walk, lock, seen = walk_of(lively(Sources()), max_depth=2), anyio.Lock(), []

    async def some():
        while True:
            async with lock:
                hit = await anext(walk, None)
            if hit is None:
                return
            seen.append(hit.artifact_id)

    async with leaving_nothing(), anyio.create_task_group() as group:
        for _ in range(3):
            group.start_soon(some)
    assert seen == await whole()


@pytest.mark.pairwise
@two_forms
@every_stage
async def test_many_tasks_may_close_a_walk_at_once(form, stage):
    at, seen, ended, closed = Stage(stage, swallows=2), [], [], []
    walk = walk_of(at.policy(form), **at.options)

    async def close():
        await walk.aclose()
        closed.append(walk.summary.stop)

    async with leaving_nothing(), anyio.create_task_group() as group:
        group.start_soon(take, walk, seen, ended)
        await at.started.wait()
        for _ in range(3):
            group.start_soon(close)
    assert ended == ["normally"]
    assert len(closed) == 3
    assert set(closed) <= ({"closed", "exhausted"} if stage == "count beyond limits" else {"closed"})


@every_stage
async def test_a_closer_that_is_itself_cancelled_has_closed_the_walk_all_the_same(stage):
    at, seen, ended = Stage(stage, swallows=3), [], []
    walk = walk_of(at.policy(Batched), **at.options)
    async with leaving_nothing(), anyio.create_task_group() as group:
        group.start_soon(take, walk, seen, ended)
        await at.started.wait()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await walk.aclose()
    assert ended == ["normally"]
    assert walk.summary.stop in ({"closed", "exhausted"} if stage == "count beyond limits" else {"closed"})


@every_stage
async def test_an_error_thrown_in_from_another_task_ends_both(stage):
    at, seen, ended = Stage(stage), [], []
    walk = walk_of(at.policy(Batched), **at.options)
    async with leaving_nothing(), anyio.create_task_group() as group:
        group.start_soon(take, walk, seen, ended)
        await at.started.wait()
        with pytest.raises(KeyError, match="mine"):
            await walk.athrow(KeyError("mine"))
    assert ended == ["normally"]
    assert (walk.summary.stop, at.left) == ("closed", 1)


async def test_a_cancelled_consumer_gets_at_most_a_hundred_hits_more():
    seen = []
    async with leaving_nothing():
        with anyio.CancelScope() as scope:
            async for hit in walk_of(Batched(seeds=range(2_000)), node_budget=2_000):
                seen.append(hit)
                if len(seen) == 250:
                    scope.cancel()
    assert scope.cancelled_caught
    assert len(seen) <= 350


async def test_a_walk_closed_by_another_task_yields_at_most_a_hundred_hits_more():
    seen, ended = [], []
    async with leaving_nothing(), anyio.create_task_group() as group:
        walk = walk_of(Batched(seeds=range(2_000)), node_budget=2_000)
        group.start_soon(take, walk, seen, ended)
        while not seen:
            await anyio.lowlevel.checkpoint()
        before = len(seen)
        await walk.aclose()
    assert ended == ["normally"]
    assert (walk.summary.stop, walk.summary.emitted) == ("closed", len(seen))
    assert len(seen) <= before + 100


async def test_top_k_that_is_cancelled_or_fails_closes_its_walk():
    at = Stage("expand")
    walk = walk_of(at.policy(Batched))
    async with leaving_nothing():
        with anyio.CancelScope() as at.patience:  # it ends once the stage is reached
            await top_k(walk)
    assert (at.patience.cancelled_caught, walk.summary.stop, at.left) == (True, "closed", 1)
    error, _ = await failing(Batched(at="expand", do=lambda state: [] + None))
    assert isinstance(error, TypeError)


# Event loops that end.


BACKENDS = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def run_loop(backend, main):
    """Run an event loop, which must end in time."""

    async def run_in_time():
        with anyio.fail_after(PATIENCE):
            return await main()

    return anyio.run(run_in_time, backend=backend)


@pytest.mark.pairwise
@BACKENDS
@pytest.mark.parametrize("second", ["asyncio", "trio"])
@pytest.mark.parametrize("taken", [0, 1, 4])
def test_a_walk_goes_on_in_a_second_event_loop(backend, second, taken):
    """Nothing is open between hits, so nothing belongs to the first loop."""
    walk = walk_of(lively(Sources()), max_depth=2)

    async def some():
        return [(await anext(walk)).artifact_id for _ in range(taken)]

    async def rest():
        return [hit.artifact_id async for hit in walk]

    ids = run_loop(backend, some) + run_loop(second, rest)
    assert ids == run_loop(backend, whole)
    assert walk.summary.stop == "exhausted"
    assert walk.summary.seconds >= 0


@BACKENDS
@pytest.mark.parametrize("timeout", [None, 60])
def test_a_walk_left_in_one_event_loop_is_closed_in_another(backend, timeout):
    walk = walk_of(lively(Sources()), max_depth=2, timeout=timeout)
    run_loop(backend, walk.__anext__)
    run_loop(backend, walk.aclose)
    assert (walk.summary.stop, walk.summary.emitted) == ("closed", 1)
    assert run_loop(backend, lambda: anext(walk, None)) is None
    assert [hit.artifact_id for hit in walk.ranking] == ["0"]


@BACKENDS
@every_stage
def test_an_event_loop_that_ends_in_the_middle_of_a_step_ends_the_walk(backend, stage):
    walks = []

    async def main():
        at = Stage(stage)
        walk = walk_of(at.policy(Batched), **at.options)
        walks.append((at, walk))
        async with anyio.create_task_group() as group:
            group.start_soon(take, walk, [])
            await at.started.wait()
            raise KeyError("the program's")

    with pytest.raises(ExceptionGroup):
        run_loop(backend, main)
    [(at, walk)] = walks
    assert (walk.summary.stop, at.left) == ("closed", 1)


@every_stage
def test_a_task_that_asyncio_cancels_at_its_end_ends_the_walk(stage):
    kept = []

    async def main():
        at = Stage(stage)
        walk = walk_of(at.policy(Batched), **at.options)
        kept.append((at, walk, asyncio.create_task(take(walk, []))))
        await at.started.wait()

    asyncio.run(main())
    [(at, walk, task)] = kept
    assert task.cancelled()
    assert (walk.summary.stop, at.left) == ("closed", 1)


@BACKENDS
@pytest.mark.parametrize("taken", [0, 1, 5])
def test_a_walk_dropped_after_its_event_loop_leaves_nothing(backend, taken):
    before, sources = {*gc.garbage}, Sources()

    async def some():
        threads = running()
        walk = walk_of(lively(sources), max_depth=2)
        for _ in range(taken):
            await anext(walk)
        assert running() == threads
        kept.append(walk)

    kept = []
    run_loop(backend, some)
    gone = weakref.ref(kept.pop())
    assert gone() is None
    gc.collect()
    assert {*gc.garbage} == before
    assert sources.open == 0
