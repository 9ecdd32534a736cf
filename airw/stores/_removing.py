"""Removing a corpus's file and what lies beside it."""

import shutil
from functools import partial
from pathlib import Path

import anyio

from airw._base.concurrency import in_thread
from airw.errors import StoreError

__all__ = ["remove_files"]


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
