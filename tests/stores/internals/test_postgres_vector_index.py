"""The statements of dense searches on a PostgreSQL server, and their plans."""

import pytest

from airw.stores import PostgresDialect
from airw.values.filters import parse_filter
from tests.support.postgres import fresh_store
from tests.support.vector_corpora import fill, near_topics, search

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


async def test_a_search_is_one_statement_that_uses_the_index_where_it_pays(monkeypatch):
    # The same choices as in a corpus that is twenty times larger.
    monkeypatch.setattr("airw.stores.postgres._vector_index._FEW", 1_000)
    vectors, queries = near_topics(3_000, 20), near_topics(1, 21)
    async with fresh_store(dialect=PostgresDialect(exact_rows=1_000)) as store:
        await fill(store, vectors)
        await search(store, queries, filter=parse_filter({"n": 1}))
        statements = []
        await store._database.read(lambda c: asyncify(c.add_query_logger, statements.append))
        plans = {}
        for name, options in {
            "all": {},
            "artifacts": {"per_artifact": True},
            "half": {"filter": parse_filter({"half": True})},
            "few": {"filter": parse_filter({"few": True})},
        }.items():
            # A plan for any values, which a server makes after some calls, must be as good.
            for _ in range(8):
                await search(store, queries, **options)
            statement = statements[-1]
            rows = await store._database.read(
                lambda c, asked=statement: c.fetch(f"EXPLAIN (ANALYZE, TIMING OFF) {asked.query}", *asked.args)
            )
            plans[name] = [row[0] for row in rows if "using embedding_near" in row[0]]
            statements.remove(statement)
            statements[:] = [each for each in statements if not each.query.startswith("EXPLAIN")]
        assert len(statements) == 4 * 7
        for name, plan in plans.items():
            assert len(plan) == 1, name
            assert ("never executed" in plan[0]) == (name == "few"), plan


async def asyncify(function, *args):
    return function(*args)
