"""The connections to one file, each with its own thread.

So a long call holds up no short one.
"""

import os
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, RLock, Thread
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import anyio

from airw._base.concurrency import in_thread
from airw._base.fairness import note_work, without_pause
from airw._base.sharing import SharedLock, Signal
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores.sqlite._schema import (
    connect,
    file_state,
    log_paths,
    open_raw,
    read_immutable_state,
    transaction,
    translate_errors,
)

if TYPE_CHECKING:
    import asyncio
    import sqlite3

    import aiosqlite

R = TypeVar("R")
_Key: TypeAlias = tuple[int, ...]  # device and inode of a file
FileVersion: TypeAlias = tuple[object, int]
"""A state of a file, as one watch has seen it. Two states are equal if nobody has written in between."""

_PATIENCE = 10.0  # seconds that a write waits for other writers
_RETRY_EVERY = 0.02  # seconds
_INTERRUPT_EVERY = 0.005  # seconds between interrupts of a cancelled call
_STOP_WITHIN = 1.0  # seconds
_INTERRUPT_WITHIN = 5.0  # seconds; later calls wait for the thread in any case
_READ_BYTES = 1 << 20
_AT_ONCE = 2  # connections that short calls may use at once
_MOST = 8  # connections; long calls on all of them hold up others
_SHORT = 0.005  # seconds; a call that takes longer is waited for only if there can be no other connection
_CACHE = 1024  # KiB of pages that each connection but the first may keep

_descriptors: dict[_Key, int] = {}  # see `_check_readable`


class FileReplaced(StoreError):
    """The file at the path is no longer the one that was opened."""


