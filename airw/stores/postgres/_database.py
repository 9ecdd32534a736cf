"""The connections of one store to the schema of its corpus."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, TypeVar

import anyio

from airw._base.messages import one_line, short_repr
from airw.errors import CorpusNotFound, StoreBusy, StoreError
from airw.stores.postgres._catalog import (
    CorpusState,
    begin_locked,
    check_format,
    create_extension,
    create_schema,
    list_schemas,
    lock_key,
    take_lock,
)
from airw.stores.postgres._connecting import connect, finish, keep_open
from airw.stores.postgres._errors import (
    ConnectionLost,
    ServerUnreachable,
    load_asyncpg,
    translate_errors,
)
from airw.stores.postgres._pool import ConnectionPool
from airw.stores.postgres._schema import quote, schema_of
from airw.stores.postgres.addresses import hide_password

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

R = TypeVar("R")

_RESTART_WITHIN = 5.0  # seconds that a read waits for a server that has restarted
_RETRY_EVERY = 0.1  # seconds
_UNLOCK_WITHIN = 2.0  # seconds


class Database:
    """The connections of one store to the schema of its corpus.

    `read` and `write` call a function with a connection, whose `search_path` is the schema of the corpus and that of
    the extension `vector`. So statements name tables plainly.

    Args:
        dsn: The address of the database.
        corpus: The name of the corpus.
        max_connections: The number of connections.
    """

    def __init__(self, dsn: str, corpus: str, *, max_connections: int = 10) -> None:
        self._dsn, self._most = dsn, max_connections
        self.address = hide_password(dsn)
        self.schema = schema_of(corpus)
        self.place = f"corpus {short_repr(corpus)} on {one_line(self.address)}"
        self._closed = f"{self.place} is closed; open it again"
        self._pool: ConnectionPool | None = None
        self._builders = set["Session"]()  # the connections that have the lock of a builder
        self.version = 0  # the format of the tables when they were opened

    @property
    def is_open(self) -> bool:
        """Return whether the store can be read."""
        return self._pool is not None and not self._pool.is_closed

    async def open(self, *, create: bool = True, prepare: "Callable[[Session], Awaitable[None]] | None" = None) -> None:
        """Connect, and create the schema if it does not exist.

        Args:
            create: Create the schema, and the extension `vector` of the database.
            prepare: What is called with a connection in the transaction that creates the tables.

        Raises:
            CorpusNotFound: If there is no such schema, and `create` is not set.
            StoreCorrupt: If it is not a corpus, or from a newer version.
            StoreError: If the server cannot be reached, or cannot be used.
        """
        known: CorpusState | None = None

        async def enter(connection: "Session") -> None:
            nonlocal known
            if not connection.state.exists:
                if not create:
                    raise CorpusNotFound(f"there is no {self.place}; build it first")
                if connection.state.home is None:
                    await create_extension(connection, self.place)
                    await connection.enter(self.schema, self.place)
                await create_schema(connection, self.schema, self.place, prepare)
                await connection.enter(self.schema, self.place)
            check_format(connection.state, self.place)
            known = connection.state
            self.version = known.version or 0

        load_asyncpg()
        pool = ConnectionPool(one_line(self.address), self._most, lambda: self._connect(known))
        try:
            with translate_errors(self.place):
                await pool.run(enter)
        except BaseException:
            pool.close()
            raise
        self._pool = pool

    async def _connect(self, known: CorpusState | None = None) -> "Session":
        """Return a new connection that has entered the schema.

        What is known of the schema is not asked again.
        """
        homes = [quote(known.home)] if known is not None and known.home is not None else []
        path = ", ".join([quote(self.schema), *homes, "pg_temp"])
        connection = await connect(self._dsn, one_line(self.address), path)
        try:
            with translate_errors(self.place):
                await connection.enter(self.schema, self.place, known)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def read(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`, which only reads.

        If the connection is lost, it is called once more. So it must not change anything before its last statement.
        It makes one statement if it can, as each is a round trip.

        Raises:
            StoreBusy: If all connections are busy for too long.
            StoreError: If the store is closed, or the server fails.
        """
        return await self._call(work, lambda: True)

    async def _call(self, work: "Callable[[Session], Awaitable[R]]", may_repeat: Callable[[], bool]) -> R:
        """Return `work(connection)`; if the connection was lost and it may, call once more.

        A server that restarts is waited for, since nothing was sent to it.
        """
        pool = self._get_pool()
        has_failed, deadline = False, None
        while True:
            try:
                with translate_errors(self.place):
                    return await pool.run(work)
            except ServerUnreachable as error:
                deadline = deadline or anyio.current_time() + _RESTART_WITHIN
                if not error.may_return or pool.is_closed or anyio.current_time() > deadline:
                    raise
                await anyio.sleep(_RETRY_EVERY)
            except ConnectionLost as error:
                if pool.is_closed:
                    raise ConnectionLost(self._closed) from error
                if has_failed or not may_repeat():
                    raise
                has_failed = True
                pool.drop_idle()  # they may be lost as well

    async def write(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`, called in one transaction, while no other writer is in one.

        It is never called twice: whoever writes decides what to do after an error. Only what comes before it, the start
        of the transaction, is tried again.

        Raises:
            StoreBusy: If other writers hold the corpus for ten seconds, or all connections are busy.
            StoreError: If the store is closed, the lock of a builder was lost, or the server fails.
        """
        self._get_pool()
        if any(connection.is_closed() for connection in self._builders):
            raise StoreError(f"{self.place}: the builder has lost its lock with its connection; start again")
        has_begun = is_committing = False

        async def run(connection: "Session") -> R:
            nonlocal has_begun, is_committing
            await connection.execute(begin_locked(lock_key("writer", self.schema)))
            has_begun = True
            result = await work(connection)
            is_committing = True
            await connection.execute("COMMIT")
            return result

        try:
            return await self._call(run, lambda: not has_begun)
        except ConnectionLost as error:
            if not is_committing:
                raise
            raise StoreError(
                f"{self.place}: the connection was lost while changes were saved; they are there whole or not at "
                "all, so write them again"
            ) from error

    @asynccontextmanager
    async def lock_builder(self, timeout: float) -> AsyncIterator[None]:  # noqa: ASYNC109 - it becomes an error
        """Hold the lock of the builder of this corpus while the block runs.

        The lock is on a connection of its own. The corpus need not exist, nor the store be open. The lock ends with its
        connection, whatever happens to this process. If the connection is lost meanwhile, further writes of this store
        in the block fail.

        Raises:
            StoreBusy: If another builder still holds it after `timeout` seconds.
            StoreError: If the server cannot be reached.
        """
        key = lock_key("builder", self.schema)
        async with keep_open(connect(self._dsn, one_line(self.address))) as connection:
            with translate_errors(self.place):
                has_lock = await take_lock(connection, key, timeout)
            if not has_lock:
                waited = f" after {timeout:g} seconds" if timeout else ""
                raise StoreBusy(f"another builder still holds {self.place}{waited}; wait for it to finish")
            self._builders.add(connection)
            try:
                yield
            finally:
                self._builders.discard(connection)
                await finish(_unlock(connection, key))

    @asynccontextmanager
    async def hold_connection(self) -> "AsyncIterator[Session]":
        """Yield a connection of its own, outside a transaction, and end it afterwards.

        The store need not be open. This is for statements that run long or must not be in a transaction, such as making
        an index beside writers.

        Raises:
            StoreError: If the server cannot be reached, or fails in the block.
        """
        async with keep_open(self._connect()) as connection:
            with translate_errors(self.place):
                yield connection

    async def drop(self) -> bool:
        """Drop the schema and all that is in it; the caller holds the lock of the builder.

        Returns:
            Whether there was one.

        Raises:
            StoreCorrupt: If it is not a corpus.
            StoreError: If the role may not drop it.
        """
        async with self.hold_connection() as connection:
            if connection.state.exists:
                check_format(connection.state, self.place)
                await connection.execute(begin_locked(lock_key("writer", self.schema)))
                await connection.execute(f"DROP SCHEMA {quote(self.schema)} CASCADE; COMMIT")
            return connection.state.exists

    async def aclose(self) -> None:
        """End all connections; calls in progress end with an error.

        Closing twice is harmless.

        Raises:
            StoreError: If they are those of another event loop that has not ended.
        """
        if self._pool is not None and not (self._pool.is_closed or self._pool.is_here or self._pool.is_orphan):
            raise StoreError(f"{self.place} was opened in another event loop; close it there")
        self.abandon()

    def abandon(self) -> bool:
        """End the connections without an event loop; return whether any was open."""
        return self._pool is not None and self._pool.close()

    def _get_pool(self) -> ConnectionPool:
        if self._pool is None:
            raise StoreError(f"{self.place} is not open; use `async with`, or `await PostgresStore.open(dsn, corpus)`")
        if self._pool.is_closed:
            raise StoreError(self._closed)
        if not self._pool.is_here:
            raise StoreError(f"{self.place} was opened in another event loop; open one store for each loop")
        return self._pool


async def list_corpora(dsn: str) -> list[str]:
    """Return the names of the corpora in a database, in lower case and in order.

    Raises:
        StoreError: If the server cannot be reached.
    """
    address = one_line(hide_password(dsn))
    async with keep_open(connect(dsn, address)) as connection:
        with translate_errors(address):
            return await list_schemas(connection)


async def _unlock(connection: "Session", key: int) -> None:
    """Release a lock before its connection ends, as the server may notice the end only later."""
    with anyio.move_on_after(_UNLOCK_WITHIN), suppress(Exception):
        await connection.execute(f"SELECT pg_catalog.pg_advisory_unlock({key})")
