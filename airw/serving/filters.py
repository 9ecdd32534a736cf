"""Conditions of clients on metadata, which must not find out what answers hide."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import Any

from airw._base.messages import short_repr
from airw.errors import FilterError
from airw.serving.paths import MESSAGE_KEYS, PATH_KEYS, hide_paths
from airw.values.filters import And, Compare, Filter, Not, Or, parse_filter

_PARTIAL = frozenset({"$contains", "$gt", "$gte", "$lt", "$lte"})
# To `source`, loaders of files write where a text came from. Of a message, only the paths in it are hidden.
_WHOLE_FIELDS = PATH_KEYS | MESSAGE_KEYS | {"source"}


def guard_filter(filter: Mapping[str, Any] | Filter | None, folders: Sequence[PurePath] = ()) -> Filter | None:
    """Return a filter that cannot find out a path of this machine, parsed.

    Each search would tell whether a guess is right, so a client could guess letter by letter. Therefore fields that
    contain paths are compared as a whole only, and no field with what an answer would not show. A condition on a part
    of any other field matches no record in which this field has a path that answers hide.

    Args:
        filter: The filter of a client.
        folders: Absolute folders whose structure a client may see.

    Raises:
        FilterError: If it is malformed, or compares with what an answer never shows.

    Example:
        >>> guard_filter({"path": {"$contains": "home"}})
        Traceback (most recent call last):
            ...
        airw.errors.FilterError: filter must compare 'path' as a whole here, by $eq or $in, as it may be a hidden path
    """
    parsed, guarded = parse_filter(filter), dict[str, Filter]()
    for condition in _list_conditions(parsed):
        path = condition.path
        if isinstance(condition.operand, str) and condition.op in _PARTIAL:
            if not _WHOLE_FIELDS.isdisjoint({path, path.rpartition(".")[2]}):
                raise FilterError(
                    f"filter must compare {short_repr(path)} as a whole here, by $eq or $in, as it may be a hidden path"
                )
            guarded[path] = Not(_has_path(path, folders))
        if not is_shown(path, condition.operand, folders):
            raise FilterError(
                f"filter must not compare {short_repr(path)} with a path of the server: answers hide them"
            )
    return parsed if parsed is None or not guarded else And((parsed, *guarded.values()))


def _has_path(field: str, folders: Sequence[PurePath]) -> Filter:
    """Return the condition that a field is a text that `hide_paths` may shorten."""
    with os.scandir("/") as entries:
        tops = [entry.path for entry in entries if entry.is_dir()]
    starts = [top if PurePath(top) in folders else f"{top}/" for top in tops]
    # All texts with one beginning are those from it up to the next text of its length.
    beginnings = [
        And((Compare(field, "$gte", start), Compare(field, "$lt", f"{start[:-1]}{chr(ord(start[-1]) + 1)}")))
        for start in (*starts, "file:/", "\\\\")
    ]
    # Windows writes C:\ or C:/, which is no address such as http://.
    drives = And((Compare(field, "$contains", ":/"), Not(Compare(field, "$contains", "://"))))
    return Or((*beginnings, Compare(field, "$contains", ":\\"), drives))


def is_shown(field: str, value: Any, folders: Sequence[PurePath] = ()) -> bool:
    """Return whether an answer would show this value of a field as it is.

    Example:
        >>> is_shown("path", "team/a.md"), is_shown("path", "/srv/notes/team/a.md")
        (True, False)
    """
    # With dots, it is a name or a way into nested fields.
    fields = {"metadata": dict.fromkeys({field, *field.split(".")}, value)}
    return bool(hide_paths(fields, folders) == fields)


def _list_conditions(filter: Filter | None) -> Iterator[Compare]:
    match filter:
        case Compare():
            yield filter
        case Not(part):
            yield from _list_conditions(part)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _list_conditions(part)
