"""Filters as SQL conditions on a PostgreSQL server, equal to `filters.matches`.

The column has metadata in the form of `_field_json`, where equality and order of values are those of Python.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw.stores.postgres._field_json import dump_value, encode_text
from airw.values.filters import TIME_PATTERN, And, Compare, Filter, Not, Or, find_moment

_FEW = 16  # values of which each has a condition of its own that the index can answer
_SOME = 200  # values that the index finds by one JSON path; with more, it would take longer than reading all records
_MAX_STEPS = 8  # of a path that is written as one operator per key; a longer one is a JSON path
_MAX_KEYS = 1_000  # metadata nests less deeply, so a longer path is only a literal key
_ITEMS = 64
_LEAP_YEAR = "^(..(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)$"
_MAX_CONDITIONS = 1_000  # of a filter whose values are parameters each; PostgreSQL has 65,535, and asyncpg half of them


@dataclass(slots=True)
class Parameters:
    """The parameters of one statement, in their order.

    Example:
        >>> parameters = Parameters()
        >>> parameters.add(["a"], "text[]"), parameters.add(5, "bigint"), parameters.values
        ('$1::text[]', '$2::bigint', [['a'], 5])
    """

    values: list[Any] = field(default_factory=list)

    def add(self, value: Any, type: str) -> str:
        """Add a value, and return the SQL that stands for it."""
        self.values.append(value)
        return f"${len(self.values)}::{type}"


class _Arrays(Parameters):
    """Parameters that are items of arrays, so that any number of values takes few of them."""

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._arrays: dict[str, tuple[str, list[Any]]] = {}

    def add(self, value: Any, type: str) -> str:
        # The planner copies an array for each of its items that a statement names: so arrays are short.
        if type not in self._arrays or len(self._arrays[type][1]) == _ITEMS:
            new: list[Any] = []
            self._arrays[type] = self._parameters.add(new, f"{type}[]"), new
        array, items = self._arrays[type]
        items.append(value)
        return f"({array})[{len(items)}]"


def compile_filter(filter: Filter, column: str, parameters: Parameters) -> str:
    """Return the condition that the metadata in `column` matches the filter; it is never NULL.

    Args:
        filter: A parsed filter.
        column: A `jsonb` column with texts of `to_fields`.
        parameters: Those of the statement; the filter adds its own.
    """
    return _compile(filter, column, parameters if _count(filter) <= _MAX_CONDITIONS else _Arrays(parameters))


def _count(filter: Filter) -> int:
    """Return the number of conditions on fields."""
    match filter:
        case Compare():
            return 1
        case And(parts) | Or(parts):
            return sum(map(_count, parts))
        case Not(part):
            return _count(part)


def _compile(filter: Filter, column: str, parameters: Parameters) -> str:
    match filter:
        case Compare(path, op, operand):
            return _OPERATORS[op](_Field(path, column, parameters), json_clean(operand))
        case And(parts) | Or(parts):
            word, empty = (" AND ", "true") if isinstance(filter, And) else (" OR ", "false")
            return f"({word.join(_compile(part, column, parameters) for part in parts) or empty})"
        case Not(part):
            return f"(NOT {_compile(part, column, parameters)})"


def compile_exists(path: str, column: str, parameters: Parameters) -> str:
    """Return the condition that the metadata in `column` have the field."""
    return _Field(path, column, parameters).exists


def dump_wanted(wanted: Sequence[tuple[str, Any]]) -> str:
    """Return pairs of field and value as a JSON list of rows.

    One statement finds the records that have them: those whose field equals the value, or is a list that contains it.
    A pair that no record can have is left out. The columns:

    - `place` is the place of the pair among all.
    - A record that has the value under the literal key contains `first` or `second`.
    - One that has it at the end of a dotted path contains `third` or `fourth`.
    - `key` is the literal key, which wins over the path. It is left out if there is no path, and the value is a scalar:
      then all records that contain one of these have the value.
    - `value` is the value if it is no scalar: then such a record may have another that contains it.
    - `path` is the dotted path as a JSON path.
    """
    rows = []
    for place, (path, value) in enumerate(wanted):
        clean = json_clean(value)
        if find_text_fault(path) is not None or not _is_storable(clean):
            continue
        keys = path.split(".")
        is_dotted, is_scalar = 1 < len(keys) <= _MAX_KEYS, _is_scalar(clean)
        row = [f'"place":{place},"first":{_nest([path], clean)},"second":{_nest([path], [clean])}']
        if is_dotted:
            row.append(f'"third":{_nest(keys, clean)},"fourth":{_nest(keys, [clean])}')
            row.append(f'"path":{json.dumps(to_path(keys))}')
        if not is_scalar:
            row.append(f'"value":{dump_value(clean)}')
        if is_dotted or not is_scalar:
            row.append(f'"key":{dump_value(path)}')
        rows.append(f"{{{','.join(row)}}}")
    return f"[{','.join(rows)}]"


def _nest(keys: Sequence[str], value: Any) -> str:
    """Return the JSON text of mappings in each other, with a value at the end of the keys."""
    opened = "".join([f"{{{dump_value(key)}:" for key in keys])  # not by recursion, as there may be many
    return f"{opened}{dump_value(value)}{'}' * len(keys)}"


def to_path(keys: Sequence[str]) -> str:
    """Return the JSON path that leads through mappings, and not through lists."""
    return "strict $" + "".join([f".{json.dumps(encode_text(key))}" for key in keys])


class _Field:
    """The SQL of one field: its value, and conditions on it that an index can answer."""

    def __init__(self, path: str, column: str, parameters: Parameters) -> None:
        self._column, self._parameters = column, parameters
        # A key with an unpaired surrogate is never stored.
        self._paths: list[list[str]] = []
        if find_text_fault(path) is None:
            self._paths.append([path])
            if 1 < len(keys := path.split(".")) <= _MAX_KEYS:
                self._paths.append(keys)

    @cached_property
    def value(self) -> str:
        """The JSON value; NULL without the field."""
        # A literal key wins over a dotted path.
        return f"coalesce({', '.join(map(self._follow, self._paths))})" if self._paths else "NULL::jsonb"

    def _follow(self, keys: Sequence[str]) -> str:
        """Return the value at the end of a path; NULL if it leads nowhere, or through a list."""
        if len(keys) <= _MAX_STEPS:
            return " -> ".join([self._column, *map(self.text, keys)])
        path = self._parameters.add(to_path(keys), "jsonpath")
        return f"jsonb_path_query_first({self._column}, {path}, silent => true)"

    @property
    def exists(self) -> str:
        return f"({self.value} IS NOT NULL)"

    @property
    def kind(self) -> str:
        return f"jsonb_typeof({self.value})"

    @property
    def string(self) -> str:
        """The value as text, compared by its bytes."""
        return f"({self.value} #>> '{{}}') COLLATE \"C\""

    @property
    def moment(self) -> str:
        """The moment that the value means; NULL unless it is a date with a time and a zone."""
        text = f"({self.value} #>> '{{}}')"
        # The other 29 February would be an error of the cast.
        leap = rf"substr({text}, 1, 10) !~ '02-29$' OR substr({text}, 1, 4) ~ '{_LEAP_YEAR}'"
        is_moment = f"{self.kind} = 'string' AND {text} ~ {self._parameters.add(f'^{TIME_PATTERN}$', 'text')}"
        return f"(CASE WHEN {is_moment} THEN CASE WHEN {leap} THEN {text}::timestamptz END END)"

    def texts(self, values: list[str]) -> str:
        """Return a parameter with texts."""
        return self._parameters.add(values, "text[]")

    def time(self, value: str) -> str:
        """Return a parameter with a date with a time and a zone."""
        return f"({self._parameters.add(value, 'text')})::timestamptz"

    def json(self, value: Any) -> str:
        """Return a parameter with a JSON value."""
        return self._parameters.add(dump_value(value), "jsonb")

    def text(self, value: str) -> str:
        """Return a parameter with a text as in the column."""
        return self._parameters.add(encode_text(value), "text")

    def contains(self, value: Any) -> str:
        """Return the condition that a path leads to a value that contains this one.

        An index can answer it.
        It is `true` where both the literal key and the dotted path exist, and only one of them does.
        """
        tests = [f"{self._column} @> {self._parameters.add(_nest(keys, value), 'jsonb')}" for keys in self._paths]
        return f"({' OR '.join(tests) or 'false'})"

    def may_be_in(self, values: Sequence[Any]) -> str:
        """Return a condition that an index can answer, true if the field has one of these scalars.

        It is also true for some records in which it has none.
        """
        test = " || ".join([f"@ == {dump_value(value)}" for value in values])
        tests = []
        for keys in self._paths:
            steps = "".join([f".{json.dumps(encode_text(key))}" for key in keys])
            tests.append(f"{self._column} @? {self._parameters.add(f'lax ${steps}[*] ? ({test})', 'jsonpath')}")
        return f"({' OR '.join(tests) or 'false'})"

    @property
    def is_plain(self) -> bool:
        """True if `contains` is exact for scalars."""
        return len(self._paths) <= 1


def _is_storable(value: Any) -> bool:
    """Return whether a value may be in metadata: no text has an unpaired surrogate."""
    match value:
        case str():
            return find_text_fault(value) is None
        case list():
            return all(map(_is_storable, value))
        case dict():
            return all(map(_is_storable, value)) and all(map(_is_storable, value.values()))
    return True


def _is_scalar(value: Any) -> bool:
    return not isinstance(value, list | dict)


def _compile_exists(field: _Field, operand: Any) -> str:
    return field.exists if operand else f"({field.value} IS NULL)"


def _compile_equal(field: _Field, operand: Any) -> str:
    if find_moment(operand) is not None:
        return f"coalesce({field.moment} = {field.time(operand)}, false)"
    if not _is_storable(operand):
        return "false"
    if _is_scalar(operand):
        may_be = field.contains(operand)
        if field.is_plain:
            return may_be
        return f"({may_be} AND {field.value} = {field.json(operand)})"
    return f"coalesce({field.value} = {field.json(operand)}, false)"


def _compile_in(field: _Field, operand: Any) -> str:
    if times := [value for value in operand if find_moment(value) is not None]:
        array = field.texts(times)
        return f"(coalesce({field.moment} = ANY ({array}::timestamptz[]), false) OR {_compile_one_of(field, operand)})"
    return _compile_one_of(field, operand)


def _compile_one_of(field: _Field, operand: Sequence[Any]) -> str:
    values = [value for value in operand if _is_storable(value)]
    if not values:
        return "false"
    if len(values) > _SOME or not all(map(_is_scalar, values)):
        return _look_up(field, values)
    if len(values) > _FEW:
        return f"({field.may_be_in(values)} AND {_look_up(field, values)})"
    likely = " OR ".join([field.contains(form) for value in values for form in (value, [value])])
    return f"({likely})" if field.is_plain else f"(({likely}) AND {_look_up(field, values)})"


def _look_up(field: _Field, values: Sequence[Any]) -> str:
    """Return the condition that the field is one of the values, or a list with one of them."""
    items = f"CASE {field.kind} WHEN 'array' THEN {field.value} ELSE jsonb_build_array({field.value}) END"
    # `IS TRUE` keeps the planner from a join for each row: it reads all values into a hash table once.
    test = f"(item.value IN (SELECT jsonb_array_elements({field.json(values)}))) IS TRUE"
    return f"({field.exists} AND EXISTS (SELECT 1 FROM jsonb_array_elements({items}) AS item (value) WHERE {test}))"


def _compile_item(field: _Field, operand: Any) -> str:
    """Return the condition that the field is a list that contains the value."""
    if not _is_storable(operand):
        return "false"
    if _is_scalar(operand):
        has_item = field.contains([operand])
        if field.is_plain:
            return has_item
        return f"({has_item} AND {field.kind} = 'array' AND {field.value} @> {field.json(operand)})"
    items = f"jsonb_array_elements(CASE {field.kind} WHEN 'array' THEN {field.value} ELSE '[]' END)"
    return f"EXISTS (SELECT 1 FROM {items} AS item (value) WHERE item.value = {field.json(operand)})"


def _compile_contains(field: _Field, operand: Any) -> str:
    if not isinstance(operand, str) or not _is_storable(operand):
        return _compile_item(field, operand)
    in_text = f"strpos({field.string}, {field.text(operand)}) > 0"
    in_list = f"{field.value} @> {field.json(operand)}"
    return f"(CASE {field.kind} WHEN 'array' THEN {in_list} WHEN 'string' THEN {in_text} ELSE false END)"


def _compile_order(sign: str) -> Callable[[_Field, Any], str]:
    def compile(field: _Field, operand: Any) -> str:
        if isinstance(operand, int | float):
            return f"(CASE {field.kind} WHEN 'number' THEN {field.value} {sign} {field.json(operand)} ELSE false END)"
        if not isinstance(operand, str):
            return "false"
        compared = sign
        if find_text_fault(operand) is not None:
            # No stored text has a surrogate: compare with the character after all surrogates.
            compared = "<" if sign in ("<", "<=") else ">="
            place = next(at for at, char in enumerate(operand) if "\ud800" <= char <= "\udfff")
            operand = operand[:place] + "\ue000"
        test = f"{field.string} {compared} {field.text(operand)}"
        if find_moment(operand) is not None:
            test = f"coalesce({field.moment} {sign} {field.time(operand)}, {test})"
        return f"(CASE {field.kind} WHEN 'string' THEN {test} ELSE false END)"

    return compile


def _negate(compile: Callable[[_Field, Any], str]) -> Callable[[_Field, Any], str]:
    return lambda field, operand: f"(NOT {compile(field, operand)})"


_OPERATORS: dict[str, Callable[[_Field, Any], str]] = {
    "$exists": _compile_exists,
    "$eq": _compile_equal,
    "$ne": _negate(_compile_equal),
    "$in": _compile_in,
    "$nin": _negate(_compile_in),
    "$contains": _compile_contains,
    "$gt": _compile_order(">"),
    "$gte": _compile_order(">="),
    "$lt": _compile_order("<"),
    "$lte": _compile_order("<="),
}
