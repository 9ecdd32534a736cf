"""Approximate vector search in a large file, by HNSW segments."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.overriding import override
from airw.stores._indexes.dense_index import DenseIndex, check_queries
from airw.stores._indexes.rough_scores import multiply
from airw.stores.sqlite import _segments
from airw.stores.sqlite._segment_building import read_checksums
from airw.stores.sqlite._segments import SHORTLIST, Numbers, Segment
from airw.values import Ranking

if TYPE_CHECKING:
    import sqlite3

_MARGIN = 2  # candidates per result that must be left, as segments may miss rows near the end of their list
_GROWTH = 8  # factor by which there are more candidates if too few are left
_MAX_CANDIDATES = 1024  # beyond that, a product with all rows is as fast, and misses none
_ALLOWED_PER_CANDIDATE = 16  # allowed rows that are compared in the time in which a segment finds one candidate
_QUERIES = 16  # queries of one search in a segment, during which other threads wait
_QUICK_QUERIES, _QUICK_K = 2, 16  # queries, and results of each, that take less than about a millisecond
_QUICK_PRODUCT = 1 << 22  # multiplications with rows in no segment that take about half a millisecond
_CODE, _NUMBER = 0, 3  # columns of `DenseIndex`


class OpenSegments:
    """The open segments of a file; one user at a time.

    Args:
        folder: The folder of the segments.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments: tuple[Segment, ...] = ()
        self._state: object = None

    def update(self, connection: "sqlite3.Connection", dim: int | None) -> tuple[Segment, ...]:
        """Return the segments of this state of the file.

        Their ranges follow each other, from the first record on.

        Args:
            connection: A connection with a snapshot of the file.
            dim: The width of the vectors.
        """
        checksums = read_checksums(connection)
        # Nothing to do if neither the folder nor what the database knows has changed.
        modified = self._folder.stat().st_mtime_ns if self._folder.is_dir() else None
        if self._state != (modified, checksums, dim):
            self._segments = tuple(self._open(checksums, dim))
            self._state = (modified, checksums, dim)
        return self._segments

    def _open(self, checksums: dict[str, str], dim: int | None) -> Iterator[Segment]:
        present = {segment.file: segment for segment in self._segments}
        for file in _segments.find_chain(self._folder, checksums) if _segments.is_installed() else []:
            segment = present.get(file) or file.open(checksums[file.path.name])
            # What cannot be opened ends the chain: the rows from there on are compared.
            if segment is None or segment.dim != dim:
                return
            yield segment


