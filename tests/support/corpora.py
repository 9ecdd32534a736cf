"""A corpus for tests and the processes they start, and its content as plain values."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import time
import zlib
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from airw.corpora import build, open_corpus
from airw.embedders import embedder_from
from airw.links import extractor_from
from airw.protocols import (
    ArtifactIds,
    Config,
    Counts,
    Edges,
    Ledger,
    Matching,
    Rank,
    RecordsOf,
    Referrers,
    Vectors,
    ask,
)
from airw.sources import from_mapping
from airw.stores import MemoryStore

WIDTH = 8
ROOT = Path(__file__).parents[2]
PRELUDE = """
import os, pathlib, random, signal, sys, time
import anyio, numpy as np, sqlite3
from airw.corpora import build
from airw.corpora import open_corpus
from airw.errors import *
from airw.protocols import *
from airw.stores import MemoryStore, SqliteStore
from tests.support.corpora import assert_same, build_corpus, check_whole, content, reference_content, source
path = pathlib.Path(sys.argv[1])
"""


@contextmanager
def start_process(code, *arguments, before=()):
    """Run code in another process; kill it at the end of the block.

    The code can use the library and this module; `path` is its first argument.
    """
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [*before, sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


def run(code, *arguments, **options):
    """Run code in another process, check that it succeeds, and return its output."""
    with start_process(code, *arguments, **options) as process:
        output, complaints = process.communicate(timeout=280)
    assert process.returncode == 0, complaints
    return output


def embed(texts):
    """Return random vectors that depend only on the letters of each text."""
    return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(WIDTH) for text in texts]


def source(word="alpha", *, count=24, id="e", pause=0.0, size=40, embed=embed):
    """Return a source of `count` texts in a ring; embedding a batch takes `pause` seconds."""

    def embed_slowly(texts):
        time.sleep(pause)
        return embed(texts)

    ring = extractor_from(lambda name, _: {"NEXT": [f"{(int(name) + 1) % count:03}", "missing"]}, id="ring")
    return from_mapping(
        {f"{number:03}": f"{word} {number}" + " filler" * size for number in range(count)},
        name="notes",
        embedder=embedder_from(embed_slowly, id=id, dim=WIDTH),
        edge_extractor=ring,
        metadata_of=lambda name, text: {"word": text.split()[0], "tens": int(name) // 10},
    )


async def content(store):
    """Return the whole content of a store, read by all methods, and separately the scores.

    Scores may differ in their last bit, since sums depend on the order.
    """
    ids = await ask(store, ArtifactIds())
    records = await ask(store, RecordsOf(ids))
    vectors = await ask(store, Vectors([record.id for group in records for record in group]))
    queries = np.array(embed(["one", "two"]), np.float32)
    rankings = [
        *await ask(store, Rank(queries, 999)),
        *await ask(store, Rank(["alpha 1", "beta 2 filler"], 999, per_artifact=True)),
    ]
    values = {
        "ledger": await ask(store, Ledger()),
        "records": records,
        "vectors": vectors.tolist(),
        "edges": await ask(store, Edges(ids, "both")),
        "referrers": await ask(store, Referrers([*ids, "missing"])),
        "matching": await ask(store, Matching([("word", "alpha"), ("word", "beta")])),
        "counts": await ask(store, Counts()),
        "config": await ask(store, Config()),
        "order": [list(ranking.record_ids) for ranking in rankings],
    }
    return values, [ranking.scores for ranking in rankings]


def assert_same(one, other):
    """Check that the results of `content` for two stores are equal."""
    assert one[0] == other[0]
    for scores, others in zip(one[1], other[1], strict=True):
        assert np.allclose(scores, others, rtol=0, atol=1e-6)


async def reference_content(word="alpha", **options):
    """Return the content after a build without interruption."""
    store = MemoryStore()
    await build(source(word, **options), store=store)
    return await content(store)


async def build_corpus(path, word="alpha", **options):
    """Build a corpus and close it."""
    async with build(source(word, **options), store=path):
        pass


async def check_whole(path, undisturbed, word="alpha", **options):
    """Check that a corpus opens and answers, and that a build completes it."""
    full_source = source(word, **options)
    async with open_corpus(path, embedder=full_source.embedder) as corpus:
        artifact_ids = await ask(corpus.store, ArtifactIds())
        for mode in ("dense", "lexical", "hybrid"):
            hits = await corpus.search("alpha beta 1 filler", mode=mode, k=999)
            assert sorted(hit.artifact_id for hit in hits) == artifact_ids
    async with build(full_source, store=path) as corpus:
        assert_same(await content(corpus.store), undisturbed)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def at_each_page(function):
    """Return a progress function that calls `function` once for each page that is written."""
    done = 0

    def progress(counts):
        nonlocal done
        if counts.done > done:
            done = counts.done
            function()

    return progress
