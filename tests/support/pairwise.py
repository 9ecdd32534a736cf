"""Pairwise testing: few cases that contain each pair of values of any two parameters."""

from collections.abc import Hashable, Sequence
from itertools import combinations


def select_rows(rows: Sequence[Sequence[Hashable]]) -> list[int]:
    """Return the positions of rows that together contain every pair of values of all rows.

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
    """Return the items of a parametrized test that cover each pair of values.

    Values are compared by identity.
    """
    chosen = select_rows([[id(value) for value in item.callspec.params.values()] for item in items])
    return [items[at] for at in chosen]
