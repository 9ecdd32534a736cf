"""The connections to one file: a long call on one of them holds up no short one."""

import os
import time
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

import anyio
import anyio.to_thread

from airw._base.concurrency import in_thread, spare_thread_limiter
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
    import sqlite3

R = TypeVar("R")
_Key: TypeAlias = tuple[int, ...]  # device and inode of a file
FileVersion: TypeAlias = Hashable
"""A state of a file, as one store has seen it. Two states are equal if nobody has written in between."""

_PATIENCE = 10.0  # seconds that a write waits for other writers
_RETRY_EVERY = 0.02  # seconds
_INTERRUPT_EVERY = 0.005  # seconds between interrupts of a cancelled call
_STOP_WITHIN = 1.0  # seconds
_INTERRUPT_WITHIN = 5.0  # seconds in which a cancelled call is interrupted
_READ_BYTES = 1 << 20
_MOST = 8  # connections; long calls on all of them hold up others
_SHORT = 0.005  # seconds; a call that takes longer is waited for only if there can be no other connection
_CACHE = 1024  # KiB of pages that each connection but the first may keep

_descriptors: dict[_Key, int] = {}  # see `_check_readable`


class FileReplaced(StoreError):
    """The file at the path is no longer the one that was opened."""


class Connection:
    """An SQLite connection that one call uses at a time, in a worker thread.

    Each call runs a whole function there. So a transaction of many statements costs one switch of threads, and Python
    values are made from rows without blocking the event loop.

    Args:
        path: The file.
        connect: Opens the file, as the function `connect` does.
    """

    def __init__(self, path: Path, connect: "Callable[[], sqlite3.Connection]") -> None:
        self._path, self._connect = path, connect
        self._raw, self.key, self._log_key = _open_file(path, connect)
        self._immutable_state = read_immutable_state(path)
        self._lock = SharedLock(repr(str(path)))
        self._running = Lock()  # held by the thread that uses the connection: that of a cancelled call may still do so
        self._present: object = None  # the call that may use the connection
        self._is_cut = False  # whether a call was cancelled whose transaction may still be open
        self.is_open = True

    @classmethod
    async def open(cls, path: Path, **options: Any) -> Self:
        """Open the file with the options of `connect`.

        Raises:
            StoreError: If the event loop is not asyncio. And as `connect` does.
        """
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise StoreError("SqliteStore runs on asyncio only; on trio, use MemoryStore, which runs on both") from None
        # A cancelled half of this would leak a connection; all of it is quick.
        with anyio.CancelScope(shield=True):
            connection = await in_thread(cls, path, partial(connect, path, **options))
        return connection  # noqa: RET504 - for mypy, the block may swallow an error

    async def run(self, work: "Callable[[sqlite3.Connection], R]") -> R:
        """Return `work(connection)`, called in a worker thread.

        If the call is cancelled, its statement is interrupted and its transaction rolled back.

        Raises:
            FileReplaced: If the file at the path is another one by now.
            StoreError: If the connection is closed, or SQLite fails.
        """
        async with self._lock.hold():
            if not self.is_open:
                raise StoreError(f"{str(self._path)!r} is closed; open it again")
            self.check_same()
            if self._is_cut:
                await in_thread(self._stop_call)
            # Asked for here: a call that its loop abandons is closed where no loop runs.
            cancelled = anyio.get_cancelled_exc_class()
            try:
                with translate_errors(self._path):
                    result = await self._submit(work)
            except cancelled:
                self._present, self._is_cut = None, True
                with anyio.CancelScope(shield=True):
                    await in_thread(self._stop_call, limiter=spare_thread_limiter())
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
                        if self._present is None:
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
        """Return `work(connection)`, called in a worker thread.

        A cancelled caller does not wait for the thread.
        """
        present = self._present = object()

        def call() -> R:
            with self._running, note_work():
                if self._present is not present:
                    raise StoreError("the call was cancelled before it began")
                return work(self._raw)

        return await anyio.to_thread.run_sync(call, abandon_on_cancel=True)

    def _stop_call(self) -> None:
        """Interrupt the cancelled call, and roll its transaction back.

        A call that cannot be interrupted ends later, and so does its transaction: before the next call.
        """
        deadline = time.monotonic() + _INTERRUPT_WITHIN
        # An interrupt stops only the present statement, and the call may go on with its next one: so repeat it.
        while not self._running.acquire(timeout=_INTERRUPT_EVERY):
            if time.monotonic() > deadline:
                return
            self._raw.interrupt()
        try:
            if not _roll_back(self._raw):
                with suppress(StoreError):  # the next call says so
                    self._replace_raw(self._raw)
            self._is_cut = False
        finally:
            self._running.release()

    def _replace_raw(self, raw: "sqlite3.Connection") -> None:
        """Close the connection, which undoes its transaction, and open the file again."""
        raw.close()
        self._raw, key, _ = _open_file(self._path, self._connect)
        if key != self.key:  # another file, whose connections others open
            self.is_open = False
            self._raw.close()

    async def aclose(self) -> None:
        """Close the connection; closing twice is harmless."""
        with anyio.CancelScope(shield=True):
            async with self._lock.hold():
                if not self.is_open:
                    return
                self.is_open = False
                with translate_errors(self._path):
                    await self._submit(self._close)

    def _close(self, raw: "sqlite3.Connection") -> None:
        self._remove_stale_log()  # while the log is open: afterwards, another file could have its inode
        raw.close()

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
            if self._running.acquire(timeout=_STOP_WITHIN):
                self._raw.close()
                self._running.release()


class Readers:
    """One or more connections to a file, each of which answers one call at a time.

    A call takes the first connection that is free. Another one is opened when all are busy with long calls.

    Args:
        path: The file.
        first: The first connection; the others are opened here.
        at_once: The number of connections that short calls may use at once.
    """

    def __init__(self, path: Path, first: Connection, *, at_once: int) -> None:
        import sqlite3

        self._path = path
        self.first, self._all = first, [first]
        self._busy_since: dict[Connection, float] = {}
        self._guard = RLock()  # as calls come from several event loops; reentrant, as that of `SharedLock`
        self._turn = SharedLock(repr(str(path)))  # of the calls that wait, the first one looks for a connection
        self._released: Signal | None = None  # of that one
        self.used_at = time.monotonic()  # for the last time
        self._at_once, self._most = at_once, _MOST
        # A connection of its own, which no thread uses: so a look at the version takes microseconds, and never waits.
        self._watch: sqlite3.Connection | None = None
        self._is_watched = True  # until the end

    @property
    def is_idle(self) -> bool:
        """Return whether no call uses the file."""
        return not (self._busy_since or self._turn.is_held)

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
                self.used_at = time.monotonic()
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
            if len(self._all) < (self._at_once if is_first_short else self._most):
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


def _roll_back(raw: "sqlite3.Connection") -> bool:
    """Roll back the transaction of an interrupted call; return whether that was possible."""
    import sqlite3

    deadline = time.monotonic() + _STOP_WITHIN
    while raw.in_transaction:
        try:
            raw.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            # As long as a statement is open that was interrupted, perhaps one of a full-text index, SQLite interrupts
            # all others, too.
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            if time.monotonic() > deadline:
                return False
    return True


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
