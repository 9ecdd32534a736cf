"""The file of a corpus: its tables, its errors, and how it is opened and removed."""

import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from airw._base.file_lock import MORE_FILES, hold_folder, lacks_open_files
from airw._base.messages import one_line, short_repr
from airw._base.schemas import find_foreign, read_schema, small_limits, tidy_sql
from airw.errors import CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.stores._indexes.texts import (
    INDEX_STATEMENTS,
    PASSING_STATEMENTS,
    RECORD_TABLES,
    change_language,
    create_index,
    prepare_texts,
    read_language,
)
from airw.stores._stored_values import DamagedValue
from airw.stores.sqlite._field_sql import register_functions
from airw.stores.sqlite.durability import Durability
from airw.values import Language

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

APPLICATION_ID = 0x61697277  # "airw"
_PATIENCE = 5.0  # seconds to wait for processes that create, close or recover the file at the same time
_RETRY_EVERY = 0.01  # seconds
_CACHE = 16_384  # KiB of pages of the first connection: what a walk of some thousand artifacts reads again
VERSION = 8
_OLDEST_VERSION = 6  # the oldest format that is read; the first write brings it up to date
_LONGEST_PATH = 500  # bytes; SQLite opens 512, and some of them are for the names of its other files
_SIGNS_OF_DAMAGE = ("decode to UTF-8", "malformed JSON", "cannot hold BLOB", "text index does not match")
MEND = "check its disk, then restore a copy of it, or remove it and build it again"
"""What would do for a damaged file, as the end of an error message."""

