"""What tables must be like to be spread over several servers, tested on one."""

import pytest

from tests.support.postgres import fresh_store, get_server

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

# The tables whose rows can be spread, each with the column that decides where a row is.
DISTRIBUTION = {
    "artifact": "id",
    "record": "artifact_id",
    "embedding": "artifact_id",
    "posting": "artifact_id",
    "link": "artifact_id",
    "name": "artifact_id",
}
LOCAL = {"setting", "texts"}  # a few rows for all: they stay on the server that is asked


async def test_each_table_can_be_spread_by_a_column_of_its_key_or_is_small():
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
