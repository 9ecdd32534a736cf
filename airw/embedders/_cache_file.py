"""The file of the embedding cache: vectors by hashed key, and the order of their last use."""

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from weakref import WeakSet
from zlib import crc32

import numpy as np

from airw._base.arrays import Floats
from airw._base.file_lock import MORE_FILES, lacks_open_files
from airw._base.messages import short_repr
from airw._base.schemas import find_foreign, read_schema, small_limits
from airw.errors import StoreBusy, StoreCorrupt, StoreError

if TYPE_CHECKING:
    import sqlite3

ENTRY_BYTES = 128  # of an entry without its vector: its key in table and index, its order, half-full pages

_APPLICATION_ID = 0x61697265
_VERSION = 1
# The order of use changes often, so it is in another table than the wide vectors, whose pages would be rewritten.
# STRICT makes SQLite refuse values of another type.
_SETUP = (
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, key TEXT UNIQUE, used INTEGER NOT NULL, dim INTEGER NOT NULL) STRICT",
    "CREATE INDEX entry_by_use ON entry (used)",
    "CREATE TABLE vector (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT",
    "CREATE TABLE total (bytes INTEGER NOT NULL) STRICT",
    "INSERT INTO total VALUES (0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)


# SQLite has locks of its own, for a whole process. A child that is forked while another thread has one could never open
# a database, so a fork waits for the calls of all caches.
_FORK_LOCK = threading.RLock()
_files: "WeakSet[CacheFile]" = WeakSet()


def _stop_caches() -> None:
    _FORK_LOCK.acquire()
    for file in _files:
        file.lock.acquire()


def _continue_caches() -> None:
    for file in _files:
        file.lock.release()
    _FORK_LOCK.release()


os.register_at_fork(before=_stop_caches, after_in_parent=_continue_caches, after_in_child=_continue_caches)


class CachedRows(NamedTuple):
    """The rows read from the cache: a key for each row, and the ids of damaged entries."""

    keys: list[str]
    rows: Floats
    damaged: list[int]


