"""Both stores pass the cases of the store exam that have written answers.

The exam itself compares with a store in memory.
"""

import pytest

from airw.stores import MemoryStore, SqliteStore
from airw.testing import CAPABILITIES
from tests.support.repeats import share_cases
from tests.support.store_cases.suite import CloseSuite

MEMORY = CloseSuite(lambda folder: MemoryStore(), capabilities=CAPABILITIES - {"persistent", "shared"})
SQLITE = CloseSuite(lambda folder: SqliteStore(folder / "corpus.airw"), capabilities=CAPABILITIES)


LARGE = ("ten_thousand", "long_texts_and_long_queries", "empty_texts_odd_texts")  # a second each


def split_cases(params, *, large):
    return pytest.mark.parametrize("case", [each for each in params if any(name in each.id for name in LARGE) == large])


MEMORY_CASES, SQLITE_CASES = share_cases(MEMORY, SQLITE)


@split_cases(MEMORY_CASES, large=False)
async def test_memory_store(case):
    await MEMORY.check(case)


@pytest.mark.slow
@split_cases(MEMORY_CASES, large=True)
async def test_memory_store_with_much(case):
    await MEMORY.check(case)


@pytest.mark.asyncio_only
@split_cases(SQLITE_CASES, large=False)
async def test_sqlite_store(case):
    await SQLITE.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@split_cases(SQLITE_CASES, large=True)
async def test_sqlite_store_with_much(case):
    await SQLITE.check(case)
