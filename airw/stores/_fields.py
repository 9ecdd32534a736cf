"""Which artifacts hold which value in a field: indexes in memory, one for each field that was asked for."""

import json
from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from airw._base.json import json_clean
from airw.stores._recent import recall
from airw.stores._sql_filter import field_text
from airw.values.filters import as_key, held_keys

if TYPE_CHECKING:
    import sqlite3

__all__ = ["FieldIndex", "FollowedField", "look_up", "matching"]

_BLOCK = 512  # rows read at a time


class FieldIndex:
    """Which artifacts hold a value in one field; the work of a change grows with the values it touches.

    Example:
        >>> index = FieldIndex()
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
        """Give the artifacts, sorted, whose value equals this one or is a list that holds it; not to be changed."""
        key = as_key(json_clean(value))
        if key not in self._holders:
            return ()
        if key not in self._sorted:
            self._sorted[key] = sorted(self._holders[key])
            self._holders[key] = dict.fromkeys(self._sorted[key])  # the next sort finds all but what is new in order
        return self._sorted[key]

    def count(self, value: Any) -> int:
        """Count the artifacts whose value equals this one or is a list that holds it."""
        return len(self._holders.get(as_key(json_clean(value)), ()))


def look_up(
    index_of: Callable[[str], FieldIndex], wanted: Sequence[tuple[str, Any]], limit: int | None
) -> list[list[str]]:
    """Give for each field and value the artifacts that hold it; each field is asked for once."""
    indexes = {field: index_of(field) for field in dict.fromkeys(field for field, _ in wanted)}
    return [list(indexes[field].holders(value)[:limit]) for field, value in wanted]


class FollowedField:
    """Follows one field of the records in a file; one user at a time.

    The work of following grows with what changed, not with the corpus. It may be interrupted at any statement: what was
    read counts, and the next call reads on.
    """

    def __init__(self, field: str) -> None:
        self._field = field
        self._forget()

    def _forget(self) -> None:
        self._index = FieldIndex()
        self._artifacts: dict[str, str] = {}  # of one record each: artifacts leave with all of their records
        self._record = self._gone = 0

    def follow(self, connection: "sqlite3.Connection") -> FieldIndex:
        """Give the index of the file's present state."""
        oldest, newest = connection.execute(
            "SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)"  # one of them at a time reads no table
        ).fetchone()
        # Tombstones are forgotten in time; whoever missed some starts again.
        if not self._record or (oldest or 0) > self._gone + 1:
            self._forget()
        else:
            gone = connection.execute("SELECT record_id FROM gone WHERE seq > ?", [self._gone]).fetchall()
            for artifact_id in [self._artifacts.pop(record_id, None) for (record_id,) in gone]:
                if artifact_id is not None:
                    self._index.discard(artifact_id)
        self._gone = newest or self._gone
        self._read_on(connection)
        return self._index

    def _read_on(self, connection: "sqlite3.Connection") -> None:
        text, parameters = field_text(self._field, "metadata")
        rows = connection.execute(
            f"SELECT rowid, id, artifact_id, {text} FROM record WHERE rowid > ? ORDER BY rowid",
            [*parameters, self._record],
        )
        while block := rows.fetchmany(_BLOCK):
            for artifact_id, records in groupby(block, itemgetter(2)):
                values = {value: record_id for _, record_id, _, value in records if value is not None}
                for value, record_id in values.items():
                    self._artifacts[record_id] = artifact_id
                    self._index.add(artifact_id, json.loads(value))
            self._record = block[-1][0]


def matching(
    connection: "sqlite3.Connection",
    known: dict[str, FollowedField],
    wanted: Sequence[tuple[str, Any]],
    limit: int | None,
) -> list[list[str]]:
    """Give for each field and value the artifacts, sorted, that hold it in the file's present state."""
    return look_up(lambda field: recall(known, field, FollowedField).follow(connection), wanted, limit)
