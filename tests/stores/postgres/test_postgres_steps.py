"""A step in one statement equals the calls that it replaces, on a PostgreSQL server."""

from random import Random

import pytest

from airw.testing import StoreSuite
from tests.support.drawn_walks import compare_with_and_without_steps
from tests.support.postgres import fresh_store

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]
SUITE = StoreSuite(lambda folder: fresh_store(), capabilities=["steps"])


@pytest.mark.parametrize("case", [case for case in SUITE.cases if "read_step" in case.needs], ids=str)
async def test_one_statement_answers_as_the_calls_that_it_replaces(case):
    await SUITE.check(case)


@pytest.mark.parametrize("seed", range(20))
async def test_walks_are_the_same_with_and_without_steps(seed):
    await compare_with_and_without_steps(Random(seed), fresh_store)
