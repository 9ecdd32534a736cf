"""The vector index of a file, kept up to date in memory."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airw.stores._indexes.dense_index import DenseIndex
from airw.stores.sqlite import _near_index
from airw.stores.sqlite._near_index import NearIndex, NearRows, restore_index
from airw.stores.sqlite._records import RecordLog, check_columns, decode_vectors
from airw.stores.sqlite._saved_vectors import (
    VECTOR_COLUMNS,
    VECTOR_TABLES,
    SavedVectors,
    count_live_rows,
    find_known_index,
    open_saved,
    read_saved_setting,
)
from airw.stores.sqlite._watch import FileVersion

if TYPE_CHECKING:
    import sqlite3


@dataclass(frozen=True, slots=True)
class _Latest:
    """An index that was searched, with its mapped files and the version it shows, if known."""

    version: FileVersion | None
    index: DenseIndex
    saved: SavedVectors | None


class VectorIndex:
    """The vector index of a file; one user updates it at a time.

    An update takes time in proportion to the changes, not to the corpus.

    Args:
        folder: The folder of the saved vectors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._latest: _Latest | None = None
        self._begin(None, None)

    def update(self, connection: "sqlite3.Connection", version: FileVersion | None = None) -> DenseIndex:
        """Return the index of the present state of the file; later updates do not change it.

        Args:
            connection: A connection with a snapshot that is not older than that of the last call.
            version: The version of the file before its present state was read; `None` if it is unknown.
        """
        count, setting = count_live_rows(connection), read_saved_setting(connection)
        if setting != self._setting or (self._saved is not None and self._saved.has_changed()):
            self._begin(setting, open_saved(self._folder, setting))
        self._read_changes(connection, count)
        if self._saved is not None and len(self._index) != count:
            # The files do not fit the database, although they have its checksums: do without them.
            self._begin(setting, None)
            self._read_changes(connection, count)
        index = self._index.freeze()
        if count <= _near_index.EXACT_ROWS:
            index.near = None
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

    def _begin(self, setting: dict[str, Any] | None, saved: SavedVectors | None) -> None:
        """Begin with saved rows, or with none; `setting` is what the database knows of them."""
        self._saved, self._setting, self._latest = saved, setting, None
        if saved is None:
            self._index, self._log = NearIndex(), RecordLog()
            return
        known = find_known_index(setting or {})
        index = restore_index([*saved.states][-1], known, saved.rows.matrix.shape[1], view=True)
        near = None if index is None else NearRows(index, int(known["effort"]))
        self._index, self._log = NearIndex(first=saved.rows, near=near), RecordLog(saved.last, saved.last_tombstone)

    def _read_changes(self, connection: "sqlite3.Connection", count: int) -> None:
        def restart() -> None:
            # A stranger may have written the count: rows take room before they come only up to a size.
            self._index = NearIndex(room=min(count, _near_index.EXACT_ROWS))

        self._log.drop_removed(connection, self._index.drop, restart=restart)
        for rows in self._log.read_new(connection, VECTOR_COLUMNS, tables=VECTOR_TABLES):
            numbers, ids, artifact_ids, kinds, indexes, *stored = zip(*rows, strict=True)
            check_columns(ids, artifact_ids, kinds)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=decode_vectors(*stored))
