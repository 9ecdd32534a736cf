"""Exact dense search: one float32 matrix of unit rows in memory, synchronous, no I/O.

A matrix product gives every score fast, but its last bits depend on where a row lies and on how many queries go
together. So the product only picks a shortlist, by a margin that covers its rounding, and the shortlist is scored again
one row at a time, which gives equal vectors equal scores wherever they lie. Rankings and scores therefore depend on
what is stored, and never on the order in which it came.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.vectors import best_first, exact_scores
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, StoreError
from airw.protocols import ArtifactVectors, BestRecords
from airw.values import Ranking

Rows: TypeAlias = NDArray[np.int64]

_GATHER = 8  # copying a row out of order costs about so many times what multiplying it in place does
_BLOCK = 4096  # rows scored again at a time
_CELLS = 1 << 24  # scores held at once: 64 MB


def check_queries(queries: Floats, dim: int | None) -> Floats:
    """Return queries as `(m, dim) float32`; any width will do while none is known.

    Raises:
        ArgumentError: They are of another shape.
        EmbedderMismatch: They are of another width than the stored vectors.
        EmbedderError: One is not finite.
    """
    queries = np.asarray(queries, np.float32)
    if queries.ndim != 2:
        raise ArgumentError(f"queries must have the shape (m, dim), not {queries.shape}")
    if dim is not None and queries.shape[1] != dim:
        raise EmbedderMismatch(
            f"the query is {queries.shape[1]} wide, the stored vectors are {dim} wide; "
            "query with the embedder that the corpus was built with"
        )
    if not np.isfinite(queries).all():
        raise EmbedderError("a query vector holds NaN or infinity; give finite numbers")
    return queries


class DenseIndex:
    """The vectors of a store's records, searched exactly by dot product; questions are those of `VectorSearch`.

    Rows lie compact: the last row moves into the hole that a dropped one leaves. Not thread-safe: callers see to it
    that nothing reads while something writes.

    Args:
        room: How many rows to make room for at once, so that filling it copies nothing.

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
        self._groups = _Groups()
        self._kinds: dict[str, int] = {}
        self._matrix: Floats = np.empty((0, 0), np.float32)
        self._columns: NDArray[np.int64] = np.empty((4, 0), np.int64)  # artifact, kind, surface index, number
        self._longest = 1.0

    def __len__(self) -> int:
        """Count the rows."""
        return len(self._ids)

    @property
    def dim(self) -> int | None:
        """Return the width of the vectors; `None` while there are none."""
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
        """Add rows, replacing those of equal id; all columns are aligned.

        The work grows with the rows put, not with those stored.

        Args:
            ids: Record ids, distinct.
            numbers: A number for each record, never used again, by which searches may be limited.
            artifact_ids: The artifact of each.
            kinds: The surface kind of each.
            indexes: The surface index of each, distinct within an artifact.
            vectors: `(n, dim) float32`, finite; unit rows or zero rows.

        Raises:
            StoreError: There is not one vector a record, or they are not as wide as those that stay; nothing is
                changed then.
        """
        count = len(ids)
        if vectors.ndim != 2 or vectors.shape[0] != count:
            raise StoreError(f"{count} records need vectors of shape ({count}, dim), not {vectors.shape}")
        if not count:
            return
        replaced = sum(record_id in self._row_of for record_id in ids)
        if len(self) > replaced and vectors.shape[1] != self.dim:
            raise StoreError(f"the vectors are {vectors.shape[1]} wide, those already stored are {self.dim} wide")
        self.drop(ids)
        start = len(self)
        self._make_room(start + count, vectors.shape[1])
        self._matrix[start : start + count] = vectors
        self._longest = max(self._longest, float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max())))
        self._columns[0, start : start + count] = [
            self._groups.add(artifact_id, record_id) for artifact_id, record_id in zip(artifact_ids, ids, strict=True)
        ]
        self._columns[1, start : start + count] = [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds]
        self._columns[2, start : start + count] = indexes
        self._columns[3, start : start + count] = numbers
        self._row_of.update(zip(ids, range(start, start + count), strict=True))
        self._ids.extend(ids)

    def drop(self, ids: Iterable[str]) -> None:
        """Remove the rows of these records, with work that grows with the rows dropped; unknown ids are ignored."""
        for record_id in ids:
            row = self._row_of.pop(record_id, None)
            if row is None:
                continue
            self._groups.discard(int(self._columns[0, row]), record_id)
            last = self._ids.pop()
            if last != record_id:
                end = len(self._ids)
                self._ids[row] = last
                self._row_of[last] = row
                self._matrix[row] = self._matrix[end]
                self._columns[:, row] = self._columns[:, end]
        if not self._ids:  # an empty index takes any width
            self._matrix, self._longest = np.empty((0, 0), np.float32), 1.0

    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: Rows | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Rank for each query the best `k` records of these numbers, or artifacts."""
        queries = check_queries(queries, self.dim)
        rows = self._find_candidates(allowed, surfaces)
        if k < 1 or not len(self) or (rows is not None and not len(rows)):
            return [Ranking([], [], np.empty(0, np.float64)) for _ in queries]
        return [
            self._rank(query, scores, rows, k, per_artifact=per_artifact)
            for query, scores in zip(queries, self._score_roughly(queries, rows), strict=True)
        ]

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Return the score of each record for a query; NaN where there is no such record."""
        query = check_queries(query[None], self.dim)[0]
        rows, known = self._locate(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        scores[known] = self._score_exactly(query, rows[known])
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Return for each artifact the id and score of its best record; `None` and NaN where it has none."""
        query = check_queries(query[None], self.dim)[0]
        best_ids: list[str | None] = [None] * len(artifact_ids)
        best_scores = np.full(len(artifact_ids), np.nan, np.float32)
        wanted = dict.fromkeys(artifact_ids)
        rows = np.array([self._row_of[each] for name in wanted for each in self._groups.members(name)], np.int64)
        rows = rows[self._of_kinds(rows, surfaces)]
        scores = self._score_exactly(query, rows)
        firsts = self._first_of_each(rows, scores)
        best = {self._artifact(int(rows[at])): int(at) for at in firsts}
        for position, name in enumerate(artifact_ids):
            if name in best:
                best_ids[position] = self._ids[rows[best[name]]]
                best_scores[position] = scores[best[name]]
        return BestRecords(best_ids, best_scores)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record; a row of NaN where there is no such record."""
        rows, known = self._locate(ids)
        found = np.full((len(ids), self.dim or 0), np.nan, np.float32)
        found[known] = self._matrix[rows[known]]
        return found

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact in order of their numbers, and all their vectors in that order."""
        rows = {name: self._rows_of(name) for name in dict.fromkeys(artifact_ids)}
        ids = [[self._ids[row] for row in rows[name]] for name in artifact_ids]
        vectors = self._matrix[np.array([row for name in artifact_ids for row in rows[name]], np.int64)]
        return ArtifactVectors(ids, vectors)

    def count_of(self, artifact_id: str) -> int:
        """Count the records of one artifact."""
        return len(self._groups.members(artifact_id))

    def _rows_of(self, artifact_id: str) -> list[int]:
        rows = [self._row_of[each] for each in self._groups.members(artifact_id)]
        return sorted(rows, key=self._columns[3].__getitem__) if len(rows) > 1 else rows

    def _make_room(self, count: int, dim: int) -> None:
        """Grow both arrays to hold `count` rows."""
        if not self._ids:
            self._matrix = np.empty((0, dim), np.float32)
        self._matrix = reserve(self._matrix, max(count, self._room))
        self._columns = reserve(self._columns, max(count, self._room), axis=1)

    def _artifact(self, row: int) -> str:
        return self._groups.names[int(self._columns[0, row])]

    def _locate(self, ids: Iterable[str]) -> tuple[Rows, NDArray[np.bool_]]:
        rows = np.array([self._row_of.get(record_id, -1) for record_id in ids], np.int64)
        return rows, rows >= 0

    def _of_kinds(self, rows: Rows | slice, surfaces: Sequence[str] | None) -> NDArray[np.bool_]:
        kinds = self._columns[1, rows]
        if surfaces is None:
            return np.ones(len(kinds), np.bool_)
        wanted = {self._kinds[kind] for kind in surfaces if kind in self._kinds}
        return np.isin(kinds, list(wanted))

    def _find_candidates(self, allowed: Rows | None, surfaces: Sequence[str] | None) -> Rows | None:
        """Return the rows that may be found, ascending; `None` for all of them."""
        if allowed is None and surfaces is None:
            return None
        live = slice(0, len(self))
        wanted = self._of_kinds(live, surfaces)
        return np.flatnonzero(wanted if allowed is None else wanted & np.isin(self._columns[3, live], allowed))

    def _score_roughly(self, queries: Floats, rows: Rows | None) -> Iterator[Floats]:
        """Score all candidates for each query, one matrix product for as many queries as fit in memory."""
        live = self._matrix[: len(self)]
        gathered = rows is not None and len(rows) * _GATHER < len(live)
        matrix = live[rows] if gathered else live
        step = max(1, _CELLS // len(matrix))
        for start in range(0, len(queries), step):
            for scores in queries[start : start + step] @ matrix.T:
                yield scores if rows is None or gathered else scores[rows]

    def _rank(self, query: Floats, rough: Floats, rows: Rows | None, k: int, *, per_artifact: bool) -> Ranking:
        # Rough and exact scores are each within dim * 2**-24 * |row| * |query| of the true one; two scores change
        # their order only when they are within four times that.
        margin = 4 * len(query) * 2.0**-24 * self._longest * float(np.linalg.norm(query))
        near = np.flatnonzero(rough >= self._find_cut(rough, rows, k, per_artifact=per_artifact) - margin)
        near = near if rows is None else rows[near]
        exact = self._score_exactly(query, near)
        if per_artifact:
            firsts = self._first_of_each(near, exact)
            near, exact = near[firsts], exact[firsts]
        order = best_first(exact, k, lambda at: (self._artifact(near[at]), self._columns[2, near[at]]))
        chosen = near[order].tolist()
        return Ranking(
            [self._ids[row] for row in chosen],
            [self._artifact(row) for row in chosen],
            exact[order].astype(np.float64),
        )

    def _find_cut(self, rough: Floats, rows: Rows | None, k: int, *, per_artifact: bool) -> float:
        """Return the `k`-th highest score, of records or of artifacts."""
        if per_artifact:
            best = np.full(len(self._groups.names), -np.inf, np.float32)
            np.maximum.at(best, self._columns[0, : len(self)] if rows is None else self._columns[0, rows], rough)
            rough = best[best > -np.inf]
        place = len(rough) - k
        return float(np.partition(rough, place)[place]) if place > 0 else -np.inf

    def _score_exactly(self, query: Floats, rows: Rows) -> Floats:
        """Score rows one at a time, so that no score depends on its neighbours."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            scores[block] = exact_scores(self._matrix[rows[block]], query)
        return scores

    def _first_of_each(self, rows: Rows, scores: Floats) -> NDArray[np.intp]:
        """Return the position of each artifact's best row; ties go to the lower surface index."""
        codes = self._columns[0, rows]
        order = np.lexsort((self._columns[2, rows], -scores, codes))
        starts = np.ones(len(order), np.bool_)
        starts[1:] = np.diff(codes[order]) != 0
        return order[starts]


class _Groups:
    """The records of each artifact, and a small number for each artifact; numbers are used again."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}
        self._members: list[set[str]] = []
        self._free: list[int] = []

    def add(self, name: str, member: str) -> int:
        code = self._codes.get(name)
        if code is None:
            code = self._codes[name] = self._new(name)
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

    def _new(self, name: str) -> int:
        if self._free:
            code = self._free.pop()
            self.names[code] = name
            return code
        self.names.append(name)
        self._members.append(set())
        return len(self.names) - 1
