"""Locking the store of a build, and creating its corpus all or nothing."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio

from airw.errors import CorpusNotFound, StoreCorrupt, StoreError
from airw.protocols import Counts, ask
from airw.stores import SqliteStore, check_file

if TYPE_CHECKING:
    from airw.stores import PostgresStore

_CLEANUP_TIMEOUT = 10.0  # seconds
Step: TypeAlias = Callable[[], Awaitable[object]]


@asynccontextmanager
async def lock_file(
    store: SqliteStore, path: Path, exit_stack: AsyncExitStack, before_create: Step
) -> AsyncIterator[None]:
    """Lock, check and open the store of a file, which `exit_stack` closes.

    Args:
        store: The store, not open yet.
        path: Its file.
        exit_stack: Closes the store.
        before_create: Runs before the folder of a file that does not exist is made; if it fails, nothing is created.

    Raises:
        StoreCorrupt: If the file is damaged.
    """
    await _prepare_folder(path, before_create)
    async with store.writing():
        if await _has_content(path):
            await _check_whole(path)
        # Open the file under the lock, so that two builders never create it at the same time.
        is_new = not await anyio.Path(path).exists()
        async with _discard_if_failed(store, exit_stack, is_new=is_new):
            yield


@asynccontextmanager
async def lock_server(store: "PostgresStore", exit_stack: AsyncExitStack, before_create: Step) -> AsyncIterator[None]:
    """Lock and open a store on a server, which `exit_stack` closes.

    `before_create` runs first if there is no such corpus.
    """
    if not await store.exists():
        await before_create()
    async with store.writing():
        is_new = not await store.exists()
        async with _discard_if_failed(store, exit_stack, is_new=is_new):
            yield


@asynccontextmanager
async def _discard_if_failed(
    store: "SqliteStore | PostgresStore", exit_stack: AsyncExitStack, *, is_new: bool
) -> AsyncIterator[None]:
    """Open a store; if the block fails before it wrote an artifact into a new one, remove it."""
    await exit_stack.enter_async_context(store)
    try:
        yield
    except BaseException:
        if is_new:
            await _discard_if_empty(store)
        raise


async def _discard_if_empty(store: "SqliteStore | PostgresStore") -> None:
    """Remove the corpus of a build that failed before it wrote an artifact.

    Artifacts that are written stay: the next build continues with them.
    """
    with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True), suppress(StoreError):
        if not (await ask(store, Counts()))["artifacts"]:
            await store.discard()


async def _prepare_folder(path: Path, before_create: Callable[[], Awaitable[object]]) -> None:
    """Create the folder of a new corpus file, after `before_create` has run."""
    # Without permission to look, the file may exist all the same: locking it then raises the exact error.
    with suppress(PermissionError):
        if await anyio.Path(path).exists():
            return
        await before_create()
        try:
            await anyio.Path(path.parent).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"the folder {str(path.parent)!r} cannot be made: {error.strerror}") from error


async def _has_content(path: Path) -> bool:
    try:
        return (await anyio.Path(path).stat()).st_size > 0
    except OSError:  # opening the file raises the exact error, or creates it
        return False


async def _check_whole(path: Path) -> None:
    """Check a corpus file, unless only airw has changed it since it was found whole.

    Raises:
        StoreCorrupt: If it is damaged.
    """
    try:
        faults = await check_file(path, only_if_changed=True)
    except CorpusNotFound:  # the process that created the file was killed
        return
    if faults:
        raise StoreCorrupt(
            f"{str(path)!r} is damaged ({faults[0]}); check its disk, then restore a copy of it, or remove it and "
            "build it again"
        )
