"""The suite that checks stores: complete, partial and read-only ones."""

import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from airw.errors import ArgumentError
from airw.testing import _store_filters, _store_reading, _store_runs, _store_steps, _store_writing
from airw.testing._store_tools import FullStore, StoreCase, StoreFixture
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
    "statistics": ("term_statistics", "search_text"),
    "language": ("language", "set_language", "term_statistics", "search_text"),
    "adjacency": ("artifact_numbers", "neighbor_columns"),
    "steps": ("read_step", "neighbors", "best_of", "get_records", "records_of", "vectors_of"),
    "runs": ("begin_run", "read_run", "apply_part", "forget_run"),
    "schema": ("surface_kinds", "has_fields", "field_names"),
    "graph": ("records_of", "neighbors"),
    "walk": ("get_records", "search_vectors", "best_of", "neighbors"),
    "search": ("get_records", "records_of", "search_vectors", "search_text"),
    "persistent": (),
    "shared": (),
}
"""The capabilities that a store may offer besides `apply`, with the methods that each needs.

`graph`, `walk` and `search` are the protocols `GraphStore`, `WalkStore` and `SearchStore` of `airw.protocols`, which
single functions of the library need. `statistics`, `language`, `adjacency`, `steps` and `runs` are the optional
`TermStatistics`, `LanguageKeeper`, `AdjacencyReader`, `StepReader` and `RunKeeper`.
`persistent` and `shared` are about opening the same content again.
"""

STORE = tuple(
    name
    for name, methods in CAPABILITIES.items()
    if methods and name not in ("runs", "statistics", "language", "schema", "adjacency", "steps")
)
"""The capabilities of the protocol `airw.protocols.Store`."""

_METHODS = frozenset(method for methods in CAPABILITIES.values() for method in methods)


class StoreSuite(Exam[StoreFixture]):
    """Checks that a store keeps the promises of `airw.protocols.Store`, or of a part of it.

    Run all cases at once, or one case per test of any test framework. Each case lists the methods that it uses; it
    applies to stores that have all of them.

    Args:
        make: A function from a folder to an async context manager of a store. Each case has its own folder, empty at
            first. The same folder means the same content. The suite opens a folder again only if the store offers
            `"persistent"` (after it was closed) or `"shared"` (while it is open). A store without files may use the
            name of the folder as a key, or ignore it.
        capabilities: The capabilities of the store besides `apply`: names of `CAPABILITIES`, or of single methods.
            Cases that need more are left out. Default: all methods of `airw.protocols.Store`.
        read_only: Whether the store has no `apply`. Then `make` is called with a folder and the artifacts that the
            store must contain, a list of `ArtifactChange`. Cases that write are left out.

    Raises:
        ArgumentError: If a capability does not exist.

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
        *_store_steps.CASES,
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
        names = [capabilities] if isinstance(capabilities, str) else [*capabilities]
        unknown = [name for name in names if isinstance(capabilities, str) or name not in {*CAPABILITIES, *_METHODS}]
        if unknown:
            choices = f"{', '.join(CAPABILITIES)} or single methods"
            raise ArgumentError(f"capabilities must be a list of {choices}, not {unknown[0]!r}")
        self._make, self._read_only = make, read_only
        methods = {method for name in names for method in CAPABILITIES.get(name, (name,))}
        self._offered = frozenset({*names, *methods} if read_only else {*names, *methods, "apply"})

    def _offers(self, case: StoreCase) -> bool:
        return case.needs <= self._offered

    @asynccontextmanager
    async def _fixture(self) -> AsyncIterator[StoreFixture]:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            async with AsyncExitStack() as stack:
                yield StoreFixture(partial(self._open, Path(folder)), self._offered, stack)

    @asynccontextmanager
    async def _open(self, folder: Path, changes: Sequence[ArtifactChange]) -> AsyncIterator[FullStore]:
        async with self._make(folder, changes) if self._read_only else self._make(folder) as store:
            if changes and not self._read_only:
                await store.apply(changes)
            yield store
