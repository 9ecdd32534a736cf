"""The walk record: the nodes that a walk has discovered, waiting or committed."""

from collections.abc import Callable, Hashable, Sequence, Sized
from math import isnan
from operator import index
from typing import Any

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.walking.committed import CommittedNodes
from airw.walking.found_again import FoundAgain
from airw.walking.listed import ListedNodes
from airw.walking.numbered import NumberedNodes, to_read_only
from airw.walking.policy import ColumnView, Frontier, IntegerView, WalkPolicy
from airw.walking.summary import WalkCounts

_INITIAL_ROWS = 1_024
Positions = NDArray[np.intp]


class WalkRecord:
    """The nodes that one walk has discovered, in columns.

    A position is the row number of a discovery. The life of a position: `admit` appends it, and `score_fresh` writes
    its score. `frontier` shows it to the policy as live, and `check_selection` checks that only live positions are
    selected. `commit` makes its node visited, and a visited node is never admitted again. A position that is not
    selected waits for the next step if the policy keeps its frontier; else `drop_unselected` drops it.

    A node waits from its discovery until it is committed or dropped. `waiting_count` is the number of waiting nodes, or
    of the waiting paths to them. Limits, events, the state of the policy and the count beyond the limits all use it.

    The nodes and their ids are in `nodes`, and their depths, parents and scores in arrays.

    The operator enforces limits from this record alone, and a policy sees read-only views of it. So no policy can get
    round a limit.
    """

    def __init__(self, policy: WalkPolicy, max_frontier: int, counts: WalkCounts) -> None:
        """Start an empty record."""
        self._policy = policy
        self._keeps_frontier, self._scores_paths = policy.keeps_frontier, policy.scores_paths
        self._max_frontier = max_frontier
        self._counts = counts
        # `None` if the policy does not score committed nodes again.
        rescores = getattr(policy, "rescores_committed", False)
        self.found_again: FoundAgain | None = FoundAgain(self, counts) if rescores else None
        self.nodes: ListedNodes | NumberedNodes = ListedNodes(policy)
        # The columns, by position.
        self.size: int = 0
        self._depths = np.empty(_INITIAL_ROWS, np.intp)
        self._parents = np.empty(_INITIAL_ROWS, np.intp)  # positions; -1 for a seed
        self._scores = np.empty(_INITIAL_ROWS, np.float64)
        self._is_live = np.zeros(_INITIAL_ROWS, np.bool_)
        self._fresh_start = 0
        self.seed_count: int = 0  # positions below are seeds
        self.waiting_count: int = 0

    def begin_step(self) -> None:
        """Note that the nodes admitted from here on are those of a new step."""
        self._fresh_start = self.size

    # Admitting discovered nodes.

    def admit(self, found: Any, *, compares: bool) -> NDArray[np.bool_] | None:
        """Append the new nodes, up to `max_frontier`; return which neighbours were known.

        A neighbour that occurs twice is known the second time. Without `compares`, nothing is returned.
        """
        nodes, first = self.nodes, self.size
        kept, refused = nodes.admit(found, self._max_frontier - self.waiting_count, first)
        self._counts.refuse("max_frontier", refused)
        self._append_rows(found.parents[kept])
        if self.found_again is not None and self._fresh_start:
            self.found_again.add(nodes.paths_to_committed(found))
        is_known = nodes.find_known(found, kept, first) if compares else None
        if self._keeps_frontier and not self._scores_paths and self._fresh_start:
            # A frontier that is not kept has one depth, so no path can be shorter.
            self._shorten_paths(found)
        return is_known

    def _append_rows(self, parents: Positions) -> None:
        rows = slice(self.size, self.size + len(parents))
        if rows.stop > len(self._depths):
            self._depths, self._parents = reserve(self._depths, rows.stop), reserve(self._parents, rows.stop)
            self._scores, self._is_live = reserve(self._scores, rows.stop), reserve(self._is_live, rows.stop)
        self._parents[rows] = parents
        self._depths[rows] = self._depths[parents] + 1 if self._fresh_start else 0
        self.size = rows.stop
        self.waiting_count += len(parents)
        if not self._fresh_start:
            self.seed_count = self.size

    def _shorten_paths(self, found: Any) -> None:
        """Replace the path to waiting nodes by those of other neighbours, where these are shorter."""
        positions, depths = self.nodes.waiting_positions(found, self.size), self._depths[found.parents] + 1
        is_shorter = (positions >= 0) & (depths < self._depths[positions])
        for row in is_shorter.nonzero()[0].tolist():
            position = int(positions[row])
            if depths[row] < self._depths[position]:  # several may lead to one node
                self._depths[position], self._parents[position] = depths[row], found.parents[row]
                self.nodes.replace(position, found, row)

    # Scoring.

    def fresh_nodes(self) -> Any:
        """Return the nodes discovered in this step; their numbers in a walk in columns."""
        return self.nodes.fresh(self._fresh_start, self.size)

    def fresh_edges(self, nodes: NumberedNodes) -> Positions:
        """Return the numbers of the edges that led to these nodes; -1 for seeds."""
        return nodes.fresh_edges(self._fresh_start, self.size)

    def score_fresh(self, scores: Sequence[float] | NDArray[Any]) -> None:
        """Write the scores of the nodes discovered in this step, which makes their positions live.

        Raises:
            PolicyError: If there is not one number per node, or a number is NaN.
        """
        start, size = self._fresh_start, self.size
        self._scores[start:size] = self._check_scores(scores, size - start)
        self._refuse_nan(self._scores[start:size], self.fresh_nodes)
        self._is_live[start:size] = True

    def check_scores(self, scores: Any, nodes: Sequence[Any]) -> NDArray[np.float64]:
        """Return the scores of nodes as an array.

        Raises:
            PolicyError: If there is not one number per node, or a number is NaN.
        """
        checked: NDArray[np.float64] = np.asarray(self._check_scores(scores, len(nodes)), np.float64)
        self._refuse_nan(checked, lambda: nodes)
        return checked

    def _refuse_nan(self, scores: NDArray[np.float64], nodes: Callable[[], Sequence[Any]]) -> None:
        # numpy's minimum is NaN if any number is: one pass and no temporary array.
        if isnan(np.minimum.reduce(scores)):
            node = nodes()[int(np.isnan(scores).argmax())]
            raise PolicyError(f"{self._policy_name}.score returned NaN for node {short_repr(node)}; return a number")

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
        size, nodes, depths = self.size, self.nodes, to_read_only(self._depths, self.size)
        fresh, scores, live = range(self._fresh_start, size), to_read_only(self._scores, size), self._live_positions()
        if isinstance(nodes, ListedNodes):
            return Frontier(ColumnView(nodes.nodes), ColumnView(nodes.ids), IntegerView(depths), scores, live, fresh)
        numbers: Any = nodes.fresh(0, size)
        return Frontier(numbers, numbers, depths, scores, live, fresh)  # type: ignore[arg-type]

    def _live_positions(self) -> Positions:
        if self._keeps_frontier:
            return self._is_live[: self.size].nonzero()[0]
        return np.arange(self._fresh_start, self.size)

    def check_selection(self, positions: Positions) -> Positions:
        """Return the positions that a policy selected, each node once.

        Raises:
            PolicyError: If one is not live.
        """
        self._check_range(positions, "returned")
        # As many positions are live as nodes wait. Of those selected, one may be twice or not live: fewer are switched
        # off then.
        first = 0 if self._keeps_frontier else self._fresh_start
        before = self._is_live[positions]
        self._is_live[positions] = False
        others = np.count_nonzero(self._is_live[first : self.size])
        self._is_live[positions] = before
        if not self._scores_paths and others + len(positions) == self.waiting_count:
            return positions
        self._check_live(positions, "returned")
        # Several positions may be paths to one node: the first one selected counts.
        selected: dict[Hashable, int] = {}
        for key, position in zip(self.nodes.keys_at(positions), positions.tolist(), strict=True):
            selected.setdefault(key, position)
        return np.fromiter(selected.values(), np.intp)

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

    def _check_range(self, positions: Positions, verb: str) -> None:
        # As unsigned numbers, negative positions are too large.
        if len(positions) and np.maximum.reduce(positions.view(np.uintp)) >= self.size:
            self._check_each(positions, verb)

    def _check_live(self, positions: Positions, verb: str) -> None:
        self._check_range(positions, verb)
        if not self._is_live[positions].all():
            self._check_each(positions, verb)

    def _check_each(self, positions: Positions, verb: str) -> None:
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
        self._is_live[positions] = False
        self.waiting_count -= len(positions)
        self.nodes.drop(positions, self._live_paths(positions))

    def drop_unselected(self, selected: Positions) -> None:
        """Drop all nodes but the selected ones, unless the policy keeps its frontier."""
        if self._keeps_frontier or len(selected) == self.waiting_count:
            return
        fresh = slice(self._fresh_start, self.size)
        self._is_live[fresh] = False
        self._is_live[selected] = True
        self.nodes.drop_others(fresh, selected)
        self.waiting_count = len(selected)

    # Committing.

    def commit(self, positions: Positions) -> CommittedNodes:
        """Mark the nodes at selected positions as visited, and return them."""
        # All paths to a committed node stop waiting with it.
        no_longer_live = self.nodes.commit(positions, self._live_paths(positions))
        self._is_live[no_longer_live] = False
        self.waiting_count -= len(no_longer_live)
        return CommittedNodes(self, positions)

    def _live_paths(self, positions: Positions) -> Positions:
        """Return all positions that wait; without paths, nobody needs others than some."""
        return self._is_live[: self.size].nonzero()[0] if self._scores_paths else positions

    # Look-ups by position.

    def nodes_at(self, positions: Positions) -> Any:
        """Return the nodes at positions; their numbers in a walk in columns."""
        return self.nodes.nodes_at(positions)

    def ids_at(self, positions: Positions) -> list[Hashable]:
        """Return the ids at positions."""
        return self.nodes.ids_at(positions)

    def depths_at(self, positions: Positions) -> Positions:
        """Return the depths at positions."""
        return self._depths[positions]

    def scores_at(self, positions: Positions) -> NDArray[np.float64]:
        """Return the scores at positions."""
        return self._scores[positions]

    def parents_at(self, positions: Positions) -> Positions:
        """Return the positions of the parents; -1 for seeds."""
        return self._parents[positions]

    def parent_ids_at(self, positions: Positions) -> list[Hashable | None]:
        """Return the ids of the parents; `None` for seeds."""
        parents = self._parents[positions]
        ids: list[Hashable | None] = list(self.ids_at(parents))
        if len(parents) and positions.min() < self.seed_count:
            for row in (parents < 0).nonzero()[0].tolist():
                ids[row] = None
        return ids

    def parent_at(self, position: int) -> int:
        """Return the position of the parent; -1 for a seed."""
        return int(self._parents[position])

    def path_to(self, position: int) -> list[Hashable]:
        """Return the ids from the seed to a committed node."""
        path = []
        while position >= 0:
            path.append(position)
            position = self.parent_at(position)
        return self.ids_at(np.array(path[::-1], np.intp))

    # Look-ups by id.

    def depth_of(self, id: Hashable) -> int | None:
        """Return the depth of a waiting or committed node; `None` for any other id."""
        position = self.nodes.position_of(id)
        return None if position is None else int(self._depths[position])

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Return the parent's id of a waiting or committed node; `None` if there is none."""
        position = self.nodes.position_of(id)
        return None if position is None else self.parent_ids_at(np.array([position]))[0]

    @property
    def _policy_name(self) -> str:
        return type(self._policy).__name__


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
