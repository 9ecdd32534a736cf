"""Throughput of all-MiniLM-L6-v2 by torch and by onnxruntime with equal threads.

The two take turns in one run, and the best time of each counts, since other work on the machine affects both. Both get
the same texts in batches of 32: real ones, cut from the example documents, and ones of words that are one token each.
The latter are the worst case: all have one length, so there is no padding, and both spend nearly all time in the same
matrix products.
"""

import random
import time
from pathlib import Path

import anyio
import pytest

from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder, export_model

ROUNDS = 5
SIZES = {8: 96, 40: 48, 128: 32}  # words: texts
DOCUMENTS = Path(__file__).parents[2] / "examples" / "data" / "eips"
ONE_TOKEN_EACH = ["keys", "bread", "market", "price", "storage", "network", "document", "search", "vector", "protocol"]


@pytest.fixture(scope="module")
def folders(minilm_folder, tmp_path_factory):
    exported = tmp_path_factory.mktemp("exported")
    report = anyio.run(lambda: export_model(minilm_folder, to=exported))
    print(f"\nlargest difference between the two on {report.texts} texts: {report.difference:.1e}")
    return minilm_folder, exported


def real_texts(words: int) -> list[str]:
    """Return passages of `words` words from random places in the documents."""
    found = [word for path in sorted(DOCUMENTS.glob("*.md")) for word in path.read_text(encoding="utf-8").split()]
    draw = random.Random(words)
    starts = [draw.randrange(len(found) - words) for _ in range(SIZES[words])]
    return [" ".join(found[start : start + words]) for start in starts]


def even_texts(words: int) -> list[str]:
    draw = random.Random(words)
    return [" ".join(draw.choices(ONE_TOKEN_EACH, k=words)) for _ in range(SIZES[words])]


async def seconds(embedder, texts) -> float:
    start = time.perf_counter()
    await embedder.embed_documents(texts)
    return time.perf_counter() - start


async def fastest(embedders, texts) -> list[float]:
    """Return the best time of each, measured in turns; the first turn warms up."""
    times = [[await seconds(each, texts) for each in embedders] for _ in range(ROUNDS + 1)]
    return [min(column) for column in zip(*times[1:], strict=True)]


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_and_onnxruntime_side_by_side(threads, folders, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    original, exported = folders
    embedders = SentenceTransformerEmbedder(original, threads=threads), OnnxEmbedder(exported, threads=threads)
    print(f"\n{f'{threads} thread(s)':<22}{'torch':>10}{'onnxruntime':>14}{'factor':>9}")
    for kind, texts_of in (("real", real_texts), ("even", even_texts)):
        for words, count in SIZES.items():
            slow, fast = anyio.run(fastest, embedders, texts_of(words))
            name = f"{kind}, {words} words"
            print(f"{name:<22}{count / slow:>8,.0f}/s{count / fast:>12,.0f}/s{slow / fast:>9.2f}")
    slow, fast = anyio.run(fastest, embedders, ["rotate the signing keys of a wallet"])
    print(f"{'one query, 7 words':<22}{slow * 1e3:>7.1f} ms{fast * 1e3:>11.1f} ms{slow / fast:>9.2f}")
