"""The approximate index of the vectors: how it is made, dropped and known.

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from airw.stores.postgres._catalog import WITHOUT_TIMEOUTS
from airw.stores.postgres._schema import quote
from airw.stores.postgres.dialect import PostgresDialect

if TYPE_CHECKING:
    from asyncpg import Connection

# The width of the stored vectors; in the order of the primary key, as that skips removed rows.
WIDTH = "(SELECT vector_dims(value) FROM embedding ORDER BY artifact_id, number LIMIT 1)"
_PREFIX = "embedding_near_"
_SAMPLE = 256  # records that are looked at to estimate how many match a filter
_FRACTIONS = np.random.default_rng(0).random(_SAMPLE)  # the same for each query, so that their pages stay in memory
# An index looks at more records the fewer match, and comparing all that match takes longer the more do. Both take the
# same time if this number is the records times the square of the share that matches.
_EQUAL = 600
_RARE = 0.01  # a smaller share of all, of which an index finds too few
_MIN_ANALYZED = 1_000  # records of which the server should know the number
_LOCK = "hashtextextended(current_schema() || ' index', 0)"

# The present indexes: their names, and whether they can be used.
_INDEXES = f"""SELECT name.relname AS name, index.indisvalid AS is_valid FROM pg_index index
    JOIN pg_class name ON name.oid = index.indexrelid
    WHERE index.indrelid = to_regclass('embedding') AND starts_with(name.relname, '{_PREFIX}')"""


class _Seen(NamedTuple):
    """The state of the index at the last answer of the server."""

    has_index: bool
    records: int
    last: int


class KnownIndex:
    """What a store knows of the index of its corpus; each answer to a search tells it anew.

    So no search asks before. A search that relied on an index that is gone is slow, but right.

    Args:
        dialect: The SQL of the index.
    """

    def __init__(self, dialect: PostgresDialect) -> None:
        self.dialect = dialect
        self.crowding = 2.0  # records of one artifact among the nearest
        self._seen: dict[int, _Seen] = {}

    def knows(self, width: int) -> bool:
        """Return whether it is known if vectors of this width have an index."""
        return width in self._seen or self.dialect.explain_exact(width) is not None

    def has_index(self, width: int) -> bool:
        """Return whether there was an index at the last answer."""
        return width in self._seen and self._seen[width].has_index

    def state_sql(self, width: int) -> str:
        """Return the columns of which `note` takes note."""
        if self.dialect.explain_exact(width) is not None:
            return f"{WIDTH} AS width"
        name = index_name(self.dialect, width)
        return f"""{WIDTH} AS width, (SELECT coalesce(sum(records), 0)::bigint FROM text_run) AS records,
            (SELECT last_value FROM record_number) AS last,
            coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')), false) AS has_index"""

    def note(self, row: Mapping[str, Any], width: int) -> None:
        """Take note of an answer."""
        if self.dialect.explain_exact(width) is None:
            self._seen[width] = _Seen(row["has_index"], row["records"], row["last"])

    def sample(self, width: int) -> tuple[list[int], int]:
        """Return numbers of a sample of records, and how many of them match a common filter."""
        seen = self._seen[width]
        least = max(_RARE, min((_EQUAL / max(1, seen.records)) ** 0.5, 1.0)) * _SAMPLE
        return (_FRACTIONS * seen.last).astype(np.int64).tolist(), int(np.ceil(least))

    def distance(self, value: str, query: str, width: int) -> str:
        """Return the SQL of the distance that the index knows."""
        return self.dialect.distance.format(value=value, query=query, element=self.dialect.element, width=width)


def index_name(dialect: PostgresDialect, width: int) -> str:
    """Return the name of the index of vectors of this width.

    An index that is created with other SQL has another name.
    """
    return f"{_PREFIX}{width}_{zlib.crc32(_create_sql(dialect, width, '').encode()):08x}"


def _create_sql(dialect: PostgresDialect, width: int, name: str) -> str:
    return (dialect.index or "").format(name=name, element=dialect.element, width=width)


async def drop_indexes(c: "Connection") -> None:
    """Drop all indexes, in the open transaction that inserts vectors of another width."""
    for row in await c.fetch(_INDEXES):
        await c.execute(f"DROP INDEX {quote(row['name'])}")


async def refresh_index(c: "Connection", dialect: PostgresDialect) -> None:
    """Create the index if the corpus has grown enough, and drop what is of no use.

    The server also counts the rows of tables that have grown much, for its plans.

    Others read and write meanwhile.

    Args:
        c: A connection of its own, which is in no transaction.
        dialect: The SQL of the index.
    """
    await c.execute(WITHOUT_TIMEOUTS)
    if not await c.fetchval(f"SELECT pg_try_advisory_lock({_LOCK})"):
        return  # another process does it just now
    state = await c.fetchrow(
        f"""SELECT {WIDTH} AS width, coalesce((SELECT sum(records)::bigint FROM text_run), 0) AS records,
        (SELECT relkind = 'r' FROM pg_class WHERE oid = to_regclass('embedding')) AS is_plain,
        (SELECT reltuples FROM pg_class WHERE oid = to_regclass('record')) AS counted"""
    )
    if state["is_plain"] and state["records"] > max(_MIN_ANALYZED, 2 * (state["counted"] or 0)):
        # The server would do so in a minute. Until then, its plans would be for the former size.
        tables = await c.fetch("SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()")
        await c.execute(f"ANALYZE {', '.join(quote(row['name']) for row in tables)}")
    if dialect.index is None:
        return
    width, indexes = state["width"], await c.fetch(_INDEXES)
    name = None
    if width is not None and state["is_plain"] and dialect.explain_exact(width) is None:
        name = index_name(dialect, width)
    has_index = any(row["name"] == name and row["is_valid"] for row in indexes)
    # An index is kept until the corpus has halved, so that it does not come and go.
    is_wanted = name is not None and state["records"] > (dialect.exact_rows // 2 if has_index else dialect.exact_rows)
    for row in indexes:
        if not (is_wanted and has_index and row["name"] == name):
            await c.execute(f"DROP INDEX CONCURRENTLY {quote(row['name'])}")
    if is_wanted and not has_index:
        for setting, value in dialect.build_settings.items():
            await c.fetchval("SELECT set_config($1, $2, false)", setting, value)
        await c.execute(_create_sql(dialect, width, quote(str(name))))


async def describe_index(c: "Connection", dialect: PostgresDialect) -> str:
    """Return in one line how vectors are searched, and why."""
    width = await c.fetchval(f"SELECT {WIDTH}")
    if width is None:
        return "there are no vectors"
    reason = dialect.explain_exact(width)
    if reason is not None:
        return reason
    known = KnownIndex(dialect)
    state = await c.fetchrow(f"SELECT {known.state_sql(width)}")
    if state["has_index"]:
        return f"an index of {dialect.element} finds the nearest of {state['records']} vectors"
    if state["records"] <= dialect.exact_rows:
        return f"all {state['records']} vectors are compared; an index is made above {dialect.exact_rows}"
    return (
        f"all {state['records']} vectors are compared, as there is no index yet; "
        "the end of a block of `writing` makes one"
    )
