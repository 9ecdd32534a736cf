"""The edges of a file in memory, kept up to date with its changes."""

from collections.abc import Iterator, Sequence
from functools import partial
from sys import intern
from threading import Lock
from typing import TYPE_CHECKING

from airw._base.slices import consume_in_slices, sort_in_slices
from airw.protocols import EdgeLabel, EdgeRow, Edges
from airw.stores._indexes.adjacency import Adjacency
from airw.stores.sqlite._field_sql import set_json
from airw.stores.sqlite._links import EdgeGroup, read_edge_groups
from airw.stores.sqlite._watch import FileVersion
from airw.values import ArtifactRef, Direction, NodeId

if TYPE_CHECKING:
    import sqlite3

_QUICK_EDGES = 10_000  # looking at the ends of so many takes about half a millisecond
_MAX_CHANGES = 1_000  # changed artifacts; if there are more, all rows are read again


class LinkIndex:
    """The edges of the artifacts that were asked about.

    An update takes time in proportion to the changes: rows that a write has changed are dropped, and read again when
    they are next asked for. It may be interrupted at any statement; the next call continues there.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._adjacency = Adjacency()
        self._last = -1  # the last row of the table `link_change` that was read
        self._version: FileVersion | None = None  # nothing is out of date as long as this is the file's

    def clear(self) -> None:
        """Forget all edges, as the file is another one."""
        with self._lock:
            self._adjacency.clear()
            self._last, self._version = -1, None

    @property
    def is_used(self) -> bool:
        """Return whether edges were read before."""
        return self._last >= 0

    def find_at_once(self, request: Edges, version: FileVersion | None) -> list[EdgeRow] | None:
        """Return these edges if that is quick and the file has this version; else `None`."""
        if version is None or version != self._version or not self._lock.acquire(blocking=False):
            return None
        try:
            adjacency, ids, direction = self._adjacency, request.ids, request.direction
            if adjacency.list_missing(ids, direction) or adjacency.count(ids, direction) > _QUICK_EDGES:
                return None
            return adjacency.find(ids, direction, request.links, request.limit)
        finally:
            self._lock.release()

    def read(self, connection: "sqlite3.Connection", request: Edges, version: FileVersion | None) -> list[EdgeRow]:
        """Return these edges in the snapshot of the connection; the caller holds the lock.

        Args:
            connection: A connection whose snapshot is not older than that of the last call.
            request: What is asked.
            version: A version of the file that is not newer than the snapshot; `None` if unknown.
        """
        self._update(connection)
        self._version = version
        ids, direction = request.ids, request.direction
        self._adjacency.read_missing(ids, direction, partial(self._read_rows, connection, direction))
        return self._adjacency.find(ids, direction, request.links, request.limit)

    def _update(self, connection: "sqlite3.Connection") -> None:
        """Drop the rows that have changed since the last call."""
        oldest, newest = connection.execute(
            "SELECT (SELECT coalesce(min(seq), 0) FROM link_change), (SELECT coalesce(max(seq), 0) FROM link_change)"
        ).fetchone()
        if newest == self._last:
            return
        # The oldest changes are deleted from time to time. Whoever has missed one must start again.
        is_known = oldest - 1 <= self._last < newest
        if not is_known or not self._drop_changed(connection, self._last):
            self._adjacency.clear()
        self._last = newest

    def _drop_changed(self, connection: "sqlite3.Connection", after: int) -> bool:
        """Drop the rows of changed artifacts; return False if these are unknown or too many."""
        rows = connection.execute(
            "SELECT DISTINCT artifact_id FROM link_change WHERE seq > ? LIMIT ?", [after, _MAX_CHANGES + 1]
        )
        changed = [id for (id,) in rows]
        if len(changed) > _MAX_CHANGES or not all(isinstance(id, str) for id in changed):
            return False
        ends = connection.execute(
            "SELECT DISTINCT target FROM link WHERE target IS NOT NULL AND artifact_id IN "
            "(SELECT value FROM json_each(?))",
            [set_json(changed)],
        )
        self._adjacency.drop_changed(changed, [id for (id,) in ends])
        return True

    def _read_rows(
        self, connection: "sqlite3.Connection", direction: Direction, ids: Sequence[str]
    ) -> Iterator[EdgeRow]:
        groups = read_edge_groups(connection, ids, direction)
        return (self._make_row(id, groups.get(id, ())) for id in ids)

    def _make_row(self, id: str, groups: Sequence[EdgeGroup]) -> EdgeRow:
        """Return the edges of one artifact, ordered by type, then by the other artifact."""
        # Most artifacts have links of one type only: a shorter path for these.
        if len(groups) == 1 and not groups[0].corpus:
            [group] = groups
            return EdgeRow(id, tuple(map(intern, sort_in_slices(group.ends))), (self._label(group),) * len(group.ends))
        nodes, labels = list[NodeId](), list[EdgeLabel]()
        for _, corpus, end, *_, number in consume_in_slices(sort_in_slices(self._list_entries(groups))):
            nodes.append(ArtifactRef(corpus[1:], end) if corpus else intern(end))
            labels.append(self._label(groups[number]))
        return EdgeRow(id, tuple(nodes), tuple(labels))

    def _list_entries(self, groups: Sequence[EdgeGroup]) -> Iterator[tuple[str, str, str, bool, str, int]]:
        """Yield one tuple per edge, which sorts as edges do; the place of its group is last."""
        for number, group in enumerate(groups):
            for end in group.ends:
                yield group.type, group.corpus, end, group.is_incoming, group.origin, number

    def _label(self, group: EdgeGroup) -> EdgeLabel:
        label = EdgeLabel(group.type, group.origin, group.is_incoming, bool(group.corpus), group.weight)
        return self._adjacency.keep_label(label)
