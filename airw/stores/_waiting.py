"""Calls that wait together become one call: searches, and look-ups of a few records."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from itertools import chain, islice
from typing import Any, TypeVar

import numpy as np

from airw._base.arrays import Floats
from airw._base.coalescing import Coalescer
from airw.values import Ranking, Record

T = TypeVar("T")

_FEW = 8  # queries of one search; a search with more is not held up by others, nor holds them up
_FEW_RECORDS = 16  # ids of one look-up, the same


class WaitingSearches:
    """The searches and look-ups of a store that wait for their turn, each kind by itself."""

    def __init__(self) -> None:
        self._dense = Coalescer[Floats, list[Ranking]](lanes=2)
        self._lexical = Coalescer[Sequence[str], list[Ranking]]()
        self._records = Coalescer[Sequence[str], list[Record | None]]()

    async def search_vectors(
        self, queries: Floats, options: tuple[Any, ...], search: Callable[[Floats], Awaitable[list[Ranking]]]
    ) -> list[Ranking]:
        """Return `search(queries)`, together with searches of the same options and width."""
        if not isinstance(queries, np.ndarray) or queries.ndim != 2 or len(queries) > _FEW:
            return await search(queries)

        async def search_all(parts: list[Floats]) -> list[list[Ranking]]:
            return _split(await search(np.concatenate(parts) if len(parts) > 1 else parts[0]), parts)

        return await self._dense.ask((_to_key(options), queries.shape[1], queries.dtype), queries, search_all)

    async def search_text(
        self,
        queries: Sequence[str],
        options: tuple[Any, ...],
        search: Callable[[Sequence[str]], Awaitable[list[Ranking]]],
    ) -> list[Ranking]:
        """Return `search(queries)`, together with searches of the same options."""
        if len(queries) > _FEW:
            return await search(queries)

        async def search_all(parts: list[Sequence[str]]) -> list[list[Ranking]]:
            return _split(await search(_join(parts)), parts)

        return await self._lexical.ask(_to_key(options), queries, search_all)

    async def get_records(
        self, ids: Sequence[str], read: Callable[[Sequence[str]], Awaitable[list[Record | None]]]
    ) -> list[Record | None]:
        """Return `read(ids)`, together with other calls for a few records."""
        if len(ids) > _FEW_RECORDS:
            return await read(ids)

        async def read_all(parts: list[Sequence[str]]) -> list[list[Record | None]]:
            return _split(await read(_join(parts)), parts)

        return await self._records.ask("records", ids, read_all)


def _to_key(options: tuple[Any, ...]) -> Hashable:
    """Return what searches of the same options have in common."""
    k, filter, surfaces, _ = options
    return options if filter is None and surfaces is None and type(k) is int else repr(options)


def _join(parts: list[Sequence[str]]) -> Sequence[str]:
    """Return the items of all parts."""
    return [*chain.from_iterable(parts)] if len(parts) > 1 else parts[0]


def _split(answers: Sequence[T], parts: Sequence[Sequence[str] | Floats]) -> list[list[T]]:
    """Return the answers of each part."""
    remaining = iter(answers)
    return [[*islice(remaining, len(part))] for part in parts]
