"""A step in one statement equals the calls that it replaces, on a PostgreSQL server."""

from random import Random

import numpy as np
import pytest

from airw.policies import Beam, Mmr, PersonalizedPageRank
from airw.stores.postgres._steps import StepRequest, read_step
from airw.testing import StoreSuite
from airw.testing.changes import put
from airw.values import Link, LinkFilter
from tests.support.drawn_walks import compare_with_and_without_steps, draw_changes, walk_of
from tests.support.internals.step_stores import Trips
from tests.support.postgres import fresh_store

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]
SUITE = StoreSuite(lambda folder: fresh_store(), capabilities=["steps"])


@pytest.mark.parametrize("case", [case for case in SUITE.cases if "read_step" in case.needs], ids=str)
async def test_one_statement_answers_as_the_calls_that_it_replaces(case):
    await SUITE.check(case)


@pytest.mark.parametrize("seed", range(20))
async def test_walks_are_the_same_with_and_without_steps(seed):
    await compare_with_and_without_steps(Random(seed), fresh_store)


async def test_a_walk_sends_one_statement_for_each_call(monkeypatch):
    from airw.stores.postgres._session import Session

    sent = []

    def count(name):
        method = getattr(Session, name)

        async def send(self, sql, *values, **options):
            sent.append(sql)
            return await method(self, sql, *values, **options)

        monkeypatch.setattr(Session, name, send)

    async with fresh_store() as store:
        await store.apply(draw_changes(Random(3)))
        for kind in (Beam, Mmr, PersonalizedPageRank):
            policy = kind(seeding="dense", max_depth=None)
            await walk_of(policy, store, has_events=False)
            trips = Trips(store)
            for name in ("fetch", "fetchrow", "fetchval", "execute"):
                count(name)
            await walk_of(policy, store, has_events=False)
            assert len(sent) == trips.calls.total()
            trips.stop()
            sent.clear()
            monkeypatch.undo()


class PlanReader:
    """A connection whose server joins tables row by row where it can; it keeps the plan."""

    def __init__(self, connection):
        self._connection, self.plan = connection, ""

    async def fetch(self, sql, *values):
        await self._connection.execute("SET enable_hashjoin = off; SET enable_mergejoin = off")
        try:
            self.plan = await self._connection.fetchval(f"EXPLAIN (FORMAT json) {sql}", *values)
        finally:
            await self._connection.execute("RESET enable_hashjoin; RESET enable_mergejoin")
        return await self._connection.fetch(sql, *values)


@pytest.mark.parametrize("has_query", [True, False])
@pytest.mark.parametrize("limit", [None, 5])
async def test_the_time_of_a_step_grows_with_its_rows_and_not_with_their_square(has_query, limit):
    query = np.array([0, 1], np.float32)
    changes = [
        put(f"a{row}", "text", vectors=[query], links=[Link(f"a{row * step % 30}", "r") for step in (2, 3)])
        for row in range(30)
    ]
    ids = [f"a{row}" for row in range(20)]
    request = StepRequest(
        ids, query if has_query else None, "both", LinkFilter(), limit, ids, ["a25"], 9, 3, with_vectors=True
    )
    async with fresh_store() as store:
        await store.apply(changes)

        async def read_plan(connection):
            reader = PlanReader(connection)
            answer = await read_step(reader, request)
            return reader.plan, answer

        plan, answer = await store._database.read(read_plan)
        assert len(answer.artifact_ids) > len(ids)
        assert "Nested Loop" not in plan
