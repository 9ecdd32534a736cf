"""A guard against a log that belongs to another file.

SQLite keeps recent writes in a log beside the file, `<file>-wal`. It applies a log to whatever file has the right name.
If the file was replaced or restored meanwhile, that destroys the new file, or undoes the restoration.

So each write puts a stamp into the file: a random token, and the token before it. The first stamp in a log therefore
names the token of the file that the log continues. A file without any token of its log is another file. Then the log
is set aside before SQLite can see it.
"""

import os
import struct
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from airw.errors import StoreError

if TYPE_CHECKING:
    import sqlite3

STAMP_TABLE = "CREATE TABLE IF NOT EXISTS stamp (id INTEGER PRIMARY KEY, data BLOB NOT NULL)"
"""The table of the stamp.

Its only row ends where its page ends, so that the stamp is found in a log without a database.
"""

_FIELDS = struct.Struct("<16s16s16s16sqqqq")
_DIGEST = 16
STAMP_BYTES = _FIELDS.size + _DIGEST
_MAGIC = b"airw: file stamp"
_NO_TOKEN = bytes(16)

_LOG_HEADER, _FRAME_HEADER = 32, 24  # bytes; https://www.sqlite.org/fileformat2.html#walformat
_FRAME = struct.Struct(">II8s")  # the number of a page, the size of the file if the frame ends a write, and salts
_LOG_MAGIC = (0x377F0682, 0x377F0683)
_READ_BYTES = 1 << 20
_TRIES = 20  # readings of a log that others are writing

# The kernel's `struct flock`, and the byte of the index of a log that every connection locks (`UNIX_SHM_DMS`).
_LOCK_FORMAT, _OPEN_BYTE = "hhqqi4x", 128

open_files: Counter[tuple[int, int]] = Counter()
"""The number of connections that this process has to each file, by `file_key`."""

_descriptors: dict[tuple[int, int], int] = {}  # by device and inode, see `_open_for_ever`


class Stamp(NamedTuple):
    """The stamp of one write.

    Args:
        token: A random token.
        previous: The token of the write before; zeros if there is none.
        boot: The id of the running system since it was started; zeros if unknown.
        inode: The inode of the file.
        modified: The time of the last change of the file, in nanoseconds.
        size: The size of the file.
        log_inode: The inode of the log.
    """

    token: bytes
    previous: bytes
    boot: bytes
    inode: int
    modified: int
    size: int
    log_inode: int

    @classmethod
    def parse(cls, data: object) -> "Stamp | None":
        """Return the stamp that these bytes encode, or `None`."""
        if not isinstance(data, bytes) or len(data) != STAMP_BYTES or not data.startswith(_MAGIC):
            return None
        body, digest = data[:-_DIGEST], data[-_DIGEST:]
        if blake2b(body, digest_size=_DIGEST).digest() != digest:
            return None
        return cls(*_FIELDS.unpack(body)[1:])

    def encode(self) -> bytes:
        """Return the bytes of the stamp."""
        body = _FIELDS.pack(_MAGIC, *self)
        return body + blake2b(body, digest_size=_DIGEST).digest()


class Log(NamedTuple):
    """The part of a log that its header declares valid.

    Args:
        salts: The random bytes that its header shares with its frames.
        stamps: The stamps in it, oldest first.
        pages: For each page number, the position of its last frame.
        stamp_page: The number of the page with the stamp.
        page_size: The size of a page in bytes.
        is_damaged: Whether a stamp in it cannot be read.
    """

    salts: bytes
    stamps: list[Stamp]
    pages: dict[int, int]
    stamp_page: int
    page_size: int
    is_damaged: bool


def log_path(path: Path) -> Path:
    """Return the path of the log of a file."""
    return path.with_name(path.name + "-wal")


def read_log_inode(path: Path) -> int | None:
    """Return the inode of the log beside a file, or `None`."""
    status = _stat(log_path(path))
    return status.st_ino if status else None


def file_key(path: Path) -> tuple[int, int]:
    """Return the device and the inode of a file.

    Raises:
        OSError: If there is no such file.
    """
    status = path.stat()
    return status.st_dev, status.st_ino


def orphan_path(path: Path) -> Path:
    """Return the path that the log of an earlier file gets."""
    return path.with_name(path.name + "-wal-old")


def register_stamps(connection: "sqlite3.Connection", path: Path) -> None:
    """Register the SQL function that makes the next stamp from the present one."""

    def make_next(data: bytes | None) -> bytes:
        present = Stamp.parse(data)
        status, log = _stat(path), _stat(log_path(path))
        return Stamp(
            os.urandom(16),
            present.token if present else _NO_TOKEN,
            _read_boot_id(),
            status.st_ino if status else 0,
            status.st_mtime_ns if status else 0,
            status.st_size if status else 0,
            log.st_ino if log else 0,
        ).encode()

    connection.create_function("airw_next_stamp", 1, make_next)


