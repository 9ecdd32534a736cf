"""A database connection that tasks of asyncio share, one call at a time."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, Self, TypeVar, cast

import anyio

from airw._base.concurrency import in_thread
from airw._base.fairness import note_work, without_pause
from airw._base.sharing import SharedLock
from airw.errors import StoreBusy, StoreCorrupt, StoreError
from airw.stores.sqlite._schema import (
    connect,
    file_key,
    log_paths,
    read_immutable_state,
    transaction,
    translate_errors,
)
from airw.stores.sqlite.durability import Durability
from airw.values import Language

if TYPE_CHECKING:
    import asyncio
    import sqlite3

    import aiosqlite

P = ParamSpec("P")
R = TypeVar("R")

_PATIENCE = 10.0  # seconds that a write waits for other writers
_RETRY_EVERY = 0.02  # seconds
_INTERRUPT_EVERY = 0.005  # seconds between interrupts of a cancelled call
_STOP_WITHIN = 1.0  # seconds
_INTERRUPT_WITHIN = 5.0  # seconds; later calls wait for the thread in any case
_READ_BYTES = 1 << 20

_descriptors: dict[tuple[int, int], int] = {}  # by `file_key`, see `_check_readable`


class FileReplaced(StoreError):
    """The file at the path is no longer the one that was opened."""


class _OpenFile(NamedTuple):
    """A raw connection, and the keys of the file and the log that it has open."""

    raw: "sqlite3.Connection"
    key: tuple[int, int]
    log_key: tuple[int, int] | None


class Connection:
    """An SQLite connection with its own thread.

    Each call runs a whole function on that thread. So a transaction of many statements costs one switch of threads, and
    Python values are made from rows without blocking the event loop.
    """

    def __init__(
        self,
        path: Path,
        opened: _OpenFile,
        thread: "aiosqlite.Connection",
        open_raw: "Callable[[], sqlite3.Connection]",
    ) -> None:
        self._path, self._open_raw = path, open_raw
        self._raw, self.key, self._log_key = opened
        self._thread = thread
        self._immutable_state = read_immutable_state(path)
        self._lock = SharedLock(repr(str(path)))
        self._is_cancelled = False
        self._is_stuck = False  # in a transaction that cannot be rolled back
        self.is_open = True

    @classmethod
    async def open(
        cls,
        path: Path,
        *,
        create: bool = False,
        writable: bool = False,
        durability: Durability = "normal",
        cache: int | None = None,
        language: Language | None = "en",
    ) -> Self:
        """Open the file as `connect` does, and start the thread.

        `cache` is the KiB of pages that the connection may keep; by default, as many as `connect` sets.

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

        thread = aiosqlite.Connection(lambda: opened.raw, iter_chunk_size=64)
        if not hasattr(thread, "_tx"):  # see `_submit`
            raise StoreError(
                f"aiosqlite {aiosqlite.__version__} is too new for this airw: "
                f"{sys.executable} -m pip install 'aiosqlite<0.23'"
            )
        # A cancelled half of this would leak a connection or a thread; all of it is quick.
        with anyio.CancelScope(shield=True):

            def open_raw() -> "sqlite3.Connection":
                raw = connect(path, create=create, writable=writable, durability=durability, language=language)
                if cache is not None:
                    raw.execute(f"PRAGMA cache_size = -{cache}")
                return raw

            opened = await in_thread(_open_file, path, open_raw)
            # A store that is never closed must not keep the interpreter alive. Before aiosqlite 0.22, the connection
            # is the thread itself.
            cast("Thread", getattr(thread, "_thread", thread)).daemon = True
            await thread
        return cls(path, opened, thread, open_raw)

    async def run(
        self, work: "Callable[Concatenate[sqlite3.Connection, P], R]", *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Return `work(connection, …)`, called on the thread of the connection.

        If the call is cancelled, its statement is interrupted and its transaction rolled back.

        Raises:
            FileReplaced: If the file at the path is another one by now.
            StoreError: If the connection is closed, or SQLite fails.
        """
        async with self._lock.hold():
            if not self.is_open:
                raise StoreError(f"{str(self._path)!r} is closed; open it again")
            await self.check_same()
            if self._is_stuck:
                await self._replace_raw()
            self._is_cancelled = False
            # Asked for here: a call that its loop abandons is closed where no loop runs.
            cancelled = anyio.get_cancelled_exc_class()
            try:
                with translate_errors(self._path):
                    result = cast("R", await self._submit(work, *args, **kwargs))
            except cancelled:
                with anyio.CancelScope(shield=True):
                    await self._interrupt()
                raise
            except StoreError as error:
                await self.check_same()
                if isinstance(error, StoreCorrupt):
                    await in_thread(_check_readable, self._path)
                raise
            await self.check_same()
            return result

    async def run_locked(self, prepare: "Callable[[sqlite3.Connection], Callable[[], R]]", locks: Sequence[Lock]) -> R:
        """Return `prepare(connection)()`, both called in one snapshot of the file.

        The locks are taken before the snapshot begins, and released when `prepare` returns. So whoever takes one of
        them next sees this state of the file, or a later one.
        """

        def work(raw: "sqlite3.Connection") -> R:
            with ExitStack() as held:
                for lock in locks:
                    held.enter_context(self._hold(lock))
                with transaction(raw):
                    finish = prepare(raw)
                    held.close()
                    return finish()

        return await self.run(work)

    @contextmanager
    def _hold(self, lock: Lock) -> Iterator[None]:
        """Hold a lock that other threads use; a cancelled call waits no longer for it."""
        while not lock.acquire(timeout=_INTERRUPT_EVERY):
            if self._is_cancelled:
                raise StoreError("the call was cancelled")
        try:
            with without_pause():
                yield
        finally:
            lock.release()

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

    async def check_same(self) -> None:
        """Check that the open file is still the file at its path.

        SQLite would read a removed or replaced file on, and never notice.

        Raises:
            FileReplaced: If it was replaced, or if it changed although it is read without locks.
            StoreError: If it was removed.
        """
        try:
            is_replaced = file_key(self._path) != self.key
        except OSError as error:
            raise StoreError(
                f"{str(self._path)!r} was removed while open ({error.strerror}); build it again"
            ) from error
        if self._immutable_state and read_immutable_state(self._path) != self._immutable_state:
            is_replaced = True  # its changes cannot be seen without locks
        if is_replaced:
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")

    async def _submit(self, work: Callable[..., object], *args: object, **kwargs: object) -> object:
        import asyncio

        loop = asyncio.get_running_loop()
        # That thread keeps the last function and what it returned until its next call. That could be a long result, or
        # the store itself. So both are passed in lists, which are emptied here.
        calls, results = [partial(work, self._raw, *args, **kwargs)], list[object]()

        def call() -> None:
            with note_work():
                results.append(calls[0]())

        # aiosqlite has no public method that runs a function of several statements on its thread, and its own futures
        # would end the thread with an error if the loop of the caller has closed.
        ended = loop.create_future()
        self._thread._tx.put_nowait((cast("Any", _Report(loop, ended)), call))  # noqa: SLF001
        try:
            await ended
        finally:
            calls.clear()
        return results.pop()

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
                await self._replace_raw()

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

    async def _replace_raw(self) -> None:
        """Close the connection, which undoes its transaction, and open the file again."""
        await self._submit(_close_raw)
        opened = await in_thread(_open_file, self._path, self._open_raw)
        self._raw, self._is_stuck = opened.raw, False
        if opened.key != self.key:  # another file, whose connections others open
            self.is_open = False
            await self._submit(_close_raw)

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
                        await self._submit(_close_raw)
                finally:
                    await in_thread(self._thread.stop)  # from a thread without a loop: no loop waits for the end

    def _remove_stale_log(self) -> None:
        """Remove the log of this file, which SQLite would apply to another file at the path."""
        log, index = log_paths(self._path)
        with suppress(OSError):
            if not self._immutable_state and file_key(self._path) != self.key and _read_key(log) == self._log_key:
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
            # Once its thread has ended, aiosqlite does not warn a second time.
            cast("Thread", getattr(self._thread, "_thread", self._thread)).join(_STOP_WITHIN)


class _Report:
    """What aiosqlite takes for a future: it may report to a loop that has closed."""

    def __init__(self, loop: "asyncio.AbstractEventLoop", ended: "asyncio.Future[object]") -> None:
        self._loop, self._ended = loop, ended

    def get_loop(self) -> Self:
        return self

    def call_soon_threadsafe(self, function: Callable[..., object], _: object, value: object) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, self._ended, value)


def _close_raw(raw: "sqlite3.Connection") -> None:
    raw.close()


def _open_file(path: Path, open_raw: "Callable[[], sqlite3.Connection]") -> _OpenFile:
    """Open a file, and open it again if another one takes its place meanwhile."""
    while True:
        before, raw = _read_key(path), open_raw()
        log_key, key = _read_key(log_paths(path)[0]), _read_key(path)
        if key is not None and before in (None, key):
            return _OpenFile(raw, key, log_key)
        raw.close()


def _read_key(path: Path) -> tuple[int, int] | None:
    """Return the `file_key` of a file; `None` if there is none."""
    try:
        return file_key(path)
    except OSError:
        return None


def _check_readable(path: Path) -> None:
    """Check that each byte of a file can be read.

    SQLite reports a disk that fails as a damaged file.

    Raises:
        StoreError: If it cannot.
    """
    try:
        key = file_key(path)
        # Never closed: closing any descriptor of a file ends all locks that SQLite has on it in this process.
        descriptor = _descriptors[key] = _descriptors.get(key) or os.open(path, os.O_RDONLY)
        position = 0
        while block := os.pread(descriptor, _READ_BYTES, position):
            position += len(block)
    except OSError as error:
        raise StoreError(
            f"{str(path)!r} cannot be read ({error.strerror}); it may be whole, so check its disk, cable or network"
        ) from error
