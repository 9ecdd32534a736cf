"""Conditions in SQL: being one of many values, and filters over a column of JSON, equal to `filters.matches`.

A column of metadata holds what `metadata_json` writes. Its numbers and strings have one spelling each, so equality is
equality of JSON text, which is exact for numbers of any size. Order and substrings are decided in SQL where that is
exact; what is left over, mostly lists and numbers about as large as the operand, is decided by `filters.matches`
itself, which `register_functions` makes callable from SQL.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from airw._base.checks import find_text_fault
from airw.stores._changes import metadata_json
from airw.values.filters import MISSING, And, Compare, Filter, Not, Or, get_field, matches, parse_filter

if TYPE_CHECKING:
    import sqlite3

Sql: TypeAlias = tuple[str, list[Any]]

_MANY, _DEEP = 200, 8  # SQLite gives up on expressions about five times as long, or as deep
_INT64 = 2**63


def keys_json(ids: Iterable[str]) -> str:
    """Write ids as one parameter for `json_each`, in their places.

    SQLite reads NUL as the end of a string: an id that holds one, and so is stored nowhere, becomes null.
    """
    return json.dumps([None if "\0" in each else each for each in ids])


def set_json(values: Iterable[str]) -> str:
    """Write a set of texts as one parameter for `IN (SELECT value FROM json_each(?))`."""
    return json.dumps([each for each in values if "\0" not in each])


def one_of(column: str, values: Sequence[str] | Sequence[int]) -> Sql:
    """Return the condition that a column holds one of these values, and its parameter."""
    texts = [each for each in values if isinstance(each, int) or "\0" not in each]
    return f"{column} IN (SELECT value FROM json_each(?))", [json.dumps(texts)]


def register_functions(connection: "sqlite3.Connection") -> None:
    """Make callable what compiled filters and `field_text` fall back to."""
    connection.create_function("airw_matches", 2, _matches, deterministic=True)
    connection.create_function("airw_field", 2, _field, deterministic=True)


def compile_filter(filter: Filter, column: str) -> Sql:
    """Return the condition, 0 or 1 and never NULL, that the metadata in `column` satisfies the filter.

    Args:
        filter: A parsed filter.
        column: A column that holds what `metadata_json` wrote, on a connection with `register_functions`.

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
    if _count(filter) > _MANY or _depth(filter) > _DEEP:
        return f"airw_matches({column}, ?)", [_dump(filter)]
    return _compile(filter, column)


def field_text(path: str, column: str) -> Sql:
    """Return the JSON text of a field, a literal key before a dotted path; NULL where there is none."""
    parts = path.split(".")
    if not all(map(_is_plain, parts)):
        return f"airw_field({column}, ?)", [json.dumps(path)]
    if len(parts) == 1:
        return f"{column} -> ?", [f'$."{path}"']
    return f"coalesce({column} -> ?, {column} -> ?)", [f'$."{path}"', "$" + "".join(f'."{part}"' for part in parts)]


def _is_plain(key: str) -> bool:
    """Return whether a JSON path can name the key: it knows no escapes, and no empty keys."""
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
            return _LEAVES[op](filter, column, operand)
        case And(parts) | Or(parts):
            tests = [_compile(part, column) for part in parts]
            word, empty = (" AND ", "1") if isinstance(filter, And) else (" OR ", "0")
            return f"({word.join(sql for sql, _ in tests) or empty})", [
                value for _, values in tests for value in values
            ]
        case Not(part):
            sql, values = _compile(part, column)
            return f"(NOT {sql})", values


def _on_field(leaf: Compare, column: str, test: str, parameters: Sequence[Any]) -> Sql:
    """Return `test` of the field's JSON text `j`, evaluated once a row; `test` may leave what is hard to `<leaf>`."""
    text, path = field_text(leaf.path, column)
    exact = """airw_matches('{"v":' || j || '}', ?)"""
    hard = [_dump(Compare("v", leaf.op, leaf.operand))] * test.count("<leaf>")
    return f"(SELECT coalesce({test.replace('<leaf>', exact)}, 0) FROM (SELECT {text} AS j))", [
        *parameters,
        *hard,
        *path,
    ]


