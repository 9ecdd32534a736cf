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

Of the conditions on a field, a missing field matches only `$ne`, `$nin` and `$exists: False`. Values compare as in
Python, so `True == 1 == 1.0`. Every store must agree with `matches`.
`$gt`, `$gte`, `$lt` and `$lte` compare numbers with numbers and strings with strings; other pairs never match. Two
strings that are both a date with a time and a zone, such as `2024-01-05T10:00:00Z` or `2024-01-05 12:00+02:00`, compare
as moments, also for `$eq`, `$ne`, `$in` and `$nin`; in a list, they are texts. Dates without a zone compare as texts,
so write them in one form. Objects of `datetime` and `Decimal` are such texts, and numbers.

A filter nests at most 50 levels deep, its values included. It has at most 5,000 conditions, and compares with at most
1,000,000 values.
"""

import datetime
import operator
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Set as AbstractSet
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

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
    return _Parser().parse(filter)


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

    def parse(self, filter: object, depth: int = 0) -> Filter | None:
        _check_depth(depth)
        if filter is None:
            return None
        if isinstance(filter, Compare | And | Or | Not):
            self._check_parsed(filter, 2 * depth)
            return filter
        if not isinstance(filter, Mapping):
            raise FilterError(f"filter must be a mapping of fields to conditions, not {short_repr(filter)}")
        parts = [part for key, condition in filter.items() for part in self._parse_entry(key, condition, depth)]
        if not parts:
            return None
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _check_parsed(self, filter: Filter, depth: int) -> None:
        # A mapping of several fields becomes an `And`, so parsing may double the levels, and adds one at the end.
        level = (depth - 1) // 2
        _check_depth(level)
        match filter:
            case Compare(path, op, operand):
                self._count_condition()
                _check_operator(path, op)
                self._check_value(path, operand, level)
            case And(parts) | Or(parts):
                for part in parts:
                    self._check_parsed(part, depth + 1)
            case Not(part):
                self._check_parsed(part, depth + 1)
            case _:
                raise FilterError(f"a part of the filter must be Compare, And, Or or Not, not {short_repr(filter)}")

    def _parse_entry(self, key: object, condition: Any, depth: int) -> Iterable[Filter]:
        if not isinstance(key, str):
            raise FilterError(f"filter keys must be strings, not {short_repr(key)}")
        if key in ("$and", "$or"):
            if not isinstance(condition, list | tuple):
                raise FilterError(f"{key} takes a list of filters, not {short_repr(condition)}")
            # Refuse None here: `parse` would read a forgotten part as a filter that matches everything.
            if any(part is None for part in condition):
                raise FilterError(f"{key} contains None; each part must be a filter")
            parts = tuple(self.parse(part, depth + 1) or And(()) for part in condition)
            return [And(parts) if key == "$and" else Or(parts)]
        if key == "$not":
            if not isinstance(condition, Mapping):
                raise FilterError(f"$not takes a mapping, not {short_repr(condition)}")
            return [Not(self.parse(condition, depth + 1) or And(()))]
        if key.startswith("$"):
            raise FilterError(
                f"filter has the unknown operator {short_repr(key)} in place of a field; use $and, $or or $not"
            )
        if not isinstance(condition, Mapping):
            return [Compare(key, "$eq", self._clean_operand(key, condition, depth))]
        if not condition:
            raise FilterError(
                f"the condition on {short_repr(key)} is empty; to match an empty mapping use {{'$eq': {{}}}}"
            )
        return [self._parse_condition(key, op, operand, depth) for op, operand in condition.items()]

    def _parse_condition(self, path: str, op: object, operand: Any, depth: int) -> Compare:
        checked = _check_operator(path, op)
        if op in ("$in", "$nin") and not isinstance(operand, list | tuple | AbstractSet):
            raise FilterError(f"{op} on {short_repr(path)} takes a list, not {short_repr(operand)}")
        if op == "$exists" and not isinstance(operand, bool):
            raise FilterError(f"$exists on {short_repr(path)} takes True or False, not {short_repr(operand)}")
        return Compare(path, checked, self._clean_operand(path, operand, depth))

    def _clean_operand(self, path: str, value: Any, depth: int) -> Any:
        self._count_condition()
        self._check_value(path, value, depth)
        # Dates and the like are stored as their JSON form, so the operand must have that form, too.
        # The result is also a copy: a caller who changes a list later does not change the parsed filter.
        return json_clean(value)

    def _count_condition(self) -> None:
        self.conditions += 1
        if self.conditions > _MAX_CONDITIONS:
            raise FilterError(f"filter has more than {_MAX_CONDITIONS:,} conditions; use $in for many values")

    def _count_values(self, count: int) -> None:
        self.values += count
        if self.values > _MAX_VALUES:
            raise FilterError(f"filter compares with more than {_MAX_VALUES:,} values; split the search")

    def _check_value(self, path: str, value: Any, depth: int) -> None:
        """Check a value to compare with, and all values in it."""
        _check_depth(depth)
        self._count_values(1)
        if isinstance(value, Mapping):
            for item in value.values():
                self._check_value(path, item, depth + 1)
        elif isinstance(value, list | tuple | AbstractSet | np.ndarray):
            # Most long lists are texts, which need no check of their own.
            if {*map(type, value)} <= {str}:
                self._count_values(len(value))
            else:
                for item in value:
                    self._check_value(path, item, depth + 1)
        # Metadata is stored as JSON, which has no NaN and no infinity: such a condition could never match as meant.
        elif isinstance(value, float | np.floating | Decimal) and json_clean(value) is None:
            raise FilterError(f"the condition on {short_repr(path)} compares with {value!r}; use finite numbers")
        elif isinstance(value, int) and value.bit_length() > _MAX_INT_BITS:
            raise FilterError(f"the condition on {short_repr(path)} compares with a number of thousands of digits")


def _check_depth(depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise FilterError(f"filter nests deeper than {_MAX_DEPTH} levels; write it flatter")


def _check_operator(path: str, op: object) -> str:
    if not isinstance(op, str) or op not in _TESTS:
        raise FilterError(
            f"the condition on {short_repr(path)} has the unknown operator {short_repr(op)}; use {', '.join(_TESTS)}"
        )
    return op


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
    """Return a hashable key for a JSON value; keys are equal exactly if the values are.

    Stores index field values by these keys, because lists and dicts cannot be hashed.

    Example:
        >>> as_key([1, {"a": 2}]) == as_key([1.0, {"a": 2.0}])
        True
    """
    if isinstance(value, list):
        return tuple(map(as_key, value))
    if isinstance(value, dict):
        return frozenset((key, as_key(item)) for key, item in value.items())
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
            value = get_field(metadata, path)
            # `$exists` comes first: it is the only operator about the field and not about its value.
            if op == "$exists":
                return (value is not MISSING) is operand
            test = _TESTS[_check_operator(path, op)]
            # A missing field differs from every value, but it has no order and contains nothing.
            if value is MISSING:
                return op in ("$ne", "$nin")
            return test(value, operand)
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)


TIME_PATTERN = (
    r"(?!0000)\d{4}-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8])|"
    r"02-29)[Tt ](?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?(?:[Zz]|[+-](?:0\d|1[0-5])(?::?[0-5]\d)?)"
)
"""The regular expression of a date with a time and a zone, as Python and PostgreSQL read it.

