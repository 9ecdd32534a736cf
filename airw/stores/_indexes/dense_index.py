"""Exact dense search over float32 matrices; synchronous, without I/O.

A matrix product computes all scores fast. But its last bits depend on the position of a row, and on the number of
queries in the product. So the product only selects a shortlist, with a margin for its rounding errors. The shortlist is
then scored again, one row at a time, so that equal vectors have equal scores at any position. Therefore rankings and
scores depend only on the stored records, never on the order in which they were added. A search takes about as long as
the product alone (`bench_dense`).
"""

from collections.abc import Iterator, Sequence
from copy import copy
from functools import partial
from itertools import accumulate, chain, pairwise, repeat
from typing import Self, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw._base.slices import iterate_slices
from airw._base.vectors import best_first, exact_scores
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, StoreError
from airw.protocols import ArtifactVectors, BestRecords
from airw.stores._indexes.fixed_rows import FixedRows
from airw.stores._indexes.rough_scores import find_cuts, find_cuts_per_code, multiply
from airw.values import Ranking

_Rows: TypeAlias = NDArray[np.int64]  # positions in the matrix

_GATHER_COST = 8  # time to copy a row out of order, as a multiple of the time to multiply it in place
_BLOCK = 4096  # rows that are scored again at a time
_MAX_SCORES = 1 << 24  # scores in memory at a time: 64 MB
_CODE, _KIND, _INDEX, _NUMBER = range(4)  # columns: artifact code, surface kind, surface index, number of the record
_LEAST = float(np.finfo(np.float32).min)
_QUICK_PRODUCT, _QUICK_ROWS = 1 << 22, 256  # multiplications, and rows to rank, in about half a millisecond
_MIN_DEAD = 1024  # removed rows that are kept at least, before the others are copied together


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

    Its search methods are those of `VectorSearch`. Rows are only added: a removed row is marked as dead, and no row
    ever moves or changes. So a `freeze` costs nothing. When half of the added rows are dead, the others are copied to
    new arrays.

    Callers must not write while others read or write the same index. They may read a frozen one at any time, in
    several threads.

    Args:
        room: The number of rows to allocate at the start, so that filling the index copies nothing.
        base: The first rows, which may be parts of a mapped file.

    Example:
        >>> index = DenseIndex()
        >>> index.put(["r1", "r2"], [1, 2], ["a", "b"], ["chunk", "chunk"], [0, 0], vectors=np.eye(2, dtype=np.float32))
        >>> index.search(np.array([[1.0, 0.0]], np.float32), 1)[0].artifact_ids
        ['a']
    """

    def __init__(self, room: int = 0, base: FixedRows | None = None) -> None:
        self._room = room
        self._begin(base)

    def _begin(self, base: FixedRows | None) -> None:
        self._base = base
        self._start = len(base) if base else 0  # the position of the first added row
        self._dead: NDArray[np.bool_] = base.dead if base else np.zeros(0, np.bool_)  # never changed, but replaced
        self._live_count = self._start - int(np.count_nonzero(self._dead))
        self._kinds = {kind: code for code, kind in enumerate(base.kind_names)} if base else {}
        self._max_norm = base.max_norm if base else 1.0
        self._forget_added()

    def _forget_added(self) -> None:
        self._added = _AddedRows()
        self._count = self._dead_count = 0  # of the added rows

    def __len__(self) -> int:
        """Return the number of rows that were not removed."""
        return self._live_count

    @property
    def dim(self) -> int | None:
        """Return the width of the vectors; `None` if there are none."""
        if not self._live_count:
            return None
        return int((self._base.matrix if self._base else self._added.matrix).shape[1])

    @property
    def is_based(self) -> bool:
        """Return whether the first rows are fixed ones."""
        return self._base is not None

    def freeze(self) -> Self:
        """Return this index as it is now; later changes do not show in it."""
        return copy(self)

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
        replaced_rows = self._locate(ids)
        replaced_rows = replaced_rows[replaced_rows >= 0]
        if len(self) > len(replaced_rows) and vectors.shape[1] != self.dim:
            raise StoreError(f"the vectors are {vectors.shape[1]} wide, but the stored ones are {self.dim} wide")
        self._drop_rows(replaced_rows)
        codes = self._assign_codes(artifact_ids)
        columns = [codes, [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds], indexes, numbers]
        self._added.add(ids, artifact_ids, np.array(columns, np.int64), vectors, room=self._room)
        self._max_norm = max(self._max_norm, float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max())))
        self._count += count
        self._live_count += count
        self._dead = reserve(self._dead, self._start + self._count)

    def drop(self, ids: Sequence[str]) -> None:
        """Remove the rows of these records; unknown ids are ignored."""
        rows = self._locate(ids)
        self._drop_rows(np.unique(rows[rows >= 0]))

    def _drop_rows(self, rows: _Rows) -> None:
        if not len(rows):
            return
        # A copy, as frozen indexes use the present one.
        self._dead = self._dead.copy()
        self._dead[rows] = True
        self._live_count -= len(rows)
        self._dead_count += int(np.count_nonzero(rows >= self._start))
        if not self._live_count:  # an empty index accepts any width
            self._begin(None)
        elif self._dead_count > max(_MIN_DEAD, self._count // 2):
            self._copy_live_rows()

    def _copy_live_rows(self) -> None:
        """Copy the added rows that are not dead to new arrays."""
        added, places = self._added, np.flatnonzero(~self._dead[self._start : self._start + self._count])
        ids = [added.ids[place] for place in places.tolist()]
        artifact_ids = [self._artifact_id(self._start + place) for place in places.tolist()]
        self._forget_added()
        self._dead = self._dead[: self._start]
        columns = added.columns[:, places]
        columns[_CODE] = self._assign_codes(artifact_ids)
        self._added.add(ids, artifact_ids, columns, added.matrix[places], room=self._room)
        self._count = len(ids)
        self._dead = reserve(self._dead, self._start + self._count)

    def _assign_codes(self, artifact_ids: Sequence[str]) -> list[int]:
        """Return the code of each artifact: its run in the base, or a later number."""
        if self._base is None:
            return [self._added.assign_code(name) for name in artifact_ids]
        runs = self._base.names.find(artifact_ids)
        first = len(self._base.names)
        return [
            run if run >= 0 else first + self._added.assign_code(name)
            for run, name in zip(runs, artifact_ids, strict=True)
        ]

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
        rankings: list[Ranking] = []
        for shortlists in _take_together(self._find_shortlists(queries, rows, k, per_artifact=per_artifact)):
            part = queries[len(rankings) : len(rankings) + len(shortlists)]
            rankings += self._rank(part, shortlists, k, per_artifact=per_artifact)
        return rankings

    def is_quick(self, count: int) -> bool:
        """Return whether `count` queries may take less than about a millisecond."""
        return 0 < count * (self._start + self._count) * (self.dim or 0) <= _QUICK_PRODUCT

    def search_if_quick(self, queries: Floats, k: int, *, per_artifact: bool = False) -> list[Ranking] | None:
        """Return what `search` returns; `None` if it takes more than about a millisecond."""
        if k < 1 or not self.is_quick(len(queries)):
            return None
        queries = check_queries(queries, self.dim)
        shortlists = [*self._find_shortlists(queries, None, k, per_artifact=per_artifact)]
        # Many rows are near if many records are equal: then their names have to be compared.
        if sum(map(len, shortlists)) > _QUICK_ROWS:
            return None
        return self._rank(queries, shortlists, k, per_artifact=per_artifact)

    def similarities(self, query: Floats, ids: Sequence[str]) -> Floats:
        """Return the cosine between the query and each record; NaN for an unknown record."""
        query = check_queries(query[None], self.dim)[0]
        rows = self._locate(ids)
        scores = np.full(len(ids), np.nan, np.float32)
        scores[rows >= 0] = self._score_exactly(query, rows[rows >= 0])
        return scores

    def best_of(self, query: Floats, artifact_ids: Sequence[str], surfaces: Sequence[str] | None = None) -> BestRecords:
        """Return the best record of each artifact; `None` and NaN for an artifact without records."""
        query = check_queries(query[None], self.dim)[0]
        distinct_ids = [*dict.fromkeys(artifact_ids)]
        rows, owners = self._rows_of(distinct_ids)
        if surfaces is not None:
            is_wanted = self._match_kinds(rows, surfaces)
            rows, owners = rows[is_wanted], owners[is_wanted]
        scores = self._score_exactly(query, rows)
        # Artifacts with one record each are common, and need no sorting.
        if not (owners[1:] > owners[:-1]).all():
            best_rows = self._find_best_rows(rows, owners, scores)
            rows, owners, scores = rows[best_rows], owners[best_rows], scores[best_rows]
        best_ids: list[str | None] = [None] * len(distinct_ids)
        best_scores = np.full(len(distinct_ids), np.nan, np.float32)
        best_scores[owners] = scores
        for owner, record_id in zip(owners.tolist(), self._record_ids(rows.tolist()), strict=True):
            best_ids[owner] = record_id
        if len(distinct_ids) == len(artifact_ids):
            return BestRecords(best_ids, best_scores)
        place_of = {name: place for place, name in enumerate(distinct_ids)}
        places = [place_of[name] for name in artifact_ids]
        return BestRecords([best_ids[place] for place in places], best_scores[places])

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
            rows = rows[np.lexsort((self._column(_NUMBER, rows), owners))]
        groups: list[list[str]] = [[] for _ in distinct_ids]
        for owner, record_id in zip(owners.tolist(), self._record_ids(rows.tolist()), strict=True):
            groups[owner].append(record_id)
        if len(distinct_ids) == len(artifact_ids):
            return ArtifactVectors(groups, self._take(rows))
        bounds = np.searchsorted(owners, np.arange(len(distinct_ids) + 1)).tolist()
        place_of = {name: place for place, name in enumerate(distinct_ids)}
        places = [place_of[name] for name in artifact_ids]
        repeated = np.concatenate([rows[:0], *(rows[bounds[place] : bounds[place + 1]] for place in places)])
        return ArtifactVectors([[*groups[place]] for place in places], self._take(repeated))

    def has_few(self, artifact_ids: Sequence[str], most: int) -> bool:
        """Return whether these artifacts have at most this number of rows."""
        return len(artifact_ids) <= most and len(self._rows_of(artifact_ids)[0]) <= most

    def _rows_of(self, artifact_ids: Sequence[str]) -> tuple[_Rows, NDArray[np.int64]]:
        """Return the rows of these artifacts, and for each the position of its artifact."""
        # A frozen index does not see the rows that were added since.
        added = [*map(self._added.places_of.get, artifact_ids, repeat(()))]
        counts = np.fromiter(map(len, added), np.intp, len(added))
        places = np.fromiter(chain.from_iterable(added), np.int64, int(counts.sum()))
        is_known = places < self._count
        rows, owners = self._start + places[is_known], np.repeat(np.arange(len(added)), counts)[is_known]
        if self._base is not None:
            base_rows, base_owners = self._base.rows_of(artifact_ids)
            # The rows of an artifact stand together, those of the base first.
            order = np.argsort(np.concatenate([base_owners, owners]), kind="stable")
            rows, owners = np.concatenate([base_rows, rows])[order], np.concatenate([base_owners, owners])[order]
        is_live = ~self._dead[rows]
        return rows[is_live], owners[is_live]

    def _record_ids(self, rows: Sequence[int]) -> list[str]:
        return self._base.ids.take_with(self._added.ids, rows) if self._base else [self._added.ids[row] for row in rows]

    def _artifact_id(self, row: int) -> str:
        if self._base is None:
            return self._added.names[int(self._added.columns[_CODE, row])]
        is_base = row < self._start
        code = int(self._base.runs[row] if is_base else self._added.columns[_CODE, row - self._start])
        first = len(self._base.names)
        return self._base.names[code] if code < first else self._added.names[code - first]

    def _artifact_ids(self, rows: Sequence[int]) -> list[str]:
        codes: list[int] = self._column(_CODE, np.array(rows, np.int64)).tolist()
        names = self._added.names
        return self._base.names.take_with(names, codes) if self._base else [names[code] for code in codes]

    def _locate(self, ids: Sequence[str]) -> _Rows:
        """Return the row of each record; -1 for an unknown one."""
        rows = [self._find_added(record_id) for record_id in ids]
        if self._base is not None:
            missing = [position for position, row in enumerate(rows) if row < 0]
            found = self._base.ids.find([ids[position] for position in missing])
            for position, row in zip(missing, found, strict=True):
                rows[position] = row if row >= 0 and not self._dead[row] else -1
        return np.array(rows, np.int64)

    def _find_added(self, record_id: str) -> int:
        # A frozen index looks for the newest row that it had then.
        place = self._added.place_of.get(record_id, -1)
        while place >= 0 and (place >= self._count or self._dead[self._start + place]):
            place = self._added.earlier.get(place, -1)
        return self._start + place if place >= 0 else -1

    def _take(self, rows: _Rows) -> Floats:
        """Return copies of the vectors of rows."""
        if not len(rows):  # without live rows, the arrays may have another width, or rows that were added since
            return np.empty((0, self.dim or 0), np.float32)
        if self._base is None:
            return self._added.matrix[rows]
        if not self._count:
            return self._base.matrix[rows]
        is_base = rows < self._start
        vectors = np.empty((len(rows), self._base.matrix.shape[1]), np.float32)
        vectors[is_base] = self._base.matrix[rows[is_base]]
        if not is_base.all():
            vectors[~is_base] = self._added.matrix[rows[~is_base] - self._start]
        return vectors

    def _column(self, column: int, rows: _Rows) -> NDArray[np.int64]:
        """Return one value per row, of one column."""
        if self._base is None:
            values: NDArray[np.int64] = self._added.columns[column, rows]
            return values
        base = (self._base.runs, self._base.kinds, self._base.indexes, self._base.numbers)[column]
        is_base = rows < self._start
        values = np.empty(len(rows), np.int64)
        values[is_base] = base[rows[is_base]]
        values[~is_base] = self._added.columns[column, rows[~is_base] - self._start]
        return values

    def _whole_column(self, column: int) -> NDArray[np.int64]:
        """Return one value per row, of all rows."""
        added = self._added.columns[column, : self._count]
        if self._base is None:
            return added
        base = (self._base.runs, self._base.kinds, self._base.indexes, self._base.numbers)[column]
        return np.concatenate([base, added])

    def _match_kinds(self, rows: _Rows | None, surfaces: Sequence[str] | None) -> NDArray[np.bool_]:
        if surfaces is None:
            return np.ones(self._start + self._count if rows is None else len(rows), np.bool_)
        kinds = self._whole_column(_KIND) if rows is None else self._column(_KIND, rows)
        return np.isin(kinds, [self._kinds[kind] for kind in surfaces if kind in self._kinds])

    def _find_candidates(self, allowed: NDArray[np.int64] | None, surfaces: Sequence[str] | None) -> _Rows | None:
        """Return the rows to rank, ascending; `None` for all rows."""
        if allowed is None and surfaces is None:
            return None
        mask = self._match_kinds(None, surfaces)
        if allowed is not None:
            mask &= np.isin(self._whole_column(_NUMBER), allowed)
        return np.flatnonzero(mask & ~self._dead[: len(mask)])

    def _score_roughly(self, queries: Floats, rows: _Rows | None) -> Iterator[Floats]:
        """Yield the approximate scores of all candidates, `(m, n)` for the next `m` queries.

        Dead rows have minus infinity.
        """
        # A copy of the candidate rows pays only if they are few; else score all rows, and select the scores.
        count = self._start + self._count
        is_gathered = rows is not None and len(rows) * _GATHER_COST < count
        matrices = [self._take(rows)] if is_gathered and rows is not None else self._matrices()
        count = sum(map(len, matrices))
        dead = np.flatnonzero(self._dead[: 0 if is_gathered or len(self) == count else count])
        # One product serves as many queries as their scores fit in memory, with a copy of them.
        selected = None if is_gathered else rows
        step = max(1, _MAX_SCORES // (2 * count))
        for start in range(0, len(queries), step):
            scores = multiply(queries[start : start + step], matrices)
            if len(dead):
                scores[:, dead] = -np.inf
            yield scores if selected is None else scores[:, selected]

    def _matrices(self) -> list[Floats]:
        """Return the vectors of all rows, in one or two parts."""
        added = self._added.matrix[: self._count]
        if self._base is None:
            return [added]
        return [self._base.matrix, added] if self._count else [self._base.matrix]

    def _find_shortlists(self, queries: Floats, rows: _Rows | None, k: int, *, per_artifact: bool) -> Iterator[_Rows]:
        """Yield for each query the rows that can be among the best, ascending."""
        codes = None
        if per_artifact:
            codes = self._whole_column(_CODE) if rows is None else self._column(_CODE, rows)
        # Rough and exact scores each differ from the true score by at most dim * 2**-24 * |row| * |query|. So two
        # scores can change their order only if their rough scores differ by at most four times that.
        lengths = np.sqrt(np.einsum("ij,ij->i", queries, queries, dtype=np.float64))
        margins = 4 * queries.shape[1] * 2.0**-24 * self._max_norm * lengths
        start = 0
        for rough in self._score_roughly(queries, rows):
            cuts = find_cuts(rough, k) if codes is None else find_cuts_per_code(rough, codes, k)
            # Without a cut, all rows are near, but the dead ones.
            cuts = np.maximum(cuts - margins[start : start + len(rough)], _LEAST).astype(np.float64)
            for scores, cut in zip(rough, cuts.tolist(), strict=True):
                near = np.flatnonzero(scores >= cut)
                yield near if rows is None else rows[near]
            start += len(rough)

    def _rank(self, queries: Floats, shortlists: Sequence[_Rows], k: int, *, per_artifact: bool) -> list[Ranking]:
        """Return the ranking of each query: the best of its shortlist."""
        rows = np.concatenate(shortlists)
        # Score the shortlists again, one row at a time, and rank them by these scores.
        exact = self._score_shortlists(queries, rows, shortlists)
        owners = np.repeat(np.arange(len(shortlists)), [*map(len, shortlists)])
        if per_artifact:
            codes = self._column(_CODE, rows)
            best_rows = self._find_best_rows(rows, codes + owners * (int(codes.max(initial=0)) + 1), exact)
            rows, exact, owners = rows[best_rows], exact[best_rows], owners[best_rows]
        bounds = np.searchsorted(owners, np.arange(len(shortlists) + 1)).tolist()
        orders = self._order(rows, exact, bounds, owners, k)
        order = np.concatenate(orders)
        ids, names = self._names_of(rows[order])
        scores = exact[order].astype(np.float64)
        ends = accumulate(map(len, orders), initial=0)
        return [Ranking(ids[start:stop], names[start:stop], scores[start:stop]) for start, stop in pairwise(ends)]

    def _order(self, rows: _Rows, exact: Floats, bounds: Sequence[int], owners: _Rows, k: int) -> list[_Rows]:
        """Return the positions of the `k` best rows of each query, best first."""
        order = np.lexsort((-exact, owners))
        ordered = exact[order]
        # Only queries with equal scores need the tie key.
        tied = set(owners[1:][(ordered[1:] == ordered[:-1]) & (owners[1:] == owners[:-1])].tolist())
        orders = []
        for number, (start, stop) in enumerate(pairwise(bounds)):
            if number in tied:
                tie_key = partial(self._tie_key, rows[start:stop])
                orders.append(start + best_first(exact[start:stop], k, tie_key))
            else:
                orders.append(order[start : min(start + k, stop)])
        return orders

    def _names_of(self, rows: _Rows) -> tuple[list[str], list[str]]:
        """Return the record and the artifact of each row."""
        parts = [*iterate_slices(rows.tolist())]
        return (
            [record_id for part in parts for record_id in self._record_ids(part)],
            [name for part in parts for name in self._artifact_ids(part)],
        )

    def _tie_key(self, rows: _Rows, place: int) -> tuple[str, int]:
        row = rows[place : place + 1]
        return self._artifact_id(int(row[0])), int(self._column(_INDEX, row)[0])

    def _score_shortlists(self, queries: Floats, rows: _Rows, shortlists: Sequence[_Rows]) -> Floats:
        """Return the exact scores of all rows, which are those of all shortlists."""
        if len(rows) > _BLOCK:
            parts = [self._score_exactly(query, part) for query, part in zip(queries, shortlists, strict=True)]
            return np.concatenate(parts)
        vectors, scores = self._take(rows), np.empty(len(rows), np.float32)
        bounds = accumulate(map(len, shortlists), initial=0)
        for query, (start, stop) in zip(queries, pairwise(bounds), strict=True):
            scores[start:stop] = exact_scores(vectors[start:stop], query)
        return scores

    def _score_exactly(self, query: Floats, rows: _Rows) -> Floats:
        """Return the exact scores of rows, each independent of the other rows."""
        scores = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), _BLOCK):
            block = slice(start, start + _BLOCK)
            scores[block] = exact_scores(self._take(rows[block]), query)
        return scores

    def _find_best_rows(self, rows: _Rows, codes: NDArray[np.int64], scores: Floats) -> NDArray[np.intp]:
        """Return the positions in `rows` of the best row of each artifact code.

        Ties go to the lower surface index.
        """
        # Sort by artifact, then score, then surface index, and take the first row of each artifact.
        order = np.lexsort((self._column(_INDEX, rows), -scores, codes))
        starts = np.ones(len(order), np.bool_)
        starts[1:] = np.diff(codes[order]) != 0
        return order[starts]


def _take_together(shortlists: Iterator[_Rows]) -> Iterator[list[_Rows]]:
    """Yield shortlists in groups, each with few rows, or of one shortlist."""
    group, count = list[_Rows](), 0
    for rows in shortlists:
        if group and count + len(rows) > _BLOCK:
            yield group
            group, count = [], 0
        group.append(rows)
        count += len(rows)
    if group:
        yield group


class _AddedRows:
    """Rows in growing arrays, and where to find them; nothing that was added ever changes."""

    def __init__(self) -> None:
        self.matrix: Floats = np.empty((0, 0), np.float32)
        self.columns: NDArray[np.int64] = np.empty((4, 0), np.int64)
        self.ids: list[str] = []
        self.names: list[str] = []  # of the artifacts, by their code here
        self.place_of: dict[str, int] = {}  # record -> its newest row
        self.earlier: dict[int, int] = {}  # row -> the row that it replaced
        self.places_of: dict[str, list[int]] = {}  # artifact -> its rows
        self._codes: dict[str, int] = {}

    def assign_code(self, artifact_id: str) -> int:
        """Return the code of an artifact here."""
        code = self._codes.setdefault(artifact_id, len(self.names))
        if code == len(self.names):
            self.names.append(artifact_id)
        return code

    def add(
        self, ids: Sequence[str], artifact_ids: Sequence[str], columns: NDArray[np.int64], vectors: Floats, *, room: int
    ) -> None:
        """Add rows after all others."""
        start = len(self.ids)
        stop = start + len(ids)
        if not start:
            self.matrix = np.empty((0, vectors.shape[1]), np.float32)
        self.matrix, self.columns = (
            reserve(self.matrix, max(stop, room)),
            reserve(self.columns, max(stop, room), axis=1),
        )
        self.matrix[start:stop], self.columns[:, start:stop] = vectors, columns
        self.ids.extend(ids)
        for place, (record_id, artifact_id) in enumerate(zip(ids, artifact_ids, strict=True), start):
            if record_id in self.place_of:
                self.earlier[place] = self.place_of[record_id]
            self.place_of[record_id] = place
            self.places_of.setdefault(artifact_id, []).append(place)
