"""The vectors of records with their columns, in rows that never move or change."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, repeat
from threading import Lock
from typing import NamedTuple, Self, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw.errors import StoreError

Rows: TypeAlias = NDArray[np.int64]  # positions in the matrix

CODE, KIND, INDEX, NUMBER = range(4)  # columns: artifact code, surface kind, surface index, number of the record
_MIN_DEAD = 1024  # removed rows that are kept at least, before the others are copied together


class FirstRows(NamedTuple):
    """Rows that an index begins with.

    Args:
        matrix: `(n, dim) float32`, the vectors; perhaps a part of a mapped file.
        columns: `(4, n) int64`; codes and kinds are positions in the next lists, and numbers are ascending.
        ids: The id of each record, without duplicates.
        names: The artifacts.
        kinds: The surface kinds.
        max_norm: The length of the longest vector, at least one.
    """

    matrix: Floats = np.empty((0, 0), np.float32)
    columns: NDArray[np.int64] = np.empty((4, 0), np.int64)
    ids: Sequence[str] = ()
    names: Sequence[str] = ()
    kinds: Sequence[str] = ()
    max_norm: float = 1.0


class VectorRows:
    """The vectors and columns of records.

    Rows are only added: a removed row is marked as dead, and no row ever moves or changes. So a `freeze` costs nothing.
    When half of the added rows are dead, the others are copied to new arrays.

    Callers must not write while others read or write the same rows. They may read frozen ones at any time, in several
    threads.

    Args:
        room: The number of rows to allocate at the start, so that adding rows copies nothing.
        first: The first rows.
    """

    def __init__(self, room: int = 0, first: FirstRows | None = None) -> None:
        self._room = room
        self._begin(FirstRows() if first is None else first)

    def _begin(self, first: FirstRows) -> None:
        self._first, self._table = first, _Table(first)
        self._start = self._count = self._live_count = len(first.ids)  # the first added row, all rows, live rows
        self._dead_count = 0  # of the added rows
        self._dead: NDArray[np.bool_] = np.zeros(self._count, np.bool_)  # never changed, but replaced
        self._kinds = {kind: code for code, kind in enumerate(first.kinds)}
        self._max_norm = first.max_norm

    def __len__(self) -> int:
        """Return the number of rows that were not removed."""
        return self._live_count

    @property
    def dim(self) -> int | None:
        """Return the width of the vectors; `None` if there are none."""
        return int(self._table.matrices[not self._start].shape[1]) if self._live_count else None

    def freeze(self) -> Self:
        """Return these rows as they are now; later changes do not show in them."""
        frozen = object.__new__(type(self))  # `copy` takes five times as long
        frozen.__dict__.update(self.__dict__)
        return frozen

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
        codes = [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds]
        self._table.add(ids, artifact_ids, [codes, indexes, numbers], vectors, room=self._room)
        self._max_norm = max(self._max_norm, find_max_norm(vectors))
        self._count += count
        self._live_count += count
        self._dead = reserve(self._dead, self._count)

    def drop(self, ids: Sequence[str]) -> None:
        """Remove the rows of these records; unknown ids are ignored."""
        rows = self._locate(ids)
        self._drop_rows(np.unique(rows[rows >= 0]))

    def _drop_rows(self, rows: Rows) -> None:
        if not len(rows):
            return
        # A copy, as frozen indexes use the present one.
        self._dead = self._dead.copy()
        self._dead[rows] = True
        self._live_count -= len(rows)
        self._dead_count += int(np.count_nonzero(rows >= self._start))
        if not self._live_count:  # an empty index accepts any width
            self._begin(FirstRows())
        elif self._dead_count > max(_MIN_DEAD, (self._count - self._start) // 2):
            self._copy_live_rows()

    def _copy_live_rows(self) -> None:
        """Copy the added rows that are not dead to new arrays."""
        table, dead, kinds = self._table, self._dead[: self._start], [*self._kinds]
        rows = (~self._dead[: self._count]).nonzero()[0]
        rows = rows[rows >= self._start]
        vectors = self._take(rows)
        codes, kind_codes, indexes, numbers = table.columns[:, rows].tolist()
        self._begin(self._first)
        self._dead = dead
        self._live_count -= int(np.count_nonzero(dead))
        self.put(
            [table.ids[row] for row in rows.tolist()],
            numbers,
            [table.names[code] for code in codes],
            [kinds[code] for code in kind_codes],
            indexes,
            vectors=vectors,
        )

    def has_few(self, artifact_ids: Sequence[str], most: int) -> bool:
        """Return whether these artifacts have at most this number of rows."""
        # Count before rows are listed: one artifact may have very many.
        rows = sum(map(len, map(self._table.places.of_artifact.get, artifact_ids, repeat(()))))
        return len(artifact_ids) <= most and rows <= most

    def _rows_of(self, artifact_ids: Sequence[str]) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows of these artifacts, and for each the position of its artifact."""
        # A frozen index does not see the rows that were added since.
        # Copies, as another thread may add a row of one of them between the two looks at their lengths.
        stored = [*map(tuple, map(self._table.places.of_artifact.get, artifact_ids, repeat(())))]
        counts = np.fromiter(map(len, stored), np.intp, len(stored))
        rows = np.fromiter(chain.from_iterable(stored), np.int64, int(counts.sum()))
        is_live = rows < self._count
        is_live[is_live] = ~self._dead[rows[is_live]]
        return rows[is_live], np.repeat(np.arange(len(stored)), counts)[is_live]

    def _locate(self, ids: Sequence[str]) -> Rows:
        """Return the row of each record; -1 for an unknown one."""
        places, rows = self._table.places, list[int]()
        for record_id in ids:
            row = places.of_record.get(record_id, -1)
            # A frozen index looks for the newest row that it had then.
            while row >= 0 and (row >= self._count or self._dead[row]):
                row = places.earlier.get(row, -1)
            rows.append(row)
        return np.array(rows, np.int64)

    def _take(self, rows: Rows) -> Floats:
        """Return copies of the vectors of rows."""
        if not len(rows):  # without live rows, the arrays may have another width, or rows that were added since
            return np.empty((0, self.dim or 0), np.float32)
        base, added = self._table.matrices
        if not self._start:
            return added[rows]
        if self._start == self._count:
            return base[rows]
        is_base = rows < self._start
        vectors = np.empty((len(rows), base.shape[1]), np.float32)
        vectors[is_base] = base[rows[is_base]]
        vectors[~is_base] = added[rows[~is_base] - self._start]
        return vectors

    def _column(self, column: int, rows: Rows | slice = slice(None)) -> NDArray[np.int64]:
        """Return one value per row, of one column."""
        values: NDArray[np.int64] = self._table.columns[column, : self._count][rows]
        return values

    def _matrices(self, first: int = 0) -> list[Floats]:
        """Return the vectors of all rows from the first one on, in at most two parts."""
        base, added = self._table.matrices
        parts = [base[first:], added[max(0, first - self._start) : self._count - self._start]]
        return [part for part in parts if len(part)]


