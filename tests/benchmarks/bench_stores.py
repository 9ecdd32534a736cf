"""Builds, searches and memory compared with `ir`, with its stores in files and in memory.

10,000 records of 60 words, each library with its own light embedder (512 cells, feature hashing), as users get them.
The goals compare with the store of files, which is persistent like ours; the one in memory is not.
"""

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import anyio
import ir
import numpy as np
import psutil
from ir.store import CorpusStore

from airw.corpora import build
from airw.protocols import Change
from airw.sources import from_mapping
from airw.values import ArtifactChange, LedgerEntry, Record

RECORDS, BUILDS, REBUILDS, QUERIES, ROUNDS, WRITES, PROCESSES = 10_000, 2, 6, 15, 3, 3, 1
NEW = "a text that no record held before"
MODES = ("dense", "lexical", "hybrid")
BUILDING = "How fast are builds of 10,000 records?"
SEARCHING = "How fast are searches in 10,000 records?"
MEMORY = "How much memory do 10,000 records need?"
# The highest accepted ratio to `ir` with its store in files.
GOALS = {
    BUILDING: {
        "build": 1 / 10,
        "rebuild, unchanged": 1 / 15,
        "rebuild, one change": 1 / 15,
    },
    SEARCHING: {
        "first search after a write": 1 / 50,
        "dense": 1 / 3,
        "lexical, common words": 1 / 5,
        "lexical, rarer words": 1 / 5,
        "hybrid, common words": 1 / 5,
        "hybrid, rarer words": 1 / 5,
        "dense, one filter": 1 / 10,
        "dense, new filters": 1 / 10,
    },
    MEMORY: {"resident memory": 1 / 2, "peak memory": 1 / 2},
}


def fields_of(artifact_id, raw):
    return {"group": int(artifact_id) % 10, "number": int(artifact_id)}


class Ir:
    """`ir`, with its store in files or in memory."""

    def __init__(self, folder: Path, *, in_files: bool) -> None:
        os.environ.update({f"IR_{kind}_DIR": str(folder) for kind in ("CONFIG", "DATA", "CACHE")})
        self.store = CorpusStore.local("bench") if in_files else CorpusStore.memory()

    async def build(self, texts):
        source = ir.CorpusSource.from_mapping(texts, name="bench", metadata_of=fields_of, embedder="light")
        self.corpus = ir.build(source, store=self.store)

    async def search(self, query, **options):
        return ir.search(self.corpus, query, **options)

    async def write(self, text):
        vector = np.asarray(self.corpus.embedder([text]))[0]
        self.store.put_record(ir.Record(ir.Record.make_id("0", "document", 0), "0", "document", 0, text, vector, {}))

    async def close(self):
        pass


class Airw:
    """airw, with its store in a file."""

    def __init__(self, folder: Path) -> None:
        self.path, self.corpus = folder / "bench.airw", None

    async def build(self, texts):
        await self.close()
        source = from_mapping(texts, name="bench", metadata_of=fields_of, embedder="light")
        self.corpus = await build(source, store=self.path)

    async def search(self, query, **options):
        return await self.corpus.search(query, **options)

    async def write(self, text):
        vectors = await self.corpus.embedder.embed_documents([text])
        record = Record(Record.make_id("0", "document", 0), "0", "document", 0, text)
        entry = LedgerEntry("0", text, self.corpus.embedder_id, "written")
        await self.corpus.store.apply(Change([ArtifactChange(entry, [record], vectors)]))

    async def close(self):
        if self.corpus is not None:
            await self.corpus.aclose()


def party(name: str, folder: Path):
    folder.mkdir(parents=True)
    return Airw(folder) if name == "airw" else Ir(folder, in_files=name == "ir")


PARTIES = ("ir", "ir, memory", "airw")


async def time_one(work) -> float:
    """Return the milliseconds that it takes to await this."""
    start = time.perf_counter()
    await work
    return (time.perf_counter() - start) * 1000


