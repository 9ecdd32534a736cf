"""Waiting for a condition: a test never measures how idle the machine is."""

import time

import anyio

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
