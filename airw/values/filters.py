"""The filter language: `parse_filter` reads it, and `matches` defines its meaning.

```text
{"status": "Final"}                      the field equals the value; a list must equal the whole list
{"year": {"$gte": 2020, "$lt": 2024}}    $eq $ne $gt $gte $lt $lte; if there are several, all must be true
{"tag": {"$in": ["a", "b"]}}             $in: one of these values, or an overlap with a list; $nin: the opposite
{"tag": {"$contains": "a"}}              an item of a list, or a substring of a string
{"draft": {"$exists": False}}            the field exists, or it does not
{"author": {"$eq": {"name": "Ada"}}}     a mapping is read as operators, so compare it with $eq
{"author.name": "Ada"}                   a dotted path into nested fields; a literal top-level key wins
{"$and": [..]} {"$or": [..]} {"$not": ..}  combine whole filters; {} matches everything
```

Of the conditions on a field, a missing field matches only `$ne`, `$nin` and `$exists: False`; `None` is a value.

Values compare as in Python, each as what it is, in every kind of store:

- Numbers compare exactly, and `True == 1 == 1.0`. A `Decimal` is the number that metadata keep of it: a whole one is
  exact, any other the nearest float.
- Texts compare by their characters. `$gt`, `$gte`, `$lt` and `$lte` compare numbers with numbers and texts with texts;
  pairs of other kinds never match.
- Two texts that are both a date with a time and a zone compare as moments: `2024-01-05T10:00:00Z` equals
  `2024-01-05 12:00+02:00`. So do two that are both a date with a time and no zone. This holds in lists and mappings,
  too. Objects of `datetime` are such texts.
- All other dates and times are texts: a day such as `2024-01-05` stands before the times of this day and after those
  of the day before, in any zone, and equals only itself. Of a time with a zone and one without, the clocks compare, as
  they are written. A time without a date is a text.

A filter compares with finite numbers, and with texts that can be stored. It nests at most 50 levels deep, its values
included. It has at most 5,000 conditions, and compares with at most 1,000,000 values.
"""

import datetime
import operator
import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import FilterError

_MAX_DEPTH = 50
_MAX_CONDITIONS = 5_000
_MAX_VALUES = 1_000_000
_MAX_INT_BITS = 10_000  # Python refuses to print numbers of more than 4,300 digits, about 14,300 bits

MISSING: Any = object()
"""The value that `get_field` returns for a missing field."""


@dataclass(frozen=True, slots=True)
class Compare:
    """A condition on one field.

    Args:
        path: The field, or a dotted path into nested fields.
        op: The operator, with its `$`.
        operand: The JSON value to compare with.
    """

    path: str
    op: str
    operand: Any


