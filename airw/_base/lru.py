"""A bounded cache that drops the least recently used value."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Mapping[K, V]):
    """A cache of at most `max_items` values by key; the least recently used one is dropped.

    It is a mapping, ordered from least to most recently used. Only `get_or_create` counts as a use.

    Example:
        >>> cache = LruCache[str, int](max_items=2)
        >>> [cache.get_or_create(word, len) for word in ("one", "three", "one", "seven")], list(cache)
        ([3, 5, 3, 5], ['one', 'seven'])
    """

    def __init__(self, max_items: int) -> None:
        """Create an empty cache."""
        self._max_items = max_items
        # A dict keeps the order of insertion: each use moves an item to the end.
        self._items: dict[K, V] = {}

    def get_or_create(self, key: K, create: Callable[[K], V]) -> V:
        """Return the value of a key, made by `create(key)` if it is not in the cache."""
        value = self._items.pop(key) if key in self._items else create(key)
        self._items[key] = value
        if len(self._items) > self._max_items:
            del self._items[next(iter(self._items))]
        return value

    def discard(self, key: K) -> None:
        """Remove a key, if it is in the cache."""
        self._items.pop(key, None)

    def clear(self) -> None:
        """Remove all keys."""
        self._items.clear()

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)
