"""A heartbeat on the event loop, and a large store that a call could stop it with."""

import gc
import time
from contextlib import asynccontextmanager, contextmanager

import anyio
import numpy as np

from airw.protocols import Change
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record

EVERY = 0.001  # seconds between beats
DIM = 16
HUB = "n000000"
QUERY = np.eye(1, DIM, dtype=np.float32)
_BATCH = 10_000
_ROUNDS = 50


class Heartbeat:
    """The longest time between two beats so far, in seconds.

    Time in which the machine runs other processes does not count: a gap is as long as the clock says, but at most as
    long as the processor time of this process. That time alone would count two threads that run at once twice.
    """

    def __init__(self):
        self.lag = 0.0
        self.stopped = False

    async def beat(self):
        clock, worked = time.perf_counter(), time.process_time()
        while not self.stopped:
            await anyio.sleep(EVERY)
            last_clock, last_worked = clock, worked
            clock, worked = time.perf_counter(), time.process_time()
            self.lag = max(self.lag, min(clock - last_clock, worked - last_worked))


@asynccontextmanager
async def watch_lag():
    """Yield a heartbeat that runs beside the block."""
    heartbeat = Heartbeat()
    async with anyio.create_task_group() as group:
        group.start_soon(heartbeat.beat)
        await anyio.sleep(0.01)
        try:
            yield heartbeat
            await anyio.sleep(0.01)
        finally:
            heartbeat.stopped = True


async def least_lag(call, goal):
    """Return the lowest lag of several calls; the first one within the goal is the last one.

    The machine may be busy with other things during any of them, so there are many.
    """
    lags = []
    with no_collector():
        while len(lags) < _ROUNDS and (not lags or lags[-1] > goal):
            async with watch_lag() as heartbeat:
                answer = await call()
            lags.append(heartbeat.lag)
            del answer  # which takes long, too
    return min(lags)


def slow_down(seconds):
    """Return how long this machine needs for what takes a common one `seconds`."""
    spent = []
    for _ in range(5):
        began = time.thread_time()
        sum(number * number for number in range(100_000))
        spent.append(time.thread_time() - began)
    return seconds * max(1.0, min(spent) / 0.010)


@contextmanager
def no_collector():
    """Run the block without the collector of cycles.

    It stops all threads while it looks at every object.
    """
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def fill_star(store, count):
    """Write `count` artifacts; the first one and all others link to each other."""
    names = [f"n{number:06}" for number in range(count)]
    random = np.random.default_rng(0)
    for start in range(0, count, _BATCH):
        vectors = random.standard_normal((_BATCH, DIM)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        batch = zip(names[start : start + _BATCH], vectors, strict=False)
        await store.apply(
            Change(
                [
                    _make_change(name, number, vector, names[1:] if name == HUB else [HUB])
                    for number, (name, vector) in enumerate(batch, start)
                ]
            )
        )
    return names


def _make_change(name, number, vector, targets):
    text = f"word {'many ' * (number % 50)}{name}"
    record = Record(Record.make_id(name, "chunk", 0), name, "chunk", 0, text, {"group": number % 10, "n": number})
    entry = LedgerEntry(name, "1", "e", "s", record_ids=(record.id,))
    return ArtifactChange(entry, [record], vector[None], Extraction([Link(target) for target in targets]))