@dataclass(frozen=True, slots=True)
class And:
    """True if all parts are true; without parts it is always true."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """True if at least one part is true; without parts it is never true."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """True if the part is false."""

    part: "Filter"


Filter: TypeAlias = Compare | And | Or | Not


def parse_filter(filter: Mapping[str, Any] | Filter | None) -> Filter | None:
    """Parse and check a filter, so that stores need not know its syntax.

    Args:
        filter: A mapping of fields to conditions, or a parsed filter. Of that, only size and operators are checked.

    Returns:
        The parsed filter. It is `None`, which means no filter, for `None` and `{}`.

    Raises:
        FilterError: If a filter, key, operator or operand is malformed, or a condition is empty. Also if a number is
            not finite or has thousands of digits, or the filter is too deep or too large.

    Example:
        >>> parse_filter({"year": {"$gte": 2020}})
        Compare(path='year', op='$gte', operand=2020)
    """
    return None if filter is None else _Parser().parse(filter)


def to_mapping(filter: Filter | None) -> dict[str, Any] | None:
    """Return a parsed filter as the mapping that `parse_filter` reads; `None` for no filter.

    Example:
        >>> to_mapping(parse_filter({"year": {"$gte": 2020, "$lt": 2024}, "tag": "a"}))
        {'year': {'$gte': 2020, '$lt': 2024}, 'tag': {'$eq': 'a'}}
    """
    match filter:
        case None:
            return None
        case Compare(path, op, operand):
            return {path: {op: json_clean(operand)}}
        case Not(part):
            return {"$not": to_mapping(part)}
        case Or(parts):
            return {"$or": [to_mapping(part) for part in parts]}
        case And(parts):
            merged: dict[str, Any] = {}
            for part in parts:
                # One mapping for all conditions, or the filter would be deeper than its author wrote it.
                if not isinstance(part, Compare) or part.op in merged.get(part.path, {}):
                    return {"$and": [to_mapping(part) for part in parts]}
                merged.setdefault(part.path, {})[part.op] = json_clean(part.operand)
            return merged


@dataclass(slots=True)
class _Parser:
    """Parses one filter, and counts its conditions and values."""

    conditions: int = 0
    values: int = 0

    def parse(self, filter: object, depth: float = 0) -> Filter | None:
        _check_depth(depth)
        if isinstance(filter, Compare | And | Or | Not):
            self._check_parsed(filter, depth - 0.5)
            return filter
        if not isinstance(filter, Mapping):
            raise FilterError(f"filter must be a mapping of fields to conditions, not {short_repr(filter)}")
        parts = [part for key, condition in filter.items() for part in self._parse_entry(key, condition, depth)]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _check_parsed(self, filter: Filter, depth: float) -> None:
        # A mapping of several fields becomes an `And`, so parsing may double the levels: each counts half.
        _check_depth(depth)
        match filter:
            case Compare(path, op, operand):
                self._check_condition(path, op, operand, depth)
            case And(parts) | Or(parts):
                for part in parts:
                    self._check_parsed(part, depth + 0.5)
            case Not(part):
                self._check_parsed(part, depth + 0.5)
            case _:
                raise FilterError(f"a part of the filter must be Compare, And, Or or Not, not {short_repr(filter)}")

    def _parse_entry(self, key: object, condition: Any, depth: float) -> Iterator[Filter]:
        if not isinstance(key, str):
            raise FilterError(f"filter keys must be strings, not {short_repr(key)}")
        if key in ("$and", "$or"):
            if not isinstance(condition, list | tuple):
                raise FilterError(f"{key} takes a list of filters, not {short_repr(condition)}")
            # Refuse None here: `parse` would read a forgotten part as a filter that matches everything.
            if any(part is None for part in condition):
                raise FilterError(f"{key} contains None; each part must be a filter")
            parts = tuple(self.parse(part, depth + 1) or And(()) for part in condition)
            yield And(parts) if key == "$and" else Or(parts)
        elif key == "$not":
            if not isinstance(condition, Mapping):
                raise FilterError(f"$not takes a mapping, not {short_repr(condition)}")
            yield Not(self.parse(condition, depth + 1) or And(()))
        elif key.startswith("$"):
            raise FilterError(
                f"filter has the unknown operator {short_repr(key)} in place of a field; use $and, $or or $not"
            )
        elif condition == {} and isinstance(condition, Mapping):
            raise FilterError(
                f"the condition on {short_repr(key)} is empty; to match an empty mapping use {{'$eq': {{}}}}"
            )
        else:
            for op, operand in condition.items() if isinstance(condition, Mapping) else [("$eq", condition)]:
                self._check_condition(key, op, operand, depth)
                # Dates and the like are stored as their JSON form, so the operand must have that form, too. It is
                # also a copy: a caller who changes a list later does not change the parsed filter.
                yield Compare(key, op, json_clean(operand))

    def _check_condition(self, path: str, op: object, operand: object, depth: float) -> None:
        _find_test(path, op)
        if op in ("$in", "$nin") and not isinstance(operand, list | tuple | AbstractSet):
            raise FilterError(f"{op} on {short_repr(path)} takes a list, not {short_repr(operand)}")
        if op == "$exists" and not isinstance(operand, bool):
            raise FilterError(f"$exists on {short_repr(path)} takes True or False, not {short_repr(operand)}")
        self.conditions += 1
        if self.conditions > _MAX_CONDITIONS:
            raise FilterError(f"filter has more than {_MAX_CONDITIONS:,} conditions; use $in for many values")
        _check_text(path, path)
        self._check_value(path, operand, depth)

    def _check_value(self, path: str, value: Any, depth: float) -> None:
        """Check a value to compare with, and all values in it."""
        _check_depth(depth)
        is_list = isinstance(value, list | tuple | AbstractSet | np.ndarray)
        are_texts = is_list and {*map(type, value)} <= {str}  # most long lists are; they are checked at once
        self.values += 1 + (len(value) if are_texts else 0)
        if self.values > _MAX_VALUES:
            raise FilterError(f"filter compares with more than {_MAX_VALUES:,} values; split the search")
        if isinstance(value, str) or are_texts:
            _check_text(path, value if isinstance(value, str) else "\n".join(value))
        elif isinstance(value, Mapping) or is_list:
            for item in [*value, *value.values()] if isinstance(value, Mapping) else value:
                self._check_value(path, item, depth + 1)
        # Metadata is stored as JSON, which has no NaN and no infinity: such a condition could never match as meant.
        elif isinstance(value, float | np.floating | Decimal) and json_clean(value) is None:
            raise FilterError(f"the condition on {short_repr(path)} compares with {value!r}; use finite numbers")
        elif isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
            raise FilterError(f"the condition on {short_repr(path)} compares with a number of thousands of digits")


def _check_depth(depth: float) -> None:
    if depth >= _MAX_DEPTH + 1:
        raise FilterError(f"filter nests deeper than {_MAX_DEPTH} levels; write it flatter")


def _check_text(path: str, text: str) -> None:
    if find_text_fault(text) is not None:
        raise FilterError(f"the condition on {short_repr(path)} has a character that no text contains: half of a pair")


def _find_test(path: str, op: object) -> Callable[[Any, Any], bool]:
    if not isinstance(op, str) or op not in _TESTS:
        raise FilterError(
            f"the condition on {short_repr(path)} has the unknown operator {short_repr(op)}; use {', '.join(_TESTS)}"
        )
    return _TESTS[op]


def get_field(metadata: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, or `MISSING`; a literal key with dots wins.

    Example:
        >>> get_field({"author": {"name": "Ada"}}, "author.name")
        'Ada'
    """
    if path in metadata:
        return metadata[path]
    value: Any = metadata
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            return MISSING
        value = value[key]
    return value


