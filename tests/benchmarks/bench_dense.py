"""Exact dense search beside plain numpy; a new process beside one with sqlite-vec."""

import json
import os
import statistics
import subprocess
import sys
import time

import anyio
import numpy as np
import pytest

from airw.protocols import Change, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.benchmarks.results import run_in_turn
from tests.support.corpora import ROOT

DIM, K, PAGE = 384, 10, 1_000
QUERIES, BATCH = 20, 64
SIZES = [10_000, 100_000]


def unit_rows(count, seed):
    rows = np.random.default_rng(seed).standard_normal((count, DIM), np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def change(number, vector):
    name = f"{number:06}"
    record = Record(Record.make_id(name, "document", 0), name, "document", 0, f"text {number}", {"group": number % 10})
    return ArtifactChange(LedgerEntry(name, "1", "random", "none"), [record], vector[np.newaxis])


def search_by_hand(matrix, queries):
    """Return the best `K` rows for each query, best first, as any exact search must."""
    found = []
    for scores in queries @ matrix.T:
        top = np.argpartition(scores, -K)[-K:]
        found.append(top[np.argsort(-scores[top])].tolist())
    return found


async def search(store, queries):
    return [[int(name) for name in each.artifact_ids] for each in await ask(store, Rank(queries, K))]


async def fill(store, matrix):
    for start in range(0, len(matrix), PAGE):
        await store.apply(Change([change(at, matrix[at]) for at in range(start, start + PAGE)]))


@pytest.mark.parametrize("rows", SIZES)
@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_exact_search_beside_numpy(kind, rows, results, tmp_path):
    """Each figure is the median over the queries of one round; set OPENBLAS_NUM_THREADS=1."""
    matrix = unit_rows(rows, 1)
    works = {
        "one query": [query[np.newaxis] for query in unit_rows(QUERIES, 2)],
        f"a batch of {BATCH}": [unit_rows(BATCH, 3)],
    }

    async def main():
        async with kind(tmp_path / "dense.airw") if kind is SqliteStore else kind() as store:
            await fill(store, matrix)
            for work, calls in works.items():
                rounds = {"airw": [], "numpy": []}
                for _ in range(7):
                    seconds = {"airw": [], "numpy": []}
                    for queries in calls:
                        start = time.perf_counter()
                        by_hand = search_by_hand(matrix, queries)
                        seconds["numpy"].append(time.perf_counter() - start)
                        start = time.perf_counter()
                        found = await search(store, queries)
                        seconds["airw"].append(time.perf_counter() - start)
                        assert found == by_hand
                    for name, figures in seconds.items():
                        rounds[name].append(statistics.median(figures) * 1e3)
                goals = {"numpy": 1.05}
                results.compare("How fast is a dense search?", f"{work}, {rows:,}, {kind.__name__}", rounds, goals)

    anyio.run(main)


# A process of its own: it prints `imported`, then the ids that it found; then its memory, once per line of its input.

PROCESS = """
import sys, json
def report(**facts): print(json.dumps(facts), flush=True)
def memory():
    lines = [line.split() for line in open("/proc/self/smaps_rollup")][1:]
    return {name.rstrip(":"): int(kilobytes) * 1024 for name, kilobytes, *_ in lines}
file, queries = sys.argv[1], json.load(open(sys.argv[2]))
"""
AIRW = """
import anyio, numpy as np
from airw.protocols import Rank, ask
from airw.stores import SqliteStore
async def main():
    report(imported=True)
    async with await SqliteStore.open(file) as store:
        for query in queries[:int(sys.argv[3])]:
            [ranking] = await ask(store, Rank(np.array([query], np.float32), 10))
            report(found=[int(name) for name in ranking.artifact_ids])
        while sys.stdin.readline():
            report(memory=memory())
anyio.run(main)
"""
SQLITE_VEC = """
import apsw, sqlite_vec
report(imported=True)
connection = apsw.Connection(file)
connection.enable_load_extension(True)  # noqa: FBT003 - its only parameter
connection.load_extension(sqlite_vec.loadable_path())
for query in queries[:int(sys.argv[3])]:
    rows = connection.execute("SELECT rowid FROM v WHERE e MATCH ? ORDER BY distance LIMIT 10", [json.dumps(query)])
    report(found=[rowid for (rowid,) in rows])
while sys.stdin.readline():
    report(memory=memory())
"""


class Searcher:
    """A process that searches, with the times from its start to its imports and answer."""

    def __init__(self, code, file, queries, count):
        start = time.perf_counter()
        command = [sys.executable, "-c", PROCESS + code, str(file), str(queries), str(count)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        self._read("imported")
        self.imported = time.perf_counter() - start
        self.found = [self._read("found")]
        self.answered = time.perf_counter() - start
        self.found += [self._read("found") for _ in range(count - 1)]

    def _read(self, name):
        return json.loads(self._process.stdout.readline())[name]

    def measure(self):
        """Return the memory of the process now, by the names of the kernel."""
        print(file=self._process.stdin, flush=True)
        return self._read("memory")

    def stop(self):
        self._process.communicate()


def _environment():
    return os.environ | {"PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}


def make_sqlite_vec(path, matrix):
    import apsw
    import sqlite_vec

    connection = apsw.Connection(str(path))
    connection.enable_load_extension(True)  # noqa: FBT003 - its only parameter
    connection.load_extension(sqlite_vec.loadable_path())
    connection.execute(f"CREATE VIRTUAL TABLE v USING vec0 (e float[{DIM}] distance_metric=cosine)")
    with connection:
        connection.executemany(
            "INSERT INTO v (rowid, e) VALUES (?, ?)", ((at, row.tobytes()) for at, row in enumerate(matrix))
        )
    connection.close()


@pytest.fixture(scope="module", params=SIZES)
def files(request, tmp_path_factory):
    """Return the vectors, the program and file of each library, and a file of queries."""
    folder, matrix = tmp_path_factory.mktemp("dense"), unit_rows(request.param, 1)

    async def write():
        async with SqliteStore(folder / "dense.airw") as store:
            await fill(store, matrix)

    anyio.run(write)
    make_sqlite_vec(folder / "dense.db", matrix)
    (folder / "queries.json").write_text(json.dumps(unit_rows(QUERIES, 2).tolist()))
    programs = {"airw": (AIRW, folder / "dense.airw"), "sqlite-vec": (SQLITE_VEC, folder / "dense.db")}
    return matrix, programs, folder / "queries.json"


def test_first_answer_of_a_process(files, results):
    matrix, programs, queries = files
    expected = search_by_hand(matrix, unit_rows(QUERIES, 2)[:1])
    searches = {name: [] for name in programs}

    def run(name):
        def start():
            searcher = Searcher(*programs[name], queries, 1)
            searcher.stop()
            assert searcher.found == expected
            searches[name].append((searcher.answered - searcher.imported) * 1e3)
            return searcher.answered

        return start

    rounds = run_in_turn({name: run(name) for name in programs}, rounds=7)
    question = "How fast is the first answer of a new process?"
    results.compare(question, f"dense, {len(matrix):,}", rounds, {"sqlite-vec": 1.5})
    results.compare(question, f"dense, {len(matrix):,}, without imports", searches, {"sqlite-vec": None})


def test_memory_of_processes_that_search(files, results):
    """Pages that processes share count once: each process counts its part of them."""
    matrix, programs, queries = files
    question, vectors = "How much memory do searches take?", matrix.nbytes / 1e6
    for name, program in programs.items():
        searchers = [Searcher(*program, queries, QUERIES) for _ in range(2)]
        shared = [searcher.measure() for searcher in searchers]
        searchers[0].stop()
        alone = searchers[1].measure()
        searchers[1].stop()
        rows = {
            "one process": alone["Rss"],
            "two processes, each": statistics.mean(each["Pss"] for each in shared),
            "private to a process": alone["Anonymous"],
        }
        for work, amount in rows.items():
            is_goal = name == "airw" and len(matrix) == max(SIZES) and work != "private to a process"
            goal = 1.2 * vectors if is_goal else None
            results.amount(question, f"{name}, {len(matrix):,}, {work}", [amount / 1e6], goal=goal, unit="MB")
