"""The connections of one store: a bounded pool, transactions, and errors of this library."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

import asyncpg

from airw.errors import StoreError
from airw.stores.postgres._schema import TABLES, quote, schema_of
from airw.stores.postgres._vector_codec import register_codec

if TYPE_CHECKING:
    from asyncpg import Connection, Pool

R = TypeVar("R")


class Database:
    """The connections of one store to the schema of its corpus.

    `read` and `write` call a function with a connection, whose `search_path` is the schema of the corpus and that of
    the extension `vector`. So statements name tables plainly. A function of `read` makes one statement if it can, as
    each is a round trip; of several, each sees the state of its own moment.
    """

    def __init__(self, dsn: str, corpus: str) -> None:
        self._dsn, self.schema = dsn, schema_of(corpus)
        self._pool: Pool | None = None

    async def open(self) -> None:
        """Connect, and create the schema if it does not exist."""
        connection = await asyncpg.connect(self._dsn)
        try:
            await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            async with connection.transaction():
                await connection.execute("SELECT pg_advisory_xact_lock(1)")
                if not await connection.fetchval("SELECT 1 FROM pg_namespace WHERE nspname = $1", self.schema):
                    await connection.execute(f"CREATE SCHEMA {quote(self.schema)}")
                    await connection.execute(f"SET LOCAL search_path = {quote(self.schema)}, public")
                    for statement in TABLES:
                        await connection.execute(statement)
        finally:
            await connection.close()

        async def prepare(connection: "Connection") -> None:
            await register_codec(connection, "public")

        async def keep(_: "Connection") -> None:
            """Leave the session as it is: resetting it would cost a round trip for each call."""

        self._pool = await asyncpg.create_pool(
            self._dsn,
            min_size=0,
            max_size=10,
            init=prepare,
            reset=keep,
            server_settings={"search_path": f"{quote(self.schema)}, public"},
        )

    async def read(self, work: "Callable[[Connection], Awaitable[R]]") -> R:
        """Return `work(connection)`, which only reads."""
        if self._pool is None:
            raise StoreError("not open")
        async with self._pool.acquire() as connection:
            return await work(connection)

    async def write(self, work: "Callable[[Connection], Awaitable[R]]") -> R:
        """Return `work(connection)`, called in one transaction, while no other writer is in one."""
        if self._pool is None:
            raise StoreError("not open")
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(current_schema(), 0))")
            return await work(connection)

    async def aclose(self) -> None:
        """Close all connections; closing twice is harmless."""
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
