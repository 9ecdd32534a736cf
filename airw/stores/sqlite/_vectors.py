"""The vectors of a database, in memory and in a file that processes map into memory.

The file has the vectors as float32 rows, and after them their columns: which record each row is, and the sum of its
bytes. If there are many rows, an index of usearch is beside it, with the same name; see `_near_index`. A setting of the
database has that name, and the SHA-256 of the columns and of the index. It is written last.

So what is used is checked: columns and index have the checksums that the database names, and each vector has the sum in
the columns. A sum reads as fast as memory; SHA-256 of all vectors would take ten times as long as a search. Nothing in
the file is a program or an address: after the check of the columns, a wrong byte could only change a score.

Files never change, and each has a new name. If the time or size of a file changes, or it is removed, it is opened and
checked anew before the next answer. They may be deleted at any time: vectors are then read from the database, and the
next write makes the files again.
"""

import hashlib
import mmap
import os
import re
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeAlias

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.messages import short_repr
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores._indexes.vector_rows import INDEX, NUMBER, FirstRows, find_max_norm
from airw.stores._stored_values import DamagedValue, check_types
from airw.stores.sqlite import _near_index
from airw.stores.sqlite._connection import FileVersion
from airw.stores.sqlite._near_index import NearIndex, NearMaker, NearRows, restore_index
from airw.stores.sqlite._records import (
    RecordLog,
    compute_sums,
    decode_vectors,
    read_records,
    read_settings,
    read_tombstones,
)
from airw.stores.sqlite._schema import beside, file_state, write_transaction
from airw.stores.sqlite._writing import set_setting

if TYPE_CHECKING:
    import sqlite3

_Call: TypeAlias = Callable[..., Awaitable[Any]]

_COLUMNS, _TABLES = "id, artifact_id, kind, CAST(idx AS INTEGER), data, sum", "record JOIN vector USING (rowid)"
_SETTING = "vectors"  # the kind of the setting that names the files
_COUNTS = ("rows", "dim", "last", "last_tombstone")  # in this setting
_MARK = re.compile(r"[0-9A-F]{12}")
_NAME = re.compile(r"[0-9A-F]{12}-[0-9a-f]{16}")
_SUFFIXES = (".vectors", ".usearch", ".columns")  # the last one is of formats before
_BLOCK = 512  # rows that are read and written at once; saving can be cancelled between two blocks
MIN_ROWS = 2048  # rows of a database that are saved; fewer are read as fast from the database itself
MIN_NEW = 4096  # new rows that are saved after a write; at least an eighth of those that are saved already
MIN_AT_END = 256  # new rows that are saved when a store closes; at least a 64th of those that are saved already


# Vectors in memory


