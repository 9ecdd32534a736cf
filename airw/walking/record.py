"""The walk record: the nodes that a walk has discovered, waiting or committed."""

from collections.abc import Hashable, Sequence, Sized
from math import isnan
from operator import index
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.walking.committed import CommittedNodes
from airw.walking.nodes import ListedNodes, NumberedNodes
from airw.walking.policy import ColumnView, Frontier, IntegerView, WalkPolicy
from airw.walking.summary import WalkCounts

_INITIAL_ROWS = 1_024
_UNKNOWN, _WAITING, _VISITED = 0, 1, 2
_EMPTY = np.empty(0, np.intp)
Positions = NDArray[np.intp]


class Neighborhood(NamedTuple):
    """Neighbours that were read, in a row.

    Args:
        numbers: The number of each.
        parents: The position of the node that it follows; -1 for a seed.
        edges: The number of the edge that led to it, among all neighbours of the walk; -1 for a seed.
        nodes: The nodes, in a walk of lists.
        ids: Their ids, in a walk of lists.
    """

    numbers: Positions
    parents: Positions
    edges: Positions
    nodes: Sequence[Any] = ()
    ids: Sequence[Hashable] = ()


class WalkRecord:
    """The nodes that one walk has discovered, in columns.

    A position is the row number of a discovery. The life of a position: `admit` appends it, and `score_fresh` writes
    its score. `frontier` shows it to the policy as live, and `check_selection` checks that only live positions are
    selected. `commit` makes its node visited, and a visited node is never admitted again. A position that is not
    selected waits for the next step if the policy keeps its frontier; else `drop_unselected` drops it.

    A node waits from its discovery until it is committed or dropped. `waiting_count` is the number of waiting nodes, or
    of the waiting paths to them. Limits, events, the state of the policy and the count beyond the limits all use it.

    Here nodes are numbers, and a whole step is a few operations on arrays. `nodes` has what is behind the numbers.

    The operator enforces limits from this record alone, and a policy sees read-only views of it. So no policy can get
    round a limit.
    """

    def __init__(self, policy: WalkPolicy, max_frontier: int, counts: WalkCounts) -> None:
        """Start an empty record."""
        self._policy = policy
        self._keeps_frontier, self._scores_paths = policy.keeps_frontier, policy.scores_paths
        self._max_frontier = max_frontier
        self._counts = counts
        self.nodes: ListedNodes | NumberedNodes = ListedNodes(policy)
        # The columns, by position.
        self.size = 0
        self._numbers = np.empty(_INITIAL_ROWS, np.intp)
        self._depths = np.empty(_INITIAL_ROWS, np.intp)
        self._parents = np.empty(_INITIAL_ROWS, np.intp)  # positions; -1 for a seed
        self._edges = np.empty(_INITIAL_ROWS, np.intp)  # among all neighbours of the walk; -1 for a seed
        self._scores = np.empty(_INITIAL_ROWS, np.float64)
        self._is_live = np.zeros(_INITIAL_ROWS, np.bool_)
        # By number: what became of the node, and its position, that of its first path if it waits with several.
        self._status = np.zeros(_INITIAL_ROWS, np.uint8)
        self._positions = np.zeros(_INITIAL_ROWS, np.intp)
        self._path_counts = np.zeros(_INITIAL_ROWS, np.intp)  # with `scores_paths`: how many positions of it wait
        self._fresh_start = 0
        self.seed_count = 0  # positions below are seeds
        self.waiting_count = 0

    def begin_step(self) -> None:
        """Note that the nodes admitted from here on are those of a new step."""
        self._fresh_start = self.size

    # Admitting discovered nodes.

    def admit(self, found: Neighborhood, *, compares: bool = True) -> NDArray[np.bool_] | None:
        """Append the new nodes, up to `max_frontier`; return which neighbours were known.

        A neighbour that occurs twice is known the second time. Without `compares`, nothing is returned.
        """
        numbers = found.numbers
        self._make_room_for_numbers()
        before = self._status[numbers]
        kept = self._choose_paths(before) if self._scores_paths else self._choose_nodes(numbers, before)
        first = self.size
        self._append_rows(found, kept)
        if self._scores_paths:
            firsts = self._mark_paths(numbers, before, kept, first)
        else:
            firsts, new_numbers = kept, numbers[kept]
            self._status[new_numbers] = _WAITING
            self._positions[new_numbers] = np.arange(first, self.size)
        if not self._fresh_start:
            self.seed_count = self.size
        if not compares and not self._keeps_frontier:
            return None
        is_known: NDArray[np.bool_] = self._status[numbers] != _UNKNOWN
        is_known[firsts] = False
        if self._keeps_frontier and not self._scores_paths:
            # A frontier that is not kept has one depth, so no path can be shorter.
            self._shorten_paths(found, (is_known & (before != _VISITED)).nonzero()[0])
        return is_known

    def _make_room_for_numbers(self) -> None:
        count, bound = len(self._status), self.nodes.bound
        if bound <= count:
            return
        self._status = reserve(self._status, bound)
        positions = np.empty(len(self._status), np.intp)
        positions[:count] = self._positions
        self._positions = positions
        if self._scores_paths:
            self._path_counts = reserve(self._path_counts, self.nodes.bound)

    def _choose_nodes(self, numbers: Positions, before: NDArray[np.uint8]) -> Positions:
        """Return the indexes of the first of each new node, while there is room."""
        new: Positions = (before == _UNKNOWN).nonzero()[0]
        if not len(new):
            return new
        # The last number written to a place stays. So, written backwards, each place has its first occurrence.
        new_numbers, order = numbers[new], np.arange(len(new))
        self._positions[new_numbers[::-1]] = order[::-1]
        is_first = self._positions[new_numbers] == order
        room = self._max_frontier - self.waiting_count
        firsts: Positions = new[is_first]
        if len(firsts) > room:
            # A node that is refused is counted as often as it is reached.
            admitted = np.zeros(len(new), np.bool_)
            admitted[np.flatnonzero(is_first)[:room]] = True
            firsts = firsts[:room]
            refused = ~admitted[self._positions[new_numbers]]
            self._counts.refuse("max_frontier", int(np.count_nonzero(refused)))
        return firsts

    def _choose_paths(self, before: NDArray[np.uint8]) -> Positions:
        """Return the indexes of the paths to nodes that are not committed, while there is room."""
        paths = np.flatnonzero(before != _VISITED)
        kept = paths[: self._max_frontier - self.waiting_count]
        self._counts.refuse("max_frontier", len(paths) - len(kept))
        return kept

    def _append_rows(self, found: Neighborhood, kept: Positions) -> None:
        """Append positions for the neighbours at some indexes."""
        rows = slice(self.size, self.size + len(kept))
        if rows.stop > len(self._numbers):
            self._numbers, self._depths = reserve(self._numbers, rows.stop), reserve(self._depths, rows.stop)
            self._parents, self._edges = reserve(self._parents, rows.stop), reserve(self._edges, rows.stop)
            self._scores, self._is_live = reserve(self._scores, rows.stop), reserve(self._is_live, rows.stop)
        parents = found.parents[kept]
        self._numbers[rows] = found.numbers[kept]
        self._depths[rows] = self._depths_below(parents)
        self._parents[rows] = parents
        self._edges[rows] = found.edges[kept]
        self.size = rows.stop
        self.waiting_count += len(kept)
        if isinstance(self.nodes, ListedNodes):
            self.nodes.keep(found.nodes, found.ids, kept)

    def _depths_below(self, parents: Positions) -> Positions:
        depths = self._depths[parents] + 1
        depths[parents < 0] = 0
        return depths

    def _mark_paths(self, numbers: Positions, before: NDArray[np.uint8], kept: Positions, first: int) -> Positions:
        """Enter new paths, perhaps several to one node; return the indexes of the first."""
        is_new = before[kept] == _UNKNOWN
        new, positions = kept[is_new], np.arange(first, self.size)[is_new]
        new_numbers = numbers[new]
        self._status[new_numbers] = _WAITING
        self._positions[new_numbers[::-1]] = positions[::-1]
        np.add.at(self._path_counts, numbers[kept], 1)
        firsts: Positions = new[self._positions[new_numbers] == positions]
        return firsts

    def _shorten_paths(self, found: Neighborhood, again: Positions) -> None:
        """Replace the path to waiting nodes by those of other neighbours, where these are shorter."""
        depths = self._depths_below(found.parents[again])
        positions = self._positions[found.numbers[again]]
        is_shorter = depths < self._depths[positions]
        for position, depth, row in zip(
            positions[is_shorter].tolist(), depths[is_shorter].tolist(), again[is_shorter].tolist(), strict=True
        ):
            if depth < self._depths[position]:  # several may lead to one node
                self._depths[position], self._parents[position] = depth, found.parents[row]
                self._edges[position] = found.edges[row]
                if isinstance(self.nodes, ListedNodes):
                    self.nodes.nodes[position] = found.nodes[row]

    # Scoring.

    def fresh_nodes(self) -> Any:
        """Return the nodes discovered in this step; their numbers in a walk in columns."""
        if isinstance(self.nodes, ListedNodes):
            return self.nodes.nodes[self._fresh_start :]
        return _read_only(self._numbers, self.size)[self._fresh_start :]

    def fresh_edges(self) -> Positions:
        """Return the numbers of the edges that led to these nodes; -1 for seeds."""
        return self._edges[self._fresh_start : self.size]

    def score_fresh(self, scores: Sequence[float] | NDArray[Any]) -> None:
        """Write the scores of the nodes discovered in this step, which makes their positions live.

        Raises:
            PolicyError: If there is not one number per node, or a number is NaN.
        """
        start, size = self._fresh_start, self.size
        fresh_scores = self._scores[start:size]
        fresh_scores[:] = self._check_scores(scores, size - start)
        # numpy's minimum is NaN if any number is: one pass and no temporary array.
        if isnan(np.minimum.reduce(fresh_scores)):
            node = self.fresh_nodes()[int(np.isnan(fresh_scores).argmax())]
            raise PolicyError(f"{self._policy_name}.score returned NaN for node {short_repr(node)}; return a number")
        self._is_live[start:size] = True

    def _check_scores(self, scores: Any, count: int) -> NDArray[Any]:
        """Return scores as an array of `count` numbers, or raise a `PolicyError`."""
        if isinstance(scores, np.ndarray) and scores.dtype.kind == "f" and scores.shape == (count,):
            return scores
        where, required = f"{self._policy_name}.score", f"return {count} numbers, one per node"
        if not isinstance(scores, Sized):
            raise PolicyError(f"{where} returned {short_repr(scores)}; {required}")
        if len(scores) != count:
            raise PolicyError(f"{where} returned {len(scores)} scores; {required}")
        # numpy would build an array of a score that is a sequence, however long it is.
        if nested := _find_nested_type(scores):
            raise PolicyError(f"{where} returned scores that are not numbers ({nested.__name__}); {required}")
        try:
            numbers = _to_numbers(np.asarray(scores))
        except (TypeError, ValueError, OverflowError) as error:
            raise PolicyError(f"{where} returned scores that are not numbers ({error}); {required}") from error
        if numbers.shape != (count,):
            raise PolicyError(f"{where} returned scores of shape {numbers.shape}; {required}")
        return numbers

    # Selecting.

    def frontier(self) -> Frontier:
        """Return the view of the frontier that `select` receives."""
        size, depths = self.size, _read_only(self._depths, self.size)
        fresh, scores, live = range(self._fresh_start, size), _read_only(self._scores, size), self._live_positions()
        if isinstance(self.nodes, ListedNodes):
            nodes, ids = ColumnView(self.nodes.nodes), ColumnView(self.nodes.ids)
            return Frontier(nodes, ids, IntegerView(depths), scores, live, fresh)
        numbers = _read_only(self._numbers, size)
        return Frontier(numbers, numbers, depths, scores, live, fresh)  # type: ignore[arg-type]

    def _live_positions(self) -> Positions:
        if not self._keeps_frontier:
            return np.arange(self._fresh_start, self.size)
        live = np.flatnonzero(self._is_live[: self.size])
        if self._scores_paths:
            # With a node, all other paths to it were committed.
            is_stale = self._status[self._numbers[live]] == _VISITED
            self._is_live[live[is_stale]] = False
            live = live[~is_stale]
        return live

    def check_selection(self, positions: Positions) -> Positions:
        """Return the positions that a policy selected, each node once.

        Raises:
            PolicyError: If one is not live.
        """
        self._check_live(positions, "returned")
        # Of several positions of one node the first selected counts. The look-up table of positions is borrowed for
        # that: written backwards, each node's place has the first one.
        numbers, order = self._numbers[positions], np.arange(len(positions))
        borrowed = self._positions[numbers]
        self._positions[numbers[::-1]] = order[::-1]
        is_first = self._positions[numbers] == order
        self._positions[numbers] = borrowed
        return positions if np.logical_and.reduce(is_first) else positions[is_first]

    def to_positions(self, items: Sequence[Any], verb: str = "returned") -> Positions:
        """Return positions that a policy used as an array.

        Raises:
            PolicyError: If one is not a whole number, or too large to be a position.
        """
        if not set(map(type, items)) <= {int}:
            items = [self._to_position(item) for item in items]
        try:
            return np.array(items, np.intp)
        except OverflowError:
            self._refuse(next(item for item in items if not 0 <= item < self.size), verb)
            raise

    def _to_position(self, item: Any) -> int:
        try:
            if not isinstance(item, bool):  # bools are ints to Python, but a mask is not a list of positions
                return index(item)
        except TypeError:
            pass
        raise PolicyError(
            f"{self._policy_name}.select used {short_repr(item)} as a position; positions are whole numbers"
        )

    def _check_live(self, positions: Positions, verb: str) -> None:
        # As unsigned numbers, negative positions are too large.
        is_out_of_range = len(positions) and np.maximum.reduce(positions.view(np.uintp)) >= self.size
        if is_out_of_range or not np.logical_and.reduce(self._is_live[positions]):
            for position in positions.tolist():
                if not 0 <= position < self.size or not self._is_live[position]:
                    self._refuse(position, verb)

    def _refuse(self, position: int, verb: str) -> None:
        raise PolicyError(
            f"{self._policy_name}.select {verb} position {position}, where no node waits; "
            "use positions of frontier.live"
        )

    def drop(self, dropped: Sequence[Any], selected: Positions) -> None:
        """Remove positions from the frontier, except the selected ones.

        Raises:
            PolicyError: If one is not a position, or is not live.
        """
        positions = self.to_positions(dropped, "dropped")
        self._check_live(positions, "dropped")
        positions = np.setdiff1d(positions, selected)
        numbers = self._numbers[positions]
        self._is_live[positions] = False
        self.waiting_count -= len(positions)
        if not self._scores_paths:
            self._status[numbers] = _UNKNOWN
            return
        # The node itself waits as long as one path to it does.
        np.subtract.at(self._path_counts, numbers, 1)
        self._status[numbers[self._path_counts[numbers] == 0]] = _UNKNOWN
        live = np.flatnonzero(self._is_live[: self.size])
        self._positions[self._numbers[live[::-1]]] = live[::-1]

    def drop_unselected(self, selected: Positions) -> None:
        """Drop all nodes but the selected ones, unless the policy keeps its frontier."""
        if self._keeps_frontier or len(selected) == self.waiting_count:
            return
        fresh, numbers = slice(self._fresh_start, self.size), self._numbers[selected]
        self._is_live[fresh] = False
        self._is_live[selected] = True
        fresh_numbers = self._numbers[fresh]
        self._status[fresh_numbers] = _UNKNOWN
        self._status[numbers] = _WAITING
        if self._scores_paths:
            self._path_counts[fresh_numbers] = 0
            self._path_counts[numbers] = 1
            self._positions[numbers] = selected
        self.waiting_count = len(selected)

    # Committing.

    def commit(self, positions: Positions) -> CommittedNodes:
        """Mark the nodes at selected positions as visited, and return them."""
        numbers = self._numbers[positions]
        self.nodes.require_stable(positions, numbers)
        self._status[numbers] = _VISITED
        self._is_live[positions] = False
        if self._scores_paths:
            # All paths to a committed node stop waiting with it.
            self._positions[numbers] = positions
            self.waiting_count -= int(self._path_counts[numbers].sum())
            self._path_counts[numbers] = 0
        else:
            self.waiting_count -= len(positions)
        return CommittedNodes(self, positions)

    # Look-ups by position.

    def numbers_at(self, positions: Positions) -> Positions:
        """Return the numbers of the nodes at positions."""
        return self._numbers[positions]

    def nodes_at(self, positions: Positions) -> Any:
        """Return the nodes at positions; their numbers in a walk in columns."""
        return self.nodes.nodes_at(positions, self._numbers[positions])

    def ids_at(self, positions: Positions) -> list[Hashable]:
        """Return the ids at positions."""
        return self.nodes.ids_at(positions, self._numbers[positions])

    def depths_at(self, positions: Positions) -> Positions:
        """Return the depths at positions."""
        return self._depths[positions]

    def scores_at(self, positions: Positions) -> NDArray[np.float64]:
        """Return the scores at positions."""
        return self._scores[positions]

    def edges_at(self, positions: Positions) -> Positions:
        """Return the numbers of the edges that led to positions; -1 for seeds."""
        return self._edges[positions]

    def parents_at(self, positions: Positions) -> Positions:
        """Return the positions of the parents; -1 for seeds."""
        return self._parents[positions]

    def parent_ids_at(self, positions: Positions) -> list[Hashable | None]:
        """Return the ids of the parents; `None` for seeds."""
        parents = self._parents[positions]
        ids: list[Hashable | None] = list(self.ids_at(parents))
        for row in np.flatnonzero(parents < 0).tolist():
            ids[row] = None
        return ids

    def parent_at(self, position: int) -> int:
        """Return the position of the parent; -1 for a seed."""
        return int(self._parents[position])

    def require_stable(self, positions: Positions) -> None:
        """Check that the ids of committed nodes are still found.

        Raises:
            PolicyError: If one has another hash, or equals other ids, than when it was stored.
        """
        self.nodes.require_stable(positions, self._numbers[positions])

    def path_to(self, position: int) -> list[Hashable]:
        """Return the ids from the seed to a committed node."""
        path = []
        while position >= 0:
            path.append(position)
            position = self.parent_at(position)
        return self.ids_at(np.array(path[::-1], np.intp))

    # Look-ups by number and id.

    def count_unreached(self, numbers: Positions) -> int:
        """Return how many different nodes among these are neither committed nor waiting."""
        self._make_room_for_numbers()
        new = numbers[self._status[numbers] == _UNKNOWN]
        order = np.arange(len(new))
        self._positions[new] = order
        return int(np.count_nonzero(self._positions[new] == order))

    def depth_of(self, id: Hashable) -> int | None:
        """Return the depth of a waiting or committed node; `None` for any other id."""
        position = self._position_of(id)
        return None if position is None else int(self._depths[position])

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Return the parent's id of a waiting or committed node; `None` if there is none."""
        position = self._position_of(id)
        return None if position is None else self.parent_ids_at(np.array([position]))[0]

    def _position_of(self, id: Hashable) -> int | None:
        number = self.nodes.number_of(id)
        if number is None or number >= len(self._status) or self._status[number] == _UNKNOWN:
            return None
        return int(self._positions[number])

    @property
    def _policy_name(self) -> str:
        return type(self._policy).__name__


def _read_only(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a view of the first rows of a column that nobody can make writable.

    Of a read-only array a policy could set the write flag again, but not of a read-only buffer.
    """
    return np.frombuffer(memoryview(column.data).toreadonly(), column.dtype, size)


def _find_nested_type(scores: Any) -> type | None:
    """Return the type of a score that has a length and is no number, if there is one."""
    kinds = set() if isinstance(scores, np.ndarray) else set(map(type, scores))
    return next((kind for kind in kinds if hasattr(kind, "__len__") and not hasattr(kind, "__float__")), None)


def _to_numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Return an array as numbers.

    Raises:
        TypeError: If it contains text, times or complex numbers, which numpy would convert silently.
    """
    kind = values.dtype.kind
    has_times = kind == "O" and any(isinstance(value, np.datetime64 | np.timedelta64) for value in values)
    if kind not in "biufO" or has_times:
        raise TypeError(f"not values of type {values.dtype}")
    return values.astype(np.float64) if kind == "O" else values
