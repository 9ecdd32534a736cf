"""A store of your own in four methods, read-only: own_store.py.

`python -m airw.testing.exam own_store.py:open_store --capabilities graph,get_records --read-only` examines it.
Its search takes filters, but counts words: `--capabilities text` compares it with BM25 and fails one case.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import anyio
import numpy as np

import airw
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.policies import LinkWalk
from airw.values import ArtifactChange, Direction, Edge, LinkFilter, NodeId, Ranking, Record
from airw.values.filters import Filter, matches


class DictStore:
    """A store of the records of each artifact, and of the edges between artifacts."""

    def __init__(self, records: Mapping[str, list[Record]], edges: Iterable[Edge]) -> None:
        self.records = records
        self.edges: dict[NodeId, set[tuple[bool, NodeId, Edge]]] = {}
        heaviest = {(edge.source, edge.target, edge.type, edge.origin): edge for edge in sorted(edges, key=_weight)}
        for edge in heaviest.values():
            is_foreign = not isinstance(edge.target, str)
            if is_foreign or (edge.target in records and edge.target != edge.source):
                self.edges.setdefault(edge.source, set()).add((False, edge.target, edge))
                self.edges.setdefault(edge.target, set()).add((True, edge.source, edge))

    async def get_records(self, ids: Sequence[str]) -> list[Record | None]:
        by_id = {record.id: record for records in self.records.values() for record in records}
        return [by_id.get(id) for id in ids]

    async def records_of(
        self, artifact_ids: Sequence[str], *, kinds: Sequence[str] | None = None, limit: int | None = None
    ) -> list[list[Record] | None]:
        _check_limit(limit)
        found = [self.records.get(id) for id in artifact_ids]
        return [own and [each for each in own if kinds is None or each.surface_kind in kinds][:limit] for own in found]

    async def search_text(
        self, queries: Sequence[str], k: int, *, filter: Filter | None = None, surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:  # fmt: skip
        wanted = [own for records in self.records.values() for own in records if matches(filter, own.metadata)]
        wanted = [own for own in wanted if surfaces is None or own.surface_kind in surfaces]
        return [_rank(wanted, set(query.lower().split()), k, per_artifact=per_artifact) for query in queries]

    async def neighbors(
        self, ids: Sequence[str], *, direction: Direction = "out", limit: int | None = None, **choice: Any
    ) -> list[list[Edge]]:
        _check_limit(limit)
        if direction not in ("out", "in", "both"):
            raise ArgumentError(f"direction must be 'out', 'in' or 'both', not {direction!r}")
        links, left_out = LinkFilter(**choice), {"out": True, "in": False}.get(direction)

        def edges_of(id: str) -> list[Edge]:
            own = [each for each in self.edges.get(id, ()) if each[0] != left_out and links.accepts(each[2])]
            own.sort(key=lambda each: (each[2].type, not isinstance(each[1], str), each[1], each[0], each[2].origin))
            return [edge for _, _, edge in own][:limit]

        return [edges_of(id) for id in ids]


def _rank(records: Iterable[Record], words: set[str], k: int, *, per_artifact: bool) -> Ranking:
    counts = [(len(words & _words(own.text)), own) for own in records]
    counts.sort(key=lambda row: (-row[0], row[1].artifact_id, row[1].surface_index))
    best: dict[str, tuple[int, Record]] = {}
    for count, own in counts:
        if count:
            best.setdefault(own.artifact_id if per_artifact else own.id, (count, own))
    rows = [*best.values()][:k]
    ids = [own.id for _, own in rows]
    return Ranking(ids, [own.artifact_id for _, own in rows], np.array([float(count) for count, _ in rows]))


def _check_limit(limit: int | None) -> None:
    if limit is not None and limit < 0:
        raise ArgumentError(f"limit must be at least 0, not {limit}")


def _weight(edge: Edge) -> float:
    return edge.weight


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
    store: Any = DictStore({own.id: [own] for own in records}, edges)  # a search asks for what it has
    corpus = airw.Corpus("eips", store, resolve_embedder("light"))
    for hit in await airw.search(corpus, question, k=3):
        print(f"{hit.score:.0f}  {hit.artifact_id}")
    for hit in await airw.top_k(airw.traverse(question, corpus, policy=LinkWalk(start_k=2)), k=5):
        print(f"{hit.metadata['walk_depth']}  {' > '.join(hit.metadata['walk_path'])}")


if __name__ == "__main__":
    anyio.run(main, "how do wallets sign typed structured data")
