"""The edges of one artifact as columns."""

from collections.abc import Callable, Sequence
from itertools import islice
from typing import NamedTuple, overload

from airw.values import Edge, NodeIdLike


class EdgeLabel(NamedTuple):
    """All about an edge but its two ends.

    Args:
        type: The relation, such as `"related"`.
        origin: One of `ORIGINS`.
        is_incoming: Whether the edge leads to the artifact whose edges were asked for.
        is_foreign: Whether the edge leads out of the corpus that stores it.
        weight: How much the edge counts for a walk.
    """

    type: str
    origin: str
    is_incoming: bool
    is_foreign: bool
    weight: float = 1.0


class EdgeRow(Sequence[Edge]):
    """The edges of one artifact: their other ends and their labels.

    An `Edge` is made when somebody looks at it: a walk of a dense graph meets most ends many times, and looks at few
    edges. Stores keep the rows that they return, so nothing may change one.

    Args:
        id: The artifact.
        ends: The artifact at the other end of each edge.
        labels: The label of each edge.

    Example:
        >>> row = EdgeRow("a", ("b", "c"), (EdgeLabel("cites", "typed", False, False),) * 2)
        >>> row.ends, row[1]
        (('b', 'c'), Edge(source='a', target='c', type='cites', origin='typed'))
    """

    __slots__ = ("_leads_out", "ends", "id", "labels")

    id: NodeIdLike
    ends: Sequence[NodeIdLike]
    labels: Sequence[EdgeLabel]

    def __init__(self, id: NodeIdLike, ends: Sequence[NodeIdLike], labels: Sequence[EdgeLabel]) -> None:
        self.id, self.ends, self.labels = id, ends, labels
        self._leads_out: bool | None = None  # until somebody asks

    @classmethod
    def of(cls, id: NodeIdLike, edges: Sequence[Edge]) -> "EdgeRow":
        """Return the edges of an artifact as a row, which they may be already.

        Example:
            >>> EdgeRow.of("a", [Edge("b", "a", "cites")]).ends
            ('b',)
        """
        if isinstance(edges, EdgeRow):
            return edges
        are_incoming = [edge.source != id for edge in edges]
        return cls(
            id,
            tuple(edge.source if is_in else edge.target for edge, is_in in zip(edges, are_incoming, strict=True)),
            tuple(
                EdgeLabel(edge.type, edge.origin, is_in, edge.leads_out, edge.weight)
                for edge, is_in in zip(edges, are_incoming, strict=True)
            ),
        )

    def select(self, accepts: Callable[[EdgeLabel], bool], limit: int | None = None) -> "EdgeRow":
        """Return the row of the edges whose labels are accepted, of which at most `limit`."""
        places = list(islice((place for place, label in enumerate(self.labels) if accepts(label)), limit))
        return self if len(places) == len(self) else self.pick(places)

    def pick(self, places: Sequence[int]) -> "EdgeRow":
        """Return the row of the edges at some places, in their order."""
        return EdgeRow(self.id, tuple(map(self.ends.__getitem__, places)), tuple(map(self.labels.__getitem__, places)))

    @property
    def inside(self) -> "EdgeRow":
        """The row of the edges that lead to artifacts of this corpus."""
        if self._leads_out is None:
            self._leads_out = any(label.is_foreign for label in self.labels)
        return self.select(lambda label: not label.is_foreign) if self._leads_out else self

    def __len__(self) -> int:
        """Return the number of edges."""
        return len(self.ends)

    @overload
    def __getitem__(self, place: int) -> Edge: ...
    @overload
    def __getitem__(self, place: slice) -> list[Edge]: ...
    def __getitem__(self, place: int | slice) -> Edge | list[Edge]:
        """Make an edge, or those of a slice."""
        if not isinstance(place, slice):
            return self._make_edge(self.ends[place], self.labels[place])
        return list(map(self._make_edge, self.ends[place], self.labels[place]))

    def _make_edge(self, end: NodeIdLike, label: EdgeLabel) -> Edge:
        type, origin, is_incoming, _, weight = label
        source, target = (end, self.id) if is_incoming else (self.id, end)
        return Edge(source, target, type, origin, weight)

    def __eq__(self, other: object) -> bool:
        """Return whether these are the same edges in the same order."""
        return self[:] == list(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        """Return a number that equal rows have in common."""
        return hash(len(self.ends))

    def __repr__(self) -> str:
        """Return the edges as a list."""
        return repr(self[:])
