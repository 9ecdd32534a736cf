"""Cases of stores beyond the exam that strangers take: ours keep each of these promises too, letter by letter."""

from airw.testing import StoreSuite
from tests.support.store_cases import links, reading, searches


class CloseSuite(StoreSuite):
    """What the exam asks by comparison with a `MemoryStore`, asked with answers that are written down."""

    all_cases = (*reading.CASES, *searches.CASES, *links.CASES)
