"""The approximate index of the vectors: how it is made, dropped and known.

HNSW is from Malkov and Yashunin, "Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs", IEEE TPAMI, 2018.
"""

import zlib
from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from airw.errors import StoreBusy
from airw.stores.postgres._catalog import WITHOUT_TIMEOUTS, begin_locked, lock_key
from airw.stores.postgres._schema import quote

if TYPE_CHECKING:
    from asyncpg import Connection

# The width of the stored vectors; in the order of the primary key, as that skips removed rows.
WIDTH = "(SELECT vector_dims(value) FROM embedding ORDER BY artifact_id, number LIMIT 1)"
_RECORDS = "coalesce((SELECT records FROM texts), 0)"
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
_GOLDEN = 0.618033988749895  # multiples of it are spread evenly between whole numbers
_EQUAL = 600
_RARE = 0.01  # a smaller share of all, of which an index finds too few
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


def has_index_sql(width: int) -> str:
    """Return the SQL of whether vectors of this width have an index."""
    if width > _MAX_WIDTH:
        return "false"
    name = _index_name(width)
    return f"coalesce((SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass('{name}')), false)"


def is_common_sql(condition: str) -> str:
    """Return the SQL of whether an index finds enough of what matches fast, by a sample.

    An index looks at more records the fewer match, and comparing all that match takes longer the more do. Both take the
    same time if `_EQUAL` is the records times the square of the share that matches.
    """
    return f"""(
        SELECT count(*) >= {_SAMPLE} * greatest({_RARE}, least(1, sqrt({_EQUAL} / greatest(1.0, min(known.records)))))
        FROM generate_series(1, {_SAMPLE}) AS at,
            (SELECT last_value, {_RECORDS} AS records FROM record_number) AS known,
            LATERAL (
                SELECT * FROM record WHERE number >= (known.last_value * (at * {_GOLDEN} % 1))::bigint
                ORDER BY number LIMIT 1
            ) AS record
        WHERE {condition})"""


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

    Others read and write meanwhile.

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
    width, records = await c.fetchrow(f"SELECT {WIDTH}, {_RECORDS}")
    indexes = await c.fetch(_INDEXES)
    name = None if width is None or width > _MAX_WIDTH else _index_name(width)
    has_index = any(row["name"] == name and row["is_valid"] for row in indexes)
    # An index is kept until the corpus has halved, so that it does not come and go.
    is_wanted = name is not None and records > (_EXACT_ROWS // 2 if has_index else _EXACT_ROWS)
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
    state = await c.fetchrow(f"SELECT {has_index_sql(width)} AS has_index, {_RECORDS} AS records")
    if state["has_index"]:
        return f"an index finds the nearest of {state['records']} vectors"
    if state["records"] <= _EXACT_ROWS:
        return f"all {state['records']} vectors are compared; an index is made above {_EXACT_ROWS}"
    return (
        f"all {state['records']} vectors are compared, as there is no index yet; "
        "the end of a block of `writing` makes one"
    )
