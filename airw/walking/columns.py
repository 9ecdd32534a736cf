"""A walk in columns: nodes that are numbers, and whole steps as arrays."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw.values import Edge

EdgeMaker: TypeAlias = Callable[[NDArray[np.intp]], Sequence[Edge | None] | Awaitable[Sequence[Edge | None]]]
"""A function that returns the edges at positions of `Columns.ids`."""
EdgeTypes: TypeAlias = Callable[[NDArray[np.intp]], Sequence[str | None] | Awaitable[Sequence[str | None]]]
"""A function that returns the types of the edges at positions of `Columns.ids`."""


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """The neighbours of all committed nodes of a step, in one array.

    The neighbours of committed node `i` are `ids[offsets[i]:offsets[i + 1]]`. Edges are created only for what a reader
    looks at. The walk keeps the arrays without a copy, so nobody may change them later.

    Args:
        ids: The numbers of the neighbours, `(m,) int64`, or one list of nodes.
        offsets: Where the neighbours of each committed node begin, `(n + 1,) int64`; the last one is `m`.
        edges: A function that returns the edge at each of some positions in `ids`, for events; `None` for no edges. It
            may be async.
        edge_types: A function that returns the types of these edges, for hits; by default those of `edges`. It may be
            async.

    Example:
        >>> step = Columns(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
        >>> [step.ids[start:end].tolist() for start, end in zip(step.offsets, step.offsets[1:])]
        [[7, 8], [], [9]]
    """

    ids: NDArray[np.int64] | list[object]
    offsets: NDArray[np.int64]
    edges: EdgeMaker | None = None
    edge_types: EdgeTypes | None = None
