"""Keeps the mapped files of vectors up to date, after writes and when a store closes."""

import warnings
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import anyio
import numpy as np

from airw._base.arrays import Floats, NDArray
from airw._base.concurrency import in_thread
from airw._base.file_lock import hold_file
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores._indexes.fixed_rows import RowCollector
from airw.stores.sqlite import _vector_file
from airw.stores.sqlite._record_log import read_tombstones
from airw.stores.sqlite._records import check_columns, read_settings
from airw.stores.sqlite._schema import write_transaction
from airw.stores.sqlite._segment_building import count_live_rows, read_corpus_mark
from airw.stores.sqlite._segments import segment_folder
from airw.stores.sqlite._vector_codec import decode_vectors
from airw.stores.sqlite._vector_file import SavedRows
from airw.stores.sqlite._writing import set_setting

if TYPE_CHECKING:
    import sqlite3

_Call: TypeAlias = Callable[..., Awaitable[Any]]
_Block: TypeAlias = list[tuple[Any, ...]]

_KIND = "vectors"  # of the setting that names the files
_BLOCK = 1024  # rows per read
MIN_ROWS = 2048  # rows of a database that are saved; fewer are read as fast from the database itself
MIN_NEW = 8192  # new rows that are saved after a write; at least half as many as are saved already
MIN_AT_END = 256  # new rows that are saved when a store closes; at least a 64th of those that are saved already


class SavedState(NamedTuple):
    """What a database knows of its files of vectors.

    Args:
        setting: The setting that names the files; empty if there is none.
        live: The number of records.
        last: The highest number that any record ever had.
        last_tombstone: The last row of the table `gone`.
        dim: The width of the vectors; `None` if there are none.
    """

    setting: dict[str, Any]
    live: int
    last: int
    last_tombstone: int
    dim: int | None


def read_state(connection: "sqlite3.Connection") -> SavedState:
    """Return what the database knows of its files."""
    (last,) = connection.execute(
        "SELECT max(CAST(seq AS INTEGER)) FROM sqlite_sequence WHERE name = 'record'"
    ).fetchone()
    width = connection.execute("SELECT length(data) / 4 FROM vector LIMIT 1").fetchone()
    return SavedState(
        read_settings(connection, _KIND).get("", {}),
        count_live_rows(connection),
        last or 0,
        read_tombstones(connection)[1],
        width and width[0],
    )


def load_saved(connection: "sqlite3.Connection", folder: Path) -> tuple[str, SavedRows | None]:
    """Return the mark of the database, and the saved rows that it knows."""
    setting, mark = read_settings(connection, _KIND).get("", {}), read_corpus_mark(connection)
    return mark, _vector_file.open_saved(folder, mark, setting) if setting else None


