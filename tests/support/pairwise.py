"""Few combinations of parameters, with each pair of values or with each value."""

import re
from collections.abc import Hashable, Sequence
from itertools import chain, combinations


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


def select_values(items):
    """Return the items of a parametrized test that have a value which no earlier one has.

    Names of one `parametrize` share a value: a row of it is kept, even if other rows contain all its parts.
    """
    seen, chosen = set(), []
    for item in items:
        values = _values_of(item)
        if not values or not values <= seen:
            chosen.append(item)
        seen |= values
    return chosen


def _values_of(item):
    params = item.callspec.params if hasattr(item, "callspec") else {}
    rows = [mark.args[0] for mark in item.iter_markers("parametrize")]
    groups = {tuple(re.findall(r"\w+", row) if isinstance(row, str) else row) for row in rows}
    alone = params.keys() - set(chain(*groups))
    groups |= {(name,) for name in alone}
    return {(group, tuple(id(params[name]) for name in group)) for group in groups}
