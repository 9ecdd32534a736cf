"""A corpus that grows on a PostgreSQL server, beside the same corpus in a file.

It has 10,000 and 100,000 records of 384 dimensions; the benchmark takes minutes. `AIRW_BENCH_SIZES` sets other sizes,
`10000,1000000`. `AIRW_BENCH_DSN` names a server on which the corpora are kept, so that a later run only asks.
`AIRW_BENCH_SQLITE=0` leaves out the file.
"""

import math
import os
import statistics
import time
from functools import partial
from pathlib import Path

import anyio
import numpy as np

from airw.protocols import Change, Rank, Records, VectorsOf, ask
from airw.stores import PostgresStore, SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.filters import parse_filter
from tests.support.postgres import PostgresServer

SIZES = [int(size) for size in os.environ.get("AIRW_BENCH_SIZES", "10000,100000").split(",")]
WITH_SQLITE = os.environ.get("AIRW_BENCH_SQLITE", "1") == "1"
DIM, PAGE, QUERIES, CLIENTS, K = 384, 2_000, 40, 32, 10
QUESTION = "How does a corpus grow on a PostgreSQL server?"
SHARES = {"half": 0.5, "some": 0.05, "few": 0.005}
WORDS = np.array([f"word{number}" for number in range(20_000)])


TOPICS = np.random.default_rng(0).standard_normal((2_000, DIM)).astype(np.float32)


def near_topics(count: int, seed: int):
    """Return unit vectors around 2,000 topics; those of a topic have a cosine of about 0.5."""
    random = np.random.default_rng(seed)
    rows = TOPICS[random.integers(0, len(TOPICS), count)] + random.standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def matches(size):
    """Return for each field of a filter which records have it."""
    random = np.random.default_rng(5).random(size)
    return {field: random < share for field, share in SHARES.items()}


def page(start: int, masks):
    """Return a page of artifacts with one record each."""
    random = np.random.default_rng(start)
    rows = near_topics(PAGE, start)
    words = WORDS[(len(WORDS) ** random.random((PAGE, 6))).astype(int) - 1]
    for at, (row, text) in enumerate(zip(rows, words, strict=True), start):
        name = f"a{at:07}"
        fields = {field: bool(mask[at]) for field, mask in masks.items()}
        record = Record(Record.make_id(name, "chunk", 0), name, "chunk", 0, " ".join(text), fields)
        yield ArtifactChange(LedgerEntry(name, "1", "e", "s", record_ids=(record.id,)), [record], row[None])


async def fill(store, size: int) -> None:
    masks = matches(size)
    async with store.writing():
        start = time.perf_counter()
        for first in range(0, size, PAGE):
            await store.apply(Change(await anyio.to_thread.run_sync(lambda first=first: list(page(first, masks)))))
        written = time.perf_counter()
    print(
        f"{size:,}: written in {written - start:,.1f} s ({size / (written - start):,.0f} records/s), "
        f"indexes after that {time.perf_counter() - written:,.1f} s",
        flush=True,
    )


async def times_of(work, items) -> list[float]:
    """Return how many milliseconds each call takes; the first call is not counted."""
    await work(items[0])
    times = []
    for item in items:
        start = time.perf_counter()
        await work(item)
        times.append((time.perf_counter() - start) * 1e3)
    return times


async def times_together(work, items) -> tuple[list[float], float]:
    """Return the times of calls by many clients at once, and the answers in a second."""
    times: list[float] = []

    async def rank_own(own):
        for item in own:
            begun = time.perf_counter()
            await work(item)
            times.append((time.perf_counter() - begun) * 1e3)

    start = time.perf_counter()
    async with anyio.create_task_group() as group:
        for client in range(CLIENTS):
            group.start_soon(rank_own, [items[(client + step) % len(items)] for step in range(8)])
    return times, len(times) / (time.perf_counter() - start)


def show(text: str, times, more: str = "") -> None:
    p99 = sorted(times)[math.ceil(0.99 * len(times)) - 1]
    print(f"  {text:34} p50 {statistics.median(times):8.1f} ms  p99 {p99:8.1f} ms  {more}", flush=True)


