"""A bounded number of connections to one server, shared by the tasks of one store."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from airw.errors import StoreBusy
from airw.stores.postgres._errors import ConnectionLost, is_lost, load_asyncpg, translate_connect_errors

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

R = TypeVar("R")

_CONNECT_WITHIN = 10.0  # seconds
_WAIT = 10.0  # seconds that a call waits for a connection
_STOP_WITHIN = 2.0  # seconds in which a server must have stopped a cancelled statement
_CANCEL_EVERY = 0.1  # seconds
_CLOSE_WITHIN = 2.0  # seconds
_LAST = ("FATAL", "PANIC")  # errors after which a server says nothing more


class ConnectionPool:
    """Connections that are made when they are needed, up to a bound, and kept.

    Nothing is sent when a connection comes back: resetting it would cost a round trip for each call. So whoever uses
    one leaves the settings of its session as they are.

    Args:
        server: The address for messages, without password.
        options: Arguments of `asyncpg.connect`.
        most: The number of connections.
        prepare: What is called with each new connection.
        wait: The seconds that a call waits for a connection.

    Attributes:
        is_closed: Whether it was closed. A closed pool never opens again.
    """

    def __init__(
        self,
        server: str,
        options: Mapping[str, Any],
        most: int,
        prepare: "Callable[[Session], Awaitable[None]]",
        *,
        wait: float = _WAIT,
    ) -> None:
        self._server, self._options, self._most, self._prepare, self._wait = server, options, most, prepare, wait
        self._loop = asyncio.get_running_loop()
        self._turns = asyncio.Semaphore(most)
        self._idle: list[Session] = []
        self._busy: set[Session] = set()
        self._waiting = 0
        self.is_closed = False

    @property
    def is_orphan(self) -> bool:
        """Return whether the event loop of the pool is closed."""
        return self._loop.is_closed()

    @property
    def is_elsewhere(self) -> bool:
        """Return whether the pool is of another event loop, so must not be touched."""
        try:
            return asyncio.get_running_loop() is not self._loop
        except RuntimeError:  # a loop of trio
            return True

    async def run(self, work: "Callable[[Session], Awaitable[R]]", *, fresh: bool = False) -> R:
        """Return `work(connection)`.

        If it fails or is cancelled, its statement is cancelled on the server and its transaction rolled back.

        Args:
            work: The function.
            fresh: Make a new connection.

        Raises:
            StoreBusy: If all connections are busy for too long.
            ConnectionLost: If the pool is closed, also if it was closed while the call waited.
            StoreError: If no connection can be made.
        """
        await self._take_turn()
        try:
            self._check_open()
            connection = self._take_idle()
            if fresh and connection is not None:
                connection.terminate()
                connection = None
            if connection is None:
                connection = await self._connect()
            self._busy.add(connection)
            try:
                result = await work(connection)
            except BaseException as error:
                await finish(_settle(connection, error))
                raise
            finally:
                self._busy.discard(connection)
                self._keep(connection)
            return result
        finally:
            self._turns.release()

    async def _take_turn(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        self._waiting += 1
        try:
            with anyio.fail_after(self._wait):
                await self._turns.acquire()
        except TimeoutError:
            raise StoreBusy(
                f"all {self._most} connections to {self._server} were busy for {self._wait:g} seconds, and "
                f"{self._waiting} calls wait; raise max_connections, or make fewer calls at once"
            ) from None
        finally:
            self._waiting -= 1

    def _take_idle(self) -> "Session | None":
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    async def _connect(self) -> "Session":
        connection = await connect(self._server, self._options)
        try:
            await self._prepare(connection)
            self._check_open()
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _check_open(self) -> None:
        """Raise an error if the pool is closed, so that nothing is sent to the server any more."""
        if self.is_closed:
            raise ConnectionLost(f"the connections to {self._server} are closed")

    def _keep(self, connection: "Session") -> None:
        """Keep a connection that can be used again."""
        if self.is_closed or len(self._busy) + len(self._idle) >= self._most:
            connection.terminate()
        elif not connection.is_closed():
            self._idle.append(connection)

    def adopt(self, connection: "Session") -> None:
        """Keep a connection that was made and prepared elsewhere."""
        self._idle.append(connection)

    async def aclose(self) -> None:
        """Close all connections; calls in progress end with an error."""
        self.is_closed = True
        for connection in self._busy:
            connection.terminate()
        idle, self._idle = self._idle, []
        # A task that is cancelled before its first step would close nothing.
        await finish(_close_all(idle))

    def abandon(self) -> bool:
        """End all connections without an event loop, and return whether any was open."""
        self.is_closed = True
        connections = [*self._busy, *self._idle]
        self._idle = []
        for connection in connections:
            with suppress(RuntimeError):  # the event loop is closed, and its connections with it
                connection.terminate()
        return bool(connections)


async def _settle(connection: "Session", error: BaseException) -> None:
    """Wait until a connection can be used again after an error, or end it."""
    from asyncpg import PostgresError

    is_cancelled, is_usable = not isinstance(error, Exception), False
    try:
        # The first error is the one to report.
        with anyio.move_on_after(_STOP_WITHIN), suppress(Exception):
            if is_cancelled and not connection.is_closed():
                await _await_stop(connection)
            if not connection.is_closed() and connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            # Only after a fatal error, the server ends the connection.
            has_answered = isinstance(error, PostgresError) and error.severity_en not in _LAST
            is_usable = has_answered or not is_lost(error)
    finally:
        if not is_usable:
            connection.terminate()


async def _await_stop(connection: "Session") -> None:
    """Wait until the server has stopped a cancelled statement."""
    # asyncpg sends this when the server has stopped the cancelled statement. Then it also knows whether a transaction
    # is open; in one that has failed, this fails, too.
    stopping = asyncio.ensure_future(connection.execute("SELECT"))
    try:
        # A server ignores a request that comes before the statement: so repeat it.
        while not (await asyncio.wait([stopping], timeout=_CANCEL_EVERY))[0]:
            await connection.cancel_again()
    finally:
        stopping.cancel()
        with suppress(Exception, asyncio.CancelledError):
            await stopping


async def finish(work: Coroutine[Any, Any, None]) -> None:
    """Wait until `work` has ended, however often the caller is cancelled meanwhile.

    Otherwise the server would go on with a statement, and keep its locks. A caller that was cancelled is so in the end.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            with anyio.CancelScope(shield=True):
                await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


async def connect(server: str, options: Mapping[str, Any]) -> "Session":
    """Return a new connection.

    Raises:
        ServerUnreachable: If the server cannot be reached, or does not answer.
        StoreBusy: If it takes no more connections.
        StoreError: If it refuses the role, asyncpg is missing, or the event loop is not asyncio.
    """
    asyncpg = load_asyncpg()
    from airw.stores.postgres._session import Session

    with translate_connect_errors(server, options.get("password")):
        connection: Session = await asyncpg.connect(**options, connection_class=Session, timeout=_CONNECT_WITHIN)
    connection.notice_lost_server()
    return connection


async def _close_all(connections: "Sequence[Session]") -> None:
    await asyncio.gather(*map(_close, connections))


async def close(connection: "Session") -> None:
    """Close a connection, also if the caller is cancelled."""
    await finish(_close(connection))


async def _close(connection: "Session") -> None:
    try:
        with anyio.move_on_after(_CLOSE_WITHIN), suppress(Exception):  # it is closed in any case
            await connection.close()
    finally:
        connection.terminate()
