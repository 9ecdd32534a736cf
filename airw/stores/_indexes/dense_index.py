"""Exact dense search over one float32 matrix in memory; synchronous, without I/O.

A matrix product computes all scores fast. But its last bits depend on the position of a row, and on the number of
queries in the product. So the product only selects a shortlist, with a margin for its rounding errors. The shortlist is
then scored again, one row at a time, so that equal vectors have equal scores at any position. Therefore rankings and
scores depend only on the stored records, never on the order in which they were added. A search takes about as long as
the product alone (`bench_dense`).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.vectors import best_first, exact_scores
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, StoreError
from airw.protocols import ArtifactVectors, BestRecords
from airw.values import Ranking

_Rows: TypeAlias = NDArray[np.int64]  # positions in the matrix

_GATHER_COST = 8  # time to copy a row out of order, as a multiple of the time to multiply it in place
_BLOCK = 4096  # rows that are scored again at a time
_MAX_SCORES = 1 << 24  # scores in memory at a time: 64 MB


def check_queries(queries: Floats, dim: int | None) -> Floats:
    """Return queries as `(m, dim) float32`; if `dim` is `None`, any width is accepted.

    Raises:
        ArgumentError: If they have another shape.
        EmbedderMismatch: If they are not as wide as the stored vectors.
        EmbedderError: If a number is not finite.
    """
    queries = np.asarray(queries, np.float32)
    if queries.ndim != 2:
        raise ArgumentError(f"queries must have the shape (m, dim), not {queries.shape}")
    if dim is not None and queries.shape[1] != dim:
        raise EmbedderMismatch(
            f"the query is {queries.shape[1]} wide, but the stored vectors are {dim} wide; "
            "embed it with the embedder that the corpus was built with"
        )
    if not np.isfinite(queries).all():
        raise EmbedderError("a query vector contains NaN or infinity; pass finite numbers")
    return queries


class DenseIndex:
    """The vectors of all records of a store, with exact search by dot product.

    Its search methods are those of `VectorSearch`. Rows are compact: when a row is removed, the last row moves into its
    position. The index is not thread-safe: callers must not read and write at the same time.

    Args:
        room: The number of rows to allocate at the start, so that filling the index copies nothing.

    Example:
        >>> index = DenseIndex()
        >>> index.put(["r1", "r2"], [1, 2], ["a", "b"], ["chunk", "chunk"], [0, 0], vectors=np.eye(2, dtype=np.float32))
        >>> index.search(np.array([[1.0, 0.0]], np.float32), 1)[0].artifact_ids
        ['a']
    """

    def __init__(self, room: int = 0) -> None:
        self._room = room
        self._ids: list[str] = []
        self._row_of: dict[str, int] = {}
        self._artifacts = _ArtifactTable()
        self._kinds: dict[str, int] = {}
        self._matrix: Floats = np.empty((0, 0), np.float32)
        self._columns: NDArray[np.int64] = np.empty((4, 0), np.int64)  # artifact, kind, surface index, number
        self._max_norm = 1.0

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._ids)

    @property
    def dim(self) -> int | None:
        """Return the width of the vectors; `None` if there are none."""
        return self._matrix.shape[1] if self._ids else None

    def put(
        self,
        ids: Sequence[str],
        numbers: Sequence[int],
        artifact_ids: Sequence[str],
        kinds: Sequence[str],
        indexes: Sequence[int],
        *,
        vectors: Floats,
    ) -> None:
        """Add rows, replacing rows with the same record id; all arguments are aligned.

        This takes time in proportion to the new rows, not to the stored ones.

        Args:
            ids: The record ids, without duplicates.
            numbers: A number per record that is never used again. `search(allowed=...)` refers to it.
            artifact_ids: The artifact of each record.
            kinds: The surface kind of each record.
            indexes: The surface index of each record, unique within its artifact.
            vectors: `(n, dim) float32`, finite; unit rows or zero rows.

        Raises:
            StoreError: If the number of vectors is not that of records, or they are not as wide as those that remain.
                Nothing is changed then.
        """
        count = len(ids)
        if vectors.ndim != 2 or vectors.shape[0] != count:
            raise StoreError(f"the vectors of {count} records must have shape ({count}, dim), not {vectors.shape}")
        if not count:
            return
        replaced_rows = sum(record_id in self._row_of for record_id in ids)
        if len(self) > replaced_rows and vectors.shape[1] != self.dim:
            raise StoreError(f"the vectors are {vectors.shape[1]} wide, but the stored ones are {self.dim} wide")
        self.drop(ids)
        start = len(self)
        self._reserve(start + count, vectors.shape[1])
        self._matrix[start : start + count] = vectors
        self._max_norm = max(self._max_norm, float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max())))
        self._columns[0, start : start + count] = [
            self._artifacts.add(artifact_id, record_id)
            for artifact_id, record_id in zip(artifact_ids, ids, strict=True)
        ]
        self._columns[1, start : start + count] = [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds]
        self._columns[2, start : start + count] = indexes
        self._columns[3, start : start + count] = numbers
        self._row_of.update(zip(ids, range(start, start + count), strict=True))
        self._ids.extend(ids)

    def drop(self, ids: Iterable[str]) -> None:
        """Remove the rows of these records; unknown ids are ignored.

        This takes time in proportion to the removed rows.
        """
        for record_id in ids:
            row = self._row_of.pop(record_id, None)
            if row is None:
                continue
            self._artifacts.discard(int(self._columns[0, row]), record_id)
            # Move the last row into the gap.
            last = self._ids.pop()
            if last != record_id:
                end = len(self._ids)
                self._ids[row] = last
                self._row_of[last] = row
                self._matrix[row] = self._matrix[end]
                self._columns[:, row] = self._columns[:, end]
        if not self._ids:  # an empty index accepts any width
            self._matrix, self._max_norm = np.empty((0, 0), np.float32), 1.0

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: NDArray[np.int64] | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` best records or artifacts of each query, among the `allowed` numbers."""
        queries = check_queries(queries, self.dim)
        rows = self._find_candidates(allowed, surfaces)
        if k < 1 or not len(self) or (rows is not None and not len(rows)):
            return [Ranking([], [], np.empty(0, np.float64)) for _ in queries]
        return [
            self._rank(query, scores, rows, k, per_artifact=per_artifact)
            for query, scores in zip(queries, self._score_roughly(queries, rows), strict=True)
        ]

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Return the cosine between the query and each record; NaN for an unknown record."""
        query = check_queries(query[None], self.dim)[0]
        rows, exists = self._locate(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        scores[exists] = self._score_exactly(query, rows[exists])
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Return the best record of each artifact; `None` and NaN for an artifact without records."""
        query = check_queries(query[None], self.dim)[0]
        best_ids: list[str | None] = [None] * len(artifact_ids)
        best_scores = np.full(len(artifact_ids), np.nan, np.float32)
        distinct_ids = dict.fromkeys(artifact_ids)
        rows = np.array([self._row_of[id] for name in distinct_ids for id in self._artifacts.members(name)], np.int64)
        rows = rows[self._match_kinds(rows, surfaces)]
        scores = self._score_exactly(query, rows)
        best_rows = self._find_best_rows(rows, scores)
        best = {self._artifact_id(int(rows[place])): int(place) for place in best_rows}
        for position, name in enumerate(artifact_ids):
            if name in best:
                best_ids[position] = self._ids[rows[best[name]]]
                best_scores[position] = scores[best[name]]
        return BestRecords(best_ids, best_scores)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record; a row of NaN for an unknown record."""
        rows, exists = self._locate(ids)
        vectors = np.full((len(ids), self.dim or 0), np.nan, np.float32)
        vectors[exists] = self._matrix[rows[exists]]
        return vectors

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact, ordered by number, with all their vectors."""
        rows = {name: self._rows_of(name) for name in dict.fromkeys(artifact_ids)}
        ids = [[self._ids[row] for row in rows[name]] for name in artifact_ids]
        vectors = self._matrix[np.array([row for name in artifact_ids for row in rows[name]], np.int64)]
        return ArtifactVectors(ids, vectors)

    def count_records(self, artifact_id: str) -> int:
        """Return the number of records of one artifact."""
        return len(self._artifacts.members(artifact_id))

    def _rows_of(self, artifact_id: str) -> list[int]:
        rows = [self._row_of[id] for id in self._artifacts.members(artifact_id)]
        return sorted(rows, key=self._columns[3].__getitem__) if len(rows) > 1 else rows

    def _reserve(self, count: int, dim: int) -> None:
        """Enlarge both arrays to at least `count` rows."""
        if not self._ids:
            self._matrix = np.empty((0, dim), np.float32)
        self._matrix = reserve(self._matrix, max(count, self._room))
        self._columns = reserve(self._columns, max(count, self._room), axis=1)

    def _artifact_id(self, row: int) -> str:
        return self._artifacts.names[int(self._columns[0, row])]

    def _locate(self, ids: Iterable[str]) -> tuple[_Rows, NDArray[np.bool_]]:
        rows = np.array([self._row_of.get(record_id, -1) for record_id in ids], np.int64)
        return rows, rows >= 0

    def _match_kinds(self, rows: _Rows | slice, surfaces: Sequence[str] | None) -> NDArray[np.bool_]:
        kinds = self._columns[1, rows]
        if surfaces is None:
            return np.ones(len(kinds), np.bool_)
        codes = {self._kinds[kind] for kind in surfaces if kind in self._kinds}
        return np.isin(kinds, list(codes))

    def _find_candidates(self, allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None) -> _Rows | None:
        """Return the rows to rank, ascending; `None` for all rows."""
        if allowed is None and surfaces is None:
            return None
        live = slice(0, len(self))
        mask = self._match_kinds(live, surfaces)
        if allowed is not None:
            mask &= np.isin(self._columns[3, live], allowed)
        return np.flatnonzero(mask)

    def _score_roughly(self, queries: Floats, rows: _Rows | None) -> Iterator[Floats]:
        """Yield the approximate scores of all candidates, per query."""
        live = self._matrix[: len(self)]
        # A copy of the candidate rows pays only if they are few; else score all rows, and select the scores.
        is_gathered = rows is not None and len(rows) * _GATHER_COST < len(live)
        matrix = live[rows] if is_gathered else live
        # One product serves as many queries as their scores fit in memory.
        step = max(1, _MAX_SCORES // len(matrix))
        for start in range(0, len(queries), step):
            for scores in queries[start : start + step] @ matrix.T:
                yield scores if rows is None or is_gathered else scores[rows]

    def _rank(self, query: Floats, rough: Floats, rows: _Rows | None, k: int, *, per_artifact: bool) -> Ranking:
        # Rough and exact scores each differ from the true score by at most dim * 2**-24 * |row| * |query|. So two
        # scores can change their order only if their rough scores differ by at most four times that.
        margin = 4 * len(query) * 2.0**-24 * self._max_norm * float(np.linalg.norm(query))
        near = np.flatnonzero(rough >= self._find_cut(rough, rows, k, per_artifact=per_artifact) - margin)
        near = near if rows is None else rows[near]
        # Score the shortlist again, one row at a time, and rank it by these scores.
        exact = self._score_exactly(query, near)
        if per_artifact:
            best_rows = self._find_best_rows(near, exact)
            near, exact = near[best_rows], exact[best_rows]
        order = best_first(exact, k, lambda place: (self._artifact_id(near[place]), self._columns[2, near[place]]))
        ranked_rows = near[order].tolist()
        return Ranking(
            [self._ids[row] for row in ranked_rows],
            [self._artifact_id(row) for row in ranked_rows],
            exact[order].astype(np.float64),
        )

    def _find_cut(self, rough: Floats, rows: _Rows | None, k: int, *, per_artifact: bool) -> float:
        """Return the `k`-th highest rough score; minus infinity if there are fewer scores."""
        if per_artifact:
            best = np.full(len(self._artifacts.names), -np.inf, np.float32)
            np.maximum.at(best, self._columns[0, : len(self)] if rows is None else self._columns[0, rows], rough)
            rough = best[best > -np.inf]
        place = len(rough) - k
        return float(np.partition(rough, place)[place]) if place > 0 else -np.inf

    def _score_exactly(self, query: Floats, rows: _Rows) -> Floats:
        """Return the exact scores of rows, each independent of the other rows."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            scores[block] = exact_scores(self._matrix[rows[block]], query)
        return scores

    def _find_best_rows(self, rows: _Rows, scores: Floats) -> NDArray[np.intp]:
        """Return the positions in `rows` of the best row of each artifact.

        Ties go to the lower surface index.
        """
        # Sort by artifact, then score, then surface index, and take the first row of each artifact.
        codes = self._columns[0, rows]
        order = np.lexsort((self._columns[2, rows], -scores, codes))
        starts = np.ones(len(order), np.bool_)
        starts[1:] = np.diff(codes[order]) != 0
        return order[starts]


class _ArtifactTable:
    """The records of each artifact, and a small code per artifact; free codes are used again."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._members: list[set[str]] = []
        self._free: list[int] = []

    def add(self, name: str, member: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = self._assign_code(name)
        self._members[code].add(member)
        return code

    def discard(self, code: int, member: str) -> None:
        self._members[code].discard(member)
        if not self._members[code]:
            del self._codes[self.names[code]]
            self._free.append(code)

    def members(self, name: str) -> Collection[str]:
        code = self._codes.get(name)
        return self._members[code] if code is not None else ()

    def _assign_code(self, name: str) -> int:
        if self._free:
            code = self._free.pop()
            self.names[code] = name
            return code
        self.names.append(name)
        self._members.append(set())
        return len(self.names) - 1