# A covering index for incoming edges, as the rows of these links are spread over the whole file.
_LINK_BY_TARGET = (
    "CREATE INDEX link_by_target ON link (target, type, origin, artifact_id, weight) WHERE target IS NOT NULL"
)
_WEIGHTED = 7  # from this format on, links have a weight; null stands for 1
_ADD_WEIGHTS = ("ALTER TABLE link ADD COLUMN weight REAL", "DROP INDEX IF EXISTS link_by_target", _LINK_BY_TARGET)
_TABLES = (
    *RECORD_TABLES,
    """CREATE TABLE artifact (
        id TEXT PRIMARY KEY,
        version TEXT NOT NULL,
        embedder_id TEXT NOT NULL,
        strategy_id TEXT NOT NULL,
        extractor_id TEXT NOT NULL,
        source TEXT NOT NULL
    ) WITHOUT ROWID""",
    # Apart from the records, whose rows stay small for statements that read no vectors.
    "CREATE TABLE vector (rowid INTEGER PRIMARY KEY, data BLOB NOT NULL, sum INTEGER NOT NULL)",
    # The number of remaining rows in each bucket of 65,536 rowids.
    "CREATE TABLE bucket (number INTEGER PRIMARY KEY, live INTEGER NOT NULL)",
    # Tombstones: records that indexes in memory must drop. New records need no such list, as their rowids only grow.
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
        folded TEXT,
        or_folded TEXT,
        weight REAL,
        PRIMARY KEY (artifact_id, type, origin, position)
    ) WITHOUT ROWID""",
    "CREATE INDEX link_by_ref ON link (ref)",
    "CREATE INDEX link_by_or_ref ON link (or_ref) WHERE or_ref IS NOT NULL",
    # The folded form of a reference, if it is another text. Most references have none.
    "CREATE INDEX link_by_folded ON link (folded) WHERE folded IS NOT NULL",
    "CREATE INDEX link_by_or_folded ON link (or_folded) WHERE or_folded IS NOT NULL",
    _LINK_BY_TARGET,
    "CREATE INDEX link_unresolved ON link (artifact_id, position) WHERE state IN ('dangling', 'ambiguous')",
    # Artifacts whose links have changed, as edges in memory must be read again; null stands for all artifacts.
    "CREATE TABLE link_change (seq INTEGER PRIMARY KEY AUTOINCREMENT, artifact_id TEXT)",
    "CREATE TABLE name (key TEXT, tier INTEGER, artifact_id TEXT, PRIMARY KEY (key, tier, artifact_id)) WITHOUT ROWID",
    "CREATE INDEX name_of_artifact ON name (artifact_id)",
    "CREATE TABLE setting (kind TEXT, key TEXT, value TEXT NOT NULL, PRIMARY KEY (kind, key)) WITHOUT ROWID",
)


class WrongFormat(StoreCorrupt):
    """The file is whole, but of another application or of another version of airw."""


@contextmanager
def translate_errors(path: Path) -> Iterator[None]:
    """Translate errors of SQLite, and of damaged content, to errors of this library."""
    import sqlite3

    try:
        yield
    except sqlite3.Error as error:
        raise _to_store_error(path, error) from error
    except (json.JSONDecodeError, UnicodeDecodeError, DamagedValue) as error:
        # airw wrote all JSON and text in the file, so this is damage.
        raise StoreCorrupt(_describe_damage(path, error)) from error


def _to_store_error(path: Path, error: "sqlite3.Error") -> StoreError:
    import sqlite3

    code = getattr(error, "sqlite_errorcode", 0) & 0xFF  # the primary error code; the other bytes contain details
    reasons = {
        sqlite3.SQLITE_FULL: f"cannot be written ({error}); free some space and try again",
        sqlite3.SQLITE_IOERR: (
            f"cannot be read or written ({error}); check its disk, cable or network, and free space"
        ),
        sqlite3.SQLITE_CANTOPEN: f"cannot be read or written ({error}); it needs a writable folder with free space",
    }
    reasons |= dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM), reasons[sqlite3.SQLITE_CANTOPEN])
    if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR) and lacks_open_files():
        reasons[code] = f"cannot be read or written ({error}); {MORE_FILES}"
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"another writer has locked {str(path)!r}; try again when it has finished")
    if code == sqlite3.SQLITE_CANTOPEN and (length := len(os.fsencode(os.path.realpath(path)))) > _LONGEST_PATH:
        return StoreError(
            f"{short_repr(str(path))} cannot be opened: its path has {length} bytes, and SQLite opens paths of up "
            f"to {_LONGEST_PATH}; use a shorter one"
        )
    if code in reasons:
        return StoreError(f"{str(path)!r} {reasons[code]}")
    is_damage = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT)
    if is_damage or any(sign in str(error) for sign in _SIGNS_OF_DAMAGE):
        return StoreCorrupt(_describe_damage(path, error))
    return StoreError(f"{str(path)!r}: {one_line(str(error))}")


def _describe_damage(path: Path, error: Exception) -> str:
    reason = one_line(str(error))
    return f"{str(path)!r} is damaged or not a corpus ({reason}); {MEND}"


@contextmanager
def transaction(connection: "sqlite3.Connection", kind: str = "DEFERRED") -> Iterator[None]:
    """Run the block in one transaction, which changes the file all or nothing."""
    connection.execute(f"BEGIN {kind}")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


@contextmanager
def write_transaction(connection: "sqlite3.Connection") -> Iterator[None]:
    """Run the block in one transaction that writes.

    A file of an older format gets the current one.
    """
    with transaction(connection, "IMMEDIATE"):
        if (version := _read_version(connection)) < VERSION:
            for statement in _ADD_WEIGHTS if version < _WEIGHTED else ():
                connection.execute(statement)
            change_language(connection, read_language(connection))
            connection.execute(f"PRAGMA user_version = {VERSION}")
        yield


def _read_version(connection: "sqlite3.Connection") -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return int(version)


def connect(
    path: Path,
    *,
    create: bool = False,
    writable: bool = False,
    durability: Durability = "normal",
    language: Language | None = "en",
    cache: int = _CACHE,
) -> "sqlite3.Connection":
    """Open the file of a corpus, for use in one thread at a time.

    Meanwhile `replace_file` puts no other file in its place. A file with a `read_immutable_state` is read without
    locks.

    Args:
        path: The file, absolute.
        create: Whether to create the file and its tables if they do not exist.
        writable: Whether the connection may write to the file.
        durability: What an acknowledged write survives; see `SqliteStore`.
        language: The language of the texts in a file that is created.
        cache: The KiB of pages that the connection may keep.

    Raises:
        CorpusNotFound: If there is no file or an empty one, and `create` is false.
        StoreCorrupt: If the file is not a corpus, is damaged, or is from a newer version.
        StoreError: If the file cannot be opened, or SQLite is too old or lacks full-text search.
    """
    import sqlite3

    if not create and not _has_content(path):
        raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build it first")
    pragmas = {
        "cache_size": -cache,
        "trusted_schema": 0,  # if the schema changes later, it calls no unsafe function
        # Only "full" waits at each commit until the log is on the disk; "normal" does so when the log is copied.
        "synchronous": durability.upper(),
        "query_only": int(not writable),
        # `run_with_retry` waits for a writer, and can be cancelled.
        "busy_timeout": 0 if writable else int(1000 * _PATIENCE),
    }
    deadline = time.monotonic() + _PATIENCE
    with hold_folder(path.parent, shared=True), translate_errors(path):
        while True:
            try:
                return _open_connection(path, create, language, pragmas)
            except sqlite3.OperationalError as error:
                # SQLite does not always wait by itself: not for a change to WAL, nor for the last connection to close.
                code = getattr(error, "sqlite_errorcode", 0) & 0xFF
                is_temporary = code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_PROTOCOL)
                if not is_temporary or time.monotonic() > deadline:
                    raise
            time.sleep(_RETRY_EVERY)


def _has_content(path: Path) -> bool:
    try:
        has_content = path.is_file() and path.stat().st_size > 0
    except OSError as error:
        raise StoreError(f"{str(path)!r} cannot be read ({error.strerror}); ask its owner for access") from error
    if has_content and not os.access(path, os.R_OK):
        raise StoreError(f"{str(path)!r} cannot be read (Permission denied); ask its owner for access")
    return has_content


def file_state(path: Path) -> tuple[int, ...]:
    """Return device, inode, size and times of a file.

    Raises:
        OSError: If there is no such file.
    """
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def beside(path: Path, suffix: str) -> Path:
    """Return the path of a file beside another one."""
    return path.with_name(path.name + suffix)


def log_paths(path: Path) -> tuple[Path, Path]:
    """Return the paths of the log that SQLite applies to a file, and of its index."""
    return beside(path, "-wal"), beside(path, "-shm")


def read_immutable_state(path: Path) -> tuple[int, ...] | None:
    """Return the state of a file that must be read without locks; else `None`.

    Such a file, or its folder, is read-only, and nobody else is writing to it. To lock it, SQLite would create files
    beside it, and so could not read it at all.
    """
    if not path.is_file() or (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        return None
    # A log that is open or not empty means that somebody else is writing.
    log, index = log_paths(path)
    if log.exists() and (index.exists() or log.stat().st_size):
        return None
    return file_state(path)


def check_removable(path: Path) -> None:
    """Check that a file is a corpus by its content, or was meant to be one by its name.

    Raises:
        StoreError: If it belongs to another application, or cannot be read.
    """
    if path.suffix == ".airw" or not path.exists():
        return
    import sqlite3

    # Through SQLite, as it alone may open and close a file that it has locked in this process.
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            (owner,) = connection.execute("PRAGMA application_id").fetchone()
    except sqlite3.OperationalError as error:
        raise StoreError(f"{str(path)!r} cannot be read ({error})") from error
    except sqlite3.DatabaseError:
        owner = None
    if owner != APPLICATION_ID:
        raise StoreError(f"{str(path)!r} is not a corpus; delete it by other means if you no longer need it")


def remove_files(path: Path, folder: Path) -> None:
    """Remove the file of a corpus, the files of SQLite beside it, and its saved vectors.

    Raises:
        StoreError: If a file cannot be removed.
    """
    from shutil import rmtree

    rmtree(folder, ignore_errors=True)
    # The log goes first: if removal stops halfway, a database without its log is only older.
    # What a killed copy leaves goes too; the lock goes last.
    for suffix in ("-wal", "-shm", "", "-partial", "-partial-wal", "-partial-shm", "-lock"):
        file = beside(path, suffix)
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{str(file)!r} cannot be removed ({error.strerror})") from error


def open_raw(path: Path, mode: str, timeout: float) -> "sqlite3.Connection":
    """Open a file as it is, in a mode of SQLite.

    A file with a `read_immutable_state` is read without locks.
    """
    import sqlite3

    mode = "ro&immutable=1" if read_immutable_state(path) else mode
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False, timeout=timeout
    )


def _open_connection(
    path: Path,
    create: bool,  # noqa: FBT001
    language: Language | None,
    pragmas: Mapping[str, object],
) -> "sqlite3.Connection":
    import sqlite3

    connection = open_raw(path, "rwc" if create else "rw", _PATIENCE)
    try:
        with small_limits(connection):
            _prepare(connection, path, create, language)
        for name, value in pragmas.items():
            connection.execute(f"PRAGMA {name} = {value}")
    except BaseException as error:
        connection.close()
        if isinstance(error, sqlite3.DataError):  # a statement is longer than all that airw writes
            raise StoreCorrupt(_describe_damage(path, error)) from error
        raise
    return connection


def _prepare(connection: "sqlite3.Connection", path: Path, create: bool, language: Language | None) -> None:  # noqa: FBT001
    import sqlite3

    modules = {name for (name,) in connection.execute("SELECT name FROM pragma_module_list")}
    check_sqlite(sqlite3.sqlite_version_info, has_fts5="fts5" in modules)
    if create and _is_empty(connection):
        connection.execute("PRAGMA page_size = 8192")  # a vector of 384 or 512 numbers wastes half a page of 4,096
        connection.execute("PRAGMA journal_mode = WAL")
        with transaction(connection, "IMMEDIATE"):
            if _is_empty(connection):  # else another process was faster
                _create_tables(connection, language)
    _check_format(connection, path)
    register_functions(connection)
    prepare_texts(connection)


def check_sqlite(version: tuple[int, ...], *, has_fts5: bool) -> None:
    """Check that SQLite has the operator `->`, which came with 3.38, and full-text search.

    Raises:
        StoreError: If it lacks one of them.
    """
    if version < (3, 38) or not has_fts5:
        present = f"SQLite {'.'.join(map(str, version))} {'with' if has_fts5 else 'without'} FTS5"
        raise StoreError(
            f"SqliteStore needs SQLite 3.38 or later with FTS5, but this Python has {present}; "
            "use another Python, or MemoryStore"
        )


def _is_empty(connection: "sqlite3.Connection") -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


def _create_tables(connection: "sqlite3.Connection", language: Language | None) -> None:
    for statement in _TABLES:
        connection.execute(statement)
    create_index(connection, language)
    # The mark distinguishes this file from any other. The files of saved vectors carry it in their names.
    connection.execute("""INSERT INTO setting VALUES ('file', 'mark', '"' || hex(randomblob(6)) || '"')""")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def _check_format(connection: "sqlite3.Connection", path: Path) -> None:
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    version = _read_version(connection)
    if owner != APPLICATION_ID:
        if _is_empty(connection):  # the process that created it was killed
            raise CorpusNotFound(f"there is no corpus at {str(path)!r}; build it first")
        raise WrongFormat(f"{str(path)!r} is a database of another application; use the path of a corpus")
    if not _OLDEST_VERSION <= version <= VERSION:
        raise WrongFormat(
            f"{str(path)!r} has format {version}, this version of airw reads {_OLDEST_VERSION} to {VERSION}; "
            "upgrade airw or build it again"
        )
    _check_schema(connection, path, version)


def _check_schema(connection: "sqlite3.Connection", path: Path, version: int) -> None:
    """Check that the file has the tables of a corpus, and nothing that runs by itself.

    A stranger may have put a view in the place of a table, a column that takes gigabytes to compute, or a trigger that
    never ends.
    """
    own, schema = _list_statements(version), read_schema(connection)
    tables = {name for name, sql in own.items() if not min(sql).startswith("CREATE INDEX")}
    if missing := tables - {name for _, name, _ in schema}:
        raise StoreCorrupt(f"{str(path)!r} is damaged: it lacks the table {min(missing)!r}; {MEND}")
    columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info('link')")}
    if ("weight" in columns) != (version >= _WEIGHTED):
        raise StoreCorrupt(f"{str(path)!r} is damaged: its links are not those of its format; {MEND}")
    if foreign := _find_foreign(schema, version):
        raise StoreCorrupt(
            f"{str(path)!r} contains the {foreign[0]} {short_repr(foreign[1])}, which airw did not make; use another "
            "copy of it, or remove it and build it again"
        )


@lru_cache(maxsize=4)  # nearly all files have the same schema
def _find_foreign(schema: tuple[tuple[str, str, str], ...], version: int) -> tuple[str, str] | None:
    return find_foreign(schema, _list_statements(version))


@cache
def _list_statements(version: int) -> dict[str, frozenset[str]]:
    """Return the statements that airw writes into a file of a format, by name."""
    statements = [tidy_sql(sql) for sql in _TABLES]
    if version < _WEIGHTED:
        statements = [sql.replace(", weight REAL", "").replace(", weight)", ")") for sql in statements]
    indexes = INDEX_STATEMENTS - PASSING_STATEMENTS if version == VERSION else INDEX_STATEMENTS
    return {sql.split()[2]: frozenset([sql]) for sql in statements} | {"record_text": indexes}


def is_new(path: Path) -> bool:
    """Return whether there is no file yet."""
    try:
        path.stat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def is_state_known(path: Path) -> bool:
    """Return whether only airw has changed a file since it was found whole.

    Then a build need not read all of it again. The inode, time and size of the file are kept in its lock file. A store
    that opened a file in a known state notes the state when it closes. If the file was changed by other means, or
    SQLite was interrupted while it copied the log into it, the state is unknown.
    """
    try:
        lock, state = _describe_state(path)
        return lock.read_text(encoding="ascii") == state
    except (OSError, ValueError):
        return False


def note_state(path: Path) -> None:
    """Note the present state of a file as known; do nothing if it was never locked."""
    with suppress(OSError):
        lock, state = _describe_state(path)
        if lock.exists() and not is_state_known(path):
            lock.write_text(state, encoding="ascii")


def _describe_state(path: Path) -> tuple[Path, str]:
    """Return the lock file of a file, and what it says if the present state is known."""
    status = path.stat()
    return beside(path, "-lock"), f"{status.st_ino} {status.st_mtime_ns} {status.st_size}\n"
