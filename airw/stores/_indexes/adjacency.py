"""The edges of artifacts in memory, as rows of numbers.

The neighbours of many artifacts are one gather from these rows. No object is made for an edge.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.lru import LruCache
from airw._base.slices import iterate_slices
from airw.protocols import EdgeLabel, NeighborColumns
from airw.values import DIRECTIONS, Direction, Link, LinkFilter, NodeId

Numbers: TypeAlias = NDArray[np.int64]

EdgeRow: TypeAlias = tuple[Sequence[NodeId], Sequence[int]]
"""The edges of one artifact in the order of `neighbors`: the other ends, and the numbers of the labels."""

RowReader: TypeAlias = Callable[[list[str]], Iterable[EdgeRow]]
"""A function that returns the edges of each artifact."""

_ABSENT = -1  # the start of a row that is not in memory
_MAX_EDGES = 1 << 24  # of one direction: 128 MiB
_CACHED_FILTERS = 32  # link filters whose accepted labels are kept
_MIN_WASTE = 1 << 16  # entries of dropped rows that are left in place


class NodeNumbers:
    """Numbers of nodes in order of their first appearance; they are never used again.

    Example:
        >>> numbers = NodeNumbers()
        >>> numbers.add(["b", "a", "b"]), numbers.find(["a", "c"]).tolist(), numbers.nodes
        ([0, 1, 0], [1, -1], ['b', 'a'])
    """

    def __init__(self) -> None:
        self.nodes: list[NodeId] = []
        self._numbers: dict[NodeId, int] = {}

    def __contains__(self, node: NodeId) -> bool:
        return node in self._numbers

    def find(self, nodes: Sequence[NodeId]) -> Numbers:
        """Return the number of each node, or -1."""
        get = self._numbers.get
        return np.array([get(node, -1) for node in nodes], np.int64)

    def add(self, nodes: Sequence[NodeId]) -> list[int]:
        """Return the number of each node; a new node gets the next one."""
        numbers = self._numbers
        new = dict.fromkeys(node for node in nodes if node not in numbers)
        # The nodes come first: another thread may look up any number that it finds.
        first = len(self.nodes)
        self.nodes.extend(new)
        numbers.update(zip(new, range(first, len(self.nodes)), strict=True))
        return [numbers[node] for node in nodes]


class EdgeRows:
    """The edges of some artifacts in one direction.

    All entries stand in two long columns; each artifact has a start and a count there. A row that is read again is
    appended, and the old one is left in place until most entries are such waste.
    """

    def __init__(self) -> None:
        self._reset()

    def clear(self) -> None:
        """Forget all rows."""
        # A write of many artifacts calls this for each.
        if len(self._starts) > 1 or self._starts[0] != _ABSENT:
            self._reset()

    def _reset(self) -> None:
        # One entry per number, and at least one, so that -1 is a valid position.
        self._starts: Numbers = np.full(1, _ABSENT, np.int64)
        self._counts: Numbers = np.zeros(1, np.int64)
        # One entry per edge.
        self._ends: NDArray[np.int32] = np.empty(0, np.int32)
        self._labels: NDArray[np.int32] = np.empty(0, np.int32)
        self.size = 0
        self._waste = 0  # entries of rows that were dropped

    def find_missing(self, numbers: Numbers) -> Numbers:
        """Return the distinct numbers without a row; negative numbers need none."""
        known = numbers[(numbers >= 0) & (numbers < len(self._starts))]
        beyond = numbers[numbers >= len(self._starts)]
        missing = known[self._starts[known] == _ABSENT]
        return np.array(sorted({*missing.tolist(), *beyond.tolist()}), np.int64)

    def count(self, numbers: Numbers) -> int:
        """Return the number of edges in the rows of these artifacts."""
        return int(self._counts[numbers[numbers >= 0]].sum())

    def count_if_present(self, numbers: Numbers) -> int | None:
        """Return the number of edges of these artifacts; `None` if one of them has no row."""
        if not len(numbers):
            return 0
        # Most calls ask about artifacts of this corpus only: a quick look at their rows.
        if np.minimum.reduce(numbers) >= 0 and np.maximum.reduce(numbers) < len(self._starts):
            is_present = np.minimum.reduce(self._starts[numbers]) > _ABSENT
            return int(np.add.reduce(self._counts[numbers])) if is_present else None
        return None if len(self.find_missing(numbers)) else self.count(numbers)

    def put(self, numbers: Sequence[int], counts: Sequence[int], ends: Sequence[int], labels: Sequence[int]) -> None:
        """Add rows of artifacts that have none: the entries of all rows, one row after the other."""
        length, size = max(numbers, default=-1) + 1, self.size + len(ends)
        known = len(self._starts)
        self._starts, self._counts = reserve(self._starts, length), reserve(self._counts, length)
        self._starts[known:] = _ABSENT
        self._ends, self._labels = reserve(self._ends, size), reserve(self._labels, size)
        self._ends[self.size : size], self._labels[self.size : size] = ends, labels
        places = np.array(numbers, np.int64)
        self._counts[places] = counts
        self._starts[places] = self.size + np.cumsum(counts) - counts
        self.size = size

    def drop(self, numbers: Numbers) -> None:
        """Forget the rows of these artifacts; all rows if most entries belong to none by then."""
        present = numbers[(numbers >= 0) & (numbers < len(self._starts))]
        present = np.unique(present[self._starts[present] != _ABSENT])
        self._waste += self.count(present)
        self._starts[present], self._counts[present] = _ABSENT, 0
        if self._waste > _MIN_WASTE and 2 * self._waste > self.size:
            self.clear()

    def find_rows_with(self, ends: Numbers) -> Numbers:
        """Return the artifacts whose rows have an edge with one of these ends."""
        owners = np.flatnonzero(self._starts != _ABSENT)
        offsets, places = _place_rows(self._starts[owners], self._counts[owners])
        hits = np.flatnonzero(np.isin(self._ends[places], ends))
        return owners[np.unique(np.searchsorted(offsets, hits, side="right") - 1)]

    def gather(
        self, numbers: Numbers, accepted: NDArray[np.bool_] | None, limit: int | None
    ) -> tuple[Numbers, Numbers, NDArray[np.int32]]:
        """Return the offsets, ends and labels of these artifacts, all of which must have rows.

        Args:
            numbers: The artifacts; negative for artifacts without edges.
            accepted: For each label, whether its edges count; `None` for all.
            limit: The largest number of edges per artifact; `None` for all.
        """
        starts, counts = self._starts[numbers], self._counts[numbers]
        if len(numbers) and numbers.min() < 0:
            counts = np.where(numbers < 0, 0, counts)
        if limit is not None and accepted is None:
            counts = np.minimum(counts, limit)
        offsets, places = _place_rows(starts, counts)
        if accepted is not None:
            offsets, places = _select_places(offsets, places, accepted[self._labels[places]], limit)
        return offsets, self._ends[places].astype(np.int64), self._labels[places]


def _place_rows(starts: Numbers, counts: Numbers) -> tuple[Numbers, Numbers]:
    """Return the offsets of rows put together, and the place of each entry."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets, np.repeat(starts - offsets[:-1], counts) + np.arange(offsets[-1])


