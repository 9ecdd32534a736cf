"""The file behind the embedding cache: vectors under hashed keys, and the order in which they were last used."""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from airw._base.arrays import Floats
from airw.errors import StoreBusy, StoreCorrupt, StoreError

if TYPE_CHECKING:
    import sqlite3

ENTRY_BYTES = 128  # what an entry takes beside its vector: its key, twice, its place in the order, half-full pages

_APPLICATION_ID = 0x61697265
_VERSION = 1
# What changes with every use is kept apart from the vectors, which are wide. STRICT, so that numbers are numbers.
_SETUP = (
    "CREATE TABLE entry (id INTEGER PRIMARY KEY, key TEXT UNIQUE, used INTEGER NOT NULL, dim INTEGER NOT NULL) STRICT",
    "CREATE INDEX entry_by_use ON entry (used)",
    "CREATE TABLE vector (id INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT",
    "CREATE TABLE total (bytes INTEGER NOT NULL) STRICT",
    "INSERT INTO total VALUES (0)",
    f"PRAGMA application_id = {_APPLICATION_ID}",
    f"PRAGMA user_version = {_VERSION}",
)


class Found(NamedTuple):
    """Keys with a row each, and the ids of entries that are damaged."""

    keys: list[str]
    rows: Floats
    damaged: list[int]


