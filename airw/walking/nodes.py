"""What is behind the numbers of nodes: listed nodes, or names.

The walk record counts, compares and orders nodes by number. A policy that returns lists has its nodes numbered here, by
their ids. A policy in columns returns numbers.
"""

from collections.abc import AsyncGenerator, Awaitable, Generator, Hashable, Iterator, Sequence
from inspect import isawaitable
from itertools import count
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw.errors import PolicyError
from airw.values import Edge
from airw.walking.columns import Columns
from airw.walking.policy import Policy, WalkPolicy, WalkState
from airw.walking.slips import await_answer, label_errors, require_edge, require_plain

MAX_NUMBER = 2**28  # the record has a few bytes for each number up to the highest
Positions = NDArray[np.intp]


class ListedNodes:
    """Nodes that a policy returns in lists.

    Each id gets a number: how many ids were read before it.
    """

    def __init__(self, policy: WalkPolicy) -> None:
        """Start without nodes."""
        self._policy = policy
        self._numbers: dict[Hashable, int] = {}
        self.bound = 0  # all numbers are below
        self.nodes: list[Any] = []  # by position
        self.ids: list[Hashable] = []  # by position

    def number(self, nodes: Sequence[Any], *, are_ids: bool = False) -> tuple[Positions, Sequence[Hashable]]:
        """Return the numbers of nodes, and their ids.

        Args:
            nodes: Nodes, or their ids.
            are_ids: Whether `nodes` are ids.

        Raises:
            PolicyError: If an id cannot be a key of a dict.
        """
        ids = nodes if are_ids else self._identify(nodes)
        # An id that is new gets the number of its place among all ids that were read.
        places = map(self._numbers.setdefault, ids, count(self.bound))
        try:
            numbers = np.fromiter(places, np.intp, len(ids))
        except Exception:
            # Checking every id beforehand would cost time; one that fails is looked for only now.
            self._check_ids(nodes, ids)
            raise
        self.bound += len(ids)
        return numbers, ids

    def _identify(self, nodes: Sequence[Any]) -> list[Hashable]:
        """Return the id of each node, by one pass of `node_id`."""
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
            raise PolicyError(f"{self._name}.node_id returned {short_repr(ids[0])}; write `def` and `return`")
        return ids

    def _check_ids(self, nodes: Sequence[Any], ids: Sequence[Any]) -> None:
        """Raise an error that names the first node whose id cannot be a key of a dict."""
        for node, id in zip(nodes, ids, strict=True):
            try:
                hashable = _is_hashable(id)
                _ = hashable and id in self._numbers  # comparing may fail, too
            except Exception as error:
                add_note(error, f"for node {short_repr(node)}")
                raise
            if not hashable:
                raise PolicyError(
                    f"{self._name}.node_id returned {short_repr(id)} for node {short_repr(node)}; "
                    "return something hashable"
                )

    def keep(self, nodes: Sequence[Any], ids: Sequence[Hashable], indexes: Positions) -> None:
        """Append the nodes at `indexes`, which the record has admitted, as the next positions."""
        admitted = indexes.tolist()
        self.nodes += map(nodes.__getitem__, admitted)
        self.ids += map(ids.__getitem__, admitted)

    def require_stable(self, positions: Positions, numbers: Positions) -> None:
        """Check that the ids at positions are still found.

        Raises:
            PolicyError: If one has another hash, or equals other ids, than when it was stored.
        """
        ids, expected = self.ids_at(positions, numbers), numbers.tolist()
        found = list(map(self._numbers.get, ids))
        if found != expected:
            id = next(id for id, number, other in zip(ids, found, expected, strict=True) if number != other)
            raise PolicyError(
                f"{self._name}.node_id returned {short_repr(id)}, whose hash has changed since; return an id that "
                "stays the same, such as a string or a tuple"
            )

    def nodes_at(self, positions: Positions, numbers: Positions) -> list[Any]:
        """Return the nodes at positions."""
        return list(map(self.nodes.__getitem__, positions.tolist()))

    def ids_at(self, positions: Positions, numbers: Positions) -> list[Hashable]:
        """Return the ids at positions."""
        return list(map(self.ids.__getitem__, positions.tolist()))

    def number_of(self, id: Hashable) -> int | None:
        """Return the number of an id; `None` if it was not read."""
        return self._numbers.get(id)

    @property
    def _name(self) -> str:
        return type(self._policy).__name__


class NumberedNodes:
    """Nodes that are numbers, as a policy in columns returns them.

    Those that leave the walk have names.
    """

    def __init__(self, policy: WalkPolicy) -> None:
        """Start without names."""
        self._policy = policy
        self._name_nodes = getattr(policy, "name_nodes", None)
        self._names: dict[int, Hashable] = {}
        self._numbers: dict[Hashable, int] = {}  # by name
        self.bound = 0  # all numbers are below
        # The answers of `expand`, and where the neighbours of each begin among all neighbours of the walk.
        self._answers: list[Columns] = []
        self._starts = [0]
        self._has_edges = False

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
            self.bound = max(self.bound, highest + 1)
        return checked

    def check_list(self, nodes: list[Any]) -> Positions:
        """Return a list of numbers as one of positions in the record.

        Raises:
            PolicyError: If they are no numbers of nodes.
        """
        wrong = next((node for node in nodes if not isinstance(node, int | np.integer)), None)
        return self.check(np.array(nodes, np.int64) if wrong is None else wrong, "expand")

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
            self._numbers.update(zip(names, unnamed, strict=True))
            names_of.update(zip(unnamed, names, strict=True))

    def ids_at(self, positions: Positions, numbers: Positions) -> list[Hashable]:
        """Return the names of nodes; those without a name are named by their number."""
        if self._name_nodes is None:
            ids: list[Hashable] = numbers.tolist()
            return ids
        return [self._names.get(number, number) for number in numbers.tolist()]

    def nodes_at(self, positions: Positions, numbers: Positions) -> Positions:
        """Return the numbers themselves."""
        return numbers

    def number_of(self, id: Hashable) -> int | None:
        """Return the number of a name; `None` if no committed node has it."""
        if self._name_nodes is not None:
            return self._numbers.get(id)
        return int(id) if isinstance(id, int | np.integer) and 0 <= id < self.bound else None

    def require_stable(self, positions: Positions, numbers: Positions) -> None:
        """Do nothing: a number stays the same."""

    # Edges.

    def add_answer(self, answer: Columns) -> int:
        """Keep an answer of `expand` for its edges, and return where its neighbours begin."""
        start = self._starts[-1]
        self._answers.append(answer)
        self._has_edges = self._has_edges or answer.edges is not None or answer.edge_types is not None
        self._starts.append(start + len(answer.ids))
        return start

    async def edge_types(self, edges: Positions) -> list[str | None]:
        """Return the types of edges; `None` for seeds.

        Edges are numbered as the neighbours of the walk.
        """
        types: list[str | None] = [None] * len(edges)
        if not self._has_edges:
            return types
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


def _is_hashable(id: object) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True
