"""Each operation of a store on a server, beside a query by hand and a file.

10,000 artifacts with a text of about 50 words, a 384-dimensional vector, two fields and ten links. The queries are
written by hand for asyncpg, and read the same tables on the same server, except for words: PostgreSQL's own full-text
search has a table of its own, and ranks without BM25. They return rows; airw returns records, edges and rankings.
"""

import json
import struct
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import anyio
import asyncpg
import numpy as np
import pytest

from airw.protocols import Change, Edges, Ledger, Matching, Rank, Records, RecordsOf, Referrers, Vectors, ask
from airw.stores import PostgresStore, SqliteStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record
from airw.values.filters import parse_filter
from tests.support.postgres import PostgresServer

COUNT, DIM, DEGREE, GROUPS, MANY, PAGE, ROUNDS = 10_000, 384, 10, 100, 1_000, 500, 7
BY_HAND, BESIDE_A_FILE = (
    "How fast is a store on a PostgreSQL server beside queries by hand?",
    "How fast is a store on a PostgreSQL server beside a file?",
)
WRITING = "How fast are writes to a PostgreSQL server beside a bare COPY of the same rows?"
GOAL, COPY_GOAL = 1.3, 2.0  # the highest accepted ratios
TABLES = ("artifact", "record", "embedding", "link", "name", "posting")

Call = Callable[[], Awaitable[object]]


