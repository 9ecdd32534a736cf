"""Exact dense search over 100,000 x 384 compared with plain numpy, and the write speed."""

import time

import anyio
import numpy as np
import pytest

from airw.stores import MemoryStore, SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record

ROWS, DIM, K, PAGE = 100_000, 384, 10, 1_000
RUNS, BATCH = 25, 50
GOAL = 1.15


def unit_rows(count, seed):
    rows = np.random.default_rng(seed).standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def change(number, vector):
    name = f"{number:06}"
    record = Record(Record.make_id(name, "document", 0), name, "document", 0, f"text {number}", {"group": number % 10})
    return ArtifactChange(LedgerEntry(name, "1", "random", "none"), [record], vector[np.newaxis])


def best_by_hand(matrix, queries):
    """Return the best `K` rows for each query, best first, as any exact search must."""
    found = []
    for scores in queries @ matrix.T:
        top = np.argpartition(scores, -K)[-K:]
        found.append(top[np.argsort(-scores[top])])
    return found


async def fill(store, matrix):
    """Write everything page by page; return records per second."""
    pages = [[change(at, matrix[at]) for at in range(start, start + PAGE)] for start in range(0, ROWS, PAGE)]
    start = time.perf_counter()
    for page in pages:
        await store.apply(page)
    return ROWS / (time.perf_counter() - start)


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_exact_search_beside_numpy(kind, times, tmp_path):
    matrix, singles, batch = unit_rows(ROWS, 1), unit_rows(RUNS, 2), unit_rows(BATCH, 3)

    async def search(store, queries):
        return [[int(name) for name in each.artifact_ids] for each in await store.search_vectors(queries, K)]

    async def main():
        async with kind(tmp_path / "dense.airw") if kind is SqliteStore else kind() as store:
            rate = await fill(store, matrix)
            start = time.perf_counter()
            await search(store, singles[:1])
            times.note("first search", "airw", start)
            for at in range(RUNS):
                for name, queries in (
                    ("one query", singles[at : at + 1]),
                    *([("batch", batch)] if at % 5 == 0 else []),
                ):
                    start = time.perf_counter()
                    by_hand = best_by_hand(matrix, queries)
                    times.note(name, "numpy", start, given=at)
                    start = time.perf_counter()
                    found = await search(store, queries)
                    times.note(name, "airw", start, given=at)
                    assert [set(each) for each in found] == [set(each.tolist()) for each in by_hand]
        return rate

    rate = anyio.run(main)
    print(f"\n{kind.__name__}, {ROWS:,} x {DIM}: {rate:,.0f} records/s written,", end=" ")
    print(f"first search {times.typical('first search', 'airw'):.0f} ms")
    print(f"  {'ms':20}{'numpy':>9}{'airw':>9}{'airw/numpy':>12}{'goal':>7}{'ok':>5}")
    for name, shown in (("one query", "one query"), ("batch", f"batch of {BATCH}")):
        ours, bare = times.typical(name, "airw"), times.typical(name, "numpy")
        ratio = ours / bare
        print(f"  {shown:20}{bare:9.2f}{ours:9.2f}{ratio:12.2f}{GOAL:>7}{'yes' if ratio <= GOAL else 'no':>5}")
