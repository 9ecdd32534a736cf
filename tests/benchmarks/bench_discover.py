"""Discovery over several sources, with one that hangs, and searches compared with `ir`.

The comparison has records of 60 words, each library with its own light embedder (512 cells, feature hashing). The store
of `ir` is in memory, its faster one; ours is in a file. Four corpora have a quarter of the records each.
"""

import math
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median

import anyio
import ir
import pytest
from ir.store import CorpusStore

from airw import build, from_mapping
from airw.discovery import discover
from airw.stores import MemoryStore
from airw.testing import ScriptedStore

SOURCES, DELAY, RUNS = 8, 0.05, 9
QUERIES, ROUNDS, PARTS = 15, 3, 4


async def slow_corpora(stack, count, delays):
    """Open corpora in memory whose searches take several seconds."""
    opened = []
    for at in range(count):
        texts = {f"d{at}-{number}": f"signing keys {number} of {at}" for number in range(20)}
        source = from_mapping(texts, name=f"n{at}", embedder="light")
        corpus = await stack.enter_async_context(build(source, store=MemoryStore()))
        opened.append(replace(corpus, store=ScriptedStore(corpus.store, delays={"search_text": delays[at]})))
    return opened


async def seconds(*arguments, **options):
    """Return the median of several runs."""
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        await discover(*arguments, "signing keys", mode="lexical", **options)
        times.append(time.perf_counter() - start)
    return median(times)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_time_of_many_sources(backend):
    async def measure():
        async with AsyncExitStack() as stack:
            corpora = await slow_corpora(stack, SOURCES, [DELAY] * SOURCES)
            one, many = await seconds(corpora[:1]), await seconds(corpora)
            hanging = await slow_corpora(stack, SOURCES, [math.inf] + [DELAY] * (SOURCES - 1))
            return one, many, await seconds(hanging, source_timeout=0.5)

    one, many, hanging = anyio.run(measure, backend=backend)
    print(f"\n{backend}: one source of {DELAY * 1000:.0f} ms {one * 1000:.1f} ms; {SOURCES} of them ", end="")
    print(f"{many * 1000:.1f} ms, {many / one:.2f} x (goal: 1.5)", end="; ")
    print(f"one of {SOURCES} hangs, source_timeout 500 ms: {hanging * 1000:.1f} ms, {hanging / 0.5:.3f} x (goal: 1.1)")


def fields_of(artifact_id, raw):
    return {"group": int(artifact_id) % 10, "number": int(artifact_id)}


def their_corpus(texts, name):
    source = ir.CorpusSource.from_mapping(texts, name=name, metadata_of=fields_of, embedder="light")
    return ir.build(source, store=CorpusStore.memory())


def our_corpus(texts, name, folder):
    source = from_mapping(texts, name=name, metadata_of=fields_of, embedder="light")
    return build(source, store=folder / f"{name}.airw")


def parts_of(texts):
    items = list(texts.items())
    return [dict(items[at::PARTS]) for at in range(PARTS)]


def new_filter(at):
    return {"group": at % 10, "number": {"$gte": at}}


def same_filter(_):
    return {"group": 3}


CASES = [
    ("hybrid", {"mode": "hybrid"}, None),
    ("hybrid, one filter", {"mode": "hybrid"}, same_filter),
    ("hybrid, new filters", {"mode": "hybrid"}, new_filter),
    ("dense, new filters", {"mode": "dense"}, new_filter),
    ("lexical, new filters", {"mode": "lexical"}, new_filter),
]


@pytest.mark.parametrize("count", [10_000, 100_000])
def test_searches_beside_ir(count, make_texts, times, tmp_path):
    texts = {str(at): text for at, text in enumerate(make_texts(count))}
    asked = {
        "common": make_texts(QUERIES, words=6, seed=3),
        "rarer": make_texts(QUERIES, words=6, seed=4, rare=True),
    }
    theirs = their_corpus(texts, "all")
    their_parts = [their_corpus(part, f"part{at}") for at, part in enumerate(parts_of(texts))]

    async def measure():
        async with AsyncExitStack() as stack:
            ours = await stack.enter_async_context(our_corpus(texts, "all", tmp_path))
            our_parts = [
                await stack.enter_async_context(our_corpus(part, f"part{at}", tmp_path))
                for at, part in enumerate(parts_of(texts))
            ]
            for words, queries in asked.items():
                for operation, options, filtered in CASES:
                    each = Case(f"{operation}, {words}", queries, options, filtered)
                    await each.compare(times, theirs.search, ours.search)
                for operation, one, other in (
                    ("discover", theirs, ours),
                    (f"discover, {PARTS} corpora", their_parts, our_parts),
                ):
                    each = Case(f"{operation}, {words}", queries)
                    await each.compare(times, partial(ir.discover, one), partial(discover, other))

    anyio.run(measure)
    print(f"\n{count:,} records (ms)")
    for operation, who in times._runs:
        if who == "ir":
            other, own = times.typical(operation, "ir"), times.typical(operation, "airw")
            goal = ("5" if other > 50 else "1", 5 if other > 50 else 1)
            missed = ", missed" if other / own < goal[1] else ""
            print(f"| {operation} | {other:.1f} | {own:.1f} | {other / own:.1f} | {goal[0]}{missed} |")


@dataclass(frozen=True)
class Case:
    """Queries for both libraries, with an optional filter per repetition."""

    operation: str
    queries: list
    options: dict = field(default_factory=dict)
    filtered: Callable | None = None

    async def compare(self, times, theirs, ours):
        """Search with both in turns; the first round does not count."""
        for turn in range(ROUNDS + 1):
            for at, query in enumerate(self.queries):
                extra = {} if self.filtered is None else {"filter": self.filtered(turn * QUERIES + at)}
                start = time.perf_counter()
                theirs(query, **self.options, **extra)
                middle = time.perf_counter()
                await ours(query, **self.options, **extra)
                if turn:
                    times.note(self.operation, "ir", start, given=at, end=middle)
                    times.note(self.operation, "airw", middle, given=at)
