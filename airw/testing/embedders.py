"""The exam that every embedder passes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from typing import cast

from airw.errors import ArgumentError
from airw.protocols import Embedder
from airw.testing._embedder_cases import CASES, EmbedderCase, Examinee
from airw.testing.exam import Exam

__all__ = ["EmbedderSuite"]


class EmbedderSuite(Exam[Examinee]):
    """The exam of an embedder: cases as data, to run all at once or one a test; needs no test framework.

    Args:
        embedder: An embedder, or a function without parameters that makes one: then each case gets its own, closed
            after it where it is an async context manager, and another one must equal the first. A model is slow to
            load: pass it as it is.
        tolerance: The most that a number of a text's vector may differ in another batch, or asked for again.
        max_gap: The longest time in seconds for which a batch may keep other tasks of the event loop from running, in
            the best of three attempts; `None` leaves that case out.

    Raises:
        ArgumentError: `embedder` is neither, or a bound is no number of at least 0.

    Example:
        >>> import anyio
        >>> from airw.embedders import HashingEmbedder
        >>> suite = EmbedderSuite(HashingEmbedder)
        >>> print(anyio.run(suite.run).failed)
        ()
    """

    subject, all_cases = "embedder", CASES

    def __init__(
        self, embedder: Embedder | Callable[[], Embedder], *, tolerance: float = 1e-5, max_gap: float | None = 0.25
    ) -> None:
        is_maker = isinstance(embedder, type) or not hasattr(embedder, "embed_documents")
        if is_maker and not callable(embedder):
            raise ArgumentError(f"embedder must be an Embedder or a function that makes one, not {embedder!r}")
        self._make = cast("Callable[[], Embedder]", embedder) if is_maker else None
        self._embedder = None if is_maker else cast("Embedder", embedder)
        self._tolerance = _checked_bound("tolerance", tolerance)
        self._max_gap = None if max_gap is None else _checked_bound("max_gap", max_gap)

    def _offers(self, case: EmbedderCase) -> bool:
        offered = {"factory": self._make is not None, "max_gap": self._max_gap is not None}
        return all(offered[need] for need in case.needs)

    @asynccontextmanager
    async def _examinee(self) -> AsyncIterator[Examinee]:
        async with AsyncExitStack() as stack:
            make = partial(_made, self._make, stack) if self._make else None
            embedder = self._embedder if make is None else await make()
            yield Examinee(cast("Embedder", embedder), make, self._tolerance, self._max_gap)


async def _made(make: Callable[[], Embedder], stack: AsyncExitStack) -> Embedder:
    embedder = make()
    if isinstance(embedder, AbstractAsyncContextManager):
        await stack.enter_async_context(embedder)
    return embedder


def _checked_bound(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise ArgumentError(f"{name} must be a number of at least 0, not {value!r}")
    return float(value)
