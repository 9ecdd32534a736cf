"""A lock on a file, across tasks and processes; it ends with its process."""

import errno
import os
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path

import anyio

from airw.errors import StoreBusy, StoreError

_RETRY_INTERVAL = 0.01  # seconds
_FEW_FILES = 8  # more than SQLite opens for one file
_HELD_BY_OTHER = {errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK, errno.EINTR}

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _lock_folder(descriptor: int, *, shared: bool) -> None:
        pass  # Windows refuses to rename a file that is open, so there is no need
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _lock_folder(descriptor: int, *, shared: bool) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


@asynccontextmanager
async def hold_file(
    path: Path,
    *,
    timeout: float,  # noqa: ASYNC109 - it becomes an error here
    holder: str = "builder",
) -> AsyncIterator[None]:
    """Lock a file while the block runs.

    The file is created if it does not exist, and stays behind, empty.

    Args:
        path: The path of the lock file.
        timeout: The seconds to wait for another holder.
        holder: The kind of holder, for error messages.

    Raises:
        StoreBusy: If another holder still has the lock after `timeout` seconds.
        StoreError: If the file cannot be created, or its file system has no locks.
    """
    # Poll: a blocking lock would occupy a worker thread that cannot be cancelled.
    deadline = anyio.current_time() + timeout
    while (descriptor := _try_hold(path, holder)) is None:
        if anyio.current_time() >= deadline:
            waited = f" after {timeout:g} seconds" if timeout else ""
            raise StoreBusy(f"another {holder} still holds {str(path)!r}{waited}; wait for it to finish")
        await anyio.sleep(_RETRY_INTERVAL)
    try:
        yield
    finally:
        os.close(descriptor)


@contextmanager
def hold_folder(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Lock a folder while the block runs, which must be short: others wait in their threads.

    Any number may hold a shared lock at once. Where folders cannot be locked, the block runs all the same.
    """
    descriptor = None
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        _lock_folder(descriptor, shared=shared)
    try:
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def sync_file(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on the disk.

    Raises:
        OSError: If that fails.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_hold(path: Path, holder: str) -> int | None:
    """Open and lock the file; return `None` if another holder has it or the file was removed."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} cannot be made ({error.strerror}); a {holder} needs a folder one can write to"
        ) from error
    is_locked = False
    try:
        _try_lock(descriptor)
        # If the file was removed after opening, others lock a new file of that name: this lock excludes nobody.
        is_locked = os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        pass
    except OSError as error:
        if error.errno not in _HELD_BY_OTHER:
            raise StoreError(
                f"{str(path)!r} cannot be locked ({error.strerror}), so a {holder} would not be safe from others; "
                "move it to a file system with locks, such as a disk of this machine"
            ) from error
    finally:
        if not is_locked:
            os.close(descriptor)
    return descriptor if is_locked else None


MORE_FILES = "close some files, or let this process open more (ulimit -n)"
"""The advice to a process that `lacks_open_files`."""


def lacks_open_files() -> bool:
    """Return whether this process can hardly open another file, which SQLite does not say."""
    with ExitStack() as opened:
        try:
            for _ in range(_FEW_FILES):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
