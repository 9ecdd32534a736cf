"""Cases for our own stores, in addition to the public suite."""

from airw.testing import StoreSuite
from tests.support.store_cases import links, reading, searches


class CloseSuite(StoreSuite):
    """A suite that compares answers with expected values instead of a `MemoryStore`."""

    all_cases = (*reading.CASES, *searches.CASES, *links.CASES)
