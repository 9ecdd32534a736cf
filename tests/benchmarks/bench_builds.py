"""CPU time of builds beside sqlite-vec with FTS5, with vectors that are given.

100,000 records of 60 words with 384 dimensions. The peer inserts the same rows into one table of each kind, in one
transaction: vectors, texts, and metadata. It has no ledger, checks nothing, and finds no changes. CPU time counts all
threads.
"""

import json
import os
import time
from pathlib import Path

import anyio
import apsw
import numpy as np
import sqlite_vec

from airw.corpora import build
from airw.embedders import embedder_from
from airw.sources import from_mapping

RECORDS, DIM, ROUNDS = int(os.environ.get("AIRW_BENCH_ROWS", "100000")), 384, 3


def fields_of(number: str) -> dict:
    return {"group": int(number) % 10, "number": int(number)}


def make_vectors(count: int) -> np.ndarray:
    rows = np.random.default_rng(0).standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def build_sqlite_vec(path: Path, texts: dict[str, str], vectors: np.ndarray) -> None:
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(enable=True)
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(f"CREATE VIRTUAL TABLE vector USING vec0 (data float[{DIM}])")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5 (text, tokenize='unicode61')")
    connection.execute("CREATE TABLE record (rowid INTEGER PRIMARY KEY, id TEXT, metadata TEXT)")
    with connection:
        connection.executemany(
            "INSERT INTO vector (rowid, data) VALUES (?, ?)", ((row, v.tobytes()) for row, v in enumerate(vectors))
        )
        connection.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", enumerate(texts.values()))
        connection.executemany(
            "INSERT INTO record VALUES (?, ?, ?)",
            ((row, name, json.dumps(fields_of(name))) for row, name in enumerate(texts)),
        )
    assert connection.execute("SELECT count(*) FROM words").fetchone() == (RECORDS,)
    connection.close()


async def build_airw(path: Path, texts: dict[str, str], vectors: np.ndarray) -> None:
    row_of = {text: row for row, text in enumerate(texts.values())}
    # The questions of the floors are no texts of the corpus: any vector does.
    embedder = embedder_from(lambda asked: vectors[[row_of.get(text, 0) for text in asked]], id="given", dim=DIM)
    source = from_mapping(texts, name="bench", metadata_of=lambda name, _: fields_of(name), embedder=embedder)
    async with build(source, store=path) as corpus:
        assert corpus.report.added == RECORDS


def measure_cpu(work, *args) -> float:
    start = time.process_time()
    work(*args)
    return time.process_time() - start


def test_build_beside_sqlite_vec(make_texts, results, tmp_path):
    texts, vectors = {str(number): text for number, text in enumerate(make_texts(RECORDS))}, make_vectors(RECORDS)
    assert len({*texts.values()}) == RECORDS
    ways = {"airw": lambda *args: anyio.run(build_airw, *args), "sqlite-vec and FTS5": build_sqlite_vec}
    rounds = {name: [] for name in ways}
    for run in range(ROUNDS):
        for name, way in ways.items():
            path = tmp_path / f"{name} {run}.airw"
            rounds[name].append(measure_cpu(way, path, texts, vectors))
            path.unlink()
    question = f"How much CPU time does a build of {RECORDS:,} records take?"
    results.compare(question, "vectors given, 384 dimensions", rounds, {"sqlite-vec and FTS5": 1.8}, unit="s")
