"""Committed nodes, as `expand` and `to_hits` of a policy receive them."""

from collections.abc import Hashable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol, overload

import numpy as np

from airw._base.arrays import NDArray


class CommittedNode(NamedTuple):
    """A committed node, as `expand` and `to_hits` of a policy receive it.

    Args:
        node: The node, as the policy returned it.
        id: The id that `node_id` returned for it.
        depth: The number of hops from its seed; 0 for a seed.
        score: The number that `score` returned for it.
        parent: The id of the node it was reached from; `None` for a seed.
    """

    node: Any
    id: Hashable
    depth: int
    score: float
    parent: Hashable | None


_new_committed_node = partial(tuple.__new__, CommittedNode)  # takes half the time of `CommittedNode(...)`


class _Columns(Protocol):
    """The part of the walk record that committed nodes are read from."""

    def nodes_at(self, positions: NDArray[np.intp]) -> Sequence[Any]: ...
    def ids_at(self, positions: NDArray[np.intp]) -> list[Hashable]: ...
    def depths_at(self, positions: NDArray[np.intp]) -> NDArray[np.intp]: ...
    def scores_at(self, positions: NDArray[np.intp]) -> NDArray[np.float64]: ...
    def parent_ids_at(self, positions: NDArray[np.intp]) -> list[Hashable | None]: ...


class CommittedNodes(Sequence[CommittedNode]):
    """Committed nodes in columns.

    A `CommittedNode` is created when it is looked at. Each of the columns has one item per node, in the order in which
    the nodes were committed.
    """

    __slots__ = ("_columns", "_entries", "_ids", "positions")

    def __init__(self, columns: _Columns, positions: NDArray[np.intp]) -> None:
        """View the nodes at positions of a walk record."""
        self._columns = columns
        self.positions: NDArray[np.intp] = positions
        """The positions of the nodes in the frontier, `(n,) intp`."""
        self._entries: list[CommittedNode] | None = None
        self._ids: list[Hashable] | None = None

    @property
    def nodes(self) -> Sequence[Any]:
        """The nodes; in a walk in columns their numbers, `(n,) int64`."""
        return self._columns.nodes_at(self.positions)

    @property
    def ids(self) -> list[Hashable]:
        """The ids of the nodes."""
        if self._ids is None:
            self._ids = self._columns.ids_at(self.positions)
        return self._ids

    @property
    def depths(self) -> NDArray[np.intp]:
        """The number of hops from their seeds, `(n,) intp`."""
        return self._columns.depths_at(self.positions)

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores of the nodes, `(n,) float64`."""
        return self._columns.scores_at(self.positions)

    @property
    def parents(self) -> list[Hashable | None]:
        """The ids of the nodes they were reached from; `None` for seeds."""
        return self._columns.parent_ids_at(self.positions)

    def __len__(self) -> int:
        """Return the number of nodes."""
        return len(self.positions)

    @overload
    def __getitem__(self, index: int) -> CommittedNode: ...
    @overload
    def __getitem__(self, index: slice) -> "CommittedNodes": ...
    def __getitem__(self, index: int | slice) -> "CommittedNode | CommittedNodes":
        """Return one node, or those of a slice."""
        if isinstance(index, slice):
            return CommittedNodes(self._columns, self.positions[index])
        return self._all_entries()[index]

    def __iter__(self) -> Iterator[CommittedNode]:
        """Iterate over the nodes."""
        return iter(self._all_entries())

    def _all_entries(self) -> list[CommittedNode]:
        if self._entries is None:
            columns = (list(self.nodes), self.ids, self.depths.tolist(), self.scores.tolist(), self.parents)
            self._entries = list(map(_new_committed_node, zip(*columns, strict=True)))
        return self._entries
