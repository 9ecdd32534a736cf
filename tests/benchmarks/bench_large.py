"""A corpus too large for exact search, beside one index of usearch and numpy.

It has 300,000 records of 384 dimensions; the benchmark takes minutes. `AIRW_BENCH_ROWS` sets another number of records.
A million takes 4 GB of disk. `AIRW_BENCH_FOLDER` names a folder in which the corpus and the index of the peer are kept,
so that a later run only asks.
"""

import os
import resource
import statistics
import time
from pathlib import Path

import anyio
import numpy as np

from airw.protocols import Change, Rank, ask
from airw.stores import SqliteStore, copy_file
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.filters import parse_filter

ROWS = int(os.environ.get("AIRW_BENCH_ROWS", "300000"))
DIM, PAGE, QUERIES, K = 384, 2_000, 50, 10
QUESTION = "How fast is a search in a large corpus?"
TOPICS = np.random.default_rng(0).standard_normal((2_000, DIM)).astype(np.float32)


def near_topics(count: int, seed: int):
    """Return unit vectors around 2,000 topics; those of a topic have a cosine of about 0.5."""
    random = np.random.default_rng(seed)
    rows = TOPICS[random.integers(0, len(TOPICS), count)] + random.standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def page(start: int, seed: int | None = None):
    rows = near_topics(PAGE, start if seed is None else seed)
    for at, row in enumerate(rows, start):
        name = f"a{at:07}"
        record = Record(Record.make_id(name, "chunk", 0), name, "chunk", 0, f"text {at}", {"group": at % 10})
        yield ArtifactChange(LedgerEntry(name, "1", "e", "s", record_ids=(record.id,)), [record], row[None])


async def run_rounds(ways, items, rounds: int = 5) -> dict[str, list[float]]:
    """Return the median time of each way in each round; a round runs every way once."""
    figures = {name: [] for name in ways}
    for _ in range(rounds):
        for name, work in ways.items():
            figures[name].append(await median_ms(work, items))
    return figures


async def median_ms(work, items) -> float:
    seconds = []
    for item in items:
        start = time.perf_counter()
        await work(item)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds) * 1e3


def memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def recall(found, expected) -> float:
    return statistics.mean(len({*one} & {*other}) / K for one, other in zip(found, expected, strict=True))


async def fill(path: Path) -> None:
    start, used = time.perf_counter(), time.process_time()
    async with SqliteStore(path) as store:
        for first in range(0, ROWS, PAGE):
            await store.apply(Change(list(page(first))))
    seconds, used = time.perf_counter() - start, time.process_time() - used
    sizes = [sum(file.stat().st_size for file in path.parent.glob(each)) / 1e6 for each in ("*.airw", "*-ann/*")]
    print(
        f"written with its indexes      {seconds:8.0f} s   {ROWS / seconds:,.0f} records/s, {used:,.0f} s CPU, peak "
        f"{memory_mb():,.0f} MB"
    )
    print(f"file, indexes                 {sizes[0]:8,.0f} MB  {sizes[1]:,.0f} MB")


class Peer:
    """One index of usearch, with the least effort that finds 99 % of the ten nearest."""

    def __init__(self, path: Path, matrix) -> None:
        from usearch.index import Index

        if path.exists():
            self._index = Index.restore(str(path))
        else:
            self._index = Index(ndim=DIM, metric="cos", dtype="f16", connectivity=16, expansion_add=128)
            self._index.add(np.arange(len(matrix)), matrix)
            self._index.save(str(path))

    def choose_effort(self, queries, expected) -> None:
        """Set the least effort that finds 99 %, and print what several find."""
        found = {}
        for effort in (32, 64, 128, 256, 512, 1024):
            self._index.expansion_search = effort
            found[effort] = recall([self.find(query) for query in queries], expected)
            print(f"one usearch index: recall@10 {found[effort]:.3f} at effort {effort}")
            if effort > 64 and found[effort] >= 0.99:
                break
        self._index.expansion_search = min(effort for effort in found if found[effort] >= 0.99)

    def find(self, query) -> list[str]:
        return [f"a{at:07}" for at in self._index.search(query, K, threads=1).keys.tolist()]


