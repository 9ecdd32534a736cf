"""Numbered nodes: those of a walk in columns, and the names of those that leave the walk."""

from collections.abc import Hashable, Iterator, Sequence
from inspect import isawaitable
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw.errors import PolicyError
from airw.values import Edge
from airw.walking.columns import Columns
from airw.walking.found_again import FoundPaths
from airw.walking.policy import Policy, WalkPolicy, WalkState
from airw.walking.slips import await_answer, label_errors, require_edge

MAX_NUMBER = 2**28  # there are a few bytes for each number up to the highest
_UNKNOWN, _WAITING, _VISITED = 0, 1, 2
_INITIAL_ROWS = 1_024
Positions = NDArray[np.intp]


class NumberedNeighbors(NamedTuple):
    """Neighbours that were read in columns, in a row.

    Args:
        numbers: The number of each.
        edges: The number of the edge that led to it, among all neighbours of the walk; -1 for a seed.
        parents: The position of the node that it follows; -1 for a seed.
    """

    numbers: Positions
    edges: Positions
    parents: Positions


class NumberedNodes:
    """Nodes that are numbers, as a policy in columns returns them.

    Those that leave the walk have names.
    """

    def __init__(self, policy: WalkPolicy) -> None:
        """Start without nodes."""
        self._policy = policy
        self._scores_paths = policy.scores_paths
        self._name_nodes = getattr(policy, "name_nodes", None)
        self.has_names: bool = self._name_nodes is not None
        self._names: dict[int, Hashable] = {}
        self._numbers_by_name: dict[Hashable, int] = {}
        self._bound = 0  # all numbers are below
        # By position: the number of each node, and of the edge that led to it.
        self._numbers = np.empty(_INITIAL_ROWS, np.intp)
        self._edges = np.empty(_INITIAL_ROWS, np.intp)
        # By number: what became of the node, and its position, that of its first path if it waits with several.
        self._status = np.zeros(0, np.uint8)
        self._positions = np.empty(0, np.intp)
        # The answers of `expand`, and where the neighbours of each begin among all neighbours of the walk.
        self._answers: list[Columns] = []
        self._starts = [0]
        self.has_edges: bool = False

    def check(self, numbers: Any, method: str) -> Positions:
        """Return an array of numbers as one of positions in the record.

        Raises:
            PolicyError: If they are not integers in one dimension, from 0 to `MAX_NUMBER`.
        """
        if not is_number_array(numbers):
            where = f"{type(self._policy).__name__}.{method}"
            raise PolicyError(
                f"{where} returned {short_repr(numbers)}; return the numbers of nodes as an integer array of one "
                "dimension, because seed did"
            )
        checked = np.asarray(numbers, np.intp)
        if len(checked):
            # As an unsigned number, a negative one is too high.
            highest = int(np.maximum.reduce(checked.view(np.uintp)))
            if highest >= MAX_NUMBER:
                wrong = next(number for number in numbers.tolist() if not 0 <= number < MAX_NUMBER)
                raise PolicyError(
                    f"{type(self._policy).__name__}.{method} returned node {wrong}; "
                    f"return numbers from 0 to {MAX_NUMBER - 1}"
                )
            self._bound = max(self._bound, highest + 1)
        return checked

    def check_list(self, nodes: list[Any]) -> Positions:
        """Return a list of numbers as one of positions in the record.

        Raises:
            PolicyError: If they are no numbers of nodes.
        """
        wrong = next((node for node in nodes if not isinstance(node, int | np.integer)), None)
        return self.check(np.array(nodes, np.int64) if wrong is None else wrong, "expand")

    # Admitting.

    def _make_room(self) -> None:
        count = len(self._status)
        if self._bound > count:
            self._status = reserve(self._status, self._bound)
            positions = np.empty(len(self._status), np.intp)
            positions[:count] = self._positions
            self._positions = positions

    def admit(self, found: NumberedNeighbors, room: int, first: int) -> tuple[Positions, int]:
        """Append the nodes that are new; see `ListedNodes.admit`."""
        kept, refused = self._choose(found, room)
        end = first + len(kept)
        if end > len(self._numbers):
            self._numbers, self._edges = reserve(self._numbers, end), reserve(self._edges, end)
        numbers = found.numbers[kept]
        self._numbers[first:end] = numbers
        self._edges[first:end] = found.edges[kept]
        positions = np.arange(first, end)
        if self._scores_paths:
            is_new = self._status[numbers] == _UNKNOWN
            self._positions[numbers[is_new][::-1]] = positions[is_new][::-1]
        else:
            self._positions[numbers] = positions
        self._status[numbers] = _WAITING
        return kept, refused

    def _choose(self, found: NumberedNeighbors, room: int) -> tuple[Positions, int]:
        """Return the indexes of the neighbours to admit, and how many are refused."""
        self._make_room()
        numbers = found.numbers
        before = self._status[numbers]
        if self._scores_paths:
            new: Positions = (before != _VISITED).nonzero()[0]
            return new[:room], max(0, len(new) - room)
        new = (before == _UNKNOWN).nonzero()[0]
        # The last number written to a place stays. So, written backwards, each place has its first occurrence.
        new_numbers, order = numbers[new], np.arange(len(new))
        self._positions[new_numbers[::-1]] = order[::-1]
        is_first = self._positions[new_numbers] == order
        firsts: Positions = new[is_first]
        if len(firsts) <= room:
            return firsts, 0
        admitted = np.zeros(len(new), np.bool_)
        admitted[is_first.nonzero()[0][:room]] = True
        return firsts[:room], int(np.count_nonzero(~admitted[self._positions[new_numbers]]))

    def find_known(self, found: NumberedNeighbors, kept: Positions, first: int) -> NDArray[np.bool_]:
        """Return which neighbours were reached before; see `ListedNodes.find_known`."""
        is_known: NDArray[np.bool_] = self._status[found.numbers] != _UNKNOWN
        is_known[kept[self._positions[found.numbers[kept]] == np.arange(first, first + len(kept))]] = False
        return is_known

    def paths_to_committed(self, found: NumberedNeighbors) -> FoundPaths:
        """Return the neighbours that are committed, as paths to them."""
        rows = self._status[found.numbers] == _VISITED
        numbers = found.numbers[rows]
        return FoundPaths(numbers, found.edges[rows], found.parents[rows], self._positions[numbers])

    def waiting_positions(self, found: NumberedNeighbors, size: int) -> Positions:
        """Return the position at which each neighbour waits; -1 if it does not."""
        waits: NDArray[np.bool_] = self._status[found.numbers] == _WAITING
        positions: Positions = np.where(waits, self._positions[found.numbers], -1)
        return positions

    def replace(self, position: int, found: NumberedNeighbors, index: int) -> None:
        """Enter a neighbour at a position where its node waits already."""
        self._edges[position] = found.edges[index]

    # Dropping and committing.

    def drop(self, positions: Positions, live: Positions) -> None:
        """Note that nodes wait no more at positions; those that wait are `live`."""
        self._status[self._numbers[positions]] = _UNKNOWN
        if self._scores_paths:  # the node itself waits as long as one path to it does
            self._status[self._numbers[live]] = _WAITING
            self._positions[self._numbers[live[::-1]]] = live[::-1]

    def drop_others(self, fresh: slice, positions: Positions) -> None:
        """Note that of the nodes at `fresh` only those at positions still wait."""
        numbers = self._numbers[positions]
        self._status[self._numbers[fresh]] = _UNKNOWN
        self._status[numbers] = _WAITING
        if self._scores_paths:
            self._positions[numbers] = positions

    def commit(self, positions: Positions, live: Positions) -> Positions:
        """Note that nodes are committed; return all positions where they no longer wait."""
        numbers = self._numbers[positions]
        self._status[numbers] = _VISITED
        if not self._scores_paths:
            return positions
        self._positions[numbers] = positions
        stopped: Positions = live[self._status[self._numbers[live]] == _VISITED]
        return stopped

    # Look-ups.

    def count_unreached(self, numbers: Positions) -> int:
        """Return how many different nodes among these are neither committed nor waiting."""
        self._make_room()
        new = numbers[self._status[numbers] == _UNKNOWN]
        order = np.arange(len(new))
        self._positions[new] = order
        return int(np.count_nonzero(self._positions[new] == order))

    def fresh(self, start: int, size: int) -> Positions:
        """Return the numbers at positions from `start` on, read-only."""
        numbers: Positions = to_read_only(self._numbers, size)[start:]
        return numbers

    def fresh_edges(self, start: int, size: int) -> Positions:
        """Return the numbers of the edges that led to these nodes; -1 for seeds."""
        return self._edges[start:size]

    def nodes_at(self, positions: Positions) -> Positions:
        """Return the numbers at positions."""
        return self._numbers[positions]

    def ids_at(self, positions: Positions) -> list[Hashable]:
        """Return the names at positions."""
        return self.names_of(self._numbers[positions])

    def keys_at(self, positions: Positions) -> list[int]:
        """Return the numbers at positions as a list."""
        keys: list[int] = self._numbers[positions].tolist()
        return keys

    def position_of(self, id: Hashable) -> int | None:
        """Return the position of a waiting or committed node; `None` for any other name."""
        number: Any = id
        if self._name_nodes is not None:
            number = self._numbers_by_name.get(id)
        if not isinstance(number, int | np.integer) or not 0 <= number < len(self._status):
            return None
        return None if self._status[number] == _UNKNOWN else int(self._positions[number])

    def require_stable(self, positions: Positions) -> None:
        """Do nothing: a number stays the same."""

    # Names.

    async def name(self, numbers: Positions, state: WalkState, store: Any) -> None:
        """Ask the policy for the names of nodes that have none yet.

        Raises:
            PolicyError: If there is not one hashable name per node.
        """
        if self._name_nodes is None:
            return
        names_of = self._names
        unnamed = list(dict.fromkeys(number for number in numbers.tolist() if number not in names_of))
        if not unnamed:
            return
        with label_errors("name_nodes", self._policy):
            answer = self._name_nodes(state, np.array(unnamed, np.int64), store)
            names = await await_answer("name_nodes", self._policy, answer)
            if not isinstance(names, Sequence) or isinstance(names, str) or len(names) != len(unnamed):
                raise PolicyError(
                    f"{type(self._policy).__name__}.name_nodes returned {short_repr(names)}; return a list with one "
                    f"name per number ({len(unnamed)})"
                )
            self._numbers_by_name.update(zip(names, unnamed, strict=True))
            names_of.update(zip(unnamed, names, strict=True))

    def names_of(self, numbers: Positions) -> list[Hashable]:
        """Return the names of nodes; those without a name are named by their number."""
        if self._name_nodes is None:
            ids: list[Hashable] = numbers.tolist()
            return ids
        return [self._names.get(number, number) for number in numbers.tolist()]

    # Edges.

    def add_answer(self, answer: Columns) -> int:
        """Keep an answer of `expand` for its edges, and return where its neighbours begin."""
        start = self._starts[-1]
        self._answers.append(answer)
        self.has_edges = self.has_edges or answer.edges is not None or answer.edge_types is not None
        self._starts.append(start + len(answer.ids))
        return start

    async def edge_types(self, positions: Positions) -> list[str | None]:
        """Return the types of the edges that led to positions; `None` for seeds."""
        return await self.types_of(self._edges[positions])

    async def types_of(self, edges: Positions) -> list[str | None]:
        """Return the types of edges by their numbers; `None` for seeds."""
        types: list[str | None] = [None] * len(edges)
        for answer, rows, places in self._split_by_answer(edges):
            if answer.edge_types is not None:
                with label_errors("expand", self._policy):
                    found = answer.edge_types(places)
                    found = await found if isawaitable(found) else found
                    _fill(types, rows, found, self._policy, "edge_types")
            elif answer.edges is not None:
                for row, edge in zip(rows.tolist(), await self._edges_at(answer, places), strict=True):
                    types[row] = None if edge is None else edge.type
        return types

    async def edges(self, edges: Positions) -> list[Edge | None]:
        """Return edges by their numbers; `None` for seeds."""
        found: list[Edge | None] = [None] * len(edges)
        for answer, rows, places in self._split_by_answer(edges):
            if answer.edges is not None:
                _fill(found, rows, await self._edges_at(answer, places), self._policy, "edges")
        return found

    async def _edges_at(self, answer: Columns, places: Positions) -> Sequence[Edge | None]:
        if answer.edges is None:
            return [None] * len(places)
        with label_errors("expand", self._policy):
            edges = answer.edges(places)
            edges = await edges if isawaitable(edges) else edges
            return [require_edge(self._policy, "expand", edge) for edge in edges]

    def _split_by_answer(self, edges: Positions) -> Iterator[tuple[Columns, Positions, Positions]]:
        """Yield each answer that has some of the edges, their rows, and their places in it."""
        if (
            len(edges) and self._answers and int(np.minimum.reduce(edges)) >= self._starts[-2]
        ):  # all are of the last answer
            yield self._answers[-1], np.arange(len(edges)), edges - self._starts[-2]
            return
        owners = np.searchsorted(self._starts, edges, side="right") - 1
        for owner in np.unique(owners[edges >= 0]).tolist():
            rows = np.flatnonzero(owners == owner)
            yield self._answers[owner], rows, edges[rows] - self._starts[owner]


