"""What a walk reads ahead, from a store that reads a whole step in one call."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw.policies._several_corpora import Id
from airw.protocols import ArtifactVectors, EdgeReader, StepAnswer
from airw.values import Edge, Record
from airw.walking import CommittedNode

MAX_ENDS = 1_000
"""The most ends that one call compares; those of a hub that are more take a second call."""

MAX_START = 64
"""The most artifacts whose records are read before it is known whether they are committed."""


class ReadOptions(NamedTuple):
    """What to read of the ends of edges; see `StepReader.read_step`.

    Args:
        max_ends: The most ends to compare with the query.
        max_records: The most records of ends per artifact.
        with_vectors: Whether to read vectors.
    """

    max_ends: int = MAX_ENDS
    max_records: int = 0
    with_vectors: bool = False


@dataclass(slots=True, eq=False)
class Lookahead:
    """What was read for the next calls of a walk, and is taken by them.

    Args:
        edges: The edges of artifacts that are expanded next.
        best: The record id and the cosine of each artifact's best surface; `-inf` without one.
        records: Records by id.
        vectors: The record ids of each artifact, and their vectors.
        vectors_read: The artifacts whose vectors were read.
        likely: Artifacts that wait, and are likely to be committed soon.
    """

    edges: dict[Id, list[Edge]] = field(default_factory=dict)
    best: dict[Id, tuple[str | None, float]] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)
    vectors: dict[Id, tuple[list[str], Floats]] = field(default_factory=dict)
    vectors_read: set[Id] = field(default_factory=set)
    likely: Sequence[CommittedNode] = ()

    def add(self, ids: Sequence[Id], answer: StepAnswer, known: Collection[Id]) -> None:
        """Store an answer about the edges of `ids`; what is known of artifacts stays as it is."""
        self.edges.update(zip(ids, answer.edges, strict=True))
        record_ids, scores = answer.best
        cosines = np.where(np.isnan(scores), -np.inf, scores).tolist()
        for id, record_id, cosine in zip(answer.artifact_ids, record_ids, cosines, strict=True):
            if id not in known:
                self.best[id] = record_id, cosine
        self.records.update((record.id, record) for record in answer.records if record is not None)
        if answer.vectors is not None:
            start = 0
            for id, own in zip(answer.artifact_ids, answer.vectors.record_ids, strict=True):
                self.vectors[id] = own, answer.vectors.vectors[start : start + len(own)]
                start += len(own)
            self.vectors_read.update(answer.artifact_ids)

    async def read_edges(
        self,
        ids: Sequence[Id],
        store: EdgeReader,
        links: Mapping[str, Any],
        read_step: Callable[[list[Id]], Awaitable[None]] | None,
    ) -> list[list[Edge]]:
        """Return the edges of artifacts, and read what the next step needs with new ones.

        Args:
            ids: The artifacts.
            store: The store.
            links: The options of `neighbors`.
            read_step: Reads the edges of artifacts, and more, ahead; `None` to read edges alone.
        """
        missing = [id for id in ids if id not in self.edges]
        if missing and read_step is not None:
            await read_step(missing)
        elif missing:
            self.edges.update(zip(missing, await store.neighbors(missing, **links), strict=True))
        return [self.edges.pop(id) for id in ids]

    def take_best(self, ids: Iterable[Id]) -> dict[Id, tuple[str | None, float]]:
        """Remove and return what is known of some artifacts."""
        return {id: self.best.pop(id) for id in ids if id in self.best} if self.best else {}

    def take_records(self, record_ids: Iterable[str | None]) -> dict[str, Record]:
        """Remove and return the records that are known."""
        if not self.records:
            return {}
        return {id: self.records.pop(id) for id in record_ids if id is not None and id in self.records}

    def take_vectors(self, ids: Sequence[Id]) -> ArtifactVectors | None:
        """Remove and return the vectors of artifacts; `None` if not all are known."""
        if not ids or not all(id in self.vectors for id in ids):
            return None
        found = [self.vectors[id] for id in ids]
        for id in ids:
            self.vectors.pop(id, None)
        return ArtifactVectors([own for own, _ in found], np.concatenate([rows for _, rows in found]))
