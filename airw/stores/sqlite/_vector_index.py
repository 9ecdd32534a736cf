"""The vectors of a file: a matrix in memory while they are few, indexes beside the file above that."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from airw._base.arrays import Floats
from airw._base.vectors import exact_scores
from airw.protocols import ArtifactVectors, BestRecords
from airw.stores._indexes.dense_index import DenseIndex, check_queries
from airw.stores.sqlite import _segmented_index
from airw.stores.sqlite._field_indexes import FilterIndex
from airw.stores.sqlite._filter_sql import Sql, compile_filter, keys_json, one_of
from airw.stores.sqlite._record_log import RecordLog
from airw.stores.sqlite._segmented_index import SegmentedIndex, count_live_rows
from airw.stores.sqlite._segments import SHORTLIST
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.values import Ranking
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")
Row: TypeAlias = tuple[float, str, int, str]  # minus the score, artifact id, surface index, record id: as they sort

_MAX_INLINE = 1 << 23  # numbers, compared with a query faster than another thread can be asked to
_BLOCK = 4096  # rows read at a time
_GROWTH = 8  # times as many candidates when too few passed the filter
_MAX_CANDIDATES = 4096  # candidates; beyond that all rows are compared


class VectorIndex:
    """Follows the vectors of a file and answers questions about them; one user at a time.

    The work of following grows with what changed, not with the corpus.

    Args:
        folder: Where the indexes lie.
        filters: Which rows a filter keeps.
    """

    def __init__(self, folder: Path, filters: FilterIndex) -> None:
        self._filters = filters
        self._segmented = SegmentedIndex(folder)
        self._clear()

    def prepare(
        self,
        connection: "sqlite3.Connection",
        ask: "Callable[[DenseIndex | SqlVectorSearch, Any], R]",
        filter: Filter | None = None,
    ) -> tuple[Callable[[], R], bool]:
        """Follow the file to its present state and answer `ask(index, allowed)`.

        `allowed` is what the filter keeps, in the form that the index understands.

        Returns:
            A function that returns the answer, and whether it takes no time. One that does no longer needs the
            connection: call it in another thread.
        """
        live = count_live_rows(connection)
        count = sum(live.values())
        if count > _segmented_index.EXACT_ROWS:
            self._clear()
            self._segmented.update(connection, live)
            condition = None if filter is None else compile_filter(filter, "record.metadata")
            found = ask(SqlVectorSearch(connection, self._segmented), condition)
            return lambda: found, True
        self._update(connection, count)
        allowed = None if filter is None else self._filters.match(connection, filter)
        later = partial(ask, self._index, allowed)
        if len(self._index) * (self._index.dim or 0) > _MAX_INLINE:
            return later, False
        found = later()
        return lambda: found, True

    def _clear(self, room: int = 0) -> None:
        self._index = DenseIndex(room)
        self._log = RecordLog()

    def _update(self, connection: "sqlite3.Connection", count: int) -> None:
        def restart() -> None:
            self._index = DenseIndex(room=count)

        self._log.drop_removed(connection, self._index.drop, restart=restart)
        for rows in self._log.read_new(
            connection, "id, artifact_id, kind, idx, data, sum", tables="record JOIN vector USING (rowid)"
        ):
            numbers, ids, artifact_ids, kinds, indexes, *stored = zip(*rows, strict=True)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=decode_vectors(*stored))


@dataclass(frozen=True, slots=True)
class SqlVectorSearch:
    """Vector search in one state of a file too large for a matrix, asked as a `DenseIndex` is.

    Scores are exact, and what is found is nearly so: candidates come from `segments` and are scored again. They are
    filtered then. Where too few pass, more are asked for, and in the end every row of the file is compared, so that a
    filter that keeps few rows, or none near the query, is answered exactly.
    """

    connection: "sqlite3.Connection"
    segments: SegmentedIndex

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: Sql | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records, or artifacts; `allowed` is a condition on `record`."""
        queries = check_queries(queries, self.segments.dim)
        conditions = [each for each in (allowed, _compile_kinds(surfaces)) if each]
        ranked = [self._rank(query, k, conditions, per_artifact=per_artifact) for query in queries]
        return [
            Ranking([row[3] for row in rows], [row[1] for row in rows], np.array([-row[0] for row in rows], np.float64))
            for rows in ranked
        ]

    def _rank(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[Row]:
        if k < 1:
            return []
        wanted = max(SHORTLIST, 4 * k)
        while wanted <= _MAX_CANDIDATES:
            these = one_of("record.rowid", self.segments.nearest(query, wanted).tolist())
            # Twice as many must pass: what lies just behind the cut is not certain to have been found.
            rows = self._compare(query, 2 * k, [these, *conditions], per_artifact=per_artifact)
            if len(rows) == 2 * k:
                return rows[:k]
            wanted *= _GROWTH
        return self._compare(query, k, conditions, per_artifact=per_artifact)

    def _compare(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[Row]:
        """Compare all rows that satisfy the conditions."""
        where = " AND ".join(["1", *(f"({sql})" for sql, _ in conditions)])
        found = self.connection.execute(
            f"""SELECT artifact_id, idx, id, data, sum FROM record JOIN vector ON vector.rowid = record.rowid
            WHERE {where}""",
            [value for _, values in conditions for value in values],
        )
        best: list[Row] = []
        while block := found.fetchmany(_BLOCK):
            artifact_ids, indexes, ids, *stored = zip(*block, strict=True)
            scores = exact_scores(decode_vectors(*stored), query)
            best += zip((-scores).tolist(), artifact_ids, indexes, ids, strict=True)
            best.sort()
            best = (_keep_first_per_artifact(best) if per_artifact else best)[:k]
        return best

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Return the score of each record for `query` `(dim,)`: `(n,) float32`, NaN where there is no such record."""
        query = check_queries(query[None], self.segments.dim)[0]
        places, vectors = self._read(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        scores[places] = exact_scores(vectors, query)
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Return for each artifact the id and score of its best record; `None` and NaN where it has none."""
        query = check_queries(query[None], self.segments.dim)[0]
        conditions = [one_of("record.artifact_id", artifact_ids)]
        conditions += [each for each in (_compile_kinds(surfaces),) if each]
        rows = self._compare(query, len(artifact_ids), conditions, per_artifact=True)
        best = {artifact_id: (record_id, -score) for score, artifact_id, _, record_id in rows}
        found = [best.get(each, (None, np.nan)) for each in artifact_ids]
        scores = np.array([score for _, score in found], np.float32)
        return BestRecords([record_id for record_id, _ in found], scores)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record: `(n, dim) float32`, a row of NaN where there is no such record."""
        places, vectors = self._read(ids)
        found = np.full((len(ids), self.segments.dim or 0), np.nan, np.float32)
        found[places] = vectors
        return found

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact in plan order, and all their vectors in that order."""
        ids: list[list[str]] = [[] for _ in artifact_ids]
        rows = self.connection.execute(
            """SELECT asked.key, record.id, data, sum FROM json_each(?) AS asked
            JOIN record ON record.artifact_id = asked.value JOIN vector ON vector.rowid = record.rowid
            ORDER BY asked.key, record.rowid""",
            [keys_json(artifact_ids)],
        )
        blocks = [np.empty((0, self.segments.dim or 0), np.float32)]
        while block := rows.fetchmany(_BLOCK):
            places, record_ids, *stored = zip(*block, strict=True)
            for place, record_id in zip(places, record_ids, strict=True):
                ids[place].append(record_id)
            blocks.append(decode_vectors(*stored))
        return ArtifactVectors(ids, np.concatenate(blocks))

    def _read(self, ids: Sequence[str]) -> tuple[list[int], Floats]:
        """Return the places, among those asked for, of the records that exist, and their vectors."""
        rows = self.connection.execute(
            """SELECT asked.key, data, sum FROM json_each(?) AS asked JOIN record ON record.id = asked.value
            JOIN vector ON vector.rowid = record.rowid""",
            [keys_json(ids)],
        ).fetchall()
        if not rows:
            return [], np.empty((0, self.segments.dim or 0), np.float32)
        places, *stored = zip(*rows, strict=True)
        return list(places), decode_vectors(*stored)


def _compile_kinds(surfaces: Sequence[str] | None) -> Sql | None:
    return None if surfaces is None else one_of("record.kind", surfaces)


def _keep_first_per_artifact(rows: Sequence[Row]) -> list[Row]:
    """Return the first row of each artifact."""
    firsts: dict[str, Row] = {}
    for row in rows:
        firsts.setdefault(row[1], row)
    return list(firsts.values())
