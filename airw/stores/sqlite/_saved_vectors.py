"""The vectors of a database in a file beside it, which processes map into memory.

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
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio
import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw._base.messages import short_repr
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores._indexes.vector_rows import CODE, INDEX, KIND, NUMBER, FirstRows, find_max_norm
from airw.stores._stored_values import DamagedValue
from airw.stores.sqlite import _near_index
from airw.stores.sqlite._near_index import NearMaker, restore_index
from airw.stores.sqlite._records import (
    check_columns,
    compute_sums,
    decode_vectors,
    read_records,
    read_settings,
    read_tombstones,
)
from airw.stores.sqlite._schema import write_transaction
from airw.stores.sqlite._writing import set_setting

if TYPE_CHECKING:
    import sqlite3

_Call: TypeAlias = Callable[..., Awaitable[Any]]

VECTOR_COLUMNS = "id, artifact_id, kind, CAST(idx AS INTEGER), data, sum"
VECTOR_TABLES = "record JOIN vector USING (rowid)"

_SETTING = "vectors"  # the kind of the setting that names the files
_MARK = re.compile(r"[0-9A-F]{12}")
_NAME = re.compile(r"[0-9A-F]{12}-[0-9a-f]{16}")
_SUFFIXES = (".vectors", ".usearch", ".columns")  # the last one is of formats before
_BLOCK = 512  # rows that are read and written at once; saving can be cancelled between two blocks
MIN_ROWS = 2048  # rows of a database that are saved; fewer are read as fast from the database itself
MIN_NEW = 4096  # new rows that are saved after a write; at least an eighth of those that are saved already
MIN_AT_END = 256  # new rows that are saved when a store closes; at least a 64th of those that are saved already


class SavedVectors(NamedTuple):
    """The rows in the file of a database.

    Args:
        rows: The rows.
        last: The highest number of a record among them.
        last_tombstone: The last row of the table `gone` that they take into account.
        states: The inode, time and size of each file before it was mapped, by its path.
    """

    rows: FirstRows
    last: int
    last_tombstone: int
    states: Mapping[Path, tuple[int, ...]]

    def has_changed(self) -> bool:
        """Return whether what is mapped may have changed since, also if it was removed."""
        try:
            return any(_read_state(path) != state for path, state in self.states.items())
        except OSError:
            return True


def _read_state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def vector_folder(database: Path) -> Path:
    """Return the folder of the saved vectors of a database."""
    return database.with_name(database.name + "-ann")


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

    It is empty if these are of another database, or of a format before.
    """
    setting, mark = read_settings(connection, _SETTING).get("", {}), read_corpus_mark(connection)
    name = str(setting.get("name"))
    return setting if _NAME.fullmatch(name) and name.startswith(mark) else {}


def _find_paths(folder: Path, setting: Mapping[str, Any]) -> list[Path]:
    """Return the paths of the files that a database knows."""
    suffixes = (".vectors", ".usearch")[: 1 + bool(find_known_index(setting).get("effort"))] if setting else ()
    return [folder / f"{setting['name']}{suffix}" for suffix in suffixes]


