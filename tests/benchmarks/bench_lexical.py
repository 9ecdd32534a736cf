"""Lexical search beside tantivy, and the first answer of a process beside bare FTS5.

Texts of 60 words by Zipf's law, in which "common" queries have common words. Each answer contains the ids of the ten
best artifacts. tantivy is measured twice: it stores the texts, as a corpus does, or ids only. It ranks by BM25 with
other constants, so that its answers mostly agree. The answers of FTS5 are as long.
"""

import json
import os
import subprocess
import sys
import time
from functools import partial

import anyio
import numpy as np
import pytest

from airw.protocols import Change, Rank, ask
from airw.stores import SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record

SIZES = [10_000, 100_000] if os.environ.get("AIRW_BENCH_SIZE") is None else [int(os.environ["AIRW_BENCH_SIZE"])]
QUERIES, ROUNDS, STARTS, K, PAGE = 25, 9, 7, 10, 2_000
GOALS = {"common": 1.5, "rare": 2.0}
TOGETHER = "How fast are searches by words that wait together?"
WARM, COLD = "How fast is a search by words?", "How fast is the first answer of a new process?"


def change(number, text):
    name = f"{number:06}"
    record = Record(Record.make_id(name, "document", 0), name, "document", 0, text)
    return ArtifactChange(LedgerEntry(name, "1", "one", "none"), [record], np.ones((1, 1), np.float32))


async def fill(path, texts):
    async with SqliteStore(path) as store:
        for start in range(0, len(texts), PAGE):
            await store.apply(Change([change(at, texts[at]) for at in range(start, min(start + PAGE, len(texts)))]))


def fill_tantivy(texts, *, stored):
    import tantivy

    builder = tantivy.SchemaBuilder()
    builder.add_text_field("id", stored=True, tokenizer_name="raw")
    builder.add_text_field("text", stored=stored)
    index = tantivy.Index(builder.build())
    writer = index.writer(heap_size=100_000_000, num_threads=1)
    for number, text in enumerate(texts):
        writer.add_document(tantivy.Document(id=[f"{number:06}"], text=[text]))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()

    def search(text):
        found = searcher.search(index.parse_query(text, ["text"]), K).hits
        return [searcher.doc(address)["id"][0] for _, address in found]

    return search


def fill_fts5(path, texts):
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute("CREATE VIRTUAL TABLE texts USING fts5 (id UNINDEXED, text)")
    with connection:
        rows = ((f"{number:06}", text) for number, text in enumerate(texts))
        connection.executemany("INSERT INTO texts VALUES (?, ?)", rows)
    connection.close()


def search_fts5(connection, text):
    words = " OR ".join(f'"{word}"' for word in text.split())
    sql = "SELECT id FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT ?"
    return [id for (id,) in connection.execute(sql, (words, K))]


@pytest.fixture(scope="module", params=SIZES, ids=lambda size: f"{size:,}")
def corpus(request, make_texts, tmp_path_factory):
    """Return the number of texts, the file, texts, and queries of common and of rare words."""
    path = tmp_path_factory.mktemp("lexical") / "notes.airw"
    texts = make_texts(request.param)
    anyio.run(fill, path, texts)
    queries = {
        kind: [make_texts(1, words=3 + at % 3, seed=100 + at, rare=kind == "rare")[0] for at in range(QUERIES)]
        for kind in GOALS
    }
    return request.param, path, texts, queries


async def time_in_turn(ways, rounds=ROUNDS):
    """Return the seconds of each way in each round."""
    figures = {name: [] for name in ways}
    for _ in range(rounds):
        for name, way in ways.items():
            start = time.perf_counter()
            await way()
            figures[name].append((time.perf_counter() - start) * 1e3)
    return figures


