"""The edges of a file in memory, kept up to date with its changes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

from airw._base.slices import consume_in_slices, sort_in_slices
from airw.protocols import NeighborColumns
from airw.stores._indexes.adjacency import Adjacency, EdgeRow, Numbers
from airw.stores.sqlite._filter_sql import set_json
from airw.stores.sqlite._links import EdgeGroup, read_edge_groups
from airw.stores.sqlite._watch import FileVersion
from airw.values import ArtifactRef, Direction, LinkFilter, NodeId

if TYPE_CHECKING:
    import sqlite3

_QUICK_EDGES = 5_000  # edges that are gathered in a fraction of a millisecond
_MAX_CHANGES = 1_000  # changed artifacts; if there are more, all rows are read again


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class EdgeRequest:
    """What is asked about edges; see `Edges`.

    Args:
        nodes: The artifacts.
        direction: The direction.
        links: The links that count.
        limit: The largest number of edges per artifact.
    """

    nodes: Sequence[str]
    direction: Direction
    links: LinkFilter
    limit: int | None


class LinkIndex:
    """The edges of the artifacts that were asked about, and the numbers of all that were met.

    An update takes time in proportion to the changes: rows that a write has changed are dropped, and read again when
    they are next asked for. It may be interrupted at any statement; the next call continues there.
    """

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._adjacency = Adjacency()
        self._last = -1  # the last row of the table `link_change` that was read
        self._version: FileVersion | None = None  # nothing is out of date as long as this is the file's

    def clear(self) -> None:
        """Forget all edges, as the file is another one; numbers stay."""
        with self._lock:
            self._adjacency.clear_rows()
            self._last, self._version = -1, None

    @property
    def is_used(self) -> bool:
        """Return whether edges were read before."""
        return self._last >= 0

    def find_numbers(self, nodes: Sequence[str]) -> Numbers | None:
        """Return the numbers of these artifacts; `None` if one of them was never met."""
        numbers = self._adjacency.nodes.find(nodes)
        return numbers if numbers.min(initial=0) >= 0 else None

    def number(self, connection: "sqlite3.Connection", nodes: Sequence[str]) -> Numbers:
        """Return the numbers of these artifacts, -1 for an id that was never in the file."""
        known = self._adjacency.nodes
        unknown = [id for id in nodes if id not in known]
        if unknown:
            rows = connection.execute(
                "SELECT id FROM artifact WHERE id IN (SELECT value FROM json_each(?))", [set_json(unknown)]
            )
            known.add([id for (id,) in rows])
        return known.find(nodes)

    def gather_at_once(self, request: EdgeRequest, version: FileVersion | None) -> NeighborColumns | None:
        """Return these edges if that is quick and the file has this version; else `None`."""
        if version is None or version != self._version or not self._lock.acquire(blocking=False):
            return None
        try:
            numbers = self.find_numbers(request.nodes)
            adjacency, direction = self._adjacency, request.direction
            count = None if numbers is None else adjacency.count_if_present(direction, numbers)
            if numbers is None or count is None or count > _QUICK_EDGES:
                return None
            return adjacency.gather(direction, numbers, request.links, request.limit)
        finally:
            self._lock.release()

    def read(
        self, connection: "sqlite3.Connection", request: EdgeRequest, version: FileVersion | None
    ) -> NeighborColumns:
        """Return these edges in the snapshot of the connection; the caller holds the lock.

        Args:
            connection: A connection whose snapshot is not older than that of the last call.
            request: What is asked.
            version: A version of the file that is not newer than the snapshot; `None` if unknown.
        """
        self._update(connection)
        self._version = version
        numbers, direction = self.number(connection, request.nodes), request.direction
        self._adjacency.read_missing(direction, numbers, partial(self._read_rows, connection, direction))
        return self._adjacency.gather(direction, numbers, request.links, request.limit)

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
            self._adjacency.clear_rows()
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
        return (self._make_row(groups.get(id, ())) for id in ids)

    def _make_row(self, groups: Sequence[EdgeGroup]) -> EdgeRow:
        """Return the edges of one artifact, ordered by type, then by the other artifact."""
        # Most artifacts have links of one type only: a shorter path for these.
        if len(groups) == 1 and not groups[0].corpus:
            [group] = groups
            return sort_in_slices(group.ends), [self._number_label(group)] * len(group.ends)
        nodes, labels = list[NodeId](), list[int]()
        for _, corpus, end, _, _, label in consume_in_slices(sort_in_slices(self._list_entries(groups))):
            nodes.append(ArtifactRef(corpus[1:], end) if corpus else end)
            labels.append(label)
        return nodes, labels

    def _list_entries(self, groups: Sequence[EdgeGroup]) -> Iterator[tuple[str, str, str, bool, str, int]]:
        """Yield one tuple per edge, which sorts as edges do; its last item numbers the label."""
        for group in groups:
            label = self._number_label(group)
            for end in group.ends:
                yield group.type, group.corpus, end, group.is_incoming, group.origin, label

    def _number_label(self, group: EdgeGroup) -> int:
        is_foreign = bool(group.corpus)
        return self._adjacency.number_label(
            group.type, group.origin, group.weight, is_incoming=group.is_incoming, is_foreign=is_foreign
        )