async def time_builds(rounds, texts, folder):
    """Build all, rebuild, and rebuild after one change, in turns; keep the last builds open."""
    for run in range(BUILDS):
        built = {name: party(name, folder / f"{name} {run}") for name in PARTIES}
        for name, one in built.items():
            rounds["build"][name].append(await time_one(one.build(texts)))
            if run < BUILDS - 1:
                await one.close()
    for run in range(REBUILDS):
        changed = {**texts, "7": f"{NEW} {run}"}
        for operation in ("rebuild, one change", "rebuild, unchanged"):
            for name, one in built.items():
                rounds[operation][name].append(await time_one(one.build(changed)))
    return built


async def time_searches(rounds, built, queries):
    """Ask all queries in turns; a round is the median of its queries."""
    cases = [("dense", queries[0], lambda at: {})]
    for mode in MODES[1:]:
        for words, asked in zip(("common", "rarer"), queries, strict=True):
            cases.append((f"{mode}, {words} words", asked, lambda at, mode=mode: {"mode": mode}))
    cases.append(("dense, one filter", queries[0], lambda at: {"filter": {"group": 3}}))
    cases.append(("dense, new filters", queries[0], lambda at: {"filter": {"group": at % 10, "number": {"$gte": at}}}))
    for operation, asked, options in cases:
        for one in built.values():
            assert len(await one.search(asked[0], **options(-1))) == 10
        for turn in range(ROUNDS):
            for name, one in built.items():
                each = [await time_one(one.search(asked[at], **options(turn * QUERIES + at))) for at in range(QUERIES)]
                rounds[operation][name].append(statistics.median(each))
    for at in range(WRITES):
        for name, one in built.items():
            await one.write(f"{NEW} {at}")
            rounds["first search after a write"][name].append(await time_one(one.search(queries[0][at])))


async def use(name: str, folder: Path, texts, queries) -> tuple[float, float]:
    """Build, search in every mode, and return resident memory in MB: now and at its peak."""
    one = party(name, folder)
    await one.build(texts)
    for query in queries:
        for mode in MODES:
            await one.search(query, mode=mode)
            await one.search(query, mode=mode, filter={"group": 3})
    used = memory_now(), memory_at_most()
    await one.close()
    return used


def memory_now() -> float:
    return psutil.Process().memory_info().rss / 1e6


def memory_at_most() -> float:
    """Return the peak memory of this process; `getrusage` would include its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) * 1024 / 1e6


def memory_of(name: str, folder: Path, given: Path) -> tuple[float, float]:
    """Return the result of `use` in its own process, minus the memory of the texts."""
    command = [sys.executable, __file__, name, str(folder), str(given)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def test_beside_ir(make_texts, results, tmp_path):
    texts = {str(number): text for number, text in enumerate(make_texts(RECORDS))}
    queries = [make_texts(QUERIES, words=6, seed=3, rare=rare) for rare in (False, True)]
    rounds = {work: {name: [] for name in PARTIES} for goals in GOALS.values() for work in goals}

    async def main():
        built = await time_builds(rounds, texts, tmp_path)
        await time_searches(rounds, built, queries)
        for one in built.values():
            await one.close()

    anyio.run(main)
    given = tmp_path / "given.json"
    given.write_text(json.dumps([texts, queries[0][:5]]))
    for run in range(PROCESSES):
        for name in PARTIES:
            used = memory_of(name, tmp_path / f"{name} memory {run}", given)
            for work, amount in zip(GOALS[MEMORY], used, strict=True):
                rounds[work][name].append(amount)
    for question, goals in GOALS.items():
        unit = "MB" if question == MEMORY else "ms"
        for work, goal in goals.items():
            results.compare(question, work, rounds[work], {"ir": goal, "ir, memory": None}, unit=unit)


if __name__ == "__main__":
    who, where, source = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    json.dump(anyio.run(use, who, where, *json.loads(source.read_text())), sys.stdout)