def as_key(value: Any) -> Hashable:
    """Return a hashable key for a JSON value: what filters compare of it.

    Keys are equal exactly if the values are, by the rules of this module.

    Example:
        >>> as_key([1, "2024-01-05T10:00:00Z"]) == as_key([1.0, "2024-01-05 12:00+02:00"])
        True
    """
    if isinstance(value, str):
        return read_text(value)
    if isinstance(value, list):
        return tuple([as_key(item) for item in value])
    if isinstance(value, dict):
        return frozenset([(key, as_key(item)) for key, item in value.items()])
    return value  # type: ignore[no-any-return]


def index_keys(value: Any) -> set[Hashable]:
    """Return the keys under which a value is indexed: its own, and those of a list's items."""
    return {as_key(value), *(map(as_key, value) if isinstance(value, list) else ())}


def matches(filter: Filter | None, metadata: Mapping[str, Any]) -> bool:
    """Return whether JSON-clean metadata satisfies a parsed filter; `None` accepts everything.

    Raises:
        FilterError: If an operator is unknown.

    Example:
        >>> matches(parse_filter({"tags": {"$contains": "a"}}), {"tags": ["a", "b"]})
        True
    """
    match filter:
        case None:
            return True
        case Compare(path, op, operand):
            test, value = _find_test(path, op), get_field(metadata, path)
            if op == "$exists":  # the only operator about the field and not about its value
                return (value is not MISSING) is operand
            # A missing field differs from every value, but it has no order and contains nothing.
            return op in ("$ne", "$nin") if value is MISSING else test(as_key(value), as_key(operand))
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)


