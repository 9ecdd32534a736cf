"""Few cases instead of all combinations: each two values of any two parameters still occur together."""

from collections.abc import Hashable, Sequence
from itertools import combinations


def select_rows(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the places of rows that hold, between them, every pair of values that any row holds.

    Greedy: the next row is the first of those that add most pairs. Which rows exist is the caller's choice, so
    combinations that make no sense are simply not among them.
    """
    pairs = [set(combinations(enumerate(row), 2)) for row in rows]
    missing, chosen = set().union(*pairs), []
    while missing:
        best = max(range(len(rows)), key=lambda at: len(pairs[at] & missing))
        missing -= pairs[best]
        chosen.append(best)
    return sorted(chosen)


def select_items(items):
    """Return the items of one parametrized test that cover each pair of values; a value is known by its identity."""
    chosen = select_rows([[id(value) for value in item.callspec.params.values()] for item in items])
    return [items[at] for at in chosen]
