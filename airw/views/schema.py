"""The JSON Schemas of what is printed of walks and paths."""

from functools import cache
from typing import Any

__all__ = ["path_schema", "tree_schema"]


def tree_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of `WalkTree.to_dict()`.

    Example:
        >>> tree_schema()["properties"]["truncated"]["type"]
        'boolean'
    """
    return _loaded("link-tree.schema.json")


def path_schema() -> dict[str, Any]:
    """Give the JSON Schema (draft 2020-12) of `path_dict(…)`.

    Example:
        >>> path_schema()["properties"]["found"]["type"]
        'boolean'
    """
    return _loaded("link-path.schema.json")


def _loaded(name: str) -> dict[str, Any]:
    import json

    schema: dict[str, Any] = json.loads(_text(name))
    return schema


@cache
def _text(name: str) -> str:
    from importlib.resources import files

    return (files("airw.views") / name).read_text(encoding="utf-8")
