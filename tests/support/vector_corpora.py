"""Corpora of vectors in clusters, as those of texts are, with fields for filters."""

from itertools import islice

import numpy as np

from airw._base.vectors import unit_rows
from airw.protocols import Change, Rank, ask
from airw.values import ArtifactChange, LedgerEntry, Record

TOPICS = np.random.default_rng(0).standard_normal((100, 32))
SHARES = {"half": 0.5, "some": 0.05, "few": 0.005}


def near_topics(count, seed, dim=32):
    """Return unit vectors in clusters, as those of texts are."""
    random = np.random.default_rng(seed)
    rows = TOPICS[random.integers(0, len(TOPICS), count), :dim] + 0.7 * random.standard_normal((count, dim))
    return unit_rows(rows, count=count)


def near_centres(count, dim):
    """Return unit vectors around 200 centres, as models make them."""
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((200, dim), np.float32)[draw.integers(0, 200, count)]
    rows += 0.5 * draw.standard_normal((count, dim), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def iterate_pages(items, size):
    """Return the items in tuples of this size; the last may be shorter."""
    items = iter(items)
    return iter(lambda: tuple(islice(items, size)), ())


def changes_of(vectors, *, per_artifact=3, first=0):
    """Return artifacts with these vectors, whose records have the fields of `SHARES`."""
    random = np.random.default_rng(1)
    for number, rows in enumerate(iterate_pages(range(len(vectors)), per_artifact), first):
        name = f"a{number:06}"
        records = [
            Record(
                Record.make_id(name, kind := "title" if at == 0 else "chunk", at),
                name,
                kind,
                at,
                "",
                {"n": row, **{field: bool(random.random() < share) for field, share in SHARES.items()}},
            )
            for at, row in enumerate(rows)
        ]
        entry = LedgerEntry(name, "1", "e", "s", record_ids=tuple(record.id for record in records))
        yield ArtifactChange(entry, records, vectors[[*rows]])


async def fill(store, vectors, **options):
    async with store.writing():
        for page in iterate_pages(changes_of(vectors, **options), 1_000):
            await store.apply(Change(page))


async def search(store, queries, k=10, **options):
    return [
        (ranking.record_ids, ranking.artifact_ids, ranking.scores.tolist())
        for ranking in await ask(store, Rank(queries, k, **options))
    ]
