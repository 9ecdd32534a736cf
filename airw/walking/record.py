"""The operator's own record of a walk; a policy sees views of it and cannot change it."""

from collections.abc import Hashable, Iterable, Iterator, Sequence, Sized
from functools import partial
from itertools import chain, islice, pairwise, repeat
from math import isnan
from operator import index
from typing import Any

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.walking.policy import ColumnView, CommittedNode, Frontier, WalkPolicy
from airw.walking.summary import WalkCounts

_entry = partial(tuple.__new__, CommittedNode)  # half the time of `Entry(...)`, which matters once a node
_ROWS = 1_024  # to begin with


class WalkRecord:
    """Every discovery of one walk in columns by position, and which of them wait, are committed, or are dropped."""

    def __init__(self, policy: WalkPolicy, max_frontier: int, tally: WalkCounts) -> None:
        """Start an empty record."""
        self._policy = policy
        self._keeps, self._every_path = policy.keeps_frontier, policy.scores_paths
        self._max_frontier = max_frontier
        self._tally = tally
        self._nodes: list[Any] = []
        self._ids: list[Hashable] = []
        self._depths: list[int] = []
        self._parents: list[int] = []
        self._scores = np.empty(_ROWS, np.float64)
        self._alive = np.zeros(_ROWS, np.bool_)  # only where the frontier is kept; else what is fresh is alive
        self._visited: dict[Hashable, int] = {}
        self._waiting: dict[Hashable, Any] = {}  # with the node, not the position: see `_enter`
        self._twins: dict[Hashable, list[int]] = {}
        self._places: dict[Hashable, int] = {}  # made when asked for: see `_place`
        self._placed = 0
        self._start = 0
        self.waiting_count = 0

    def begin_step(self) -> None:
        """Forget the entries that were not selected, unless the policy keeps them."""
        if not self._keeps:
            self._waiting.clear()
            self._twins.clear()
            self.waiting_count = 0
        self._start = len(self._nodes)

    def admit(self, groups: Sequence[tuple[int, Sequence[Any]]]) -> list[Hashable]:
        """Enter the nodes found behind committed entries, by the parent's position, and give the ids of all in a row.

        Seeds have the parent `-1`.
        """
        ids = self._identified(nodes for _, nodes in groups)
        try:
            if self._every_path:
                refused = self._enter_paths(groups, iter(ids))
            else:
                refused = self._enter(groups, iter(ids), len(ids))
        except Exception:
            self._check_ids(chain.from_iterable(nodes for _, nodes in groups), ids)
            raise
        self._tally.refuse("max_frontier", refused)
        return ids

    def _identified(self, groups: Iterable[Sequence[Any]]) -> list[Hashable]:
        nodes = list(chain.from_iterable(groups))
        ids: list[Hashable] = []
        try:
            ids += map(self._policy.node_id, nodes)
        except Exception as error:
            error.add_note(f"for node {short_repr(nodes[len(ids)])}")
            raise
        if len(ids) < len(nodes):
            raise StopIteration  # which `map` took for the end
        return ids

    def _check_ids(self, nodes: Iterable[Any], ids: Iterable[Any]) -> None:
        """Find out which id cannot be looked up, and say so."""
        for node, id in zip(nodes, ids, strict=True):
            try:
                hashable = _is_hashable(id)
                _ = hashable and (id in self._visited or id in self._waiting)
            except Exception as error:
                error.add_note(f"for node {short_repr(node)}")
                raise
            if not hashable:
                raise PolicyError(
                    f"node_id must give something hashable, not {short_repr(id)} (for {short_repr(node)})"
                )

    def _enter(self, groups: Sequence[tuple[int, Sequence[Any]]], ids: Iterator[Hashable], count: int) -> int:
        """Append what is new while there is room, and give how many were refused.

        The inner loop runs once a neighbour and is most of what a walk costs: it writes one dict, from which the
        columns are extended in bulk.
        """
        visited, waiting, keeps, cap = self._visited, self._waiting, self._keeps, self._max_frontier
        is_tight = self.waiting_count + count > cap
        sizes, refused, again = [len(waiting)], 0, []
        for parent, nodes in groups:
            for node, id in zip(nodes, ids, strict=False):  # the ids of the other groups follow
                if id in visited:
                    continue
                if id in waiting:
                    if keeps:
                        again.append((id, node, parent))
                elif is_tight and len(waiting) >= cap:
                    refused += 1
                else:
                    waiting[id] = node
            sizes.append(len(waiting))
        self._extend([parent for parent, _ in groups], [after - before for before, after in pairwise(sizes)])
        for id, node, parent in again:
            self._bring_nearer(self._place(id), node, parent)
        return refused

    def _extend(self, parents: Sequence[int], counts: Sequence[int]) -> None:
        """Append the entries that were made last, so many behind each parent."""
        added = sum(counts)
        self._ids += _last(self._waiting.keys(), added)
        self._nodes += _last(self._waiting.values(), added)
        self._parents += chain.from_iterable(map(repeat, parents, counts))
        self._depths += chain.from_iterable(map(repeat, [self._below(parent) for parent in parents], counts))
        self.waiting_count += added

    def _below(self, parent: int) -> int:
        return self._depths[parent] + 1 if parent >= 0 else 0

    def _enter_paths(self, groups: Sequence[tuple[int, Sequence[Any]]], ids: Iterator[Hashable]) -> int:
        """Append every path to a node that is not committed, while there is room, and give how many were refused."""
        refused = 0
        for parent, nodes in groups:
            for node, id in zip(nodes, ids, strict=False):
                if id in self._visited:
                    continue
                if self.waiting_count >= self._max_frontier:
                    refused += 1
                    continue
                self._waiting.setdefault(id, node)
                self._twins.setdefault(id, []).append(len(self._nodes))
                self._nodes.append(node)
                self._ids.append(id)
                self._depths.append(self._below(parent))
                self._parents.append(parent)
                self.waiting_count += 1
        return refused

    def _bring_nearer(self, held: int, node: Any, parent: int) -> None:
        """Take the shorter way to a waiting entry."""
        depth = self._below(parent)
        if depth < self._depths[held]:
            self._nodes[held], self._depths[held], self._parents[held] = node, depth, parent

    def _place(self, id: Hashable) -> int:
        """Give the position of a waiting entry, the first of its paths."""
        if self._every_path:
            return self._twins[id][0]
        if self._placed < self.size:
            self._places.update(zip(self._ids[self._placed :], range(self._placed, self.size), strict=True))
            self._placed = self.size
        return self._places[id]

    def fresh_nodes(self) -> list[Any]:
        """Give the nodes discovered in this step."""
        return self._nodes[self._start :]

    def score_fresh(self, scores: Sequence[float] | NDArray[Any]) -> None:
        """Write the scores of this step's discoveries and let them wait.

        Raises:
            PolicyError: Not one number each, or a NaN.
        """
        start, size = self._start, len(self._nodes)
        self._scores, self._alive = reserve(self._scores, size), reserve(self._alive, size)
        values = self._scores[start:size]
        values[:] = self._one_each(scores, size - start)
        if isnan(np.minimum.reduce(values)):  # NaN is the least of numbers to numpy
            node = self._nodes[start + int(np.isnan(values).argmax())]
            raise PolicyError(f"{self._who()}.score gave NaN for node {short_repr(node)}")
        if self._keeps:
            self._alive[start:size] = True

    def _one_each(self, scores: Any, count: int) -> NDArray[Any]:
        given = len(scores) if isinstance(scores, Sized) else short_repr(scores)
        if given != count:
            raise PolicyError(f"{self._who()}.score must give {count} numbers, one a node, not {given}")
        try:
            numbers = _numbers(np.asarray(scores))
        except (TypeError, ValueError, OverflowError) as error:
            raise PolicyError(f"{self._who()}.score must give numbers: {error}") from error
        if numbers.shape != (count,):
            raise PolicyError(f"{self._who()}.score must give {count} numbers, one a node, not shape {numbers.shape}")
        return numbers

    def frontier(self) -> Frontier:
        """Give the policy's view for `select`."""
        size = len(self._nodes)
        scores = np.frombuffer(memoryview(self._scores.data).toreadonly(), np.float64, size)
        return Frontier(
            nodes=ColumnView(self._nodes),
            ids=ColumnView(self._ids),
            depths=ColumnView(self._depths),
            scores=scores,
            live=np.flatnonzero(self._alive[:size]) if self._keeps else np.arange(self._start, size),
            fresh=range(self._start, size),
        )

    def choose(self, picked: Sequence[Any], chosen: dict[Hashable, int]) -> None:
        """Enter the positions a policy selected into `chosen`, by id or by themselves, each id once.

        Raises:
            PolicyError: One is not a position, or not live.
        """
        positions = picked if set(map(type, picked)) <= {int} else [self._whole(item) for item in picked]
        first = 0 if self._keeps else self._start
        if min(positions) < first or max(positions) >= self.size or (self._keeps and not self._alive[positions].all()):
            self._refuse_dead(positions, first)
        if self._every_path:
            for position in positions:
                chosen.setdefault(self._ids[position], position)
        else:  # one position stands for one id, and a repeated one stays where it was
            chosen.update(zip(positions, positions, strict=True))

    def _refuse_dead(self, positions: Sequence[int], first: int, what: str = "gave") -> None:
        for position in positions:
            if not first <= position < self.size or (self._keeps and not self._alive[position]):
                raise PolicyError(f"{self._who()}.select {what} position {position}, where nothing waits")

    def _whole(self, item: Any) -> int:
        try:
            if not isinstance(item, bool):  # a mask is not a list of positions
                return index(item)
        except TypeError:
            pass
        raise PolicyError(f"{self._who()}.select must give positions, whole numbers, not {short_repr(item)}")

    def drop(self, positions: Iterable[Any], chosen: Iterable[int]) -> None:
        """Forget entries that the policy has no more use for, those aside that it chose.

        Raises:
            PolicyError: One is not a position, or not live.
        """
        gone = dict.fromkeys(map(self._whole, positions))
        self._refuse_dead(list(gone), 0 if self._keeps else self._start, "dropped")
        for position in gone.keys() - set(chosen):
            self._alive[position] = False
            self._forget(position)
            self.waiting_count -= 1

    def _forget(self, position: int) -> None:
        id = self._ids[position]
        if not self._every_path:
            del self._waiting[id]
            return
        self._twins[id].remove(position)
        if not self._twins[id]:
            del self._twins[id], self._waiting[id]

    def commit(self, positions: Sequence[int]) -> list[CommittedNode]:
        """Mark entries as visited and give them as their policy sees them."""
        ids, parents = self._ids, self._parents
        names = [ids[position] for position in positions]
        self._visited.update(zip(names, positions, strict=True))
        gone = [at for id in names for at in self._twins.pop(id)] if self._every_path else positions
        self.waiting_count -= len(gone)
        if self._keeps:
            self._alive[gone] = False
            for id in names:
                del self._waiting[id]
        above = [ids[parent] if parent >= 0 else None for parent in map(parents.__getitem__, positions)]
        nodes, depths = map(self._nodes.__getitem__, positions), map(self._depths.__getitem__, positions)
        return list(map(_entry, zip(nodes, names, depths, self._scores[positions].tolist(), above, strict=True)))

    @property
    def size(self) -> int:
        """Count the discoveries so far."""
        return len(self._nodes)

    def known_before(self, ids: Sequence[Hashable], position: int) -> list[bool]:
        """Say of ids just admitted from `position` on, in order, whether each was known when it was found."""
        visited, waiting, known = self._visited, self._waiting, []
        new = set(self._ids[position:])  # without those that were refused, which stay unknown
        if self._every_path:
            new = {id for id in new if self._twins[id][0] >= position}
        for id in ids:
            if id in new:
                new.remove(id)
                known.append(False)
            else:
                known.append(id in visited or id in waiting)
        return known

    def id_at(self, position: int) -> Hashable:
        """Give the id of a discovery."""
        return self._ids[position]

    def unknown(self, nodes: Sequence[Any], *, are_ids: bool) -> set[Hashable]:
        """Give the ids among the nodes, or among ids, that are neither committed nor waiting."""
        ids = nodes if are_ids else self._identified([nodes])
        try:
            return {id for id in ids if id not in self._visited and id not in self._waiting}
        except Exception:
            self._check_ids(nodes, ids)
            raise

    def positions_of(self, committed: Iterable[CommittedNode]) -> list[int]:
        """Give the positions of committed entries."""
        return [self._visited[entry.id] for entry in committed]

    def path(self, id: Hashable) -> list[Hashable]:
        """Give the ids from the seed to a committed node."""
        position, path = self._visited[id], []
        while position >= 0:
            path.append(self._ids[position])
            position = self._parents[position]
        return path[::-1]

    def depth_of(self, id: Hashable) -> int | None:
        """Give the depth of a waiting or committed node."""
        position = self._position_of(id)
        return None if position is None else self._depths[position]

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Give the id of the node a waiting or committed node was reached from."""
        position = self._position_of(id)
        parent = -1 if position is None else self._parents[position]
        return self._ids[parent] if parent >= 0 else None

    def _position_of(self, id: Hashable) -> int | None:
        position = self._visited.get(id)
        return self._place(id) if position is None and id in self._waiting else position

    def _who(self) -> str:
        return type(self._policy).__name__


def _last(view: Any, count: int) -> Iterator[Any]:
    """Give the last items of a dict's view in order, without passing over more others than there are of them."""
    others = len(view) - count
    return islice(view, others, None) if others <= count else reversed(list(islice(reversed(view), count)))


def _is_hashable(id: object) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True


def _numbers(values: NDArray[Any]) -> NDArray[Any]:
    """Refuse what is no number; of the rest numpy would read text and times as numbers, and drop imaginary parts."""
    kind = values.dtype.kind
    if kind not in "biufO" or (
        kind == "O" and any(isinstance(each, np.datetime64 | np.timedelta64) for each in values)
    ):
        raise TypeError(f"not values of type {values.dtype}")
    return values.astype(np.float64) if kind == "O" else values
