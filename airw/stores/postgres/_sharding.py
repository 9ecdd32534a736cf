"""Tables of one corpus on several servers, spread by Citus or by what does the same."""

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import anyio

from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreBusy, StoreError

if TYPE_CHECKING:
    from asyncpg import Connection

Sharding: TypeAlias = Literal["schema", "rows"]
"""How a corpus is spread over the servers of a cluster: `"schema"` keeps it on one of them, `"rows"` on all."""

DISTRIBUTION = {
    "artifact": "id",
    "record": "artifact_id",
    "embedding": "artifact_id",
    "posting": "code",
    "link": "artifact_id",
    "name": "artifact_id",
}
"""The tables whose rows are spread over the servers, each with the column that decides where a row is."""

_QUIET_WITHIN = 10.0  # seconds that a commit waits for readers
_TRY_FOR = 0.1  # seconds, in which readers may wait for each other's tables


def check_sharding(sharding: Sharding) -> Sharding:
    """Return `sharding` if there is such a way to spread a corpus.

    Raises:
        ArgumentError: If there is none.
    """
    choices = get_args(Sharding)
    if sharding not in choices:
        raise ArgumentError(f"sharding must be one of {', '.join(map(repr, choices))}, not {short_repr(sharding)}")
    return sharding


async def distribute_tables(connection: "Connection") -> None:
    """Spread the new, empty tables of a corpus over the servers of a cluster.

    Citus has the function that is called for each table, `create_distributed_table(table regclass, column text)`.
    Another extension may bring its own.

    Raises:
        StoreError: If the database has no such function.
    """
    from asyncpg import UndefinedFunctionError  # here, as the extra may be missing

    for table, column in DISTRIBUTION.items():
        try:
            await connection.execute("SELECT create_distributed_table($1::text::regclass, $2::text)", table, column)
        except UndefinedFunctionError as error:
            message = "sharding='rows' needs the extension citus in the database, or its create_distributed_table"
            raise StoreError(message) from error


async def hold_readers(connection: "Connection") -> None:
    """Keep reads out until the transaction ends, and wait for those that run.

    PostgreSQL's foreign tables have no common snapshot: a commit reaches one server after the other, and a read
    meanwhile would see a part of it. Each read takes locks on its tables before its snapshots, so these locks keep it
    out. A read that has some of them, and waits for others, would wait for ever: then all are given back for a moment.

    Raises:
        StoreBusy: If reads run for longer than ten seconds.
    """
    from asyncpg import LockNotAvailableError

    lock = f"LOCK TABLE ONLY {', ONLY '.join(DISTRIBUTION)} IN ACCESS EXCLUSIVE MODE"
    deadline = anyio.current_time() + _QUIET_WITHIN
    while True:
        try:
            await connection.execute(f"SAVEPOINT quiet; SET LOCAL lock_timeout = {_TRY_FOR * 1000:.0f}; {lock}")
        except LockNotAvailableError:
            await connection.execute("ROLLBACK TO SAVEPOINT quiet")
        else:
            return
        if anyio.current_time() > deadline:
            raise StoreBusy(f"a read has run for {_QUIET_WITHIN:g} seconds, so that nothing can be written; try again")
        await anyio.sleep(_TRY_FOR / 10)