class CacheFile:
    """A least-recently-used cache in one SQLite database, for one thread at a time; the others wait.

    Uses are kept in memory and written with the next vectors, so that reading writes nothing.
    """

    def __init__(self, path: Path | None, max_bytes: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._lock = threading.RLock()  # a garbage collection may close it while it is held
        self._raw: sqlite3.Connection | None = None
        self._is_closed = False
        self._uses: dict[int, None] = {}  # ids of entries, the latest use last

    def read(self, keys: Sequence[str], dim: int | None) -> Found:
        """Return the vectors of those keys that are there; without a width to expect, they must agree on one."""
        with self._connected() as raw:
            rows = raw.execute(
                "SELECT given.value, entry.id, dim, CAST(data AS BLOB) FROM json_each(?) AS given "
                # Not a plain join, which might be done in another order.
                "CROSS JOIN entry ON entry.key = given.value LEFT JOIN vector ON vector.id = entry.id",
                [json.dumps(keys)],
            ).fetchall()
            found, ids = _checked(rows, dim)
            for id in ids:
                self._uses.pop(id, None)
            self._uses.update(dict.fromkeys(ids))
        return found

    def write(self, keys: Sequence[str], rows: Floats, damaged: Sequence[int]) -> None:
        """Add rows under their keys in place of the least recently used; what is there already stays as it is."""
        size = ENTRY_BYTES + 4 * rows.shape[1]
        start = max(0, len(keys) - self._max_bytes // size)  # the last ones, if not all have room
        vectors = (row.tobytes() for row in np.ascontiguousarray(rows[start:], "<f4"))
        blobs = [(key, _checksum(key, data) + data) for key, data in zip(keys[start:], vectors, strict=True)]
        with self._writing() as raw:
            _remove(raw, damaged)
            known = _known(raw, keys[start:])
            fresh = [(key, blob) for key, blob in blobs if key not in known]
            _make_room(raw, self._max_bytes - size * len(fresh))
            _insert(raw, fresh, rows.shape[1])

    @property
    def pending_uses(self) -> int:
        """Count the entries that were used since the last writing; none once it is closed."""
        return 0 if self._is_closed else len(self._uses)

    def write_uses(self) -> None:
        """Write down which entries were used since the last writing."""
        with self._writing():
            pass

    def close(self) -> None:
        """Let go of the file; what is not written yet of the order of use is forgotten."""
        with self._lock:
            self._is_closed = True
            if self._raw is not None:
                self._raw.close()
                self._raw = None

    @contextmanager
    def _writing(self) -> "Iterator[sqlite3.Connection]":
        """Write in one transaction, beginning with the uses that wait for it."""
        with self._connected() as raw:
            with _transaction(raw):
                (last,) = raw.execute("SELECT ifnull(max(used), 0) FROM entry").fetchone()
                numbered = ((last + order, id) for order, id in enumerate(self._uses, 1))
                raw.executemany("UPDATE entry SET used = ? WHERE id = ?", numbered)
                yield raw
            self._uses.clear()

    @contextmanager
    def _connected(self) -> "Iterator[sqlite3.Connection]":
        """Hold the lock and the connection; what SQLite reports becomes an error that says what would do."""
        import sqlite3

        with self._lock:
            if self._is_closed:
                raise StoreError(f"{self._name} is closed; make another CachedEmbedder")
            try:
                if self._raw is None:
                    self._raw = self._connect()
                yield self._raw
            except sqlite3.Error as error:
                raise self._translated(error) from error

    def _connect(self) -> "sqlite3.Connection":
        import sqlite3

        if sqlite3.sqlite_version_info < (3, 38):  # which came with json_each as a matter of course
            raise StoreError(
                f"this Python has SQLite {sqlite3.sqlite_version}, {self._name} needs 3.38 or later; use another Python"
            )
        raw = sqlite3.connect(self._path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False)
        try:
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
            raise StoreCorrupt(f"{self._name} is a database of something else; give the cache a path of its own")
        if version != _VERSION:
            raise StoreCorrupt(f"{self._name} has format {version}, not {_VERSION}; delete it, or upgrade airw")
        if raw.execute("SELECT count(bytes) FROM total").fetchone() != (1,):
            raise StoreCorrupt(f"{self._name} is damaged (its total is missing); delete it, it fills again")

    @property
    def _name(self) -> str:
        return f"the embedding cache {str(self._path)!r}" if self._path else "the embedding cache in memory"

    def _translated(self, error: Exception) -> StoreError:
        import sqlite3

        # The lower byte is the kind of an error, whatever its details.
        match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF:
            case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
                return StoreBusy(f"another process keeps {self._name} locked; try again when it has finished")
            case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT | sqlite3.SQLITE_ERROR:
                return StoreCorrupt(f"{self._name} is damaged or something else ({error}); delete it, it fills again")
            case sqlite3.SQLITE_FULL:
                return StoreError(f"no room to write {self._name} ({error}); free some space, or give another path")
            case _:
                return StoreError(f"{self._name} cannot be read or written ({error}); give a path one can write to")


def _create(raw: "sqlite3.Connection") -> None:
    with _transaction(raw):
        if raw.execute("SELECT 1 FROM sqlite_schema").fetchone() is None:  # nobody was faster
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
    """Return four bytes that go with this vector under this key, as SQLite notices no damage to what rows hold."""
    return crc32(data, crc32(key.encode())).to_bytes(4, "little")


def _checked(rows: Sequence[tuple[str, int, int, bytes | None]], dim: int | None) -> tuple[Found, list[int]]:
    """Part sound rows from damaged ones; return the ids of the sound ones, too."""
    widths = {width for _, _, width, _ in rows} if dim is None else {dim}
    width = widths.pop() if len(widths) == 1 else 0
    sound = [
        (key, id, blob)
        for key, id, own, blob in rows
        if blob and own == width and len(blob) == 4 + 4 * width and blob[:4] == _checksum(key, memoryview(blob)[4:])
    ]
    joined = np.frombuffer(b"".join(blob for _, _, blob in sound), "<f4").reshape(len(sound), 1 + width)
    ids = [id for _, id, _ in sound]
    damaged = {id for _, id, _, _ in rows}.difference(ids)
    return Found([key for key, _, _ in sound], joined[:, 1:].astype(np.float32, copy=False), sorted(damaged)), ids


def _known(raw: "sqlite3.Connection", keys: Sequence[str]) -> set[str]:
    sql = "SELECT value FROM json_each(?) AS given JOIN entry ON entry.key = given.value"
    return {key for (key,) in raw.execute(sql, [json.dumps(keys)])}


def _make_room(raw: "sqlite3.Connection", most: int) -> None:
    """Remove the least recently used entries until the others count at most `most` bytes."""
    (excess,) = raw.execute("SELECT bytes - ? FROM total", [most]).fetchone()
    oldest: list[int] = []
    by_use = raw.execute("SELECT id, dim FROM entry ORDER BY used")
    while excess > 0 and (entry := by_use.fetchone()):
        oldest.append(entry[0])
        excess -= ENTRY_BYTES + 4 * entry[1]
    by_use.close()
    _remove(raw, oldest)


def _remove(raw: "sqlite3.Connection", ids: Sequence[int]) -> None:
    if not ids:
        return
    given = [json.dumps(ids)]
    gone = raw.execute("DELETE FROM entry WHERE id IN (SELECT value FROM json_each(?)) RETURNING dim", given).fetchall()
    raw.execute("DELETE FROM vector WHERE id IN (SELECT value FROM json_each(?))", given)
    raw.execute("UPDATE total SET bytes = bytes - ?", [sum(ENTRY_BYTES + 4 * dim for (dim,) in gone)])


def _insert(raw: "sqlite3.Connection", fresh: Sequence[tuple[str, bytes]], dim: int) -> None:
    (last,) = raw.execute("SELECT ifnull(max(used), 0) FROM entry").fetchone()
    entries = ((key, last + order, dim) for order, (key, _) in enumerate(fresh, 1))
    raw.executemany("INSERT INTO entry (key, used, dim) VALUES (?, ?, ?)", entries)
    vectors = ((blob, key) for key, blob in fresh)
    raw.executemany("INSERT OR REPLACE INTO vector SELECT id, ? FROM entry WHERE key = ?", vectors)
    raw.execute("UPDATE total SET bytes = bytes + ?", [(ENTRY_BYTES + 4 * dim) * len(fresh)])
