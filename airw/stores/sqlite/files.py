"""Copying and checking the file of a corpus, also while others read it."""

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.lowlevel

from airw._base.concurrency import first_error, in_thread
from airw._base.file_lock import hold_folder, sync_file
from airw.errors import ArgumentError, CorpusNotFound, StoreCorrupt, StoreError
from airw.stores.sqlite._checking import find_damage, prepare_check
from airw.stores.sqlite._schema import (
    WrongFormat,
    beside,
    check_removable,
    connect,
    is_state_known,
    log_paths,
    note_state,
    transaction,
    translate_errors,
)
from airw.stores.sqlite._vectors import list_files, vector_folder
from airw.stores.sqlite.store import SqliteStore

T = TypeVar("T")

_PAGES = 1024  # per step of a copy; it can be cancelled between steps


async def copy_file(source: Path, target: Path, *, replace: bool = False) -> None:
    """Copy the file of a corpus in the state of one moment.

    The copy is put in place in one step. Others may read and write the source meanwhile, and read the target. Stores
    that have the target open continue with the new file. The copy is on the disk when the call returns.

    Args:
        source: The file to copy.
        target: The new file; its folder must exist.
        replace: Whether to replace a corpus at the target.

    Raises:
        ArgumentError: If source and target are the same file.
        CorpusNotFound: If there is no corpus at the source.
        StoreBusy: If a builder holds the lock of the target for more than 30 seconds.
        StoreError: If the target exists and `replace` is false, or a file cannot be read or written.
    """
    source, target = await in_thread(_check_paths, source, target)
    async with replace_file(target, replace=replace) as partial:
        await _run_until_cancelled(_copy_pages, source, partial)
        await in_thread(_copy_vectors, source, target)


@asynccontextmanager
async def replace_file(target: Path, *, replace: bool = False) -> AsyncIterator[Path]:
    """Yield the path of a partial file, which takes the place of a corpus.

    It does so at the end of the block, in one step. Builders of the corpus wait.

    Args:
        target: The file; its folder must exist.
        replace: Whether a file that exists is replaced.

    Raises:
        StoreBusy: If a builder holds the lock of the target for more than 30 seconds.
        StoreError: If the target exists and `replace` is false, or is not a corpus, or cannot be written.
    """
    target = await in_thread(target.absolute)
    lock = beside(target, "-lock")
    has_lock = lock.exists()
    async with SqliteStore(target).writing():
        try:
            partial = await in_thread(_prepare_partial, target, replace)
            try:
                yield partial
                await in_thread(_copy_vectors, partial, target)
                await in_thread(_put_in_place, partial, target)
            finally:
                with anyio.CancelScope(shield=True):
                    await in_thread(_remove_partial, partial)
        finally:
            if not has_lock:
                lock.unlink(missing_ok=True)


async def check_file(path: Path, *, only_if_changed: bool = False) -> list[str]:
    """Return what is damaged in the file of a corpus, one line each.

    Every page, row, vector and posting is read. Others may read and write meanwhile.

    Args:
        path: The file.
        only_if_changed: Whether to skip a file that only airw has changed since it was found whole, and that was always
            closed in order.

    Raises:
        CorpusNotFound: If there is no corpus at this path.
        StoreCorrupt: If the file is of another application or a newer version.
        StoreError: If it cannot be read.
    """
    if only_if_changed and await in_thread(is_state_known, path):
        return []
    faults = await _run_until_cancelled(_check, path)
    if not faults:
        await in_thread(note_state, path)
    return faults


def _check_paths(source: Path, target: Path) -> tuple[Path, Path]:
    """Return both paths, absolute, if there is a file to copy and it is not the target."""
    source, target = source.absolute(), target.absolute()
    if source == target or (source.exists() and target.exists() and source.samefile(target)):
        raise ArgumentError(f"source and target are the same file: {str(target)!r}")
    if not source.is_file():
        raise CorpusNotFound(f"there is no corpus at {str(source)!r}")
    return source, target


