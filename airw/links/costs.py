"""What following a link costs, counted in parts that add up without rounding."""

from typing import Any

from airw.values import Record

CLOSE_TYPES = frozenset({"part-of", "has-part", "follows", "precedes", "same-as", "alias-of", "has-alias"})
"""Structure and identity: a link of these types costs half."""

COST_SCALE = 200
"""The parts of a cost of 1: whole values cost whole parts."""

COST_EPSILON = 100 - 1e-6
"""Just below the least that a link costs, in parts, so that rounding does not matter."""

UNSET = 50
"""The value of an artifact that says none."""


def link_cost(type: str, value: float) -> float:
    """Give what a link of a type costs that leads to an artifact of a value, in parts: `t * (1 + (100 - v) / 100)`.

    `t` is 0.5 for `CLOSE_TYPES` and 1 for others: the costs of qipu's `link tree`.

    Example:
        >>> [link_cost(*each) / COST_SCALE for each in [("related", 100), ("related", UNSET), ("part-of", 0)]]
        [1.0, 1.5, 1.0]
    """
    return (1 if type in CLOSE_TYPES else 2) * (COST_SCALE - value)


def artifact_value(record: Record | None) -> float:
    """Give the value of the artifact that a record stands for: its field `value`, where that is from 0 to 100.

    Example:
        >>> artifact_value(Record("1", "a", "document", 0, "", {"value": 80})), artifact_value(None)
        (80, 50)
    """
    value: Any = None if record is None else record.metadata.get("value")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number and 0 <= value <= 100 else UNSET