def _exists(leaf: Compare, column: str, operand: Any) -> Sql:
    return _on_field(leaf, column, "j IS NOT NULL" if operand else "j IS NULL", [])


def _among(leaf: Compare, column: str, operand: Any) -> Sql:
    """`$eq`, `$ne`, `$in`, `$nin`: scalars by their spellings, lists and mappings by `matches`."""
    values = operand if leaf.op in ("$in", "$nin") else [operand]
    spellings = json.dumps([text for value in values for text in _spellings(value)])
    nested = leaf.op in ("$in", "$nin") or isinstance(operand, list | dict)
    test = "j IN (SELECT value FROM json_each(?))"
    if leaf.op in ("$ne", "$nin"):
        test = f"j IS NULL OR NOT {test}"
    # The parameter of `test` comes before those of <leaf>, which keeps parameters in the order of the text.
    if nested:
        test = f"CASE WHEN j IS NULL OR substr(j, 1, 1) NOT IN ('[', '{{') THEN {test} ELSE <leaf> END"
    return _on_field(leaf, column, test, [spellings])


def _spellings(value: Any) -> list[str]:
    """Return every JSON text of a scalar that equals the value in Python; none for lists and mappings."""
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


def _order(leaf: Compare, column: str, operand: Any) -> Sql:
    sign = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}[leaf.op]
    if isinstance(operand, str) and find_text_fault(operand) is None:
        # SQLite reads \u0000 as the end of a string.
        test = f"""CASE WHEN substr(j, 1, 1) <> '"' THEN 0
            WHEN instr(j, '\\u0000') = 0 THEN json_extract(j, '$') {sign} ? ELSE <leaf> END"""
        return _on_field(leaf, column, test, [operand])
    if isinstance(operand, int | float) and abs(operand) < _INT64:
        # SQLite compares integers exactly, but may read a fraction one bit off: close ones go to `matches`.
        test = f"""CASE WHEN substr(j, 1, 1) IN ('"', '[', '{{', 'n') THEN 0
            WHEN typeof(json_extract(j, '$')) = 'integer'
                OR abs(json_extract(j, '$') - ?) > 1e-9 * (abs(json_extract(j, '$')) + abs(?)) + 1e-300
            THEN json_extract(j, '$') {sign} ? ELSE <leaf> END"""
        return _on_field(leaf, column, test, [operand, operand, operand])
    return _on_field(leaf, column, "<leaf>", [])


def _contains(leaf: Compare, column: str, operand: Any) -> Sql:
    if not isinstance(operand, str):
        return _on_field(leaf, column, "substr(j, 1, 1) = '[' AND <leaf>", [])
    # Escapes aside, a string is its JSON text; with them that text still holds the operand's.
    body = json.dumps(operand, ensure_ascii=False)[1:-1]
    if find_text_fault(body) is not None:
        return _on_field(leaf, column, "<leaf>", [])
    test = (
        """CASE WHEN instr(j, ?) = 0 THEN 0 WHEN substr(j, 1, 1) = '"' AND instr(j, '\\') = 0 THEN 1 ELSE <leaf> END"""
    )
    return _on_field(leaf, column, test, [body])


_LEAVES: dict[str, Callable[[Compare, str, Any], Sql]] = {
    "$exists": _exists,
    "$contains": _contains,
    **dict.fromkeys(("$eq", "$ne", "$in", "$nin"), _among),
    **dict.fromkeys(("$gt", "$gte", "$lt", "$lte"), _order),
}


def _dump(filter: Filter) -> str:
    return json.dumps(_syntax(filter))


def _syntax(filter: Filter) -> dict[str, Any]:
    match filter:
        case Compare(path, op, operand):
            return {path: {op: operand}}
        case And(parts) | Or(parts):
            return {"$and" if isinstance(filter, And) else "$or": [_syntax(part) for part in parts]}
        case Not(part):
            return {"$not": _syntax(part)}


@lru_cache(maxsize=64)
def _load(filter: str) -> Filter | None:
    return parse_filter(json.loads(filter))


def _matches(metadata: str | None, filter: str) -> bool | None:
    return None if metadata is None else matches(_load(filter), json.loads(metadata))


def _field(metadata: str, path: str) -> str | None:
    value = get_field(json.loads(metadata), json.loads(path))
    return None if value is MISSING else metadata_json(value)
