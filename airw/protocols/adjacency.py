"""Edges as columns of numbers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray
from airw.values import Edge, NodeId

_SLICE = 1 << 12  # entries that one call converts


class EdgeLabel(NamedTuple):
    """All about an edge but its two ends.

    Args:
        type: The relation, such as `"related"`.
        origin: One of `ORIGINS`.
        is_incoming: Whether the edge leads to the artifact whose edges were asked for.
        is_foreign: Whether the other end is in another corpus.
        weight: How much the edge counts for a walk.
    """

    type: str
    origin: str
    is_incoming: bool
    is_foreign: bool
    weight: float = 1.0


class NeighborColumns(NamedTuple):
    """The edges of several artifacts, as columns with one entry per edge.

    The edges of one artifact stand in a row: those of the first artifact, then those of the second, and so on. A caller
    must change neither the arrays nor the tables. The tables only grow, and their entries never change.

    Args:
        offsets: `(artifacts + 1,) int64`; the edges of artifact `i` are those from `offsets[i]` to `offsets[i + 1]`.
        ends: `(edges,) int64`, the number of the artifact at the other end.
        labels: `(edges,) int32`, the position of the edge's label in `label_table`.
        nodes: The node of each number: an id, or an `ArtifactRef` in another corpus.
        label_table: The labels of edges.
    """

    offsets: NDArray[np.int64]
    ends: NDArray[np.int64]
    labels: NDArray[np.int32]
    nodes: Sequence[NodeId]
    label_table: Sequence[EdgeLabel]

    def weights(self) -> NDArray[np.float64]:
        """Return the weight of each edge, `(edges,) float64`."""
        return np.array([label.weight for label in self.label_table], np.float64)[self.labels]

    def to_edges(self, ids: Sequence[str]) -> list[list[Edge]]:
        """Return the edges of each artifact as `neighbors` does; `ids` are those of the artifacts."""
        nodes, label_table = self.nodes, self.label_table
        ends, labels = _to_list(self.ends), _to_list(self.labels)
        edges: list[list[Edge]] = []
        for id, (start, stop) in zip(ids, pairwise(self.offsets.tolist()), strict=True):
            row: list[Edge] = []
            for end, label in zip(ends[start:stop], labels[start:stop], strict=True):
                type_, origin, is_incoming, _, weight = label_table[label]
                node = nodes[end]
                source, target = (node, id) if is_incoming else (id, node)
                row.append(Edge(source, target, type_, origin, weight))
            edges.append(row)
        return edges


def _to_list(column: NDArray[Any]) -> list[int]:
    """Return the entries of a column, in calls that do not stop other threads for long."""
    parts = range(0, len(column), _SLICE)
    return [entry for start in parts for entry in column[start : start + _SLICE].tolist()]
