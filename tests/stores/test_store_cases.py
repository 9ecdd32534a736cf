"""Both stores pass the cases of the store exam that have written answers.

The exam itself compares with a store in memory.
"""

import pytest

from airw.stores import MemoryStore, SqliteStore
from airw.testing import CAPABILITIES
from tests.support.store_cases.suite import CloseSuite

MEMORY = CloseSuite(lambda folder: MemoryStore(), capabilities=CAPABILITIES.keys() - {"persistent", "shared"})
SQLITE = CloseSuite(
    lambda folder: SqliteStore(folder / "corpus.airw"), capabilities=CAPABILITIES.keys() - {"adjacency"}
)


LARGE = ("ten_thousand", "long_texts_and_long_queries", "empty_texts_odd_texts")  # a second each


def split_cases(suite, *, large):
    return pytest.mark.parametrize(
        "case", [case for case in suite.cases if any(name in case.name for name in LARGE) == large], ids=str
    )


@split_cases(MEMORY, large=False)
async def test_memory_store(case):
    await MEMORY.check(case)


@pytest.mark.slow
@split_cases(MEMORY, large=True)
async def test_memory_store_with_much(case):
    await MEMORY.check(case)


@pytest.mark.asyncio_only
@split_cases(SQLITE, large=False)
async def test_sqlite_store(case):
    await SQLITE.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@split_cases(SQLITE, large=True)
async def test_sqlite_store_with_much(case):
    await SQLITE.check(case)
