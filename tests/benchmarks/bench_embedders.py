"""Throughput of the light embedder and of that of `ir`, in one run.

Both make the same kind of vectors.
"""

import itertools
import random
import time

import anyio
import numpy as np
from ir.embed import make_embedder

from airw.embedders import HashingEmbedder

DOCUMENTS = 10_000
WORDS = 60
RUNS = 3


def documents() -> list[str]:
    """Return texts of 60 words, drawn by Zipf's law from 20,000 made-up ones."""
    draw = random.Random(2)
    syllables = ["ba", "ke", "lo", "mi", "tu", "ra", "sen", "tor", "pli", "gan", "est", "ing", "con", "ver", "qua"]
    words = ["".join(draw.choices(syllables, k=draw.randint(1, 4))) for _ in range(20_000)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, len(words) + 1)))
    return [" ".join(draw.choices(words, cum_weights=weights, k=WORDS)) for _ in range(DOCUMENTS)]


def fastest(work) -> float:
    def one() -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return min(one() for _ in range(RUNS))


def test_light_embedders_side_by_side():
    texts = documents()
    accented = [text.replace("e", "é") for text in texts]
    theirs, _ = make_embedder("light")
    ours = HashingEmbedder()
    print(f"\n{'10,000 texts of 60 words':<26}{'ir':>12}{'airw':>12}{'factor':>9}")
    for name, given in (("ASCII", texts), ("accented", accented)):
        slow, fast = (
            fastest(lambda given=given: theirs(given)),
            fastest(lambda given=given: anyio.run(ours.embed_documents, given)),
        )
        print(f"{name:<26}{DOCUMENTS / slow:>10,.0f}/s{DOCUMENTS / fast:>10,.0f}/s{slow / fast:>9.1f}")
    like = np.corrcoef((theirs(texts[:300]) @ theirs(texts[:300]).T).ravel(), _cosines(ours, texts[:300]).ravel())[0, 1]
    print(f"correlation of the cosines of 300 texts: {like:.2f}")


def _cosines(embedder, texts):
    vectors = anyio.run(embedder.embed_documents, texts)
    return vectors @ vectors.T


def test_latency_of_one_query():
    ours = HashingEmbedder()

    async def queries() -> float:
        start = time.perf_counter()
        for _ in range(500):
            await ours.embed_query("rotate the signing keys of the build machine")
        return (time.perf_counter() - start) / 500

    print(f"\none query of 8 words: {anyio.run(queries) * 1e6:.0f} us")