def _select_places(
    offsets: Numbers, places: Numbers, is_selected: NDArray[np.bool_], limit: int | None
) -> tuple[Numbers, Numbers]:
    """Return the offsets and places of the selected entries, at most `limit` a row."""
    passed = np.zeros(len(places) + 1, np.int64)
    np.cumsum(is_selected, out=passed[1:])
    selected = passed[offsets]
    if limit is not None:
        # The entry is among the first of its row if few were selected before it in this row.
        before_row = np.repeat(selected[:-1], np.diff(offsets))
        is_selected = is_selected & (passed[:-1] - before_row < limit)
        kept = np.minimum(np.diff(selected), limit)
        selected = np.concatenate([[0], np.cumsum(kept)])
    return selected, places[is_selected]


class Adjacency:
    """The edges of a store in memory: a row per artifact and direction.

    A row is read when it is first asked for, and a store drops the rows that a write has changed. Memory is bounded,
    except that each id that was ever met keeps its number. Not for two threads at the same time.

    Example:
        >>> adjacency = Adjacency()
        >>> links = {"a": (["b", "c"], [adjacency.number_label("REF", "inline")] * 2)}
        >>> numbers = np.array(adjacency.nodes.add(["a"]))
        >>> adjacency.read_missing("out", numbers, lambda ids: [links[id] for id in ids])
        >>> columns = adjacency.gather("out", numbers, LinkFilter(), limit=1)
        >>> [columns.nodes[number] for number in columns.ends]
        ['b']
    """

    def __init__(self) -> None:
        self.nodes = NodeNumbers()
        self._label_table: list[EdgeLabel] = []
        self._label_numbers: dict[EdgeLabel, int] = {}
        self._accepted = LruCache[tuple[LinkFilter, int], NDArray[np.bool_]](_CACHED_FILTERS)
        self._rows: dict[Direction, EdgeRows] = {direction: EdgeRows() for direction in DIRECTIONS}

    def number_label(
        self, type: str, origin: str, weight: float = 1.0, *, is_incoming: bool = False, is_foreign: bool = False
    ) -> int:
        """Return the position of a label in the table; a new label is appended."""
        label = EdgeLabel(type, origin, is_incoming, is_foreign, weight)
        if label not in self._label_numbers:
            self._label_table.append(label)
            self._label_numbers[label] = len(self._label_table) - 1
        return self._label_numbers[label]

    def count_if_present(self, direction: Direction, numbers: Numbers) -> int | None:
        """Return the number of edges that a gather looks at; `None` if rows are missing."""
        return self._rows[direction].count_if_present(numbers)

    def read_missing(self, direction: Direction, numbers: Numbers, read_rows: RowReader) -> None:
        """Add the rows that are missing, which `read_rows` returns for the ids of artifacts."""
        rows, nodes = self._rows[direction], self.nodes.nodes
        # Before the missing rows are found, as all that are needed must be there at once.
        if rows.size > _MAX_EDGES:
            rows.clear()
        for part in iterate_slices(rows.find_missing(numbers).tolist()):
            # Artifacts of other corpora have no edges here.
            own = [(number, node) for number in part if isinstance(node := nodes[number], str)]
            far = [number for number in part if not isinstance(nodes[number], str)]
            counts, ends, labels = [0] * len(far), list[NodeId](), list[int]()
            for row_ends, row_labels in read_rows([id for _, id in own]):
                counts.append(len(row_ends))
                ends += row_ends
                labels += row_labels
            rows.put([*far, *(number for number, _ in own)], counts, self.nodes.add(ends), labels)

    def gather(self, direction: Direction, numbers: Numbers, links: LinkFilter, limit: int | None) -> NeighborColumns:
        """Return the edges of these artifacts, all of whose rows must be there."""
        columns = self._rows[direction].gather(numbers, self._find_accepted(links), limit)
        return NeighborColumns(*columns, self.nodes.nodes, self._label_table)

    def _find_accepted(self, links: LinkFilter) -> NDArray[np.bool_] | None:
        """Return for each label whether the filter accepts it; `None` if it accepts all."""
        if links.types is None and not links.exclude and links.origins is None:
            return None
        table = self._label_table
        accepted = self._accepted.get_or_create(
            (links, len(table)),
            lambda _: np.array([links.accepts(Link("", label.type, label.origin)) for label in table], np.bool_),
        )
        return None if accepted.all() else accepted

    def clear_rows(self) -> None:
        """Forget all rows; numbers stay."""
        for rows in self._rows.values():
            rows.clear()

    def drop_changed(self, ids: Iterable[str], ends: Iterable[NodeId]) -> None:
        """Forget the rows of artifacts whose links have changed, and of all that these lead to.

        Args:
            ids: The artifacts whose links have changed.
            ends: The artifacts to which their links lead now. Those to which they led before are found here.
        """
        known = self.nodes.find([*ids])
        known = known[known >= 0]
        known_ends = self.nodes.find([*ends])
        self._rows["out"].drop(known)
        for direction in DIRECTIONS[1:]:
            rows = self._rows[direction]
            rows.drop(np.concatenate([known, known_ends, rows.find_rows_with(known)]))
