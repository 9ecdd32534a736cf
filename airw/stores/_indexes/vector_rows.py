"""The vectors of records with their columns, in rows that never move or change."""

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Self, TypeAlias

import numpy as np

from airw._base.arrays import Floats, NDArray, reserve
from airw.errors import StoreError
from airw.stores._indexes.fixed_rows import FixedRows

Rows: TypeAlias = NDArray[np.int64]  # positions in the matrix

CODE, KIND, INDEX, NUMBER = range(4)  # columns: artifact code, surface kind, surface index, number of the record
_MIN_DEAD = 1024  # removed rows that are kept at least, before the others are copied together


class VectorRows:
    """The vectors and columns of records.

    Rows are only added: a removed row is marked as dead, and no row ever moves or changes. So a `freeze` costs nothing.
    When half of the added rows are dead, the others are copied to new arrays.

    Callers must not write while others read or write the same rows. They may read frozen ones at any time, in several
    threads.

    Args:
        room: The number of rows to allocate at the start, so that adding rows copies nothing.
        base: The first rows, which may be parts of a mapped file.
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

    def _drop_rows(self, rows: Rows) -> None:
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
        columns[CODE] = self._assign_codes(artifact_ids)
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

    def has_few(self, artifact_ids: Sequence[str], most: int) -> bool:
        """Return whether these artifacts have at most this number of rows."""
        # Count before rows are listed: one artifact may have very many.
        added = sum(map(len, map(self._added.places_of.get, artifact_ids, repeat(()))))
        return len(artifact_ids) <= most and added <= most and len(self._rows_of(artifact_ids)[0]) <= most

    def _rows_of(self, artifact_ids: Sequence[str]) -> tuple[Rows, NDArray[np.int64]]:
        """Return the rows of these artifacts, and for each the position of its artifact."""
        # A frozen index does not see the rows that were added since.
        # Copies, as another thread may add a row of one of them between the two looks at their lengths.
        added = [*map(tuple, map(self._added.places_of.get, artifact_ids, repeat(())))]
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
            return self._added.names[int(self._added.columns[CODE, row])]
        is_base = row < self._start
        code = int(self._base.runs[row] if is_base else self._added.columns[CODE, row - self._start])
        first = len(self._base.names)
        return self._base.names[code] if code < first else self._added.names[code - first]

    def _artifact_names(self, codes: Sequence[int]) -> list[str]:
        names = self._added.names
        return self._base.names.take_with(names, codes) if self._base else [names[code] for code in codes]

    def _locate(self, ids: Sequence[str]) -> Rows:
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

    def _take(self, rows: Rows) -> Floats:
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

    def _column(self, column: int, rows: Rows) -> NDArray[np.int64]:
        """Return one value per row, of one column."""
        if self._base is None:
            values: NDArray[np.int64] = self._added.columns[column, rows]
            return values
        base = (self._base.runs, self._base.kinds, self._base.indexes, self._base.numbers)[column]
        if not self._count:
            return base[rows].astype(np.int64, copy=False)
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

    def _matrices(self) -> list[Floats]:
        """Return the vectors of all rows, in one or two parts."""
        added = self._added.matrix[: self._count]
        if self._base is None:
            return [added]
        return [self._base.matrix, added] if self._count else [self._base.matrix]


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
