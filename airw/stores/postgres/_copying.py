"""Copying whole corpora out of a PostgreSQL server and into one."""

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw._base.arrays import Floats
from airw._base.concurrency import in_thread
from airw._base.messages import one_line
from airw.errors import StoreError
from airw.stores._link_rows import make_extraction
from airw.stores._stored_values import detect_damage
from airw.stores.postgres._catalog import begin_locked, check_format, lock_key, read_state
from airw.stores.postgres._database import Database
from airw.stores.postgres._keys import prefix_of, to_keys
from airw.stores.postgres._records import ledger, records_of
from airw.stores.postgres._schema import MARK_OF_COPY, quote
from airw.stores.postgres._vector_codec import decode_vectors
from airw.values import ArtifactChange, Extraction, Link

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

_VECTORS = "SELECT artifact_id, number, value FROM embedding WHERE artifact_id = ANY ($1::text[])"
_LINKS = f"""
    SELECT artifact_id, position, ref, type, origin, target_source, file, line, or_ref, coalesce(weight, 1)
    FROM link WHERE {prefix_of("artifact_id")} = ANY ($1::text[])"""
_NAMES = f"SELECT artifact_id, key, tier FROM name WHERE {prefix_of('artifact_id')} = ANY ($1::text[])"
# The schema comes first: the new owner of a table needs rights on it. All names are as in SQL.
_RIGHTS = """
    SELECT part.kind, part.name, part.owner::pg_catalog.regrole::text,
        CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::pg_catalog.regrole::text END,
        given.privilege_type, CASE WHEN given.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END
    FROM (
        SELECT 'SCHEMA' AS kind, pg_catalog.quote_ident(nspname) AS name, nspowner AS owner, nspacl AS rights
        FROM pg_catalog.pg_namespace WHERE nspname = $1
        UNION ALL
        SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
            pg_catalog.quote_ident(nspname) || '.' || pg_catalog.quote_ident(relname), relowner, relacl
        FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace home ON home.oid = relnamespace
        WHERE nspname = $1 AND relkind IN ('r', 'p', 'f', 'S')
    ) part LEFT JOIN LATERAL pg_catalog.aclexplode(part.rights) given ON true
    ORDER BY part.kind <> 'SCHEMA'"""
_MAY_REPLACE = """
    SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE'),
        COALESCE(pg_catalog.pg_has_role(nspowner, 'USAGE'), true),
        pg_catalog.quote_ident(pg_catalog.current_database()), nspowner::pg_catalog.regrole::text
    FROM (SELECT) one LEFT JOIN pg_catalog.pg_namespace ON nspname = $1"""
_BYTES_OF_DIGEST = 4
_LONGEST_START = 40  # bytes of a name that the name of its unfinished copy begins with


class _Right(NamedTuple):
    """A right that a role has on a part of a corpus; nobody has one if the grantee is `None`."""

    kind: str
    part: str
    owner: str
    grantee: str | None
    privilege: str | None
    option: str


async def read_artifacts(c: "Session", ids: Sequence[str]) -> list[ArtifactChange | None]:
    """Return artifacts as they were written, or `None`."""
    entries, records = await ledger(c, ids), await records_of(c, ids, None, None)
    vector_rows, prefixes = await c.fetch(_VECTORS, list(ids)), to_keys(ids)
    link_rows, name_rows = await c.fetch(_LINKS, prefixes), await c.fetch(_NAMES, prefixes)

    def make() -> list[ArtifactChange | None]:
        vectors, extractions = _group_vectors(vector_rows), _group_extractions(ids, link_rows, name_rows)
        none = np.empty((0, 0), np.float32)
        return [
            None if entry is None else ArtifactChange(entry, found or [], vectors.get(id, none), extractions[id])
            for id, entry, found in zip(ids, entries, records, strict=True)
        ]

    return await in_thread(make)


@detect_damage()
def _group_vectors(rows: Sequence[Sequence[Any]]) -> dict[str, Floats]:
    """Return the vectors of each artifact, in the order of its records."""
    values: dict[str, list[bytes]] = {}
    for id, _, value in sorted(rows, key=lambda row: row[1]):
        values.setdefault(id, []).append(value)
    return {id: decode_vectors(each, (len(each[0]) - 4) // 4) for id, each in values.items()}


@detect_damage()
def _group_extractions(
    ids: Sequence[str], link_rows: Sequence[Sequence[Any]], name_rows: Sequence[Sequence[Any]]
) -> dict[str, Extraction]:
    """Return the links and names of each artifact; rows may be of other artifacts, too."""
    links: dict[str, list[Link]] = {}
    names: dict[str, list[tuple[str, int]]] = {}
    for id, _, *link in sorted(link_rows, key=lambda row: row[1]):
        links.setdefault(id, []).append(Link(*link))
    for id, key, tier in name_rows:
        names.setdefault(id, []).append((key, tier))
    return {id: make_extraction(id, links.get(id, []), names.get(id, [])) for id in ids}


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
    """Rename the schema of a copy to that of the target, in one transaction.

    The schema of the target is dropped. The new one gets its owner, and the rights granted on it. The caller holds the
    lock of the builder of both. Open stores go on with the new schema at their next call.

    Raises:
        StoreBusy: If calls hold the old schema for too long.
        StoreCorrupt: If the schema of the target is not a corpus.
        StoreError: If the server cannot be reached, or the role may not do this.
    """
    async with target.hold_connection() as connection:
        state = await read_state(connection, target.schema, target.place)
        if state.exists:
            check_format(state, target.place)
        await connection.execute(begin_locked(lock_key("writer", target.schema)))
        rights = await _list_rights(connection, target.schema) if state.exists else []
        await connection.execute(f"DROP SCHEMA IF EXISTS {quote(target.schema)} {'CASCADE' if state.exists else ''}")
        await connection.execute(f"ALTER SCHEMA {quote(copy.schema)} RENAME TO {quote(target.schema)}")
        if state.exists:
            await _set_rights(connection, target.schema, rights)
        await connection.execute("COMMIT")


async def _list_rights(connection: "Session", schema: str) -> list[_Right]:
    """Return what the owner of a corpus has granted on it, and all its parts without a grant."""
    return [_Right(*row) for row in await connection.fetch(_RIGHTS, schema)]


async def _set_rights(connection: "Session", schema: str, wanted: Sequence[_Right]) -> None:
    """Set the owner of a new corpus and the rights on it to those of the one that it replaces."""
    present = await _list_rights(connection, schema)
    owner, new_owner = wanted[0].owner, present[0].owner
    parts = list(dict.fromkeys((right.kind, right.part) for right in present))
    statements = []
    if owner != new_owner:
        statements += [f"ALTER {kind} {part} OWNER TO {owner}" for kind, part in parts if kind != "SEQUENCE"]
        statements += [f"ALTER {kind} {part} OWNER TO {owner}" for kind, part in parts if kind == "SEQUENCE"]
    # Default privileges may have granted what the owner has revoked since.
    revoked = {(right.kind, right.part, right.grantee) for right in present if right.grantee not in (None, new_owner)}
    statements += [f"REVOKE ALL ON {kind} {part} FROM {grantee}" for kind, part, grantee in sorted(revoked)]
    statements += [
        f"GRANT {right.privilege} ON {right.kind} {right.part} TO {right.grantee}{right.option}"
        for right in wanted
        if right.grantee not in (None, owner) and (right.kind, right.part) in parts
    ]
    await connection.execute("; ".join(statements) or "SELECT")
