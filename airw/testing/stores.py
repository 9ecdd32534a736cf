"""The exam that every store passes, for stores that have all capabilities and for those that have some."""

import tempfile
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from airw.errors import ArgumentError
from airw.testing import (
    _store_filters,
    _store_life,
    _store_links,
    _store_records,
    _store_text,
    _store_vectors,
    _store_writes,
)
from airw.testing._exam import Report, run_cases
from airw.testing._store_tools import StoreCase, brief

__all__ = ["CAPABILITIES", "StoreSuite"]

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "records": ("get_records", "records_of", "ledger", "artifact_ids", "counts"),
    "settings": ("config", "set_config", "calibration", "set_calibration"),
    "vectors": ("search_vectors", "similarities", "best_of", "vectors"),
    "text": ("search_text",),
    "links": ("neighbors", "matching"),
    "writing": ("writing",),
    "closing": ("aclose",),
    "persistent": (),
    "shared": (),
}
"""What a store may offer besides `apply`, and the methods it takes; the last two are about opening a store again."""

STORE = tuple(name for name, methods in CAPABILITIES.items() if methods)
"""The capabilities of the protocol `airw.protocols.Store`."""

_CASES: tuple[StoreCase, ...] = (
    *_store_records.CASES,
    *_store_vectors.CASES,
    *_store_text.CASES,
    *_store_filters.CASES,
    *_store_links.CASES,
    *_store_writes.CASES,
    *_store_life.CASES,
)
_PATIENCE = 60.0  # seconds that one case may take


class StoreSuite:
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
        >>> from airw.stores import MemoryStore
        >>> suite = StoreSuite(lambda folder: MemoryStore(), capabilities=["settings", "writing"])
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    def __init__(
        self, make: Callable[[Path], AbstractAsyncContextManager[Any]], *, capabilities: Collection[str] = STORE
    ) -> None:
        unknown = [capabilities] if isinstance(capabilities, str) else sorted({*capabilities} - CAPABILITIES.keys())
        if unknown:
            raise ArgumentError(f"capabilities is a list of {', '.join(CAPABILITIES)}; {unknown[0]!r} is none")
        self._make = make
        self._capabilities = frozenset(capabilities)

    @property
    def cases(self) -> tuple[StoreCase, ...]:
        """Give the cases that need only what the store offers; `str(case)` is its name."""
        return tuple(case for case in _CASES if case.needs <= self._capabilities)

    async def check(self, case: StoreCase) -> None:
        """Check one case, with a store of its own.

        Raises:
            AssertionError: The fact does not hold; on one line, the case, what was expected, and what came.
        """
        try:
            await self._check(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error.__cause__

    async def run(self) -> Report:
        """Check all cases, however many fail, and give the outcome of each; print it, or ask it.

        The cases that need more than the store offers are in it, as left out.
        """
        return await run_cases("store", _CASES, self._check, offers=lambda case: case.needs <= self._capabilities)

    async def _check(self, case: StoreCase) -> None:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            try:
                with anyio.move_on_after(_PATIENCE) as scope:
                    await case.check(partial(self._make, Path(folder)))
            except AssertionError:
                raise
            except Exception as error:
                raise AssertionError(f"expected no error, got {brief(error)}") from error
            if scope.cancelled_caught:
                raise AssertionError(f"expected an answer, got none in {_PATIENCE:g} s")
