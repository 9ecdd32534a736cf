"""What could run code of its owner in the schema of a corpus, when others use it.

Such as a view in the place of a table, a trigger, or an index that calls a function. A superuser who opened the corpus
would run that code with all rights. Built-in functions and types have no rows in `pg_depend`, so whatever a part of the
schema needs there was made by somebody.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airw.stores.postgres._session import Session

_CHECK = (
    "CHECK (((weight >= (0.001)::double precision) AND (weight <= (1)::double precision)))"  # as PostgreSQL shows it
)


def _oid_of(catalog: str) -> str:
    # The number itself: an operator of the schema's owner could compare a `regclass`.
    return f"'pg_catalog.{catalog}'::pg_catalog.regclass::pg_catalog.oid"


_MEMBERS = f"""pg_catalog.pg_depend member
        LEFT JOIN pg_catalog.pg_class part ON member.classid = {_oid_of("pg_class")} AND part.oid = member.objid
    WHERE member.refclassid = {_oid_of("pg_namespace")} AND member.refobjid = corpus.oid"""
_OTHER_CHECK = f"""EXISTS (SELECT FROM pg_catalog.pg_constraint
        WHERE conrelid = part.oid AND contype = 'c' AND pg_catalog.pg_get_constraintdef(oid) <> '{_CHECK}')"""
_CALLABLE = f"({_oid_of('pg_proc')}, {_oid_of('pg_operator')}, {_oid_of('pg_type')})"

IS_ODD = f"""EXISTS (SELECT FROM {_MEMBERS} AND (part.oid IS NULL OR part.relkind NOT IN ('r', 'S')
        OR part.relrowsecurity OR part.relhasrules OR part.relhastriggers OR part.relhassubclass
        OR part.relchecks > 0 AND {_OTHER_CHECK}
        OR EXISTS (SELECT FROM pg_catalog.pg_attribute WHERE attrelid = part.oid AND atthasdef)
        OR EXISTS (SELECT FROM pg_catalog.pg_depend used WHERE used.classid = {_oid_of("pg_class")}
            AND used.objid IN (
                SELECT part.oid UNION ALL SELECT indexrelid FROM pg_catalog.pg_index WHERE indrelid = part.oid)
            AND used.refclassid IN {_CALLABLE}
            AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend WHERE classid = used.refclassid
                AND objid = used.refobjid AND deptype = 'e' AND refobjid = extension.oid))))"""
"""Whether the schema `corpus` has more than tables and indexes; the extension `vector` is `extension`."""

# In all detail: partitions, the triggers of Citus, and what belongs to another extension of a superuser are allowed.
_STRANGER = f"""SELECT pg_catalog.min(pg_catalog.pg_describe_object(member.classid, member.objid, 0))
    FROM (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = $1) corpus, {_MEMBERS}
    AND CASE WHEN part.oid IS NULL THEN member.classid NOT IN ({_oid_of("pg_default_acl")},
        COALESCE(pg_catalog.to_regclass('pg_catalog.pg_publication_namespace')::pg_catalog.oid, 0::pg_catalog.oid))
    ELSE part.relkind NOT IN ('r', 'S', 'p', 'f') OR part.relrowsecurity OR {_OTHER_CHECK}
        OR EXISTS (SELECT FROM pg_catalog.pg_rewrite WHERE ev_class = part.oid)
        OR EXISTS (SELECT FROM pg_catalog.pg_attrdef WHERE adrelid = part.oid)
        OR EXISTS (SELECT FROM pg_catalog.pg_inherits JOIN pg_catalog.pg_class child ON child.oid = inhrelid
            WHERE inhparent = part.oid AND child.relnamespace <> corpus.oid)
        OR EXISTS (SELECT FROM (
            SELECT {_oid_of("pg_proc")} AS class, tgfoid AS oid
                FROM pg_catalog.pg_trigger WHERE tgrelid = part.oid AND NOT tgisinternal
            UNION ALL
            SELECT refclassid, refobjid FROM pg_catalog.pg_depend WHERE classid = {_oid_of("pg_class")}
                AND objid IN (
                    SELECT part.oid UNION ALL SELECT indexrelid FROM pg_catalog.pg_index WHERE indrelid = part.oid)
                AND refclassid IN {_CALLABLE}
            ) used
            WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_depend
                JOIN pg_catalog.pg_extension owned ON owned.oid = refobjid
                WHERE classid = used.class AND objid = used.oid AND deptype = 'e'
                AND (extname = 'vector' OR (SELECT rolsuper FROM pg_catalog.pg_roles WHERE oid = extowner))))
    END"""


async def find_stranger(connection: "Session", schema: str) -> str | None:
    """Return the server's words for what could run code in a schema that `IS_ODD`, or `None`."""
    found: str | None = await connection.fetchval(_STRANGER, schema)
    return found
