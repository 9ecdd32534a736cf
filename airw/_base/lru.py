"""A bounded cache that forgets what was asked for longest ago."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruCache(Mapping[K, V]):
    """At most `max_items` values by key; the least recently used one goes first.

    It is a mapping, least recently used first. Only `get_or_create` counts as a use.

    Example:
        >>> cache = LruCache[str, int](max_items=2)
        >>> [cache.get_or_create(word, len) for word in ("one", "three", "one", "seven")], list(cache)
        ([3, 5, 3, 5], ['one', 'seven'])
    """

    def __init__(self, max_items: int) -> None:
        """Start empty."""
        self._max_items = max_items
        self._items: dict[K, V] = {}  # in order of use

    def get_or_create(self, key: K, create: Callable[[K], V]) -> V:
        """Return the value of a key, made by `create(key)` where it is not there."""
        value = self._items.pop(key) if key in self._items else create(key)
        self._items[key] = value
        if len(self._items) > self._max_items:
            del self._items[next(iter(self._items))]
        return value

    def discard(self, key: K) -> None:
        """Forget a key, if it is there."""
        self._items.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._items.clear()

    def __getitem__(self, key: K) -> V:
        return self._items[key]

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[K]:
        return iter(self._items)
