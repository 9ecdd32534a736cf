"""Which artifacts hold which value in a field."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from airw._base.json import json_clean
from airw.values.filters import as_key, held_keys


class ValueIndex:
    """Which artifacts hold a value in one field; the work of a change grows with the values it touches.

    Example:
        >>> index = ValueIndex()
        >>> index.add("b", ["x", "y"])
        >>> index.add("a", "x")
        >>> index.holders("x")
        ['a', 'b']
    """

    def __init__(self) -> None:
        self._held: dict[str, set[Hashable]] = {}  # artifact -> what it holds
        self._holders: dict[Hashable, dict[str, None]] = {}  # value -> artifacts, in order as far as they were sorted
        self._sorted: dict[Hashable, list[str]] = {}  # the same of values asked for and not changed since

    def add(self, artifact_id: str, value: Any) -> None:
        """Take in the field's value, JSON-clean, in one more record of an artifact."""
        held = self._held.setdefault(artifact_id, set())
        for key in held_keys(value) - held:
            held.add(key)
            self._holders.setdefault(key, {})[artifact_id] = None
            self._sorted.pop(key, None)

    def discard(self, artifact_id: str) -> None:
        """Forget an artifact, with all of its records."""
        for key in self._held.pop(artifact_id, ()):
            self._sorted.pop(key, None)
            del self._holders[key][artifact_id]
            if not self._holders[key]:
                del self._holders[key]

    def holders(self, value: Any) -> Sequence[str]:
        """Return the artifacts, sorted, whose value equals this one or is a list that holds it; not to be changed."""
        key = as_key(json_clean(value))
        if key not in self._holders:
            return ()
        if key not in self._sorted:
            self._sorted[key] = sorted(self._holders[key])
            self._holders[key] = dict.fromkeys(self._sorted[key])  # the next sort finds all but what is new in order
        return self._sorted[key]

    def count(self, value: Any) -> int:
        """Return how many artifacts have this value, or a list that holds it."""
        return len(self._holders.get(as_key(json_clean(value)), ()))


def find_holders(
    index_of: Callable[[str], ValueIndex], wanted: Sequence[tuple[str, Any]], limit: int | None
) -> list[list[str]]:
    """Return for each field and value the artifacts that hold it; each field is asked for once."""
    indexes = {field: index_of(field) for field in dict.fromkeys(field for field, _ in wanted)}
    return [list(indexes[field].holders(value)[:limit]) for field, value in wanted]
