"""Pages of the items of a source, as builds read them."""

from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import anyio

from airw.errors import AirwError, SourceError
from airw.protocols import Source
from airw.values import Artifact, ItemProblem

Item: TypeAlias = Artifact | ItemProblem

_QUICK = 0.25  # seconds
_PAGE_CHARS = 8_000_000
_ENTRY = 50  # rough memory of an entry, in characters


class SourcePages:
    """The items of a source in pages of `size`; its errors become a `SourceError`.

    A page ends earlier if its texts have `max_chars`: pages of long texts would fill the memory, and a build can be
    cancelled only between pages. With `largest`, pages grow up to that as long as reading one takes little time.
    """

    def __init__(self, source: Source, size: int, *, largest: int | None = None, max_chars: int = _PAGE_CHARS) -> None:
        self._size, self._least, self._largest = size, size, largest or size
        self._name = source.name
        # A source may return many items at once, see `CorpusSource.pages`.
        pages: Callable[[], AsyncIterator[list[Item]]] | None = getattr(source, "pages", None)
        self._parts = _read_singly(source) if pages is None else pages()
        self._max_chars = max_chars
        self._rest: list[Item] = []
        self._first_page: list[Item] | None = None

    async def peek(self) -> None:
        """Read the first page early, so that a missing source fails before a file is created."""
        self._first_page = await self.next()

    async def next(self) -> list[Item]:
        """Return the next page, or an empty list at the end.

        Raises:
            SourceError: If the source fails.
        """
        page = self._first_page or []
        self._first_page = None
        if page:
            return page
        start = anyio.current_time()
        items, self._rest = self._rest, []
        sizes = _estimate_sizes(items)
        chars = sum(sizes)
        try:
            while len(items) < self._size and chars < self._max_chars:
                # What was read does not wait for a slow source.
                if len(items) >= self._least and anyio.current_time() - start >= _QUICK:
                    break
                part = await anext(self._parts, None)
                if part is None:
                    break
                items += part
                sizes += _estimate_sizes(part)
                chars += sum(sizes[-len(part) :])
        except AirwError:
            raise
        except Exception as error:
            raise SourceError(f"source {self._name!r} failed: {type(error).__name__}: {error}") from error
        fitting = min(self._size, bisect_left([*accumulate(sizes)], self._max_chars) + 1)
        self._rest = items[fitting:]
        if anyio.current_time() - start < _QUICK:
            self._size = min(2 * self._size, self._largest)
        return items[:fitting]

    async def aclose(self) -> None:
        """Close the source's iterator, if it can be closed."""
        await _close(self._parts)


async def _read_singly(source: Source) -> AsyncIterator[list[Item]]:
    items = source.items()
    try:
        async for item in items:
            yield [item]
    finally:
        await _close(items)


async def _close(iterator: object) -> None:
    close = getattr(iterator, "aclose", None)
    if close is not None:
        await close()


def _estimate_sizes(items: Sequence[Item]) -> list[int]:
    """Return the rough length of the texts of each item."""
    raws: list[Any] = [item.raw if isinstance(item, Artifact) else None for item in items]
    return list(map(len, raws)) if {*map(type, raws)} == {str} else list(map(_estimate_size, raws))


def _estimate_size(raw: object) -> int:
    """Return the rough length of the texts in a raw value.

    Entries of lists and mappings count as well.
    """
    if isinstance(raw, str | bytes):
        return len(raw)
    if isinstance(raw, Mapping):
        values = raw.values()
        return sum(
            len(v) if isinstance(v, str) else _ENTRY * len(v) for v in values if isinstance(v, str | list | dict)
        )
    return 0