def find_known_index(setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a database knows of the index of usearch; nothing if none was tried."""
    known = setting.get("index")
    return known if isinstance(known, dict) else {}


def open_saved(folder: Path, setting: Mapping[str, Any]) -> SavedVectors | None:
    """Return the rows that a database knows by this setting; `None` if they cannot be used.

    A damaged file is removed, so that the next write makes it again.
    """
    paths = _find_paths(folder, setting)
    if not paths:
        return None
    try:
        return _open(paths, setting)
    except OSError:
        return None
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        with suppress(OSError):
            paths[0].unlink()
        return None


def _open(paths: Sequence[Path], setting: Mapping[str, Any]) -> SavedVectors:
    states = {path: _read_state(path) for path in paths}
    with paths[0].open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    count, dim = int(setting["rows"]), int(setting["dim"])
    matrix = np.frombuffer(data, "<f4", count * dim).reshape(count, dim).astype(np.float32, copy=False)
    stored = memoryview(data)[matrix.nbytes :]
    if hashlib.sha256(stored).hexdigest() != setting["checksum"]:
        raise ValueError("the columns are damaged")
    *columns, sums = np.frombuffer(stored, "<i8", 5 * count).reshape(5, count).astype(np.int64)
    texts, kinds = bytes(stored[5 * count * 8 :]).decode().split("\0"), [*map(str, setting["kinds"])]
    rows = FirstRows(
        matrix, np.array(columns), texts[:count], texts[count:], kinds, max(1.0, float(setting["max_norm"]))
    )
    if not _is_whole(rows) or not np.array_equal(compute_sums(matrix), sums):
        raise ValueError("a row is damaged")
    return SavedVectors(rows, int(columns[NUMBER][-1]), int(setting["last_tombstone"]), states)


def _is_whole(rows: FirstRows) -> bool:
    """Return whether no column has a value outside of another one."""
    codes, kinds, numbers = rows.columns[[CODE, KIND, NUMBER]]
    has_texts = (
        codes.min() >= 0 and codes.max() < len(rows.names) and kinds.min() >= 0 and kinds.max() < len(rows.kinds)
    )
    return bool(has_texts and len(rows.ids) == len(codes) and (np.diff(numbers) > 0).all())


class _Plan(NamedTuple):
    """What is to be done with the files of a database.

    Args:
        is_due: Whether enough rows are new, or removed, to save the vectors.
        lacks_index: Whether usearch is not installed for an index that is due.
        strays: Files that are of no use.
    """

    is_due: bool
    lacks_index: bool
    strays: Sequence[Path]


def _plan(connection: "sqlite3.Connection", folder: Path, at_end: bool) -> _Plan:  # noqa: FBT001
    setting, live = read_saved_setting(connection), count_live_rows(connection)
    paths = _find_paths(folder, setting)
    rows, last = _count_saved(setting) if all(path.is_file() for path in paths) else (0, 0)
    # The highest number ever used, also by records removed since.
    (highest,) = connection.execute(
        "SELECT max(CAST(seq AS INTEGER)) FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    new, least = (highest or 0) - last, max(MIN_AT_END, rows // 64) if at_end else max(MIN_NEW, rows // 8)
    is_large, is_installed, known = live > _near_index.EXACT_ROWS, _near_index.is_installed(), find_known_index(setting)
    has_new = min(new, live) >= least and live >= MIN_ROWS
    is_due = has_new or _has_many_dead(rows, live) or (bool(rows) and bool(known) != is_large and is_installed)
    strays = [file for file in list_files(folder) if file not in paths]
    return _Plan(is_due, is_due and is_large and not is_installed and not at_end, strays)


def _count_saved(setting: Mapping[str, Any]) -> tuple[int, int]:
    """Return the number of saved rows, and the highest number of a saved record."""
    with suppress(ValueError, TypeError, KeyError):
        return int(setting["rows"]), int(setting["last"])
    return 0, 0


def _has_many_dead(rows: int, live: int) -> bool:
    return rows > 2 * live + MIN_ROWS


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
        plan: _Plan = await read(_plan, folder, at_end)
        if not plan.is_due and not plan.strays:
            return
        await anyio.Path(folder).mkdir(exist_ok=True)
        async with hold_file(folder / "writer.lock", timeout=0):
            plan = await read(_plan, folder, at_end)  # another writer may have saved them meanwhile
            if plan.is_due:
                setting = await read(_write_files, folder)
                await write(partial(_record_setting, setting=setting))
            useless = (await read(_plan, folder, at_end)).strays
            await in_thread(_remove, useless)  # those who have them mapped keep them
        if plan.lacks_index:
            _warn(
                f"search in {str(path)!r} compares all vectors, because usearch is not installed: "
                "pip install 'airw[ann]'"
            )
    except (StoreBusy, StoreCorrupt):
        return  # another writer saves them; or the next reading call reports the damage
    except (OSError, RuntimeError, ValueError, StoreError) as error:
        _warn(f"{str(path)!r} opens slower than it could, because its vectors cannot be saved beside it ({error})")


def _warn(message: str) -> None:
    warnings.warn(message, RuntimeWarning, stacklevel=6)


def _remove(paths: Sequence[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _write_files(connection: "sqlite3.Connection", folder: Path) -> dict[str, Any]:
    """Write new files with all rows; return the setting by which the database knows them."""
    known, live = read_saved_setting(connection), count_live_rows(connection)
    width = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    if not live or not width:
        return {}
    old, dim, maker = open_saved(folder, known), int(width[0]), None
    if old is not None and (_has_many_dead(len(old.rows.ids), live) or old.rows.matrix.shape[1] != dim):
        old = None
    if live > _near_index.EXACT_ROWS and _near_index.is_installed():
        tried, index = find_known_index(known), None
        if old is not None:
            index = restore_index(_find_paths(folder, known)[-1], tried, dim, view=False)
        if index is None or len(index) > 2 * live:
            maker, old = NearMaker(dim), None  # all rows are added to a new one
        else:
            maker = NearMaker(dim, index, tried["effort"])
    name = f"{read_corpus_mark(connection)}-{os.urandom(8).hex()}"
    paths = [folder / f"{name}{suffix}" for suffix in (".vectors", ".usearch")]
    try:
        setting = {"name": name, "dim": dim, **_write_rows(connection, paths[0], dim, old, maker)}
        return setting if maker is None else {**setting, "index": maker.save(paths[1])}
    except BaseException:
        _remove(paths)
        raise


def _write_rows(
    connection: "sqlite3.Connection", path: Path, dim: int, old: SavedVectors | None, maker: NearMaker | None
) -> dict[str, Any]:
    """Write the file of the vectors, and add new ones to an index.

    Returns a part of the setting.
    """
    texts: tuple[list[str], ...] = ([], [], [])
    values = [np.empty((3, 0), np.int64)]
    max_norm, (_, last_tombstone) = 1.0, read_tombstones(connection)
    with path.open("wb") as file:
        for block, vectors in _read_blocks(connection, old, last_tombstone):
            if vectors.shape[1] != dim:
                raise ValueError(f"vectors are {dim} and {vectors.shape[1]} wide")
            file.write(vectors.astype("<f4", copy=False).tobytes())
            for all_of_them, some in zip(texts, block[:3], strict=True):
                all_of_them.extend(some)
            values.append(np.array(block[3:], np.int64))
            max_norm = max(max_norm, find_max_norm(vectors))
            if maker is not None and (old is None or values[-1][0, 0] > old.last):
                maker.add(values[-1][0], vectors)
        ids, artifact_ids, kinds = texts
        codes, places = ({text: at for at, text in enumerate(dict.fromkeys(each))} for each in (artifact_ids, kinds))
        stored = np.empty((5, len(ids)), "<i8")
        stored[CODE], stored[KIND] = [codes[name] for name in artifact_ids], [places[kind] for kind in kinds]
        stored[NUMBER], stored[INDEX], stored[-1] = np.concatenate(values, axis=1)
        content = stored.tobytes() + "\0".join([*ids, *codes]).encode()
        file.write(content)
    return {
        "rows": len(ids),
        "last": int(stored[NUMBER, -1]),
        "last_tombstone": last_tombstone,
        "kinds": [*places],
        "max_norm": max_norm,
        "checksum": hashlib.sha256(content).hexdigest(),
    }


def _read_blocks(
    connection: "sqlite3.Connection", old: SavedVectors | None, last_tombstone: int
) -> Iterator[tuple[Sequence[Sequence[Any]], Floats]]:
    """Yield the columns of all records in blocks, with their vectors.

    The columns are ids, artifacts, kinds, numbers, indexes and sums. What is in old files comes from there, unless it
    was removed since.
    """
    if old is not None:
        saved, rows = old.rows, np.arange(len(old.rows.ids))
        if last_tombstone != old.last_tombstone:
            live = np.fromiter((number for (number,) in connection.execute("SELECT rowid FROM record")), np.int64)
            rows = np.flatnonzero(np.isin(saved.columns[NUMBER], live))
        for start in range(0, len(rows), _BLOCK):
            part = rows[start : start + _BLOCK]
            codes, kinds, indexes, numbers = saved.columns[:, part].tolist()
            ids, vectors = [saved.ids[row] for row in part.tolist()], saved.matrix[part]
            names = [saved.names[code] for code in codes]
            sums = compute_sums(vectors).tolist()
            yield (ids, names, [saved.kinds[kind] for kind in kinds], numbers, indexes, sums), vectors
    after = 0 if old is None else old.last
    for block in read_records(connection, VECTOR_COLUMNS, tables=VECTOR_TABLES, after=after, block=_BLOCK):
        number, *texts, index, data, total = zip(*block, strict=True)
        check_columns(*texts)
        yield (*texts, number, index, total), decode_vectors(data, total)


def _record_setting(connection: "sqlite3.Connection", setting: dict[str, Any]) -> None:
    with write_transaction(connection):
        connection.execute("DELETE FROM setting WHERE kind = 'segment'")  # of formats before
        set_setting(connection, _SETTING, "", setting)
