"""What finding can be given: rerankers, formulators, selectors, neighbourhoods; and what one can ask.

Where an answer may be awaited, a plain function will do too: it is called in a worker thread, so that one that blocks
does not hold up the event loop.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from airw.values import Record, SearchHit

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]

Reranker: TypeAlias = Callable[[str, Sequence[str]], MaybeAwaitable[Sequence[float]]]
"""Scores texts against a query, `(query, texts)`: one number a text, in their order; higher is more relevant.

An attribute `id` names model and settings, as an embedder's does; without one, only a function of a module has a name
of its own, and what has none is anonymous: no floor is calibrated for it.
"""

Formulator: TypeAlias = Callable[[str], MaybeAwaitable[str | Sequence[str]]]
"""Turns a query into one or several to search with."""

Selector: TypeAlias = Callable[[Sequence[SearchHit]], MaybeAwaitable[Iterable[SearchHit]]]
"""Chooses from ranked hits those to commit to, best first; none to abstain."""

NeighborhoodPolicy: TypeAlias = Callable[[SearchHit, Sequence[Record]], Iterable[Record]]
"""Chooses from the records of a hit's artifact, in plan order, those that make up its neighbourhood; pure."""


class Retriever(Protocol):
    """Searches one corpus, with options bound beforehand."""

    async def __call__(self, query: str, **options: Any) -> list[SearchHit]:
        """Rank what the corpus holds against a query; options given here replace those bound."""
        ...
