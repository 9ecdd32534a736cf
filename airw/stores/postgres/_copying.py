"""Copying whole corpora out of a PostgreSQL server and into one."""

import hashlib
from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from airw._base.concurrency import in_thread
from airw._base.messages import one_line
from airw.errors import StoreError
from airw.protocols import Artifacts, Ledger, RecordsOf, VectorsOf
from airw.stores._link_rows import make_extraction
from airw.stores._stored_values import detect_damage
from airw.stores.postgres._catalog import begin_locked, check_format, lock_key, read_state
from airw.stores.postgres._database import Database
from airw.stores.postgres._inserting import COLUMNS
from airw.stores.postgres._keys import prefix_of, to_keys
from airw.stores.postgres._records import ledger, records_of
from airw.stores.postgres._schema import MARK_OF_COPY, quote
from airw.stores.postgres._vector_index import drop_indexes
from airw.stores.postgres._vectors import vectors_of
from airw.stores.postgres._words import upgrade
from airw.values import ArtifactChange, Link

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

_LINKS = f"""
    SELECT artifact_id, position, ref, type, origin, target_source, file, line, or_ref, coalesce(weight, 1)
    FROM link WHERE {prefix_of("artifact_id")} = ANY ($1::text[])"""
_NAMES = f"SELECT artifact_id, key, tier FROM name WHERE {prefix_of('artifact_id')} = ANY ($1::text[])"
_MAY_REPLACE = """
    SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
        COALESCE(pg_catalog.pg_has_role(nspowner, 'USAGE'), true),
        pg_catalog.quote_ident(pg_catalog.current_database()), nspowner::pg_catalog.regrole::text
    FROM (SELECT) one LEFT JOIN pg_catalog.pg_namespace ON nspname = $1"""
_BYTES_OF_DIGEST = 4
_LONGEST_START = 40  # bytes of a name that the name of its unfinished copy begins with


async def read_artifacts(c: "Session", request: Artifacts) -> list[ArtifactChange | None]:
    """Return artifacts as they were written, or `None`."""
    ids = [*request.ids]
    entries, records = await ledger(c, Ledger(ids)), await records_of(c, RecordsOf(ids))
    prefixes, (record_ids, vectors) = to_keys(ids), await vectors_of(c, VectorsOf(ids))
    link_rows, name_rows = await c.fetch(_LINKS, prefixes), await c.fetch(_NAMES, prefixes)

    @detect_damage()
    def make() -> list[ArtifactChange | None]:
        links: dict[str, list[Link]] = {id: [] for id in ids}
        names: dict[str, list[tuple[str, int]]] = {id: [] for id in ids}
        # Rows may be of other artifacts, too.
        for id, _, *link in sorted(link_rows, key=itemgetter(1)):
            if id in links:
                links[id].append(Link(*link))
        for id, key, tier in name_rows:
            if id in names:
                names[id].append((key, tier))
        parts = np.split(vectors, np.cumsum([*map(len, record_ids)])[:-1])
        return [
            None
            if entry is None
            else ArtifactChange(entry, found or [], part, make_extraction(id, links[id], names[id]))
            for id, entry, found, part in zip(ids, entries, records, parts, strict=True)
        ]

    return await in_thread(make) if ids else []


def name_copy(corpus: str) -> str:
    """Return the name under which a copy is written before it takes its place.

    No corpus can have this name.

    Example:
        >>> name_copy("notes") == name_copy("Notes"), name_copy("notes")[:6]
        (True, 'notes~')
    """
    name = corpus.casefold()
    digest = hashlib.blake2b(name.encode(), digest_size=_BYTES_OF_DIGEST).hexdigest()
    return f"{name.encode()[:_LONGEST_START].decode(errors='ignore')}{MARK_OF_COPY}{digest}"


async def check_replacing(target: Database) -> None:
    """Check that this role may put a copy in the place of a corpus, before it is written.

    Raises:
        StoreError: If it may not.
    """
    async with target.hold_connection() as connection:
        may_create, may_drop, database, owner = await connection.fetchrow(_MAY_REPLACE, target.schema)
    if not may_create:
        raise StoreError(
            f"{target.place}: this role may not create a schema, which a copy needs at first; the owner of the "
            f"database runs: GRANT CREATE ON DATABASE {one_line(database)} TO this_role"
        )
    if not may_drop:
        raise StoreError(
            f"{target.place} is of the role {one_line(owner)}, so this one may not replace it; connect as that role"
        )


async def put_in_place(copy: Database, target: Database) -> None:
    """Put the content of a copy in the place of that of the target, in one transaction.

    If there is no target, the copy takes its name. Else its rows take the place of the others, so that owner and rights
    stay. The caller holds the lock of the builder. Open stores go on with the new rows at their next call.

    Raises:
        StoreBusy: If others write to the target for too long.
        StoreCorrupt: If the schema of the target is not a corpus.
        StoreError: If the server cannot be reached, or the role may not do this.
    """
    old, new = quote(copy.schema), quote(target.schema)
    async with target.hold_connection() as connection:
        state = await read_state(connection, target.schema, target.place)
        await connection.execute(begin_locked(lock_key("writer", target.schema)))
        if not state.exists:
            await connection.execute(f"DROP SCHEMA IF EXISTS {new}; ALTER SCHEMA {old} RENAME TO {new}; COMMIT")
            return
        check_format(state, target.place)
        await upgrade(connection)
        await drop_indexes(connection)
        await connection.execute("SET LOCAL statement_timeout = 0")
        for table in ("setting", "texts", *COLUMNS):
            columns = ", ".join(COLUMNS.get(table, "*"))
            into = f"{table} ({columns})" if table in COLUMNS else table
            await connection.execute(f"DELETE FROM {table}; INSERT INTO {into} SELECT {columns} FROM {old}.{table}")
        # A number of a record is never used again.
        await connection.execute(
            f"""SELECT setval('record_number', greatest(here.last_value, there.last_value))
            FROM record_number here, {old}.record_number there; DROP SCHEMA {old} CASCADE; COMMIT"""
        )
