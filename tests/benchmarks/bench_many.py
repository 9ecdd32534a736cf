"""Hundreds of small corpora in one process, and one corpus with all of their documents.

Rankings are asked of a `FederatedCorpus`, which ranks small stores together. Each figure is the best of several runs,
with another question each. Files are opened once; the number of threads and open files is the largest one seen.
"""

import threading
import time
from contextlib import AsyncExitStack
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

import anyio
import numpy as np
import pytest

import airw
from airw import FederatedCorpus
from airw.protocols import Rank
from airw.stores import MemoryStore

CORPORA, DOCUMENTS, RUNS = 400, 20, 10
WORDS = [f"word{number}" for number in range(400)]
DESCRIPTORS = Path("/proc/self/fd")


def draw_texts(number):
    chance = Random(number)
    return {f"d{number}-{at}": " ".join(chance.choices(WORDS, k=30)) for at in range(DOCUMENTS)}


async def open_corpora(stack, folder, number):
    """Return corpora, and one corpus with all of their documents."""

    async def build(texts, name):
        store = MemoryStore() if folder is None else folder / f"{name}.airw"
        corpus = await airw.build(airw.from_mapping(texts, name=name, embedder="light"), store=store)
        if folder is not None:
            await corpus.aclose()
            corpus = await airw.open_corpus(store)
        return await stack.enter_async_context(corpus)

    texts = [draw_texts(at) for at in range(number)]
    many = [await build(part, f"c{at}") for at, part in enumerate(texts)]
    return many, await build({id: text for part in texts for id, text in part.items()}, "one")


async def best_time(call):
    """Return the seconds of the fastest of several calls; each gets another number."""
    times = []
    for number in range(RUNS):
        start = time.perf_counter()
        await call(number)
        times.append(time.perf_counter() - start)
    return min(times)


def question(number):
    return " ".join(Random(-number).choices(WORDS, k=3))


class Peak(threading.Thread):
    """Notes the largest number of threads and of open files until it is stopped."""

    def __init__(self):
        super().__init__(daemon=True)
        self.threads = self.files = 0
        self._ended = threading.Event()

    def run(self):
        while not self._ended.wait(0.002):
            self.threads = max(self.threads, threading.active_count() - 1)
            self.files = max(self.files, sum(1 for _ in DESCRIPTORS.iterdir()) if DESCRIPTORS.exists() else 0)

    def stop(self):
        self._ended.set()
        self.join()


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_many_small_corpora(kind, tmp_path):
    async def measure():
        async with AsyncExitStack() as stack:
            many, one = await open_corpora(stack, None if kind == "memory" else tmp_path, CORPORA)
            peak = Peak()
            peak.start()
            together = FederatedCorpus(many)
            vectors = np.random.default_rng(1).normal(size=(RUNS, 1, one.embedder.dim)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=2, keepdims=True)
            start = time.perf_counter()
            await together.store.read(Rank(vectors[0], 10))
            first, turns = time.perf_counter() - start, count()
            print(f"\n{CORPORA} corpora of {DOCUMENTS} documents in {kind}; first ranking {first:.2f} s")
            for name, request in (
                ("dense ranking", lambda number: Rank(vectors[number], 10)),
                ("ranking of words", lambda _: Rank([question(next(turns))], 10)),
            ):
                times = [
                    await best_time(partial(lambda store, number: store.read(request(number)), store))  # noqa: B023
                    for store in (one.store, together.store)
                ]
                print(f"  {name}: {times[1] * 1000:.2f} ms, {times[1] / times[0]:.1f} x one corpus")
            times = [
                await best_time(lambda number, c=corpus: airw.discover(c, question(number))) for corpus in (one, many)
            ]
            print(f"  discover: {times[1] * 1000:.0f} ms, {times[1] / times[0]:.0f} x one corpus")
            peak.stop()
            print(f"  at most {peak.threads} threads and {peak.files} open files")

    anyio.run(measure)
