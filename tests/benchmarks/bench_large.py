"""A corpus too large for exact search, beside one index of usearch and numpy.

It has 300,000 records of 384 dimensions; the benchmark takes minutes. `AIRW_BENCH_ROWS` sets another number of records.
A million takes 4 GB of disk.
"""

import os
import resource
import statistics
import time
from pathlib import Path

import anyio
import numpy as np

from airw.stores import SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.filters import parse_filter

ROWS = int(os.environ.get("AIRW_BENCH_ROWS", "300000"))
DIM, PAGE, QUERIES, K = 384, 2_000, 50, 10
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
    start = time.perf_counter()
    async with SqliteStore(path) as store:
        for first in range(0, ROWS, PAGE):
            await store.apply(list(page(first)))
    seconds = time.perf_counter() - start
    sizes = [sum(file.stat().st_size for file in path.parent.glob(each)) / 1e6 for each in ("*.airw", "*-ann/*")]
    print(
        f"written with its indexes      {seconds:8.0f} s   {ROWS / seconds:,.0f} records/s, peak {memory_mb():,.0f} MB"
    )
    print(f"file, indexes                 {sizes[0]:8,.0f} MB  {sizes[1]:,.0f} MB")


class Peer:
    """One index of usearch, with the least effort that finds 99 % of the ten nearest."""

    def __init__(self, matrix, queries, expected) -> None:
        from usearch.index import Index

        self._index = Index(ndim=DIM, metric="cos", dtype="f16", connectivity=16, expansion_add=128)
        self._index.add(np.arange(len(matrix)), matrix)
        for effort in (32, 64, 128, 256, 512, 1024):
            self._index.expansion_search = effort
            self.recall = recall([self.find(query) for query in queries], expected)
            if self.recall >= 0.99:
                break

    def find(self, query) -> list[str]:
        return [f"a{at:07}" for at in self._index.search(query, K, threads=1).keys.tolist()]


async def ask(path: Path, results) -> None:
    start = time.perf_counter()
    store = await SqliteStore.open(path)
    opened = time.perf_counter()
    queries = near_topics(QUERIES, ROWS + 1)
    await store.search_vectors(queries[:1], K)
    print(f"opened                        {(opened - start) * 1e3:8.1f} ms")
    print(f"first search                  {(time.perf_counter() - opened) * 1e3:8.1f} ms")

    async def search(query, **options):
        return (await store.search_vectors(query[None], K, **options))[0].artifact_ids

    group = parse_filter({"group": 3})
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
    peer = Peer(matrix, queries, expected)

    async def find(query):
        return peer.find(query)

    async def compare_async(query):
        return compare(query)

    ways = {"airw": search, "one usearch index": find, "numpy, exact": compare_async}
    rounds = {name: [await median_ms(work, queries) for _ in range(5)] for name, work in ways.items()}
    goals = {"one usearch index": 2.0, "numpy, exact": None}
    question = "How fast is a search in a large corpus?"
    results.compare(question, f"ten nearest of {ROWS:,}", rounds, goals)
    print(f"recall@10: airw {recall(found, expected):.3f}, usearch {peer.recall:.3f}")
    assert recall(found, expected) >= 0.99
    filtered = [await median_ms(lambda query: search(query, filter=group), queries) for _ in range(3)]
    results.amount(question, f"ten nearest of {ROWS:,} with a filter", filtered, goal=None, unit="ms")
    print(f"recall@10 {recall(found_in_group, [[f'a{at:07}' for at in each] for each in in_group]):.3f}")
    await store.apply(list(page(7_000, seed=ROWS + 2))[:1])
    print(f"search after one write        {await median_ms(search, queries[:1]):8.1f} ms")
    print(f"peak memory of writing and searching {peak:,.0f} MB, the vectors alone {matrix.nbytes / 1e6:,.0f} MB")
    await store.aclose()


def test_a_large_corpus(tmp_path, results):
    print(f"\n{ROWS:,} records of {DIM} dimensions")
    anyio.run(fill, tmp_path / "large.airw")
    anyio.run(ask, tmp_path / "large.airw", results)
