"""Waiting for a condition: a test never measures how idle the machine is."""

import asyncio
import time

import anyio
import sniffio

PATIENCE = 60  # seconds until a condition counts as never true; long enough for a busy machine
_PAUSE = 0.005  # seconds


def wait_until(is_true):
    """Wait until a function returns a true value, and return that.

    The event loop of this thread waits, too.
    """
    end = time.monotonic() + PATIENCE
    while not (value := is_true()):
        if time.monotonic() > end:
            raise TimeoutError("it did not become true")
        time.sleep(_PAUSE)
    return value


async def wait_for(is_true):
    """Wait as `wait_until` does, while the event loop goes on."""
    with anyio.fail_after(PATIENCE):
        while not (value := is_true()):  # noqa: ASYNC110 - a process has no event
            await anyio.sleep(_PAUSE)
    return value


async def cancel_once(is_true, function, *arguments):
    """Call an async function, and cancel it once a condition holds.

    It must not end before, and must end by that.
    """
    ended = []

    async def call():
        await function(*arguments)
        ended.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(call)
        await wait_for(lambda: is_true() or ended)
        group.cancel_scope.cancel()
    assert not ended, "it ended before it was cancelled, or did not notice that"


def skip_time(seconds):
    """Move the clock of the running event loop forward.

    All deadlines within that time have passed then. Sockets, threads and other processes do not notice. So a test can
    wait for answers without haste, and then end the patience with what never answers.
    """
    if sniffio.current_async_library() == "trio":
        import trio

        clock = trio.lowlevel.current_clock()
        object.__setattr__(clock, "offset", clock.offset + seconds)  # else it cannot be changed
        return
    loop = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds
