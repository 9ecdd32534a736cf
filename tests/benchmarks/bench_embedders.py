"""Throughput of the light embedder and of that of `ir`, in one run.

Both make the same kind of vectors.
"""

import itertools
import random
import time
from functools import partial

import anyio
import numpy as np
from ir.embed import make_embedder

from airw.embedders import HashingEmbedder
from tests.benchmarks.results import run_in_turn

DOCUMENTS = 10_000
WORDS = 60
ROUNDS = 3


def documents() -> list[str]:
    """Return texts of 60 words, drawn by Zipf's law from 20,000 made-up ones."""
    draw = random.Random(2)
    syllables = ["ba", "ke", "lo", "mi", "tu", "ra", "sen", "tor", "pli", "gan", "est", "ing", "con", "ver", "qua"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [" ".join(draw.choices(words, cum_weights=weights, k=WORDS)) for _ in range(DOCUMENTS)]


def test_light_embedders_side_by_side(results):
    texts = documents()
    theirs, _ = make_embedder("light")
    ours = HashingEmbedder()
    for name, given in (("ASCII", texts), ("accented", [text.replace("e", "é") for text in texts])):
        ways = {"airw": partial(anyio.run, ours.embed_documents, given), "ir": partial(theirs, given)}
        work = f"{DOCUMENTS:,} {name} texts of {WORDS} words"
        results.compare("How fast is the light embedder?", work, run_in_turn(ways, rounds=ROUNDS), {"ir": None})
    few = theirs(texts[:300]), anyio.run(ours.embed_documents, texts[:300])
    # Both make vectors of one kind: the cosines between texts go up and down together.
    assert np.corrcoef(*((rows @ rows.T).ravel() for rows in few))[0, 1] > 0.6


def test_latency_of_one_query(results):
    ours = HashingEmbedder()

    async def embed_queries() -> float:
        start = time.perf_counter()
        for _ in range(500):
            await ours.embed_query("rotate the signing keys of the build machine")
        return (time.perf_counter() - start) / 500

    rounds = run_in_turn({"airw": partial(anyio.run, embed_queries)}, rounds=ROUNDS, scale=1e6)
    results.amount("How fast is the vector of a query?", "light, 8 words", rounds["airw"], goal=None, unit="us")
