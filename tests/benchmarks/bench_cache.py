"""The embedding cache in a file, with all texts cached or none.

10,000 texts of 60 words, 384 dimensions.
"""

import time

import anyio
import numpy as np

from airw.embedders import CachedEmbedder, embedder_from

COUNT, DIM, ROUNDS = 10_000, 384, 5


def test_all_hits_and_all_misses(make_texts, times, tmp_path):
    texts = make_texts(COUNT)
    rows = np.random.default_rng(0).standard_normal((COUNT, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    inner = embedder_from(lambda given: rows[: len(given)], id="given", dim=DIM)

    async def time_call(operation, embedder):
        start = time.perf_counter()
        await embedder.embed_documents(texts)
        times.note(operation, "ms", start)

    async def main():
        for turn in range(ROUNDS):
            await time_call("without a cache", inner)
            async with CachedEmbedder(inner, path=tmp_path / f"{turn}.cache") as embedder:
                await time_call("all misses", embedder)
            async with CachedEmbedder(inner, path=tmp_path / f"{turn}.cache") as embedder:
                await time_call("all hits, just opened", embedder)
                await time_call("all hits, again", embedder)

    anyio.run(main)
    print()
    for operation in ("without a cache", "all misses", "all hits, just opened", "all hits, again"):
        print(f"{operation:24}{times.typical(operation, 'ms'):8.1f} ms")
