"""An index from the values of a field to artifacts."""

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from airw._base.json import json_clean
from airw._base.slices import sort_in_slices
from airw.values.filters import as_key, index_keys


class ValueIndex:
    """The artifacts of each value of one field.

    A change takes time in proportion to the values of its artifact.

    Example:
        >>> index = ValueIndex()
        >>> index.add("b", ["x", "y"])
        >>> index.add("a", "x")
        >>> index.find_artifacts("x")
        ['a', 'b']
    """

    def __init__(self) -> None:
        self._values: dict[str, set[Hashable]] = {}  # artifact -> its values
        self._artifacts: dict[Hashable, dict[str, None]] = {}  # value -> artifacts; a dict, to keep them nearly sorted
        self._sorted: dict[Hashable, list[str]] = {}  # value -> sorted artifacts, until the next change of the value

    def add(self, artifact_id: str, value: Any) -> None:
        """Add the value of the field in one record of an artifact; it must be JSON-clean."""
        keys = self._values.setdefault(artifact_id, set())
        for key in index_keys(value) - keys:
            keys.add(key)
            self._artifacts.setdefault(key, {})[artifact_id] = None
            self._sorted.pop(key, None)

    def discard(self, artifact_id: str) -> None:
        """Remove an artifact with all of its records."""
        for key in self._values.pop(artifact_id, ()):
            self._sorted.pop(key, None)
            del self._artifacts[key][artifact_id]
            if not self._artifacts[key]:
                del self._artifacts[key]

    def find_artifacts(self, value: Any) -> Sequence[str]:
        """Return the artifacts whose value equals this one, or is a list that contains it, sorted.

        The caller must not change the result.
        """
        key = as_key(json_clean(value))
        if key not in self._artifacts:
            return ()
        if key not in self._sorted:
            self._sorted[key] = sort_in_slices(self._artifacts[key])
            # Keep the order, so that the next sort finds all artifacts sorted except the new ones.
            self._artifacts[key] = dict.fromkeys(self._sorted[key])
        return self._sorted[key]

    def count_artifacts(self, value: Any) -> int:
        """Return the number of artifacts with this value, or with a list that contains it."""
        return len(self._artifacts.get(as_key(json_clean(value)), ()))


def match_values(
    index_of: Callable[[str], ValueIndex], wanted: Sequence[tuple[str, Any]], limit: int | None
) -> list[list[str]]:
    """Return the artifacts with each field and value, calling `index_of` once per field."""
    indexes = {field: index_of(field) for field in dict.fromkeys(field for field, _ in wanted)}
    return [list(indexes[field].find_artifacts(value)[:limit]) for field, value in wanted]
