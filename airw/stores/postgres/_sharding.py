"""Tables of one corpus on several servers, by the function of Citus or any other with its name."""

from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from airw._base.messages import short_repr
from airw.errors import ArgumentError, StoreError

if TYPE_CHECKING:
    from asyncpg import Connection

Sharding: TypeAlias = Literal["schema", "rows"]
"""How a corpus is spread over the servers of a cluster: `"schema"` keeps it on one of them, `"rows"` on all."""

DISTRIBUTION = {
    "artifact": "id",
    "record": "artifact_id",
    "embedding": "artifact_id",
    "posting": "number",
    "link": "artifact_id",
    "name": "artifact_id",
}
"""The tables whose rows are spread over the servers, each with the column that decides where a row is."""


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
    from asyncpg import UndefinedFunctionError

    for table, column in DISTRIBUTION.items():
        try:
            await connection.execute("SELECT create_distributed_table($1::text::regclass, $2::text)", table, column)
        except UndefinedFunctionError as error:
            message = "sharding='rows' needs the extension citus in the database, or its create_distributed_table"
            raise StoreError(message) from error
