"""Builds, searches and memory compared with `ir`, with its stores in files and in memory.

10,000 records of 60 words, each library with its own light embedder (512 cells, feature hashing), as users get them.
The goals compare with the store of files, which is persistent like ours; the one in memory is not.
"""

import json
import os
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
from airw.sources import from_mapping
from airw.values import ArtifactChange, LedgerEntry, Record

RECORDS, BUILDS, REBUILDS, QUERIES, ROUNDS = 10_000, 2, 6, 25, 3
NEW = "a text that no record held before"
MODES = ("dense", "lexical", "hybrid")
GOALS = {
    "build": 10,
    "rebuild, unchanged": 10,
    "rebuild, one change": 10,
    "first search after a write": 50,
    "dense": 3,
    "lexical, common words": 5,
    "lexical, rarer words": 5,
    "hybrid, common words": 5,
    "hybrid, rarer words": 5,
    "dense, one filter": 10,
    "dense, new filters": 10,
    "resident memory (MB)": 2,
    "peak memory (MB)": 2,
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
        await self.corpus.store.apply([ArtifactChange(entry, [record], vectors)])

    async def close(self):
        if self.corpus is not None:
            await self.corpus.aclose()


def party(name: str, folder: Path):
    folder.mkdir(parents=True)
    return Airw(folder) if name == "airw" else Ir(folder, in_files=name == "ir")


PARTIES = ("ir", "ir, memory", "airw")


async def time_builds(times, texts, folder):
    """Build all, rebuild, and rebuild after one change, in turns; keep the last builds open."""
    for run in range(BUILDS):
        built = {name: party(name, folder / f"{name} {run}") for name in PARTIES}
        for name, one in built.items():
            start = time.perf_counter()
            await one.build(texts)
            times.note("build", name, start)
            if run < BUILDS - 1:
                await one.close()
    for run in range(REBUILDS):
        changed = {**texts, "7": f"{NEW} {run}"}
        for operation, given in (("rebuild, one change", changed), ("rebuild, unchanged", changed)):
            for name, one in built.items():
                start = time.perf_counter()
                await one.build(given)
                times.note(operation, name, start)
    return built


async def time_searches(times, built, queries):
    cases = [("dense", queries[0], lambda at: {})]
    for mode in MODES[1:]:
        for words, asked in zip(("common", "rarer"), queries, strict=True):
            cases.append((f"{mode}, {words} words", asked, lambda at, mode=mode: {"mode": mode}))
    cases.append(("dense, one filter", queries[0], lambda at: {"filter": {"group": 3}}))
    cases.append(("dense, new filters", queries[0], lambda at: {"filter": {"group": at % 10, "number": {"$gte": at}}}))
    for operation, asked, options in cases:
        for one in built.values():
            await one.search(asked[0], **options(-1))
        for turn in range(ROUNDS):
            for name, one in built.items():
                for at in range(QUERIES):
                    start = time.perf_counter()
                    hits = await one.search(asked[at], **options(turn * QUERIES + at))
                    times.note(operation, name, start, given=at)
                    assert len(hits) == 10
    for at in range(5):
        for name, one in built.items():
            await one.write(f"{NEW} {at}")
            start = time.perf_counter()
            await one.search(queries[0][at])
            times.note("first search after a write", name, start)


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


def test_beside_ir(make_texts, times, tmp_path):
    texts = {str(number): text for number, text in enumerate(make_texts(RECORDS))}
    queries = [make_texts(QUERIES, words=6, seed=3, rare=rare) for rare in (False, True)]

    async def main():
        built = await time_builds(times, texts, tmp_path)
        await time_searches(times, built, queries)
        for one in built.values():
            await one.close()

    anyio.run(main)
    given = tmp_path / "given.json"
    given.write_text(json.dumps([texts, queries[0][:5]]))
    memory = {name: memory_of(name, tmp_path / f"{name} memory", given) for name in PARTIES}
    figures = {row: {name: times.typical(row, name) for name in PARTIES} for row in list(GOALS)[:-2]}
    figures |= {row: {name: memory[name][at] for name in PARTIES} for at, row in enumerate(list(GOALS)[-2:])}
    print(f"\n{'ms':28}{'ir':>10}{'airw':>10}{'ratio':>9}{'goal':>6}{'ok':>4}{'ir, memory':>13}{'ratio':>9}")
    for row, goal in GOALS.items():
        slow, in_memory, fast = (figures[row][name] for name in PARTIES)
        ok = "yes" if slow / fast >= goal else "no"
        print(
            f"{row:28}{slow:10.2f}{fast:10.2f}{slow / fast:9.1f}{goal:6}{ok:>4}{in_memory:13.2f}{in_memory / fast:9.1f}"
        )


if __name__ == "__main__":
    who, where, source = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    json.dump(anyio.run(use, who, where, *json.loads(source.read_text())), sys.stdout)
