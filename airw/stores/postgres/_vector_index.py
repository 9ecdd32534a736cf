"""The approximate index of the vectors: how it is made, dropped and known.

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import numpy as np

from airw.errors import StoreBusy
from airw.stores.postgres._catalog import WITHOUT_TIMEOUTS, begin_locked, lock_key
from airw.stores.postgres._schema import quote

if TYPE_CHECKING:
    from asyncpg import Connection

# The width of the stored vectors; in the order of the primary key, as that skips removed rows.
WIDTH = "(SELECT vector_dims(value) FROM embedding ORDER BY artifact_id, number LIMIT 1)"
_PREFIX = "embedding_near_"
_EXACT_ROWS = 50_000  # records up to which all vectors are compared, and there is no index
_MAX_WIDTH = 4_000  # numbers in the widest vectors that the index takes
_BUILD_MEMORY = "2GB"  # of the server, to make the index
# Half precision takes half the space, and is as good for finding candidates.
_CREATE = (
    "CREATE INDEX CONCURRENTLY {name} ON embedding USING hnsw"
    " ((value::halfvec({width})) halfvec_ip_ops) WITH (m = 16, ef_construction = 200)"
)
_SAMPLE = 256  # records that are looked at to estimate how many match a filter
_FRACTIONS = np.random.default_rng(0).random(_SAMPLE)  # the same for each query, so that their pages stay in memory
# An index looks at more records the fewer match, and comparing all that match takes longer the more do. Both take the
# same time if this number is the records times the square of the share that matches.
_EQUAL = 600
_RARE = 0.01  # a smaller share of all, of which an index finds too few
_MIN_ANALYZED = 1_000  # records of which the server should know the number
_WITHIN = 30.0  # seconds that an index waits for the transactions that are open before it is made
_END_WITHIN = 600.0  # seconds that one waits for each of those at its end
_LOOK_EVERY = 0.2  # seconds

# The present indexes: their names, and whether they can be used.
_INDEXES = f"""SELECT name.relname AS name, index.indisvalid AS is_valid FROM pg_index index
    JOIN pg_class name ON name.oid = index.indexrelid
    WHERE index.indrelid = to_regclass('embedding') AND starts_with(name.relname, '{_PREFIX}')"""

# The transactions of others whose end an index must wait for. Each can see this much of those of any role. Another
# index is waited for at the end: it may take as long as this one.
_OPEN_TRANSACTIONS = """SELECT lock.virtualtransaction AS id, pid FROM pg_stat_activity JOIN pg_locks lock USING (pid)
    WHERE datname = current_database() AND backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
    AND locktype = 'virtualxid' AND mode = 'ExclusiveLock' AND NOT EXISTS (
        SELECT FROM pg_stat_progress_create_index build WHERE build.pid = lock.pid
        UNION ALL SELECT FROM pg_stat_progress_vacuum vacuum WHERE vacuum.pid = lock.pid)"""

# The server keeps the two halves of the number of a lock apart.
_CANCEL_BUILD = """SELECT pg_cancel_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND datname = current_database()
    AND database = datid AND (classid::bigint << 32 | objid::bigint) = $1::bigint
    AND pid <> pg_backend_pid() AND pg_has_role(usesysid, 'USAGE')"""


class _Seen(NamedTuple):
    """The state of the index at the last answer of the server."""

    has_index: bool
    records: int
    last: int


class KnownIndex:
    """What a store knows of the index of its corpus; each answer to a search tells it anew.

    So no search asks before. A search that relied on an index that is gone is slow, but right.
    """

    def __init__(self) -> None:
        self.crowding = 2.0  # records of one artifact among the nearest
        self._seen: dict[int, _Seen] = {}

    def knows(self, width: int) -> bool:
        """Return whether it is known if vectors of this width have an index."""
        return width in self._seen or width > _MAX_WIDTH

    def has_index(self, width: int) -> bool:
        """Return whether there was an index at the last answer."""
        return width in self._seen and self._seen[width].has_index

    def state_sql(self, width: int) -> str:
        """Return the columns of which `note` takes note."""
        if width > _MAX_WIDTH:
            return f"{WIDTH} AS width"
        name = _index_name(width)
        return f"""{WIDTH} AS width, (SELECT coalesce(sum(records), 0)::bigint FROM text_run) AS records,
            (SELECT last_value FROM record_number) AS last,
            coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')), false) AS has_index"""

    def note(self, row: Mapping[str, Any], width: int) -> None:
        """Take note of an answer."""
        if width <= _MAX_WIDTH:
            self._seen[width] = _Seen(row["has_index"], row["records"], row["last"])

    def sample(self, width: int) -> tuple[list[int], int]:
        """Return numbers of a sample of records, and how many of them match a common filter."""
        seen = self._seen[width]
        least = max(_RARE, min((_EQUAL / max(1, seen.records)) ** 0.5, 1.0)) * _SAMPLE
        return (_FRACTIONS * seen.last).astype(np.int64).tolist(), int(np.ceil(least))


def distance_sql(value: str, query: str, width: int) -> str:
    """Return the SQL of the distance, exactly as the index knows it."""
    return f"({value}::halfvec({width})) <#> {query}::halfvec({width})"


def _index_name(width: int) -> str:
    """Return the name of the index of vectors of this width.

    An index that is created with other SQL has another name.
    """
    return f"{_PREFIX}{width}_{zlib.crc32(_CREATE.format(name='', width=width).encode()):08x}"