class Connection:
    """An SQLite connection with its own thread.

    Each call runs a whole function on that thread. So a transaction of many statements costs one switch of threads, and
    Python values are made from rows without blocking the event loop.

    Args:
        path: The file.
        connect: Opens the file, as the function `connect` does.
        thread: The thread, which is not started.
    """

    def __init__(self, path: Path, connect: "Callable[[], sqlite3.Connection]", thread: "aiosqlite.Connection") -> None:
        self._path, self._connect, self._thread = path, connect, thread
        self._raw, self.key, self._log_key = _open_file(path, connect)
        self._immutable_state = read_immutable_state(path)
        self._lock = SharedLock(repr(str(path)))
        self._is_cancelled = False
        self._is_stuck = False  # in a transaction that cannot be rolled back
        self.is_open = True

    @classmethod
    async def open(cls, path: Path, **options: Any) -> Self:
        """Open the file with the options of `connect`, and start the thread.

        Raises:
            StoreError: If the event loop is not asyncio. And as `connect` does.
        """
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise StoreError(
                "SqliteStore runs on asyncio only, because aiosqlite does; on trio, use MemoryStore, which runs on both"
            ) from None
        import aiosqlite

        thread = aiosqlite.Connection(lambda: connection._raw, iter_chunk_size=64)  # noqa: SLF001 - its own
        if not hasattr(thread, "_tx"):  # see `_submit`
            raise StoreError(
                f"aiosqlite {aiosqlite.__version__} is too new for this airw: "
                f"{sys.executable} -m pip install 'aiosqlite<0.23'"
            )
        # A cancelled half of this would leak a connection or a thread; all of it is quick.
        with anyio.CancelScope(shield=True):
            connection = await in_thread(cls, path, partial(connect, path, **options), thread)
            # A store that is never closed must not keep the interpreter alive.
            thread._thread.daemon = True  # noqa: SLF001 - there is no public way
            await thread
        return connection

    async def run(self, work: "Callable[[sqlite3.Connection], R]") -> R:
        """Return `work(connection)`, called on the thread of the connection.

        If the call is cancelled, its statement is interrupted and its transaction rolled back.

        Raises:
            FileReplaced: If the file at the path is another one by now.
            StoreError: If the connection is closed, or SQLite fails.
        """
        async with self._lock.hold():
            if not self.is_open:
                raise StoreError(f"{str(self._path)!r} is closed; open it again")
            self.check_same()
            if self._is_stuck:
                await self._submit(self._replace_raw)
            self._is_cancelled = False
            # Asked for here: a call that its loop abandons is closed where no loop runs.
            cancelled = anyio.get_cancelled_exc_class()
            try:
                with translate_errors(self._path):
                    result = await self._submit(work)
            except cancelled:
                with anyio.CancelScope(shield=True):
                    await self._interrupt()
                raise
            except StoreError as error:
                self.check_same()
                if isinstance(error, StoreCorrupt):
                    await in_thread(_check_readable, self._path)
                raise
            self.check_same()
            return result

    async def run_locked(self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]) -> R:
        """Return `prepare(connection)()`, both called in one snapshot of the file.

        The locks are taken before the snapshot begins, and released when `prepare` returns. So whoever takes one of
        them next sees this state of the file, or a later one.
        """

        def work(raw: "sqlite3.Connection") -> R:
            with ExitStack() as held:
                for lock in locks:
                    while not lock.acquire(timeout=_INTERRUPT_EVERY):
                        if self._is_cancelled:
                            raise StoreError("the call was cancelled")
                    held.callback(lock.release)
                    held.enter_context(without_pause())
                with transaction(raw):
                    finish = prepare(raw)
                    held.close()
                    return finish()

        return await self.run(work)

    async def run_with_retry(self, work: "Callable[[sqlite3.Connection], R]") -> R:
        """Return the result of `run`, and try again while another writer holds the file.

        SQLite itself would wait inside the thread, where a wait cannot be cancelled.

        Raises:
            StoreBusy: If other writers still hold the file after ten seconds.
        """
        deadline = anyio.current_time() + _PATIENCE
        while True:
            try:
                return await self.run(work)
            except StoreBusy:
                if anyio.current_time() >= deadline:
                    raise
            await anyio.sleep(_RETRY_EVERY)

    def check_same(self) -> None:
        """Check that the open file is still the file at its path.

        SQLite would read a removed or replaced file on, and never notice.

        Raises:
            FileReplaced: If it was replaced, or if it changed although it is read without locks.
            StoreError: If it was removed.
        """
        try:
            is_replaced = file_state(self._path)[:2] != self.key
        except OSError as error:
            raise StoreError(
                f"{str(self._path)!r} was removed while open ({error.strerror}); build it again"
            ) from error
        if self._immutable_state and read_immutable_state(self._path) != self._immutable_state:
            is_replaced = True  # its changes cannot be seen without locks
        if is_replaced:
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")

    async def _submit(self, work: "Callable[[sqlite3.Connection], R]") -> R:
        import asyncio

        loop = asyncio.get_running_loop()
        ended: asyncio.Future[R] = loop.create_future()

        def call() -> None:
            with suppress(RuntimeError):  # the loop of the caller has closed
                try:
                    with note_work():
                        result = work(self._raw)
                except BaseException as error:  # noqa: BLE001 - the caller raises it
                    loop.call_soon_threadsafe(_end, ended, ended.set_exception, error)
                else:
                    loop.call_soon_threadsafe(_end, ended, ended.set_result, result)

        # aiosqlite has no public method that runs a function of several statements on its thread, and its own futures
        # would end the thread with an error if the loop of the caller has closed.
        self._thread._tx.put_nowait((None, call))  # noqa: SLF001
        return await ended

    async def _interrupt(self) -> None:
        """Interrupt the running call, and roll its transaction back."""
        import asyncio

        self._is_cancelled = True
        # The thread works in order, so the rollback runs as soon as the cancelled call ends.
        rollback = asyncio.ensure_future(self._submit(self._roll_back))
        # An interrupt stops only the present statement, and the call may go on with its next one: so repeat it.
        with anyio.move_on_after(_INTERRUPT_WITHIN):
            while not rollback.done():
                self._raw.interrupt()
                await asyncio.wait([rollback], timeout=_INTERRUPT_EVERY)
        if self._is_stuck:
            with suppress(StoreError):  # the next call says so
                await self._submit(self._replace_raw)

    def _roll_back(self, raw: "sqlite3.Connection") -> None:
        """Roll back the transaction of a call that was interrupted."""
        import sqlite3

        deadline = time.monotonic() + _STOP_WITHIN
        while raw.in_transaction and not self._is_stuck:
            try:
                raw.execute("ROLLBACK")
            except sqlite3.OperationalError as error:
                # An interrupt meant for the cancelled call may hit the rollback: try again. But as long as a statement
                # is open that was interrupted, perhaps one of a full-text index, SQLite interrupts all others, too.
                if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                    raise
                self._is_stuck = time.monotonic() > deadline

    def _replace_raw(self, raw: "sqlite3.Connection") -> None:
        """Close the connection, which undoes its transaction, and open the file again."""
        raw.close()
        self._raw, key, _ = _open_file(self._path, self._connect)
        self._is_stuck = False
        if key != self.key:  # another file, whose connections others open
            self.is_open = False
            self._raw.close()

    async def aclose(self) -> None:
        """Close the connection and end its thread; closing twice is harmless."""
        with anyio.CancelScope(shield=True):
            async with self._lock.hold():
                if not self.is_open:
                    return
                self.is_open = False
                # While the log is open: afterwards, another file could have its inode.
                await in_thread(self._remove_stale_log)
                try:
                    with translate_errors(self._path):
                        await self._submit(lambda raw: raw.close())
                finally:
                    await in_thread(self._thread.stop)  # from a thread without a loop: no loop waits for the end

    def _remove_stale_log(self) -> None:
        """Remove the log of this file, which SQLite would apply to another file at the path."""
        log, index = log_paths(self._path)
        with suppress(OSError):
            if not self._immutable_state and _read_key(self._path) != self.key and _read_key(log) == self._log_key:
                index.unlink(missing_ok=True)
                log.unlink()

    def abandon(self) -> None:
        """Close the connection without an event loop, for a store that was never closed."""
        if self.is_open:
            self.is_open = False
            self._raw.interrupt()
            # aiosqlite reports to the event loop of the thread that calls it, which may be closed by now. A new thread
            # has none.
            stopping = Thread(target=self._thread.stop, daemon=True)
            stopping.start()
            stopping.join()
            with suppress(RuntimeError):  # this is that thread
                self._thread._thread.join(_STOP_WITHIN)  # noqa: SLF001 - once it has ended, aiosqlite does not warn


