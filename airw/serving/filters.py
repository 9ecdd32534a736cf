"""Conditions of clients on metadata, which must not find out what answers hide."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from airw._base.messages import short_repr
from airw.errors import FilterError
from airw.serving.paths import PATH_KEYS, hide_paths
from airw.values.filters import And, Compare, Filter, Not, Or, parse_filter

_PARTIAL = frozenset({"$contains", "$gt", "$gte", "$lt", "$lte"})
_PATH_FIELDS = PATH_KEYS | {"source"}  # to which loaders of files write where a text came from


def check_conditions(filter: Mapping[str, Any] | Filter | None, folders: Sequence[PurePath] = ()) -> None:
    """Refuse a filter that could find out a path of this machine.

    Each search would tell whether a guess is right, so a client could guess letter by letter. Therefore fields that
    contain paths are compared as a whole only, and no field with what an answer would not show.

    Args:
        filter: The filter of a client.
        folders: Absolute folders whose structure a client may see.

    Raises:
        FilterError: If it is malformed, or compares with what an answer never shows.

    Example:
        >>> check_conditions({"path": {"$contains": "home"}})
        Traceback (most recent call last):
            ...
        airw.errors.FilterError: filter must compare 'path' as a whole here, by $eq or $in, as it may be a hidden path
    """
    for condition in _list_conditions(parse_filter(filter)):
        path = condition.path
        is_text = isinstance(condition.operand, str)
        if is_text and condition.op in _PARTIAL and not _PATH_FIELDS.isdisjoint(_names_of(path)):
            raise FilterError(
                f"filter must compare {short_repr(path)} as a whole here, by $eq or $in, as it may be a hidden path"
            )
        if not is_shown(path, condition.operand, folders):
            raise FilterError(
                f"filter must not compare {short_repr(path)} with a path of the server: answers hide them"
            )


def is_shown(field: str, value: Any, folders: Sequence[PurePath] = ()) -> bool:
    """Return whether an answer would show this value of a field as it is.

    Example:
        >>> is_shown("path", "team/a.md"), is_shown("path", "/srv/notes/team/a.md")
        (True, False)
    """
    fields = {"metadata": dict.fromkeys(_names_of(field), value)}
    return bool(hide_paths(fields, folders) == fields)


def _names_of(field: str) -> set[str]:
    """Return the names that a field may have: with dots, a way into nested fields or one."""
    return {field, field.rpartition(".")[2]}


def _list_conditions(filter: Filter | None) -> Iterator[Compare]:
    match filter:
        case Compare():
            yield filter
        case Not(part):
            yield from _list_conditions(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _list_conditions(part)