def best_of_all(size: int, queries, masks):
    """Return the ten nearest artifacts of each query, for each filter."""
    scores = np.concatenate([queries @ near_topics(PAGE, first).T for first in range(0, size, PAGE)], axis=1)
    best = {}
    for field, mask in masks.items():
        allowed = np.where(mask, scores, -np.inf)
        part = np.argpartition(-allowed, K, axis=1)[:, :K]
        best[field] = [{f"a{at:07}" for at in each if mask[at]} for each in part]
    return best


async def compare_answers(store, size: int, results, kind: str) -> None:
    queries = near_topics(QUERIES, 10**7)
    masks = {"": np.ones(size, np.bool_), **matches(size)}
    truth = best_of_all(size, queries, masks)
    filters = {"": None, **{field: parse_filter({field: True}) for field in SHARES}}

    async def search(query, **options):
        return (await ask(store, Rank(query[None], K, **options)))[0].artifact_ids

    start = time.perf_counter()
    await search(queries[0])
    print(f"{kind}, {size:,}: first search {(time.perf_counter() - start) * 1e3:.1f} ms", flush=True)
    for field, filter in filters.items():
        found = [await search(query, filter=filter) for query in queries]
        hits = sum(len({*one} & other) for one, other in zip(found, truth[field], strict=True))
        times = await times_of(partial(search, filter=filter), queries)
        recall = hits / sum(map(len, truth[field]))
        share = f", a filter that {SHARES[field]:.1%} match" if field else ""
        show(f"ten nearest{share}", times, f"recall@10 {recall:.3f}")
        results.amount(QUESTION, f"{kind}: ten nearest of {size:,}{share}", times, goal=None, unit="ms")
    show("ten nearest artifacts", await times_of(partial(search, per_artifact=True), queries))
    together, rate = await times_together(search, queries)
    show(f"ten nearest, {CLIENTS} clients", together, f"{rate:,.0f} a second")
    random = np.random.default_rng(6)
    names = [[f"a{at:07}" for at in random.choice(size, 1_000, replace=False)] for _ in range(8)]
    records = [[Record.make_id(name, "chunk", 0) for name in each] for each in names]
    texts = [" ".join(WORDS[random.integers(50, 5_000, 3)]) for _ in range(QUERIES)]
    for text, work, items in (
        ("best records of 1,000 artifacts", lambda ids: ask(store, Rank(queries[:1], among=ids)), names),
        ("cosines of 1,000 records", lambda ids: ask(store, Rank(queries[:1], records=ids)), records),
        ("vectors of 1,000 artifacts", lambda ids: ask(store, VectorsOf(ids)), names),
        ("1,000 records", lambda ids: ask(store, Records(ids)), records),
        ("ten best texts of three words", lambda query: ask(store, Rank([query], K)), texts),
    ):
        times = await times_of(work, items)
        show(text, times)
        results.amount(QUESTION, f"{kind}: {text} of {size:,}", times, goal=None, unit="ms")


async def run_on_server(dsn: str, size: int, results) -> None:
    name = f"large-{size}"
    is_new = not await PostgresStore(dsn, name).exists()
    async with PostgresStore(dsn, name, max_connections=CLIENTS) as store:
        if is_new:
            await fill(store, size)
        print(await store.describe_index(), flush=True)
        await compare_answers(store, size, results, "PostgreSQL")


async def run_in_file(path: Path, size: int, results) -> None:
    async with SqliteStore(path) as store:
        await fill(store, size)
        await compare_answers(store, size, results, "SQLite")


def test_a_corpus_that_grows(tmp_path, results):
    print(f"\n{DIM} dimensions")
    dsn = os.environ.get("AIRW_BENCH_DSN")
    for size in SIZES:
        if dsn is not None:
            anyio.run(run_on_server, dsn, size, results)
        else:
            with PostgresServer(settings={"shared_buffers": "256MB"}) as server:
                anyio.run(run_on_server, server.dsn(), size, results)
        if WITH_SQLITE:
            anyio.run(run_in_file, tmp_path / f"large-{size}.airw", size, results)
