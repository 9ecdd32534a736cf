"""The time of a small write with each durability, and of a check of the whole file.

A write is one artifact of 50 words with 384 dimensions. The checked file has 10,000 of them.
"""

import time

import anyio
import numpy as np

from airw.protocols import Change
from airw.stores import DURABILITIES, SqliteStore, check_file
from airw.values import ArtifactChange, LedgerEntry, Record

COUNT, WRITES, DIM = 10_000, 100, 384


def make_changes(texts):
    rows = np.random.default_rng(0).standard_normal((len(texts), DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for name, text, row in zip(map(str, range(len(texts))), texts, rows, strict=True):
        record = Record(Record.make_id(name, "document", 0), name, "document", 0, text)
        yield ArtifactChange(LedgerEntry(name, "1", "e", "s"), [record], row[None])


def test_small_writes_and_checks(make_texts, times, tmp_path):
    changes = list(make_changes(make_texts(COUNT)))

    async def main():
        for durability in DURABILITIES:
            path = tmp_path / f"{durability}.airw"
            async with SqliteStore(path, durability=durability) as store:
                for change in changes[:WRITES]:
                    start = time.perf_counter()
                    await store.apply(Change([change]))
                    times.note(durability, "ms", start)
                await store.apply(Change(changes[WRITES:]))
            start = time.perf_counter()
            assert await check_file(path) == []
            times.note("check", "ms", start)

    anyio.run(main)
    print()
    for operation in (*DURABILITIES, "check"):
        print(f"{operation:24}{times.typical(operation, 'ms'):8.2f} ms")
