"""Schemas of corpora in a database: finding, making, listing and dropping them."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio

from airw._base.messages import one_line
from airw.errors import StoreCorrupt, StoreError
from airw.stores.postgres._schema import MARK_OF_COPY, SCHEMA_PREFIX, TABLES, VERSION, quote

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

LOCK_WITHIN = 10.0  # seconds that a write waits for other writers
_TRY_EVERY = 0.1  # seconds
_OLDEST_SERVER = 14
_OLDEST_EXTENSION = (0, 8)
_MARK = "airw corpus, format "  # the start of the comment on a schema, by which a corpus is known
_FORMAT = re.compile(f"{_MARK}([1-9][0-9]{{0,8}})")
_DENIED = "42501"
_NOT_INSTALLED = ("58P01", "0A000")

# An empty schema that was made for this role, which may not make one.
_IS_BLANK = """(pg_catalog.obj_description(corpus.oid, 'pg_namespace') IS NULL
        AND pg_catalog.pg_has_role(corpus.nspowner, 'USAGE')
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend
            WHERE refclassid = 'pg_catalog.pg_namespace'::pg_catalog.regclass::pg_catalog.oid
            AND refobjid = corpus.oid
            AND classid <> 'pg_catalog.pg_default_acl'::pg_catalog.regclass::pg_catalog.oid))"""
WITHOUT_TIMEOUTS = """SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings
    WHERE name IN ('statement_timeout', 'transaction_timeout', 'lock_timeout', 'idle_session_timeout')"""
"""Statement for a session that waits or works for long, whatever timeouts its role has."""
BEGIN_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
"""Statement before several others that see one state."""

# One statement, as each is a round trip.
_STATE = f"""
SELECT corpus.oid IS NOT NULL AND NOT {_IS_BLANK} AS exists,
    pg_catalog.has_schema_privilege(corpus.oid, 'USAGE') AS is_usable,
    pg_catalog.obj_description(corpus.oid, 'pg_namespace') AS comment,
    extension.extversion AS version,
    home.nspname::text AS home,
    pg_catalog.has_schema_privilege('public', home.oid, 'CREATE') AS is_open,
    (SELECT pg_catalog.array_agg(type.typname::text || ' ' || type.oid::text)
        FROM pg_catalog.pg_type type
        WHERE type.typnamespace = home.oid AND type.typname IN ('vector', 'halfvec')) AS types,
    pg_catalog.has_schema_privilege('public', public.oid, 'CREATE') AS is_public_open,
    pg_catalog.set_config('search_path',
        pg_catalog.quote_ident($1) || COALESCE(', ' || pg_catalog.quote_ident(home.nspname), '') || ', pg_temp', false)
