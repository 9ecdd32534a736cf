"""A search that reads all vectors of a file once, and keeps none of them."""

from typing import TYPE_CHECKING

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores
from airw.stores._indexes.dense_index import check_queries
from airw.stores.sqlite._record_log import read_records
from airw.stores.sqlite._records import check_columns
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.values import Ranking

if TYPE_CHECKING:
    import sqlite3

_BLOCK = 512  # rows per read
_MARGIN = 1e-4  # more than a matrix product and an exact score ever differ


class _BestArtifacts:
    """The best artifacts of one query so far, each with its best record."""

    def __init__(self, query: Floats, k: int) -> None:
        self._query, self._k = query, k
        self._found: dict[str, tuple[float, str]] = {}

    @property
    def least(self) -> float:
        """Return the score that a further artifact must reach."""
        return min(score for score, _ in self._found.values()) if len(self._found) == self._k else -np.inf

    def add(self, artifact_id: str, record_ids: list[str], vectors: Floats) -> None:
        """Take records of one artifact into account."""
        scores = exact_scores(vectors, self._query)
        best = int(scores.argmax())
        candidate = (float(scores[best]), record_ids[best])
        self._found[artifact_id] = max(candidate, self._found.get(artifact_id, candidate))
        if len(self._found) > self._k:
            del self._found[min(self._found, key=lambda name: self._found[name][0])]

    def to_ranking(self) -> Ranking:
        """Return the artifacts, best first."""
        rows = sorted(self._found.items(), key=lambda item: (-item[1][0], item[0]))
        scores = np.array([score for _, (score, _) in rows], np.float64)
        return Ranking([record_id for _, (_, record_id) in rows], [name for name, _ in rows], scores)


def scan_vectors(connection: "sqlite3.Connection", queries: Floats, k: int) -> list[Ranking]:
    """Return the `k` best artifacts of each query, each with its best record."""
    best = [_BestArtifacts(query, k) for query in queries]
    columns, tables = "record.id, artifact_id, data, sum", "record JOIN vector USING (rowid)"
    for rows in read_records(connection, columns, tables=tables, after=0, block=_BLOCK):
        _, ids, artifact_ids, *stored = zip(*rows, strict=True)
        check_columns(ids, artifact_ids)
        vectors = decode_vectors(*stored)
        # The records of an artifact are written together, so they are neighbours.
        starts = [0, *(at for at in range(1, len(ids)) if artifact_ids[at] != artifact_ids[at - 1])]
        scores = np.maximum.reduceat(vectors @ check_queries(queries, vectors.shape[1]).T, starts, axis=0)
        ends = [*starts[1:], len(ids)]
        for each, column in zip(best, scores.T, strict=True):
            # Nearly always, no artifact of the block is among the best.
            is_full = each.least > -np.inf
            groups = np.flatnonzero(column > each.least - _MARGIN) if is_full else np.argsort(-column)[:k]
            for group in groups.tolist():
                rows_of = slice(starts[group], ends[group])
                each.add(artifact_ids[starts[group]], list(ids[rows_of]), vectors[rows_of])
    return [each.to_ranking() for each in best]
