"""The exam that every store passes, for stores that have all capabilities and for those that have some."""

import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from airw.errors import ArgumentError
from airw.testing import (
    _store_filters,
    _store_life,
    _store_links,
    _store_records,
    _store_referrers,
    _store_runs,
    _store_text,
    _store_vectors,
    _store_writes,
)
from airw.testing._exam import Exam
from airw.testing._store_tools import Opener, StoreCase

__all__ = ["CAPABILITIES", "StoreSuite"]

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "records": ("get_records", "records_of", "ledger", "artifact_ids", "counts"),
    "settings": ("config", "set_config", "calibration", "set_calibration"),
    "vectors": ("search_vectors", "similarities", "best_of", "vectors", "vectors_of"),
    "text": ("search_text",),
    "links": (
        *("neighbors", "resolve", "referrers", "fan_in", "max_fan_in", "matching"),
        *("unresolved", "link_counts"),
    ),
    "writing": ("writing",),
    "closing": ("aclose",),
    "runs": ("begin_run", "read_run", "apply_part", "forget_run"),
    "persistent": (),
    "shared": (),
}
"""What a store may offer besides `apply`, and the methods it takes; the last two are about opening a store again."""

STORE = tuple(name for name, methods in CAPABILITIES.items() if methods and name != "runs")
"""The capabilities of the protocol `airw.protocols.Store`."""

_CASES: tuple[StoreCase, ...] = (
    *_store_records.CASES,
    *_store_vectors.CASES,
    *_store_text.CASES,
    *_store_filters.CASES,
    *_store_links.CASES,
    *_store_referrers.CASES,
    *_store_writes.CASES,
    *_store_runs.CASES,
    *_store_life.CASES,
)


class StoreSuite(Exam[Opener]):
    """The exam of a store: cases as data, to run all at once or one a test; needs no test framework.

    Args:
        make: Called with a folder, gives an async context manager of a store. Each case gets a folder of its own, empty
            at first. The same folder again means the same content: that happens only where `"persistent"` (opened
            again after it was closed) or `"shared"` (while it is open) is offered. A store that keeps nothing in files
            may use the folder's name, or ignore it.
        capabilities: What the store offers besides `apply`, of `CAPABILITIES`; by default, all methods of
            `airw.protocols.Store`. Cases that need more are left out.

    Raises:
        ArgumentError: A capability does not exist.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> suite = StoreSuite(lambda folder: MemoryStore(), capabilities=["settings", "writing"])
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    _subject, _all_cases = "store", _CASES

    def __init__(
        self, make: Callable[[Path], AbstractAsyncContextManager[Any]], *, capabilities: Collection[str] = STORE
    ) -> None:
        unknown = [capabilities] if isinstance(capabilities, str) else sorted({*capabilities} - CAPABILITIES.keys())
        if unknown:
            raise ArgumentError(f"capabilities is a list of {', '.join(CAPABILITIES)}; {unknown[0]!r} is none")
        self._make = make
        self._capabilities = frozenset(capabilities)

    def _offers(self, case: StoreCase) -> bool:
        return case.needs <= self._capabilities

    @asynccontextmanager
    async def _examinee(self) -> AsyncIterator[Opener]:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            yield partial(self._make, Path(folder))