FROM (SELECT) one
LEFT JOIN pg_catalog.pg_namespace corpus ON corpus.nspname = $1
LEFT JOIN pg_catalog.pg_namespace public ON public.nspname = 'public'
LEFT JOIN pg_catalog.pg_extension extension ON extension.extname = 'vector'
LEFT JOIN pg_catalog.pg_namespace home ON home.oid = extension.extnamespace
"""

_BLANK = f"SELECT {_IS_BLANK} FROM pg_catalog.pg_namespace corpus WHERE nspname = $1"


@dataclass(frozen=True, slots=True)
class CorpusState:
    """What a database has of a corpus.

    Attributes:
        exists: Whether the schema exists, and is more than an empty one of this role.
        version: The format of its tables; `None` if it is not a corpus.
        home: The schema of the extension `vector`; `None` if the database does not have it.
        types: The numbers of the types of the extension.
        is_public_open: Whether each role may create functions in the schema `public`.
    """

    exists: bool
    version: int | None
    home: str | None
    types: dict[str, int]
    is_public_open: bool | None


def lock_key(kind: str, schema: str) -> int:
    """Return the number of an advisory lock, which has 64 bits and a sign."""
    digest = hashlib.blake2b(f"airw {kind} {schema}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def begin_locked(key: int) -> str:
    """Return the statements that begin a transaction and take a lock, for one round trip.

    No lock of the transaction is waited for longer than `LOCK_WITHIN`, and this one as long, whatever the
    `statement_timeout` of the role.
    """
    return (
        f"BEGIN; SET LOCAL lock_timeout = {round(LOCK_WITHIN * 1000)}; SET LOCAL statement_timeout = 0; "
        f"SELECT pg_catalog.pg_advisory_xact_lock({key}); SET LOCAL statement_timeout TO DEFAULT"
    )


async def read_state(connection: "Session", schema: str, place: str) -> CorpusState:
    """Return what the database has of a corpus, and set the `search_path` of this connection.

    Raises:
        StoreError: If the server or its extension is too old, or any role could add functions to it.
    """
    major = connection.get_server_version().major
    if major < _OLDEST_SERVER:
        raise StoreError(f"{place}: the server is PostgreSQL {major}; use version {_OLDEST_SERVER} or later")
    row = await connection.fetchrow(_STATE, schema)
    if row["home"] is not None and tuple(map(int, row["version"].split(".")[:2])) < _OLDEST_EXTENSION:
        raise StoreError(
            f"{place}: the extension vector is {one_line(row['version'])}; install pgvector 0.8 or later on the server "
            "and run: ALTER EXTENSION vector UPDATE"
        )
    if row["is_open"]:
        home = one_line(quote(row["home"]))
        raise StoreError(
            f"{place}: any role may create functions in the schema {home} of the extension vector, which would be "
            f"called; its owner should run: REVOKE CREATE ON SCHEMA {home} FROM PUBLIC"
        )
    if row["exists"] and not row["is_usable"]:
        raise StoreError(
            f"{place}: this role may not use it; its owner runs: GRANT USAGE ON SCHEMA {one_line(quote(schema))} TO "
            "this_role, and grants it the tables"
        )
    number = _FORMAT.fullmatch(row["comment"] or "")
    types = {name: int(oid) for name, oid in map(str.split, row["types"] or ())}
    return CorpusState(row["exists"], number and int(number[1]), row["home"], types, row["is_public_open"])


def check_format(state: CorpusState, place: str) -> None:
    """Check that an existing schema is a corpus that can be read.

    Raises:
        StoreCorrupt: If it is something else, or from a newer version.
    """
    if state.version is None:
        raise StoreCorrupt(
            f"{place} is not a corpus: a schema of that name was made by something else; use another name"
        )
    if state.version > VERSION:
        raise StoreCorrupt(f"{place} is from a newer version of airw (format {state.version}); update airw")
    if state.home is None:
        raise StoreCorrupt(f"{place} has lost the extension vector; restore a copy")


@contextmanager
def _advising(place: str, advice: Mapping[str, str]) -> Iterator[None]:
    """Raise errors of the server with what would do, by the state that names each."""
    try:
        yield
    except Exception as error:
        words = advice.get(getattr(error, "sqlstate", None) or "")
        if words is None:
            raise
        raise StoreError(f"{place}: {words}") from error


async def create_extension(connection: "Session", place: str) -> None:
    """Create the extension `vector`.

    It goes to the schema `public`, or if any role may write there, to one of its own.

    Raises:
        StoreError: If the role may not, or the server does not have it.
    """
    statement = "CREATE EXTENSION IF NOT EXISTS vector SCHEMA public"
    if connection.state.is_public_open:
        statement = "CREATE SCHEMA IF NOT EXISTS vector; CREATE EXTENSION IF NOT EXISTS vector SCHEMA vector"
    denied = f"this role may not create the extension vector; the owner of the database runs: {statement}"
    missing = "the server lacks the extension vector; install pgvector 0.8 or later"
    with _advising(place, {_DENIED: denied, **dict.fromkeys(_NOT_INSTALLED, missing)}):
        await connection.execute(f"{begin_locked(lock_key('extension', ''))}; {statement}; COMMIT")


async def create_schema(
    connection: "Session", schema: str, place: str, prepare: "Callable[[Session], Awaitable[None]] | None"
) -> None:
    """Create the schema and the tables of a corpus, unless another process does so meanwhile.

    Args:
        connection: A connection whose `search_path` is that of the corpus.
        schema: The name of the schema.
        place: The corpus, for messages.
        prepare: What is called in the same transaction, when the tables are there.

    Raises:
        StoreError: If the role may not.
    """
    name = quote(schema)
    await connection.execute(begin_locked(lock_key("writer", schema)))
    is_blank = await connection.fetchval(_BLANK, schema)
    if is_blank is None:  # there is no such schema
        denied = (
            "this role may not create a schema; the owner of the database runs: "
            f"CREATE SCHEMA {name} AUTHORIZATION this_role, or grants CREATE on the database"
        )
        with _advising(place, {_DENIED: denied}):
            await connection.execute(f"CREATE SCHEMA {name}")
    if is_blank is not False:
        await connection.execute("; ".join([*TABLES, f"COMMENT ON SCHEMA {name} IS '{_MARK}{VERSION}'"]))
        if prepare is not None:
            await prepare(connection)
    await connection.execute("COMMIT")


async def list_schemas(connection: "Session") -> list[str]:
    """Return the names of the corpora in a database, in order."""
    rows = await connection.fetch(
        "SELECT nspname::text AS name FROM pg_catalog.pg_namespace"
        " WHERE pg_catalog.starts_with(nspname, $1)"
        " AND pg_catalog.starts_with(pg_catalog.obj_description(oid, 'pg_namespace'), $2)",
        SCHEMA_PREFIX,
        _MARK,
    )
    names = (row["name"].removeprefix(SCHEMA_PREFIX) for row in rows)
    return sorted(name for name in names if MARK_OF_COPY not in name)  # of an unfinished copy


async def take_lock(connection: "Session", key: int, seconds: float) -> bool:
    """Take an advisory lock of the session; return whether that was possible in time."""
    await connection.execute(WITHOUT_TIMEOUTS)
    deadline = anyio.current_time() + seconds
    # A statement that waits would keep its snapshot, for which each CREATE INDEX CONCURRENTLY of the database waits.
    while not await connection.fetchval(f"SELECT pg_catalog.pg_try_advisory_lock({key})"):
        left = deadline - anyio.current_time()
        if left <= 0:
            return False
        await anyio.sleep(min(_TRY_EVERY, left))
    return True