class Readers:
    """One or more connections to a file, each of which answers one call at a time.

    A call takes the first connection that is free. Another one is opened when all are busy with long calls.

    Args:
        path: The file.
        first: The first connection; the others are opened here.
    """

    def __init__(self, path: Path, first: Connection) -> None:
        import sqlite3

        self._path = path
        self.first, self._all = first, [first]
        self._busy_since: dict[Connection, float] = {}
        self._guard = RLock()  # as calls come from several event loops; reentrant, as that of `SharedLock`
        self._turn = SharedLock(repr(str(path)))  # of the calls that wait, the first one looks for a connection
        self._released: Signal | None = None  # of that one
        self._used_at = time.monotonic()
        self._most = _MOST
        # A connection of its own, which no thread uses: so a look at the version takes microseconds, and never waits.
        self._watch: sqlite3.Connection | None = None
        self._is_watched = True  # until the end

    def is_idle(self, seconds: float = 0.0) -> bool:
        """Return whether no call has used the file for some seconds."""
        return not (self._busy_since or self._turn.is_held) and time.monotonic() - self._used_at >= seconds

    def read_version(self) -> FileVersion | None:
        """Return the version of the file, for an answer from memory; `None` if it is unknown."""
        import sqlite3

        try:
            self.first.check_same()
            with self._guard:
                if self._watch is None and self._is_watched:
                    self._watch = open_raw(self._path, "ro", 0)
                watch = self._watch
            if watch is None:
                return None
            (number,) = watch.execute("PRAGMA data_version").fetchone()
        except (StoreError, sqlite3.Error, OSError):  # such as while another process recovers the file
            return None
        return watch, number

    async def run_locked(self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]) -> R:
        """Return `prepare(connection)()`, called on a free connection.

        The locks are held as by `Connection.run_locked`.
        """
        async with self._hold_one() as connection:
            return await connection.run_locked(prepare, locks)

    @asynccontextmanager
    async def _hold_one(self) -> AsyncIterator[Connection]:
        """Yield a connection that no other call uses meanwhile."""
        connection = None if self._turn.is_held else self._take_free()
        if connection is None:
            async with self._turn.hold():
                connection = await self._wait_for_free()
        try:
            yield connection
        finally:
            with self._guard:
                del self._busy_since[connection]
                self._used_at = time.monotonic()
                if self._released is not None:
                    self._released.set()

    def _take_free(self) -> Connection | None:
        with self._guard:
            # The first one has the largest cache.
            for connection in self._all:
                if connection not in self._busy_since:
                    self._busy_since[connection] = time.monotonic()
                    return connection
        return None

    async def _wait_for_free(self) -> Connection:
        """Return a connection that is free, or a new one if waiting could take long."""
        while True:
            released = self._released = Signal()  # before the look: what is released after it sets the signal
            connection = self._take_free()
            if connection is not None:
                return connection
            with self._guard:
                is_first_short = time.monotonic() - max(self._busy_since.values(), default=0.0) < _SHORT
            if len(self._all) < (_AT_ONCE if is_first_short else self._most):
                await self._open_another()
                continue
            with anyio.move_on_after(_SHORT if len(self._all) < self._most else None):
                await released.wait()

    async def _open_another(self) -> None:
        """Open one more connection, if that is possible.

        Raises:
            FileReplaced: If another file is at the path by now.
        """
        try:
            connection = await Connection.open(self._path, cache=_CACHE)
        except StoreError:
            self.first.check_same()
            self._most = len(self._all)  # too many open files, perhaps: those that are open suffice
            return
        if connection.key != self.first.key:
            await connection.aclose()
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")
        self._all.append(connection)

    async def aclose(self) -> None:
        """Close all connections once their calls have ended; closing twice is harmless."""
        async with self._turn.hold():
            self._close_watch()  # before the other connections
            for connection in self._all:
                await connection.aclose()

    def abandon(self) -> None:
        """Close all connections without an event loop."""
        self._close_watch()
        for connection in self._all:
            connection.abandon()

    def _close_watch(self) -> None:
        with self._guard:
            self._is_watched = False
            if self._watch is not None:
                self._watch.close()


