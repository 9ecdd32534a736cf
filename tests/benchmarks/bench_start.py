"""A process from its start to its first answer, beside sqlite-vec and FTS5.

Each process imports what it needs, opens a file, searches once and prints the ids. Both files have the same texts of 60
words and the same vectors, and the query's vector is given. `AIRW_BENCH_ROWS` names one size instead of both.
"""

import json
import os
from functools import partial

import anyio
import apsw
import pytest
import sqlite_vec

from airw import build, embedder_from, from_mapping
from tests.benchmarks.results import run_in_turn
from tests.support.new_processes import SEARCH, run_process
from tests.support.vector_corpora import near_centres

QUESTION = "How fast is the first answer of a new process?"
SIZES = [int(os.environ["AIRW_BENCH_ROWS"])] if "AIRW_BENCH_ROWS" in os.environ else [10_000, 100_000]
DIM, K, ROUNDS = 384, 10, 9
GOAL = 1.5

THEIRS = """
import json, sys
import apsw, sqlite_vec

file, mode, text, vector = sys.argv[1:]
connection = apsw.Connection(file, flags=apsw.SQLITE_OPEN_READONLY)
connection.enable_load_extension(True)
connection.load_extension(sqlite_vec.loadable_path())
if mode == "dense":
    vector = sqlite_vec.serialize_float32(json.loads(vector))
    rows = connection.execute("SELECT rowid FROM vectors WHERE vector MATCH ? ORDER BY distance LIMIT 10", [vector])
else:
    words = " OR ".join(f'"{word}"' for word in text.split())
    rows = connection.execute("SELECT rowid FROM texts WHERE texts MATCH ? ORDER BY rank LIMIT 10", [words])
print(*(row[0] for row in rows))
"""


def write_ours(path, texts, vectors) -> None:
    row_of = {text: row for row, text in enumerate(texts)}
    embedder = embedder_from(lambda given: vectors[[row_of[text] for text in given]], id="given", dim=DIM)

    async def main():
        source = from_mapping({str(row): text for row, text in enumerate(texts)}, name="notes")
        async with build(source, store=path, embedder=embedder):
            pass

    anyio.run(main)


def write_theirs(path, texts, vectors) -> None:
    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)  # noqa: FBT003 - not ours
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"CREATE VIRTUAL TABLE vectors USING vec0(vector float[{DIM}] distance_metric=cosine)")
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5(text)")
    with connection:
        rows = ((row, vector.tobytes()) for row, vector in enumerate(vectors))
        connection.executemany("INSERT INTO vectors(rowid, vector) VALUES (?, ?)", rows)
        connection.executemany("INSERT INTO texts(rowid, text) VALUES (?, ?)", enumerate(texts))
    connection.close()


@pytest.mark.parametrize("count", SIZES)
def test_the_first_answer_of_a_process(count, make_texts, results, tmp_path):
    texts, vectors = make_texts(count), near_centres(count, DIM)
    write_ours(tmp_path / "ours.airw", texts, vectors)
    write_theirs(tmp_path / "theirs.db", texts, vectors)
    text = " ".join(texts[7].split()[:4])
    vector = json.dumps(vectors[7].tolist())
    for mode, peer in (("dense", "sqlite-vec"), ("lexical", "FTS5")):
        ours = partial(run_process, SEARCH, tmp_path / "ours.airw", mode, text, vector)
        theirs = partial(run_process, THEIRS, tmp_path / "theirs.db", mode, text, vector)
        # FTS5 weighs common words otherwise, so that some of the ten texts differ.
        assert len(ours() & theirs()) >= (K if mode == "dense" else K // 2)
        rounds = run_in_turn({"airw": ours, peer: theirs}, rounds=ROUNDS)
        results.compare(QUESTION, f"{mode}, {count:,} texts", rounds, {peer: GOAL})
