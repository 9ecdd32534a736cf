"""How a PostgreSQL server finds the artifacts that have a value in a field."""

import pytest

from airw.stores.postgres._filter_sql import encode_wanted
from airw.stores.postgres._records import _MATCHING
from airw.testing.changes import put
from tests.support.postgres import fresh_store

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

WANTED = [("lang", "en"), ("n", 7), ("tags", ["t7"]), ("by.name", "ada"), ("none", None)]


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_values_are_found_by_the_index_from_the_first_record_on(mode, limit):
    async with fresh_store() as store:
        for count in (0, 1, 1_000):
            await store.apply(
                [put(f"{at}", "x", metadata={"lang": "en", "n": at, "by": {"name": "ada"}}) for at in range(count)]
            )
            for is_analyzed in (False, True):
                if is_analyzed:
                    await store._database.maintain(lambda c: c.execute("VACUUM ANALYZE record"))
                # The server keeps a plan for any values that it has made in a table of any size.
                plan = await explain(store, mode, limit)
                assert plan.count("Index Scan") == plan.count("Bitmap Index Scan on record_by_field") > 0, (count, plan)
                assert "Seq Scan" not in plan


async def explain(store, mode, limit):
    """Return the plan of a statement for values of every kind."""
    rows = encode_wanted(WANTED)
    columns = (rows.places, *rows.likely, *rows.dotted, rows.keys, rows.values, rows.paths)

    async def run(c):
        await c.execute(f"SET plan_cache_mode = {mode}")
        return await c.fetch(f"EXPLAIN {_MATCHING}", *columns, limit)

    return "\n".join([row[0] for row in await store._database.maintain(run)])
