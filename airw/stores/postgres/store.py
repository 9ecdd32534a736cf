"""A store on a PostgreSQL server."""

import sys
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self

import anyio

from airw._base.checks import check_count
from airw._base.overriding import override
from airw.errors import CorpusNotFound, StoreError
from airw.protocols import (
    CAPABILITIES,
    Capability,
    Change,
    IngestRun,
    Request,
    RunKeeper,
    RunRows,
    Store,
    check_able,
)
from airw.stores.postgres import _copying, _runs, _settings, _words, _writing
from airw.stores.postgres._answers import Answers, Snapshot
from airw.stores.postgres._catalog import BEGIN_SNAPSHOT
from airw.stores.postgres._database import Database, list_corpora
from airw.stores.postgres._schema import VERSION
from airw.stores.postgres._vector_index import describe_index, refresh_index
from airw.stores.postgres.addresses import check_server_address
from airw.values import ArtifactChange, Language, check_language

if TYPE_CHECKING:
    from asyncpg import Connection


_CLEANUP_TIMEOUT = 10.0  # seconds


class PostgresStore(RunKeeper):
    """A `Store` in a schema of a PostgreSQL database, safe to share between machines.

    The server needs PostgreSQL 14 or later, with the extension `vector` (pgvector 0.8 or later). The corpus "notes" is
    the schema "airw_notes", so many corpora share a database. The store runs on asyncio only, because asyncpg does.
    Each event loop needs a store of its own. It needs the extra `postgres`.

    A reader sees only complete writes, also those of other processes, from its next call on, and never waits for a
    writer. Writers of a corpus take turns; a write that waits ten seconds for others raises `StoreBusy`. So does a call
    that waits ten seconds for one of the `max_connections`. If the server takes no more connections, calls take turns
    on those that the store has. `writing` has one more connection. A cancelled call is cancelled on the server, too,
    and its changes are undone.

    A read whose connection is lost is made once more, and waits up to five seconds for a server that restarts. A write
    is not: after an error, it is saved whole or not at all, and it does no harm to write the same again. What has
    returned is saved as the server's `synchronous_commit` says. A builder that loses its connection loses its lock; its
    next write raises `StoreError`.

    The address of a standby server, which streams the changes of another one, opens a corpus for reading. A write then
    raises `StoreError`.

    Sessions keep statements prepared, and settings. So connect to the server itself, or through a pooler that keeps
    sessions; PgBouncer's transaction mode does not.

    Args:
        dsn: The address of the database, such as `postgresql://user:$NAME@host:5432/database`. `$NAME` is the
            environment variable that has the password. Without a password, it comes from `PGPASSWORD` or `~/.pgpass`.
            No error shows it. The parameters `host`, `port`, `sslmode`, `sslrootcert`, `sslcert`, `sslkey`,
            `application_name` and `target_session_attrs` may follow after `?`. Several hosts are separated by commas:
            the primary server among them is used, also after another has taken over. The server's certificate and name
            are verified, unless its host is this machine or `sslmode` asks for less.
        corpus: The name of the corpus, of at most 58 bytes and without case. If the database does not have it, entering
            the store creates it, and the extension if the role may.
        max_connections: The number of connections to the server.
        language: The language of the texts in a new corpus: `"en"`, or `None` for words as they are. A corpus that
            exists keeps its own; a `Change` with `language` replaces it.

    Raises:
        ArgumentError: If an argument cannot be used, or a part of an address is not known.
        StoreCorrupt: On opening, if the schema is not a corpus, or is from a newer version.
        StoreError: On opening, if the server cannot be reached or used, or the event loop is not asyncio.

    Example:
        ```python
        from airw.protocols import Rank, ask
        from airw.stores import PostgresStore

        async with PostgresStore("postgresql:///kb", "notes") as store:
            [ranking] = await ask(store, Rank(["keys"], k=10))
        ```
    """

    def __init__(
        self,
        dsn: str,
        corpus: str,
        *,
        max_connections: int = 10,
        language: Language | None = "en",
    ) -> None:
        check_server_address("dsn", dsn)
        self._unsettled = 0  # records written since the tables were settled
        self._is_partial = False  # whether a part of a run was written in the present block of writing
        self._database = Database(dsn, corpus, max_connections=check_count("max_connections", max_connections, least=1))
        self._answers = Answers(check_language(language))

    @classmethod
    async def open(
        cls,
        dsn: str,
        corpus: str,
        *,
        create: bool = False,
        max_connections: int = 10,
        language: Language | None = "en",
    ) -> Self:
        """Open the store of an existing corpus; close it with `aclose`.

        Raises:
            ArgumentError: If an argument cannot be used.
            CorpusNotFound: If the database has no such corpus, and `create` is not set.
            StoreCorrupt: If the schema is not a corpus, or is from a newer version.
            StoreError: If the server cannot be reached or used, or the event loop is not asyncio.
        """
        store = cls(dsn, corpus, max_connections=max_connections, language=language)
        await store._open(create=create)
        return store

    @classmethod
    async def remove(cls, dsn: str, corpus: str) -> None:
        """Drop the schema of a corpus and all that is in it.

        What a killed copy to it has left is dropped, too. The call waits until no builder holds the lock of the store.

        Raises:
            CorpusNotFound: If the database has no such corpus.
            StoreBusy: If a builder still holds the lock after 30 seconds.
            StoreCorrupt: If the schema is not a corpus.
            StoreError: If the server cannot be reached, or the role may not drop the schema.
        """
        store, copy = cls(dsn, corpus), Database(dsn, _copying.name_copy(corpus))
        async with store.writing():
            was_there = [await copy.drop(), await store._database.drop()]
        if not any(was_there):
            raise CorpusNotFound(f"there is no {store._database.place}")

    @staticmethod
    async def list_corpora(dsn: str) -> list[str]:
        """Return the names of the corpora in a database, in lower case and in order.

        Raises:
            StoreError: If the server cannot be reached.
        """
        return await list_corpora(dsn)

    @property
    def address(self) -> str:
        """Return the address of the database, without its password."""
        return self._database.address

    async def exists(self) -> bool:
        """Return whether the database has this corpus; the store need not be open.

        Raises:
            StoreError: If the server cannot be reached.
        """
        async with self._database.hold_connection() as connection:
            return connection.state.version is not None

    async def discard(self) -> None:
        """Close the store and drop its schema; the caller holds `writing`.

        Raises:
            StoreError: If the server cannot be reached, or the role may not drop the schema.
        """
        await self.aclose()
        await self._database.drop()

    @asynccontextmanager
    async def snapshot(self) -> AsyncIterator[Store]:
        """Yield a store that reads this moment until the end of the block, such as for a copy.

        Raises:
            StoreError: If the server cannot be reached.
        """
        # A connection of its own, as a copy may take long.
        async with self._database.hold_connection() as connection:
            await connection.execute(BEGIN_SNAPSHOT)
            yield Snapshot(connection, self._answers, self._database.place)

    @classmethod
    @asynccontextmanager
    async def replace_corpus(
        cls, dsn: str, corpus: str, *, replace: bool = False, language: Language | None = "en"
    ) -> AsyncIterator[Self]:
        """Yield an empty store, which takes the place of a corpus at the end of the block.

        It does so in one step, and if that or the block fails, nothing has changed. Readers see either the
        old corpus or the new one. Builders of the corpus wait.

        Args:
            dsn: The address of the database.
            corpus: The name of the corpus, which need not exist.
            replace: Whether a corpus that exists is replaced.
            language: The language of the texts.

        Raises:
            StoreBusy: If a builder holds the lock of the corpus for more than 30 seconds.
            StoreError: If the corpus exists and `replace` is false, or the server cannot be reached.
        """
        target, copy = cls(dsn, corpus), cls(dsn, _copying.name_copy(corpus), language=language)
        async with target.writing():
            if not replace and await target.exists():
                raise StoreError(f"{target._database.place} exists; pass replace=True to replace it")
            await _copying.check_replacing(target._database)
            await copy._database.drop()  # that a killed process has left
            try:
                async with copy:
                    yield copy
                await _copying.put_in_place(copy._database, target._database)
            except BaseException:
                with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True), suppress(StoreError):
                    await copy._database.drop()
                raise
        async with target:
            target._unsettled = copy._unsettled
            await target._settle()
            await target._refresh_index()

    async def __aenter__(self) -> Self:
        if not self._database.is_open:
            await self._open(create=True)
        return self

    async def _open(self, *, create: bool) -> None:
        await self._database.open(create=create, prepare=self._prepare_tables)
        if self._database.version < VERSION:
            try:
                await self._database.write(_words.upgrade)
            except BaseException as error:
                self._database.abandon()  # or the next call would read the former tables
                if type(error) is not StoreError:
                    raise
                raise StoreError(
                    f"{self._database.place} is from an earlier version of airw, and cannot be brought up to date "
                    f"here; open it once as its owner, on a server that can be written ({error})"
                ) from error

    async def _prepare_tables(self, connection: "Connection") -> None:
        await _words.index_all(connection, self._answers.texts.state.language)

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the store and release its connections; closing twice is harmless."""
        await self._database.aclose()

    def __del__(self) -> None:
        database = getattr(self, "_database", None)  # missing if an argument was refused
        if database is not None and not sys.is_finalizing() and database.abandon():
            message = f"{database.place} was left open; use `async with`, or `await store.aclose()`"
            warnings.warn_explicit(message, ResourceWarning, "airw", 1)

    def __repr__(self) -> str:
        return f"<PostgresStore {self._database.place}>"

    async def read(self, *requests: Request[Any]) -> list[Any]:
        """Return the answer of each request, all of one state; see `airw.protocols.Store.read`."""
        check_able(self, *requests)

        async def answer(c: "Connection") -> list[Any]:
            # One request is one statement, and that sees one state.
            if len(requests) == 1:
                return await self._answers.read(c, requests)
            await c.execute(BEGIN_SNAPSHOT)
            answers = await self._answers.read(c, requests)
            await c.execute("COMMIT")
            return answers

        return await self._database.read(answer)

    async def apply(self, change: Change) -> None:
        """Write a change in one transaction; see `airw.protocols.Store.apply`."""
        language = self._answers.texts.state.language if change.language == "same" else check_language(change.language)
        rows = await _writing.prepare(change.puts, language)

        async def write(c: "Connection") -> None:
            if change.language != "same":
                await _words.change_language(c, language)
            if change.puts or change.removals:
                await _writing.write_rows(c, rows, change.removals)
            if change.config is not None:
                await _settings.set_setting(c, "config", "", change.config)
            for key, value in change.calibrations.items():
                await _settings.set_setting(c, "calibration", key, value)

        await self._database.write(write)
        self._unsettled += len(rows.records)

    @property
    def capabilities(self) -> frozenset[Capability]:
        """Return what the store can do: everything."""
        return CAPABILITIES

    @asynccontextmanager
    async def writing(self, *, timeout: float = 30.0) -> AsyncIterator[None]:  # noqa: ASYNC109 - it becomes an error
        """Lock the store for one builder; see `airw.protocols.Store.writing`."""
        async with self._database.lock_builder(timeout):
            self._is_partial = False
            yield
        # Without the lock, as this may take minutes. After the parts of a run, it is done once, at its end.
        if self._database.is_open and not self._is_partial:
            await self._settle()
            await self._refresh_index()

    async def _settle(self) -> None:
        if self._unsettled >= _writing.MANY_RECORDS:
            self._unsettled = 0
            # The server does the same by itself, only later.
            with suppress(StoreError):
                async with self._database.hold_connection() as connection:
                    await _writing.settle(connection)

    async def _refresh_index(self) -> None:
        try:
            async with self._database.hold_connection() as connection:
                await refresh_index(connection)
        except StoreError as error:
            message = f"searches are slower than they could be, because the vector index cannot be made ({error})"
            warnings.warn(message, RuntimeWarning, stacklevel=4)

    async def describe_index(self) -> str:
        """Return in one line how vectors are searched, and why.

        All of them are compared, or an approximate index finds the nearest.

        Raises:
            StoreError: If the store is closed, or the server fails.
        """
        return await self._database.read(describe_index)

    @override
    async def begin_run(self, run: IngestRun, row: Mapping[str, Any], *, removals: Sequence[str] = ()) -> None:
        await self._database.write(lambda c: _runs.begin_run(c, run, row, removals))

    @override
    async def read_run(self, run: IngestRun, parts: Sequence[int] | None = None) -> RunRows | None:
        return await self._database.read(lambda c: _runs.read_run(c, run, parts))

    @override
    async def apply_part(
        self, run: IngestRun, part: int, row: Mapping[str, Any], puts: Sequence[ArtifactChange]
    ) -> dict[str, Any] | None:
        rows = await _writing.prepare(puts, self._answers.texts.state.language)
        self._is_partial = True
        return await self._database.write(lambda c: _runs.apply_part(c, run, part, row, rows))

    @override
    async def forget_run(
        self, run: IngestRun, parts: Sequence[int] | None = None, *, removals: Sequence[str] = ()
    ) -> None:
        await self._database.write(lambda c: _runs.forget_run(c, run, parts, removals))
        self._unsettled += 0 if parts else _writing.MANY_RECORDS
