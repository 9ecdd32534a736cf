"""Connections to a server: how one is made, kept, and stopped if its caller is."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio

from airw.stores.postgres._errors import is_lost, load_asyncpg, translate_connect_errors
from airw.stores.postgres.addresses import connect_options

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

_CONNECT_WITHIN = 10.0  # seconds
_STOP_WITHIN = 2.0  # seconds in which a server must have stopped a cancelled statement
_CANCEL_EVERY = 0.1  # seconds


async def connect(dsn: str, place: str, search_path: str = "pg_temp") -> "Session":
    """Return a new connection.

    Args:
        dsn: The address of the database.
        place: The address for messages, without password.
        search_path: The schemas in which statements find what they name.

    Raises:
        ServerUnreachable: If the server cannot be reached, or does not answer.
        StoreBusy: If it takes no more connections.
        StoreError: If it refuses the role, asyncpg is missing, or the event loop is not asyncio.
    """
    asyncpg = load_asyncpg()
    from airw.stores.postgres._session import Session

    options = connect_options(dsn)
    options["server_settings"]["search_path"] = search_path
    with translate_connect_errors(place, options.get("password")):
        connection: Session = await asyncpg.connect(**options, connection_class=Session, timeout=_CONNECT_WITHIN)
    connection.notice_lost_server()
    return connection


@asynccontextmanager
async def keep_open(connecting: "Coroutine[Any, Any, Session]") -> "AsyncIterator[Session]":
    """Yield a new connection, and end it afterwards."""
    connection = await connecting
    try:
        yield connection
    except BaseException as error:
        await finish(settle(connection, error))
        raise
    finally:
        connection.terminate()


async def settle(connection: "Session", error: BaseException) -> None:
    """Wait until a connection can be used again after an error, or end it."""
    is_usable = False
    try:
        # The first error is the one to report.
        with anyio.move_on_after(_STOP_WITHIN), suppress(Exception):
            if not isinstance(error, Exception):
                await _await_stop(connection)
            if connection.is_in_transaction():
                await connection.execute("ROLLBACK")
            is_usable = not is_lost(error)
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
