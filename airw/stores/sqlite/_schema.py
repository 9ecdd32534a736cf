"""The file of a corpus: its tables, and opening and removing it with care."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import anyio

from airw._base.concurrency import in_thread
from airw._base.messages import one_line
from airw.errors import CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.stores._indexes.texts import TEXT_TABLES, prepare_texts
from airw.stores.sqlite._conditions import register_functions

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

APPLICATION_ID = 0x61697277  # "airw"
_PATIENCE = 5.0  # seconds for whoever makes, closes or recovers the file at the same time
_RETRY_EVERY = 0.01  # seconds
_CACHE = 8_192  # KiB of pages that a connection keeps: those above the leaves, that every step of a walk reads again
VERSION = 3

_TABLES = (
    *TEXT_TABLES,
    """CREATE TABLE artifact (
        id TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        embedder_id TEXT NOT NULL,
        strategy_id TEXT NOT NULL,
        extractor_id TEXT NOT NULL,
        source TEXT NOT NULL
    ) WITHOUT ROWID""",
    # Beside the records: their rows stay small for what reads no vectors.
    "CREATE TABLE vector (rowid INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)",
    # How many rows are left of each run of 2 ** BUCKET_BITS rowids.
    "CREATE TABLE bucket (number INTEGER PRIMARY KEY, live INTEGER NOT NULL)",
    # What matrices in memory must drop. Records' rowids only grow, so new ones need no such list.
    "CREATE TABLE gone (seq INTEGER PRIMARY KEY AUTOINCREMENT, record_id TEXT NOT NULL)",
    """CREATE TABLE link (
        artifact_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        ref TEXT NOT NULL,
        type TEXT NOT NULL,
        origin TEXT NOT NULL,
        target_source TEXT,
        file TEXT,
        line INTEGER,
        or_ref TEXT,
        target TEXT,
        state TEXT NOT NULL,
        PRIMARY KEY (artifact_id, type, origin, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX link_by_ref ON link (ref)",
    "CREATE INDEX link_by_or_ref ON link (or_ref) WHERE or_ref IS NOT NULL",
    # All that an edge needs: the rows themselves are all over the file.
    "CREATE INDEX link_by_target ON link (target, type, origin, artifact_id) WHERE target IS NOT NULL",
    "CREATE INDEX link_unresolved ON link (artifact_id, position) WHERE state IN ('dangling', 'ambiguous')",
    "CREATE TABLE name (key TEXT, tier INTEGER, artifact_id TEXT, PRIMARY KEY (key, tier, artifact_id)) WITHOUT ROWID",
    "CREATE INDEX name_of_artifact ON name (artifact_id)",
    "CREATE TABLE setting (kind TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
)


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """Raise what SQLite reports as an error of this library that says what would do."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise _translate(path, error) from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:  # all JSON and text in a file is ours
        raise StoreCorrupt(_describe_damage(path, error)) from error


def _translate(path: Path, error: "sqlite3.Error") -> StoreError:
    import sqlite3

    # The lower byte is the kind of an error, whatever its details.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"another writer holds {str(path)!r}; try again when it has finished")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return StoreCorrupt(_describe_damage(path, error))
        case sqlite3.SQLITE_FULL:
            return StoreError(f"no room to write {str(path)!r} ({error}); free some space and try again")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return StoreError(
                f"{str(path)!r} cannot be read or written ({error}); it needs a folder one can write to, with room"
            )
        case _ if "decode to UTF-8" in str(error) or "malformed JSON" in str(error):
            return StoreCorrupt(_describe_damage(path, error))
        case _:
            return StoreError(f"{str(path)!r}: {one_line(str(error))}")


def _describe_damage(path: Path, error: Exception) -> str:
    said = one_line(str(error))
    return f"{str(path)!r} is damaged or not a corpus ({said}); restore it, or remove it and build it again"


@contextmanager
def transaction(connection: "sqlite3.Connection", kind: str = "DEFERRED") -> Iterator[None]:
    """See one state of the file and change it as a whole or not at all."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def in_snapshot(connection: "sqlite3.Connection", work: "Callable[[sqlite3.Connection], R]") -> R:
    """Call `work(connection)`, however many statements it is, on one state of the file."""
    with transaction(connection):
        return work(connection)


def connect(path: Path, *, create: bool = False, writable: bool = False) -> "sqlite3.Connection":
    """Open a corpus's file for use in any one thread at a time; one with an `immutable_state` is read without locks.

    Args:
        path: The file, absolute.
        create: Make the file, or the tables in an empty one, where there are none.
        writable: Without it, writing to the file is refused.

    Raises:
        CorpusNotFound: There is no file, or an empty one, and it is not to be created.
        StoreCorrupt: The file is something else, is damaged, or comes from a newer version.
        StoreError: The file cannot be opened, or this Python's SQLite lacks what is needed.
    """
    import sqlite3

    if not create and not _holds_something(path):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build it first")
    deadline = time.monotonic() + _PATIENCE
    with sqlite_errors(path):
        while True:
            try:
                return _open_connection(path, create=create, writable=writable)
            except sqlite3.OperationalError as error:
                # Nor does SQLite always wait by itself, for a change to WAL say, or for the last one to close.
                kind = getattr(error, "sqlite_errorcode", 0) & 0xFF
                is_passing = kind in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)
                if not is_passing or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_EVERY)


