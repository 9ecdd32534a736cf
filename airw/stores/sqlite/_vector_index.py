"""The vector index of a file, kept up to date in memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airw.stores._indexes.dense_index import DenseIndex
from airw.stores.sqlite import _segments
from airw.stores.sqlite._record_log import RecordLog
from airw.stores.sqlite._records import check_columns
from airw.stores.sqlite._segment_building import count_live_rows
from airw.stores.sqlite._segmented_index import OpenSegments, SegmentedIndex
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.stores.sqlite._vector_file import SavedRows
from airw.stores.sqlite._vector_saving import load_saved
from airw.stores.sqlite._watch import FileVersion

if TYPE_CHECKING:
    import sqlite3

_QUERIES = 256  # of one call in a thread
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Latest:
    """An index that was searched, with its mapped files and the version it shows, if known."""

    version: FileVersion | None
    index: SegmentedIndex
    saved: SavedRows | None


class VectorIndex:
    """The vector index of a file; one user updates it at a time.

    An update takes time in proportion to the changes, not to the corpus.

    Args:
        folder: The folder of the segments.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._segments = OpenSegments(folder)
        self._saved: SavedRows | None = None
        self._latest: _Latest | None = None
        self._clear()

    def update(self, connection: "sqlite3.Connection", version: FileVersion | None = None) -> DenseIndex:
        """Return the index of the present state of the file; later updates do not change it.

        Args:
            connection: A connection with a snapshot that is not older than that of the last call.
            version: The version of the file before its present state was read; `None` if it is unknown.
        """
        count = count_live_rows(connection)
        self._update(connection, count)
        index = self._index.freeze()
        if count > _segments.EXACT_ROWS:
            index.use_segments(self._segments.update(connection, index.dim))
        if version is not None or self._latest is None:
            self._latest = _Latest(version, index, self._saved)
        return index

    @property
    def is_used(self) -> bool:
        """True if an index is in memory."""
        return self._latest is not None

    def find_latest(self, version: FileVersion | None) -> DenseIndex | None:
        """Return the index in memory, if it shows this version of the file."""
        latest = self._latest
        if latest is None or version is None or latest.version != version:
            return None
        return None if latest.saved is not None and latest.saved.has_changed() else latest.index

    def _clear(self) -> None:
        self._index = SegmentedIndex()
        self._log = RecordLog()
        self._saved = None
        self._latest = None

    def _update(self, connection: "sqlite3.Connection", count: int) -> None:
        if self._saved is not None and self._saved.has_changed():
            self._clear()
        if not self._log.last:
            self._open_saved(connection)
        self._read_changes(connection, count)
        if self._index.is_based and len(self._index) != count:
            # The files do not fit the database, although they have its checksums: do without them.
            self._clear()
            self._read_changes(connection, count)

    def _open_saved(self, connection: "sqlite3.Connection") -> None:
        """Begin with the rows in the mapped files, if they are there and intact."""
        _, saved = load_saved(connection, self._folder)
        if saved is not None and not saved.is_intact():
            saved.discard()
        elif saved is not None:
            self._saved, self._index = saved, SegmentedIndex(base=saved.rows)
            self._log = RecordLog(saved.last, saved.last_tombstone)

    def _read_changes(self, connection: "sqlite3.Connection", count: int) -> None:
        def restart() -> None:
            # A stranger may have written the count: rows take room before they come only up to a size.
            self._index = SegmentedIndex(room=min(count, _segments.EXACT_ROWS))

        self._log.drop_removed(connection, self._index.drop, restart=restart)
        for rows in self._log.read_new(
            connection,
            "id, artifact_id, kind, CAST(idx AS INTEGER), data, sum",
            tables="record JOIN vector USING (rowid)",
        ):
            numbers, ids, artifact_ids, kinds, indexes, *stored = zip(*rows, strict=True)
            check_columns(ids, artifact_ids, kinds)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=decode_vectors(*stored))
