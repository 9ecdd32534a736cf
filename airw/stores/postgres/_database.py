"""The connections of one store to the schema of its corpus."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

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
    read_state,
    take_lock,
)
from airw.stores.postgres._connecting import connect_options
from airw.stores.postgres._errors import ConnectionLost, ServerUnreachable, is_outdated_plan, translate_errors
from airw.stores.postgres._pool import ConnectionPool, close, connect, finish
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
        self._is_closed = False
        self._lost_locks = 0  # blocks of `lock_builder` that have lost their lock

    @property
    def is_open(self) -> bool:
        """Return whether the store can be read."""
        return self._pool is not None and not self._is_closed

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
        connection = await self._connect()
        try:
            with translate_errors(self.place):
                state = await read_state(connection, self.schema, self.place)
                if not state.exists:
                    state = await self._create(connection, state, prepare, create=create)
                check_format(state, self.place)
                await _register(connection, state)
            self._pool, self._is_closed = self._make_pool(connection, state), False
        except BaseException:
            connection.terminate()
            raise

    def _make_pool(self, connection: "Session", state: CorpusState) -> ConnectionPool:
        """Return the pool of connections, with its first one."""

        async def prepare(connection: "Session") -> None:
            await _register(connection, state)

        path = f"{quote(self.schema)}, {quote(state.home or 'public')}, pg_temp"
        pool = ConnectionPool(one_line(self.address), self._options(path), self._most, prepare)
        pool.adopt(connection)
        return pool

    async def _create(
        self,
        connection: "Session",
        state: CorpusState,
        prepare: "Callable[[Session], Awaitable[None]] | None",
        *,
        create: bool,
    ) -> CorpusState:
        if not create:
            raise CorpusNotFound(f"there is no {self.place}; build it first")
        if state.home is None:
            await create_extension(connection, state, self.place)
            state = await read_state(connection, self.schema, self.place)
        await _register(connection, state)
        await create_schema(connection, self.schema, self.place, prepare)
        return await read_state(connection, self.schema, self.place)

    def _options(self, path: str) -> dict[str, Any]:
        options = connect_options(self._dsn)
        options["server_settings"]["search_path"] = path
        return options

    async def _connect(self) -> "Session":
        """Return a connection outside the pool."""
        return await connect(one_line(self.address), self._options(f"{quote(self.schema)}, pg_temp"))

    async def read(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`, which only reads.

        If the connection is lost, it is called once more. So it must not change anything before its last statement.
        It makes one statement if it can, as each is a round trip.

        Raises:
            StoreBusy: If all connections are busy for too long.
            StoreError: If the store is closed, or the server fails.
        """
        return await self._call(work, lambda: True)

    async def _call(self, call: "Callable[[Session], Awaitable[R]]", may_repeat: Callable[[], bool]) -> R:
        """Return `call(connection)`; if the connection was lost and it may, call once more.

        A server that restarts is waited for, since nothing was sent to it.
        """
        pool = self._get_pool()
        has_failed, deadline = False, None
        while True:
            try:
                with translate_errors(self.place):
                    return await pool.run(call, fresh=has_failed)
            except ServerUnreachable as error:
                deadline = deadline or anyio.current_time() + _RESTART_WITHIN
                if not error.may_return or pool.is_closed or anyio.current_time() > deadline:
                    raise
                await anyio.sleep(_RETRY_EVERY)
            except StoreError as error:
                is_lost = isinstance(error, ConnectionLost) or is_outdated_plan(error)
                if is_lost and pool.is_closed:
                    raise ConnectionLost(self._closed) from error
                if has_failed or not is_lost or not may_repeat():
                    raise
                has_failed = True

    async def write(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`, called in one transaction, while no other writer is in one.

        It is never called twice: whoever writes decides what to do after an error. Only what comes before it, the start
        of the transaction, is tried again.

        Raises:
            StoreBusy: If other writers hold the corpus for ten seconds, or all connections are busy.
            StoreError: If the store is closed, the lock of a builder was lost, or the server fails.
        """
        self._get_pool()
        if self._lost_locks:
            raise StoreError(f"{self.place}: the builder has lost its lock with its connection; start again")
        begin = begin_locked(lock_key("writer", self.schema))
        has_begun = is_committing = False

        async def run(connection: "Session") -> R:
            nonlocal has_begun, is_committing
            await connection.execute(begin)
            has_begun = True
            result = await work(connection)
            is_committing = True
            await connection.execute("COMMIT")
            return result

        try:
            return await self._call(run, lambda: not has_begun)
        except ConnectionLost as error:
            if is_committing:
                raise StoreError(
                    f"{self.place}: the connection was lost while changes were saved; they are there whole or not at "
                    "all, so write them again"
                ) from error
            raise

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
        connection = await self._connect()
        is_lost = False

        def note_loss(_: object) -> None:
            nonlocal is_lost
            is_lost = True
            self._lost_locks += 1

        try:
            with translate_errors(self.place):
                has_lock = await take_lock(connection, key, timeout)
            if not has_lock:
                waited = f" after {timeout:g} seconds" if timeout else ""
                raise StoreBusy(f"another builder still holds {self.place}{waited}; wait for it to finish")
            connection.add_termination_listener(note_loss)
            yield
        finally:
            if is_lost:
                self._lost_locks -= 1
            else:
                connection.remove_termination_listener(note_loss)
            await finish(_unlock(connection, key))

    async def maintain(self, work: "Callable[[Session], Awaitable[R]]") -> R:
        """Return `work(connection)`, called outside a transaction with a connection of its own.

        For statements that run long and must not be in a transaction, such as making an index beside writers.

        Raises:
            StoreError: If the store is closed, or the server fails.
        """
        self._get_pool()
        connection = await self._connect()
        try:
            with translate_errors(self.place):
                await read_state(connection, self.schema, self.place)
                return await work(connection)
        finally:
            await close(connection)

    @asynccontextmanager
    async def hold_connection(self) -> "AsyncIterator[Session]":
        """Yield a connection of its own, outside a transaction, and close it afterwards.

        Raises:
            StoreError: If the server cannot be reached, or fails in the block.
        """
        connection = await self._connect()
        try:
            with translate_errors(self.place):
                state = await read_state(connection, self.schema, self.place)
                await _register(connection, state)
                yield connection
        finally:
            await close(connection)

    async def exists(self) -> bool:
        """Return whether the database has this corpus; the store need not be open."""
        connection = await self._connect()
        try:
            with translate_errors(self.place):
                return (await read_state(connection, self.schema, self.place)).version is not None
        finally:
            await close(connection)

    async def drop(self) -> None:
        """Drop the schema and all that is in it; the caller holds the lock of the builder.

        Raises:
            CorpusNotFound: If there is no such schema.
            StoreCorrupt: If it is not a corpus.
            StoreError: If the role may not drop it.
        """
        connection = await self._connect()
        try:
            with translate_errors(self.place):
                state = await read_state(connection, self.schema, self.place)
                if not state.exists:
                    raise CorpusNotFound(f"there is no {self.place}")
                check_format(state, self.place)
                await connection.execute(begin_locked(lock_key("writer", self.schema)))
                await connection.execute(f"DROP SCHEMA {quote(self.schema)} CASCADE; COMMIT")
        finally:
            await close(connection)

    async def aclose(self) -> None:
        """Close all connections; closing twice is harmless.

        Raises:
            StoreError: If they are those of another event loop that has not ended.
        """
        if self._pool is not None and not self._is_closed and self._pool.is_elsewhere:
            if not self._pool.is_orphan:
                raise StoreError(f"{self.place} was opened in another event loop; close it there")
            self.abandon()
            return
        self._is_closed = True
        if self._pool is not None:
            await self._pool.aclose()

    def abandon(self) -> bool:
        """End the connections without an event loop; return whether any was open."""
        self._is_closed = True
        return self._pool is not None and self._pool.abandon()

    def _get_pool(self) -> ConnectionPool:
        if self._pool is None:
            raise StoreError(f"{self.place} is not open; use `async with`, or `await PostgresStore.open(dsn, corpus)`")
        if self._is_closed:
            raise StoreError(self._closed)
        if self._pool.is_elsewhere:
            raise StoreError(f"{self.place} was opened in another event loop; open one store for each loop")
        return self._pool


async def list_corpora(dsn: str) -> list[str]:
    """Return the names of the corpora in a database, in lower case and in order.

    Raises:
        StoreError: If the server cannot be reached.
    """
    address = one_line(hide_password(dsn))
    connection = await connect(address, connect_options(dsn))
    try:
        with translate_errors(address):
            return await list_schemas(connection)
    finally:
        await close(connection)


async def _register(connection: "Session", state: CorpusState) -> None:
    if state.home is not None:
        await connection.register_vectors(state.home, state.types)


async def _unlock(connection: "Session", key: int) -> None:
    """Release a lock before the connection closes: the server may notice that only later."""
    # Closing the connection releases it, too.
    with anyio.move_on_after(_UNLOCK_WITHIN), suppress(Exception):
        if not connection.is_closed():
            await connection.execute(f"SELECT pg_catalog.pg_advisory_unlock({key})")
    await close(connection)