def _holds_something(path: Path) -> bool:
    try:
        found = path.is_file() and path.stat().st_size > 0
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read ({error.strerror}); ask its owner for access") from error
    if found and not os.access(path, os.R_OK):
        raise StoreError(f"{str(path)!r} cannot be read (Permission denied); ask its owner for access")
    return found


def immutable_state(path: Path) -> tuple[int, int, int] | None:
    """Return inode, time and size of a file that we may not write to and nobody else is writing to; else `None`.

    SQLite would make files beside it even to read it, and so could not read it in a folder that cannot be written.
    """
    if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return None
    log, index = (path.with_name(path.name + suffix) for suffix in ("-wal", "-shm"))
    if log.exists() and (index.exists() or log.stat().st_size):
        return None
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def check_removable(path: Path) -> None:
    """Refuse a file that is neither a corpus nor, by its name, was meant to be one.

    Raises:
        StoreError: It is another application's, or cannot be read.
    """
    if path.suffix == ".airw" or not path.exists():
        return
    try:
        with path.open("rb") as file:
            owner = file.read(72)[68:]
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read ({error.strerror})") from error
    if owner != APPLICATION_ID.to_bytes(4):
        raise StoreError(f"{str(path)!r} is no corpus; remove a file of your own with your own tools")


async def remove_files(path: Path, segments: Path) -> None:
    """Remove a corpus's file, what SQLite keeps beside it, and the folder of its indexes.

    Raises:
        StoreError: A file cannot be removed.
    """
    await in_thread(partial(shutil.rmtree, segments, ignore_errors=True))
    for suffix in ("-wal", "-shm", "", "-lock"):  # in this order: without its log, a database is only older
        file = path.with_name(path.name + suffix)
        try:
            await anyio.Path(file).unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{str(file)!r} cannot be removed ({error.strerror})") from error


def _open_connection(path: Path, *, create: bool, writable: bool) -> "sqlite3.Connection":
    import sqlite3

    mode = "ro&immutable=1" if immutable_state(path) else "rwc" if create else "rw"
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=_PATIENCE
    )
    try:
        _prepare(connection, path, create=create)
        connection.execute(f"PRAGMA query_only = {not writable:d}")
        if writable:
            connection.execute("PRAGMA busy_timeout = 0")  # writers wait where they can be cancelled
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: "sqlite3.Connection", path: Path, *, create: bool) -> None:
    import sqlite3

    modules = {name for (name,) in connection.execute("SELECT name FROM pragma_module_list")}
    check_sqlite(sqlite3.sqlite_version_info, has_fts5="fts5" in modules)
    if create and _is_empty(connection):
        connection.execute("PRAGMA page_size = 8192")  # a vector of 384 or 512 numbers wastes half a page of 4,096
        connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection, "IMMEDIATE"):
            if _is_empty(connection):  # nobody was faster
                _create_tables(connection)
    _check_ours(connection, path)
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute(f"PRAGMA cache_size = -{_CACHE}")
    register_functions(connection)
    prepare_texts(connection)


def check_sqlite(version: tuple[int, ...], *, has_fts5: bool) -> None:
    """Refuse an SQLite that is too old (`->` came with 3.38) or was compiled without full-text search.

    Raises:
        StoreError: It is.
    """
    if version < (3, 38) or not has_fts5:
        found = f"SQLite {'.'.join(map(str, version))} {'with' if has_fts5 else 'without'} FTS5"
        raise StoreError(
            f"this Python has {found}, SqliteStore needs 3.38 or later with it; use another Python, or MemoryStore"
        )


def _is_empty(connection: "sqlite3.Connection") -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


def _create_tables(connection: "sqlite3.Connection") -> None:
    for statement in _TABLES:
        connection.execute(statement)
    # What tells this file from any other, for those that keep something beside it.
    connection.execute("""INSERT INTO setting VALUES ('file', 'mark', '"' || hex(randomblob(6)) || '"')""")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check_ours(connection: "sqlite3.Connection", path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != APPLICATION_ID:
        if _is_empty(connection):  # killed while making it
            raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build it first")
        raise StoreCorrupt(f"{str(path)!r} is a database of another application; give the path of a corpus")
    if version != VERSION:
        raise StoreCorrupt(
            f"{str(path)!r} has format {version}, this version of airw reads {VERSION}; upgrade airw or build it again"
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    missing = {"record", "record_text", "artifact", "vector", "bucket", "gone", "link", "name", "setting"} - tables
    if missing:
        lacking = f"lacks the table {min(missing)!r}"
        raise StoreCorrupt(f"{str(path)!r} {lacking}; restore it, or remove it and build it again")
