"""The walk record: the nodes that a walk has discovered, waiting or committed."""

from collections.abc import AsyncGenerator, Awaitable, Generator, Hashable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import chain, islice, pairwise, repeat
from math import isnan
from operator import index
from typing import Any

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw.errors import PolicyError
from airw.walking.policy import ColumnView, CommittedNode, Frontier, WalkPolicy
from airw.walking.slips import require_plain, require_stable_ids
from airw.walking.summary import WalkCounts

_new_committed_node = partial(tuple.__new__, CommittedNode)  # takes half the time of `CommittedNode(...)`
_INITIAL_ROWS = 1_024


class WalkRecord:
    """The nodes that one walk has discovered, in columns.

    A position is the row number of a discovery. The life of a position: `admit` appends it, and `score_fresh` writes
    its score. `frontier` shows it to the policy as live, and `choose` checks that only live positions are selected.
    `commit` makes its id visited, and a visited id is never admitted again. A position that is not selected waits for
    the next step if the policy keeps its frontier; else `drop_unselected` drops it.

    A node waits from its discovery until it is committed or dropped. `waiting_count` is the number of waiting nodes, or
    of the waiting paths to them. Limits, events, the state of the policy and the count beyond the limits all use it.

    The operator enforces limits from this record alone, and a policy sees read-only views of it. So no policy can get
    round a limit.
    """

    def __init__(self, policy: WalkPolicy, max_frontier: int, counts: WalkCounts) -> None:
        """Start an empty record."""
        self._policy = policy
        self._keeps_frontier, self._scores_paths = policy.keeps_frontier, policy.scores_paths
        self._max_frontier = max_frontier
        self._counts = counts
        # The columns, by position.
        self._nodes: list[Any] = []
        self._ids: list[Hashable] = []
        self._depths: list[int] = []
        self._parents: list[int] = []  # positions; -1 for a seed
        self._scores = np.empty(_INITIAL_ROWS, np.float64)
        self._is_live = np.zeros(_INITIAL_ROWS, np.bool_)  # used if the frontier is kept; else fresh positions are live
        # By id: the position of each committed node, and the node of each waiting one. See `_add_nodes` for the reason.
        self._visited: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, Any] = {}
        # With `scores_paths`: all waiting positions of an id, one per path.
        self._path_positions: dict[Hashable, list[int]] = {}
        # Without: the position of each id, indexed only when it is needed. See `_waiting_position`.
        self._position_index: dict[Hashable, int] = {}
        self._indexed_rows = 0
        self._fresh_start = 0
        self.waiting_count = 0

    def begin_step(self) -> None:
        """Note that the nodes admitted from here on are those of a new step."""
        self._fresh_start = len(self._nodes)

    # Admitting discovered nodes.

    def admit(self, groups: Sequence[tuple[int, Sequence[Any]]]) -> list[Hashable]:
        """Append the new nodes, up to `max_frontier`, and return the ids of all nodes in a row.

        Args:
            groups: The position of a committed node (`-1` for seeds), and the nodes reached from it.
        """
        ids = self._identify(nodes for _, nodes in groups)
        try:
            if self._scores_paths:
                refused = self._add_paths(groups, iter(ids))
            else:
                refused = self._add_nodes(groups, iter(ids), len(ids))
        except Exception:
            # Checking every id beforehand would cost time; one that fails is looked for only now.
            self._check_ids(chain.from_iterable(nodes for _, nodes in groups), ids)
            raise
        self._counts.refuse("max_frontier", refused)
        return ids

    def _identify(self, groups: Iterable[Sequence[Any]]) -> list[Hashable]:
        """Return the id of each node, by one pass of `node_id`."""
        nodes = list(chain.from_iterable(groups))
        ids: list[Hashable] = []
        try:
            ids += map(self._policy.node_id, nodes)
        except Exception as error:
            add_note(error, f"for node {short_repr(nodes[len(ids)])}")
            raise
        if len(ids) < len(nodes):
            raise StopIteration  # `node_id` raised it, and `map` ended early; `label_errors` reports it
        # What an `async def` or a generator function returns is hashable: each would be a node of its own.
        if ids and isinstance(ids[0], Awaitable | Generator | AsyncGenerator):
            for id in ids:
                require_plain("node_id", self._policy, id)
            raise PolicyError(f"{self._policy_name}.node_id returned {short_repr(ids[0])}; write `def` and `return`")
        return ids

    def _check_ids(self, nodes: Iterable[Any], ids: Iterable[Any]) -> None:
        """Raise an error that names the first node whose id cannot be a key of a dict."""
        for node, id in zip(nodes, ids, strict=True):
            try:
                hashable = _is_hashable(id)
                _ = hashable and (id in self._visited or id in self._waiting)  # comparing may fail, too
            except Exception as error:
                add_note(error, f"for node {short_repr(node)}")
                raise
            if not hashable:
                raise PolicyError(
                    f"{self._policy_name}.node_id returned {short_repr(id)} for node {short_repr(node)}; "
                    "return something hashable"
                )

    def _add_nodes(self, groups: Sequence[tuple[int, Sequence[Any]]], ids: Iterator[Hashable], count: int) -> int:
        """Append the nodes that are new while there is room, and return how many were refused.

        The inner loop runs once per neighbour and is most of what a walk costs (`bench_walk`). So it does two look-ups
        and writes one dict, which remembers the order; the columns are extended from that dict in bulk.
        """
        visited, waiting, keeps, cap = self._visited, self._waiting, self._keeps_frontier, self._max_frontier
        # The cap is checked per node only if this call could reach it.
        is_tight = self.waiting_count + count > cap
        sizes, refused, seen_again = [len(waiting)], 0, []
        for parent, nodes in groups:
            for node, id in zip(nodes, ids, strict=False):  # `ids` goes on with the ids of the next groups
                if id in visited:
                    continue
                if id in waiting:
                    # A frontier that is not kept has one depth, so no path can be shorter.
                    if keeps:
                        seen_again.append((id, node, parent))
                elif is_tight and len(waiting) >= cap:
                    refused += 1
                else:
                    waiting[id] = node
            sizes.append(len(waiting))
        self._append_rows([parent for parent, _ in groups], [after - before for before, after in pairwise(sizes)])
        # Only now do all waiting nodes have positions.
        with require_stable_ids(self._policy):
            for id, node, parent in seen_again:
                self._shorten_path(self._waiting_position(id), node, parent)
        return refused

    def _append_rows(self, parents: Sequence[int], counts: Sequence[int]) -> None:
        """Append the newest waiting nodes to the columns, `counts[i]` of them below `parents[i]`."""
        added = sum(counts)
        self._ids += _last_items(self._waiting.keys(), added)
        self._nodes += _last_items(self._waiting.values(), added)
        self._parents += chain.from_iterable(map(repeat, parents, counts))
        depths = [self._depth_below(parent) for parent in parents]
        self._depths += chain.from_iterable(map(repeat, depths, counts))
        self.waiting_count += added

    def _depth_below(self, parent: int) -> int:
        return self._depths[parent] + 1 if parent >= 0 else 0

    def _add_paths(self, groups: Sequence[tuple[int, Sequence[Any]]], ids: Iterator[Hashable]) -> int:
        """Append a position for each path to uncommitted nodes; return how many were refused."""
        refused = 0
        for parent, nodes in groups:
            for node, id in zip(nodes, ids, strict=False):
                if id in self._visited:
                    continue
                if self.waiting_count >= self._max_frontier:
                    refused += 1
                    continue
                self._waiting.setdefault(id, node)
                self._path_positions.setdefault(id, []).append(len(self._nodes))
                self._nodes.append(node)
                self._ids.append(id)
                self._depths.append(self._depth_below(parent))
                self._parents.append(parent)
                self.waiting_count += 1
        return refused

    def _shorten_path(self, position: int, node: Any, parent: int) -> None:
        """Replace the parent and depth of a waiting node if another path is shorter."""
        depth = self._depth_below(parent)
        if depth < self._depths[position]:
            self._nodes[position], self._depths[position], self._parents[position] = node, depth, parent

    def _waiting_position(self, id: Hashable) -> int:
        """Return the position of a waiting node, that of its first path if it has several.

        The index is extended here and not in `admit`, because many policies never look up a waiting node.
        """
        if self._scores_paths:
            return self._path_positions[id][0]
        if self._indexed_rows < self.size:
            new_positions = range(self._indexed_rows, self.size)
            self._position_index.update(zip(self._ids[self._indexed_rows :], new_positions, strict=True))
            self._indexed_rows = self.size
        return self._position_index[id]

    # Scoring.

    def fresh_nodes(self) -> list[Any]:
        """Return the nodes discovered in this step."""
        return self._nodes[self._fresh_start :]

    def score_fresh(self, scores: Sequence[float] | NDArray[Any]) -> None:
        """Write the scores of the nodes discovered in this step, which makes their positions live.

        Raises:
            PolicyError: If there is not one number per node, or a number is NaN.
        """
        start, size = self._fresh_start, len(self._nodes)
        self._scores, self._is_live = reserve(self._scores, size), reserve(self._is_live, size)
        fresh_scores = self._scores[start:size]
        fresh_scores[:] = self._check_scores(scores, size - start)
        # numpy's minimum is NaN if any number is: one pass and no temporary array.
        if isnan(np.minimum.reduce(fresh_scores)):
            node = self._nodes[start + int(np.isnan(fresh_scores).argmax())]
            raise PolicyError(f"{self._policy_name}.score returned NaN for node {short_repr(node)}; return a number")
        if self._keeps_frontier:
            self._is_live[start:size] = True

    def _check_scores(self, scores: Any, count: int) -> NDArray[Any]:
        """Return scores as an array of `count` numbers, or raise a `PolicyError`."""
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
        size = len(self._nodes)
        # A read-only buffer: of a read-only array a policy could set the write flag again.
        scores = np.frombuffer(memoryview(self._scores.data).toreadonly(), np.float64, size)
        return Frontier(
            nodes=ColumnView(self._nodes),
            ids=ColumnView(self._ids),
            depths=ColumnView(self._depths),
            scores=scores,
            live=np.flatnonzero(self._is_live[:size]) if self._keeps_frontier else np.arange(self._fresh_start, size),
            fresh=range(self._fresh_start, size),
        )

    def choose(self, positions: Sequence[Any], selected: dict[Hashable, int]) -> None:
        """Add the positions that a policy selected to `selected`, which contains each node once.

        Raises:
            PolicyError: If one is not a position, or is not live.
        """
        if not set(map(type, positions)) <= {int}:
            positions = [self._to_position(item) for item in positions]
        first_live = 0 if self._keeps_frontier else self._fresh_start
        is_out_of_range = min(positions) < first_live or max(positions) >= self.size
        if is_out_of_range or (self._keeps_frontier and not self._is_live[positions].all()):
            self._check_live(positions, first_live, "returned")
        if self._scores_paths:
            # Several positions may be paths to one node: the first one selected counts.
            for position in positions:
                selected.setdefault(self._ids[position], position)
        else:
            # A position means one node, so it can be the key itself; repeated keys keep their first place.
            selected.update(zip(positions, positions, strict=True))

    def _check_live(self, positions: Sequence[int], first_live: int, verb: str) -> None:
        for position in positions:
            if not first_live <= position < self.size or (self._keeps_frontier and not self._is_live[position]):
                raise PolicyError(
                    f"{self._policy_name}.select {verb} position {position}, where no node waits; "
                    "use positions of frontier.live"
                )

    def _to_position(self, item: Any) -> int:
        try:
            if not isinstance(item, bool):  # bools are ints to Python, but a mask is not a list of positions
                return index(item)
        except TypeError:
            pass
        raise PolicyError(
            f"{self._policy_name}.select used {short_repr(item)} as a position; positions are whole numbers"
        )

    def drop(self, positions: Iterable[Any], selected: Iterable[int]) -> None:
        """Remove positions from the frontier, except the selected ones.

        Raises:
            PolicyError: If one is not a position, or is not live.
        """
        dropped = dict.fromkeys(map(self._to_position, positions))
        self._check_live(list(dropped), 0 if self._keeps_frontier else self._fresh_start, "dropped")
        with require_stable_ids(self._policy):
            for position in dropped.keys() - set(selected):
                self._is_live[position] = False
                self._stop_waiting(position)
                self.waiting_count -= 1

    def drop_unselected(self, selected: Sequence[int]) -> None:
        """Drop all nodes but the selected ones, unless the policy keeps its frontier."""
        if self._keeps_frontier or len(selected) == self.waiting_count:
            return
        ids = [self._ids[position] for position in selected]
        self._waiting = dict(zip(ids, map(self._nodes.__getitem__, selected), strict=True))
        if self._scores_paths:
            self._path_positions = {id: [position] for id, position in zip(ids, selected, strict=True)}
        self.waiting_count = len(selected)

    def _stop_waiting(self, position: int) -> None:
        id = self._ids[position]
        if not self._scores_paths:
            del self._waiting[id]
            return
        # The node itself waits as long as one path to it does.
        self._path_positions[id].remove(position)
        if not self._path_positions[id]:
            del self._path_positions[id], self._waiting[id]

    # Committing.

    def commit(self, positions: Sequence[int]) -> list[CommittedNode]:
        """Mark the nodes at selected positions as visited, and return them."""
        node_ids = [self._ids[position] for position in positions]
        self._visited.update(zip(node_ids, positions, strict=True))
        # All paths to a committed node stop waiting with it.
        no_longer_live: Sequence[int] = positions
        with require_stable_ids(self._policy):
            if self._scores_paths:
                no_longer_live = [position for id in node_ids for position in self._path_positions.pop(id)]
            for id in node_ids:
                del self._waiting[id]
        self.waiting_count -= len(no_longer_live)
        if self._keeps_frontier:
            self._is_live[no_longer_live] = False
        parents = map(self._parents.__getitem__, positions)
        columns = (
            map(self._nodes.__getitem__, positions),
            node_ids,
            map(self._depths.__getitem__, positions),
            self._scores[positions].tolist(),
            [self._ids[parent] if parent >= 0 else None for parent in parents],
        )
        return list(map(_new_committed_node, zip(*columns, strict=True)))

    # Look-ups.

    @property
    def size(self) -> int:
        """The number of positions so far."""
        return len(self._nodes)

    def already_reached(self, ids: Sequence[Hashable], first_position: int) -> list[bool]:
        """Return for each id whether its node waited or was committed before.

        Args:
            ids: The ids that the last `admit` returned; an id that occurs twice was reached before the second time.
            first_position: The number of positions before that `admit`.
        """
        new_ids = set(self._ids[first_position:])  # without the refused ones, which the walk has not reached
        if self._scores_paths:
            with require_stable_ids(self._policy):
                new_ids = {id for id in new_ids if self._path_positions[id][0] >= first_position}
        reached = []
        for id in ids:
            if id in new_ids:
                new_ids.remove(id)
                reached.append(False)
            else:
                reached.append(id in self._visited or id in self._waiting)
        return reached

    def id_at(self, position: int) -> Hashable:
        """Return the id at a position."""
        return self._ids[position]

    def ids_not_reached(self, nodes: Sequence[Any], *, are_ids: bool) -> set[Hashable]:
        """Return the ids of nodes that are neither committed nor waiting.

        Args:
            nodes: Nodes, or their ids.
            are_ids: Whether `nodes` are ids.
        """
        ids = nodes if are_ids else self._identify([nodes])
        try:
            return {id for id in ids if id not in self._visited and id not in self._waiting}
        except Exception:
            self._check_ids(nodes, ids)
            raise

    def positions_of(self, committed: Iterable[CommittedNode]) -> list[int]:
        """Return the positions of committed nodes."""
        with require_stable_ids(self._policy):
            return [self._visited[entry.id] for entry in committed]

    def path(self, id: Hashable) -> list[Hashable]:
        """Return the ids from the seed to a committed node."""
        with require_stable_ids(self._policy):
            position = self._visited[id]
        path = []
        while position >= 0:
            path.append(self._ids[position])
            position = self._parents[position]
        return path[::-1]

    def depth_of(self, id: Hashable) -> int | None:
        """Return the depth of a waiting or committed node; `None` for any other id."""
        position = self._position_of(id)
        return None if position is None else self._depths[position]

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Return the parent's id of a waiting or committed node; `None` if there is none."""
        position = self._position_of(id)
        parent = -1 if position is None else self._parents[position]
        return self._ids[parent] if parent >= 0 else None

    def _position_of(self, id: Hashable) -> int | None:
        position = self._visited.get(id)
        if position is not None or id not in self._waiting:
            return position
        with require_stable_ids(self._policy):
            return self._waiting_position(id)

    @property
    def _policy_name(self) -> str:
        return type(self._policy).__name__


def _last_items(view: Any, count: int) -> Iterator[Any]:
    """Return the last `count` items of a dict's view, in order.

    It skips the items before them, or reads the view from its end, whichever passes fewer items.
    """
    others = len(view) - count
    return islice(view, others, None) if others <= count else reversed(list(islice(reversed(view), count)))


def _is_hashable(id: object) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True


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
