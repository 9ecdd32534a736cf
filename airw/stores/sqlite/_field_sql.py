"""Ids and fields of metadata in SQL statements."""

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from airw._base.fairness import hand_over
from airw._base.slices import dump_in_slices
from airw.stores._changes import metadata_json
from airw.values.filters import MISSING, get_field

if TYPE_CHECKING:
    import sqlite3

Sql: TypeAlias = tuple[str, list[Any]]


def keys_json(texts: Iterable[object]) -> str:
    """Return texts as one parameter for `json_each`, in order.

    SQLite reads NUL as the end of a text. So a text with NUL, which no store contains, becomes null, as does a pair
    that names an artifact of another corpus.
    """
    return dump_in_slices(text if isinstance(text, str) and "\0" not in text else None for text in texts)


def register_functions(connection: "sqlite3.Connection") -> None:
    """Register the function to which `compile_field` falls back."""
    connection.create_function("airw_field", 2, _read_field, deterministic=True)


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


def _read_field(metadata: str, path: str) -> str | None:
    hand_over()
    value = get_field(json.loads(metadata), json.loads(path))
    return None if value is MISSING else metadata_json(value)
