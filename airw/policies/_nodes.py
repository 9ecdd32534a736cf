"""What scorers and strategies see of an artifact, and vectors by position."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from airw._base.arrays import Floats, NDArray
from airw.policies._artifacts import best_of
from airw.values import Record
from airw.walking import WalkState

__all__ = ["Node", "Rows", "node_of"]


@dataclass(slots=True, eq=False)
class Node:
    """An artifact as a scorer or a strategy sees it, under the names that graph-retriever gives.

    Args:
        id: The artifact.
        content: The text of its best surface.
        depth: Steps from the start.
        similarity_score: The cosine of that surface to the query.
        embedding: Its vector, `(dim,) float32`, a unit row.
        metadata: Its fields; not to be changed.
        extra_metadata: What a strategy writes here comes with the hit, below fields of the same name.
    """

    id: str
    content: str
    depth: int
    similarity_score: float
    embedding: Floats
    metadata: dict[str, Any] = field(default_factory=dict)
    extra_metadata: dict[str, Any] = field(default_factory=dict)


def node_of(state: WalkState, record: Record, depth: int, embedding: Floats) -> Node:
    """Give an artifact that was scored as a node."""
    id = record.artifact_id
    return Node(id, record.text, depth, best_of(state)[id][1], embedding, dict(record.metadata))


class Rows:
    """Vectors by the position of their nodes in the frontier: one for each discovery of a walk."""

    def __init__(self) -> None:
        """Start without rows."""
        self._rows: Floats = np.empty((0, 0), np.float32)
        self._count = 0

    def add(self, rows: Floats) -> None:
        """Append the rows of a step's discoveries."""
        until = self._count + len(rows)
        if until > len(self._rows):
            grown = np.empty((max(until, 2 * len(self._rows)), rows.shape[1]), np.float32)
            grown[: self._count] = self._rows[: self._count] if self._count else 0
            self._rows = grown
        self._rows[self._count : until] = rows
        self._count = until

    def at(self, positions: Sequence[int] | NDArray[np.intp]) -> Floats:
        """Copy the rows at some positions."""
        return self._rows[positions]
