"""Rows of vectors that never change, with their columns, perhaps parts of a mapped file.

Ids and names are bytes in one block, as Python objects for each of them would take more memory than the columns. They
are found by a checksum of four bytes, and compared as a whole.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from zlib import crc32

import numpy as np

from airw._base.arrays import Floats, NDArray


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TextBlock:
    """Texts in one block of bytes.

    Args:
        data: `uint8`, the texts in UTF-8, one after the other.
        ends: `int64`, where each text ends.
        checksums: `uint32`, the checksums of the texts that can be found, ascending.
        order: `int32`, the positions of these texts.
    """

    data: NDArray[np.uint8]
    ends: NDArray[np.int64]
    checksums: NDArray[np.uint32]
    order: NDArray[np.int32]

    @classmethod
    def join(cls, parts: Iterable["TextBlock"]) -> "TextBlock":
        """Return the texts of all parts, in which none can be found yet."""
        parts = [*parts, cls.encode([])]
        shifts = accumulate((len(part.data) for part in parts), initial=0)
        ends = [part.ends + shift for part, shift in zip(parts, shifts, strict=False)]
        data = np.concatenate([part.data for part in parts])
        return cls(data, np.concatenate(ends), np.empty(0, np.uint32), np.empty(0, np.int32))

    @classmethod
    def encode(cls, texts: Iterable[str]) -> "TextBlock":
        """Return a block of these texts, in which none can be found yet."""
        parts = [text.encode() for text in texts]
        ends = np.fromiter(accumulate(map(len, parts)), np.int64, len(parts))
        return cls(np.frombuffer(b"".join(parts), np.uint8), ends, np.empty(0, np.uint32), np.empty(0, np.int32))

    def __len__(self) -> int:
        """Return the number of texts."""
        return len(self.ends)

    def __getitem__(self, position: int) -> str:
        """Return one text."""
        return self._bytes_of(position).decode()

    def take_with(self, more: Sequence[str], positions: Sequence[int]) -> list[str]:
        """Return the texts at these positions; `more` come after those of the block."""
        count, data = len(self), self.data.data
        own = [position for position in positions if position < count]
        starts, stops = self.ends[[position - 1 for position in own]].tolist(), self.ends[own].tolist()
        bounds = zip(own, starts, stops, strict=True)
        texts = [str(data[start if position else 0 : stop], "utf-8") for position, start, stop in bounds]
        if len(own) == len(positions):
            return texts
        remaining = iter(texts)
        return [next(remaining) if position < count else more[position - count] for position in positions]

    def index(self, positions: NDArray[np.int64]) -> "TextBlock":
        """Return the same texts, of which those at these positions can be found."""
        checksums = np.fromiter((crc32(self._bytes_of(each)) for each in positions.tolist()), np.uint32, len(positions))
        order = np.argsort(checksums, kind="stable")
        return TextBlock(self.data, self.ends, checksums[order], positions[order].astype(np.int32))

    def find(self, texts: Sequence[str]) -> Iterator[int]:
        """Yield the position of each text; -1 if it cannot be found."""
        encoded = [text.encode(errors="surrogatepass") for text in texts]
        checksums = np.fromiter(map(crc32, encoded), np.uint32, len(encoded))
        starts = np.searchsorted(self.checksums, checksums, "left").tolist()
        stops = np.searchsorted(self.checksums, checksums, "right").tolist()
        for text, start, stop in zip(encoded, starts, stops, strict=True):
            positions = self.order[start:stop].tolist()
            yield next((position for position in positions if self._bytes_of(position) == text), -1)

    def is_whole(self) -> bool:
        """Return whether all positions are inside the block."""
        ends, order = self.ends, self.order
        has_ends = not len(ends) or (ends[0] >= 0 and ends[-1] == len(self.data) and bool((np.diff(ends) >= 0).all()))
        has_order = not len(order) or (order.min() >= 0 and order.max() < len(self))
        return bool(has_ends and has_order and len(order) == len(self.checksums))

    def _bytes_of(self, position: int) -> bytes:
        return self.data[self.ends[position - 1] if position else 0 : self.ends[position]].tobytes()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class FixedRows:
    """The vectors and columns of rows, ordered by number.

    The records of an artifact are consecutive rows: a run. An artifact may have earlier runs, whose rows are all dead.

    Args:
        matrix: `(n, dim) float32`, the vectors.
        numbers: `int64`, the number of each record, ascending.
        runs: `int32`, the run of each row, ascending.
        starts: `int64`, the first row of each run, and the number of rows.
        kinds: `int32`, the position of each row's surface kind in `kind_names`.
        indexes: `int64`, the surface index of each row.
        dead: `bool`, the rows whose records were removed.
        ids: The record ids; those of live rows can be found.
        names: The artifact of each run; those of live runs can be found.
        kind_names: The surface kinds.
        max_norm: The length of the longest vector, at least one.
    """

    matrix: Floats
    numbers: NDArray[np.int64]
    runs: NDArray[np.int32]
    starts: NDArray[np.int64]
    kinds: NDArray[np.int32]
    indexes: NDArray[np.int64]
    dead: NDArray[np.bool_]
    ids: TextBlock
    names: TextBlock
    kind_names: Sequence[str]
    max_norm: float

    def __len__(self) -> int:
        """Return the number of rows, with the dead ones."""
        return len(self.numbers)

    def rows_of(self, artifact_ids: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the rows of artifacts, dead ones too, and the position of the artifact of each."""
        runs = np.fromiter(self.names.find(artifact_ids), np.int64, len(artifact_ids))
        found = np.flatnonzero(runs >= 0)
        starts = self.starts[runs[found]]
        counts = self.starts[runs[found] + 1] - starts
        before = np.cumsum(counts) - counts
        rows = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
        return rows, np.repeat(found, counts)

    def is_whole(self) -> bool:
        """Return whether no position in a column is outside of another one."""
        count, runs = len(self.numbers), len(self.names)
        lengths = {len(each) for each in (self.matrix, self.runs, self.kinds, self.indexes, self.dead, self.ids)}
        has_shape = (
            lengths == {count} and len(self.starts) == runs + 1 and self.ids.is_whole() and self.names.is_whole()
        )
        if not has_shape or not count:
            return False
        has_runs = np.array_equal(self.runs, np.repeat(np.arange(runs), np.diff(self.starts)))
        has_kinds = self.kinds.min() >= 0 and self.kinds.max() < len(self.kind_names)
        return bool(has_runs and has_kinds and (np.diff(self.numbers) > 0).all())