The year of a 29 February may lack that day; see `find_moment`.
"""

_TIME = re.compile(TIME_PATTERN, re.ASCII)


def find_moment(value: object) -> int | None:
    """Return the moment of a date with a time and a zone, `None` for anything else.

    It is in microseconds since the year 1, in UTC.

    Example:
        >>> find_moment("2024-01-05T10:00:00Z") == find_moment("2024-01-05 12:00+02:00"), find_moment("2024-01-05")
        (True, None)
    """
    if not isinstance(value, str) or _TIME.fullmatch(value) is None:
        return None
    try:
        moment = datetime.datetime.fromisoformat(value.upper())
    except ValueError:  # a 29 February in a year without one
        return None
    offset = moment.utcoffset() or datetime.timedelta()
    # As the first and the last day of the calendar would leave it in UTC, their zone is subtracted as a duration.
    in_utc = moment.replace(tzinfo=datetime.UTC) - datetime.datetime(1, 1, 1, tzinfo=datetime.UTC) - offset
    return in_utc // datetime.timedelta(microseconds=1)


def _is_equal(value: Any, operand: Any) -> bool:
    if value == operand:
        return True
    moment = find_moment(operand)
    return moment is not None and moment == find_moment(value)


def _is_in(value: Any, operand: list[Any]) -> bool:
    if isinstance(value, list):
        return any(item in operand for item in value)
    if value in operand:
        return True
    moment = find_moment(value)
    return moment is not None and any(find_moment(item) == moment for item in operand)


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, list):
        return operand in value
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def _order_test(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    # Metadata of real files mixes types: `"2020" < 2021` must be False, where Python raises a TypeError.
    def compare(value: Any, operand: Any) -> bool:
        same_kind = any(isinstance(value, kind) and isinstance(operand, kind) for kind in (str, int | float))
        if not same_kind:
            return False
        moments = find_moment(operand), find_moment(value)
        return test(value, operand) if None in moments else test(moments[1], moments[0])

    return compare


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": _is_equal,
    "$ne": lambda value, operand: not _is_equal(value, operand),
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
