"""A copy of all vectors beside a database, mapped into memory and shared by processes.

There are two files. The vectors are plain float32 rows, to which later rows are appended. The columns say which record
each row is, and what the sum of its bytes is. They are written anew each time, under a new name, and the database has
that name and the SHA-256 of the file.

So what is used is checked: columns have the checksum that the database names, and each vector has the sum in them. A
sum reads as fast as memory; SHA-256 of all vectors would take ten times as long as a search. Nothing in these files is
a program or an address: after the check of the columns, a wrong byte could only change a score.

airw changes files only by appending, and never cuts them, as others may have them mapped. If the time or size of a file
changes, or it is removed, the files are opened and checked anew before the next answer. They may be deleted at any
time: vectors are then read from the database, and the next write makes the files again.
"""

import hashlib
import json
import mmap
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.stores._indexes.fixed_rows import FixedRows, TextBlock
from airw.stores.sqlite._vector_codec import compute_sums

_NAME = re.compile(r"[0-9A-F]{12}-[0-9a-f]{16}\.(columns|vectors)")
_ALIGNED = 64  # bytes
_BLOCK = 4096  # rows whose sums are compared at a time
_TYPES = {
    "numbers": "<i8",
    "runs": "<i4",
    "starts": "<i8",
    "kinds": "<i4",
    "indexes": "<i8",
    "dead": "|b1",
    "sums": "<i8",
    "id_data": "|u1",
    "id_ends": "<i8",
    "id_checksums": "<u4",
    "id_order": "<i4",
    "name_data": "|u1",
    "name_ends": "<i8",
    "name_checksums": "<u4",
    "name_order": "<i4",
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SavedRows:
    """The rows in the files of a database.

    Args:
        rows: The rows.
        sums: The sum of the bytes of each vector; see `compute_sums`.
        vectors: The name of the file with the vectors.
        last_tombstone: The last row of the table `gone` that `rows.dead` takes into account.
        folder: The folder of the files.
        states: The inode, time and size of each file before it was mapped, by its path.
    """

    rows: FixedRows
    sums: NDArray[np.int64]
    vectors: str
    last_tombstone: int
    folder: Path
    states: Mapping[Path, tuple[int, ...]]

    @property
    def last(self) -> int:
        """Return the highest number of a record."""
        return int(self.rows.numbers[-1])

    def is_intact(self, part: slice = slice(None)) -> bool:
        """Return whether each vector, or those of a part, has its sum; this reads all of them."""
        matrix, sums = self.rows.matrix[part], self.sums[part]
        blocks = (slice(start, start + _BLOCK) for start in range(0, len(matrix), _BLOCK))
        return all(np.array_equal(compute_sums(matrix[block]), sums[block]) for block in blocks)

    def find(self, first: int, stop: int) -> slice:
        """Return the rows of the records with these numbers."""
        start, end = np.searchsorted(self.rows.numbers, [first, stop]).tolist()
        return slice(start, end)

    def take(self, numbers: NDArray[np.int64]) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the vectors of records, and which of them are here and have their sum."""
        places = np.searchsorted(self.rows.numbers, numbers)
        places[places == len(self.rows)] = 0
        vectors = self.rows.matrix[places]
        is_intact = compute_sums(vectors) == self.sums[places]
        return vectors, is_intact & (self.rows.numbers[places] == numbers)

    def has_changed(self) -> bool:
        """Return whether what is mapped may have changed since, also if it was removed."""
        try:
            return any(_read_state(path) != state for path, state in self.states.items())
        except OSError:
            return True

    def discard(self) -> None:
        """Remove the file of the vectors, as it is damaged; the next write makes it again."""
        _remove(self.folder / self.vectors)


def _read_state(path: Path) -> tuple[int, ...]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns, status.st_size


def new_name(mark: str, suffix: str) -> str:
    """Return a name that no file of this database ever had."""
    return f"{mark}-{os.urandom(8).hex()}.{suffix}"


def list_saved_files(folder: Path) -> list[Path]:
    """Return all files of saved rows in a folder, also those of earlier databases."""
    try:
        return [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []


def map_vectors(path: Path, count: int, dim: int) -> Floats:
    """Return the first rows of a file of vectors, mapped into memory.

    Raises:
        OSError, ValueError: If it is not a file with so many rows.
    """
    data = _map(path, count * dim * 4)
    return np.frombuffer(data, "<f4").reshape(count, dim).astype(np.float32, copy=False)


def append_vectors(path: Path, vectors: Floats) -> None:
    """Append rows to a file of vectors, or create it.

    Raises:
        OSError: If that fails.
    """
    with path.open("ab") as file:
        file.write(vectors.astype("<f4", copy=False).tobytes())


def _map(path: Path, size: int | None = None) -> mmap.mmap:
    with path.open("rb") as file:
        present = os.fstat(file.fileno()).st_size
        if size is None:
            size = present
        if not 0 < size <= present:
            raise ValueError(f"{path.name} has {present} bytes, not {size}")
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ)


def open_saved(folder: Path, mark: str, setting: Mapping[str, Any]) -> SavedRows | None:
    """Return the rows that a database knows by this setting; `None` if they cannot be used.

    Their vectors are not checked yet. Files that are damaged are removed, so that the next write makes them again.
    """
    name = str(setting.get("columns"))
    if not _NAME.fullmatch(name) or not name.startswith(mark):
        return None
    try:
        states = {folder / name: _read_state(folder / name)}
        data = _map(folder / name)
    except (OSError, ValueError):
        return None
    with suppress(OSError, ValueError, TypeError, KeyError):
        if hashlib.sha256(data).hexdigest() == setting.get("checksum"):
            saved = _parse(data, folder, mark, states)
            if saved.rows.is_whole() and len(saved.sums) == len(saved.rows):
                return saved
    _remove(folder / name)
    return None


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def _parse(data: mmap.mmap, folder: Path, mark: str, states: dict[Path, tuple[int, ...]]) -> SavedRows:
    head = json.loads(data.readline())
    arrays = {name: np.frombuffer(data, _TYPES[name], count, start) for name, (count, start) in head["arrays"].items()}
    if not _NAME.fullmatch(head["vectors"]) or not head["vectors"].startswith(mark):
        raise ValueError("another database")
    count = len(arrays["numbers"])
    states[folder / head["vectors"]] = _read_state(folder / head["vectors"])
    columns = ("numbers", "runs", "starts", "kinds", "indexes", "dead")
    rows = FixedRows(
        matrix=map_vectors(folder / head["vectors"], count, int(head["dim"])),
        **{name: arrays[name] for name in columns},
        ids=_parse_texts(arrays, "id"),
        names=_parse_texts(arrays, "name"),
        kind_names=[str(kind) for kind in head["kinds"]],
        max_norm=float(head["max_norm"]),
    )
    return SavedRows(rows, arrays["sums"], head["vectors"], int(head["last_tombstone"]), folder, states)


def _parse_texts(arrays: Mapping[str, NDArray[Any]], of: str) -> TextBlock:
    return TextBlock(*(arrays[f"{of}_{name}"] for name in ("data", "ends", "checksums", "order")))


def write_columns(mark: str, saved: SavedRows) -> dict[str, Any]:
    """Write the file of the columns; return the setting by which the database knows it.

    Raises:
        OSError: If that fails.
    """
    rows = saved.rows
    columns: dict[str, NDArray[Any]] = {"sums": saved.sums}
    columns |= {name: getattr(rows, name) for name in ("numbers", "runs", "starts", "kinds", "indexes", "dead")}
    for of, block in (("id", rows.ids), ("name", rows.names)):
        columns |= {f"{of}_{name}": getattr(block, name) for name in ("data", "ends", "checksums", "order")}
    head = {
        "vectors": saved.vectors,
        "dim": int(rows.matrix.shape[1]),
        "last_tombstone": saved.last_tombstone,
        "kinds": rows.kind_names,
        "max_norm": rows.max_norm,
    }
    # The head is padded to a size that does not depend on the positions in it.
    size = _align(len(json.dumps(head)) + 64 * len(columns))
    places, position = {}, size
    for name, column in columns.items():
        places[name] = (len(column), position)
        position = _align(position + column.nbytes)
    content = bytearray(position)
    content[:size] = (json.dumps(head | {"arrays": places}) + "\n").encode().ljust(size, b" ")
    for name, column in columns.items():
        data = column.astype(_TYPES[name], copy=False).tobytes()
        content[places[name][1] : places[name][1] + len(data)] = data
    final, partial = saved.folder / new_name(mark, "columns"), saved.folder / "partial-columns"
    # No sync: what a power failure leaves has another checksum.
    try:
        partial.write_bytes(content)
        partial.replace(final)
    finally:
        _remove(partial)
    checksum = hashlib.sha256(content).hexdigest()
    return {
        "columns": final.name,
        "vectors": saved.vectors,
        "checksum": checksum,
        "rows": len(rows),
        "last": saved.last,
    }


def _align(position: int) -> int:
    return -(-position // _ALIGNED) * _ALIGNED
