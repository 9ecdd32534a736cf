"""The connections that read one file, so that a long call holds up no short one."""

import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING, TypeVar

import anyio

from airw._base.concurrency import in_thread
from airw._base.sharing import SharedLock, Signal
from airw.errors import StoreError
from airw.stores.sqlite._connection import Connection, FileReplaced
from airw.stores.sqlite._schema import connect
from airw.stores.sqlite._watch import FileVersion, FileWatch

if TYPE_CHECKING:
    import sqlite3

R = TypeVar("R")

_AT_ONCE = 2  # connections that short calls may use at once
_MOST = 8  # connections; long calls on all of them hold up others
_SHORT = 0.005  # seconds; a call that takes longer is waited for only if there can be no other connection
_CACHE = 1024  # KiB of pages that each connection but the first may keep


class Readers:
    """One or more connections to a file, each of which answers one call at a time.

    A call takes the first connection that is free. Another one is opened when all are busy with long calls.

    Args:
        path: The file.
        first: The first connection; the others are opened here.
    """

    def __init__(self, path: Path, first: Connection) -> None:
        self._path = path
        self._all = [first]
        self._busy_since: dict[Connection, float] = {}
        self._guard = RLock()  # as calls come from several event loops; reentrant, as that of `SharedLock`
        self._turn = SharedLock(repr(str(path)))  # of the calls that wait, the first one looks for a connection
        self._released: Signal | None = None  # of that one
        self._used_at = time.monotonic()
        self._most = _MOST
        self._watch: FileWatch | None = None
        self._is_closing = False

    @property
    def is_open(self) -> bool:
        """Return whether the file is open."""
        return self._all[0].is_open

    @property
    def key(self) -> tuple[int, int]:
        """Return the `file_key` of the file."""
        return self._all[0].key

    def is_idle(self, seconds: float = 0.0) -> bool:
        """Return whether no call has used the file for some seconds."""
        return not (self._busy_since or self._turn.is_held) and time.monotonic() - self._used_at >= seconds

    async def check_same(self) -> None:
        """Check that the open file is still the file at its path, as `Connection.check_same` does."""
        await self._all[0].check_same()

    async def read_version(self) -> FileVersion | None:
        """Return the version of the file, for an answer from memory; `None` if it is unknown."""
        try:
            await self.check_same()
            if self._watch is None:
                watch = await in_thread(FileWatch, self._path)
                if self._is_closing or self._watch is not None:  # closed meanwhile, or another call was faster
                    watch.close()
                else:
                    self._watch = watch
        except (StoreError, OSError):
            return None
        return None if self._watch is None else self._watch.read_version()

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
            connection = await Connection.open(self._path, partial(connect, self._path, cache=_CACHE))
        except StoreError:
            await self.check_same()
            self._most = len(self._all)  # too many open files, perhaps: those that are open suffice
            return
        if connection.key != self._all[0].key:
            await connection.aclose()
            raise FileReplaced(f"{str(self._path)!r} was replaced while open; nothing was written, so try again")
        self._all.append(connection)

    async def aclose(self) -> None:
        """Close all connections once their calls have ended; closing twice is harmless."""
        async with self._turn.hold():
            self._close_watch()
            for connection in self._all:
                await connection.aclose()

    def abandon(self) -> None:
        """Close all connections without an event loop."""
        self._close_watch()
        for connection in self._all:
            connection.abandon()

    def _close_watch(self) -> None:
        self._is_closing = True
        if self._watch is not None:
            self._watch.close()
