"""Filters as SQL conditions on a PostgreSQL server, equal to `filters.matches`.

The column has metadata in the form of `_field_json`, where equality and order of values are those of filters.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airw._base.checks import find_text_fault
from airw._base.json import json_clean
from airw.stores.postgres._field_json import KIND, WRITTEN, dump_value, encode_moment, encode_text
from airw.values.filters import And, Compare, Filter, Moment, Not, Or, read_text

_FEW = 16  # values of which each has a condition of its own that the index can answer
_SOME = 200  # values that the index finds by one JSON path; with more, it would take longer than reading all records
_MAX_KEYS = 1_000  # metadata nests less deeply, so a longer path is only a literal key
_MOST, _ITEMS = 2_000, 64  # parameters that are none of an array, and items of one; asyncpg sends up to 32,767
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}


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
    """The parameters of a filter, of which there may be too many.

    The first ones stand by themselves, the others are items of arrays.
    """

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters
        self._arrays: dict[str, tuple[str, list[Any]]] = {}

    def add(self, value: Any, type: str) -> str:
        if len(self._parameters.values) < _MOST:
            return self._parameters.add(value, type)
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
    arrays = parameters if isinstance(parameters, _Arrays) else _Arrays(parameters)
    match filter:
        case Compare(path, op, operand):
            return _Field(path, column, arrays).compile(op, json_clean(operand))
        case And(parts) | Or(parts):
            word, empty = (" AND ", "true") if isinstance(filter, And) else (" OR ", "false")
            return f"({word.join(compile_filter(part, column, arrays) for part in parts) or empty})"
        case Not(part):
            return f"(NOT {compile_filter(part, column, arrays)})"


def compile_exists(path: str, column: str, parameters: Parameters) -> str:
    """Return the condition that the metadata in `column` have the field."""
    return f"({_Field(path, column, parameters).value} IS NOT NULL)"


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
        if find_text_fault(path + json.dumps(clean, ensure_ascii=False)) is not None:
            continue
        keys = path.split(".")
        is_dotted, is_scalar = 1 < len(keys) <= _MAX_KEYS, not isinstance(clean, list | dict)
        row = [f'"place":{place},"first":{_nest([path], clean)},"second":{_nest([path], [clean])}']
        if is_dotted:
            row.append(f'"third":{_nest(keys, clean)},"fourth":{_nest(keys, [clean])}')
            row.append(f'"path":{json.dumps(to_path(keys))}')
        if not is_scalar:
            row.append(f'"value":{dump_value(clean)}')
        if is_dotted or not is_scalar:
            row.append(f'"key":{_dump_text(path)}')
        rows.append(f"{{{','.join(row)}}}")
    return f"[{','.join(rows)}]"


def _nest(keys: Sequence[str], value: Any) -> str:
    """Return the JSON text of mappings in each other, with a value at the end of the keys."""
    opened = "".join([f"{{{_dump_text(key)}:" for key in keys])  # not by recursion, as there may be many
    return f"{opened}{dump_value(value)}{'}' * len(keys)}"


def to_path(keys: Sequence[str]) -> str:
    """Return the JSON path that leads through mappings, and not through lists."""
    return "strict $" + "".join([f".{_dump_text(key)}" for key in keys])


def _dump_text(text: str) -> str:
    """Return the JSON text of a key."""
    return json.dumps(encode_text(text))


class _Field:
    """The conditions on one field."""

    def __init__(self, path: str, column: str, parameters: Parameters) -> None:
        self._column, self._parameters = column, parameters
        # A literal key wins over a dotted path. A key with half of a pair is never stored.
        self._paths = [] if find_text_fault(path) else [[path]]
        if self._paths and 1 < len(keys := path.split(".")) <= _MAX_KEYS:
            self._paths.append(keys)

    @cached_property
    def value(self) -> str:
        """The JSON value; NULL without the field."""
        return self._follow(self._column)

    @property
    def _kind(self) -> str:
        return f"jsonb_typeof({self.value})"

    def _follow(self, *columns: str) -> str:
        """Return the value in the first of the columns that has it.

        It is NULL if a path leads nowhere, or through a list.
        """
        ways = [" -> ".join([start, *map(self._text, keys)]) for keys in self._paths for start in columns]
        return f"coalesce({', '.join(ways)})" if ways else "NULL::jsonb"

    def compile(self, op: str, operand: Any) -> str:
        """Return the condition that an operator makes; it is never NULL."""
        if op in ("$ne", "$nin"):
            return f"(NOT {self.compile('$eq' if op == '$ne' else '$in', operand)})"
        if op == "$exists":
            return f"({self.value} IS {'NOT ' if operand else ''}NULL)"
        # Where the index can answer a test that is true for all such records, it stands before the exact one. Of a few
        # scalars in a field that is no path, it is exact.
        likely, among = "true", operand if op == "$in" else [operand]
        are_few = len(among) <= _FEW and not any(isinstance(value, list | dict) for value in among)
        if op == "$eq" or (op == "$in" and are_few):
            likely = self._contains(*among, *([value] for value in among if op == "$in"))
            if are_few and len(self._paths) == 1:
                return likely
        if op == "$eq":
            exact = f"{self.value} = {self._json(operand)}"
        elif op == "$in":
            likely = likely if are_few else self._may_be_in(operand)
            exact = self._has_one_of(operand, f"jsonb_build_array({self.value})")
        elif op == "$contains" and isinstance(operand, str):
            in_text = f"strpos({self._field_text()}, {self._text(operand)}) > 0"
            in_list = f"{self.value} @> {self._json(operand)}"
            exact = f"CASE {self._kind} WHEN 'array' THEN {in_list} WHEN 'string' THEN {in_text} END"
        elif op == "$contains":
            likely, exact = self._contains([operand]), self._has_one_of([operand], "'[]'")
        else:
            exact = self._is_ordered(_SIGNS[op], operand)
        return f"({likely} AND coalesce({exact}, false))"

    def _is_ordered(self, sign: str, operand: Any) -> str:
        """Return the condition that the value stands so to another of its kind."""
        if isinstance(operand, int | float):
            return f"CASE {self._kind} WHEN 'number' THEN {self.value} {sign} {self._json(operand)} END"
        if not isinstance(operand, str):
            return "false"
        test = f"{self._field_text()} {sign} {self._text(operand)}"
        if isinstance(moment := read_text(operand), Moment):
            code, own = encode_moment(moment), f"({self.value} #>> '{{}}') COLLATE \"C\""
            is_same_kind = f"starts_with({own}, {self._parameters.add(code[:KIND], 'text')})"
            as_moments = f"{own} {sign} {self._parameters.add(code, 'text')}"
            test = f"CASE WHEN {is_same_kind} THEN {as_moments} ELSE {test} END"
        return f"CASE {self._kind} WHEN 'string' THEN {test} END"

    def _field_text(self) -> str:
        """Return the value, which is a text, as it was written."""
        before = f"{self._column} -> {self._parameters.add(WRITTEN, 'text')}"
        return f"({self._follow(before, self._column)} #>> '{{}}') COLLATE \"C\""

    def _contains(self, *values: Any) -> str:
        """Return the condition that a path leads to what contains one of the values.

        An index can answer it.
        """
        nests = [_nest(keys, value) for value in values for keys in self._paths]
        tests = [f"{self._column} @> {self._parameters.add(nest, 'jsonb')}" for nest in nests]
        return f"({' OR '.join(tests) or 'false'})"

    def _may_be_in(self, values: Sequence[Any]) -> str:
        """Return a condition that is true if the field is one of these values.

        It is true, too, if it is a list with one. An index can answer it.
        """
        if len(values) > _SOME or any(isinstance(value, list | dict) for value in values):
            return "true"
        test = " || ".join([f"@ == {dump_value(value)}" for value in values])
        tests = []
        for keys in self._paths if values else ():
            steps = "".join([f".{_dump_text(key)}" for key in keys])
            tests.append(f"{self._column} @? {self._parameters.add(f'lax ${steps}[*] ? ({test})', 'jsonpath')}")
        return f"({' OR '.join(tests) or 'false'})"

    def _has_one_of(self, values: Sequence[Any], other: str) -> str:
        """Return the condition that the field is a list with one of the values.

        If it is no list, `other` is read instead.
        """
        items = f"jsonb_array_elements(CASE {self._kind} WHEN 'array' THEN {self.value} ELSE {other} END)"
        # `IS TRUE` keeps the planner from a join for each row: it reads all values into a hash table once.
        test = f"(item.value IN (SELECT jsonb_array_elements({self._json(values)}))) IS TRUE"
        return f"{self.value} IS NOT NULL AND EXISTS (SELECT 1 FROM {items} AS item (value) WHERE {test})"

    def _json(self, value: Any) -> str:
        return self._parameters.add(dump_value(value), "jsonb")

    def _text(self, value: str) -> str:
        return self._parameters.add(encode_text(value), "text")
