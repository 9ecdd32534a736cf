"""The nearest rows of a file too large for one matrix: an index for each full bucket, a matrix of the rest."""

import warnings
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import numpy as np

from airw._base.arrays import Floats, reserve
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.vectors import best_first
from airw.errors import StoreBusy, StoreError
from airw.stores.sqlite import _segments
from airw.stores.sqlite._segments import Numbers, Segment
from airw.stores.sqlite._vector_codec import decode_vectors

if TYPE_CHECKING:
    import sqlite3

EXACT_ROWS = 200_000  # up to here every row is compared with every query, from memory

_BLOCK = 4096  # rows read at a time


class SegmentedIndex:
    """Finds about the nearest rows of a file that it follows; one user at a time.

    Buckets whose index has yet to be made, or cannot be read, or cannot be used because the extra `ann` is not
    installed, are compared exactly, from memory.
    """

    def __init__(self, folder: Path) -> None:
        self.dim: int | None = None
        self._folder = folder
        self._segments: dict[int, Segment] = {}
        self._state: object = None
        self._clear_rest()

    def update(self, connection: "sqlite3.Connection", live: Mapping[int, int]) -> None:
        """Take in what is new: indexes that were made or removed, and rows that were added to the `count_live_rows`."""
        width = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
        if (width and width[0]) != self.dim:
            self.dim = width and width[0]
            self._clear_rest()
        self._open_segments(read_corpus_mark(connection), live)
        for number in sorted(live.keys() - self._segments.keys()):
            for numbers, vectors in _read_rows(connection, number, after=self._last):
                self._add_rest(numbers, vectors)

    def nearest(self, query: Floats, count: int) -> Numbers:
        """Return the numbers of about the `count` nearest rows, nearest first; some may have left the file."""
        rest = self._matrix[: self._filled] @ query
        best = best_first(rest, count)
        found = [(self._numbers[best], rest[best])]
        found += [segment.nearest(query, count) for segment in self._segments.values()]
        numbers = np.concatenate([numbers for numbers, _ in found])
        return numbers[best_first(np.concatenate([cosines for _, cosines in found]), count)]

    def _open_segments(self, corpus: str, live: Mapping[int, int]) -> None:
        """Open the indexes of buckets that hold rows, if there may be others than before."""
        changed = self._folder.stat().st_mtime_ns if self._folder.is_dir() else None
        if self._state == (changed, live.keys(), self.dim):
            return
        files = {each.number: each for each in _segments.segment_files(self._folder) if each.corpus == corpus}
        usable = files.keys() & live.keys() if _segments.is_installed() else set()
        opened = {number: self._segments.get(number) or files[number].open() for number in sorted(usable)}
        segments = {number: each for number, each in opened.items() if each and each.dim == self.dim}
        if segments.keys() != self._segments.keys():
            self._segments = segments
            self._clear_rest()
        self._state = (changed, live.keys(), self.dim)

    def _clear_rest(self) -> None:
        self._numbers: Numbers = np.empty(0, np.int64)
        self._matrix: Floats = np.empty((0, self.dim or 0), np.float32)
        self._filled = self._last = 0

    def _add_rest(self, numbers: Numbers, vectors: Floats) -> None:
        end = self._filled + len(numbers)
        self._matrix, self._numbers = reserve(self._matrix, end), reserve(self._numbers, end)
        self._matrix[self._filled : end], self._numbers[self._filled : end] = vectors, numbers
        self._filled, self._last = end, int(numbers[-1])


def count_live_rows(connection: "sqlite3.Connection") -> dict[int, int]:
    """Count the rows of each bucket that holds any."""
    return dict(connection.execute("SELECT number, live FROM bucket WHERE live > 0"))


def read_corpus_mark(connection: "sqlite3.Connection") -> str:
    """Return what tells this database from any other, also from one that had its path before."""
    (mark,) = connection.execute("SELECT value FROM setting WHERE kind = 'file' AND key = 'mark'").fetchone()
    return str(mark).strip('"')


class SegmentPlan(NamedTuple):
    """Which indexes of a file are to be made, and which to be removed.

    Args:
        corpus: The mark of the file.
        buckets: Those whose index is to be made.
        obsolete: Files of no use any more.
    """

    corpus: str
    buckets: Sequence[int]
    obsolete: Sequence[Path]


def read_bucket(connection: "sqlite3.Connection", number: int) -> tuple[Numbers, Floats]:
    """Return the numbers and the vectors of the rows in a bucket that holds any."""
    numbers, vectors = zip(*_read_rows(connection, number), strict=True)
    return np.concatenate(numbers), np.concatenate(vectors)


def _read_rows(connection: "sqlite3.Connection", number: int, after: int = -1) -> Iterator[tuple[Numbers, Floats]]:
    start, stop = number << _segments.BUCKET_BITS, (number + 1) << _segments.BUCKET_BITS
    rows = connection.execute(
        "SELECT rowid, data, sum FROM vector WHERE rowid >= ? AND rowid < ? ORDER BY rowid",
        [max(start, after + 1), stop],
    )
    while block := rows.fetchmany(_BLOCK):
        numbers, data, sums = zip(*block, strict=True)
        yield np.array(numbers, np.int64), decode_vectors(data, sums)


def plan_segments(connection: "sqlite3.Connection", folder: Path) -> SegmentPlan:
    """Return what is to be done so that in a large corpus each full bucket has an index.

    One of which more than half has left is made again; one of very few rows needs none.
    """
    corpus, live = read_corpus_mark(connection), count_live_rows(connection)
    (filled,) = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'record'").fetchone()
    full = ((filled or 0) + 1) >> _segments.BUCKET_BITS
    few = 1 << (_segments.BUCKET_BITS - 4)
    is_large = sum(live.values()) > EXACT_ROWS
    wanted = {number for number, rows in live.items() if is_large and number < full and rows >= few}
    files = _segments.segment_files(folder)
    useful = {
        each.number: each
        for each in files
        if each.corpus == corpus and each.number in wanted and each.rows <= 2 * live[each.number]
    }
    obsolete = [each.path for each in files if each not in useful.values()]
    return SegmentPlan(corpus, sorted(wanted - useful.keys()), obsolete)


async def build_segments(path: Path, plan: SegmentPlan, read: Callable[..., Awaitable[Any]]) -> None:
    """Make the indexes that a large corpus needs, unless another writer does; without them, search is slower."""
    if plan.buckets and not _segments.is_installed():
        _warn(path, "usearch is not installed: pip install 'airw[ann]'")
    elif plan.buckets or plan.obsolete:
        folder = _segments.segment_folder(path)
        try:
            await anyio.Path(folder).mkdir(exist_ok=True)
            async with hold_file(folder / "writer.lock", timeout=0):
                await _make_segments(folder, plan, read)
        except StoreBusy:
            return  # whoever holds it makes them
        except (OSError, RuntimeError, StoreError) as error:  # what was written is written
            _warn(path, f"an index cannot be written ({error}); the next write tries again")


async def _make_segments(folder: Path, plan: SegmentPlan, read: Callable[..., Awaitable[Any]]) -> None:
    for number in plan.buckets:
        maker = _segments.SegmentMaker(*await read(read_bucket, number))
        for part in maker.slices():
            await in_thread(maker.add, part)
        await in_thread(maker.save, folder, plan.corpus, number)
    for path in plan.obsolete:
        await anyio.Path(path).unlink(missing_ok=True)


def _warn(path: Path, why: str) -> None:
    message = f"{str(path)!r} is searched by comparing all its vectors, from memory, as {why}"
    warnings.warn(message, RuntimeWarning, stacklevel=6)
