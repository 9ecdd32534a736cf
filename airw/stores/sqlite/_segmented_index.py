"""Approximate vector search in a large file: HNSW segments, and a matrix of other rows."""

import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import numpy as np

from airw._base.arrays import Floats, reserve
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.messages import short_repr
from airw._base.vectors import best_first
from airw.errors import StoreBusy, StoreError
from airw.stores.sqlite import _segments
from airw.stores.sqlite._records import DamagedValue, read_settings
from airw.stores.sqlite._schema import write_transaction
from airw.stores.sqlite._segments import Numbers, Segment, SegmentFile
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.stores.sqlite._vector_file import SavedRows
from airw.stores.sqlite._writing import set_setting

if TYPE_CHECKING:
    import sqlite3

_SEGMENT = "segment"  # the kind of the settings with the checksums of segments

EXACT_ROWS = 200_000  # up to this number of rows, search is exact and needs no segments

_BLOCK = 4096  # rows per read


class SegmentedIndex:
    """An approximate index of the vectors in a file; one caller at a time.

    A bucket is a range of 65,536 consecutive rowids. Rowids only grow, so only the newest bucket gets new rows. Full
    buckets have an HNSW segment. The unsegmented rest is a matrix in memory, whose rows are compared exactly. It
    contains the rows of all buckets without a segment: the newest, small ones, and those not built yet or unreadable.
    Without the extra `ann`, it contains all rows.

    Args:
        folder: The folder of the segments.
    """

    def __init__(self, folder: Path) -> None:
        self.dim: int | None = None
        self._folder = folder
        self._segments: dict[int, Segment] = {}
        self._state: object = None
        self._saved: SavedRows | None = None
        self._clear_rest()

    def update(self, connection: "sqlite3.Connection", live: Mapping[int, int], saved: SavedRows | None) -> None:
        """Update the segments and the rest to the present state of the file.

        Args:
            connection: A connection with a snapshot of the file.
            live: The `count_live_rows` of the same snapshot.
            saved: The rows in the mapped file, which need not be read; not checked yet.
        """
        if saved is not self._saved:
            self._saved = saved
            self._clear_rest()
        # If the corpus was embedded again in another width, start again.
        width = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
        if (width and width[0]) != self.dim:
            self.dim = width and width[0]
            self._clear_rest()
        # Open new segments first: the rest needs only the buckets without one.
        self._open_segments(read_corpus_mark(connection), read_checksums(connection), live)
        # Rowids only grow, so the new rows of the rest are those after the last row.
        for number in sorted(live.keys() - self._segments.keys()):
            self._map_rest(number)
            for rowids, vectors in _read_rows(connection, number, after=self._last):
                self._add_rest(rowids, vectors)

    def find_nearest(self, query: Floats, count: int) -> Numbers:
        """Return the rowids of the `count` nearest rows, nearest first; a few may be missed.

        There are fewer if there are fewer rows. Some of these rows may no longer be in the file.
        """
        # Search the rest exactly and each segment by its graph, then merge the lists by cosine.
        rest = [*self._mapped, (self._rowids[: self._filled], self._matrix[: self._filled])]
        lists = [_find_nearest(rowids, matrix, query, count) for rowids, matrix in rest]
        lists += [segment.find_nearest(query, count) for segment in self._segments.values()]
        all_rowids = np.concatenate([rowids for rowids, _ in lists])
        all_cosines = np.concatenate([cosines for _, cosines in lists])
        return all_rowids[best_first(all_cosines, count)]

    def _open_segments(self, corpus: str, checksums: Mapping[str, str], live: Mapping[int, int]) -> None:
        """Open this database's segments of the buckets in `live`, and drop all others."""
        # Nothing to do if neither the folder nor the set of buckets has changed.
        modified = self._folder.stat().st_mtime_ns if self._folder.is_dir() else None
        if self._state == (modified, checksums, live.keys(), self.dim):
            return
        # Ignore segments that this database does not know, and segments that cannot be read.
        files = {
            file.number: file for file in _segments.list_segment_files(self._folder) if file.path.name in checksums
        }
        usable = files.keys() & live.keys() if _segments.is_installed() else set()
        opened = {number: self._open(files[number], checksums) for number in sorted(usable)}
        segments = {number: segment for number, segment in opened.items() if segment and segment.dim == self.dim}
        # The rest contains all rows without a segment, so it must be read again if the segments change.
        if segments.keys() != self._segments.keys():
            self._segments = segments
            self._clear_rest()
        self._state = (modified, checksums, live.keys(), self.dim)

    def _open(self, file: SegmentFile, checksums: Mapping[str, str]) -> Segment | None:
        present = self._segments.get(file.number)
        return present if present and present.name == file.path.name else file.open(checksums[file.path.name])

    def _clear_rest(self) -> None:
        self._mapped: list[tuple[Numbers, Floats]] = []
        self._rowids: Numbers = np.empty(0, np.int64)
        self._matrix: Floats = np.empty((0, self.dim or 0), np.float32)
        self._filled = self._last = 0

    def _map_rest(self, number: int) -> None:
        """Add the rows of a bucket that are in the mapped file, if none was added yet."""
        first, stop = number << _segments.BUCKET_BITS, (number + 1) << _segments.BUCKET_BITS
        if self._saved is None or self._last >= first or self._saved.rows.matrix.shape[1] != self.dim:
            return
        part = self._saved.find(first, stop)
        rowids = self._saved.rows.numbers[part]
        # A damaged part is read from the database.
        if len(rowids) and self._saved.is_intact(part):
            self._mapped.append((rowids, self._saved.rows.matrix[part]))
            self._last = int(rowids[-1])

    def _add_rest(self, rowids: Numbers, vectors: Floats) -> None:
        end = self._filled + len(rowids)
        self._matrix, self._rowids = reserve(self._matrix, end), reserve(self._rowids, end)
        self._matrix[self._filled : end], self._rowids[self._filled : end] = vectors, rowids
        self._filled, self._last = end, int(rowids[-1])


