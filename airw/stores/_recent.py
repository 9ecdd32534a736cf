"""Keeping answers that are dear to make, a bounded number of them."""

from collections.abc import Callable, Hashable
from typing import TypeVar

__all__ = ["recall"]

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")

_MOST = 32  # kept, those asked for last


def recall(known: dict[K, T], key: K, make: Callable[[K], T]) -> T:
    """Give what is known of the key, made where it is not; what was asked for longest ago is forgotten.

    Example:
        >>> known = {}
        >>> recall(known, "abc", len), known
        (3, {'abc': 3})
    """
    found = known.pop(key) if key in known else make(key)
    known[key] = found
    if len(known) > _MOST:
        del known[next(iter(known))]
    return found