def find_max_norm(vectors: Floats) -> float:
    """Return the length of the longest vector."""
    return float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max()))


class _Table:
    """Rows in growing arrays; nothing that was added ever changes.

    Args:
        first: The first rows.
    """

    def __init__(self, first: FirstRows) -> None:
        self.matrices = first.matrix, first.matrix[:0]
        self.columns = first.columns
        self.ids, self.names = [*first.ids], [*first.names]
        self._lock = Lock()

    @property
    def places(self) -> "_Places":
        """Return where to find rows; a search needs none of this."""
        with self._lock:  # as several threads may ask first
            return self._places

    @cached_property
    def _places(self) -> "_Places":
        return _Places(self.ids, self.names, self.columns[CODE, : len(self.ids)])

    def add(
        self,
        ids: Sequence[str],
        artifact_ids: Sequence[str],
        columns: Sequence[Sequence[int]],
        vectors: Floats,
        *,
        room: int,
    ) -> None:
        """Add rows after all others, with their columns but for the codes."""
        places = self.places
        base, added = self.matrices
        start, stop = len(self.ids), len(self.ids) + len(ids)
        added = reserve(
            added if start > len(base) else np.empty((0, vectors.shape[1]), np.float32), max(stop - len(base), room)
        )
        added[start - len(base) : stop - len(base)] = vectors
        self.matrices = base, added
        for name in artifact_ids:
            if places.codes.setdefault(name, len(self.names)) == len(self.names):
                self.names.append(name)
        self.columns = reserve(self.columns, max(stop, room), axis=1)
        self.columns[:, start:stop] = [[places.codes[name] for name in artifact_ids], *columns]
        self.ids.extend(ids)
        places.add(start, ids, artifact_ids)


class _Places:
    """Where the rows of records and artifacts are."""

    def __init__(self, ids: Sequence[str], names: Sequence[str], codes: NDArray[np.int64]) -> None:
        self.codes = {name: code for code, name in enumerate(names)}
        self.of_record: dict[str, int] = {}  # the newest row
        self.earlier: dict[int, int] = {}  # row -> the row that it replaced
        self.of_artifact: dict[str, list[int]] = {}
        self.add(0, ids, [names[code] for code in codes.tolist()])

    def add(self, start: int, ids: Sequence[str], artifact_ids: Sequence[str]) -> None:
        """Add rows after all others."""
        for place, (record_id, artifact_id) in enumerate(zip(ids, artifact_ids, strict=True), start):
            if record_id in self.of_record:
                self.earlier[place] = self.of_record[record_id]
            self.of_record[record_id] = place
            self.of_artifact.setdefault(artifact_id, []).append(place)