class Moment(str):
    """A text that is a date with a time, and compares with others as a moment.

    Of two texts only one of which has a zone, or is no date with a time, the characters compare.

    Raises:
        ValueError: If there is no such day.
    """

    __slots__ = ("has_zone", "ticks")
    has_zone: bool
    ticks: int

    def __init__(self, text: str) -> None:
        """Read a text."""
        at = datetime.datetime.fromisoformat(text.upper())
        self.has_zone = at.tzinfo is not None
        # Microseconds since the year 1, in UTC. Of the first and the last day of the calendar, UTC has no date.
        since = at.replace(tzinfo=None) - datetime.datetime.min - (at.utcoffset() or datetime.timedelta())  # noqa: DTZ901
        self.ticks = since // datetime.timedelta(microseconds=1)

    def _compare(self, other: object, test: Callable[[Any, Any], bool]) -> bool:
        if isinstance(other, Moment) and other.has_zone is self.has_zone:
            return test(self.ticks, other.ticks)
        return test(self[:], other[:]) if isinstance(other, str) else NotImplemented

    def __eq__(self, other: object) -> bool:
        """Return whether the other text is the same moment."""
        return self._compare(other, operator.eq)

    def __ne__(self, other: object) -> bool:
        """Return whether the other text is not the same moment."""
        return self._compare(other, operator.ne)

    def __lt__(self, other: str) -> bool:
        """Return whether this moment is before the other one."""
        return self._compare(other, operator.lt)

    def __le__(self, other: str) -> bool:
        """Return whether this moment is not after the other one."""
        return self._compare(other, operator.le)

    def __gt__(self, other: str) -> bool:
        """Return whether this moment is after the other one."""
        return self._compare(other, operator.gt)

    def __ge__(self, other: str) -> bool:
        """Return whether this moment is not before the other one."""
        return self._compare(other, operator.ge)

    def __hash__(self) -> int:
        """Return an equal number for equal moments."""
        return hash(self.ticks)


_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?"
    r"(?:[Zz]|[+-](?:0\d|1[0-5])(?:[0-5]\d|:[0-5]\d(?::[0-5]\d)?)?)?",
    re.ASCII,
)


def read_text(text: str) -> str:
    """Return a text as a `Moment` if it is a date with a time, else as it is.

    Example:
        >>> isinstance(read_text("2024-02-29T10:00"), Moment), isinstance(read_text("2023-02-29T10:00"), Moment)
        (True, False)
    """
    # Nearly no text is one: the first tests take a tenth of the time of the pattern.
    if len(text) < len("2024-01-05T10:00") or text[4] != "-" or _TIME.fullmatch(text) is None:
        return text
    try:
        return Moment(text[:])
    except ValueError:  # no such day
        return text


def _is_in(value: Any, operand: tuple[Any, ...]) -> bool:
    return any(item in operand for item in value) if isinstance(value, tuple) else value in operand


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, tuple):
        return operand in value
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def _order_test(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    # Metadata of real files mixes types: `"2020" < 2021` must be False, where Python raises a TypeError.
    def compare(value: Any, operand: Any) -> bool:
        kinds: Any
        for kinds in (str, int | float):
            if isinstance(value, kinds) and isinstance(operand, kinds):
                return test(value, operand)
        return False

    return compare


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _order_test(operator.gt),
    "$gte": _order_test(operator.ge),
    "$lt": _order_test(operator.lt),
    "$lte": _order_test(operator.le),
    "$in": _is_in,
    "$nin": lambda value, operand: not _is_in(value, operand),
    "$contains": _contains,
    # Only the name is used, as a known operator: `matches` handles `$exists` itself.
    "$exists": lambda _value, operand: operand is True,
}
"""The operators, which compare meanings."""
