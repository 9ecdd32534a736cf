"""Writing a corpus to a PostgreSQL server, beside a bare COPY of the same rows.

20,000 records of 60 words and 384 numbers, four to an artifact, with three links each, are written in pages of 2,048
artifacts. That is a quarter of what a build writes at once. The first peer copies the rows that came out of it, in
binary format and one COPY a table, into empty tables with the same indexes. The second one also cuts the words of the
texts before, which no COPY can do. A `SqliteStore` on the same machine takes the same pages.

The rows are those of all tables, with a row for each word of a record. They are ready when the COPY begins: what makes
them, and what counts and vacuums the tables afterwards, is in the time of airw alone.
"""

import io
import time
from functools import partial

import anyio
import numpy as np
import pytest

from airw.protocols import Change
from airw.stores import SqliteStore
from airw.testing.changes import put
from airw.values import Analyser, Link
from tests.support.postgres import PostgresServer, fresh_store

QUESTION = "How fast is a corpus written to a PostgreSQL server?"
RECORDS, PER_ARTIFACT, WIDTH, PAGE, ROUNDS = 20_000, 4, 384, 2_048, 3
GOAL = 2.0  # at least half the speed of COPY
TABLES = ("artifact", "record", "embedding", "posting", "link", "name")


@pytest.fixture
def pages(make_texts):
    texts = make_texts(RECORDS)
    vectors = np.random.default_rng(1).standard_normal((RECORDS, WIDTH)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    count = RECORDS // PER_ARTIFACT
    changes = [
        put(
            f"notes/{number}.md",
            *texts[number * PER_ARTIFACT : (number + 1) * PER_ARTIFACT],
            vectors=vectors[number * PER_ARTIFACT : (number + 1) * PER_ARTIFACT],
            metadata={"path": f"notes/{number}.md", "group": number % 10, "tags": ["x", f"t{number % 50}"]},
            links=[Link(f"notes/{(number * step + step) % count}.md", "link") for step in (3, 5, 7)],
        )
        for number in range(count)
    ]
    return [changes[start : start + PAGE] for start in range(0, count, PAGE)]


async def write(store, pages):
    """Return the seconds of writing all pages, with what follows a block of writes."""
    start = time.perf_counter()
    async with store.writing():
        for page in pages:
            await store.apply(Change(page))
    return time.perf_counter() - start


async def write_to_server(server, pages, copies):
    """Write the pages to a new corpus, and keep the rows of its tables."""
    async with fresh_store(server.dsn()) as store:
        seconds = await write(store, pages)
        if not copies:
            connection, schema = await connect(server)
            for table in TABLES:
                copies[table] = io.BytesIO()
                await connection.copy_from_table(table, schema_name=schema, output=copies[table], format="binary")
            await connection.close()
    return seconds


async def copy_rows(server, copies):
    """Return the seconds of copying the rows into the tables of a new corpus."""
    async with fresh_store(server.dsn()):
        connection, schema = await connect(server)
        for copy in copies.values():
            copy.seek(0)
        start = time.perf_counter()
        async with connection.transaction():
            for table, rows in copies.items():
                await connection.copy_to_table(table, schema_name=schema, source=rows, format="binary")
        seconds = time.perf_counter() - start
        await connection.close()
    return seconds


async def connect(server):
    """Return a connection, and the schema of the only corpus."""
    import asyncpg

    connection = await asyncpg.connect(server.dsn())
    return connection, await connection.fetchval("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'airw\\_%'")


async def cut_and_copy(server, copies, texts):
    """Return the seconds of cutting the words of the texts, and copying the rows."""
    start = time.perf_counter()
    Analyser("en").split(texts)
    return time.perf_counter() - start + await copy_rows(server, copies)


async def write_to_file(folder, pages):
    folder.mkdir()
    async with SqliteStore(folder / "corpus.airw") as store:
        return await write(store, pages)


def test_a_corpus_is_written(pages, tmp_path, results):
    texts = [record.text for page in pages for change in page for record in change.records]
    server, copies, rounds = PostgresServer({"shared_buffers": "256MB", "max_wal_size": "4GB"}), {}, {}
    try:
        for number in range(ROUNDS):
            ways = {
                "airw": partial(write_to_server, server, pages, copies),
                "COPY of the same rows": partial(copy_rows, server, copies),
                "the words, and this COPY": partial(cut_and_copy, server, copies, texts),
                "SqliteStore": partial(write_to_file, tmp_path / f"{number}", pages),
            }
            for name, way in ways.items():
                rounds.setdefault(name, []).append(1000 * anyio.run(way))
    finally:
        server.remove()
    goals = {"COPY of the same rows": GOAL, "the words, and this COPY": None, "SqliteStore": None}
    results.compare(QUESTION, f"{RECORDS:,} records with words, vectors and links", rounds, goals)