async def compare_answers(path: Path, results) -> None:
    start = time.perf_counter()
    store = await SqliteStore.open(path)
    opened = time.perf_counter()
    queries = near_topics(QUERIES, ROWS + 1)
    await ask(store, Rank(queries[:1], K))
    print(f"opened                        {(opened - start) * 1e3:8.1f} ms")
    print(f"first search                  {(time.perf_counter() - opened) * 1e3:8.1f} ms")

    async def search(query, **options):
        return (await ask(store, Rank(query[None], K, **options)))[0].artifact_ids

    group = parse_filter({"group": 3})
    start = time.perf_counter()
    await search(queries[0], filter=group)
    print(f"first search with a filter    {(time.perf_counter() - start) * 1e3:8.1f} ms")
    found = [await search(query) for query in queries]
    found_in_group = [await search(query, filter=group) for query in queries]
    peak = memory_mb()
    matrix = np.concatenate([near_topics(PAGE, first) for first in range(0, ROWS, PAGE)])

    def compare(query):
        scores = matrix @ query
        best = np.argpartition(-scores, K)[:K]
        return [f"a{at:07}" for at in best[np.argsort(-scores[best])]]

    expected = [compare(query) for query in queries]
    in_group = [np.argsort(-(matrix[3::10] @ query))[:K] * 10 + 3 for query in queries]
    peer = Peer(path.with_suffix(".usearch"), matrix)
    peer.choose_effort(queries, expected)

    async def find(query):
        return peer.find(query)

    async def compare_async(query):
        return compare(query)

    rounds = await run_rounds({"airw": search, "one usearch index": find, "numpy, exact": compare_async}, queries)
    goals = {"one usearch index": 2.0, "numpy, exact": None}
    results.compare(QUESTION, f"ten nearest of {ROWS:,}", rounds, goals)
    print(f"airw: recall@10 {recall(found, expected):.3f}")
    assert recall(found, expected) >= 0.99
    filtered = [await median_ms(lambda query: search(query, filter=group), queries) for _ in range(3)]
    results.amount(QUESTION, f"ten nearest of {ROWS:,} with a filter", filtered, goal=None, unit="ms")
    print(f"recall@10 {recall(found_in_group, [[f'a{at:07}' for at in each] for each in in_group]):.3f}")
    print(f"peak memory of searching      {peak:8,.0f} MB, the vectors alone {matrix.nbytes / 1e6:,.0f} MB")
    await store.aclose()


async def ask_after_writes(path: Path, results) -> None:
    """Ask while the newest rows are not in the index, in a copy."""
    copy = path.with_name("copy.airw")
    await copy_file(path, copy, replace=True)
    async with await SqliteStore.open(copy) as store:
        queries = near_topics(QUERIES, ROWS + 1)

        async def search(query):
            return await ask(store, Rank(query[None], K))

        for count in (1, 2_000):
            await store.apply(Change(list(page(7_000, seed=ROWS + count))[:count]))
            await search(queries[0])
            rounds = [await median_ms(search, queries) for _ in range(3)]
            results.amount(QUESTION, f"ten nearest of {ROWS:,} after {count:,} new ones", rounds, goal=None, unit="ms")
    await SqliteStore.remove(copy)


def test_a_large_corpus(tmp_path, results):
    print(f"\n{ROWS:,} records of {DIM} dimensions")
    path = Path(os.environ.get("AIRW_BENCH_FOLDER", tmp_path)) / f"large-{ROWS}.airw"
    if not path.exists():
        anyio.run(fill, path)
    anyio.run(compare_answers, path, results)
    anyio.run(ask_after_writes, path, results)
