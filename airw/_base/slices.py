"""Long work on lists and texts in slices, so that other threads run in between.

A worker thread alone does not keep the event loop free. One call of `sorted`, `str.split` or `json.dumps` holds the
global lock of Python until it returns, and so stops every thread. These functions do the same work in short calls.
"""

import json
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest
from itertools import chain, islice
from typing import Any, TypeVar, cast

from airw._base.fairness import give_way

T = TypeVar("T")

_SLICE = 1 << 12  # items that one call handles in a few milliseconds
_PART = 1 << 9  # items between two pauses of a long loop
_SLICE_CHARS = 1 << 18
_SAMPLES = 16  # items of a sample per part of a long sort: so hardly any part is twice as long as the others
_STRIDE = 2_654_435_761  # a prime: its multiples spread a sample over all positions, without a pattern
_FEW = 16  # a search for the first items is faster than a sort if they are less than one in so many of a slice


def iterate_slices(items: Iterable[T]) -> Iterator[list[T]]:
    """Yield the items in lists of at most some hundreds; between them, others get their turn.

    Example:
        >>> [len(part) for part in iterate_slices(range(1_200))]
        [512, 512, 176]
    """
    remaining = iter(items)
    while part := [*islice(remaining, _PART)]:
        yield part
        give_way()


def split_in_slices(text: str, separator: str) -> Iterator[list[str]]:
    """Yield the parts of a text as `str.split` returns them, in lists of limited length.

    Example:
        >>> [*split_in_slices("a,b,c", ",")]
        [['a', 'b', 'c']]
    """
    start = 0
    while start <= len(text):
        end = text.find(separator, start + _SLICE_CHARS)
        end = len(text) if end < 0 else end
        yield text[start:end].split(separator)
        start = end + 1


def dump_in_slices(items: Iterable[Any]) -> str:
    """Return a list of values as JSON.

    Example:
        >>> dump_in_slices(["a", None, 1])
        '["a", null, 1]'
    """
    return f"[{', '.join([json.dumps(part)[1:-1] for part in iterate_slices(items)])}]"


def consume_in_slices(items: list[T]) -> Iterator[T]:
    """Yield the items of a list, which is empty afterwards.

    Its items are released on the way. All at once, that would take as long as a sort.

    Example:
        >>> names = ["a", "b"]
        >>> [*consume_in_slices(names)], names
        (['a', 'b'], [])
    """
    items.reverse()
    while items:
        part = items[: -_PART - 1 : -1]
        del items[-_PART:]
        yield from part
        give_way()


def empty_in_slices(*mappings: dict[Any, Any]) -> None:
    """Remove all items, so that releasing the mappings takes no time at once.

    Example:
        >>> ranks = {"a": 1}
        >>> empty_in_slices(ranks)
        >>> ranks
        {}
    """
    for mapping in mappings:
        while mapping:
            for _ in range(min(_PART, len(mapping))):
                mapping.popitem()
            give_way()


def sort_in_slices(items: Iterable[T], *, key: Callable[[T], Any] | None = None, limit: int | None = None) -> list[T]:
    """Return the items as `sorted` does, or the first of them.

    Args:
        items: The items, none of which sorts by NaN.
        key: Returns what an item is sorted by; `None` for the item itself.
        limit: The largest number of items in the result; `None` for all.

    Example:
        >>> sort_in_slices(["b", "c", "a"]), sort_in_slices("bca", limit=1)
        (['a', 'b', 'c'], ['a'])
    """
    remaining = iter(items)
    entries: Any = [*islice(remaining, _SLICE + 1)]
    if len(entries) <= _SLICE:
        return sorted(entries, key=key)[:limit]
    # `nsmallest` compares one item at a time with the largest of the best.
    if limit is not None and limit <= _SLICE // _FEW:
        return nsmallest(limit, chain(entries, remaining), cast("Any", key))
    # Compute each key once, and sort pairs by their keys alone. The position decides between equal keys.
    if key is None:
        for part in iterate_slices(remaining):
            entries.extend(part)
        return [entry for part in _partition(entries) for entry in sorted(part)][:limit]
    numbered = enumerate(chain(entries, remaining))
    pairs = [(key(item), number, item) for part in iterate_slices(numbered) for number, item in part]
    return [item for part in _partition(pairs) for _, _, item in consume_in_slices(sorted(part))][:limit]


def _partition(entries: list[Any]) -> Iterator[list[Any]]:
    """Yield all entries in parts, such that each part sorts after the one before.

    Entries that are equal are in one part, in their order. The list is empty afterwards.
    """
    # The parts lie between values of a sample, which is sorted. The sample is spread evenly over all positions.
    count = len(entries)
    part_count = count // (_SLICE // 2)
    sample = sorted(entries[number * _STRIDE % count] for number in range(part_count * _SAMPLES))
    pivots = sample[_SAMPLES::_SAMPLES]
    parts: list[list[Any]] = [[] for _ in range(len(pivots) + 1)]
    for entry in consume_in_slices(entries):
        parts[bisect_right(pivots, entry)].append(entry)
    for part in consume_in_slices(parts):
        yield part
        give_way()
