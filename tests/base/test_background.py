"""Calls of the background loop that another event loop awaits."""

import asyncio
import contextvars
import threading

import anyio
import anyio.lowlevel
import pytest

from airw._base.background import background_loop, run, run_from_loop
from tests.support.waiting import wait_for

pytestmark = pytest.mark.asyncio_only

LANGUAGE = contextvars.ContextVar("LANGUAGE", default="none")


async def thread_of(value):
    await anyio.lowlevel.checkpoint()
    return threading.current_thread(), value, LANGUAGE.get()


async def test_it_runs_there_with_the_context_of_the_caller():
    LANGUAGE.set("en")
    assert await run_from_loop(thread_of, 3) == (background_loop().thread, 3, "en")


async def test_an_error_arrives_as_it_is():
    async def fail():
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        await run_from_loop(fail)


def test_within_the_background_loop_it_is_awaited_there():
    assert run(run_from_loop, thread_of, 3)[0] is background_loop().thread


async def test_a_cancelled_caller_waits_until_the_call_has_cleaned_up():
    began, ended = threading.Event(), threading.Event()

    async def work():
        try:
            began.set()
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)
            ended.set()

    task = asyncio.create_task(run_from_loop(work))
    await wait_for(began.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_cancel_scope_of_the_caller_cancels_the_call():
    ended, own_loop = threading.Event(), asyncio.get_running_loop()

    async def work():
        try:
            own_loop.call_soon_threadsafe(scope.cancel)
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.CancelScope() as scope:
        await run_from_loop(work)
    assert scope.cancelled_caught
    assert ended.is_set()


async def test_a_call_that_fails_while_it_is_cancelled_leaves_no_complaint(caplog):
    began = threading.Event()

    async def work():
        try:
            began.set()
            await anyio.sleep_forever()
        finally:
            raise LookupError

    task = asyncio.create_task(run_from_loop(work))
    await wait_for(began.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not caplog.records


async def test_a_call_that_is_cancelled_before_it_starts_never_runs():
    calls = []

    async def note():
        calls.append(1)

    held, release = threading.Event(), threading.Event()
    background_loop().asyncio_loop.call_soon_threadsafe(lambda: (held.set(), release.wait()))
    await wait_for(held.is_set)  # the background loop does nothing else now
    task = asyncio.create_task(run_from_loop(note))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not calls