def _fill(column: list[Any], rows: Positions, values: Sequence[Any], policy: object, name: str) -> None:
    """Write values into rows of a column.

    Raises:
        PolicyError: If there is not one value per row.
    """
    if len(values) != len(rows):
        raise PolicyError(
            f"{type(policy).__name__}.expand returned Columns whose {name} returned {len(values)} items; return one "
            f"per position ({len(rows)})"
        )
    for row, value in zip(rows.tolist(), values, strict=True):
        column[row] = value


def is_number_array(answer: object) -> bool:
    """Return whether an answer is an array of integers in one dimension."""
    return isinstance(answer, np.ndarray) and answer.ndim == 1 and answer.dtype.kind in "iu"


def speaks_in_numbers(policy: Any, seeds: object) -> bool:
    """Return whether a walk from these seeds is a walk in columns.

    Its ids are the names of numbers, or the numbers themselves.
    """
    has_names = callable(getattr(policy, "name_nodes", None))
    return is_number_array(seeds) and (has_names or getattr(policy.node_id, "__func__", None) is Policy.node_id)


def to_read_only(column: NDArray[Any], size: int) -> NDArray[Any]:
    """Return a view of the first rows of a column that nobody can make writable.

    Of a read-only array a policy could set the write flag again, but not of a read-only buffer.
    """
    return np.frombuffer(memoryview(column.data).toreadonly(), column.dtype, size)
