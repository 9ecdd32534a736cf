"""Protocols of search and discovery: rerankers, formulators, selectors, retrievers.

A part whose result is a `MaybeAwaitable` may be an async function or a plain one. Plain functions are called in a
worker thread, so that a blocking one does not block the event loop.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from airw.values import Record, SearchHit

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

Reranker: TypeAlias = Callable[[str, Sequence[str]], MaybeAwaitable[Sequence[float]]]
"""Scores texts against a query: `reranker(query, texts)` returns one number per text, in the order of `texts`.

A higher number means more relevant. An attribute `id` identifies the model and its settings, as `Embedder.id` does.
Without that attribute, a function defined at the top of a module is identified by its name. Any other reranker is
anonymous, and no floor can be calibrated for it.
"""

Formulator: TypeAlias = Callable[[str], MaybeAwaitable[str | Sequence[str]]]
"""Rewrites a query as one or several queries to search with."""

Selector: TypeAlias = Callable[[Sequence[SearchHit]], MaybeAwaitable[Iterable[SearchHit]]]
"""Selects the hits to commit from ranked hits, best first. An empty result means to abstain."""

NeighborhoodPolicy: TypeAlias = Callable[[SearchHit, Sequence[Record]], Iterable[Record]]
"""Selects the neighbourhood of a hit from the records of its artifact, which come in plan order; a pure function."""


class Retriever(Protocol):
    """A search of one corpus whose options are already set."""

    async def __call__(self, query: str, **options: Any) -> list[SearchHit]:
        """Return the hits for a query, best first; options passed here replace those already set."""
        ...
