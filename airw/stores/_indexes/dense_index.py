"""Exact dense search over float32 matrices; synchronous, without I/O.

A matrix product computes all scores fast. But its last bits depend on the position of a row, and on the number of
queries in the product. So the product only selects a shortlist, with a margin for its rounding errors. The shortlist is
then scored again, one row at a time, so that equal vectors have equal scores at any position. Therefore rankings and
scores depend only on the stored records, never on the order in which they were added. A search takes about as long as
the product alone (`bench_dense`).
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.slices import iterate_slices
from airw._base.vectors import best_first, exact_scores
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch
from airw.protocols import ArtifactVectors
from airw.stores._indexes.vector_rows import CODE, INDEX, KIND, NUMBER, Rows, VectorRows
from airw.values import Ranking

_GATHER_COST = 8  # time to copy a row out of order, as a multiple of the time to multiply it in place
_BLOCK = 4096  # rows that are scored again at a time
_MAX_SCORES = 1 << 24  # scores in memory at a time: 64 MB
_LEAST = float(np.finfo(np.float32).min)
_QUICK_PRODUCT, _QUICK_ROWS = 6_000_000, 256  # multiplications, and rows to rank, in less than a millisecond
_SPARE = 8  # so many records for each artifact wanted are nearly always of enough artifacts
_FOLD = 16  # rows that share a place when the lowest score of a shortlist is sought
_SMALL = 400_000  # multiplications in a product for which BLAS copies no operand
_LEAST_ROWS = 128  # rows of such a product; for fewer, the calls take longer than the copies
_PRODUCT_ROWS = 4096  # rows of larger products, whose scores stay in the cache of the processor


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
        queries = check_queries(queries, self.dim)
        rows = self._find_candidates(allowed, surfaces)
        if k < 1 or not len(self) or not len(queries) or (rows is not None and not len(rows)):
            return [Ranking([], [], np.empty(0, np.float64)) for _ in queries]
        shortlists = [*self._find_shortlists(queries, rows, k, per_artifact=per_artifact)]
        return self._rank(queries, shortlists, k, per_artifact=per_artifact)

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
        queries = check_queries(queries, self.dim)
        rows = self._find_named(artifacts, records)
        if surfaces is not None:
            rows = rows[self._match_kinds(rows, surfaces)]
        if allowed is not None:
            rows = rows[np.isin(self._column(NUMBER, rows), allowed)]
        k = len(rows) if k is None else k
        if k < 1 or not len(rows) or not len(queries):
            return [Ranking([], [], np.empty(0, np.float64)) for _ in queries]
        return self._rank(queries, [rows] * len(queries), k, per_artifact=per_artifact)

    def number(
        self, artifacts: Sequence[Any] | None, records: Sequence[str] | None, allowed: NDArray[np.int64] | None
    ) -> NDArray[np.int64]:
        """Return the `allowed` numbers of these artifacts' records, or of these records, sorted."""
        numbers = np.sort(self._column(NUMBER, self._find_named(artifacts, records)))
        return numbers if allowed is None else numbers[np.isin(numbers, allowed)]

    def _find_named(self, artifacts: Sequence[Any] | None, records: Sequence[str] | None) -> Rows:
        """Return the rows of artifacts, or of records, or of records of artifacts."""
        if records is None:
            return self._rows_of([*dict.fromkeys(artifacts or ())])[0]
        rows = np.unique(self._locate(records))
        rows = rows[rows >= 0]
        return rows if artifacts is None else np.intersect1d(rows, self._rows_of(artifacts)[0])

    def is_quick(self, count: int) -> bool:
        """Return whether `count` queries may take less than about a millisecond."""
        return 0 < count * self._count * (self.dim or 0) <= _QUICK_PRODUCT

    def search_if_quick(self, queries: Floats, k: int, *, per_artifact: bool = False) -> list[Ranking] | None:
        """Return what `search` returns; `None` if it may take more than about a millisecond."""
        if k < 1 or not len(self) or not self.is_quick(len(queries)):
            return None
        queries = check_queries(queries, self.dim)
        shortlists = [*self._find_shortlists(queries, None, k, per_artifact=per_artifact)]
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
        distinct_ids = [*dict.fromkeys(artifact_ids)]
        rows, owners = self._rows_of(distinct_ids)
        if not (owners[1:] > owners[:-1]).all():
            rows = rows[np.lexsort((self._column(NUMBER, rows), owners))]
        groups: list[list[str]] = [[] for _ in distinct_ids]
        for owner, row in zip(owners.tolist(), rows.tolist(), strict=True):
            groups[owner].append(self._table.ids[row])
        if len(distinct_ids) == len(artifact_ids):
            return ArtifactVectors(groups, self._take(rows))
        bounds = np.searchsorted(owners, np.arange(len(distinct_ids) + 1)).tolist()
        place_of = {name: place for place, name in enumerate(distinct_ids)}
        places = [place_of[name] for name in artifact_ids]
        repeated = np.concatenate([rows[:0], *(rows[bounds[place] : bounds[place + 1]] for place in places)])
        return ArtifactVectors([[*groups[place]] for place in places], self._take(repeated))

    def _match_kinds(self, rows: Rows | slice, surfaces: Sequence[str]) -> NDArray[np.bool_]:
        kinds = [self._kinds[kind] for kind in surfaces if kind in self._kinds]
        return np.isin(self._column(KIND, rows), kinds)

    def _find_candidates(self, allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None) -> Rows | None:
        """Return the rows to rank, ascending; `None` for all rows."""
        if allowed is None and surfaces is None:
            return None
        mask = ~self._dead[: self._count]
        if surfaces is not None:
            mask &= self._match_kinds(slice(None), surfaces)
        if allowed is not None:
            mask &= np.isin(self._column(NUMBER), allowed)
        return np.flatnonzero(mask)

    def _score_roughly(self, queries: Floats, rows: Rows | None) -> Iterator[Floats]:
        """Yield the approximate scores of all candidates, `(m, n)` for the next `m` queries.

        Dead rows have minus infinity.
        """
        # A copy of the candidate rows pays only if they are few; else score all rows, and select the scores.
        count = self._count
        is_gathered = rows is not None and len(rows) * _GATHER_COST < count
        matrices = [self._take(rows)] if is_gathered and rows is not None else self._matrices()
        dead = None if is_gathered or len(self) == count else np.flatnonzero(self._dead[:count])
        # One product serves as many queries as their scores fit in memory, with a copy of them.
        step = max(1, _MAX_SCORES // (2 * sum(map(len, matrices))))
        for start in range(0, len(queries), step):
            scores = multiply(queries[start : start + step], matrices)
            if dead is not None:
                scores[:, dead] = -np.inf
            yield scores if is_gathered or rows is None else scores[:, rows]

    def _find_shortlists(self, queries: Floats, rows: Rows | None, k: int, *, per_artifact: bool) -> Iterator[Rows]:
        """Yield for each query the rows that can be among the best, ascending."""
        margins = np.array([self._find_margin(query) for query in queries])
        start = 0
        for rough in self._score_roughly(queries, rows):
            if per_artifact:
                cuts = np.array([self._find_artifact_cut(scores, rows, k) for scores in rough])
            else:
                cuts = find_cuts(rough, k)
            # Without a cut, all rows are near, but the dead ones.
            cuts = np.maximum(cuts - margins[start : start + len(rough)], _LEAST).astype(np.float32)
            near = np.flatnonzero(rough >= cuts[:, np.newaxis])
            count = rough.shape[1]
            bounds = np.searchsorted(near, count * np.arange(len(rough) + 1)).tolist()
            for number, (first, stop) in enumerate(pairwise(bounds)):
                places = near[first:stop] - number * count
                yield places if rows is None else rows[places]
            start += len(rough)

    def _find_margin(self, query: Floats) -> float:
        """Return how far apart the rough scores of two rows in the wrong order are at most.

        Rough and exact scores each differ from the true score by at most dim * 2**-24 * |row| * |query|. That makes
        four times as much for two rows, and the cut itself is rounded, too.
        """
        wide = query.astype(np.float64)  # the squares of float32 numbers may overflow
        return 5 * len(query) * 2.0**-24 * self._max_norm * math.sqrt(np.dot(wide, wide))

    def _find_artifact_cut(self, scores: Floats, rows: Rows | None, k: int) -> float:
        """Return a rough score that rows of at least `k` artifacts have."""

        def codes_of(places: Rows) -> NDArray[np.int64]:
            return self._column(CODE, places if rows is None else rows[places])

        # Most often, few of the best rows have the same artifact. Only else look at the artifacts of all rows.
        for depth in (k, _SPARE * k) if k <= _QUICK_ROWS else ():
            cut = float(find_cuts(scores[np.newaxis], depth)[0])
            if len({*codes_of((scores >= cut).nonzero()[0]).tolist()}) >= k:
                return cut
        return find_cut_per_code(scores, codes_of(np.arange(len(scores))), k)

    def _rank(self, queries: Floats, shortlists: Sequence[Rows], k: int, *, per_artifact: bool) -> list[Ranking]:
        """Return the ranking of each query: the best of its shortlist."""
        best_rows, best_scores = list[Rows](), list[NDArray[np.float64]]()
        for query, shortlist in zip(queries, shortlists, strict=True):
            rows, scores = shortlist, self._score_exactly(query, shortlist)
            best = self._find_best_rows(rows, scores) if per_artifact else None
            if best is not None:
                rows, scores = rows[best], scores[best]
            order = best_first(scores, k, partial(self._tie_key, rows))
            best_rows.append(rows[order])
            best_scores.append(scores[order].astype(np.float64))
        ids, names = self._names_of(np.concatenate(best_rows))
        bounds = pairwise(accumulate(map(len, best_rows), initial=0))
        return [
            Ranking(ids[start:stop], names[start:stop], scores)
            for (start, stop), scores in zip(bounds, best_scores, strict=True)
        ]

    def _names_of(self, rows: Rows) -> tuple[list[str], list[str]]:
        """Return the record and the artifact of each row."""
        ids, names = self._table.ids, self._table.names
        return (
            [ids[row] for part in iterate_slices(rows.tolist()) for row in part],
            [names[code] for part in iterate_slices(self._column(CODE, rows).tolist()) for code in part],
        )

    def _tie_key(self, rows: Rows, place: int) -> tuple[str, int]:
        row = rows[place : place + 1]
        return self._artifact_id(int(row[0])), int(self._column(INDEX, row)[0])

    def _score_exactly(self, query: Floats, rows: Rows) -> Floats:
        """Return the exact scores of rows, each independent of the other rows."""
        if 0 < len(rows) <= _BLOCK:
            return exact_scores(self._take(rows), query)
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            scores[block] = exact_scores(self._take(rows[block]), query)
        return scores

    def _find_best_rows(self, rows: Rows, scores: Floats) -> NDArray[np.intp] | None:
        """Return where the best row of each artifact is; `None` if each has only one row.

        Ties go to the lower surface index.
        """
        codes = self._column(CODE, rows)
        if len(rows) <= _QUICK_ROWS and len({*codes.tolist()}) == len(rows):
            return None
        # Sort by artifact, then score, then surface index, and take the first row of each artifact.
        order = np.lexsort((self._column(INDEX, rows), -scores, codes))
        starts = np.ones(len(order), np.bool_)
        starts[1:] = np.diff(codes[order]) != 0
        return order[starts]


def multiply(queries: Floats, matrices: Sequence[Floats]) -> Floats:
    """Return the products of all queries with the rows of all matrices, `(m, n)`.

    BLAS copies the operands of a large product to rearrange them. For one row per query that takes longer than the
    product itself (`bench_concurrency`). So few queries are multiplied in small products, and many from the other side:
    then the copied operand is that of the queries.
    """
    if len(queries) == 1 and len(matrices) == 1:
        scores = np.empty((1, len(matrices[0])), np.float32)
        np.dot(matrices[0], queries[0], out=scores[0])
        return scores
    scores = np.empty((len(queries), sum(map(len, matrices))), np.float32)
    small_rows = _SMALL // max(1, queries.size)
    rows, start = (small_rows if small_rows >= _LEAST_ROWS else _PRODUCT_ROWS), 0
    for matrix in matrices:
        for first in range(0, len(matrix), rows):
            block = matrix[first : first + rows]
            part = scores[:, start + first : start + first + len(block)]
            if rows == small_rows:
                np.matmul(queries, block.T, out=part)
            else:
                part[:] = (block @ queries.T).T
        start += len(matrix)
    return scores


def find_cuts(rough: Floats, k: int) -> Floats:
    """Return for each query a score that at least `k` rows have.

    It is minus infinity if there are too few rows. Among many rows, it is a little less than the `k`-th highest score:
    rows share places, and each place counts once, by its highest score.
    """
    places = rough.shape[1] // _FOLD
    if places > 4 * k:
        rough = rough[:, : _FOLD * places].reshape(len(rough), _FOLD, places).max(axis=1)
    place = rough.shape[1] - k
    if place <= 0:
        return np.full(len(rough), -np.inf, np.float32)
    return np.partition(rough, place, axis=1)[:, place]


def find_cut_per_code(scores: Floats, codes: NDArray[np.int64], k: int) -> float:
    """Return the `k`-th highest of the best scores of each code, or a little less."""
    best = np.full(int(codes.max()) + 1, -np.inf, np.float32)
    np.maximum.at(best, codes, scores)
    return float(find_cuts(best[best > -np.inf][np.newaxis], k)[0])
