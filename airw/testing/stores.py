"""The exam that every store passes: one that has all capabilities, one that has some, and one that is only read."""

import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from airw.errors import ArgumentError
from airw.testing import _store_filters, _store_reading, _store_runs, _store_writing
from airw.testing._store_tools import ExaminedStore, FullStore, StoreCase
from airw.testing.exam import Exam
from airw.values import ArtifactChange

CAPABILITIES: Mapping[str, tuple[str, ...]] = {
    "records": ("get_records", "records_of", "ledger", "artifact_ids", "counts"),
    "settings": ("config", "set_config", "calibration", "set_calibration"),
    "vectors": ("search_vectors", "similarities", "best_of", "vectors", "vectors_of"),
    "text": ("search_text",),
    "links": (
        *("neighbors", "resolve", "referrers", "fan_in", "max_fan_in", "matching"),
        *("unresolved_links", "link_counts"),
    ),
    "writing": ("writing",),
    "closing": ("aclose",),
    "runs": ("begin_run", "read_run", "apply_part", "forget_run"),
    "graph": ("records_of", "neighbors"),
    "walk": ("get_records", "search_vectors", "best_of", "neighbors"),
    "search": ("get_records", "records_of", "search_vectors", "search_text"),
    "persistent": (),
    "shared": (),
}
"""What a store may offer besides `apply`, and the methods it takes; the last two are about opening a store again.

`graph`, `walk` and `search` are `GraphStore`, `WalkStore` and `SearchStore` of `airw.protocols`: what a verb asks for.
"""

STORE = tuple(name for name, methods in CAPABILITIES.items() if methods and name != "runs")
"""The capabilities of the protocol `airw.protocols.Store`."""

_METHODS = frozenset(method for methods in CAPABILITIES.values() for method in methods)


class StoreSuite(Exam[ExaminedStore]):
    """The exam of a store: cases as data, to run all at once or one a test; needs no test framework.

    A case names the methods that it uses, and is asked of the stores that have them all.

    Args:
        make: Called with a folder, gives an async context manager of a store. Each case gets a folder of its own, empty
            at first. The same folder again means the same content: that happens only where `"persistent"` (opened
            again after it was closed) or `"shared"` (while it is open) is offered. A store that keeps nothing in files
            may use the folder's name, or ignore it.
        capabilities: What the store offers besides `apply`: names of `CAPABILITIES`, or of single methods; by default,
            all methods of `airw.protocols.Store`. Cases that need more are left out.
        read_only: Whether the store has no `apply`. `make` is then called with a folder and the artifacts that the
            store must hold, `ArtifactChange` values, and all cases that write are left out.

    Raises:
        ArgumentError: A capability does not exist.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> suite = StoreSuite(lambda folder: MemoryStore(), capabilities=["settings", "writing"])
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    subject = "store"
    all_cases: ClassVar[Sequence[StoreCase]] = (
        *_store_reading.CASES,
        *_store_filters.CASES,
        *_store_writing.CASES,
        *_store_runs.CASES,
    )

    def __init__(
        self,
        make: Callable[..., AbstractAsyncContextManager[Any]],
        *,
        capabilities: Collection[str] = STORE,
        read_only: bool = False,
    ) -> None:
        given = [capabilities] if isinstance(capabilities, str) else [*capabilities]
        unknown = [name for name in given if isinstance(capabilities, str) or name not in {*CAPABILITIES, *_METHODS}]
        if unknown:
            raise ArgumentError(
                f"capabilities is a list of {', '.join(CAPABILITIES)}, or of single methods; {unknown[0]!r} is none"
            )
        self._make, self._read_only = make, read_only
        methods = {method for name in given for method in CAPABILITIES.get(name, (name,))}
        self._offered = frozenset({*given, *methods} if read_only else {*given, *methods, "apply"})

    def _offers(self, case: StoreCase) -> bool:
        return case.needs <= self._offered

    @asynccontextmanager
    async def _examinee(self) -> AsyncIterator[ExaminedStore]:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            async with AsyncExitStack() as stack:
                yield ExaminedStore(partial(self._open, Path(folder)), self._offered, stack)

    @asynccontextmanager
    async def _open(self, folder: Path, changes: Sequence[ArtifactChange]) -> AsyncIterator[FullStore]:
        async with self._make(folder, changes) if self._read_only else self._make(folder) as store:
            if changes and not self._read_only:
                await store.apply(changes)
            yield store
