"""A store of one's own from scratch: the six methods that a walk and a search call: python examples/own_store.py."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
import numpy as np

import airw
from airw.embedders import resolve_embedder
from airw.protocols import BestRecords, Embedder
from airw.values import Direction, Edge, Floats, Ranking, Record
from airw.values.filters import Filter, matches


class FolderStore:
    """Markdown files, one record each, whose links are the file names they mention."""

    def __init__(self, texts: Mapping[str, str], vectors: Floats) -> None:
        self.records = {name: Record(name, name, "document", 0, text) for name, text in texts.items()}
        self.vectors = dict(zip(texts, vectors, strict=True))
        self.words = {name: _words(text) for name, text in texts.items()}
        mentions = {name: sorted({*re.findall(r"eip-\d+\.md", text)} - {name}) for name, text in texts.items()}
        self.edges = [Edge(name, end, "mentions") for name, ends in mentions.items() for end in ends if end in texts]

    @classmethod
    async def read(cls, folder: Path, embedder: Embedder) -> "FolderStore":
        files = sorted([file async for file in anyio.Path(folder).glob("*.md")])
        texts = {file.name: await file.read_text() for file in files}
        return cls(texts, await embedder.embed_documents([*texts.values()]))

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        return [self.records.get(each) for each in ids]

    async def records_of(self, artifact_ids: Sequence[str], **_: Any) -> list[list[Record] | None]:
        return [[self.records[each]] if each in self.records else None for each in artifact_ids]

    async def search_vectors(self, queries: Floats, k: int, *, filter: Filter | None = None, **_: Any) -> list[Ranking]:
        scored = [{name: float(vector @ query) for name, vector in self.vectors.items()} for query in queries]
        return [self._best(scores, k, filter) for scores in scored]

    async def search_text(
        self, queries: Sequence[str], k: int, *, filter: Filter | None = None, **_: Any
    ) -> list[Ranking]:
        asked = [_words(query) for query in queries]
        shared = [{name: len(each & words) for name, words in self.words.items() if each & words} for each in asked]
        return [self._best(scores, k, filter) for scores in shared]

    def _best(self, scores: Mapping[str, float], k: int, filter: Filter | None) -> Ranking:
        kept = [name for name in scores if matches(filter, self.records[name].metadata)]
        names = sorted(kept, key=lambda name: (-scores[name], name))[:k]
        return Ranking(names, names, np.array([scores[name] for name in names], np.float64))

    async def best_of(self, query: Floats, artifact_ids: Sequence[str], **_: Any) -> BestRecords:
        cosines = [self.vectors[each] @ query if each in self.vectors else np.nan for each in artifact_ids]
        return BestRecords(
            [each if each in self.records else None for each in artifact_ids], np.array(cosines, np.float32)
        )

    async def neighbors(self, ids: Sequence[str], *, direction: Direction = "out", **_: Any) -> list[list[Edge]]:
        ends = {"out": ["source"], "in": ["target"], "both": ["source", "target"]}[direction]
        return [[edge for edge in self.edges if any(getattr(edge, end) == each for end in ends)] for each in ids]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


async def main(question: str) -> None:
    """Walk and search a folder that no build has seen."""
    embedder = resolve_embedder("light")
    store = await FolderStore.read(Path(__file__).parent / "data" / "eips", embedder)
    corpus = airw.Corpus("eips", store, embedder)
    for hit in await airw.search(corpus, question, mode="hybrid", k=3):
        print(f"{hit.score:.3f}  {hit.artifact_id}")
    for hit in await airw.top_k(airw.traverse(question, corpus, policy=airw.policies.Beam(width=2)), k=5):
        print(f"{hit.score:.3f}  {' > '.join(hit.metadata['walk_path'])}")


anyio.run(main, "how do wallets sign typed structured data")
