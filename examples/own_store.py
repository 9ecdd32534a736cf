"""A store of your own with the six methods that walks and searches need: own_store.py."""

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
    """A store of Markdown files: one record per file, with links to the files it mentions."""

    def __init__(self, texts: Mapping[str, str], vectors: Floats) -> None:
        self.records = {name: Record(name, name, "document", 0, text) for name, text in texts.items()}
        self.vectors = dict(zip(texts, vectors, strict=True))
        self.words = {name: _words(text) for name, text in texts.items()}
        mentions = {name: sorted({*re.findall(r"eip-\d+\.md", text)} - {name}) for name, text in texts.items()}
        self.edges = [Edge(name, other, "mentions") for name in texts for other in mentions[name] if other in texts]

    @classmethod
    async def read(cls, folder: Path, embedder: Embedder) -> "FolderStore":
        files = sorted([file async for file in anyio.Path(folder).glob("*.md")])
        texts = {file.name: await file.read_text() for file in files}
        return cls(texts, await embedder.embed_documents([*texts.values()]))

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        return [self.records.get(id) for id in ids]

    async def records_of(self, artifact_ids: Sequence[str], **_: Any) -> list[list[Record] | None]:
        return [[self.records[id]] if id in self.records else None for id in artifact_ids]

    async def search_vectors(self, queries: Floats, k: int, *, filter: Filter | None = None, **_: Any) -> list[Ranking]:
        cosines = [{name: float(vector @ query) for name, vector in self.vectors.items()} for query in queries]
        return [self._rank(scores, k, filter) for scores in cosines]

    async def search_text(
        self, queries: Sequence[str], k: int, *, filter: Filter | None = None, **_: Any
    ) -> list[Ranking]:
        return [self._rank(self._count_shared_words(_words(query)), k, filter) for query in queries]

    def _count_shared_words(self, query: set[str]) -> dict[str, float]:
        return {name: len(query & words) for name, words in self.words.items() if query & words}

    def _rank(self, scores: Mapping[str, float], k: int, filter: Filter | None) -> Ranking:
        matching = [name for name in scores if matches(filter, self.records[name].metadata)]
        names = sorted(matching, key=lambda name: (-scores[name], name))[:k]  # best first, ties by id
        return Ranking(names, names, np.array([scores[name] for name in names], np.float64))

    async def best_of(self, query: Floats, artifact_ids: Sequence[str], **_: Any) -> BestRecords:
        cosines = [self.vectors[id] @ query if id in self.vectors else np.nan for id in artifact_ids]
        record_ids = [id if id in self.records else None for id in artifact_ids]
        return BestRecords(record_ids, np.array(cosines, np.float32))

    async def neighbors(self, ids: Sequence[str], *, direction: Direction = "out", **_: Any) -> list[list[Edge]]:
        ends = {"out": ["source"], "in": ["target"], "both": ["source", "target"]}[direction]
        return [[edge for edge in self.edges if any(getattr(edge, end) == id for end in ends)] for id in ids]


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


async def main(question: str) -> None:
    """Search and walk a folder without building a corpus first."""
    embedder = resolve_embedder("light")
    store = await FolderStore.read(Path(__file__).parent / "data" / "eips", embedder)
    corpus = airw.Corpus("eips", store, embedder)
    for hit in await airw.search(corpus, question, mode="hybrid", k=3):
        print(f"{hit.score:.3f}  {hit.artifact_id}")
    for hit in await airw.top_k(airw.traverse(question, corpus, policy=airw.policies.Beam(width=2)), k=5):
        print(f"{hit.score:.3f}  {' > '.join(hit.metadata['walk_path'])}")


anyio.run(main, "how do wallets sign typed structured data")
