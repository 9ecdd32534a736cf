"""A lock on a file that one holds at a time, across tasks and processes, and that dies with its process."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from airw.errors import StoreBusy, StoreError

_ASK_EVERY = 0.01  # seconds

if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
else:
    import fcntl

    def _try_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@asynccontextmanager
async def hold_file(
    path: Path,
    *,
    timeout: float,  # noqa: ASYNC109 - it becomes an error here
    holder: str = "builder",
) -> AsyncIterator[None]:
    """Hold the lock on a file, made where there is none and left behind empty; `holder` says in errors who does.

    Raises:
        StoreBusy: Another holder still had it after `timeout` seconds.
        StoreError: The file cannot be made.
    """
    deadline = anyio.current_time() + timeout
    while (descriptor := _try_hold(path, holder)) is None:
        if anyio.current_time() >= deadline:
            waited = f" after {timeout:g} seconds" if timeout else ""
            raise StoreBusy(f"another {holder} still holds {str(path)!r}{waited}; wait for it to finish")
        await anyio.sleep(_ASK_EVERY)
    try:
        yield
    finally:
        os.close(descriptor)


def _try_hold(path: Path, holder: str) -> int | None:
    """Open and lock the file; give `None` while another holds it, or when it was removed meanwhile."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} cannot be made ({error.strerror}); a {holder} needs a folder one can write to"
        ) from error
    try:
        _try_lock(descriptor)
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except OSError:
        pass
    os.close(descriptor)
    return None
