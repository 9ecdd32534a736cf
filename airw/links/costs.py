"""The cost of following a link, in cost units that add up without rounding errors."""

from typing import Any

from airw.values import Record

CLOSE_TYPES = frozenset({"part-of", "has-part", "follows", "precedes", "same-as", "alias-of", "has-alias"})
"""Links of structure and identity: they cost half as much as others."""

COST_SCALE = 200
"""The cost units of a cost of 1. With this scale, whole values of artifacts cost whole numbers of units."""

COST_EPSILON = 100 - 1e-6
"""Slightly less than the cost of the cheapest possible link, in cost units.

If the costs of two nodes differ by less, no path through one can make the other cheaper: both are final together.
"""

UNSET = 50
"""The value of an artifact without a valid field `value`."""


def link_cost(type: str, value: float) -> float:
    """Return the cost, in cost units, of following a link to an artifact of the given value.

    As a plain number it is `t * (1 + (100 - value) / 100)`, where `t` is 0.5 for `CLOSE_TYPES` and 1 for other types.
    These are the costs of qipu's `link tree`.

    Example:
        >>> links = [("related", 100), ("related", UNSET), ("part-of", 0)]
        >>> [link_cost(type, value) / COST_SCALE for type, value in links]
        [1.0, 1.5, 1.0]
    """
    return type_factor(type) * (COST_SCALE - value)


def type_factor(type: str) -> int:
    """Return the factor of a type in `link_cost`: 1 for `CLOSE_TYPES` and 2 for other types."""
    return 1 if type in CLOSE_TYPES else 2


def artifact_value(record: Record | None) -> float:
    """Return the field `value` of a record if it is a number from 0 to 100, otherwise `UNSET`.

    Example:
        >>> artifact_value(Record("1", "a", "document", 0, "", {"value": 80})), artifact_value(None)
        (80, 50)
    """
    value: Any = None if record is None else record.metadata.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= 100 else UNSET
