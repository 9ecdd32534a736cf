"""Small artifacts and the whole content of a store, for tests of stores."""

import sqlite3
import zlib
from contextlib import closing

import numpy as np

from airw.protocols import (
    ArtifactIds,
    Calibrations,
    Change,
    Config,
    Counts,
    Edges,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    ask,
)
from airw.stores import SqliteStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record


def change(name, text="", *, version="1", records=1, dim=4, links=(), names=(), metadata=None, seed=None):
    """Return an artifact with `records` chunks; its vectors depend on its name and version."""
    rows = [
        Record(Record.make_id(name, "chunk", at), name, "chunk", at, text or f"{name} {version}", dict(metadata or {}))
        for at in range(records)
    ]
    random = np.random.default_rng(zlib.crc32(f"{name} {version} {seed}".encode(errors="replace")))
    vectors = random.standard_normal((records, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    entry = LedgerEntry(name, version, "e", "s", record_ids=tuple(row.id for row in rows))
    return ArtifactChange(entry, rows, vectors, Extraction([Link(ref) for ref in links], names))


async def everything(store):
    """Return the whole content of a store, read by all methods."""
    ids = await ask(store, ArtifactIds())
    records = await ask(store, RecordsOf(ids))
    record_ids = [record.id for group in records for record in group]
    words = [record.text for group in records for record in group][:3]
    query = np.ones((1, 4), np.float32)
    rankings = [*await ask(store, Rank(query, 99)), *await ask(store, Rank(words, 99))]
    return (
        ids,
        records,
        await ask(store, Records(record_ids)),
        await ask(store, Ledger()),
        (await ask(store, Vectors(record_ids))).tolist(),
        [
            vectors.tolist() if isinstance(vectors, np.ndarray) else vectors
            for vectors in await ask(store, VectorsOf(ids))
        ],
        [(list(ranking.record_ids), ranking.scores.tolist()) for ranking in rankings],
        await ask(store, Edges(ids, "both")),
        await ask(store, Referrers(ids)),
        await ask(store, MaxFanIn()),
        await ask(store, UnresolvedLinks()),
        await ask(store, LinkCounts()),
        await ask(store, Matching([("n", 1), ("version", "1")])),
        await ask(store, Counts()),
        await ask(store, Config()),
        await ask(store, Calibrations()),
    )


async def content_of(store):
    """Return what a build writes, in a form that can be compared: the ledger first."""
    ids = await ask(store, ArtifactIds())
    records = await ask(store, RecordsOf(ids))
    vectors = await ask(store, Vectors([record.id for group in records for record in group]))
    rest = await store.read(Edges(ids, "both"), UnresolvedLinks(), Counts(), Config())
    return await ask(store, Ledger()), records, vectors.tolist(), *rest


async def fill(path, *changes):
    async with SqliteStore(path) as store:
        await store.apply(Change(changes))


def check_file(path):
    """Check the file and the text index with SQLite, and look for orphaned rows."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1)")
        for table, column in (("record", "artifact_id"), ("link", "artifact_id"), ("name", "artifact_id")):
            orphans = f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM artifact)"
            assert connection.execute(orphans).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM vector").fetchone() == (
            connection.execute("SELECT count(*) FROM record").fetchone()
        )
