"""The walk record: the nodes that a walk has discovered, waiting or committed."""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Generator, Hashable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw.errors import PolicyError
from airw.walking.answers import Found, find_edge, require_plain, to_positions
from airw.walking.policy import (
    ColumnView,
    CommittedNode,
    CommittedNodes,
    Frontier,
    LazyNeighbors,
    NeighborValues,
    NewNodes,
    Policy,
    WalkPolicy,
)
from airw.walking.summary import WalkCounts

_UNMADE = object()
_USUAL_IDS = frozenset({str, int, tuple})
_MAX_PATH = 64  # nodes of a path to a committed node, which is followed back to see whether it is a circle
_new_entry = partial(tuple.__new__, CommittedNode)  # takes half the time of `CommittedNode(...)`


class ReadEdge(NamedTuple):
    """A neighbour that was read, for events.

    Args:
        source: The id of the node that it follows.
        target: Its own id.
        is_known: Whether the walk had reached it before.
        node: The neighbour itself.
    """

    source: Hashable
    target: Hashable
    is_known: bool
    node: Any


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


class FoundPath(NamedTuple):
    """A path that ends at a committed node, and has no score yet.

    Args:
        node: The node at its end, as the policy returned it.
        parent: The position of the node before the last one.
        position: The position by which the node was committed.
    """

    node: Any
    parent: int
    position: int


class NodeColumn(Sequence[Any]):
    """The node at each position of a walk record.

    Those that are values are made when somebody looks. They are in runs: a run begins at a position, and has the
    neighbours of one artifact and their places there.
    """

    def __init__(self) -> None:
        """Start an empty column."""
        self._nodes: list[Any] = []  # `_UNMADE` for a value
        self._starts: list[int] = []
        self._runs: list[tuple[NeighborValues, Sequence[int]]] = []

    def add(self, nodes: Found, places: Sequence[int]) -> None:
        """Append the nodes at some places, which ascend."""
        if isinstance(nodes, NeighborValues) and places:
            self._starts.append(len(self._nodes))
            self._runs.append((nodes, places))
            self._nodes += [_UNMADE] * len(places)
        else:
            self._nodes += _take(nodes, places)

    def replace(self, position: int, node: Any) -> None:
        """Replace the node at a position."""
        self._nodes[position] = node

    def has_values(self, start: int) -> bool:
        """Return whether any node from a position on is a value."""
        return bool(self._starts) and self._starts[-1] >= start

    def make(self, first: int, stop: int) -> list[Any]:
        """Return the nodes of some positions, with all values made."""
        nodes = self._nodes[first:stop]
        for row in range(max(bisect_right(self._starts, first) - 1, 0), bisect_left(self._starts, stop)):
            start, (source, places) = self._starts[row], self._runs[row]
            begin = max(first, start)
            made = source.take(places[begin - start : stop - start])
            part = slice(begin - first, begin - first + len(made))
            nodes[part] = [new if old is _UNMADE else old for old, new in zip(nodes[part], made, strict=True)]
        return nodes

    def __len__(self) -> int:
        """Return the number of positions so far."""
        return len(self._nodes)

    def __getitem__(self, position: Any) -> Any:
        """Return the node at a position, or a list of those of a slice."""
        if isinstance(position, slice):
            return [self[at] for at in range(len(self))[position]]
        node = self._nodes[position]
        if node is not _UNMADE:
            return node
        position = range(len(self))[position]
        row = bisect_right(self._starts, position) - 1
        source, places = self._runs[row]
        place = places[position - self._starts[row]]
        return source[place : place + 1][0]


