"""Embedding beside the bare libraries, and how long the event loop waits meanwhile.

All cores serve both. The texts are passages of 20 to 120 words from the example documents. `AIRW_BENCH_TEXTS` names
another number of them.
"""

import os
import random
import time
from functools import partial
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw.embedders import OnnxEmbedder, SentenceTransformerEmbedder
from tests.benchmarks.results import run_in_turn

TICK = 0.005  # seconds; a shorter one would take time from the embedding itself
QUESTION = "How fast is embedding?"
LAG = "How long does the event loop wait for embedding?"
COUNT, ROUNDS, BATCH = int(os.environ.get("AIRW_BENCH_TEXTS", "400")), 3, 32
GOAL, LAG_GOAL = 1 / 0.95, 20
DOCUMENTS = Path(__file__).parents[2] / "examples" / "data" / "eips"


def passages() -> list[str]:
    """Return passages from random places in the documents."""
    found = [word for path in sorted(DOCUMENTS.glob("*.md")) for word in path.read_text(encoding="utf-8").split()]
    draw = random.Random(0)
    starts = [draw.randrange(len(found) - 120) for _ in range(COUNT)]
    return [" ".join(found[start : start + draw.randint(20, 120)]) for start in starts]


def make_onnx_loop(folder):
    """Return a loop over batches of similar length, as a user of onnxruntime would write it."""
    import onnxruntime
    from tokenizers import Tokenizer

    place = folder / "airw-onnx"
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    tokenizer.enable_padding()
    session = onnxruntime.InferenceSession(str(place / "model.onnx"), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]

    def onnxruntime_loop(texts: list[str]) -> np.ndarray:
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        rows = [None] * len(texts)
        for start in range(0, len(texts), BATCH):
            positions = order[start : start + BATCH]
            encoded = tokenizer.encode_batch([texts[position] for position in positions])
            parts = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
            feed = {name: np.array([getattr(each, parts[name]) for each in encoded]) for name in names}
            for position, row in zip(positions, session.run(None, feed)[0], strict=True):
                rows[position] = row / np.linalg.norm(row)
        return np.array(rows)

    return onnxruntime_loop


async def embed_beside_ticker(embedder, texts, gaps: list[float]) -> np.ndarray:
    """Embed the texts beside a ticking task; note its longest gap, in milliseconds."""
    longest = 0.0

    async def tick():
        nonlocal longest
        while True:
            before = time.perf_counter()
            await anyio.sleep(TICK)
            longest = max(longest, time.perf_counter() - before)

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        rows = await embedder.embed_documents(texts)
        group.cancel_scope.cancel()
    gaps.append(longest * 1e3)
    return rows


def compare(results, work, embedder, bare, texts) -> None:
    """Compare an embedder with a function of another library, by the name of the latter."""
    gaps: list[float] = []
    ways = {
        "airw": partial(anyio.run, embed_beside_ticker, embedder, texts, gaps),
        bare.__name__: partial(bare, texts),
    }
    np.testing.assert_allclose(*(way() for way in ways.values()), atol=1e-4)
    gaps.clear()
    rounds = run_in_turn(ways, rounds=ROUNDS, scale=1e3 / COUNT)
    results.compare(QUESTION, work, rounds, {bare.__name__: GOAL}, unit="ms a text")
    # The worst of all rounds counts.
    results.amount(LAG, work, [max(gaps)], goal=LAG_GOAL, unit="ms")


@pytest.fixture
def texts(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return passages()


def test_embedding_with_torch(minilm_folder, results, texts):
    import torch
    from sentence_transformers import SentenceTransformer

    cores = torch.get_num_threads()
    model = SentenceTransformer(str(minilm_folder))

    def sentence_transformers(given: list[str]) -> np.ndarray:
        torch.set_num_threads(cores)
        return model.encode(given, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False)

    embedder = SentenceTransformerEmbedder(minilm_folder)
    compare(results, "all-MiniLM-L6-v2 with torch", embedder, sentence_transformers, texts)


def test_embedding_with_onnxruntime(minilm_export, results, texts):
    embedder = OnnxEmbedder(minilm_export)
    compare(results, "all-MiniLM-L6-v2 with onnxruntime", embedder, make_onnx_loop(minilm_export), texts)


def test_a_query_with_torch_and_with_onnxruntime(minilm_folder, minilm_export, results, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    ways = {}
    embedders = {"airw": OnnxEmbedder(minilm_export), "torch": SentenceTransformerEmbedder(minilm_folder)}
    for name, embedder in embedders.items():
        ways[name] = partial(anyio.run, embedder.embed_query, "rotate the signing keys of a wallet")
        ways[name]()
    results.compare("How fast is the vector of a query?", "7 words", run_in_turn(ways, rounds=20), {"torch": None})