def _end(ended: "asyncio.Future[Any]", report: Callable[[Any], None], outcome: object) -> None:
    if not ended.done():  # as it was cancelled
        report(outcome)


def _open_file(
    path: Path, connect: "Callable[[], sqlite3.Connection]"
) -> "tuple[sqlite3.Connection, _Key, _Key | None]":
    """Open a file, and open it again if another one takes its place meanwhile.

    Returns:
        The connection, and the keys of the file and of the log that it has open.
    """
    while True:
        before, raw = _read_key(path), connect()
        log_key, key = _read_key(log_paths(path)[0]), _read_key(path)
        if key is not None and before in (None, key):
            return raw, key, log_key
        raw.close()


def _read_key(path: Path) -> _Key | None:
    """Return the key of a file; `None` if there is none."""
    try:
        return file_state(path)[:2]
    except OSError:
        return None


def _check_readable(path: Path) -> None:
    """Check that each byte of a file can be read.

    SQLite reports a disk that fails as a damaged file.

    Raises:
        StoreError: If it cannot.
    """
    try:
        key = file_state(path)[:2]
        # Never closed: closing any descriptor of a file ends all locks that SQLite has on it in this process.
        descriptor = _descriptors[key] = _descriptors.get(key) or os.open(path, os.O_RDONLY)
        position = 0
        while block := os.pread(descriptor, _READ_BYTES, position):
            position += len(block)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} cannot be read ({error.strerror}); it may be whole, so check its disk, cable or network"
        ) from error
