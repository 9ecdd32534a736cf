"""Vector search in a file: by a matrix if it is small, by HNSW segments if it is large."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from airw._base.arrays import Floats
from airw._base.slices import consume_in_slices, sort_in_slices
from airw._base.vectors import exact_scores
from airw.protocols import ArtifactVectors, BestRecords
from airw.stores._indexes.dense_index import DenseIndex, check_queries
from airw.stores.sqlite import _segmented_index
from airw.stores.sqlite._field_indexes import FilterIndex
from airw.stores.sqlite._filter_sql import Sql, compile_filter, compile_in, keys_json
from airw.stores.sqlite._record_log import RecordLog
from airw.stores.sqlite._records import DamagedValue, check_columns
from airw.stores.sqlite._segmented_index import SegmentedIndex, count_live_rows
from airw.stores.sqlite._segments import SHORTLIST
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.stores.sqlite._vector_file import SavedRows
from airw.stores.sqlite._vector_saving import load_saved
from airw.stores.sqlite._watch import FileVersion
from airw.values import Ranking
from airw.values.filters import Filter

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")
# -score, artifact id, surface index, record id: so rows sort by rank
_ScoredRow: TypeAlias = tuple[float, str, int, str]

_BLOCK = 4096  # rows per read
_MAX_ROWS = 4 * _BLOCK  # rows to keep besides twice the best ones
_GROWTH = 8  # factor by which more candidates are read if too few pass the filter
_MAX_CANDIDATES = 4096  # beyond that, all rows are compared


@dataclass(frozen=True, slots=True)
class _Latest:
    """An index that was searched, with its mapped files and the version it shows, if known."""

    version: FileVersion | None
    index: DenseIndex
    saved: SavedRows | None


class VectorIndex:
    """The vector index of a file; one user prepares a query at a time.

    An update takes time in proportion to the changes, not to the corpus.

    Args:
        folder: The folder of the segments.
        filters: The filter index of the same file.
    """

    def __init__(self, folder: Path, filters: FilterIndex) -> None:
        self._folder = folder
        self._filters = filters
        self._segmented = SegmentedIndex(folder)
        self._saved: SavedRows | None = None
        self._latest: _Latest | None = None
        self._clear()

    def prepare(
        self,
        connection: "sqlite3.Connection",
        run_query: "Callable[[DenseIndex | SqlVectorSearch, Any], R]",
        filter: Filter | None = None,
        version: FileVersion | None = None,
    ) -> Callable[[], R]:
        """Prepare `run_query(index, allowed)` on the present state of the file.

        `allowed` is the filter in the form that the index accepts: rowids for a matrix, an SQL condition for segments.
        `version` is that of the file before its present state was read; `None` if it is unknown.

        Returns:
            A function that returns the result of the query. Others may prepare queries while it runs.
        """
        live = count_live_rows(connection)
        count = sum(live.values())
        # A large file: the matrix is dropped, and the query runs at once, as it needs the connection.
        if count > _segmented_index.EXACT_ROWS:
            self._index, self._log, self._latest = DenseIndex(), RecordLog(), None
            if self._saved is None or self._saved.has_changed():
                _, self._saved = load_saved(connection, self._folder)
            self._segmented.update(connection, live, self._saved)
            condition = None if filter is None else compile_filter(filter, "record.metadata")
            result = run_query(SqlVectorSearch(connection, self._segmented, self._saved), condition)
            return lambda: result
        # A small file: the query needs only the matrix.
        self._update(connection, count)
        allowed = None if filter is None else self._filters.match(connection, filter)
        index = self._index.freeze()
        if version is not None or self._latest is None:
            self._latest = _Latest(version, index, self._saved)
        return partial(run_query, index, allowed)

    def is_quick(self, count: int) -> bool:
        """Return whether `count` queries may be answered by `search_at_once`."""
        latest = self._latest
        return latest is not None and latest.index.is_quick(count)

    @property
    def is_used(self) -> bool:
        """True if an index is in memory."""
        return self._latest is not None

    def find_latest(self, version: FileVersion | None) -> DenseIndex | None:
        """Return the index in memory, if it shows this version of the file."""
        latest = self._latest
        if latest is None or version is None or latest.version != version:
            return None
        return None if latest.saved is not None and latest.saved.has_changed() else latest.index

    def search_at_once(
        self, queries: Floats, k: int, version: FileVersion | None, *, per_artifact: bool
    ) -> list[Ranking] | None:
        """Return the rankings in this version of the file, without reading it.

        The result is `None` if another version is in memory, or if the search takes more than about a millisecond.
        """
        index = self.find_latest(version)
        return None if index is None else index.search_if_quick(queries, k, per_artifact=per_artifact)

    def _clear(self, room: int = 0) -> None:
        self._index = DenseIndex(room)
        self._log = RecordLog()
        self._saved = None
        self._latest = None

    def _update(self, connection: "sqlite3.Connection", count: int) -> None:
        if self._saved is not None and self._saved.has_changed():
            self._clear()
        if not self._log.last:
            self._open_saved(connection)
        self._read_changes(connection, count)
        if self._index.is_based and len(self._index) != count:
            # The files do not fit the database, although they have its checksums: do without them.
            self._clear()
            self._read_changes(connection, count)

    def _open_saved(self, connection: "sqlite3.Connection") -> None:
        """Begin with the rows in the mapped files, if they are there and intact."""
        _, saved = load_saved(connection, self._folder)
        if saved is not None and not saved.is_intact():
            saved.discard()
        elif saved is not None:
            self._saved, self._index = saved, DenseIndex(base=saved.rows)
            self._log = RecordLog(saved.last, saved.last_tombstone)

    def _read_changes(self, connection: "sqlite3.Connection", count: int) -> None:
        def restart() -> None:
            self._index = DenseIndex(room=count)

        self._log.drop_removed(connection, self._index.drop, restart=restart)
        for rows in self._log.read_new(
            connection,
            "id, artifact_id, kind, CAST(idx AS INTEGER), data, sum",
            tables="record JOIN vector USING (rowid)",
        ):
            numbers, ids, artifact_ids, kinds, indexes, *stored = zip(*rows, strict=True)
            check_columns(ids, artifact_ids, kinds)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=decode_vectors(*stored))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SqlVectorSearch:
    """Vector search in one snapshot of a large file, with the methods of `DenseIndex`.

    Candidates come from `segments`, and are nearly always the nearest rows. They are then filtered and scored again, by
    their vectors in the mapped file, or in the database. So scores are exact. If too few pass the filter, more
    candidates are read, and in the end all rows are compared. So results are exact for a filter that matches few rows,
    or none near the query.
    """

    connection: "sqlite3.Connection"
    segments: SegmentedIndex
    saved: SavedRows | None

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: Sql | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` best records or artifacts of each query.

        `allowed` is an SQL condition on the table `record`.
        """
        queries = check_queries(queries, self.segments.dim)
        conditions = [condition for condition in (allowed, _compile_kinds(surfaces)) if condition]
        return [_to_ranking(self._rank(query, k, conditions, per_artifact=per_artifact)) for query in queries]

    def _rank(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[_ScoredRow]:
        if k < 1:
            return []
        candidate_count = max(SHORTLIST, 4 * k)
        while candidate_count <= _MAX_CANDIDATES:
            is_candidate = compile_in("record.rowid", self.segments.find_nearest(query, candidate_count).tolist())
            # Segments may miss rows near the end of their list. So accept the first `k` only if twice as many pass.
            rows = self._compare(query, 2 * k, [is_candidate, *conditions], per_artifact=per_artifact)
            if len(rows) == 2 * k:
                return rows[:k]
            candidate_count *= _GROWTH
        # The filter matches few rows near the query: compare all rows.
        return self._compare(query, k, conditions, per_artifact=per_artifact)

    def _compare(self, query: Floats, k: int, conditions: Sequence[Sql], *, per_artifact: bool) -> list[_ScoredRow]:
        """Return the `k` best of all rows that satisfy the conditions, by exact scores."""
        where = " AND ".join(["1", *(f"({sql})" for sql, _ in conditions)])
        cursor = self.connection.execute(
            f"SELECT artifact_id, CAST(idx AS INTEGER), id, record.rowid FROM record WHERE {where}",
            [value for _, values in conditions for value in values],
        )
        rows: list[_ScoredRow] = []
        while block := cursor.fetchmany(_BLOCK):
            artifact_ids, indexes, ids, numbers = zip(*block, strict=True)
            check_columns(ids, artifact_ids)
            scores = exact_scores(self._take_vectors(numbers), query)
            rows += zip((-scores).tolist(), artifact_ids, indexes, ids, strict=True)
            # Only now and then, so that each row takes part in few sorts.
            if len(rows) > 2 * k + _MAX_ROWS:
                rows = _keep_best(rows, k, per_artifact=per_artifact)
        return _keep_best(rows, k, per_artifact=per_artifact)

    def _take_vectors(self, numbers: Sequence[int]) -> Floats:
        """Return the vectors of records: from the mapped file if they have their sum."""
        if self.saved is None:
            vectors, is_found = (
                np.empty((len(numbers), self.segments.dim or 0), np.float32),
                np.zeros(len(numbers), np.bool_),
            )
        else:
            vectors, is_found = self.saved.take(np.array(numbers, np.int64))
        places = np.flatnonzero(~is_found).tolist()
        if places:
            vectors[places] = self._read_by_number([numbers[place] for place in places])
        return vectors

    def _read_by_number(self, numbers: Sequence[int]) -> Floats:
        condition, parameters = compile_in("rowid", numbers)
        rows = self.connection.execute(f"SELECT rowid, data, sum FROM vector WHERE {condition}", parameters)
        stored = {number: (data, sum_) for number, data, sum_ in rows}
        if len(stored) < len(numbers):
            raise DamagedValue("a record has no vector")
        return decode_vectors(*zip(*(stored[number] for number in numbers), strict=True))

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Return the cosine between the query and each record; NaN for an unknown record."""
        query = check_queries(query[None], self.segments.dim)[0]
        scores = np.full(len(ids), np.nan, np.float32)
        for positions, vectors in self._read_vectors(ids):
            scores[positions] = exact_scores(vectors, query)
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Return the best record of each artifact; `None` and NaN for an artifact without records."""
        query = check_queries(query[None], self.segments.dim)[0]
        conditions = [compile_in("record.artifact_id", artifact_ids)]
        if surfaces is not None:
            conditions.append(compile_in("record.kind", surfaces))
        rows = self._compare(query, len(artifact_ids), conditions, per_artifact=True)
        # The last row stands for an artifact without records.
        row_of = {row[1]: number for number, row in enumerate(rows)}
        best_ids: list[str | None] = [*(row[3] for row in rows), None]
        best_scores = np.array([*(-row[0] for row in consume_in_slices(rows)), np.nan], np.float32)
        positions = [row_of.get(artifact_id, -1) for artifact_id in artifact_ids]
        return BestRecords([best_ids[position] for position in positions], best_scores[positions])

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record; a row of NaN for an unknown record."""
        aligned = np.full((len(ids), self.segments.dim or 0), np.nan, np.float32)
        for positions, vectors in self._read_vectors(ids):
            aligned[positions] = vectors
        return aligned

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact in plan order, with all their vectors."""
        ids: list[list[str]] = [[] for _ in artifact_ids]
        rows = self.connection.execute(
            """SELECT requested.key, record.id, data, sum FROM json_each(?) AS requested
            JOIN record ON record.artifact_id = requested.value JOIN vector ON vector.rowid = record.rowid
            ORDER BY requested.key, record.rowid""",
            [keys_json(artifact_ids)],
        )
        blocks = [np.empty((0, self.segments.dim or 0), np.float32)]
        while block := rows.fetchmany(_BLOCK):
            positions, record_ids, *stored = zip(*block, strict=True)
            for position, record_id in zip(positions, record_ids, strict=True):
                ids[position].append(record_id)
            blocks.append(decode_vectors(*stored))
        return ArtifactVectors(ids, np.concatenate(blocks))

    def _read_vectors(self, ids: Sequence[str]) -> Iterator[tuple[list[int], Floats]]:
        """Yield blocks of positions in `ids` of records that exist, with their vectors."""
        cursor = self.connection.execute(
            """SELECT requested.key, data, sum FROM json_each(?) AS requested JOIN record ON record.id = requested.value
            JOIN vector ON vector.rowid = record.rowid""",
            [keys_json(ids)],
        )
        while block := cursor.fetchmany(_BLOCK):
            positions, *stored = zip(*block, strict=True)
            yield list(positions), decode_vectors(*stored)


def _compile_kinds(surfaces: Sequence[str] | None) -> Sql | None:
    return None if surfaces is None else compile_in("record.kind", surfaces)


def _to_ranking(rows: list[_ScoredRow]) -> Ranking:
    ids, artifact_ids = [row[3] for row in rows], [row[1] for row in rows]
    scores = np.fromiter((-row[0] for row in consume_in_slices(rows)), np.float64, len(rows))
    return Ranking(ids, artifact_ids, scores)


def _keep_best(rows: list[_ScoredRow], k: int, *, per_artifact: bool) -> list[_ScoredRow]:
    """Return the `k` best rows, or the best row of each of the `k` best artifacts, sorted."""
    if per_artifact:
        best: dict[str, _ScoredRow] = {}
        for row in rows:
            if row[1] not in best or row < best[row[1]]:
                best[row[1]] = row
        rows = list(best.values())
    return sort_in_slices(rows, limit=k)