class RowCollector:
    """Collects the columns of rows in the order of their numbers, after those of other rows.

    Args:
        base: The first rows.
    """

    def __init__(self, base: FixedRows | None = None) -> None:
        self._base = base
        self._kinds = {kind: code for code, kind in enumerate(base.kind_names)} if base else {}
        self._columns: list[NDArray[np.int64]] = [np.empty((3, 0), np.int64)]  # number, kind, surface index
        self._ids, self._names = (
            [base.ids if base else TextBlock.encode([])],
            [base.names if base else TextBlock.encode([])],
        )
        self._lengths: list[int] = []  # rows of each new run
        self._last_name: str | None = None
        self._max_norm = base.max_norm if base else 1.0

    def add(
        self,
        ids: Sequence[str],
        numbers: Sequence[int],
        artifact_ids: Sequence[str],
        kinds: Sequence[str],
        indexes: Sequence[int],
        *,
        vectors: Floats,
    ) -> None:
        """Add rows; all arguments are aligned."""
        codes = [self._kinds.setdefault(kind, len(self._kinds)) for kind in kinds]
        self._columns.append(np.array([numbers, codes, indexes], np.int64))
        self._ids.append(TextBlock.encode(ids))
        names = []
        for name, rows in groupby(artifact_ids):
            if name == self._last_name:
                self._lengths[-1] += sum(1 for _ in rows)
            else:
                self._lengths.append(sum(1 for _ in rows))
                names.append(name)
                self._last_name = name
        self._names.append(TextBlock.encode(names))
        self._max_norm = max(self._max_norm, float(np.sqrt(np.einsum("ij,ij->i", vectors, vectors).max())))

    def finish(self, matrix: Floats, live: NDArray[np.int64] | None = None) -> FixedRows:
        """Return all rows.

        Args:
            matrix: All vectors, also those of the first rows.
            live: The numbers of all records that exist; `None` if none was removed meanwhile.
        """
        base = self._base
        numbers, kinds, indexes = np.concatenate(self._columns, axis=1)
        lengths = np.array(self._lengths, np.int64)
        if base is not None:
            numbers, kinds = np.concatenate([base.numbers, numbers]), np.concatenate([base.kinds, kinds])
            indexes = np.concatenate([base.indexes, indexes])
            lengths = np.concatenate([np.diff(base.starts), lengths])
        starts = np.concatenate([[0], np.cumsum(lengths)])
        runs = np.repeat(np.arange(len(lengths), dtype=np.int32), lengths)
        dead = np.zeros(len(numbers), np.bool_)
        if live is not None:
            dead = ~np.isin(numbers, live)
        elif base is not None:
            dead[: len(base)] = base.dead
        rows = np.flatnonzero(~dead)
        return FixedRows(
            matrix,
            numbers,
            runs,
            starts,
            kinds.astype(np.int32),
            indexes,
            dead,
            TextBlock.join(self._ids).index(rows),
            TextBlock.join(self._names).index(np.unique(runs[rows]).astype(np.int64)),
            [*self._kinds],
            self._max_norm,
        )
