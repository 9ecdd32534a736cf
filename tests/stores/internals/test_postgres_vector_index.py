"""The statements of dense searches on a PostgreSQL server, and their plans."""

import pytest

from airw.stores import MemoryStore
from airw.stores.postgres import _vectors
from airw.values.filters import parse_filter
from tests.support.postgres import fresh_store
from tests.support.vector_corpora import fill, near_topics, search

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


@pytest.fixture(autouse=True)
def _small_indexes(monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._vector_index._EXACT_ROWS", 1_000)


async def test_a_search_is_one_statement_that_uses_the_index_where_it_pays(monkeypatch):
    # The same choices as in a corpus that is six times larger.
    monkeypatch.setattr("airw.stores.postgres._vector_index._EQUAL", 100)
    vectors, queries = near_topics(3_000, 20), near_topics(1, 21)
    async with fresh_store() as store:
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


async def test_an_index_finds_nearly_all_that_match_a_filter(monkeypatch):
    # Even the records that 5 % match are so many that the index is asked.
    monkeypatch.setattr("airw.stores.postgres._vector_index._EQUAL", 3)
    rows, rank_rows = [], _vectors._rank_rows
    monkeypatch.setattr(
        _vectors, "_rank_rows", lambda *given, **more: rows.append(given[1]) or rank_rows(*given, **more)
    )
    vectors, queries = near_topics(8_000, 22), near_topics(25, 23)
    async with fresh_store() as store, MemoryStore() as exact:
        for each in (store, exact):
            await fill(each, vectors)
        for options in (
            {"filter": parse_filter({"half": True})},
            {"filter": parse_filter({"half": True}), "per_artifact": True},
            {"filter": parse_filter({"some": True})},
            {"filter": parse_filter({"half": True}), "surfaces": ["chunk"]},
        ):
            found, wanted = [await search(each, queries, **options) for each in (store, exact)]
            assert [len(ids) for ids, _, _ in found] == [len(ids) for ids, _, _ in wanted]
            hits = sum(len({*ids} & {*others}) for (ids, _, _), (others, _, _) in zip(found, wanted, strict=True))
            assert hits >= 0.98 * sum(len(ids) for ids, _, _ in wanted), options
    assert len(rows) >= 4 * len(queries)
    assert all(group[0]["by_index"] for group in rows)


async def asyncify(function, *args):
    return function(*args)
