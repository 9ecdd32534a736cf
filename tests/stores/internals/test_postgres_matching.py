"""How a PostgreSQL server finds the artifacts that have a value in a field."""

import pytest

from airw.protocols import Change, Matching, Rank, ask
from airw.stores.postgres._filter_sql import dump_wanted
from airw.stores.postgres._records import _MATCHING
from airw.testing.changes import put
from airw.values.filters import parse_filter
from tests.support.postgres import fresh_store

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

WANTED = [("lang", "en"), ("n", 7), ("tags", ["t7"]), ("by.name", "ada"), ("none", None)]


@pytest.mark.parametrize("limit", [None, 5])
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
async def test_values_are_found_by_the_index_from_the_first_record_on(mode, limit):
    async with fresh_store() as store:
        for count in (0, 1, 1_000):
            await store.apply(
                Change(
                    [put(f"{at}", "x", metadata={"lang": "en", "n": at, "by": {"name": "ada"}}) for at in range(count)]
                )
            )
            for is_analyzed in (False, True):
                if is_analyzed:
                    async with store._database.hold_connection() as connection:
                        await connection.execute("VACUUM ANALYZE record")
                # The server keeps a plan for any values that it has made in a table of any size.
                plan = await explain(store, mode, limit)
                assert plan.count("Index Scan") == plan.count("Bitmap Index Scan on record_by_field") > 0, (count, plan)
                assert "Seq Scan" not in plan


async def explain(store, mode, limit):
    """Return the plan of a statement for values of every kind."""

    async def run(c):
        await c.execute(f"SET plan_cache_mode = {mode}")
        return await c.fetch(f"EXPLAIN {_MATCHING}", dump_wanted(WANTED), limit)

    async with store._database.hold_connection() as connection:
        return "\n".join([row[0] for row in await run(connection)])


async def test_a_path_of_many_keys_is_a_field_like_others():
    deep, path = "found", ".".join("a" * 90)
    for _ in range(90):
        deep = {"a": deep}
    async with fresh_store() as store:
        await store.apply(Change([put("one", "x", metadata=deep), put("two", "x", metadata={path: "found"})]))
        for longer, ids in ((path, ["one", "two"]), (f"{path}.a", []), (".".join("a" * 900), [])):
            assert await ask(store, Matching([(longer, "found")])) == [ids]
            [ranking] = await ask(store, Rank(["x"], 3, filter=parse_filter({longer: "found"})))
            assert sorted(ranking.artifact_ids) == ids
