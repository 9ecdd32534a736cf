"""The store on a PostgreSQL server passes the exam of stores."""

import random
import string

import pytest

from airw.errors import StoreError
from airw.protocols import Change, Referrers, ask
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.changes import put
from airw.values import Link
from tests.support.postgres import fresh_store, server_dsn
from tests.support.store_cases.suite import CloseSuite

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


def make_store(folder):
    from airw.stores.postgres.store import PostgresStore

    return PostgresStore(server_dsn(), folder.name)


SUITE = StoreSuite(make_store, capabilities=CAPABILITIES)
CLOSE_SUITE = CloseSuite(make_store, capabilities=CAPABILITIES)


@pytest.mark.parametrize("case", SUITE.cases, ids=str)
async def test_a_case_of_the_exam(case):
    await SUITE.check(case)


@pytest.mark.parametrize("case", CLOSE_SUITE.cases, ids=str)
async def test_a_case_with_a_written_answer(case):
    await CLOSE_SUITE.check(case)


@pytest.mark.parametrize("length", [2_000, 2_001])
async def test_an_id_too_long_for_an_index_is_refused_with_its_length(length):
    """Random letters, as PostgreSQL compresses long keys."""
    name = "".join(random.Random(length).choices(string.ascii_letters, k=length))
    async with fresh_store() as store:
        if length == 2_000:
            await store.apply(Change([put(name, "x", links=[Link(name)]), put("b", "x", links=[Link(name)])]))
            assert await ask(store, Referrers([name])) == [["b"]]
            return
        with pytest.raises(StoreError, match=r"has 2,001 bytes, too many .*at most 2,000"):
            await store.apply(Change([put(name, "x")]))
