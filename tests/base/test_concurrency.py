"""Fan-out, worker threads and the first error of several tasks."""

import asyncio
import threading
import time

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from airw._base.concurrency import Pacer, call_user_function, first_error, in_thread, map_bounded, take_turn
from tests.support.waiting import PATIENCE, wait_for


class TestMapBounded:
    async def test_results_keep_the_order_of_the_items(self):
        async def late(item):
            await anyio.sleep(0.01 * (3 - item))
            return item * 10

        assert await map_bounded(late, [0, 1, 2], limit=3) == [0, 10, 20]

    async def test_no_more_than_the_limit_run_at_once(self):
        running = most = 0

        async def work(_):
            nonlocal running, most
            running += 1
            most = max(most, running)
            await anyio.sleep(0.001)
            running -= 1

        await map_bounded(work, range(20), limit=4)
        assert most == 4

    async def test_the_first_error_is_raised_unchanged_and_cancels_the_rest(self):
        finished = []

        async def work(item):
            if item == 1:
                raise KeyError(item)
            await anyio.sleep_forever()
            finished.append(item)

        with anyio.fail_after(PATIENCE), pytest.raises(KeyError):
            await map_bounded(work, range(5), limit=5)
        assert finished == []

    async def test_no_items_have_no_results(self):
        assert await map_bounded(anyio.sleep, [], limit=1) == []


async def test_the_first_of_several_errors_is_raised_unchanged():
    async def fail(item):
        raise KeyError(item)

    with pytest.raises(KeyError):
        await map_bounded(fail, range(5), limit=5)


def test_an_error_from_a_group_keeps_its_cause():
    cause = OSError()
    error = ValueError()
    error.__cause__ = cause
    with pytest.raises(ValueError) as caught, first_error():  # noqa: PT011 (any, it is the one we made)
        raise ExceptionGroup("tasks", [error, KeyError()])
    assert caught.value is error
    assert caught.value.__cause__ is cause


class TestInThread:
    async def test_a_call_returns_the_result_or_raises_the_error(self):
        assert await in_thread(sum, [1, 2]) == 3
        with pytest.raises(ZeroDivisionError):
            await in_thread(divmod, 1, 0)

    async def test_a_cancelled_call_waits_for_its_thread(self):
        began, done = threading.Event(), threading.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(in_thread, lambda: (began.set(), time.sleep(0.1), done.set()))
            await wait_for(began.is_set)
            group.cancel_scope.cancel()
        assert done.is_set()

    @pytest.mark.asyncio_only
    async def test_a_call_that_asyncio_cancels_twice_waits_for_its_thread(self):
        began, may_end, done = threading.Event(), threading.Event(), threading.Event()
        call = asyncio.ensure_future(in_thread(lambda: (began.set(), may_end.wait(PATIENCE), done.set())))
        await wait_for(began.is_set)
        for _ in range(2):
            call.cancel()
            await asyncio.sleep(0.03)
            assert not call.done()
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert done.is_set()


async def test_functions_of_users_leave_worker_threads_for_the_calls_that_they_make(monkeypatch):
    monkeypatch.setattr(anyio.to_thread.current_default_thread_limiter(), "total_tokens", 4)
    all_are_busy = threading.Barrier(4)

    async def use_thread():
        with anyio.fail_after(PATIENCE):
            return await in_thread(int)

    def call_back(_):
        all_are_busy.wait(PATIENCE)
        return anyio.from_thread.run(use_thread)

    assert await map_bounded(lambda item: call_user_function(call_back, item), range(4), limit=4) == [0] * 4


@pytest.mark.asyncio_only  # trio cannot go on after a coroutine was dropped
async def test_turns_of_coroutines_that_are_dropped_are_left_to_others():
    """A request for a hit that is dropped ends by `GeneratorExit`, not by a cancellation."""
    for drop_first in (True, False):
        first, queued = ([take_turn() for _ in range(8)] for _ in range(2))
        for coroutine in first + queued:
            coroutine.send(None)
        for coroutine in first + queued if drop_first else queued + first:
            coroutine.close()
    with anyio.fail_after(PATIENCE):
        await map_bounded(lambda _: take_turn(), range(100), limit=50)


async def test_a_paced_loop_lets_other_tasks_run():
    seen = []

    async def ticker():
        while True:
            seen.append(time.perf_counter())
            await anyio.lowlevel.checkpoint()

    pacer = Pacer(seconds=0.002)
    async with anyio.create_task_group() as group:
        group.start_soon(ticker)
        end = time.perf_counter() + PATIENCE
        while len(seen) <= 5 and time.perf_counter() < end:
            await pacer.pace()
        group.cancel_scope.cancel()
    assert len(seen) > 5