def write_stamp(connection: "sqlite3.Connection") -> None:
    """Replace the stamp of the file; to be called once in each transaction that writes."""
    connection.execute(STAMP_TABLE)  # the file may be from a version without stamps
    connection.execute(
        """INSERT INTO stamp VALUES (1, airw_next_stamp(NULL))
        ON CONFLICT (id) DO UPDATE SET data = airw_next_stamp(data)"""
    )


def set_aside_foreign_log(path: Path) -> bool:
    """Rename the log beside a file if it belongs to an earlier file; return whether it did.

    Raises:
        StoreError: If the log is foreign and cannot be renamed.
    """
    if not is_log_foreign(path):
        return False
    if open_files[file_key(path)]:
        # In one process, all connections to a file share the index of its log, which is that of the old one.
        raise StoreError(
            f"another file was copied into {str(path)!r} while it was open; close it in this process, and open it again"
        )
    # Another process may set it aside meanwhile: the present log may be a new one then.
    return set_aside_log(path, lambda: is_log_foreign(path))


def set_aside_log(path: Path, is_foreign: Callable[[], bool]) -> bool:
    """Rename the log beside a file if `is_foreign` says so; return whether it did.

    Raises:
        StoreError: If the log is foreign and cannot be renamed.
    """
    try:
        with _lock_folder(path.parent):
            if not is_foreign():
                return False
            # Processes that still have the old file open keep this log and its index, under other names or none.
            log_path(path).replace(orphan_path(path))
            path.with_name(path.name + "-shm").unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(
            f"{str(log_path(path))!r} belongs to an earlier file at this path and cannot be renamed "
            f"({error.strerror}); move it away, and {path.name + '-shm'!r} with it"
        ) from error
    return True


def is_log_foreign(path: Path) -> bool:
    """Return whether the log beside a file belongs to another file that was there before.

    The answer is `False` in case of doubt.
    """
    for _ in range(_TRIES):
        salts = _read_salts(log_path(path))
        if salts is None:
            return False
        has_schema, stamp = _read_file_stamp(path)
        log = _read_log(log_path(path))
        # The same salts before and after: the log only grew meanwhile, so the answer holds for that moment.
        if log is not None and log.salts == salts:
            return _is_foreign(path, log, has_schema=has_schema, stamp=stamp)
        if log is None and _read_salts(log_path(path)) == salts:
            return False  # nothing was written to it
    return False


def _is_foreign(path: Path, log: Log, *, has_schema: bool | None, stamp: Stamp | None) -> bool:
    if not log.stamps or log.is_damaged or has_schema is None:
        return False
    base = log.stamps[0].previous
    if stamp is None:
        # The log creates the tables, or adds the stamp to a file of an earlier version.
        return has_schema and base != _NO_TOKEN
    if stamp.token in {entry.token for entry in log.stamps}:
        return False
    # The log continues this very content. Still, somebody may have put it there again, to undo what is in the log.
    return stamp.token != base or _was_restored(path, log)


def _was_restored(path: Path, log: Log) -> bool:
    """Return whether the file was put in place after the last write to the log.

    SQLite copies a log into the file in the order of page numbers. So if the file has the old stamp, only pages before
    it can be those of the log. After a power failure, it can be any page.
    """
    status, log_status = _stat(path), _stat(log_path(path))
    first, last = log.stamps[0], log.stamps[-1]
    if status is None or log_status is None or log_status.st_ino != first.log_inode:
        return False  # both were copied or moved together
    is_same = (status.st_ino, status.st_mtime_ns, status.st_size) == (first.inode, first.modified, first.size)
    if is_same or status.st_ctime_ns <= log_status.st_mtime_ns:
        return False
    if status.st_ino == first.inode and _is_open_elsewhere(path):
        return False  # in use: its time may have been set by other means
    has_run_since = last.boot == _read_boot_id() != _NO_TOKEN
    numbers = [number for number in log.pages if not has_run_since or number < log.stamp_page]
    with suppress(OSError):
        return not any(file_page == log_page for file_page, log_page in _read_pages(path, log, numbers))
    return False


def _is_open_elsewhere(path: Path) -> bool:
    """Return whether another connection, of any process, has the file open.

    The answer is `True` in case of doubt.
    """
    if open_files[file_key(path)] or sys.platform != "linux":
        return True
    import fcntl

    # Each connection to a file with a log has this lock on the index of the log.
    lock = struct.pack(_LOCK_FORMAT, fcntl.F_WRLCK, os.SEEK_SET, _OPEN_BYTE, 1, 0)
    try:
        descriptor = _open_for_ever(path.with_name(path.name + "-shm"))
        (kind, *_) = struct.unpack(_LOCK_FORMAT, fcntl.fcntl(descriptor, fcntl.F_GETLK, lock))
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return bool(kind != fcntl.F_UNLCK)


