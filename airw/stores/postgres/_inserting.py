"""Inserting rows into the tables of a corpus: few by one statement, many by COPY."""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio.lowlevel

from airw.stores._link_rows import LinkRow, NameRow
from airw.stores.postgres._filter_sql import Parameters

if TYPE_CHECKING:
    from asyncpg import Connection

_SLICE = 500  # rows that asyncpg encodes in less than a millisecond

_TYPES = {
    "number": "bigint",
    "idx": "bigint",
    "text": "bytea",
    "metadata": "json",
    "fields": "jsonb",
    "value": "vector",
    "count": "integer",
    "length": "integer",
    "position": "integer",
    "line": "bigint",
    "weight": "double precision",
    "tier": "integer",
}
"""The types of columns that are not `text`."""

COLUMNS: Mapping[str, Sequence[str]] = {
    "artifact": ("id", "version", "embedder_id", "strategy_id", "extractor_id", "source"),
    "record": ("number", "id", "artifact_id", "kind", "idx", "text", "metadata", "fields", "length"),
    "embedding": ("number", "record_id", "artifact_id", "kind", "idx", "value"),
    "posting": ("artifact_id", "number", "word", "count", "length"),
    "name": NameRow._fields,
    "link": LinkRow._fields,
}
"""The columns of each table that are written, in the order of rows."""


async def insert_rows(c: "Connection", rows: Mapping[str, Iterable[Sequence[Any]]], *, are_few: bool) -> None:
    """Insert rows of several tables in the open transaction.

    Args:
        c: The connection.
        rows: The rows of each table, with its `COLUMNS`.
        are_few: Whether one statement inserts them all, as each COPY takes two round trips.
    """
    if not are_few:
        for table, each in rows.items():
            await c.copy_records_to_table(table, records=_take_turns(each), columns=COLUMNS[table])
        return
    parameters, inserts = Parameters(), list[str]()
    for table, names in COLUMNS.items():
        columns = [*zip(*rows.get(table, ()), strict=True)] or [()] * len(names)
        pairs = zip(names, columns, strict=True)
        arrays = [parameters.add(column, f"{_TYPES.get(name, 'text')}[]") for name, column in pairs]
        inserts.append(f"INSERT INTO {table} ({', '.join(names)}) SELECT * FROM unnest({', '.join(arrays)})")
    first = ", ".join([f"into_{place} AS ({insert})" for place, insert in enumerate(inserts[1:])])
    await c.execute(f"WITH {first} {inserts[0]}", *parameters.values)


async def _take_turns(rows: Iterable[Sequence[Any]]) -> AsyncIterator[Sequence[Any]]:
    """Yield rows, and let other tasks run in between."""
    for place, row in enumerate(rows, 1):
        yield row
        if place % _SLICE == 0:
            await anyio.lowlevel.checkpoint()
