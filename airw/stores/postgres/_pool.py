"""The connections of an open store, which its calls share.

The pool of asyncpg starts a task whenever a connection comes back, so that a short read takes twice as long. This one
waits for nothing then.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from airw.errors import StoreBusy
from airw.stores.postgres._connecting import finish, settle
from airw.stores.postgres._errors import ConnectionLost

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

R = TypeVar("R")

_WAIT = 10.0  # seconds that a call waits for a connection
_RETRY_EVERY = 0.1  # seconds


class ConnectionPool:
    """Connections that are made when they are needed, up to a bound, and kept.

    Nothing is sent when one comes back: it would cost each call a round trip. So whoever uses one leaves the settings
    of its session as they are.

    Args:
        server: The address for messages, without password.
        most: The number of connections.
        connect: Makes a connection that is ready for use.

    Attributes:
        is_closed: Whether it was closed. A closed pool never opens again.
    """

    def __init__(self, server: str, most: int, connect: "Callable[[], Awaitable[Session]]") -> None:
        self._server, self._most, self._connect = server, most, connect
        self._loop, self._process = asyncio.get_running_loop(), os.getpid()
        self._turns = asyncio.Semaphore(most)
        self._idle: list[Session] = []
        self._busy = set["Session"]()
        self.is_closed = False

    @property
    def is_here(self) -> bool:
        """Return whether the running event loop is that of the pool."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:  # a loop of trio
            return False

    @property
    def is_orphan(self) -> bool:
        """Return whether the event loop of the pool is closed."""
        return self._loop.is_closed()

    async def run(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`.

        If it fails or is cancelled, its statement is cancelled on the server and its transaction rolled back.

        Raises:
            StoreBusy: If no connection is free for too long.
            ConnectionLost: If the pool is closed, also while the call waits.
            StoreError: If no connection can be made.
        """
        await self._take_turn()
        try:
            connection = await self._take()
            try:
                result = await work(connection)
            except BaseException as error:
                await finish(settle(connection, error))
                raise
            finally:
                self._busy.discard(connection)
                if not connection.is_closed():
                    self._idle.append(connection)
            return result
        finally:
            self._turns.release()

    async def _take_turn(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        try:
            with anyio.fail_after(_WAIT):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreBusy(
                f"all {self._most} connections to {self._server} were busy for {_WAIT:g} seconds; raise "
                "max_connections, or make fewer calls at once"
            ) from None

    async def _take(self) -> "Session":
        """Return a connection that nobody uses, or a new one."""
        deadline = anyio.current_time() + _WAIT
        while not self.is_closed:
            try:
                connection = self._idle.pop() if self._idle else await self._connect()
            except StoreBusy:
                # The server takes no more connections: calls take turns on those that there are.
                if anyio.current_time() > deadline:
                    raise
                await anyio.sleep(_RETRY_EVERY)
                continue
            if self.is_closed:  # while it was made
                connection.terminate()
            elif not connection.is_closed():
                self._busy.add(connection)
                return connection
        raise ConnectionLost(f"the connections to {self._server} are closed")

    def drop_idle(self) -> None:
        """End the connections that nobody uses."""
        while self._idle:
            self._idle.pop().terminate()

    def close(self) -> bool:
        """End all connections; return whether the pool was open.

        Calls in progress end with an error.

        It needs no event loop.
        """
        was_open, self.is_closed = not self.is_closed, True
        connections = [*self._busy, *self._idle]
        self._idle = []
        if self._process != os.getpid():  # a forked child, which would end the connections of its parent
            return False
        for connection in connections:
            with suppress(RuntimeError):  # the event loop is closed, and its connections with it
                connection.terminate()
        return was_open
