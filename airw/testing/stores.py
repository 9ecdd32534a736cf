"""The suite that checks stores: complete, partial and read-only ones."""

import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final

from airw.errors import ArgumentError
from airw.protocols import Change, requests as protocols
from airw.testing import _store_filters, _store_reading, _store_writing
from airw.testing._store_tools import StoreCase, StoreFixture
from airw.testing.exam import Exam
from airw.values import ArtifactChange

CAPABILITIES: Final[frozenset[str]] = protocols.CAPABILITIES | {"closing", "persistent", "runs", "shared"}
"""What a store may be able to do: `airw.protocols.CAPABILITIES`, and four promises that it does not declare itself.

`closing`: a closed store refuses all calls. `persistent` and `shared` are about opening the same content again, after
the store was closed or while it is open. `runs` is the protocol `airw.protocols.RunKeeper`.
"""


class StoreSuite(Exam[StoreFixture]):
    """Checks that a store keeps its promises, and answers what it says it can.

    Run all cases at once, or one case per test of any test framework. Each case lists the capabilities that it needs;
    it applies to stores that have all of them.

    Args:
        make: A function from a folder to an async context manager of a store. Each case has its own folder, empty at
            first. The same folder means the same content. The suite opens a folder again only if the store offers
            `"persistent"` (after it was closed) or `"shared"` (while it is open). A store without files may use the
            name of the folder as a key, or ignore it. If the store does not offer `"writing"`, the function is called
            with a folder and the artifacts that the store must contain, a list of `ArtifactChange`.
            With `content`, it is called with the folder alone.
        capabilities: The capabilities of the store, of `airw.testing.CAPABILITIES`. Cases that need more are left out.
            Default: all of `airw.protocols.CAPABILITIES`.
        content: The artifacts of a store that has no others, because functions or another service answer. The suite
            asks about these alone. A request with an option that the store does not take may then be refused with an
            `ArgumentError` that begins with the name of the option. Without the capability `"words"`, the scores of a
            search for words are the store's.

    Raises:
        ArgumentError: If a capability does not exist.

    Example:
        >>> import anyio
        >>> from airw.stores import MemoryStore
        >>> suite = StoreSuite(lambda folder: MemoryStore())
        >>> suite.all_cases = [case for case in suite.all_cases if "settings" in case.name]
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    subject = "store"
    all_cases: ClassVar[Sequence[StoreCase]] = (
        *_store_reading.CASES,
        *_store_reading.CASES_OF_ALL,
        *_store_filters.CASES,
        *_store_writing.CASES,
    )

    def __init__(
        self,
        make: Callable[..., AbstractAsyncContextManager[Any]],
        *,
        capabilities: Collection[str] = protocols.CAPABILITIES,
        content: Sequence[ArtifactChange] | None = None,
    ) -> None:
        unknown = [capabilities] if isinstance(capabilities, str) else sorted({*capabilities} - CAPABILITIES)
        if unknown:
            raise ArgumentError(f"capabilities must be a list of {', '.join(sorted(CAPABILITIES))}, not {unknown[0]!r}")
        self._make, self._offered, self._content = make, frozenset(capabilities), content
        if content is not None:
            self.all_cases = (*_store_reading.CASES_OF_CONTENT, *_store_reading.CASES_OF_ALL)  # type: ignore[misc]

    def _offers(self, case: StoreCase) -> bool:
        return case.needs <= self._offered

    @asynccontextmanager
    async def _fixture(self) -> AsyncIterator[StoreFixture]:
        with tempfile.TemporaryDirectory(prefix="airw-", ignore_cleanup_errors=True) as folder:
            async with AsyncExitStack() as stack:
                yield StoreFixture(partial(self._open, Path(folder)), self._offered, stack, self._content)

    @asynccontextmanager
    async def _open(self, folder: Path, changes: Sequence[ArtifactChange]) -> AsyncIterator[Any]:
        is_filled = self._content is None and "writing" in self._offered
        is_given = self._content is None and not is_filled
        async with self._make(folder, changes) if is_given else self._make(folder) as store:
            if changes and is_filled:
                await store.apply(Change(changes))
            yield store