def _open_for_ever(path: Path) -> int:
    """Return a descriptor of a file that is never closed.

    Closing any descriptor of a file ends all locks that SQLite has on it in this process.
    """
    key = file_key(path)
    if key not in _descriptors:
        _descriptors[key] = os.open(path, os.O_RDONLY)
    return _descriptors[key]


def check_readable(path: Path) -> None:
    """Check that each byte of a file can be read.

    SQLite reports a disk that fails as a damaged file.

    Raises:
        StoreError: If it cannot.
    """
    try:
        descriptor, position = _open_for_ever(path), 0
        while block := os.pread(descriptor, _READ_BYTES, position):
            position += len(block)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} cannot be read ({error.strerror}); it may be whole, so check its disk, cable or network"
        ) from error


def _read_pages(path: Path, log: Log, numbers: Iterable[int]) -> Iterator[tuple[bytes, bytes]]:
    """Yield each of these pages, first as the file has it, then as the log has it."""
    descriptor = _open_for_ever(path)
    with log_path(path).open("rb") as log_file:
        for number in numbers:
            log_file.seek(log.pages[number] + _FRAME_HEADER)
            file_page = os.pread(descriptor, log.page_size, (number - 1) * log.page_size)
            yield file_page, log_file.read(log.page_size)


def _is_log_header(header: bytes) -> bool:
    return len(header) == _LOG_HEADER and int.from_bytes(header[:4]) in _LOG_MAGIC


def _read_salts(path: Path) -> bytes | None:
    """Return the salts of a log; `None` if there is no log."""
    try:
        with path.open("rb") as file:
            header = file.read(_LOG_HEADER)
    except OSError:
        return None
    return header[16:24] if _is_log_header(header) else None


def _read_log(path: Path) -> Log | None:
    """Return the valid part of a log; `None` if there is none."""
    try:
        with path.open("rb") as file:
            header = file.read(_LOG_HEADER)
            if not _is_log_header(header):
                return None
            page_size = int.from_bytes(header[8:12])
            log, position = Log(header[16:24], [], {}, 0, page_size, is_damaged=False), _LOG_HEADER
            uncommitted: list[tuple[int, int, bytes]] = []
            for number, is_commit, salts, ending in _read_frames(file, page_size):
                if salts != log.salts:
                    break
                uncommitted.append((number, position, ending))
                position += _FRAME_HEADER + page_size
                if is_commit:
                    log = _add_commit(log, uncommitted)
                    uncommitted = []
    except OSError:
        return None
    return log if log.pages else None


def _read_frames(file: BinaryIO, page_size: int) -> Iterator[tuple[int, bool, bytes, bytes]]:
    """Yield page number, whether it ends a write, salts, and end of the page of each frame.

    A log has thousands of frames, so many are read at once. An incomplete frame at the end is left out.
    """
    size = _FRAME_HEADER + page_size
    while page_size >= 512 and (block := file.read(max(1, _READ_BYTES // size) * size)):
        for start in range(0, len(block) - size + 1, size):
            number, commit_size, salts = _FRAME.unpack_from(block, start)
            yield number, commit_size > 0, salts, block[start + size - STAMP_BYTES : start + size]


def _add_commit(log: Log, frames: list[tuple[int, int, bytes]]) -> Log:
    log.pages.update({number: position for number, position, _ in frames})
    endings = {number: ending for number, _, ending in frames if ending.startswith(_MAGIC)}
    stamps = [Stamp.parse(ending) for ending in endings.values()]
    log.stamps.extend(stamp for stamp in stamps if stamp is not None)
    return log._replace(is_damaged=log.is_damaged or None in stamps, stamp_page=min(endings, default=log.stamp_page))


def _read_file_stamp(path: Path) -> tuple[bool | None, Stamp | None]:
    """Return whether the file has tables, and its stamp; neither is read from the log.

    The first is `None` if the file cannot be read.
    """
    import sqlite3

    # Through SQLite, as it alone may open and close a file that it has locked in this process.
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
            if "stamp" not in tables:
                return bool(tables), None
            row = connection.execute("SELECT data FROM stamp WHERE id = 1").fetchone()
            return True, Stamp.parse(row[0]) if row else None
    except sqlite3.Error:
        return None, None


@contextmanager
def _lock_folder(folder: Path) -> Iterator[None]:
    """Keep other processes from setting aside logs in this folder while the block runs."""
    try:
        import fcntl
    except ImportError:  # Windows refuses to rename a file that is open, so there is no need
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems lock no folders
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@cache
def _read_boot_id() -> bytes:
    try:
        return bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().strip().replace("-", ""))[:16]
    except (OSError, ValueError):
        return _NO_TOKEN


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except OSError:
        return None
