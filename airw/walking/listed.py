"""Listed nodes: those that a policy returns in lists, by their ids."""

from collections.abc import AsyncGenerator, Awaitable, Generator, Hashable, Sequence
from itertools import chain, count, islice, repeat
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.messages import short_repr
from airw._base.notes import add_note
from airw.errors import PolicyError
from airw.walking.found_again import FoundPaths
from airw.walking.policy import WalkPolicy
from airw.walking.slips import require_plain

_INITIAL_ROWS = 1_024
_USUAL_IDS = frozenset({str, int, tuple})
Positions = NDArray[np.intp]


class ListedNeighbors(NamedTuple):
    """Neighbours that were read from lists, in a row.

    Args:
        nodes: The nodes.
        ids: Their ids.
        parents: The position of the node that each follows; -1 for a seed.
    """

    nodes: Sequence[Any]
    ids: Sequence[Hashable]
    parents: Positions


class ListedNodes:
    """Nodes that a policy returns in lists.

    Most steps of such a walk are small, and dicts are faster than arrays of few items.
    """

    def __init__(self, policy: WalkPolicy) -> None:
        """Start without nodes."""
        self._policy = policy
        self._scores_paths = policy.scores_paths
        self.nodes: list[Any] = []  # by position
        self.ids: list[Hashable] = []  # by position
        # Each neighbour that is read has a place, counted from the first. By position: the place of the node.
        self._places = np.empty(_INITIAL_ROWS, np.intp)
        self._read_count = 0
        self._visited: dict[Hashable, int] = {}  # the position of each committed node
        self._waiting: dict[Hashable, int] = {}  # the place of each waiting node
        self._paths: dict[Hashable, list[int]] = {}  # with `scores_paths`: all positions of each waiting node

    # Ids.

    def identify(self, nodes: Sequence[Any]) -> list[Hashable]:
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
        if ids and type(ids[0]) not in _USUAL_IDS and isinstance(ids[0], Awaitable | Generator | AsyncGenerator):
            for id in ids:
                require_plain("node_id", self._policy, id)
            raise PolicyError(f"{self._name}.node_id returned {short_repr(ids[0])}; write `def` and `return`")
        return ids

    def _check_ids(self, nodes: Sequence[Any], ids: Sequence[Any]) -> None:
        """Raise an error that names the first node whose id cannot be a key of a dict."""
        others: set[Hashable] = set()
        for node, id in zip(nodes, ids, strict=True):
            try:
                hashable = _is_hashable(id)
                # Comparing may fail, too.
                _ = hashable and (id in self._visited or id in self._waiting or others.add(id))  # type: ignore[func-returns-value]
            except Exception as error:
                add_note(error, f"for node {short_repr(node)}")
                raise
            if not hashable:
                raise PolicyError(
                    f"{self._name}.node_id returned {short_repr(id)} for node {short_repr(node)}; "
                    "return something hashable"
                )

    def require_stable(self, positions: Positions) -> None:
        """Check that the ids of committed nodes are still found.

        Raises:
            PolicyError: If one has another hash, or equals other ids, than when it was stored.
        """
        ids = self.ids_at(positions)
        self._compare(ids, list(map(self._visited.get, ids)), positions.tolist())

    def _compare(self, ids: Sequence[Hashable], found: Sequence[int | None], expected: Sequence[int]) -> None:
        if found != expected:
            id = next(id for id, position, other in zip(ids, found, expected, strict=True) if position != other)
            raise PolicyError(
                f"{self._name}.node_id returned {short_repr(id)}, whose hash has changed since; return an id that "
                "stays the same, such as a string or a tuple"
            )

    # Admitting.

    def admit(self, found: ListedNeighbors, room: int, first: int) -> tuple[Positions, int]:
        """Append the nodes that are new as the positions from `first` on, which wait.

        A node is admitted once, or once per path if the policy scores paths. Return the indexes of the admitted
        neighbours, and how many are refused for want of room. A node that is refused counts as often as it is reached.

        Raises:
            PolicyError: If an id cannot be a key of a dict.
        """
        try:
            kept, refused = (
                self._admit_paths(found, room, first) if self._scores_paths else self._admit_nodes(found, room)
            )
        except Exception:
            # Checking every id beforehand would cost time; one that fails is looked for only now.
            self._check_ids(found.nodes, found.ids)
            raise
        end = first + len(kept)
        self._places = reserve(self._places, end)
        self._places[first:end] = kept
        kept -= self._read_count
        self._read_count += len(found.ids)
        self.nodes += map(found.nodes.__getitem__, kept.tolist())
        return kept, refused

    def _admit_nodes(self, found: ListedNeighbors, room: int) -> tuple[Positions, int]:
        """Return the places of the new nodes.

        These passes run over all neighbours and are most of what a walk of lists costs (`bench_walk`).
        """
        ids, new, refused = found.ids, dict[Hashable, int](), 0
        list(map(new.setdefault, ids, count(self._read_count)))  # an id that occurs again keeps its first place
        for known in (self._visited, self._waiting):
            if known:
                for id in list(filter(known.__contains__, new)):
                    del new[id]
        if len(new) > room:
            out = set(islice(new, room, None))
            refused = sum(map(out.__contains__, ids))
            new = dict(islice(new.items(), room))
        self.ids += new
        self._waiting.update(new)
        return np.fromiter(new.values(), np.intp, len(new)), refused

    def _admit_paths(self, found: ListedNeighbors, room: int, first: int) -> tuple[Positions, int]:
        """Return the places of the paths to nodes that are not committed."""
        places = [place for place, id in enumerate(found.ids, self._read_count) if id not in self._visited]
        kept = places[:room]
        ids = [found.ids[place - self._read_count] for place in kept]
        self.ids += ids
        for position, (place, id) in enumerate(zip(kept, ids, strict=True), first):
            self._waiting.setdefault(id, place)
            self._paths.setdefault(id, []).append(position)
        return np.array(kept, np.intp), len(places) - len(kept)

    def find_known(self, found: ListedNeighbors, kept: Positions, first: int) -> NDArray[np.bool_]:
        """Return which neighbours were reached before.

        Those at the indexes `kept` were just admitted as the positions from `first` on.
        """
        ids, visited, waiting, start = found.ids, self._visited, self._waiting, self._read_count - len(found.ids)
        known = (id in visited or waiting.get(id, place) != place for place, id in enumerate(ids, start))
        return np.fromiter(known, np.bool_, len(ids))

    def paths_to_committed(self, found: ListedNeighbors) -> FoundPaths:
        """Return the neighbours that are committed, as paths to them."""
        positions = np.fromiter(map(self._visited.get, found.ids, repeat(-1)), np.intp, len(found.ids))
        none = np.full(len(positions), -1)
        return FoundPaths(found.nodes, none, found.parents, positions).take(positions >= 0)

    def waiting_positions(self, found: ListedNeighbors, size: int) -> Positions:
        """Return the position at which each neighbour waits; -1 if it does not."""
        places = np.fromiter(map(self._waiting.get, found.ids, repeat(-1)), np.intp, len(found.ids))
        # Places rise with the positions.
        return np.where(places < 0, -1, np.searchsorted(self._places[:size], places))

    def replace(self, position: int, found: ListedNeighbors, index: int) -> None:
        """Enter a neighbour at a position where its node waits already."""
        self.nodes[position] = found.nodes[index]

    # Dropping and committing.

    def drop(self, positions: Positions, live: Positions) -> None:
        """Note that nodes wait no more at positions; those that wait are `live`."""
        for position in positions.tolist():
            id = self.ids[position]
            others = [other for other in self._paths.get(id, ()) if other != position]
            if others:  # the node itself waits as long as one path to it does
                self._paths[id], self._waiting[id] = others, int(self._places[others[0]])
            else:
                self._paths.pop(id, None)
                self._waiting.pop(id, None)

    def drop_others(self, fresh: slice, positions: Positions) -> None:
        """Note that of the nodes at `fresh` only those at positions still wait."""
        ids = self.ids_at(positions)
        self._waiting = dict(zip(ids, self._places[positions].tolist(), strict=True))
        if self._scores_paths:
            self._paths = {id: [position] for id, position in zip(ids, positions.tolist(), strict=True)}

    def commit(self, positions: Positions, live: Positions) -> Positions:
        """Note that nodes are committed; return all positions where they no longer wait.

        Raises:
            PolicyError: If an id is not found any more.
        """
        ids, listed = self.ids_at(positions), positions.tolist()
        found = [self._waiting.pop(id, None) for id in ids]
        self._visited.update(zip(ids, listed, strict=True))
        if not self._scores_paths:
            self._compare(ids, found, self._places[positions].tolist())
            return positions
        paths = [self._paths.pop(id, []) for id in ids]
        found = [position if position in own else None for own, position in zip(paths, listed, strict=True)]
        self._compare(ids, found, listed)
        return np.fromiter(chain.from_iterable(paths), np.intp)

    # Look-ups.

    def find_unreached(self, nodes: Sequence[Any], *, are_ids: bool) -> set[Hashable]:
        """Return the ids of nodes that are neither committed nor waiting.

        Args:
            nodes: Nodes, or their ids.
            are_ids: Whether `nodes` are ids.

        Raises:
            PolicyError: If an id cannot be a key of a dict.
        """
        ids = nodes if are_ids else self.identify(nodes)
        try:
            return {id for id in ids if id not in self._visited and id not in self._waiting}
        except Exception:
            self._check_ids(nodes, ids)
            raise

    def fresh(self, start: int, size: int) -> list[Any]:
        """Return the nodes from position `start` on."""
        return self.nodes[start:]

    def nodes_at(self, positions: Positions) -> list[Any]:
        """Return the nodes at positions."""
        return list(map(self.nodes.__getitem__, positions.tolist()))

    def ids_at(self, positions: Positions) -> list[Hashable]:
        """Return the ids at positions."""
        return list(map(self.ids.__getitem__, positions.tolist()))

    keys_at = ids_at

    def position_of(self, id: Hashable) -> int | None:
        """Return the position of a waiting or committed node; `None` for any other id."""
        if id in self._visited or id not in self._waiting:
            return self._visited.get(id)
        if self._scores_paths:
            return self._paths[id][0]
        return int(np.searchsorted(self._places[: len(self.ids)], self._waiting[id]))

    @property
    def _name(self) -> str:
        return type(self._policy).__name__


def _is_hashable(id: object) -> bool:
    try:
        hash(id)
    except TypeError:
        return False
    return True