async def drop_indexes(c: "Connection") -> None:
    """Drop all indexes, in the open transaction that inserts vectors of another width."""
    rows = await c.fetch(_INDEXES)
    if rows:
        # Whoever makes one waits for this transaction, which would wait for its lock of the table.
        key = lock_key("index", await c.fetchval("SELECT current_schema()::text"))
        await c.fetch(_CANCEL_BUILD, key)
    for row in rows:
        await c.execute(f"DROP INDEX {quote(row['name'])}")


async def refresh_index(c: "Connection") -> None:
    """Create the index if the corpus has grown enough, and drop what is of no use.

    The server also counts the rows of tables that have grown much, for its plans. Others read and write meanwhile.

    Args:
        c: A connection of its own, which is in no transaction.

    Raises:
        StoreBusy: If another transaction is open for too long, for whose end an index must wait.
    """
    await c.execute(WITHOUT_TIMEOUTS)
    schema = await c.fetchval("SELECT current_schema()::text")
    if not await c.fetchval("SELECT pg_try_advisory_lock($1)", lock_key("index", schema)):
        return  # another process does it just now
    while True:
        width = await c.fetchval(f"SELECT {WIDTH}")
        try:
            await _bring_up_to_date(c)
        except Exception as error:
            if not getattr(error, "sqlstate", None):
                raise
            with suppress(Exception):
                # A writer that replaces all vectors by those of another width ends this work. Wait for it.
                await c.execute(f"{begin_locked(lock_key('writer', schema))}; COMMIT")
                if await c.fetchval(f"SELECT {WIDTH}") != width:
                    continue
                # Each write would change what is of no use. If it cannot be dropped now, the next call does so.
                for row in await c.fetch(_INDEXES):
                    if not row["is_valid"]:
                        await _drop_beside_others(c, row["name"])
            raise
        return


async def _bring_up_to_date(c: "Connection") -> None:
    state = await c.fetchrow(
        f"""SELECT {WIDTH} AS width, coalesce((SELECT sum(records)::bigint FROM text_run), 0) AS records,
        (SELECT reltuples FROM pg_class WHERE oid = to_regclass('record')) AS counted"""
    )
    if state["records"] > max(_MIN_ANALYZED, 2 * (state["counted"] or 0)):
        # The server would do so in a minute. Until then, its plans would be for the former size.
        tables = await c.fetch("SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()")
        await c.execute(f"ANALYZE (SKIP_LOCKED) {', '.join(quote(row['name']) for row in tables)}")
    width, indexes = state["width"], await c.fetch(_INDEXES)
    name = None if width is None or width > _MAX_WIDTH else _index_name(width)
    has_index = any(row["name"] == name and row["is_valid"] for row in indexes)
    # An index is kept until the corpus has halved, so that it does not come and go.
    is_wanted = name is not None and state["records"] > (_EXACT_ROWS // 2 if has_index else _EXACT_ROWS)
    for row in indexes:
        if not (is_wanted and has_index and row["name"] == name):
            await _drop_beside_others(c, row["name"])
    if is_wanted and not has_index:
        await c.fetchval("SELECT set_config('maintenance_work_mem', $1, false)", _BUILD_MEMORY)
        await _await_older(c)
        # Those that began meanwhile are waited for longer, as the index is nearly complete by then.
        await _limit_waits(c, _END_WITHIN)
        await c.execute(_CREATE.format(name=quote(str(name)), width=width))


async def _drop_beside_others(c: "Connection", name: str) -> None:
    await _limit_waits(c, _WITHIN)
    await c.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {quote(name)}")


async def _limit_waits(c: "Connection", seconds: float) -> None:
    await c.fetchval("SELECT set_config('lock_timeout', $1, false)", f"{round(seconds * 1000)}ms")


async def _await_older(c: "Connection") -> None:
    """Wait for the end of the open transactions, before which an index is of no use.

    Raises:
        StoreBusy: If one takes too long; a backup may take hours.
    """
    deadline, waiting = anyio.current_time() + _WITHIN, None
    while True:
        rows = await c.fetch(_OPEN_TRANSACTIONS)
        waiting = {row["id"]: row["pid"] for row in rows if waiting is None or row["id"] in waiting}
        if not waiting:
            return
        if anyio.current_time() > deadline:
            [pid, *_] = waiting.values()
            raise StoreBusy(
                f"a transaction of this database, of the process {pid}, is open for more than {_WITHIN:g} seconds, and "
                "an index must wait for its end; the next block of `writing` tries again"
            )
        await anyio.sleep(_LOOK_EVERY)


async def describe_index(c: "Connection") -> str:
    """Return in one line how vectors are searched, and why."""
    width = await c.fetchval(f"SELECT {WIDTH}")
    if width is None:
        return "there are no vectors"
    if width > _MAX_WIDTH:
        return f"vectors of {width} numbers are wider than the {_MAX_WIDTH} of an index, so all are compared"
    state = await c.fetchrow(f"SELECT {KnownIndex().state_sql(width)}")
    if state["has_index"]:
        return f"an index finds the nearest of {state['records']} vectors"
    if state["records"] <= _EXACT_ROWS:
        return f"all {state['records']} vectors are compared; an index is made above {_EXACT_ROWS}"
    return (
        f"all {state['records']} vectors are compared, as there is no index yet; "
        "the end of a block of `writing` makes one"
    )