class VectorIndex:
    """The vector index of a file; one user updates it at a time.

    An update takes time in proportion to the changes, not to the corpus.

    Args:
        folder: The folder of the saved vectors.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._latest: tuple[FileVersion | None, DenseIndex, SavedVectors | None] | None = None  # that was searched
        self._begin({}, None)

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
        self._latest = version, index, self._saved
        return index

    def find_latest(self, version: FileVersion | None) -> DenseIndex | None:
        """Return the index in memory, if it shows this version of the file."""
        known, index, saved = self._latest or (None, None, None)
        is_latest = version is not None and known == version and not (saved is not None and saved.has_changed())
        return index if is_latest else None

    def _begin(self, setting: dict[str, Any], saved: "SavedVectors | None") -> None:
        """Begin with saved rows, or with none; `setting` is what the database knows of them."""
        self._saved, self._setting, self._latest = saved, setting, None
        self._index, self._log = NearIndex(), RecordLog()
        if saved is not None:
            known = setting["index"]
            index = restore_index([*saved.states][-1], known, setting["dim"], view=True)
            near = None if index is None else NearRows(index, known["effort"])
            self._index = NearIndex(first=saved.rows, near=near)
            self._log = RecordLog(int(saved.rows.columns[NUMBER][-1]), setting["last_tombstone"])

    def _read_changes(self, connection: "sqlite3.Connection", count: int) -> None:
        def restart() -> None:
            # A stranger may have written the count: rows take room before they come only up to a size.
            self._index = NearIndex(room=min(count, _near_index.EXACT_ROWS))

        self._log.drop_removed(connection, self._index.drop, restart=restart)
        for rows in self._log.read_new(connection, _COLUMNS, tables=_TABLES):
            (ids, artifact_ids, kinds, numbers, indexes, _), vectors = _decode_rows(rows)
            self._index.put(ids, numbers, artifact_ids, kinds, indexes, vectors=vectors)


def _decode_rows(rows: Sequence[tuple[Any, ...]]) -> tuple[tuple[Sequence[Any], ...], Floats]:
    """Return the columns of records, and their vectors.

    The columns are ids, artifacts, kinds, numbers, indexes and sums.
    """
    numbers, *texts, indexes, data, sums = zip(*rows, strict=True)
    check_types(texts, [str] * len(texts))
    return (*texts, numbers, indexes, sums), decode_vectors(data, sums)


# Vectors in a file


class SavedVectors(NamedTuple):
    """The rows in the file of a database.

    Args:
        rows: The rows.
        states: The state of each file before it was mapped, by its path.
    """

    rows: FirstRows
    states: Mapping[Path, tuple[int, ...]]

    def has_changed(self) -> bool:
        """Return whether what is mapped may have changed since, also if it was removed."""
        try:
            return any(file_state(path) != state for path, state in self.states.items())
        except OSError:
            return True


def vector_folder(database: Path) -> Path:
    """Return the folder of the saved vectors of a database."""
    return beside(database, "-ann")


def list_files(folder: Path) -> list[Path]:
    """Return all files of saved vectors in a folder, also earlier ones."""
    try:
        return [path for path in folder.iterdir() if path.suffix in _SUFFIXES or path.name.startswith("partial")]
    except OSError:
        return []


def count_live_rows(connection: "sqlite3.Connection") -> int:
    """Return the number of records."""
    (count,) = connection.execute("SELECT coalesce(sum(max(CAST(live AS INTEGER), 0)), 0) FROM bucket").fetchone()
    return int(count)


def read_corpus_mark(connection: "sqlite3.Connection") -> str:
    """Return the mark of this database.

    It differs from the mark of an earlier database at the same path.
    """
    row = connection.execute("SELECT value FROM setting WHERE kind = 'file' AND key = 'mark'").fetchone()
    mark = str(row and row[0]).strip('"')
    # It becomes part of a file name.
    if not _MARK.fullmatch(mark):
        raise DamagedValue(f"the mark of the file is {short_repr(mark)}")
    return mark


def read_saved_setting(connection: "sqlite3.Connection") -> dict[str, Any]:
    """Return what the database knows of its files.

    It is empty if these are of another database, or of a format before. Otherwise it says under `"index"` what is known
    of the index of usearch; nothing if none was tried.
    """
    setting, mark = read_settings(connection, _SETTING).get("", {}), read_corpus_mark(connection)
    name, index = str(setting.get("name")), setting.get("index")
    is_whole = all(type(setting.get(key)) is int and setting[key] >= 0 for key in _COUNTS)
    if not is_whole or not _NAME.fullmatch(name) or not name.startswith(mark):
        return {}
    is_index = isinstance(index, dict) and type(index.get("effort")) is int
    return {**setting, "index": index if is_index else {}}


def _find_paths(folder: Path, setting: Mapping[str, Any]) -> list[Path]:
    """Return the paths of the files that a database knows."""
    suffixes = (".vectors", ".usearch")[: 1 + bool(setting["index"].get("effort"))] if setting else ()
    return [folder / f"{setting['name']}{suffix}" for suffix in suffixes]


def open_saved(folder: Path, setting: Mapping[str, Any]) -> SavedVectors | None:
    """Return the rows that a database knows by this setting; `None` if they cannot be used.

    A damaged file is removed, so that the next write makes it again.
    """
    paths = _find_paths(folder, setting)
    if not paths:
        return None
    try:
        states = {path: file_state(path) for path in paths}
        with paths[0].open("rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        count, dim = setting["rows"], setting["dim"]
        matrix = np.frombuffer(data, "<f4", count * dim).reshape(count, dim).astype(np.float32, copy=False)
        stored = memoryview(data)[matrix.nbytes :]
        *columns, sums = np.frombuffer(stored, "<i8", 5 * count).reshape(5, count).astype(np.int64)
        texts, kinds = bytes(stored[5 * count * 8 :]).decode().split("\0"), [*map(str, setting["kinds"])]
        codes = np.array(columns[:INDEX])
        is_whole = (
            count > 0
            and hashlib.sha256(stored).hexdigest() == setting["checksum"]
            and np.array_equal(compute_sums(matrix), sums)
            # No column has a value outside of another one.
            and ((codes >= 0) & (codes < [[len(texts) - count], [len(kinds)]])).all()
            and (np.diff(columns[NUMBER]) > 0).all()
        )
        if is_whole:
            max_norm = max(1.0, find_max_norm(matrix))
            rows = FirstRows(matrix, np.array(columns), texts[:count], texts[count:], kinds, max_norm)
            return SavedVectors(rows, states)
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, OverflowError):
        pass
    with suppress(OSError):
        paths[0].unlink()
    return None


# Saving


async def save_vectors(path: Path, read: _Call, write: _Call, *, at_end: bool = False) -> None:
    """Save the vectors beside the database if that is due, unless another writer is doing so.

    A failure is a warning, not an error: the write itself has succeeded, and vectors are read from the database.

    Args:
        path: The database.
        read: Calls a function with a connection to one snapshot, and returns its result.
        write: The same with a connection that may write.
        at_end: Whether the store is about to be closed.
    """
    folder = vector_folder(path)
    try:
        is_due, strays = await read(_plan, folder, at_end)
        if not is_due and not strays:
            return
        await anyio.Path(folder).mkdir(exist_ok=True)
        async with hold_file(folder / "writer.lock", timeout=0):
            is_due, _ = await read(_plan, folder, at_end)  # another writer may have saved them meanwhile
            setting = await read(_write_files, folder) if is_due else {}
            if is_due:
                await write(partial(_record_setting, setting=setting))
            _, strays = await read(_plan, folder, at_end)
            await in_thread(_remove, strays)  # those who have them mapped keep them
        is_large = setting.get("rows", 0) > _near_index.EXACT_ROWS
        if not is_large or at_end or _near_index.is_installed():
            return
        warning = (
            f"search in {str(path)!r} compares all vectors, because usearch is not installed: pip install 'airw[ann]'"
        )
    except (StoreBusy, StoreCorrupt):
        return  # another writer saves them; or the next reading call reports the damage
    except (OSError, RuntimeError, ValueError, StoreError) as error:
        warning = f"{str(path)!r} opens slower than it could, because its vectors cannot be saved beside it ({error})"
    warnings.warn(warning, RuntimeWarning, stacklevel=5)


def _plan(connection: "sqlite3.Connection", folder: Path, at_end: bool) -> tuple[bool, list[Path]]:  # noqa: FBT001
    """Return whether the vectors are to be saved, and the files that are of no use."""
    setting, live = read_saved_setting(connection), count_live_rows(connection)
    paths = _find_paths(folder, setting)
    is_there = bool(setting) and all(path.is_file() for path in paths)
    rows, last = (setting["rows"], setting["last"]) if is_there else (0, 0)
    # The highest number ever used, also by records removed since.
    (highest,) = connection.execute(
        "SELECT max(CAST(seq AS INTEGER)) FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    new, least = (highest or 0) - last, max(MIN_AT_END, rows // 64) if at_end else max(MIN_NEW, rows // 8)
    has_new = min(new, live) >= least and live >= MIN_ROWS
    has_many_dead = rows > 2 * live + MIN_ROWS
    # An index is due above a size, and useless below.
    is_other = rows > 0 and bool(setting["index"]) != (live > _near_index.EXACT_ROWS) and _near_index.is_installed()
    return has_new or has_many_dead or is_other, [file for file in list_files(folder) if file not in paths]


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _write_files(connection: "sqlite3.Connection", folder: Path) -> dict[str, Any]:
    """Write new files with all rows; return the setting by which the database knows them."""
    known, live = read_saved_setting(connection), count_live_rows(connection)
    width = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if not live or not width:
        return {}
    dim, maker = int(width[0]), None
    if live > _near_index.EXACT_ROWS and _near_index.is_installed():
        tried: dict[str, Any] = known.get("index", {})
        index = restore_index(_find_paths(folder, known)[-1], tried, dim, view=False) if tried else None
        if index is None or len(index) > 2 * live:
            maker = NearMaker(dim)  # all rows are added to a new one
        else:
            maker = NearMaker(dim, index, tried["effort"], known["last"])
    name = f"{read_corpus_mark(connection)}-{os.urandom(8).hex()}"
    paths = [folder / f"{name}{suffix}" for suffix in (".vectors", ".usearch")]
    try:
        with paths[0].open("wb") as file:
            setting = {"name": name, "dim": dim, **_write_rows(connection, file, dim, maker)}
        return {**setting, "index": {} if maker is None else maker.save(paths[1])}
    except BaseException:
        _remove(paths)
        raise


def _write_rows(connection: "sqlite3.Connection", file: BinaryIO, dim: int, maker: NearMaker | None) -> dict[str, Any]:
    """Write all vectors and their columns, and add new ones to an index.

    Returns a part of the setting.
    """
    _, last_tombstone = read_tombstones(connection)
    ids, codes, kinds, blocks = list[str](), dict[str, int](), dict[str, int](), [np.empty((5, 0), np.int64)]
    for rows in read_records(connection, _COLUMNS, tables=_TABLES, after=0, block=_BLOCK):
        (block_ids, artifact_ids, block_kinds, numbers, indexes, sums), vectors = _decode_rows(rows)
        if vectors.shape[1] != dim:
            raise ValueError(f"vectors are {dim} and {vectors.shape[1]} wide")
        file.write(vectors.astype("<f4", copy=False).tobytes())
        ids += block_ids
        block_codes = [codes.setdefault(name, len(codes)) for name in artifact_ids]
        places = [kinds.setdefault(kind, len(kinds)) for kind in block_kinds]
        blocks.append(np.array([block_codes, places, indexes, numbers, sums], np.int64))
        if maker is not None:
            maker.add(blocks[-1][NUMBER], vectors)
    stored = np.concatenate(blocks, axis=1).astype("<i8", copy=False)
    content = stored.tobytes() + "\0".join([*ids, *codes]).encode()
    file.write(content)
    return {
        "rows": len(ids),
        "last": int(stored[NUMBER, -1]),
        "last_tombstone": last_tombstone,
        "kinds": [*kinds],
        "checksum": hashlib.sha256(content).hexdigest(),
    }


def _record_setting(connection: "sqlite3.Connection", setting: dict[str, Any]) -> None:
    with write_transaction(connection):
        connection.execute("DELETE FROM setting WHERE kind = 'segment'")  # of formats before
        set_setting(connection, _SETTING, "", setting)
