"""A database connection that asyncio tasks share, one call at a time."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar, cast

import anyio

from airw._base.concurrency import in_thread
from airw.errors import StoreBusy, StoreError
from airw.stores.sqlite._schema import connect, read_immutable_state, translate_errors

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 10.0  # seconds that a write waits for other writers
_RETRY_EVERY = 0.02  # seconds
_INTERRUPT_EVERY = 0.005  # seconds between interrupts of a cancelled call
_INTERRUPT_WITHIN = 5.0  # seconds; later calls wait for the thread in any case


class Connection:
    """An SQLite connection with its own thread.

    Each call runs a whole function on that thread. So a transaction of many statements costs one switch of threads, and
    Python values are made from rows without blocking the event loop.
    """

    def __init__(self, path: Path, raw: "sqlite3.Connection", thread: "aiosqlite.Connection") -> None:
        self._path = path
        self._raw = raw
        self._thread = thread
        self._state = read_immutable_state(path)
        self._inode = path.stat().st_ino
        self._lock = anyio.Lock()
        self.is_open = True

    @classmethod
    async def open(cls, path: Path, *, create: bool = False, writable: bool = False) -> Self:
        """Open the file as `connect` does, and start the thread.

        Raises:
            StoreError: If the event loop is not asyncio, or aiosqlite is too new. And as `connect` does.
        """
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise StoreError(
                "SqliteStore runs on asyncio only, because aiosqlite does; on trio, use MemoryStore, which runs on both"
            ) from None
        import aiosqlite

        if not hasattr(aiosqlite.Connection, "_execute"):  # see `_submit`
            raise StoreError(
                f"aiosqlite {aiosqlite.__version__} is too new for this airw: "
                f"{sys.executable} -m pip install 'aiosqlite<0.23'"
            )
        # A cancelled half of this would leak a connection or a thread; all of it is quick.
        with anyio.CancelScope(shield=True):
            raw = await in_thread(lambda: connect(path, create=create, writable=writable))
            thread = aiosqlite.Connection(lambda: raw, iter_chunk_size=64)
            # A store that is never closed must not keep the interpreter alive. Before aiosqlite 0.22, the connection
            # is the thread itself.
            cast("Thread", getattr(thread, "_thread", thread)).daemon = True
            await thread
        return cls(path, raw, thread)

    async def run(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return `work(connection, …)`, called on the thread of the connection.

        If the call is cancelled, its statement is interrupted and its transaction rolled back.

        Raises:
            StoreError: If the connection is closed, or SQLite fails.
        """
        async with self._lock:
            if not self.is_open:
                raise StoreError(f"{str(self._path)!r} is closed; open it again")
            try:
                with translate_errors(self._path):
                    result = cast("R", await self._submit(work, *args, **kwargs))
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._interrupt()
                raise
            self.check_same()
            return result

    async def run_with_retry(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return the result of `run`, and try again while another writer holds the file.

        SQLite itself would wait inside the thread, where a wait cannot be cancelled.

        Raises:
            StoreBusy: If other writers still hold the file after ten seconds.
        """
        deadline = anyio.current_time() + _PATIENCE
        while True:
            try:
                return await self.run(work, *args, **kwargs)
            except StoreBusy:
                if anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(_RETRY_EVERY)

    def check_same(self) -> None:
        """Check that the open file is still the file at its path.

        SQLite would read a removed or replaced file on, and never notice.

        Raises:
            StoreError: If it was removed or replaced, or if it changed although it is read without locks.
        """
        try:
            inode = self._path.stat().st_ino
        except OSError as error:
            raise StoreError(
                f"{str(self._path)!r} was removed while open ({error.strerror}); build it again"
            ) from error
        if inode != self._inode:
            raise StoreError(f"{str(self._path)!r} was replaced while open; open it again")
        # A file in a read-only folder is read without locks, so SQLite does not notice its changes.
        if self._state and read_immutable_state(self._path) != self._state:
            raise StoreError(f"{str(self._path)!r} has changed in a folder that cannot be written; open it again")

    async def _submit(self, work: Callable[..., object], *args: object, **kwargs: object) -> object:
        # aiosqlite has no public method that runs a function of several statements on its thread.
        execute = cast("Callable[..., Awaitable[object]]", self._thread._execute)  # noqa: SLF001
        return await execute(work, self._raw, *args, **kwargs)

    async def _interrupt(self) -> None:
        """Interrupt the running call, and roll its transaction back."""
        import asyncio

        # The thread works in order, so the rollback runs as soon as the cancelled call ends.
        rollback = asyncio.ensure_future(self._submit(_roll_back))
        # An interrupt stops only the present statement, and the call may go on with its next one: so repeat it.
        with anyio.move_on_after(_INTERRUPT_WITHIN):
            while not rollback.done():
                self._raw.interrupt()
                await asyncio.wait([rollback], timeout=_INTERRUPT_EVERY)

    async def aclose(self) -> None:
        """Close the connection and end its thread; closing twice is harmless."""
        with anyio.CancelScope(shield=True):
            async with self._lock:
                if self.is_open:
                    self.is_open = False
                    with translate_errors(self._path):
                        await self._thread.close()

    def abandon(self) -> None:
        """Close the connection without waiting, for a store that was never closed."""
        if self.is_open:
            self.is_open = False
            self._thread.stop()


def _roll_back(raw: "sqlite3.Connection") -> None:
    import sqlite3

    while raw.in_transaction:
        try:
            raw.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            # An interrupt meant for the cancelled call may hit the rollback: try again.
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