def _find_nearest(rowids: Numbers, matrix: Floats, query: Floats, count: int) -> tuple[Numbers, Floats]:
    cosines = matrix @ query
    best = best_first(cosines, count)
    return rowids[best], cosines[best]


def count_live_rows(connection: "sqlite3.Connection") -> dict[int, int]:
    """Return the number of rows in each bucket that is not empty."""
    return dict(connection.execute("SELECT number, CAST(live AS INTEGER) FROM bucket WHERE CAST(live AS INTEGER) > 0"))


def read_corpus_mark(connection: "sqlite3.Connection") -> str:
    """Return the mark of this database.

    It differs from the mark of an earlier database at the same path.
    """
    row = connection.execute("SELECT value FROM setting WHERE kind = 'file' AND key = 'mark'").fetchone()
    mark = str(row and row[0]).strip('"')
    # It becomes part of a file name.
    if not _segments.is_mark(mark):
        raise DamagedValue(f"the mark of the file is {short_repr(mark)}")
    return mark


def read_checksums(connection: "sqlite3.Connection") -> dict[str, str]:
    """Return the checksums of the segments of this database, by file name."""
    settings = read_settings(connection, _SEGMENT)
    return {name: str(setting.get("checksum")) for name, setting in settings.items()}


def record_segments(connection: "sqlite3.Connection", checksums: Mapping[str, str], obsolete: Iterable[str]) -> None:
    """Store the checksums of new segments, and forget obsolete ones."""
    with write_transaction(connection):
        connection.executemany(
            "DELETE FROM setting WHERE kind = ? AND key = ?", [(_SEGMENT, name) for name in obsolete]
        )
        for name, checksum in checksums.items():
            set_setting(connection, _SEGMENT, name, {"checksum": checksum})


class SegmentPlan(NamedTuple):
    """The segments to build and to remove.

    Args:
        corpus: The mark of the database.
        buckets: The buckets that need a segment.
        obsolete: The segment files that are no longer needed.
        forgotten: The names of segments that have no useful file any more.
    """

    corpus: str
    buckets: Sequence[int]
    obsolete: Sequence[Path]
    forgotten: Sequence[str]


def read_bucket(connection: "sqlite3.Connection", number: int) -> tuple[Numbers, Floats]:
    """Return the rowids and vectors of all rows in a bucket, which must not be empty."""
    rowids, vectors = zip(*_read_rows(connection, number), strict=True)
    return np.concatenate(rowids), np.concatenate(vectors)


