"""The filter language: parsed once, and its meaning, which every store must equal.

```text
{"status": "Final"}                      the field equals the value; a list means the whole list
{"year": {"$gte": 2020, "$lt": 2024}}    $eq $ne $gt $gte $lt $lte; several must all hold
{"tag": {"$in": ["a", "b"]}}             $in $nin; a list-valued field matches on overlap
{"tag": {"$contains": "a"}}              membership in a list, or substring of a string
{"draft": {"$exists": False}}            whether the field is there
{"author.name": "Ada"}                   a dotted path into nested fields; a literal key "author.name" wins
{"$and": [..]} {"$or": [..]} {"$not": ..}  combine whole filters; {} matches everything
```

A missing field matches only `$ne`, `$nin` and `$exists: False`. Values compare as in Python, so `True == 1 == 1.0`.
Only numbers with numbers and strings with strings have an order; anything else never matches.
"""

import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from airw._base.json import json_clean
from airw.errors import FilterError

MISSING: Any = object()
"""Stands for the value of a field that is not there."""


@dataclass(frozen=True, slots=True)
class Compare:
    """One condition on one field: `op` is an operator with its `$`, `operand` a JSON value."""

    path: str
    op: str
    operand: Any


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; without parts, everything does."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds; without parts, nothing does."""

    parts: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Filter"


Filter: TypeAlias = Compare | And | Or | Not


def parse_filter(filter: Mapping[str, Any] | Filter | None) -> Filter | None:
    """Read a filter once, so that stores evaluate values and not syntax; `None` and `{}` mean no filter.

    Raises:
        FilterError: An operator does not exist or its operand is not of the right kind.

    Example:
        >>> parse_filter({"year": {"$gte": 2020}})
        Compare(path='year', op='$gte', operand=2020)
    """
    if filter is None or isinstance(filter, Compare | And | Or | Not):
        return filter
    if not isinstance(filter, Mapping):
        raise FilterError(f"a filter must be a mapping of fields to conditions, not {filter!r}")
    parts = [part for key, condition in filter.items() for part in _parse_entry(key, condition)]
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else And(tuple(parts))


def _parse_entry(key: object, condition: Any) -> Iterable[Filter]:
    if not isinstance(key, str):
        raise FilterError(f"a filter's keys must be strings, not {key!r}")
    if key in ("$and", "$or"):
        if not isinstance(condition, list | tuple):
            raise FilterError(f"{key} takes a list of filters, not {condition!r}")
        if None in condition:
            raise FilterError(f"{key} takes a list of filters, not {condition!r}; a filter must be a mapping")
        parts = tuple(parse_filter(part) or And(()) for part in condition)
        return [And(parts) if key == "$and" else Or(parts)]
    if key == "$not":
        if not isinstance(condition, Mapping):
            raise FilterError(f"$not takes one filter, not {condition!r}")
        return [Not(parse_filter(condition) or And(()))]
    if key.startswith("$"):
        raise FilterError(f"unknown operator {key!r} at the top of a filter; known there: $and $or $not")
    if not isinstance(condition, Mapping):
        return [Compare(key, "$eq", _operand(key, condition))]
    if not condition:
        raise FilterError(f"the condition on {key!r} is empty; to compare with an empty mapping use {{'$eq': {{}}}}")
    return [_parse_condition(key, op, operand) for op, operand in condition.items()]


def _parse_condition(path: str, op: object, operand: Any) -> Compare:
    if not isinstance(op, str) or op not in _TESTS:
        raise FilterError(f"unknown operator {op!r} on {path!r}; known: {' '.join(_TESTS)}")
    if op in ("$in", "$nin") and not isinstance(operand, list | tuple | AbstractSet):
        raise FilterError(f"{op} on {path!r} takes a list, not {operand!r}")
    if op == "$exists" and not isinstance(operand, bool):
        raise FilterError(f"$exists on {path!r} takes True or False, not {operand!r}")
    return Compare(path, op, _operand(path, operand))


def _operand(path: str, value: Any) -> Any:
    if not _is_finite(value):
        raise FilterError(f"the condition on {path!r} compares with {value!r}; use finite numbers")
    return json_clean(value)


def _is_finite(value: Any) -> bool:
    if isinstance(value, Mapping):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple | AbstractSet | np.ndarray):
        return all(map(_is_finite, value))
    return not isinstance(value, float | np.floating) or math.isfinite(value)


def get_field(metadata: Mapping[str, Any], path: str) -> Any:
    """Give the value at a dotted path, a literal key first; `MISSING` where there is none.

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
    """Turn a JSON value into one that hashes, equal where the values are.

    Example:
        >>> as_key([1, {"a": 2}]) == as_key([1.0, {"a": 2.0}])
        True
    """
    if isinstance(value, list):
        return tuple(map(as_key, value))
    if isinstance(value, dict):
        return frozenset((key, as_key(item)) for key, item in value.items())
    return value  # type: ignore[no-any-return]


def held_keys(value: Any) -> set[Hashable]:
    """Give the keys of what a field's value equals, and of what it holds where it is a list."""
    return {as_key(value), *(map(as_key, value) if isinstance(value, list) else ())}


def matches(filter: Filter | None, metadata: Mapping[str, Any]) -> bool:
    """Say whether JSON-clean metadata satisfies a parsed filter.

    Example:
        >>> matches(parse_filter({"tags": {"$contains": "a"}}), {"tags": ["a", "b"]})
        True
    """
    match filter:
        case None:
            return True
        case Compare(path, op, operand):
            value = get_field(metadata, path)
            if op == "$exists":
                return (value is not MISSING) is operand
            if value is MISSING:
                return op in ("$ne", "$nin")
            return _TESTS[op](value, operand)
        case And(parts):
            return all(matches(part, metadata) for part in parts)
        case Or(parts):
            return any(matches(part, metadata) for part in parts)
        case Not(part):
            return not matches(part, metadata)


def _is_in(value: Any, operand: list[Any]) -> bool:
    return any(item in operand for item in value) if isinstance(value, list) else value in operand


def _contains(value: Any, operand: Any) -> bool:
    if isinstance(value, list):
        return operand in value
    return isinstance(value, str) and isinstance(operand, str) and operand in value


def _ordered(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, operand: Any) -> bool:
        same_kind = any(isinstance(value, kind) and isinstance(operand, kind) for kind in (str, int | float))
        return same_kind and test(value, operand)

    return compare


_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "$eq": operator.eq,
    "$ne": operator.ne,
    "$gt": _ordered(operator.gt),
    "$gte": _ordered(operator.ge),
    "$lt": _ordered(operator.lt),
    "$lte": _ordered(operator.le),
    "$in": _is_in,
    "$nin": lambda value, operand: not _is_in(value, operand),
    "$contains": _contains,
    "$exists": lambda _value, operand: operand is True,
}