def _prepare_partial(target: Path, replace: bool) -> Path:  # noqa: FBT001
    if target.exists() and not replace:
        raise StoreError(f"{str(target)!r} exists; pass replace=True to replace it")
    check_removable(target)
    partial = beside(target, "-partial")
    _remove_partial(partial)
    return partial


def _remove_partial(partial: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        with suppress(OSError):
            beside(partial, suffix).unlink()
    shutil.rmtree(vector_folder(partial), ignore_errors=True)


def _copy_pages(check_cancelled: Callable[..., None], source: Path, partial: Path) -> None:
    import sqlite3

    with (
        closing(connect(source)) as connection,
        translate_errors(source),
        closing(sqlite3.connect(partial, isolation_level=None)) as copy,
        # One snapshot for all steps: a write between two of them does not begin the copy again.
        transaction(connection),
    ):
        connection.execute("SELECT 1 FROM sqlite_schema").fetchone()
        connection.backup(copy, pages=_PAGES, progress=check_cancelled)


def _copy_vectors(source: Path, target: Path) -> None:
    """Copy the saved vectors; the database knows by checksums which files are valid."""
    with suppress(OSError):  # the next write makes them again
        folder = vector_folder(source)
        for file in list_files(folder):
            vector_folder(target).mkdir(exist_ok=True)
            copy = vector_folder(target) / file.name
            if not copy.exists() or copy.stat().st_size != file.stat().st_size:
                partial = copy.with_name("partial-copy")
                shutil.copyfile(file, partial)
                partial.replace(copy)


def _put_in_place(partial: Path, target: Path) -> None:
    """Rename the partial file to the target, and remove the log of the old file.

    The log goes first, as SQLite would apply it to the new file. What is in it is copied into the old file before, so
    that this one is whole if the process is killed in between.
    """
    import sqlite3

    try:
        sync_file(partial)
        with hold_folder(target.parent):  # nobody opens the old file with the log of the new one, or the reverse
            with (
                suppress(sqlite3.Error),  # such as of readers, which keep a part of the log
                closing(sqlite3.connect(f"{target.as_uri()}?mode=rw", uri=True)) as connection,
            ):
                connection.execute("PRAGMA wal_checkpoint")
            for log in log_paths(target):
                log.unlink(missing_ok=True)
            partial.replace(target)
        with suppress(OSError):  # Windows opens no folders
            sync_file(target.parent)
    except OSError as error:
        raise StoreError(f"{str(target)!r} cannot be written ({error.strerror})") from error


def _check(check_cancelled: Callable[..., None], path: Path) -> list[str]:
    path = path.absolute()
    try:
        connection = connect(path)
    except WrongFormat:
        raise
    except StoreCorrupt as error:
        return [str(error.__cause__ or error)]
    with closing(connection), translate_errors(path):
        prepare_check(connection)
        connection.execute("BEGIN")  # one snapshot, which closing ends: a commit would fail once it has met damage
        connection.set_progress_handler(check_cancelled, 100_000)
        return list(find_damage(connection))


class _Cancelled(Exception):
    """Ends the work in a thread whose caller was cancelled."""


async def _run_until_cancelled(work: Callable[..., T], *args: object) -> T:
    """Return `work(check_cancelled, *args)`, called in a worker thread.

    `check_cancelled` raises an error once the caller is cancelled. In a callback of SQLite, that interrupts the work.
    """
    is_cancelled = False

    def check_cancelled(*_: object) -> None:
        if is_cancelled:
            raise _Cancelled

    async def watch() -> None:
        nonlocal is_cancelled
        try:
            await anyio.sleep_forever()
        finally:
            is_cancelled = True

    with first_error():
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            try:
                result = await in_thread(work, check_cancelled, *args)
            except (_Cancelled, StoreError):
                await anyio.lowlevel.checkpoint_if_cancelled()
                raise
            group.cancel_scope.cancel()
    return result
