"""The file of a corpus: its tables, and opening it with care."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airw.errors import CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.stores._fts import TEXT_TABLES
from airw.stores._sql_filter import register_functions

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

APPLICATION_ID = 0x61697277  # "airw"
VERSION = 1

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
    "CREATE TABLE vector (rowid INTEGER PRIMARY KEY, data BLOB NOT NULL)",
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
        target TEXT,
        state TEXT NOT NULL,
        PRIMARY KEY (artifact_id, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX link_by_ref ON link (ref)",
    "CREATE INDEX link_by_target ON link (target, type) WHERE state = 'resolved'",
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
        raise _translated(path, error) from error


def _translated(path: Path, error: "sqlite3.Error") -> StoreError:
    import sqlite3

    # The lower byte is the kind of an error, whatever its details.
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StoreBusy(f"another writer holds {str(path)!r}; try again when it has finished")
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_NOTADB | sqlite3.SQLITE_FORMAT:
            return StoreCorrupt(f"{str(path)!r} is damaged or not a corpus ({error}); restore it or build it again")
        case sqlite3.SQLITE_FULL:
            return StoreError(f"no room to write {str(path)!r} ({error}); free some space and try again")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_IOERR:
            return StoreError(f"{str(path)!r} cannot be read or written ({error}); it needs a folder one can write to")
        case _:
            return StoreError(f"{str(path)!r}: {error}")


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
    """Open a corpus's file for use in any one thread at a time.

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

    if not create and not (path.is_file() and path.stat().st_size):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build it first")
    with sqlite_errors(path):
        connection = sqlite3.connect(
            f"{path.as_uri()}?mode={'rwc' if create else 'rw'}",
            uri=True,
            isolation_level=None,
            check_same_thread=False,
            timeout=5.0,  # for whoever makes the file, or recovers it after a crash, at the same time
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
        connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection, "IMMEDIATE"):
            if _is_empty(connection):  # nobody was faster
                _create_tables(connection)
    _check_ours(connection, path)
    connection.execute("PRAGMA synchronous = NORMAL")
    register_functions(connection)


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
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check_ours(connection: "sqlite3.Connection", path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if owner != APPLICATION_ID:
        raise StoreCorrupt(f"{str(path)!r} is a database of another application; give the path of a corpus")
    if version != VERSION:
        raise StoreCorrupt(
            f"{str(path)!r} has format {version}, this version of airw reads {VERSION}; upgrade airw or build it again"
        )
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    missing = {"record", "record_text", "artifact", "vector", "gone", "link", "name", "setting"} - tables
    if missing:
        raise StoreCorrupt(f"{str(path)!r} lacks the table {min(missing)!r}; restore it or build it again")
