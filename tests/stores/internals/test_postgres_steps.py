"""A step in one statement equals the calls that it replaces, on a PostgreSQL server."""

from random import Random

import pytest

from airw.policies import Beam, Mmr, PersonalizedPageRank
from airw.testing import StoreSuite
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