def _read_rows(connection: "sqlite3.Connection", number: int, after: int = -1) -> Iterator[tuple[Numbers, Floats]]:
    start, stop = number << _segments.BUCKET_BITS, (number + 1) << _segments.BUCKET_BITS
    rows = connection.execute(
        "SELECT rowid, data, sum FROM vector WHERE rowid >= ? AND rowid < ? ORDER BY rowid",
        [max(start, after + 1), stop],
    )
    while block := rows.fetchmany(_BLOCK):
        rowids, data, sums = zip(*block, strict=True)
        yield np.array(rowids, np.int64), decode_vectors(data, sums)


def plan_segments(connection: "sqlite3.Connection", folder: Path) -> SegmentPlan:
    """Return the plan by which each full bucket of a large corpus gets a segment.

    A segment is built again if more than half of its rows were removed. A bucket with few rows needs no segment.
    """
    corpus, live, checksums = read_corpus_mark(connection), count_live_rows(connection), read_checksums(connection)
    # The highest rowid ever used, also by rows removed since.
    (last_rowid,) = connection.execute("SELECT max(seq) FROM sqlite_sequence WHERE name = 'record'").fetchone()
    # Buckets below `first_open` are full: no row is ever added to them again.
    first_open = ((last_rowid or 0) + 1) >> _segments.BUCKET_BITS
    # A bucket with fewer rows than a sixteenth stays in the rest.
    min_rows = 1 << (_segments.BUCKET_BITS - 4)
    is_large = sum(live.values()) > EXACT_ROWS
    needed = {number for number, rows in live.items() if is_large and number < first_open and rows >= min_rows}
    # Keep the segments of these buckets, unless most of their rows were removed.
    files = _segments.list_segment_files(folder)
    useful = {
        file.number: file
        for file in files
        if file.path.name in checksums and file.number in needed and file.rows <= 2 * live[file.number]
    }
    obsolete = [file.path for file in files if file not in useful.values()]
    forgotten = sorted(checksums.keys() - {file.path.name for file in useful.values()})
    return SegmentPlan(corpus, sorted(needed - useful.keys()), obsolete, forgotten)


async def build_segments(
    path: Path, plan: SegmentPlan, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]
) -> None:
    """Build and remove segments as planned, unless another writer is doing so.

    A failure is a warning, not an error: the write itself has succeeded, and search works without segments. `read`
    calls a function with a connection to one snapshot, and returns its result; `write` does so with a connection that
    may write.
    """
    if plan.buckets and not _segments.is_installed():
        _warn(path, "usearch is not installed: pip install 'airw[ann]'")
    elif plan.buckets or plan.obsolete or plan.forgotten:
        folder = _segments.segment_folder(path)
        try:
            await anyio.Path(folder).mkdir(exist_ok=True)
            async with hold_file(folder / "writer.lock", timeout=0):
                # Another writer may have carried the plan out meanwhile.
                await _carry_out(folder, await read(plan_segments, folder), read, write)
        except StoreBusy:
            return  # the other writer builds them
        except (OSError, RuntimeError, StoreError) as error:
            _warn(path, f"a segment cannot be written ({error}); the next write tries again")


async def _carry_out(
    folder: Path, plan: SegmentPlan, read: Callable[..., Awaitable[Any]], write: Callable[..., Awaitable[Any]]
) -> None:
    checksums = {}
    for number in plan.buckets:
        # Slices keep each call short, so that a cancelled write stops between them.
        maker = _segments.SegmentMaker(*await read(read_bucket, number))
        for part in maker.slices():
            await in_thread(maker.add, part)
        name, checksum = await in_thread(maker.save, folder, plan.corpus, number)
        checksums[name] = checksum
        # Without its checksum in the database, the file is not opened: it may be anything.
        await write(record_segments, {name: checksum}, [])
    if forgotten := sorted({*plan.forgotten} - checksums.keys()):
        await write(record_segments, {}, forgotten)
    for path in plan.obsolete:
        if path.name not in checksums:  # a new file may have the name of an old one
            await anyio.Path(path).unlink(missing_ok=True)


def _warn(path: Path, reason: str) -> None:
    message = f"search in {str(path)!r} compares all vectors that have no segment, because {reason}"
    warnings.warn(message, RuntimeWarning, stacklevel=6)
