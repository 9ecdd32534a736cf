"""Retrieval quality of the `light` embedder by the share of its cosines.

`AIRW_DATA` names the folder of the sets. Each figure is the mean nDCG@10 over at most 300 questions of a set.
"""

import gzip
import json
import math
from pathlib import Path

import anyio
import pytest

from airw import build, from_mapping
from airw.stores import MemoryStore

SETS = ("musique-100", "hotpotqa-100", "2wiki-101", "scifact", "cacm", "cisi", "cranfield", "skills", "metatool")
ALPHAS = (0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
MAX_QUESTIONS = 300


def read_rows(path: Path) -> list[dict]:
    compressed = path.with_name(f"{path.name}.gz")
    with gzip.open(compressed, "rt") if compressed.exists() else path.open() as lines:
        return [json.loads(line) for line in lines if line.strip()]


def ndcg(ids: list[str], gold: set[str]) -> float:
    gain = sum(1 / math.log2(place + 2) for place, id in enumerate(ids) if id in gold)
    return gain / sum(1 / math.log2(place + 2) for place in range(min(10, len(gold))))


@pytest.mark.data
@pytest.mark.parametrize("name", SETS)
def test_quality_by_alpha(data, name):
    folder = data / name
    texts = {
        row["id"]: f"{row.get('title') or ''}\n{row.get('text') or ''}".strip()
        for row in read_rows(folder / "corpus.jsonl")
    }
    questions = read_rows(folder / "queries.jsonl")
    questions = questions[:: max(1, len(questions) // MAX_QUESTIONS)]

    async def measure(fusion: str) -> list[float]:
        source = from_mapping({id: text for id, text in texts.items() if text}, name="set", embedder="light")
        async with build(source, store=MemoryStore()) as corpus:
            means = []
            for alpha in ALPHAS:
                gains = []
                for question in questions:
                    hits = await corpus.search(question["text"], fusion=fusion, alpha=alpha)
                    gains.append(ndcg([hit.artifact_id for hit in hits], set(question["gold"])))
                means.append(sum(gains) / len(gains))
            return means

    for fusion in ("blend", "rrf"):
        figures = "  ".join(
            f"{alpha}: {mean:.3f}" for alpha, mean in zip(ALPHAS, anyio.run(measure, fusion), strict=True)
        )
        print(f"\n{name}, {len(questions)} questions, {fusion}: {figures}", end="")