def is_due(connection: "sqlite3.Connection", folder: Path, *, at_end: bool) -> bool:
    """Return whether enough rows are new, or removed, to save the vectors."""
    state = read_state(connection)
    rows, last = _count_saved(state, folder)
    new = min(state.last - last, state.live)
    least = max(MIN_AT_END, rows // 64) if at_end else max(MIN_NEW, rows // 2)
    return (new >= least and state.live >= MIN_ROWS) or _has_many_dead(state, rows)


def _count_saved(state: SavedState, folder: Path) -> tuple[int, int]:
    """Return the number of saved rows, and the highest number of a saved record."""
    names = [str(state.setting.get(name)) for name in ("columns", "vectors")]
    with suppress(OSError, ValueError, TypeError):
        if all((folder / name).is_file() for name in names):
            return int(state.setting["rows"]), int(state.setting["last"])
    return 0, 0


def _has_many_dead(state: SavedState, rows: int) -> bool:
    return rows > 2 * state.live + MIN_ROWS


async def save_vectors(path: Path, read: _Call, write: _Call, *, at_end: bool = False) -> None:
    """Save the vectors beside the database if that is due, unless another writer is doing so.

    A failure is a warning, not an error: vectors are then read from the database.

    Args:
        path: The database.
        read: Calls a function with a connection to one snapshot, and returns its result.
        write: The same with a connection that may write.
        at_end: Whether the store is about to be closed.
    """
    folder = segment_folder(path)
    try:
        if not await read(is_due, folder, at_end=at_end):
            return
        await anyio.Path(folder).mkdir(exist_ok=True)
        async with hold_file(folder / "writer.lock", timeout=0):
            # Another writer may have saved them meanwhile.
            if await read(is_due, folder, at_end=at_end):
                await _save(folder, read, write)
    except (StoreBusy, StoreCorrupt):
        return  # another writer saves them; or the next reading call reports the damage
    except (OSError, ValueError, StoreError) as error:
        message = f"{str(path)!r} opens slower than it could, because its vectors cannot be saved beside it ({error})"
        warnings.warn(message, RuntimeWarning, stacklevel=5)


async def _save(folder: Path, read: _Call, write: _Call) -> None:
    state, mark, saved = await read(lambda connection: (read_state(connection), *load_saved(connection, folder)))
    if saved is not None and (_has_many_dead(state, len(saved.rows)) or saved.rows.matrix.shape[1] != state.dim):
        saved = None
    if state.live:
        setting = await _add_rows(folder, mark, state, saved, read)
        await write(_record_setting, setting)
    else:
        setting = {}
    # Those who have the old files mapped keep them.
    for file in _vector_file.list_saved_files(folder):
        if file.name not in setting.values():
            await anyio.Path(file).unlink(missing_ok=True)


async def _add_rows(folder: Path, mark: str, state: SavedState, saved: SavedRows | None, read: _Call) -> dict[str, Any]:
    """Append all rows that are not saved yet, and write the columns; return the setting."""
    dim = state.dim or 0
    collector = RowCollector(saved.rows if saved else None)
    sums = [saved.sums] if saved else []
    count = len(saved.rows) if saved else 0
    # Vectors are only appended to a file that ends with them. After a killed append, all are written anew.
    name = saved.vectors if saved else ""
    if not saved or (folder / name).stat().st_size != count * dim * 4:
        name = _vector_file.new_name(mark, "vectors")
        if saved:
            await in_thread(_vector_file.append_vectors, folder / name, saved.rows.matrix)
    last = saved.last if saved else 0
    while block := await read(_read_block, last):
        columns, vectors, block_sums = await in_thread(_decode, block)
        if vectors.shape[1] != dim:
            raise ValueError("all were embedded again meanwhile")
        await in_thread(_vector_file.append_vectors, folder / name, vectors)
        collector.add(*columns, vectors=vectors)
        sums.append(block_sums)
        last, count = columns[1][-1], count + len(vectors)
    # Records may have been removed since they were saved, or read.
    last_tombstone, live = await read(_read_live, saved.last_tombstone if saved else state.last_tombstone)
    matrix = _vector_file.map_vectors(folder / name, count, dim)
    rows = await in_thread(collector.finish, matrix, live)
    new = SavedRows(rows, np.concatenate(sums), name, last_tombstone, folder, {})
    return await in_thread(_vector_file.write_columns, mark, new)


def _read_block(connection: "sqlite3.Connection", after: int) -> _Block:
    return connection.execute(
        """SELECT id, record.rowid, artifact_id, kind, CAST(idx AS INTEGER), data, sum
        FROM record JOIN vector USING (rowid) WHERE record.rowid > ? ORDER BY record.rowid LIMIT ?""",
        [after, _BLOCK],
    ).fetchall()


def _decode(block: _Block) -> tuple[list[Any], Floats, NDArray[np.int64]]:
    *columns, data, sums = zip(*block, strict=True)
    check_columns(columns[0], *columns[2:4])
    return columns, decode_vectors(data, sums), np.array(sums, np.int64)


def _read_live(connection: "sqlite3.Connection", last_tombstone: int) -> tuple[int, NDArray[np.int64] | None]:
    """Return the last tombstone, and the numbers of all records if it is a newer one."""
    _, newest = read_tombstones(connection)
    if newest == last_tombstone:
        return newest, None
    return newest, np.array([number for (number,) in connection.execute("SELECT rowid FROM record")], np.int64)


def _record_setting(connection: "sqlite3.Connection", setting: dict[str, Any]) -> None:
    with write_transaction(connection):
        set_setting(connection, _KIND, "", setting)
