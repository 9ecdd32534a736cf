"""A database connection that asyncio tasks share: one call at a time, and a cancelled call is stopped."""

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Self, TypeVar, cast

import anyio

from airw._base.concurrency import in_thread
from airw.errors import StoreBusy, StoreError
from airw.stores.sqlite._schema import connect, immutable_state, sqlite_errors

if TYPE_CHECKING:
    import sqlite3

    import aiosqlite

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 10.0  # seconds that one write waits for another
_RETRY_EVERY = 0.02  # seconds
_STOP_EVERY = 0.005  # seconds between interrupts of a cancelled call
_STOP_WITHIN = 5.0  # seconds; the thread works in order, so what comes later waits for it anyway


class Connection:
    """One SQLite connection on a thread of its own.

    A call is a whole function, so that a transaction of many statements, and the making of Python values from rows,
    costs one hop to that thread and keeps the event loop free.
    """

    def __init__(self, path: Path, raw: "sqlite3.Connection", thread: "aiosqlite.Connection") -> None:
        self._path = path
        self._raw = raw
        self._thread = thread
        self._state = immutable_state(path)
        self._inode = path.stat().st_ino
        self._turn = anyio.Lock()
        self.is_open = True

    @classmethod
    async def open(cls, path: Path, *, create: bool = False, writable: bool = False) -> Self:
        """Open the file as `connect` does, and start the thread."""
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise StoreError(
                "SqliteStore runs on asyncio only, because aiosqlite does; on trio use MemoryStore, which runs on both"
            ) from None
        import aiosqlite

        if not hasattr(aiosqlite.Connection, "_execute"):  # see `_submit`
            raise StoreError(
                f"aiosqlite {aiosqlite.__version__} is too new for this airw: "
                f"{sys.executable} -m pip install 'aiosqlite<0.23'"
            )
        with anyio.CancelScope(shield=True):  # opening is short, and half of it would leak
            raw = await in_thread(lambda: connect(path, create=create, writable=writable))
            thread = aiosqlite.Connection(lambda: raw, iter_chunk_size=64)
            # A store that nobody closed must not keep the interpreter from exiting. Before 0.22 it was a thread itself.
            cast("Thread", getattr(thread, "_thread", thread)).daemon = True
            await thread
        return cls(path, raw, thread)

    async def run(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Call `work(connection, …)` on the connection's thread; when cancelled, stop it and undo what it began.

        Raises:
            StoreError: The connection is closed, or SQLite failed.
        """
        async with self._turn:
            if not self.is_open:
                raise StoreError(f"{str(self._path)!r} is closed; open it again")
            try:
                with sqlite_errors(self._path):
                    answer = cast("R", await self._submit(work, *args, **kwargs))
            except anyio.get_cancelled_exc_class():
                with anyio.CancelScope(shield=True):
                    await self._stop()
                raise
            self.check_same()
            return answer

    async def run_in_turn(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Run `work`, which writes in one transaction; wait, where it can be cancelled, for other writers.

        Raises:
            StoreBusy: They held the file for ten seconds.
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
        """Refuse a file that is no longer the one at its path, or that changed while it was read without locks.

        Raises:
            StoreError: It is.
        """
        try:
            inode = self._path.stat().st_ino
        except OSError as error:
            raise StoreError(
                f"{str(self._path)!r} was removed while open ({error.strerror}); build it again"
            ) from error
        if inode != self._inode:
            raise StoreError(f"{str(self._path)!r} was replaced while open; open it again")
        if self._state and immutable_state(self._path) != self._state:  # it is read without locks
            raise StoreError(f"{str(self._path)!r} has changed in a folder that cannot be written; open it again")

    async def _submit(self, work: Callable[..., object], *args: object, **kwargs: object) -> object:
        # aiosqlite has no public way to run a function of several statements in one hop.
        execute = cast("Callable[..., Awaitable[object]]", self._thread._execute)  # noqa: SLF001
        return await execute(work, self._raw, *args, **kwargs)

    async def _stop(self) -> None:
        """Interrupt statement after statement until the thread has come to what it does next: rolling back."""
        import asyncio

        undone = asyncio.ensure_future(self._submit(_roll_back))
        with anyio.move_on_after(_STOP_WITHIN):
            while not undone.done():
                self._raw.interrupt()
                await asyncio.wait([undone], timeout=_STOP_EVERY)

    async def aclose(self) -> None:
        """Close the connection and end its thread; closing twice is harmless."""
        with anyio.CancelScope(shield=True):
            async with self._turn:
                if self.is_open:
                    self.is_open = False
                    with sqlite_errors(self._path):
                        await self._thread.close()

    def abandon(self) -> None:
        """Do as much of `aclose` as can be done without waiting."""
        if self.is_open:
            self.is_open = False
            self._thread.stop()


def _roll_back(raw: "sqlite3.Connection") -> None:
    import sqlite3

    while raw.in_transaction:
        try:
            raw.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:  # else: meant for the statement before it
                raise