@pytest.mark.parametrize("kind", GOALS)
def test_search_beside_tantivy(corpus, results, kind):
    count, path, texts, queries = corpus
    asked = queries[kind]
    peers = {"tantivy": fill_tantivy(texts, stored=True), "tantivy, ids only": fill_tantivy(texts, stored=False)}

    async def main():
        async with SqliteStore(path) as store:

            async def find(text):
                [ranking] = await ask(store, Rank([text], K, per_artifact=True))
                return ranking.artifact_ids

            async def ask_all():
                for text in asked:
                    await find(text)

            async def ask_peer(search):
                for text in asked:
                    search(text)

            shared = [len({*await find(text)} & {*peers["tantivy"](text)}) for text in asked]
            assert sum(shared) >= 0.9 * K * len(asked)
            ways = {name: partial(ask_peer, search) for name, search in peers.items()}
            return await time_in_turn(ways | {"airw": ask_all})

    rounds = {name: [value / QUERIES for value in values] for name, values in anyio.run(main).items()}
    goal = GOALS[kind] if count == 100_000 else None
    results.compare(WARM, f"{kind} words, {count:,} records", rounds, dict.fromkeys(peers) | {"tantivy": goal})


@pytest.mark.parametrize("kind", GOALS)
def test_searches_together_beside_one_after_the_other(corpus, results, kind):
    count, path, _, queries = corpus
    asked = [queries[kind][at % QUERIES] for at in range(64)]

    async def main():
        async with SqliteStore(path) as store:
            answers = {}

            async def one_by_one():
                answers["one by one"] = [
                    (await ask(store, Rank([text], K, per_artifact=True)))[0].artifact_ids for text in asked
                ]

            async def together():
                found = await ask(store, Rank(asked, K, per_artifact=True))
                answers["airw"] = [ranking.artifact_ids for ranking in found]

            await one_by_one()
            rounds = await time_in_turn({"one by one": one_by_one, "airw": together})
            assert answers["airw"] == answers["one by one"]
            return rounds

    results.compare(TOGETHER, f"64 queries, {kind} words, {count:,} records", anyio.run(main), {"one by one": 1.0})


# Each process prints when its imports were done, when all was done, and what it found. All processes have one clock.
START_AIRW = """
import sys, time
import asyncio
from airw.protocols import Rank, ask
from airw.stores import SqliteStore

imported = time.perf_counter()

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        [ranking] = await ask(store, Rank([sys.argv[2]], 10, per_artifact=True))
        return [*ranking.artifact_ids], time.perf_counter()

found, done = asyncio.run(main())
import json
print(json.dumps([imported, done, found]))
"""
START_FTS5 = """
import sys, time
import apsw, numpy, sqlite_vec

imported = time.perf_counter()
connection = apsw.Connection(sys.argv[1])
words = " OR ".join(f'"{word}"' for word in sys.argv[2].split())
sql = "SELECT id FROM texts WHERE texts MATCH ? ORDER BY bm25(texts) LIMIT 10"
found = [id for (id,) in connection.execute(sql, (words,))]
done = time.perf_counter()
import json
print(json.dumps([imported, done, found]))
"""


@pytest.mark.parametrize("kind", GOALS)
def test_first_answer_of_a_process_beside_fts5(corpus, results, kind, tmp_path):
    count, path, texts, queries = corpus
    fill_fts5(tmp_path / "fts5.db", texts)
    programs = {"FTS5": (START_FTS5, tmp_path / "fts5.db"), "airw": (START_AIRW, path)}
    whole = {name: [] for name in programs}
    after = {name: [] for name in programs}
    text = next(query for query in queries[kind] if len(query.split()) == 5)
    for turn in range(-1, STARTS):
        found = {}
        for name, (program, file) in programs.items():
            start = time.perf_counter()
            printed = subprocess.run(
                [sys.executable, "-c", program, str(file), text], check=True, capture_output=True, text=True
            ).stdout
            imported, done, found[name] = json.loads(printed)
            if turn >= 0:  # the first one reads the files from the disk
                whole[name].append((done - start) * 1e3)
                after[name].append((done - imported) * 1e3)
        assert len(found["airw"]) == len(found["FTS5"])
    work = f"{kind} words, {count:,} records"
    results.compare(COLD, f"lexical, {work}", whole, {"FTS5": 1.5})
    results.compare(COLD, f"lexical without imports, {work}", after, {"FTS5": None})
