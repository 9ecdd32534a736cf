"""The operator's own record of a walk; a policy sees views of it and cannot change it."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from operator import index
from typing import Any

import numpy as np

from airw.errors import PolicyError
from airw.values import NDArray
from airw.walk.policy import Column, Entry, Frontier, WalkPolicy
from airw.walk.summary import Tally

__all__ = ["WalkRecord"]


class WalkRecord:
    """Every discovery of one walk in columns by position, and which of them wait, are committed, or are dropped."""

    def __init__(self, policy: WalkPolicy, max_frontier: int, tally: Tally) -> None:
        """Start an empty record."""
        self._policy = policy
        self._max_frontier = max_frontier
        self._tally = tally
        self._nodes: list[Any] = []
        self._ids: list[Hashable] = []
        self._depths: list[int] = []
        self._parents: list[int] = []
        self._scores = np.empty(64, np.float64)
        self._alive = np.zeros(64, np.bool_)
        self._waiting: dict[Hashable, int] = {}
        self._twins: dict[Hashable, list[int]] = {}
        self._visited: dict[Hashable, int] = {}
        self._roots: dict[int, int] = {}
        self._start = 0
        self.waiting_count = 0

    def begin_step(self) -> None:
        """Forget the entries that were not selected, unless the policy keeps them."""
        self._start = len(self._nodes)
        if not self._policy.keeps_frontier:
            self._waiting.clear()
            self._twins.clear()
            self._alive[: self._start] = False
            self.waiting_count = 0

    def admit(self, nodes: Iterable[Any], parent: int = -1) -> None:
        """Enter the nodes found behind the committed entry at `parent`; `-1` for seeds."""
        depth = self._depths[parent] + 1 if parent >= 0 else 0
        visited, waiting = self._visited, self._waiting
        for node, id in self._identified(nodes):
            if id in visited:
                continue
            held = waiting.get(id)
            if held is None or self._policy.scores_paths:
                self._enter(node, id, depth, parent)
            elif depth < self._depths[held]:
                self._nodes[held], self._depths[held], self._parents[held] = node, depth, parent

    def _identified(self, nodes: Iterable[Any]) -> Iterator[tuple[Any, Hashable]]:
        node_id = self._policy.node_id
        for node in nodes:
            try:
                id = node_id(node)
            except Exception as error:
                error.add_note(f"for node {node!r}")
                raise
            try:
                hash(id)
            except TypeError:
                raise PolicyError(f"node_id must give something hashable, not {id!r} (for {node!r})") from None
            yield node, id

    def _enter(self, node: Any, id: Hashable, depth: int, parent: int) -> None:
        if self.waiting_count >= self._max_frontier:
            self._tally.refuse("max_frontier", 1)
            return
        position = len(self._nodes)
        self._waiting.setdefault(id, position)
        if self._policy.scores_paths:
            self._twins.setdefault(id, []).append(position)
        self._nodes.append(node)
        self._ids.append(id)
        self._depths.append(depth)
        self._parents.append(parent)
        self.waiting_count += 1

    def fresh_nodes(self) -> list[Any]:
        """Give the nodes discovered in this step."""
        return self._nodes[self._start :]

    def score_fresh(self, scores: Sequence[float] | NDArray[Any]) -> None:
        """Write the scores of this step's discoveries and let them wait.

        Raises:
            PolicyError: Not one number each, or a NaN.
        """
        nodes = self.fresh_nodes()
        values = self._numbers(scores)
        if values.shape != (len(nodes),):
            raise PolicyError(
                f"{self._who()}.score must give {len(nodes)} numbers, one a node, not shape {values.shape}"
            )
        if np.isnan(values).any():
            node = nodes[int(np.flatnonzero(np.isnan(values))[0])]
            raise PolicyError(f"{self._who()}.score gave NaN for node {node!r}")
        self._reserve(len(self._nodes))
        self._scores[self._start : len(self._nodes)] = values
        self._alive[self._start : len(self._nodes)] = True

    def _numbers(self, scores: Any) -> NDArray[np.float64]:
        try:
            given = np.asarray(scores)
            if given.dtype.kind in "biufO":  # of others numpy would read text as numbers, or drop imaginary parts
                return given.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"{self._who()}.score must give numbers: {error}") from error
        raise PolicyError(f"{self._who()}.score must give numbers, not values of type {given.dtype}")

    def _reserve(self, size: int) -> None:
        if size > self._scores.shape[0]:
            grown = max(size, 2 * self._scores.shape[0])
            self._scores = np.concatenate([self._scores, np.empty(grown - self._scores.shape[0])])
            self._alive = np.concatenate([self._alive, np.zeros(grown - self._alive.shape[0], np.bool_)])

    def frontier(self) -> Frontier:
        """Give the policy's view for `select`."""
        size = len(self._nodes)
        first = 0 if self._policy.keeps_frontier else self._start
        scores = self._scores[:size]
        scores.flags.writeable = False
        return Frontier(
            nodes=Column(self._nodes),
            ids=Column(self._ids),
            depths=Column(self._depths),
            scores=scores,
            live=np.flatnonzero(self._alive[first:size]) + first,
            fresh=range(self._start, size),
        )

    def choose(self, picked: Iterable[Any], chosen: dict[Hashable, int]) -> None:
        """Enter the positions a policy selected into `chosen`, by id, each id once.

        Raises:
            PolicyError: One is not a position, or not live.
        """
        size, alive, ids = len(self._nodes), self._alive, self._ids
        for item in picked:
            position = item if type(item) is int else self._position(item)
            if not 0 <= position < size or not alive[position]:
                raise PolicyError(f"{self._who()}.select gave position {position}, where nothing waits")
            chosen.setdefault(ids[position], position)

    def _position(self, item: Any) -> int:
        try:
            if not isinstance(item, bool):  # a mask is not a list of positions
                return index(item)
        except TypeError:
            pass
        raise PolicyError(f"{self._who()}.select must give positions, whole numbers, not {item!r}")

    def commit(self, positions: Sequence[int]) -> list[Entry]:
        """Mark entries as visited and give them as their policy sees them."""
        ids, parents = self._ids, self._parents
        taken: list[int] = []
        for position in positions:
            id, parent = ids[position], parents[position]
            self._visited[id] = position
            self._waiting.pop(id, None)
            self._roots[position] = self._roots[parent] if parent >= 0 else position
            taken += self._twins.pop(id, (position,))
        self._alive[taken] = False
        self.waiting_count -= len(taken)
        scores = self._scores[list(positions)].tolist()
        return [
            Entry(self._nodes[at], ids[at], self._depths[at], score, ids[parents[at]] if parents[at] >= 0 else None)
            for at, score in zip(positions, scores, strict=True)
        ]

    def unknown(self, nodes: Iterable[Any]) -> set[Hashable]:
        """Give the ids among the nodes that are neither committed nor waiting."""
        return {id for _, id in self._identified(nodes) if id not in self._visited and id not in self._waiting}

    def position_of(self, id: Hashable) -> int:
        """Give the position of a committed node."""
        return self._visited[id]

    def path(self, id: Hashable) -> list[Hashable]:
        """Give the ids from the seed to a committed node."""
        position, path = self._visited[id], []
        while position >= 0:
            path.append(self._ids[position])
            position = self._parents[position]
        return path[::-1]

    def root_of(self, id: Hashable) -> Hashable:
        """Give the id of the seed that a committed node was reached from."""
        return self._ids[self._roots[self._visited[id]]]

    def depth_of(self, id: Hashable) -> int | None:
        """Give the depth of a waiting or committed node."""
        position = self._visited.get(id, self._waiting.get(id))
        return None if position is None else self._depths[position]

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Give the id of the node a waiting or committed node was reached from."""
        position = self._visited.get(id, self._waiting.get(id))
        parent = -1 if position is None else self._parents[position]
        return self._ids[parent] if parent >= 0 else None

    def _who(self) -> str:
        return type(self._policy).__name__
