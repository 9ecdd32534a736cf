"""A store of your own in four methods, read-only: own_store.py.

`python -m airw.testing.exam own_store.py:open_store --read-only` examines it.
Its search takes filters, but counts words: the exam compares it with BM25 and fails one case.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path

import anyio
import numpy as np

import airw
from airw.embedders import resolve_embedder
from airw.policies import LinkWalk
from airw.protocols import Capability, Edges, Rank, Records, RecordsOf
from airw.stores import OwnStore
from airw.values import ArtifactChange, Edge, NodeIdLike, Ranking, Record
from airw.values.filters import matches


class DictStore(OwnStore):
    """A store of the records of each artifact, and of the edges between artifacts."""

    capabilities: frozenset[Capability] = frozenset({"edges", "lexical", "records"})

    def __init__(self, artifacts: Mapping[str, list[Record]], edges: Iterable[Edge]) -> None:
        self.artifacts = artifacts
        self.links: dict[NodeIdLike, list[Edge]] = {}
        for edge in edges:
            if not isinstance(edge.target, str) or edge.target in artifacts:
                self.links.setdefault(edge.source, []).append(edge)
                self.links.setdefault(edge.target, []).append(edge)

    async def records(self, request: Records) -> list[Record | None]:
        by_id = {record.id: record for records in self.artifacts.values() for record in records}
        return [by_id.get(id) for id in request.ids]

    async def records_of(self, request: RecordsOf) -> list[list[Record] | None]:
        kinds, found = request.kinds, [self.artifacts.get(str(id)) for id in request.artifact_ids]
        chosen = [own and [each for each in own if kinds is None or each.surface_kind in kinds] for own in found]
        return [own and own[: request.limit] for own in chosen]

    async def rank(self, request: Rank) -> list[Ranking]:
        wanted = [own for records in self.artifacts.values() for own in records]
        wanted = [own for own in wanted if matches(request.filter, own.metadata)]
        for name, chosen in (
            ("surface_kind", request.surfaces),
            ("artifact_id", request.among),
            ("id", request.records),
        ):
            wanted = [own for own in wanted if chosen is None or getattr(own, name) in chosen]
        return [_rank(wanted, set(str(query).lower().split()), request) for query in request.queries]

    async def edges(self, request: Edges) -> list[list[Edge]]:
        return [self.arrange(id, self.links.get(id, ()), request) for id in request.ids]


def _rank(records: Iterable[Record], words: set[str], request: Rank) -> Ranking:
    counts = [(len(words & _words(own.text)), own) for own in records]
    counts.sort(key=lambda row: (-row[0], row[1].artifact_id, row[1].surface_index))
    best: dict[str, tuple[int, Record]] = {}
    for count, own in counts:
        if count:
            best.setdefault(own.artifact_id if request.per_artifact else own.id, (count, own))
    rows = [*best.values()][: request.k]
    ids = [own.id for _, own in rows]
    return Ranking(ids, [own.artifact_id for _, own in rows], np.array([float(count) for count, _ in rows]))


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def open_store(_: Path, artifacts: Sequence[ArtifactChange]) -> AbstractAsyncContextManager[DictStore]:
    """Return a store with these artifacts, for the exam."""
    edges = [
        Edge(own.entry.artifact_id, (link.target_source, link.target_ref) if link.target_source else link.target_ref,
             link.type, link.origin, link.weight)
        for own in artifacts for link in own.extraction.links
    ]  # fmt: skip
    return nullcontext(DictStore({own.entry.artifact_id: list(own.records) for own in artifacts}, edges))


async def main(question: str) -> None:
    """Search and walk a folder without building a corpus first."""
    files = sorted([file async for file in anyio.Path(__file__).parent.joinpath("data", "eips").glob("*.md")])
    records = [Record(file.name, file.name, "document", 0, await file.read_text()) for file in files]
    edges = [Edge(own.id, other, "mentions") for own in records for other in re.findall(r"eip-\d+\.md", own.text)]
    store = DictStore({own.id: [own] for own in records}, edges)
    corpus = airw.Corpus("eips", store, resolve_embedder("light"))
    for hit in await airw.search(corpus, question, k=3):
        print(f"{hit.score:.0f}  {hit.artifact_id}")
    for hit in await airw.top_k(airw.traverse(question, corpus, policy=LinkWalk(start_k=2)), k=5):
        print(f"{hit.metadata['walk_depth']}  {' > '.join(hit.metadata['walk_path'])}")


if __name__ == "__main__":
    anyio.run(main, "how do wallets sign typed structured data")
