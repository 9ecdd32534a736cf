"""Exact dense search over float32 matrices; synchronous, without I/O.

A matrix product computes all scores fast. But its last bits depend on the position of a row, and on the number of
queries in the product. So the product only selects a shortlist, with a margin for its rounding errors. The shortlist is
then scored again, one row at a time, so that equal vectors have equal scores at any position. Therefore rankings and
scores depend only on the stored records, never on the order in which they were added. A search takes about as long as
the product alone (`bench_dense`).
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.vectors import best_first, exact_scores
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch
from airw.protocols import ArtifactVectors
from airw.stores._indexes.vector_rows import CODE, INDEX, KIND, NUMBER, Rows, VectorRows
from airw.values import Ranking

_GATHER_COST = 8  # time to copy and score a row by itself, as a multiple of the time to multiply it in place
_BLOCK = 4096  # rows that are scored again at a time
_MAX_SCORES = 1 << 24  # scores in memory at a time: 64 MB
_LEAST = float(np.finfo(np.float32).min)
_QUICK_PRODUCT, _QUICK_ROWS = 6_000_000, 256  # multiplications, and rows to rank, in less than a millisecond
_SPARE = 8  # factor by which more records are looked at while they are of too few artifacts
_FOLD = 16  # rows that share a place when the lowest score of a shortlist is sought
_PRODUCT_ROWS = 4096  # rows of a product with several queries


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


class DenseIndex(VectorRows):
    """The vectors of all records of a store, with exact search by dot product.

    Its methods answer `Rank`, `Vectors` and `VectorsOf`.

    Args:
        room: The number of rows to allocate at the start, so that filling the index copies nothing.
        base: The first rows, which may be parts of a mapped file.

    Example:
        >>> index = DenseIndex()
        >>> index.put(["r1", "r2"], [1, 2], ["a", "b"], ["chunk", "chunk"], [0, 0], vectors=np.eye(2, dtype=np.float32))
        >>> index.search(np.array([[1.0, 0.0]], np.float32), 1)[0].artifact_ids
        ['a']
    """

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
        return self._search(queries, k, None, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    def rank_named(
        self,
        queries: Floats,
        k: int | None,
        *,
        artifacts: Sequence[Any] | None,
        records: Sequence[str] | None,
        allowed: NDArray[np.int64] | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        """Return the `k` best of these artifacts or records for each query; `None` for all."""
        rows = self._find_named(artifacts, records)
        k = len(rows) if k is None else k
        return self._search(queries, k, rows, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)

    def _search(
        self,
        queries: Floats,
        k: int,
        rows: Rows | None,
        *,
        allowed: NDArray[np.int64] | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> list[Ranking]:
        """Return the `k` best of these rows, `None` for all, for each query."""
        queries = check_queries(queries, self.dim)
        marks = ~self._dead[: self._count] if rows is None else np.ones(len(rows), np.bool_)
        which = slice(None) if rows is None else rows
        if surfaces is not None:
            marks &= self._match_kinds(which, surfaces)
        if allowed is not None:
            marks &= np.isin(self._column(NUMBER, which), allowed)
        count = int(np.count_nonzero(marks))
        if k < 1 or not count or not len(queries):
            return [Ranking([], [], np.empty(0, np.float64)) for _ in queries]
        shortlists: Iterable[Rows]
        if rows is not None:
            shortlists = repeat(rows[marks])
        elif count * _GATHER_COST < self._count:  # few rows are ranked as they are
            shortlists = repeat(marks.nonzero()[0])
        else:
            shortlists = self._find_shortlists(queries, k, None if count == self._count else marks, per_artifact)
        return self._rank(queries, shortlists, k, per_artifact=per_artifact)

    def number(
        self, artifacts: Sequence[Any] | None, records: Sequence[str] | None, allowed: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Return the `allowed` numbers of these artifacts' records, or of these records, sorted."""
        numbers = np.sort(self._column(NUMBER, self._find_named(artifacts, records)))
        return numbers if allowed is None else numbers[np.isin(numbers, allowed)]

    def _find_named(self, artifacts: Sequence[Any] | None, records: Sequence[str] | None) -> Rows:
        """Return the rows of artifacts, or of records, or of records of artifacts."""
        if records is None:
            return np.unique(self._rows_of(artifacts or ())[0])
        rows = np.unique(self._locate(records))
        rows = rows[rows >= 0]
        return rows if artifacts is None else np.intersect1d(rows, self._rows_of(artifacts)[0])

    def search_if_quick(self, queries: Floats, k: int, *, per_artifact: bool = False) -> list[Ranking] | None:
        """Return what `search` returns; `None` if it may take more than about a millisecond."""
        if k < 1 or not 0 < len(queries) * self._count * (self.dim or 0) <= _QUICK_PRODUCT:
            return None
        queries, dead = check_queries(queries, self.dim), self._dead[: self._count]
        shortlists = [*self._find_shortlists(queries, k, ~dead if dead.any() else None, per_artifact)]
        # Many rows may have nearly the same score.
        if sum(map(len, shortlists)) > _QUICK_ROWS:
            return None
        return self._rank(queries, shortlists, k, per_artifact=per_artifact)

    def vectors(self, ids: Sequence[str]) -> Floats:
        """Return the vector of each record; a row of NaN for an unknown record."""
        rows = self._locate(ids)
        vectors = np.full((len(ids), self.dim or 0), np.nan, np.float32)
        vectors[rows >= 0] = self._take(rows[rows >= 0])
        return vectors

    def vectors_of(self, artifact_ids: Sequence[str]) -> ArtifactVectors:
        """Return the record ids of each artifact, ordered by number, with all their vectors."""
        rows, owners = self._rows_of(artifact_ids)
        rows = rows[np.lexsort((self._column(NUMBER, rows), owners))]
        groups: list[list[str]] = [[] for _ in artifact_ids]
        for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
            groups[owner].append(self._table.ids[row])
        return ArtifactVectors(groups, self._take(rows))

    def _match_kinds(self, rows: Rows | slice, surfaces: Sequence[str]) -> NDArray[np.bool_]:
        kinds = [self._kinds[kind] for kind in surfaces if kind in self._kinds]
        return np.isin(self._column(KIND, rows), kinds)

    def _find_shortlists(
        self,
        queries: Floats,
        k: int,
        marks: NDArray[np.bool_] | None,
        per_artifact: bool,  # noqa: FBT001
    ) -> Iterator[Rows]:
        """Yield for each query the rows that can be among the best, ascending."""
        matrices, hidden = self._matrices(), None if marks is None else (~marks).nonzero()[0]
        # One product serves as many queries as their scores fit in memory.
        step = max(1, _MAX_SCORES // self._count)
        for start in range(0, len(queries), step):
            part = queries[start : start + step]
            for query, rough in zip(part, multiply(part, matrices), strict=True):
                if hidden is not None:
                    rough[hidden] = -np.inf
                depth, cut = k, find_cut(rough, k)
                # Most often, few of the best rows have the same artifact; else look at more rows.
                while per_artifact and cut > _LEAST:
                    if len({*self._column(CODE, (rough >= cut).nonzero()[0]).tolist()}) >= k:
                        break
                    depth *= _SPARE
                    cut = find_cut(rough, depth)
                # Without a cut, all rows are near, but the hidden ones.
                yield (rough >= np.float32(max(cut - self._find_margin(query), _LEAST))).nonzero()[0]

    def _find_margin(self, query: Floats) -> float:
        """Return how far apart the rough scores of two rows in the wrong order are at most.

        Rough and exact scores each differ from the true score by at most dim * 2**-24 * |row| * |query|. That makes
        four times as much for two rows, and the cut itself is rounded, too.
        """
        wide = query.astype(np.float64)  # the squares of float32 numbers may overflow
        return 5 * len(query) * 2.0**-24 * self._max_norm * math.sqrt(np.dot(wide, wide))

    def _rank(self, queries: Floats, shortlists: Iterable[Rows], k: int, *, per_artifact: bool) -> list[Ranking]:
        """Return the ranking of each query: the best of its shortlist."""
        rankings, ids, names = [], self._table.ids, self._table.names
        for query, shortlist in zip(queries, shortlists, strict=False):  # the same one may repeat
            rows, scores = shortlist, self._score_exactly(query, shortlist)
            # By artifact, then score, then surface index: the first row of an artifact is its best one.
            codes = self._column(CODE, rows)
            order = np.lexsort((self._column(INDEX, rows), -scores, codes))
            if per_artifact:
                order = order[np.diff(codes[order], prepend=-1) != 0]
            rows, scores = rows[order], scores[order]
            order = best_first(scores, k, partial(self._tie_keys, rows))
            artifact_ids = [names[code] for code in self._column(CODE, rows[order]).tolist()]
            values = scores[order].astype(np.float64)
            rankings.append(Ranking([ids[row] for row in rows[order].tolist()], artifact_ids, values))
        return rankings

    def _tie_keys(self, rows: Rows, places: NDArray[np.intp]) -> Iterable[str]:
        """Return the artifact of each row at some places.

        The rows of one artifact are in order already.
        """
        codes = self._column(CODE, rows[places])
        blocks = (codes[start : start + _BLOCK].tolist() for start in range(0, len(codes), _BLOCK))
        return map(self._table.names.__getitem__, chain.from_iterable(blocks))

    def _score_exactly(self, query: Floats, rows: Rows) -> Floats:
        """Return the exact scores of rows, each independent of the other rows."""
        blocks = [rows[start : start + _BLOCK] for start in range(0, len(rows), _BLOCK)] or [rows]
        return np.concatenate([exact_scores(self._take(block), query) for block in blocks])


def multiply(queries: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return the products of all queries with the rows of all matrices, `(m, n)`.

    BLAS copies an operand of a product to rearrange it. Here that is the one of the queries. Several queries are
    multiplied with a part of the rows at a time, so that their scores stay in the cache of the processor.
    """
    scores = np.empty((len(queries), sum(map(len, matrices))), np.float32)
    start = 0
    for matrix in matrices:
        step = len(matrix) if len(queries) == 1 else _PRODUCT_ROWS
        for first in range(0, len(matrix), step):
            block = matrix[first : first + step]
            scores[:, start : start + len(block)] = np.dot(block, queries.T).T
            start += len(block)
    return scores


def find_cut(rough: Floats, k: int) -> float:
    """Return a score that at least `k` rows have.

    It is minus infinity if there are too few rows. Among many rows, it is a little less than the `k`-th highest score:
    rows share places, and each place counts once, by its highest score.
    """
    places = len(rough) // _FOLD
    if places > 4 * k:
        rough = rough[: _FOLD * places].reshape(_FOLD, places).max(axis=0)
    place = len(rough) - k
    return -math.inf if place <= 0 else float(np.partition(rough, place)[place])