def make_changes(first, count, rng):
    """Return artifacts whose words are about as frequent as those of a language."""
    vectors = rng.standard_normal((count, DIM)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chances = 1 / np.arange(1, 20_001)
    words = rng.choice(20_000, (count, 50), p=chances / chances.sum())
    targets = rng.integers(0, COUNT, (count, DEGREE))
    changes = []
    for at in range(count):
        id = f"n{first + at:06}"
        text = " ".join(f"w{word}" for word in words[at])
        fields = {"group": int(first + at) % GROUPS, "topic": f"t{targets[at][0] % 10}"}
        record = Record(Record.make_id(id, "chunk", 0), id, "chunk", 0, text, fields)
        links = [Link(f"n{target:06}") for target in dict.fromkeys(targets[at].tolist())]
        entry = LedgerEntry(id, "1", "e", "s", "x", "bench")
        changes.append(ArtifactChange(entry, [record], vectors[at : at + 1], Extraction(links=links)))
    return changes


def list_calls(store, ids, record_ids, query, words) -> dict[str, Call]:
    """Return each operation that reads."""
    rare, common = words
    return {
        "get_records, 1 id": lambda: ask(store, Records(record_ids[:1])),
        "get_records, 1,000 ids": lambda: ask(store, Records(record_ids)),
        "records_of, 1,000 artifacts": lambda: ask(store, RecordsOf(ids)),
        "ledger, 1,000 artifacts": lambda: ask(store, Ledger(ids)),
        "neighbors, 1 artifact": lambda: ask(store, Edges(ids[:1])),
        "neighbors, 1,000 artifacts": lambda: ask(store, Edges(ids)),
        "referrers, 1,000 artifacts": lambda: ask(store, Referrers(ids)),
        "matching, one field": lambda: ask(store, Matching([("group", 7)])),
        "best_of, 1,000 artifacts": lambda: ask(store, Rank(query, per_artifact=True, among=ids)),
        "similarities, 1,000 records": lambda: ask(store, Rank(query, records=record_ids)),
        "vectors, 1,000 records": lambda: ask(store, Vectors(record_ids)),
        "search_vectors, k = 10": lambda: ask(store, Rank(query, 10)),
        "search_vectors, k = 10, a filter": lambda: ask(store, Rank(query, 10, filter=parse_filter({"topic": "t3"}))),
        "search_text, rarer words": lambda: ask(store, Rank([rare], 10)),
        "search_text, a common word": lambda: ask(store, Rank([common], 10)),
    }


def list_queries(connection, ids, record_ids, query, words) -> dict[str, Call]:
    """Return the shortest query for each operation."""
    columns = "SELECT id, artifact_id, kind, idx, convert_from(text, 'UTF8') AS text, metadata FROM record"
    vector = struct.pack(">HH", DIM, 0) + query[0].astype(">f4").tobytes()
    rare, common = (" | ".join(f"'{word}'" for word in each.split()) for each in words)
    nearest = "SELECT record_id, artifact_id, 1 - (value <=> $1::vector) AS score, value FROM embedding"
    text = """SELECT id, artifact_id, ts_rank(words, $1::tsquery) AS score FROM hand JOIN record USING (number)
        WHERE words @@ $1::tsquery ORDER BY score DESC LIMIT 10"""
    edges = (
        "SELECT artifact_id, target, type, origin, weight FROM link WHERE is_covered AND artifact_id = ANY($1::text[])"
    )
    by_name = {
        "get_records, 1 id": (f"{columns} WHERE id = ANY($1::text[])", record_ids[:1]),
        "get_records, 1,000 ids": (f"{columns} WHERE id = ANY($1::text[])", record_ids),
        "records_of, 1,000 artifacts": (f"{columns} WHERE artifact_id = ANY($1::text[]) ORDER BY number", ids),
        "ledger, 1,000 artifacts": (
            """SELECT artifact.*, array_agg(record.id ORDER BY number) FROM artifact
            JOIN record ON artifact_id = artifact.id WHERE artifact.id = ANY($1::text[]) GROUP BY artifact.id""",
            ids,
        ),
        "best_of, 1,000 artifacts": (
            """SELECT DISTINCT ON (artifact_id) artifact_id, record_id, 1 - (value <=> $1::vector) AS score
            FROM embedding WHERE artifact_id = ANY($2::text[]) ORDER BY artifact_id, score DESC""",
            vector,
            ids,
        ),
        "similarities, 1,000 records": (
            "SELECT record_id, 1 - (value <=> $1::vector) FROM embedding WHERE record_id = ANY($2::text[])",
            vector,
            record_ids,
        ),
        "vectors, 1,000 records": (
            "SELECT record_id, value FROM embedding WHERE record_id = ANY($1::text[])",
            record_ids,
        ),
        "search_vectors, k = 10": (f"{nearest} ORDER BY value <=> $1::vector LIMIT 10", vector),
        "search_vectors, k = 10, a filter": (
            f"""{nearest} JOIN record USING (artifact_id, number) WHERE fields @> '{{"topic": "t3"}}'
            ORDER BY value <=> $1::vector LIMIT 10""",
            vector,
        ),
        "neighbors, 1 artifact": (
            edges,
            ids[:1],
        ),
        "neighbors, 1,000 artifacts": (
            edges,
            ids,
        ),
        "referrers, 1,000 artifacts": (
            "SELECT DISTINCT target, artifact_id FROM link WHERE is_covered AND target = ANY($1::text[]) ORDER BY 1, 2",
            ids,
        ),
        "matching, one field": (
            # A field that equals the value, or a list that contains it.
            """SELECT DISTINCT artifact_id FROM record
            WHERE fields @> '{"group": 7}' OR fields @> '{"group": [7]}' ORDER BY 1""",
        ),
        "search_text, rarer words": (text, rare),
        "search_text, a common word": (text, common),
    }
    return {name: lambda query=query: connection.fetch(*query) for name, query in by_name.items()}


async def take_vectors_as_bytes(connection):
    """Register a codec that makes no Python object of each number."""
    await connection.set_type_codec("vector", schema="public", encoder=bytes, decoder=bytes, format="binary")


async def time_in_turn(ways: dict[str, Call]) -> dict[str, list[float]]:
    """Return the milliseconds of each round of each way; a round is long enough."""
    figures: dict[str, list[float]] = {name: [] for name in ways}
    repeats = {}
    for name, way in ways.items():
        for _ in range(6):  # a statement is planned for all values after five calls
            start = time.perf_counter()
            await way()
        repeats[name] = max(1, int(0.01 / (time.perf_counter() - start)))
    for _ in range(ROUNDS):
        for name, way in ways.items():
            start = time.perf_counter()
            for _ in range(repeats[name]):
                await way()
            figures[name].append((time.perf_counter() - start) * 1e3 / repeats[name])
    return figures


@pytest.fixture(scope="module")
def server():
    with PostgresServer(settings={"shared_buffers": "256MB", "fsync": "on"}) as server:
        yield server


async def open_all(stack, server, folder):
    """Return both stores with the same content, and a connection to the tables of one."""
    rng = np.random.default_rng(5)
    changes = make_changes(0, COUNT, rng)
    store = await stack.enter_async_context(PostgresStore(server.dsn(), "bench"))
    file = await stack.enter_async_context(SqliteStore(folder / "bench.airw"))
    for start in range(0, COUNT, 2_000):
        for each in (store, file):
            await each.apply(Change(changes[start : start + 2_000]))
    connection = await asyncpg.connect(
        server.dsn(), server_settings={"search_path": "airw_bench, public", "jit": "off"}
    )
    stack.push_async_callback(connection.close)
    await take_vectors_as_bytes(connection)
    await connection.set_type_codec("json", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    await connection.execute(
        """CREATE TABLE hand AS SELECT number, convert_from(text, 'UTF8')::tsvector AS words FROM record;
        CREATE INDEX ON hand USING gin (words); CREATE INDEX ON hand (number)"""
    )
    await connection.execute("VACUUM ANALYZE")
    return store, file, connection, rng


def test_reads(server, results, tmp_path):
    async def main():
        async with AsyncExitStack() as stack:
            store, file, connection, rng = await open_all(stack, server, tmp_path)
            ids = [f"n{at:06}" for at in rng.choice(COUNT, MANY, replace=False).tolist()]
            record_ids = [Record.make_id(id, "chunk", 0) for id in ids]
            query = rng.standard_normal((1, DIM)).astype(np.float32)
            words = ("w150 w420 w900", "w3 w420 w900")
            calls = list_calls(store, ids, record_ids, query, words)
            by_hand = list_queries(connection, ids, record_ids, query, words)
            in_a_file = list_calls(file, ids, record_ids, query, words)
            for work, call in calls.items():
                ways = {"airw": call, "asyncpg": by_hand[work], "SqliteStore": in_a_file[work]}
                rounds = await time_in_turn(ways)
                results.compare(BY_HAND, work, rounds, {"asyncpg": GOAL})
                results.compare(BESIDE_A_FILE, work, rounds, {"SqliteStore": None})

    anyio.run(main)


def test_writes(server, results, tmp_path):
    async def main():
        async with AsyncExitStack() as stack:
            store = await stack.enter_async_context(PostgresStore(server.dsn(), "written"))
            file = await stack.enter_async_context(SqliteStore(tmp_path / "written.airw"))
            connection = await asyncpg.connect(server.dsn(), server_settings={"search_path": "airw_written, public"})
            stack.push_async_callback(connection.close)
            await take_vectors_as_bytes(connection)
            rng, first = np.random.default_rng(5), 0
            await connection.execute("CREATE SCHEMA bare")
            for table in TABLES:
                await connection.execute(f"CREATE TABLE bare.{table} (LIKE {table} INCLUDING ALL EXCLUDING GENERATED)")
            rounds: dict[str, list[float]] = {"airw": [], "COPY": [], "SqliteStore": []}
            for _ in range(ROUNDS):
                page = make_changes(first, PAGE, rng)
                first += PAGE
                since = await connection.fetchval("SELECT coalesce(max(number), 0) FROM record")
                for name, each in (("airw", store), ("SqliteStore", file)):
                    start = time.perf_counter()
                    await each.apply(Change(page))
                    rounds[name].append((time.perf_counter() - start) * 1e3)
                rows = {table: await connection.fetch(*select_new(table, since, page)) for table in TABLES}
                start = time.perf_counter()
                async with connection.transaction():
                    for table in TABLES:
                        await connection.copy_records_to_table(table, records=rows[table], schema_name="bare")
                rounds["COPY"].append((time.perf_counter() - start) * 1e3)
            work = f"apply, {PAGE} artifacts"
            results.compare(WRITING, work, rounds, {"COPY": COPY_GOAL})
            results.compare(BESIDE_A_FILE, work, rounds, {"SqliteStore": None})
            one = [page[0]]
            for name, each in (("airw", store), ("SqliteStore", file)):
                rounds[name] = (await time_in_turn({name: lambda each=each: each.apply(Change(one))}))[name]
            results.compare(BESIDE_A_FILE, "apply, 1 artifact again", rounds, {"SqliteStore": None})

    anyio.run(main)


def select_new(table, since, page):
    """Return a query for the rows of a page, and its parameters."""
    ids = [change.entry.artifact_id for change in page]
    if table in ("record", "embedding", "posting"):
        return f"SELECT * FROM {table} WHERE number > $1", since
    return f"SELECT * FROM {table} WHERE {'id' if table == 'artifact' else 'artifact_id'} = ANY($1::text[])", ids
