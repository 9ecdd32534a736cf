"""Many searches at once beside numpy in threads, and short searches beside one long call."""

import functools
import os
import threading
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is loaded: each thread of the peer has one core

import anyio
import anyio.lowlevel
import numpy as np
import pytest

from airw.protocols import Change, Ledger, Rank, RecordsOf, ask
from airw.stores import MemoryStore, SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.benchmarks.results import run_in_turn
from tests.support.heartbeat import no_collector

DIM, K = 384, 10
ROWS, PAGE = int(os.environ.get("AIRW_BENCH_ROWS", "100000")), 2_000
ROUNDS = 4
SEARCHES = 128  # dense searches a round
THREADS = 8
SECONDS = 0.5  # of short searches without a long call
KEPT, WORST = 0.7, 3  # goals beside a long call: part of the rate, factor of the longest search

NAMES = [f"{at:06}" for at in range(ROWS)]

LONG = {
    "ledger()": lambda store, query: ask(store, Ledger()),
    "records_of(50,000)": lambda store, query: ask(store, RecordsOf(NAMES[:50_000])),
    "search_vectors(k=20,000)": lambda store, query: ask(store, Rank(query, 20_000)),
}


def unit_rows(count, seed):
    rows = np.random.default_rng(seed).standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def change(at, text, vector):
    name = NAMES[at]
    record = Record(Record.make_id(name, "document", 0), name, "document", 0, text, {"group": at % 10, "path": name})
    entry = LedgerEntry(name, "1", "random", "none", record_ids=(record.id,))
    return ArtifactChange(entry, [record], vector[np.newaxis])


async def fill(store, texts, matrix):
    for start in range(0, ROWS, PAGE):
        await store.apply(Change([change(at, texts[at], matrix[at]) for at in range(start, min(ROWS, start + PAGE))]))


@pytest.fixture(scope="module")
def matrix():
    return unit_rows(ROWS, 1)


@pytest.fixture(scope="module", params=[MemoryStore, SqliteStore])
def open_filled(request, matrix, make_texts, tmp_path_factory):
    """Return a function that opens a filled store."""
    texts = make_texts(ROWS, words=40, rare=True)
    if request.param is SqliteStore:
        path = tmp_path_factory.mktemp("concurrency") / "notes.airw"

        async def fill_file():
            async with SqliteStore(path) as store:
                await fill(store, texts, matrix)

        anyio.run(fill_file)
        return functools.partial(SqliteStore, path), texts
    store = MemoryStore()
    store.__class__ = type("MemoryStore", (MemoryStore,), {"__aexit__": leave_open})
    anyio.run(fill, store, texts, matrix)
    return lambda: store, texts


async def leave_open(store, *exc_info):
    return None


async def release(answer):
    """Release a long answer bit by bit, as all at once would stop the event loop."""
    while answer:
        del answer[-500:]
        await anyio.lowlevel.checkpoint()


async def share(width, items, work):
    """Work on the items in `width` tasks; return the seconds of each, and of all."""
    pending, seconds = iter(items), []

    async def run():
        for item in pending:
            start = time.perf_counter()
            await work(item)
            seconds.append(time.perf_counter() - start)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for _ in range(width):
            group.start_soon(run)
    return seconds, time.perf_counter() - start


def search_in_threads(matrix, queries):
    """Answer the queries by numpy in threads, each one by itself."""
    pending = iter(queries)

    def run():
        for query in pending:
            scores = matrix @ query
            best = np.argpartition(scores, -K)[-K:]
            best[np.argsort(-scores[best])]

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(("width", "goal"), [(1, None), (8, 1.0), (64, 0.5)])
def test_dense_searches_at_once(open_filled, matrix, results, width, goal):
    open_store, _ = open_filled
    queries = unit_rows(SEARCHES, 2)

    async def main():
        async with open_store() as store:
            answers = {}

            async def search(at):
                [ranking] = await ask(store, Rank(queries[at : at + 1], K))
                answers[at] = ranking

            await search(0)
            rounds = {"airw": [], "threads of numpy": []}
            for _ in range(ROUNDS):
                rounds["airw"].append((await share(width, range(SEARCHES), search))[1] * 1e3 / SEARCHES)
                bare = run_in_turn({"threads": lambda: search_in_threads(matrix, queries)}, rounds=1)
                rounds["threads of numpy"].append(bare["threads"][0] / SEARCHES)
            together = await ask(store, Rank(queries, K))
            assert [answers[at].record_ids for at in range(SEARCHES)] == [each.record_ids for each in together]
        name = type(store).__name__
        work = f"{name}, dense, {ROWS:,} x {DIM}, {width} at once, ms a search"
        results.compare("How many searches at once?", work, rounds, {"threads of numpy": goal})

    anyio.run(main)


class Searchers:
    """Tasks that search for two words, one search after the other."""

    def __init__(self, store, words):
        self._store, self._words = store, words

    async def search(self, word):
        assert (await ask(self._store, Rank([word], K)))[0].record_ids

    async def run(self, is_over):
        """Return the milliseconds a search and the longest search."""

        def until_over():
            at = 0
            while not is_over():
                yield self._words[at % len(self._words)]
                at += 1

        seconds, total = await share(THREADS, until_over(), self.search)
        return total * 1e3 / len(seconds), max(seconds) * 1e3

    async def run_alone(self):
        end = time.perf_counter() + SECONDS
        return await self.run(lambda: time.perf_counter() > end)

    async def run_beside(self, call):
        """Run beside a long call, which is repeated if it is too short to measure."""
        end, is_over = time.perf_counter() + SECONDS, False

        async def repeat():
            nonlocal is_over
            while time.perf_counter() < end:
                await release(await call())
            is_over = True

        async with anyio.create_task_group() as group:
            group.start_soon(repeat)
            await anyio.lowlevel.checkpoint()
            return await self.run(lambda: is_over)


@pytest.mark.parametrize("name", LONG)
def test_searches_beside_a_long_call(open_filled, results, name):
    open_store, texts = open_filled
    words = [" ".join(text.split()[:2]) for text in texts[:: max(1, ROWS // 500)]]

    async def main():
        async with open_store() as store:
            call = functools.partial(LONG[name], store, unit_rows(1, 5))
            await call()
            searchers = Searchers(store, words)
            await searchers.run_alone()
            means, longest = {"airw": [], "without it": []}, {"airw": [], "without it": []}
            for _ in range(ROUNDS):
                for way, run in (("without it", searchers.run_alone()), ("airw", searchers.run_beside(call))):
                    with no_collector():
                        mean, worst = await run
                    means[way].append(mean)
                    longest[way].append(worst)
        work = f"{type(store).__name__}, {THREADS} searchers beside {name}"
        question = "Does a long call hold up short ones?"
        results.compare(question, f"{work}, ms a search", means, {"without it": round(1 / KEPT, 2)})
        results.compare(question, f"{work}, longest", longest, {"without it": WORST})

    anyio.run(main)
