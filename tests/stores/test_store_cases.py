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


@pytest.mark.parametrize("case", MEMORY.cases, ids=str)
async def test_memory_store(case):
    await MEMORY.check(case)


@pytest.mark.asyncio_only
@pytest.mark.parametrize("case", SQLITE.cases, ids=str)
async def test_sqlite_store(case):
    await SQLITE.check(case)
