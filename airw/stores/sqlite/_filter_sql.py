"""Filters as SQL conditions, with exactly the results of `filters.matches`.

The metadata column contains texts written by `metadata_json`. Equal numbers and strings have the same text there. So
equality is equality of texts, which is exact for numbers of any size. Order and substrings are evaluated in SQL
wherever SQL is exact. All other cases call `filters.matches` itself, as the function that `register_functions` makes
available in SQL. These are mostly lists, and numbers very close to the operand.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from airw._base.checks import find_text_fault
from airw._base.fairness import hand_over
from airw._base.slices import dump_in_slices
from airw.stores._changes import metadata_json
from airw.values.filters import MISSING, And, Compare, Filter, Not, Or, find_moment, get_field, matches

if TYPE_CHECKING:
    import sqlite3

Sql: TypeAlias = tuple[str, list[Any]]

# Limits for a filter in SQL; SQLite fails at about five times as many conditions, or as deep a nesting.
_MAX_PARTS = 200
_MAX_DEPTH = 8
_INT64 = 2**63
_MOMENT = """iif(j GLOB '"[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9][Tt ][0-9]*', airw_moment(j), NULL)"""


def keys_json(ids: Iterable[str]) -> str:
    """Return ids as one parameter for `json_each`, in order.

    SQLite reads NUL as the end of a text. So an id with NUL, which no store contains, becomes null, as does a pair that
    names an artifact of another corpus.
    """
    return dump_in_slices(id if isinstance(id, str) and "\0" not in id else None for id in ids)


def set_json(values: Iterable[str]) -> str:
    """Return texts as one parameter for `IN (SELECT value FROM json_each(?))`.

    Texts with NUL, which no store contains, are omitted, as are pairs that name artifacts of other corpora.
    """
    return dump_in_slices(value for value in values if isinstance(value, str) and "\0" not in value)


def register_functions(connection: "sqlite3.Connection") -> None:
    """Register the functions to which compiled filters and `compile_field` fall back."""
    connection.create_function("airw_matches", 2, _matches, deterministic=True)
    connection.create_function("airw_field", 2, _read_field, deterministic=True)
    connection.create_function("airw_moment", 1, _read_moment, deterministic=True)


def compile_filter(filter: Filter, column: str) -> Sql:
    """Return the condition that the metadata in `column` matches the filter.

    Its value is 0 or 1, never NULL.

    Args:
        filter: A parsed filter.
        column: A column with texts of `metadata_json`, on a connection prepared by `register_functions`.

    Returns:
        The SQL and its parameters.

    Example:
        >>> import sqlite3
        >>> from airw.stores._changes import metadata_json
        >>> from airw.values.filters import parse_filter
        >>> sql, parameters = compile_filter(parse_filter({"status": "Final"}), "metadata")
        >>> connection = sqlite3.connect(":memory:")
        >>> rows = "SELECT column1 AS metadata FROM (VALUES (?), (?))"
        >>> metadata = [metadata_json({"status": "Final"}), metadata_json({"status": "Draft"})]
        >>> connection.execute(f"SELECT * FROM ({rows}) WHERE {sql}", [*metadata, *parameters]).fetchall()
        [('{"status":"Final"}',)]
        >>> connection.close()
    """
    if _count(filter) > _MAX_PARTS or _depth(filter) > _MAX_DEPTH:
        return f"airw_matches({column}, ?)", [_dump(filter)]
    return _compile(filter, column)


def compile_field(path: str, column: str) -> Sql:
    """Return the SQL expression for the JSON text of a field.

    It is NULL for a record without the field. A literal key wins over a dotted path.
    """
    parts = path.split(".")
    if not all(map(_is_plain, parts)):
        return f"airw_field({column}, ?)", [json.dumps(path)]
    if len(parts) == 1:
        return f"{column} -> ?", [f'$."{path}"']
    return f"coalesce({column} -> ?, {column} -> ?)", [f'$."{path}"', "$" + "".join(f'."{part}"' for part in parts)]


def _is_plain(key: str) -> bool:
    """Return whether a JSON path of SQLite, which has no escapes, can contain the key."""
    return bool(key) and not any(char < " " or char in '"\\' or "\ud800" <= char <= "\udfff" for char in key)


def _parts(filter: Filter) -> tuple[Filter, ...]:
    match filter:
        case Compare():
            return ()
        case And(parts) | Or(parts):
            return parts
        case Not(part):
            return (part,)


def _count(filter: Filter) -> int:
    return 1 + sum(map(_count, _parts(filter)))


def _depth(filter: Filter) -> int:
    return 1 + max(map(_depth, _parts(filter)), default=0)


def _compile(filter: Filter, column: str) -> Sql:
    match filter:
        case Compare(_, op, operand):
            return _OPERATORS[op](filter, column, operand)
        case And(parts) | Or(parts):
            tests = [_compile(part, column) for part in parts]
            word, empty = (" AND ", "1") if isinstance(filter, And) else (" OR ", "0")
            return f"({word.join(sql for sql, _ in tests) or empty})", [
                value for _, values in tests for value in values
            ]
        case Not(part):
            sql, values = _compile(part, column)
            return f"(NOT {sql})", values


def _test_field(leaf: Compare, column: str, test: str, parameters: Sequence[Any]) -> Sql:
    """Return the SQL of a test of the JSON text `j` of a field.

    In `test`, `<exact>` calls `filters.matches`. The text is read once per row.
    """
    text, path = compile_field(leaf.path, column)
    exact = """airw_matches('{"v":' || j || '}', ?)"""
    exact_parameters = [_dump(Compare("v", leaf.op, leaf.operand))] * test.count("<exact>")
    return f"(SELECT coalesce({test.replace('<exact>', exact)}, 0) FROM (SELECT {text} AS j))", [
        *parameters,
        *exact_parameters,
        *path,
    ]


def _compile_exists(leaf: Compare, column: str, operand: Any) -> Sql:
    return _test_field(leaf, column, "j IS NOT NULL" if operand else "j IS NULL", [])


def _compile_equality(leaf: Compare, column: str, operand: Any) -> Sql:
    """Compile `$eq`, `$ne`, `$in` and `$nin`.

    Scalars are compared by their JSON texts, lists and mappings by `filters.matches`.
    """
    values = operand if leaf.op in ("$in", "$nin") else [operand]
    spellings = json.dumps([text for value in values for text in _list_spellings(value)])
    may_be_nested = leaf.op in ("$in", "$nin") or isinstance(operand, list | dict)
    test, parameters = "j IN (SELECT value FROM json_each(?))", [spellings]
    # One moment has several texts.
    if moments := [moment for value in values if (moment := find_moment(value)) is not None]:
        test = f"({test} OR coalesce({_MOMENT} IN (SELECT value FROM json_each(?)), 0))"
        parameters.append(json.dumps(moments))
    if leaf.op in ("$ne", "$nin"):
        test = f"j IS NULL OR NOT {test}"
    # `test` comes before `<exact>`, so that their parameters are in the order of the text.
    if may_be_nested:
        test = f"CASE WHEN j IS NULL OR substr(j, 1, 1) NOT IN ('[', '{{') THEN {test} ELSE <exact> END"
    return _test_field(leaf, column, test, parameters)


def _list_spellings(value: Any) -> list[str]:
    """Return the JSON texts of all scalars that equal a value in Python.

    Lists and mappings have none.
    """
    if value is None:
        return ["null"]
    if isinstance(value, str):
        return [json.dumps(value, ensure_ascii=False)]
    if not isinstance(value, int | float):
        return []
    texts = {repr(value + 0)}
    if isinstance(value, float) and value.is_integer():
        texts.add(repr(int(value)))
    elif isinstance(value, int) and abs(value) <= sys.float_info.max and float(value) == value:
        texts.add(repr(float(value)))
    if value in (0, 1):
        texts |= {"true"} if value else {"false", "-0.0", "0.0"}
    return sorted(texts)


def _compile_order(leaf: Compare, column: str, operand: Any) -> Sql:
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[leaf.op]
    if isinstance(operand, str) and find_text_fault(operand) is None:
        # SQLite reads \u0000 as the end of a text, so such values are compared in Python.
        moment = find_moment(operand)
        by_moment = "" if moment is None else f"WHEN {_MOMENT} IS NOT NULL THEN {_MOMENT} {sign} ?"
        test = f"""CASE WHEN substr(j, 1, 1) <> '"' THEN 0 {by_moment}
            WHEN instr(j, '\\u0000') = 0 THEN json_extract(j, '$') {sign} ? ELSE <exact> END"""
        return _test_field(leaf, column, test, [operand] if moment is None else [moment, operand])
    if isinstance(operand, int | float) and abs(operand) < _INT64:
        # SQLite compares integers exactly, but may read a float one bit off. So close floats are compared in Python.
        test = f"""CASE WHEN substr(j, 1, 1) IN ('"', '[', '{{', 'n') THEN 0
            WHEN typeof(json_extract(j, '$')) = 'integer'
                OR abs(json_extract(j, '$') - ?) > 1e-9 * (abs(json_extract(j, '$')) + abs(?)) + 1e-300
            THEN json_extract(j, '$') {sign} ? ELSE <exact> END"""
        return _test_field(leaf, column, test, [operand, operand, operand])
    return _test_field(leaf, column, "<exact>", [])


def _compile_contains(leaf: Compare, column: str, operand: Any) -> Sql:
    if not isinstance(operand, str):
        return _test_field(leaf, column, "substr(j, 1, 1) = '[' AND <exact>", [])
    # Without escapes, a JSON text contains the operand exactly if the string does. With escapes it may do so by chance,
    # so these are compared in Python.
    body = json.dumps(operand, ensure_ascii=False)[1:-1]
    if find_text_fault(body) is not None:
        return _test_field(leaf, column, "<exact>", [])
    test = (
        """CASE WHEN instr(j, ?) = 0 THEN 0 WHEN substr(j, 1, 1) = '"' AND instr(j, '\\') = 0 THEN 1 ELSE <exact> END"""
    )
    return _test_field(leaf, column, test, [body])


_OPERATORS: dict[str, Callable[[Compare, str, Any], Sql]] = {
    "$exists": _compile_exists,
    "$contains": _compile_contains,
    **dict.fromkeys(("$eq", "$ne", "$in", "$nin"), _compile_equality),
    **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), _compile_order),
}


def _dump(filter: Filter) -> str:
    return json.dumps(_to_dict(filter))


def _to_dict(filter: Filter) -> dict[str, Any]:
    match filter:
        case Compare(path, op, operand):
            return {path: {op: operand}}
        case And(parts) | Or(parts):
            return {"$and" if isinstance(filter, And) else "$or": [_to_dict(part) for part in parts]}
        case Not(part):
            return {"$not": _to_dict(part)}


def _from_dict(filter: Mapping[str, Any]) -> Filter:
    [(key, value)] = filter.items()
    if isinstance(value, list):
        parts = tuple(map(_from_dict, value))
        return And(parts) if key == "$and" else Or(parts)
    if key == "$not":
        return Not(_from_dict(value))
    [(op, operand)] = value.items()
    return Compare(key, op, operand)


@lru_cache(maxsize=64)
def _parse(filter: str) -> Filter:
    # Not `parse_filter`: the filter was checked where it came in, and is deeper here than its author wrote it.
    return _from_dict(json.loads(filter))


def _matches(metadata: str | None, filter: str) -> bool | None:
    hand_over()
    return None if metadata is None else matches(_parse(filter), json.loads(metadata))


def _read_moment(value: str) -> int | None:
    hand_over()
    return find_moment(json.loads(value))


def _read_field(metadata: str, path: str) -> str | None:
    hand_over()
    value = get_field(json.loads(metadata), json.loads(path))
    return None if value is MISSING else metadata_json(value)
