"""What tables must be like to be spread over several servers, tested on one."""

import pytest

from airw.errors import ArgumentError, StoreError
from airw.stores import PostgresStore
from airw.stores.postgres._sharding import DISTRIBUTION
from tests.support.postgres import fresh_name, fresh_store, get_server, server_dsn

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

LOCAL = {"setting", "text_run"}  # a few rows for all: they stay on the server that is asked


async def test_the_way_must_be_one_that_there_is():
    with pytest.raises(ArgumentError, match="sharding must be one of 'schema', 'rows', not 'artifacts'"):
        PostgresStore(server_dsn(), "notes", sharding="artifacts")


async def test_rows_need_a_server_that_can_spread_them_and_leave_nothing_behind_without_one():
    name = fresh_name()
    with pytest.raises(StoreError, match="citus"):
        await PostgresStore.open(server_dsn(), name, create=True, sharding="rows")
    assert not await PostgresStore(server_dsn(), name).exists()


async def test_each_table_is_spread_by_a_column_of_its_key_or_is_small():
    """A server does not know the rows of others, so it keeps only its own unique."""
    async with fresh_store() as store:
        rows = await get_server().fetch(
            "SELECT c.relname AS table, k.name AS index, k.columns FROM pg_class c LEFT JOIN LATERAL ("
            " SELECT i.indexrelid::regclass::text AS name, array_agg(a.attname::text) AS columns FROM pg_index i"
            " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)"
            " WHERE i.indrelid = c.oid AND i.indisunique GROUP BY 1) k ON true"
            " WHERE c.relnamespace = $1::text::regnamespace AND c.relkind = 'r'",
            store._database.schema,
        )
    assert {row["table"] for row in rows} == {*DISTRIBUTION, *LOCAL}
    wrong = [row for row in rows if row["columns"] and DISTRIBUTION.get(row["table"], "") not in row["columns"]]
    assert {row["table"] for row in wrong} <= LOCAL


async def test_nothing_in_a_schema_hangs_on_another_schema():
    """So a cluster can move whole corpora from server to server."""
    async with fresh_store() as store:
        rows = await get_server().fetch(
            "SELECT conname FROM pg_constraint WHERE connamespace = $1::text::regnamespace AND contype = 'f'"
            " UNION ALL SELECT tgname FROM pg_trigger t JOIN pg_class c ON c.oid = tgrelid"
            " WHERE c.relnamespace = $1::text::regnamespace"
            " UNION ALL SELECT proname FROM pg_proc WHERE pronamespace = $1::text::regnamespace"
            " UNION ALL SELECT c.relname FROM pg_depend d JOIN pg_class c ON c.oid = d.objid"
            " JOIN pg_class other ON other.oid = d.refobjid WHERE d.classid = 'pg_class'::regclass"
            " AND d.refclassid = 'pg_class'::regclass AND c.relnamespace = $1::text::regnamespace"
            " AND other.relnamespace <> c.relnamespace",
            store._database.schema,
        )
    assert rows == []