class CacheFile:
    """An LRU cache in one SQLite database; one thread uses it at a time, and others wait.

    Uses are collected in memory and written together with the next vectors, so that reading writes nothing.
    """

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._is_closed = False
        self._begin()
        with _FORK_LOCK:
            _files.add(self)

    def _begin(self) -> None:
        """Begin in this process, without a connection and locks."""
        self._process = os.getpid()
        # Reentrant: a garbage collection inside a locked section may close this file from the same thread.
        self.lock = threading.RLock()
        self._raw: sqlite3.Connection | None = None
        self._uses: dict[int, None] = {}  # ids of used entries, the last used one at the end

    def read(self, keys: Sequence[str], dim: int | None) -> CachedRows:
        """Return the rows of the keys that are in the cache.

        Entries of another width than `dim` count as damaged. If `dim` is None, all entries must have one width.
        """
        with self._connection() as raw:
            rows = raw.execute(
                "SELECT wanted.value, entry.id, dim, CAST(data AS BLOB) FROM json_each(?) AS wanted "
                # CROSS JOIN fixes the order: look up each key, and never scan all entries.
                "CROSS JOIN entry ON entry.key = wanted.value LEFT JOIN vector ON vector.id = entry.id",
                [json.dumps(keys)],
            ).fetchall()
            cached, ids = _check_rows(rows, dim)
            # Remove the ids first, because updating a dict would leave them at their old place in the order.
            for id in ids:
                self._uses.pop(id, None)
            self._uses.update(dict.fromkeys(ids))
        return cached

    def write(self, keys: Sequence[str], rows: Floats, damaged: Sequence[int]) -> None:
        """Add rows under their keys and remove the least recently used entries to make room.

        Entries that exist already are not changed. `damaged` entries are removed.
        """
        size = ENTRY_BYTES + 4 * rows.shape[1]
        # If not all rows fit, write only the last ones: the others would be removed again by this very call.
        start = max(0, len(keys) - self._max_bytes // size)
        vectors = (row.tobytes() for row in np.ascontiguousarray(rows[start:], "<f4"))
        blobs = [(key, _checksum(key, data) + data) for key, data in zip(keys[start:], vectors, strict=True)]
        with self._writing() as raw:
            # Damaged entries go first, because their keys are among the new ones.
            _remove(raw, damaged)
            # Another process may have written the same texts since they were looked up.
            existing = _existing_keys(raw, keys[start:])
            new = [(key, blob) for key, blob in blobs if key not in existing]
            _make_room(raw, self._max_bytes - size * len(new))
            _insert(raw, new, rows.shape[1])

    @property
    def pending_uses(self) -> int:
        """Return the number of entries used since the last write; 0 if the file is closed."""
        return 0 if self._is_closed else len(self._uses)

    def write_uses(self) -> None:
        """Write the order of use of the entries used since the last write."""
        with self._writing():
            pass

    def close(self) -> None:
        """Close the file; an order of use that is not written yet is lost."""
        with self.lock:
            self._is_closed = True
            if self._raw is not None:
                self._raw.close()
                self._raw = None

    @contextmanager
    def _writing(self) -> "Iterator[sqlite3.Connection]":
        """Begin a transaction, write the pending uses, and commit at the end of the block."""
        with self._connection() as raw:
            with _transaction(raw):
                (last,) = raw.execute("SELECT ifnull(max(used), 0) FROM entry").fetchone()
                # A counter instead of a clock: it never goes back, and two uses never have the same number.
                numbered = ((last + order, id) for order, id in enumerate(self._uses, 1))
                raw.executemany("UPDATE entry SET used = ? WHERE id = ?", numbered)
                yield raw
            self._uses.clear()

    @contextmanager
    def _connection(self) -> "Iterator[sqlite3.Connection]":
        """Lock the file, open it if necessary, and translate errors of SQLite."""
        import sqlite3

        if self._process != os.getpid():
            # A forked process must not use a connection of its parent, nor close it, and no thread here frees its lock.
            self._inherited = self._raw
            self._begin()
        with self.lock:
            if self._is_closed:
                raise StoreError(f"{self._name} is closed; create another CachedEmbedder")
            try:
                if self._raw is None:
                    self._raw = self._connect()
                yield self._raw
            except sqlite3.Error as error:
                raise self._translate_error(error) from error

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3

        if sqlite3.sqlite_version_info < (3, 38):  # earlier versions may lack json_each
            raise StoreError(
                f"this Python has SQLite {sqlite3.sqlite_version}, {self._name} needs 3.38 or later; use another Python"
            )
        raw = sqlite3.connect(self._path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False)
        try:
            with small_limits(raw):
                if raw.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
                    raw.execute("PRAGMA page_size = 16384")
                    raw.execute("PRAGMA journal_mode = WAL")
                    _create(raw)
                self._check_ours(raw)
            raw.execute("PRAGMA synchronous = NORMAL")
        except BaseException:
            raw.close()
            raise
        return raw

    def _check_ours(self, raw: "sqlite3.Connection") -> None:
        (owner,) = raw.execute("PRAGMA application_id").fetchone()
        (version,) = raw.execute("PRAGMA user_version").fetchone()
        if owner != _APPLICATION_ID:
            raise StoreCorrupt(f"{self._name} is a database of another application; choose another path")
        if version != _VERSION:
            raise StoreCorrupt(f"{self._name} has format {version}, not {_VERSION}; delete it, or upgrade airw")
        own = {sql.split()[2]: [sql] for sql in _SETUP if sql.startswith("CREATE")}
        if foreign := find_foreign(read_schema(raw), own):
            raise StoreCorrupt(
                f"{self._name} contains the {foreign[0]} {short_repr(foreign[1])}, which airw did not make; delete it, "
                "and it will fill again"
            )
        if raw.execute("SELECT count(bytes) FROM total").fetchone() != (1,):
            raise StoreCorrupt(f"{self._name} is damaged (its total is missing); delete it, and it will fill again")

    @property
    def _name(self) -> str:
        return f"the embedding cache {str(self._path)!r}" if self._path else "the embedding cache in memory"

    def _translate_error(self, error: Exception) -> StoreError:
        import sqlite3

        # The lower byte of an extended error code is the primary error code.
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreBusy(f"another process has locked {self._name}; try again when it has finished")
            case (
                sqlite3.SQLITE_CORRUPT
                | sqlite3.SQLITE_NOTADB
                | sqlite3.SQLITE_FORMAT
                | sqlite3.SQLITE_ERROR
                | sqlite3.SQLITE_TOOBIG
            ):
                return StoreCorrupt(
                    f"{self._name} is damaged or not a cache ({error}); delete it, and it will fill again"
                )
            case sqlite3.SQLITE_FULL:
                return StoreError(f"{self._name} cannot grow ({error}); free some space, or choose another path")
            case _:
                advice = MORE_FILES if lacks_open_files() else "choose a path that you can write to"
                return StoreError(f"{self._name} cannot be read or written ({error}); {advice}")


def _create(raw: "sqlite3.Connection") -> None:
    with _transaction(raw):
        # Check again inside the transaction: another process may have created the tables meanwhile.
        if raw.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:
            for statement in _SETUP:
                raw.execute(statement)


@contextmanager
def _transaction(raw: "sqlite3.Connection") -> Iterator[None]:
    raw.execute("BEGIN IMMEDIATE")
    try:
        yield
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise


def _checksum(key: str, data: bytes | memoryview) -> bytes:
    """Return four bytes that detect damage to a vector or key; SQLite does not notice it."""
    return crc32(data, crc32(key.encode())).to_bytes(4, "little")


def _check_rows(rows: Sequence[tuple[str, int, int, bytes | None]], dim: int | None) -> tuple[CachedRows, list[int]]:
    """Separate sound rows from damaged ones; return them, and the ids of the sound ones."""
    # Without an expected width, entries of several widths cannot all be right: then none is used.
    widths = {width for _, _, width, _ in rows} if dim is None else {dim}
    width = widths.pop() if len(widths) == 1 else 0
    sound = [
        (key, id, blob)
        for key, id, entry_width, blob in rows
        if blob
        and entry_width == width
        and len(blob) == 4 + 4 * width
        and blob[:4] == _checksum(key, memoryview(blob)[4:])
    ]
    # One array of all blobs; its first column is the checksums.
    joined = np.frombuffer(b"".join(blob for _, _, blob in sound), "<f4").reshape(len(sound), 1 + width)
    ids = [id for _, id, _ in sound]
    damaged = {id for _, id, _, _ in rows}.difference(ids)
    vectors = joined[:, 1:].astype(np.float32, copy=False)
    return CachedRows([key for key, _, _ in sound], vectors, sorted(damaged)), ids


def _existing_keys(raw: "sqlite3.Connection", keys: Sequence[str]) -> set[str]:
    sql = "SELECT value FROM json_each(?) AS wanted JOIN entry ON entry.key = wanted.value"
    return {key for (key,) in raw.execute(sql, [json.dumps(keys)])}


def _make_room(raw: "sqlite3.Connection", most: int) -> None:
    """Remove the least recently used entries until the others take at most `most` bytes."""
    (excess,) = raw.execute("SELECT bytes - ? FROM total", [most]).fetchone()
    oldest: list[int] = []
    # Read entry by entry: usually a few of the oldest are enough.
    by_use = raw.execute("SELECT id, dim FROM entry ORDER BY used")
    while excess > 0 and (entry := by_use.fetchone()):
        oldest.append(entry[0])
        excess -= ENTRY_BYTES + 4 * entry[1]
    by_use.close()
    _remove(raw, oldest)


def _remove(raw: "sqlite3.Connection", ids: Sequence[int]) -> None:
    if not ids:
        return
    parameters = [json.dumps(ids)]
    sql = "DELETE FROM entry WHERE id IN (SELECT value FROM json_each(?)) RETURNING dim"
    widths = raw.execute(sql, parameters).fetchall()
    raw.execute("DELETE FROM vector WHERE id IN (SELECT value FROM json_each(?))", parameters)
    raw.execute("UPDATE total SET bytes = bytes - ?", [sum(ENTRY_BYTES + 4 * dim for (dim,) in widths)])


def _insert(raw: "sqlite3.Connection", new: Sequence[tuple[str, bytes]], dim: int) -> None:
    (last,) = raw.execute("SELECT ifnull(max(used), 0) FROM entry").fetchone()
    entries = ((key, last + order, dim) for order, (key, _) in enumerate(new, 1))
    raw.executemany("INSERT INTO entry (key, used, dim) VALUES (?, ?, ?)", entries)
    vectors = ((blob, key) for key, blob in new)
    raw.executemany("INSERT OR REPLACE INTO vector SELECT id, ? FROM entry WHERE key = ?", vectors)
    raw.execute("UPDATE total SET bytes = bytes + ?", [(ENTRY_BYTES + 4 * dim) * len(new)])
