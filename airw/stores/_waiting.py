"""Requests that wait together become one call: searches, and look-ups of a few records."""

from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any

import numpy as np

from airw._base.coalescing import Coalescer
from airw.protocols import Rank, Records, Request

_FEW = 8  # queries of one search; a search with more is not held up by others, nor holds them up
_FEW_RECORDS = 16  # ids of one look-up, the same


class WaitingRequests:
    """The searches and look-ups of a store that wait for their turn, each kind by itself."""

    def __init__(self) -> None:
        self._dense = Coalescer[Rank, Any](lanes=2)
        self._lexical = Coalescer[Rank, Any]()
        self._records = Coalescer[Records, Any]()

    async def ask(self, request: Request[Any], answer: Callable[[Request[Any]], Awaitable[Any]]) -> Any:
        """Return `answer(request)`, together with requests that differ in queries or ids alone."""
        if isinstance(request, Records) and len(request.ids) <= _FEW_RECORDS:
            return await self._records.ask("records", request, lambda parts: _answer_records(parts, answer))
        if not isinstance(request, Rank) or not _is_short(request):
            return await answer(request)
        line, key = self._lexical, _to_key(request)
        if isinstance(request.queries, np.ndarray):
            line, key = self._dense, (key, request.queries.shape[1], request.queries.dtype)
        return await line.ask(key, request, lambda parts: _answer_rankings(parts, answer))


def _is_short(request: Rank) -> bool:
    """Return whether a search has few queries, and only these and conditions."""
    queries: Any = request.queries
    is_alone = request.statistics is not None or request.among is not None or request.records is not None
    return not is_alone and len(queries) <= _FEW and (request.needs == "lexical" or queries.ndim == 2)


def _to_key(request: Rank) -> Hashable:
    """Return what searches with the same conditions have in common."""
    options = (request.k, request.filter, request.surfaces, request.per_artifact)
    return options if request.filter is None and request.surfaces is None else repr(options)


async def _answer_records(parts: list[Records], answer: Callable[[Request[Any]], Awaitable[Any]]) -> list[Any]:
    if len(parts) == 1:
        return [await answer(parts[0])]
    ids = [*chain.from_iterable(part.ids for part in parts)]
    return _split(await answer(Records(ids)), [len(part.ids) for part in parts])


async def _answer_rankings(parts: list[Rank], answer: Callable[[Request[Any]], Awaitable[Any]]) -> list[Any]:
    if len(parts) == 1:
        return [await answer(parts[0])]
    queries: list[Any] = [part.queries for part in parts]
    together = np.concatenate(queries) if isinstance(queries[0], np.ndarray) else [*chain.from_iterable(queries)]
    return _split(await answer(replace(parts[0], queries=together)), [*map(len, queries)])


def _split(answers: Sequence[Any], counts: Sequence[int]) -> list[list[Any]]:
    """Return the answers of each part."""
    remaining = iter(answers)
    return [[*islice(remaining, count)] for count in counts]
