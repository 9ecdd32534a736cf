"""Paths to committed nodes: a walk may find one again by a path that scores higher."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from airw._base.arrays import NDArray
from airw.walking.summary import WalkCounts

Positions = NDArray[np.intp]
_MAX_DEPTH = 64  # a path is followed back to see whether it is a circle; deeper ones are left out


class FoundPaths(NamedTuple):
    """Paths that end at committed nodes, one per row.

    Args:
        nodes: The nodes at their ends, as the policy returned them; in a walk in columns their numbers.
        edges: The numbers of their last edges in a walk in columns; -1 in a walk of lists.
        parents: The positions of the nodes before the last ones.
        positions: The positions by which the nodes were committed.
    """

    nodes: Any
    edges: Positions
    parents: Positions
    positions: Positions

    def take(self, rows: NDArray[np.bool_]) -> "FoundPaths":
        """Return the paths of some rows."""
        nodes = self.nodes
        kept = nodes[rows] if isinstance(nodes, np.ndarray) else [nodes[row] for row in np.flatnonzero(rows).tolist()]
        return FoundPaths(kept, self.edges[rows], self.parents[rows], self.positions[rows])


class BetterPath(NamedTuple):
    """A path to a committed node that scores higher than the one by which it was committed.

    Args:
        score: The score of the path.
        parent: The position of the node before the last one.
        edge_type: The type of the last edge; `None` if the policy names no edge.
    """

    score: float
    parent: int
    edge_type: str | None


class _Positions(Protocol):
    """The part of the walk record that is compared with paths."""

    def depths_at(self, positions: Positions) -> Positions: ...
    def scores_at(self, positions: Positions) -> NDArray[np.float64]: ...
    def parents_at(self, positions: Positions) -> Positions: ...


class FoundAgain:
    """The paths to committed nodes that a walk found, as far as they are better.

    Nothing here waits, so a path can neither be selected nor commit its node a second time.
    """

    def __init__(self, record: _Positions, counts: WalkCounts) -> None:
        """Start without paths."""
        self._record, self._counts = record, counts
        self._new: list[FoundPaths] = []  # of this step, not scored
        self._better: list[tuple[FoundPaths, NDArray[np.float64], Sequence[str | None]]] = []

    def add(self, paths: FoundPaths) -> None:
        """Keep the paths of a step that are no circles, until they are scored."""
        depths = self._record.depths_at(paths.parents) + 1
        if len(depths) and not (depths <= _MAX_DEPTH).all():
            paths = paths.take(depths <= _MAX_DEPTH)
        paths = paths.take(~self._are_circles(paths))
        if len(paths.positions):
            self._new.append(paths)

    def _are_circles(self, paths: FoundPaths) -> NDArray[np.bool_]:
        """Return which paths lead through their last node before they end there."""
        # Climb from each parent to the depth of the last node: on a circle, that is where it stands.
        record, depths = self._record, self._record.depths_at(paths.positions)
        at = paths.parents.copy()
        while (is_deeper := record.depths_at(at) > depths).any():
            at[is_deeper] = record.parents_at(at[is_deeper])
        is_circle: NDArray[np.bool_] = at == paths.positions
        return is_circle

    def pop_new(self) -> FoundPaths | None:
        """Return the paths of this step, and forget them; `None` if there are none."""
        new, self._new = self._new, []
        if not new:
            return None
        if len(new) == 1:
            return new[0]
        nodes: Any = [paths.nodes for paths in new]
        is_array = isinstance(nodes[0], np.ndarray)
        joined = np.concatenate(nodes) if is_array else [node for part in nodes for node in part]
        return FoundPaths(joined, *(np.concatenate(column) for column in list(zip(*new, strict=True))[1:]))

    def are_better(self, paths: FoundPaths, scores: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Return which paths score higher than those by which their nodes were committed."""
        is_better: NDArray[np.bool_] = scores > self._record.scores_at(paths.positions)
        return is_better

    def keep(self, paths: FoundPaths, scores: NDArray[np.float64], edge_types: Sequence[str | None]) -> None:
        """Keep better paths with their scores and the types of their last edges."""
        self._better.append((paths, scores, edge_types))
        self._counts.improved = len(np.unique(np.concatenate([each.positions for each, _, _ in self._better])))

    def best_paths(self) -> dict[int, BetterPath]:
        """Return the best of these paths to each node, by its position; of equal ones the first."""
        if not self._better:
            return {}
        columns = [(paths.positions, scores, paths.parents) for paths, scores, _ in self._better]
        positions, scores, parents = (np.concatenate(column) for column in zip(*columns, strict=True))
        edge_types = [edge_type for _, _, types in self._better for edge_type in types]
        order = np.lexsort((-scores, positions))  # stable: equal scores stay in the order of discovery
        nodes, firsts = np.unique(positions[order], return_index=True)
        rows = order[firsts].tolist()
        best = zip(scores[rows].tolist(), parents[rows].tolist(), [edge_types[row] for row in rows], strict=True)
        return {position: BetterPath(*path) for position, path in zip(nodes.tolist(), best, strict=True)}