class WalkRecord:
    """The nodes that one walk has discovered, in lists.

    A position is the place of a discovery in the lists; it is never used again. A node waits from its discovery until
    it is committed or dropped: `is_live` is 1 meanwhile. `position_of` has the position of each node that waits or is
    committed. If the policy scores paths, a node waits at several positions, which `paths` has; the first of them is in
    `position_of`, and after the commitment the one that was committed.

    The operator enforces all limits on nodes from these lists alone. A policy sees views and copies of them, so none
    can get round a limit.
    """

    def __init__(self, policy: WalkPolicy, max_frontier: int, counts: WalkCounts) -> None:
        """Start an empty record."""
        self._policy, self._max_frontier, self._counts = policy, max_frontier, counts
        self._keeps_frontier, self._scores_paths = policy.keeps_frontier, policy.scores_paths
        self._rescores = bool(getattr(policy, "rescores_committed", False))
        self._is_own_id = getattr(policy.node_id, "__func__", None) is Policy.node_id
        # By position.
        self.nodes: NodeColumn = NodeColumn()
        self.ids: list[Hashable] = []
        self.depths: list[int] = []
        self.parents: list[int] = []  # positions; -1 for a seed
        self.scores: list[float] = []
        self.is_live: bytearray = bytearray()
        self.position_of: dict[Hashable, int] = {}
        self.paths: dict[Hashable, list[int]] = {}
        self._paths_end = 0  # positions from here on are not in `paths` yet
        self.fresh_start: int = 0  # positions from here on were discovered in this step
        self.waiting: int = 0  # the number of positions that are live
        self.read_edges: list[ReadEdge] | None = None  # of this step, if somebody wants them
        self.found_again: list[FoundPath] = []  # of this step
        self.better_paths: dict[int, BetterPath] = {}  # by position
        self._score_array = np.empty(64)
        self._array_size = 0

    # Admitting discovered nodes.

    def identify(self, nodes: Found) -> Sequence[Hashable]:
        """Return the id of each node, by one pass of `node_id`; lazy neighbours have them."""
        if isinstance(nodes, LazyNeighbors):
            return nodes.ids
        if self._is_own_id:
            return list(nodes)
        ids: list[Hashable] = []
        try:
            ids += map(self._policy.node_id, nodes)
        except Exception as error:
            add_note(error, f"for node {short_repr(nodes[len(ids)])}")
            raise
        if len(ids) < len(nodes):
            raise StopIteration  # `node_id` raised it, and `map` ended early; `label_error` reports it
        # What an `async def` or a generator function returns is hashable: each would be a node of its own.
        if ids and type(ids[0]) not in _USUAL_IDS and isinstance(ids[0], Awaitable | Generator | AsyncGenerator):
            for id in ids:
                require_plain("node_id", self._policy, id)
            raise PolicyError(f"{self._name}.node_id returned {short_repr(ids[0])}; write `def` and `return`")
        return ids

    def admit(self, nodes: Found, parents: Sequence[int]) -> None:
        """Append the new nodes, which then wait; each follows a position, a seed follows -1.

        A node that finds no room counts as left out as often as it is reached. Lazy neighbours follow one position. Of
        them those are created that are appended, or all if somebody wants to know what was read.

        Raises:
            PolicyError: If an id cannot be a key of a dict.
        """
        ids = self.identify(nodes)
        has_room = len(ids) <= self._max_frontier - self.waiting
        is_plain = has_room and not (self._keeps_frontier or self._rescores) and self.read_edges is None
        try:
            made = nodes if self.read_edges is None else nodes[:]  # each is in an event
            (self._admit_new if is_plain else self._admit_within_limits)(made, ids, parents)
        except Exception as error:
            # Checking every id beforehand would cost time; one that fails is looked for only now.
            self.check_ids(nodes, ids)
            if isinstance(nodes, LazyNeighbors) and parents[0] >= 0:
                add_note(error, f"for node {short_repr(self.nodes[parents[0]])}")
            raise

    def _admit_new(self, nodes: Found, ids: Sequence[Hashable], parents: Sequence[int]) -> None:
        """Append new nodes and paths; most walks note nothing of others, and have room for all."""
        first, position_of = len(self.ids), self.position_of
        if self._scores_paths:  # each path to a node of this step is new, too
            known, least = map(position_of.get, ids, repeat(first)), self.fresh_start
            places = [place for place, position in enumerate(known) if position >= least]
        else:
            places = [place for place, id in enumerate(ids) if id not in position_of]
        new_ids = list(map(ids.__getitem__, places))
        if self._scores_paths:
            deque(map(position_of.setdefault, new_ids, range(first, len(ids) + first)), maxlen=0)  # the first one stays
        else:
            if len(set(new_ids)) < len(new_ids):  # of equal ids the first counts
                places = sorted(dict(zip(reversed(new_ids), reversed(places), strict=True)).values())
                new_ids = list(map(ids.__getitem__, places))
            position_of.update(zip(new_ids, range(first, first + len(new_ids)), strict=True))
        count = len(places)
        self.ids += new_ids
        self.parents += map(parents.__getitem__, places)
        self.nodes.add(nodes, places)
        # All nodes of a frontier that is not kept have one depth.
        self.depths += [0 if parents[0] < 0 else self.depths[parents[0]] + 1] * count if count else ()
        self.is_live += b"\1" * count
        self.waiting += count

    def _admit_within_limits(self, nodes: Found, ids: Sequence[Hashable], parents: Sequence[int]) -> None:
        """Append new nodes and paths while there is room; note shorter paths to waiting nodes."""
        position_of, depths, is_live = self.position_of, self.depths, self.is_live
        refused, first, places, before, depth = 0, len(self.ids), list[int](), None, 0
        is_lazy = isinstance(nodes, LazyNeighbors) and not self._rescores
        for place in self._list_changes(ids, parents[0]) if is_lazy else range(len(ids)):
            id, parent = ids[place], parents[place]
            known = position_of.get(id)
            if parent != before:
                before, depth = parent, 0 if parent < 0 else depths[parent] + 1
            if self.read_edges is not None and parent >= 0:
                self.read_edges.append(ReadEdge(self.ids[parent], id, known is not None, *_take(nodes, [place])))
            if known is not None and not is_live[known]:  # committed
                if self._rescores and depth <= _MAX_PATH and not self._leads_through(parent, known):
                    [node] = _take(nodes, [place])
                    self.found_again.append(FoundPath(node, parent, known))
            elif known is not None and not self._scores_paths:
                if depth < depths[known]:  # only a frontier that is kept has nodes of several depths
                    depths[known], self.parents[known] = depth, parent
                    if known < first:
                        self.nodes.replace(known, *_take(nodes, [place]))
                    else:
                        places[known - first] = place
            elif self.waiting == self._max_frontier:
                refused += 1
            else:
                position_of.setdefault(id, len(self.ids))
                places.append(place)
                self.ids.append(id)
                depths.append(depth)
                self.parents.append(parent)
                is_live.append(1)
                self.waiting += 1
        self.nodes.add(nodes, places)
        self._counts.refuse("max_frontier", refused)

    def _list_changes(self, ids: Sequence[Hashable], parent: int) -> list[int]:
        """Return the places of ids that are new, or that a path from a position changes."""
        depth, paths = 0 if parent < 0 else self.depths[parent] + 1, self._scores_paths
        get, is_live, depths = self.position_of.get, self.is_live, self.depths
        return [
            place
            for place, id in enumerate(ids)
            if (known := get(id)) is None or (is_live[known] and (paths or depths[known] > depth))
        ]

    def _leads_through(self, position: int, other: int) -> bool:
        """Return whether the path to a position leads through another one."""
        while self.depths[position] > self.depths[other]:
            position = self.parents[position]
        return position == other

    def check_ids(self, nodes: Found, ids: Sequence[Any]) -> None:
        """Raise an error that names the first node whose id cannot be a key of a dict."""
        seen: set[Hashable] = set()
        for node, id in zip(ids if isinstance(nodes, LazyNeighbors) else nodes, ids, strict=True):
            try:
                hashable = _is_hashable(id)
                # Comparing may fail, too.
                _ = hashable and (id in self.position_of or seen.add(id))  # type: ignore[func-returns-value]
            except Exception as error:
                add_note(error, f"for node {short_repr(node)}")
                raise
            if not hashable:
                raise PolicyError(
                    f"{self._name}.node_id returned {short_repr(id)} for node {short_repr(node)}; "
                    "return something hashable"
                )

    # Scoring.

    def new_nodes(self) -> Sequence[Any]:
        """Return the nodes discovered in this step; values are not made yet."""
        start, nodes = self.fresh_start, self.nodes
        if not nodes.has_values(start):
            return nodes.make(start, len(nodes))
        parents = list(map(self.ids.__getitem__, self.parents[start:]))
        return NewNodes(self.ids[start:], parents, lambda part: nodes.make(start + part.start, start + part.stop))

    def keep_better(self, paths: Sequence[FoundPath], scores: Sequence[float]) -> None:
        """Keep better paths to committed nodes; of those with equal scores the first."""
        for (node, parent, position), score in zip(paths, scores, strict=True):
            before = self.better_paths.get(position)
            if score > (self.scores[position] if before is None else before.score):
                edge = find_edge(self._policy, node)
                self.better_paths[position] = BetterPath(score, parent, None if edge is None else edge.type)

    # Selecting.

    def frontier(self) -> Frontier:
        """Return the view of the frontier that `select` receives."""
        size, done = len(self.scores), self._array_size
        self._score_array = reserve(self._score_array, size)
        self._score_array[done:size] = self.scores[done:]
        self._array_size = size
        scores = self._score_array[:size]
        scores.flags.writeable = False
        nodes, ids, depths = ColumnView(self.nodes), ColumnView(self.ids), ColumnView(self.depths)
        return Frontier(nodes, ids, depths, scores, self._live_positions(), range(self.fresh_start, size))

    def best_first(self) -> list[int]:
        """Return the positions that are live, highest score first; ties in order of discovery.

        Of several paths to a node, it is the first.
        """
        live = self._live_positions().tolist() if self._keeps_frontier else range(self.fresh_start, len(self.ids))
        positions = sorted(live, key=self.scores.__getitem__, reverse=True)  # it keeps the order of equal ones
        return self.choose(positions) if self._scores_paths else positions

    def _live_positions(self) -> NDArray[np.intp]:
        if self._keeps_frontier:
            return np.frombuffer(self.is_live, np.bool_).nonzero()[0]
        return np.arange(self.fresh_start, len(self.ids))

    def choose(self, positions: list[int]) -> list[int]:
        """Return the positions that a policy selected; of several paths to a node the first.

        Raises:
            PolicyError: If one is not live.
        """
        self._check_live(positions, "returned")
        if not self._scores_paths:
            return list(dict.fromkeys(positions))
        chosen: dict[Hashable, int] = {}
        for position in positions:
            chosen.setdefault(self.ids[position], position)
        return list(chosen.values())

    def _check_live(self, positions: Sequence[int], verb: str) -> None:
        size, is_live = len(self.ids), self.is_live
        if positions and min(positions) >= 0 and max(positions) < size and all(map(is_live.__getitem__, positions)):
            return
        for position in positions:
            if not 0 <= position < size or not is_live[position]:
                raise PolicyError(
                    f"{self._name}.select {verb} position {position}, where no node waits; "
                    "use positions of frontier.live"
                )

    def drop(self, dropped: list[Any], selected: Sequence[int]) -> None:
        """Remove positions from the frontier, except the selected ones.

        Raises:
            PolicyError: If one is not a position, or is not live.
        """
        positions = to_positions(dropped, self._policy)
        self._check_live(positions, "dropped")
        self._note_paths()
        for position in set(positions).difference(selected):
            id, self.is_live[position] = self.ids[position], 0
            self.waiting -= 1
            others = [other for other in self.paths.get(id, ()) if other != position]
            if others:  # the node itself waits as long as one path to it does
                self.paths[id], self.position_of[id] = others, others[0]
            else:
                self.paths.pop(id, None)
                self.position_of.pop(id, None)

    def drop_unselected(self, selected: Sequence[int]) -> None:
        """Drop all nodes but the selected ones, unless the policy keeps its frontier."""
        if self._keeps_frontier or (len(selected) == self.waiting and not self._scores_paths):
            return
        fresh = self.ids[self.fresh_start :]
        deque(map(self.position_of.pop, fresh, repeat(None)), maxlen=0)  # it forgets them
        self.is_live[self.fresh_start :] = bytes(len(fresh))
        for position in selected:
            self.position_of[self.ids[position]] = position
            self.is_live[position] = 1
        if self._scores_paths:
            self.paths, self._paths_end = {self.ids[position]: [position] for position in selected}, len(self.ids)
        self.waiting = len(selected)

    def _note_paths(self) -> None:
        """Note the positions that each node waits at, if the policy scores paths."""
        if self._scores_paths:
            for position in range(self._paths_end, len(self.ids)):
                if self.is_live[position]:
                    self.paths.setdefault(self.ids[position], []).append(position)
            self._paths_end = len(self.ids)

    # Committing.

    def commit(self, positions: Sequence[int]) -> CommittedNodes:
        """Note that nodes wait no more, and return them.

        Raises:
            PolicyError: If an id is not found any more.
        """
        ids = list(map(self.ids.__getitem__, positions))
        if self._scores_paths:
            self._note_paths()
            for position, id in zip(positions, ids, strict=True):
                # All paths to a node stop waiting with it.
                paths = self.paths.pop(id, ())
                if position in paths:
                    self.position_of[id] = position
                for path in paths:
                    self.is_live[path] = 0
                self.waiting -= len(paths)
        else:
            for position in positions:
                self.is_live[position] = 0
            self.waiting -= len(positions)
        self.require_stable(positions)
        parents = list(map(self.parents.__getitem__, positions))
        parent_ids = [None if parent < 0 else self.ids[parent] for parent in parents]
        columns: tuple[Sequence[Any], ...] = self.nodes, self.depths, self.scores
        nodes, depths, scores = (list(map(column.__getitem__, positions)) for column in columns)
        return CommittedNodes(map(_new_entry, zip(nodes, ids, depths, scores, parent_ids, strict=True)))

    def require_stable(self, positions: Sequence[int]) -> None:
        """Check that the ids of committed nodes are still found.

        Raises:
            PolicyError: If one has another hash, or equals other ids, than when it was stored.
        """
        ids = list(map(self.ids.__getitem__, positions))
        found = list(map(self.position_of.get, ids))
        if found != list(positions):
            id = next(id for id, position, other in zip(ids, found, positions, strict=True) if position != other)
            raise PolicyError(
                f"{self._name}.node_id returned {short_repr(id)}, whose hash has changed since; return an id that "
                "stays the same, such as a string or a tuple"
            )

    # Looking up.

    def find_unreached(self, nodes: Found) -> set[Hashable]:
        """Return the ids of nodes that are neither committed nor waiting.

        Raises:
            PolicyError: If an id cannot be a key of a dict.
        """
        ids = self.identify(nodes)
        try:
            return {id for id in ids if id not in self.position_of}
        except Exception:
            self.check_ids(nodes, ids)
            raise

    def depth_of(self, id: Hashable) -> int | None:
        """Return the depth of a waiting or committed node; `None` for any other id."""
        position = self.position_of.get(id)
        return None if position is None else self.depths[position]

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Return the parent's id of a waiting or committed node; `None` if there is none."""
        parent = self.parents[self.position_of[id]] if id in self.position_of else -1
        return None if parent < 0 else self.ids[parent]

    def path_to(self, position: int) -> list[Hashable]:
        """Return the ids from the seed to a position."""
        path = []
        while position >= 0:
            path.append(self.ids[position])
            position = self.parents[position]
        return path[::-1]

    @property
    def _name(self) -> str:
        return type(self._policy).__name__


def _take(nodes: Found, places: Sequence[int]) -> Iterable[Any]:
    """Return the nodes at some places."""
    return map(nodes.__getitem__, places) if isinstance(nodes, list) else nodes.take(places)


def _is_hashable(id: object) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True
