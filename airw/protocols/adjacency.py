"""The protocol of stores that return edges as columns of numbers."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from airw._base.arrays import NDArray
from airw.protocols.stores import EdgeReader
from airw.values import Direction, Edge, NodeId

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

    Example:
        >>> import anyio
        >>> from dataclasses import replace
        >>> from airw.stores import MemoryStore
        >>> from airw.testing.changes import put
        >>> from airw.values import Extraction, Link
        >>> async def main():
        ...     async with MemoryStore() as store:
        ...         links = Extraction([Link("b", "REF"), Link("c")])
        ...         await store.apply([replace(put("a", "x"), extraction=links), put("b", "x"), put("c", "x")])
        ...         columns = await store.neighbor_columns(await store.artifact_numbers(["a", "b"]))
        ...         print([columns.nodes[number] for number in columns.ends], columns.offsets)
        ...         print([columns.label_table[label].type for label in columns.labels], columns.weights())
        >>> anyio.run(main)
        ['b', 'c'] [0 2 2]
        ['REF', 'related'] [1. 1.]
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


@runtime_checkable
class AdjacencyReader(EdgeReader, Protocol):
    """Reads the edges of artifacts as columns of numbers.

    If a store has this capability, walks look at thousands of edges without an object for each. They ask for names and
    records only of what they return.

    Numbers are those of one store, and mean the same as long as it is open. A number is never used again for another
    artifact, so a walk stays right while others write.
    """

    async def artifact_numbers(self, ids: Sequence[str]) -> NDArray[np.int64]:
        """Return the number of each artifact, or -1 for an id that the store has never had.

        A walk calls this for the artifacts it starts from. The edges lead to all others. The shape is `(ids,) int64`.
        """
        ...

    async def neighbor_columns(
        self,
        numbers: Sequence[int] | NDArray[np.int64],
        *,
        direction: Direction = "out",
        types: Sequence[str] | None = None,
        exclude: Sequence[str] = (),
        origins: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> NeighborColumns:
        """Return the edges of each artifact, the same and in the same order as `neighbors` does.

        Args:
            numbers: The artifacts. The number of an artifact of another corpus, or -1, has no edges.
            direction: `"out"` for the links of the artifact, `"in"` for links to it, `"both"` for both.
            types: The edge types to include; `None` for all.
            exclude: The edge types to omit, even if `types` contains them.
            origins: The origins to include; `None` for all.
            limit: The largest number of edges per artifact; at least 0.

        Raises:
            ArgumentError: If the direction or an origin is unknown, or the limit is negative.
        """
        ...
