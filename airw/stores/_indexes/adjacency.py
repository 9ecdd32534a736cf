"""The edges of artifacts in memory, each row made once.

An answer is a list of these rows: no edge is copied, and no object is made for it.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from sys import intern
from typing import Any, TypeAlias

from airw._base.slices import empty_in_slices, iterate_slices
from airw.protocols import ALL_LINKS, EdgeLabel, EdgeRow
from airw.values import DIRECTIONS, Direction, Link, LinkFilter, NodeId

RowReader: TypeAlias = Callable[[list[str]], Iterable[EdgeRow]]
"""A function that returns the row of each artifact."""

_MAX_EDGES = 1 << 23  # of one direction: 128 MiB
_ROW = 16  # a row without edges takes as much memory as so many


class Adjacency:
    """The edges of a store in memory: a row per artifact and direction.

    A row is read when it is first asked for, and a store drops the rows that a write has changed. Memory is bounded.
    Not for two threads at the same time.

    Example:
        >>> adjacency = Adjacency()
        >>> label = adjacency.keep_label(EdgeLabel("REF", "inline", False, False))
        >>> rows = {"a": EdgeRow("a", ("b", "c"), (label, label))}
        >>> adjacency.read_missing(["a"], "out", lambda ids: [rows[id] for id in ids])
        >>> adjacency.find(["a"], "out", ALL_LINKS, limit=1)
        [[Edge(source='a', target='b', type='REF', origin='inline')]]
    """

    def __init__(self) -> None:
        self._rows: dict[Direction, dict[Any, EdgeRow]] = {direction: {} for direction in DIRECTIONS}
        self._sizes: dict[Direction, int] = dict.fromkeys(DIRECTIONS, 0)  # of rows that were dropped, too
        self._labels: dict[EdgeLabel, EdgeLabel] = {}

    def keep_label(self, label: EdgeLabel) -> EdgeLabel:
        """Return an equal label that all rows share."""
        return self._labels.setdefault(label, label)

    def list_missing(self, ids: Iterable[Any], direction: Direction) -> list[str]:
        """Return the artifacts whose rows are not in memory, once each."""
        rows = self._rows[direction]
        # Artifacts of other corpora have no edges here.
        return [intern(str(id)) for id in dict.fromkeys(ids) if isinstance(id, str) and id not in rows]

    def count(self, ids: Iterable[Any], direction: Direction) -> int:
        """Return the number of edges in the rows of these artifacts that are in memory."""
        return sum(len(self._rows[direction].get(id, ())) for id in ids)

    def read_missing(self, ids: Sequence[Any], direction: Direction, read_rows: RowReader) -> None:
        """Add the rows that are missing, which `read_rows` returns for the ids of artifacts."""
        rows = self._rows[direction]
        # Before the missing rows are found, as all that are needed must be there at once.
        if self._sizes[direction] > _MAX_EDGES:
            self._clear(direction)
        for part in iterate_slices(self.list_missing(ids, direction)):
            for id, row in zip(part, read_rows(part), strict=True):
                rows[id] = row
                self._sizes[direction] += len(row) + _ROW

    def find(self, ids: Iterable[Any], direction: Direction, links: LinkFilter, limit: int | None) -> list[EdgeRow]:
        """Return the edges of these artifacts, all of whose rows must be there."""
        rows = self._rows[direction]
        found = [rows[id] if isinstance(id, str) else EdgeRow(id, (), ()) for id in ids]
        if links == ALL_LINKS and limit is None:
            return found

        @cache
        def accepts(label: EdgeLabel) -> bool:
            return links.accepts(Link("", label.type, label.origin))

        return [row.select(accepts, limit) for row in found]

    def clear(self) -> None:
        """Forget all rows."""
        for direction in DIRECTIONS:
            self._clear(direction)

    def _clear(self, direction: Direction) -> None:
        rows, self._rows[direction], self._sizes[direction] = self._rows[direction], {}, 0
        empty_in_slices(rows)

    def drop_changed(self, ids: Iterable[str], ends: Iterable[NodeId]) -> None:
        """Forget the rows of artifacts whose links have changed, and of all that these lead to.

        Args:
            ids: The artifacts whose links have changed.
            ends: The artifacts to which their links lead now. Those to which they led before are found here.
        """
        changed = {*ids}
        for id in changed:
            self._rows["out"].pop(id, None)
        for direction in DIRECTIONS[1:]:
            rows = self._rows[direction]
            met = [id for id, row in rows.items() if not changed.isdisjoint(row.ends)]
            for id in {*changed, *ends, *met}:
                rows.pop(id, None)