class SegmentedIndex(DenseIndex):
    """The vectors of all records of a file, of which the first may be in HNSW segments.

    Candidates come from the segments, and from a product with the rows that are in none; they are nearly always the
    nearest rows. They are then filtered, and scored and ranked as by `DenseIndex`, so scores are exact. If too few are
    left, there are more candidates, and in the end all rows are compared. So results are exact for a filter that
    matches few rows, or none near the query. Without segments, all results are exact.
    """

    _segments: Sequence[Segment] = ()
    _base_rest = _added_rest = 0  # the first row of the base, and of the added rows, that is in no segment

    def use_segments(self, segments: Sequence[Segment]) -> None:
        """Look for candidates in these segments from now on."""
        self._segments = segments
        last = segments[-1].file.last if segments else 0
        # The numbers of rows are ascending.
        if self._base is not None:
            self._base_rest = int(np.searchsorted(self._base.numbers, last, "right"))
        self._added_rest = int(np.searchsorted(self._added.columns[_NUMBER, : self._count], last, "right"))

    @override
    def search(
        self,
        queries: Floats,
        k: int,
        *,
        allowed: Numbers | None = None,
        surfaces: Sequence[str] | None = None,
        per_artifact: bool = False,
    ) -> list[Ranking]:
        wanted = self._count_wanted(k, allowed)
        if not self._segments or not 0 < wanted <= _MAX_CANDIDATES:
            return super().search(queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)
        queries = check_queries(queries, self.dim)
        parts = [queries[start : start + _QUERIES] for start in range(0, len(queries), _QUERIES)]
        options: Any = {"allowed": allowed, "surfaces": surfaces, "per_artifact": per_artifact}
        return [ranking for part in parts for ranking in self._search_near(part, k, wanted, **options)]

    @override
    def is_quick(self, count: int) -> bool:
        if not self._segments:
            return super().is_quick(count)
        rest = self._start - self._base_rest + self._count - self._added_rest
        is_small = count <= _QUICK_QUERIES and count * rest * (self.dim or 0) <= _QUICK_PRODUCT
        return count > 0 and is_small and all(segment.is_quick for segment in self._segments)

    @override
    def search_if_quick(self, queries: Floats, k: int, *, per_artifact: bool = False) -> list[Ranking] | None:
        if not self._segments:
            return super().search_if_quick(queries, k, per_artifact=per_artifact)
        if not 0 < k <= _QUICK_K or not self.is_quick(len(queries)):
            return None
        queries = check_queries(queries, self.dim)
        shortlists = self._find_near(queries, self._count_wanted(k, None), None, None)
        if not all(self._is_enough(rows, k, per_artifact=per_artifact) for rows in shortlists):
            return None
        return self._rank(queries, shortlists, k, per_artifact=per_artifact)

    def _count_wanted(self, k: int, allowed: Numbers | None) -> int:
        """Return the number of candidates to begin with; 0 to compare all allowed rows."""
        if allowed is None:
            return SHORTLIST * k
        wanted = SHORTLIST * k * len(self) // max(len(allowed), 1)
        return wanted if len(allowed) > _ALLOWED_PER_CANDIDATE * wanted else 0

    def _search_near(
        self,
        queries: Floats,
        k: int,
        wanted: int,
        *,
        allowed: Numbers | None,
        surfaces: Sequence[str] | None,
        per_artifact: bool,
    ) -> list[Ranking]:
        """Return the rankings of candidates, at least so many for each query, or of all rows."""
        if wanted > _MAX_CANDIDATES:
            return super().search(queries, k, allowed=allowed, surfaces=surfaces, per_artifact=per_artifact)
        shortlists = self._find_near(queries, wanted, allowed, surfaces)
        is_enough = np.array([self._is_enough(rows, k, per_artifact=per_artifact) for rows in shortlists])
        complete = [rows for rows, is_complete in zip(shortlists, is_enough, strict=True) if is_complete]
        rankings = iter(self._rank(queries[is_enough], complete, k, per_artifact=per_artifact) if complete else [])
        if is_enough.all():
            return [*rankings]
        # Few of the nearest rows are left: begin with more of them.
        options: Any = {"allowed": allowed, "surfaces": surfaces, "per_artifact": per_artifact}
        others = iter(self._search_near(queries[~is_enough], k, wanted * _GROWTH, **options))
        return [next(rankings if is_complete else others) for is_complete in is_enough.tolist()]

    def _is_enough(self, rows: Numbers, k: int, *, per_artifact: bool) -> bool:
        count = len(rows)
        if per_artifact and count >= _MARGIN * k:
            count = len(np.unique(self._column(_CODE, rows)))
        return count >= _MARGIN * k

    def _find_near(
        self, queries: Floats, wanted: int, allowed: Numbers | None, surfaces: Sequence[str] | None
    ) -> list[Numbers]:
        """Return candidates for each query: of the nearest rows, those that are allowed."""
        numbers = np.concatenate([segment.find_nearest(queries, wanted) for segment in self._segments], axis=1)
        rows = np.concatenate([self._find_numbers(numbers), *self._compare_rest(queries, wanted)], axis=1)
        is_candidate = (rows >= 0) & ~self._dead[rows]
        if allowed is not None:
            is_candidate &= _find(allowed, self._column(_NUMBER, rows.ravel()))[1].reshape(rows.shape)
        if surfaces is not None:
            is_candidate &= self._match_kinds(rows.ravel(), surfaces).reshape(rows.shape)
        return [row[is_wanted] for row, is_wanted in zip(rows, is_candidate, strict=True)]

    def _find_numbers(self, numbers: Numbers) -> Numbers:
        """Return the rows of records in segments by their numbers; -1 for one that is not here."""
        rows = np.full(numbers.shape, -1)
        if self._base is not None and self._base_rest:
            places, is_found = _find(self._base.numbers, numbers)
            rows[is_found] = places[is_found]
        if self._added_rest:
            places, is_found = _find(self._added.columns[_NUMBER, : self._added_rest], numbers)
            rows[is_found] = places[is_found] + self._start
        return rows

    def _compare_rest(self, queries: Floats, wanted: int) -> Iterator[Numbers]:
        """Yield for each query the nearest of the rows that are in no segment."""
        base = self._base.matrix[self._base_rest :] if self._base is not None else self._added.matrix[:0]
        added = self._added.matrix[self._added_rest : self._count]
        for matrix, first in ((base, self._base_rest), (added, self._start + self._added_rest)):
            if len(matrix):
                scores = multiply(queries, [matrix])
                scores[:, self._dead[first : first + len(matrix)]] = -np.inf
                yield first + np.argpartition(-scores, min(wanted, len(matrix)) - 1)[:, :wanted]


def _find(ascending: Numbers, numbers: Numbers) -> tuple[Numbers, NDArray[np.bool_]]:
    """Return where each number is, and whether it is there."""
    places = np.minimum(np.searchsorted(ascending, numbers), len(ascending) - 1)
    return places, ascending[places] == numbers
