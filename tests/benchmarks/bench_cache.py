"""The embedding cache in a file, with all texts cached or none.

10,000 texts of 60 words, 384 dimensions.
"""

import itertools

import anyio
import numpy as np

from airw.embedders import CachedEmbedder, embedder_from
from tests.benchmarks.results import run_in_turn

COUNT, DIM, ROUNDS = 10_000, 384, 5


def test_all_hits_and_all_misses(make_texts, results, tmp_path):
    texts = make_texts(COUNT)
    rows = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    inner = embedder_from(lambda given: rows[: len(given)], id="given", dim=DIM)
    turns = itertools.count()

    def embed() -> None:
        anyio.run(inner.embed_documents, texts)

    def miss() -> None:
        anyio.run(embed_cached, tmp_path / f"{next(turns)}.cache")

    def hit() -> None:
        anyio.run(embed_cached, tmp_path / "0.cache")

    async def embed_cached(path) -> None:
        async with CachedEmbedder(inner, path=path) as embedder:
            await embedder.embed_documents(texts)

    miss()
    rounds = run_in_turn({"no cache": embed, "all misses": miss, "all hits": hit}, rounds=ROUNDS)
    for way, figures in rounds.items():
        work = f"{COUNT:,} texts, {way}"
        results.amount("How long does the embedding cache take?", work, figures, goal=None, unit="ms")
