"""The policy of a walk: its methods, the state it sees, and their defaults.

A policy decides what a walk means: where it starts, which nodes are near the query, and which nodes follow a node. The
operator, `traverse`, runs the loop and enforces every limit. A policy is configuration only: a frozen dataclass. What
one walk remembers is a separate object, the memory. The policy's `begin` creates it, and the other methods use it as
`state.memory`.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, SupportsIndex, TypeAlias, TypeVar, cast, overload

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread
from airw._base.messages import short_repr
from airw._base.vectors import best_first
from airw.errors import PolicyError
from airw.values import Edge, Limits, SearchHit

T = TypeVar("T")
if TYPE_CHECKING:  # Python itself supports defaults of type variables from 3.13 on
    from typing_extensions import TypeVar as DefaultingTypeVar

    M = DefaultingTypeVar("M", default=Any)
else:
    M = TypeVar("M")
_FULL_SORT_BELOW = 500  # below this size a full sort is faster than selecting the best first
_SPARSE = 4  # creating one node alone takes as long as so many of a slice
_OFFLOAD_ABOVE = 10_000  # sorting more scores than this would delay other tasks, so a worker thread does it
Neighbors: TypeAlias = Iterable[Any] | AsyncIterable[Any]


@dataclass(frozen=True, slots=True)
class LazyNeighbors:
    """Neighbours of one node that are created only if the walk has not reached them before.

    Their ids tell. What the walk has reached before, or only counts, is not created if nothing new lies around it.

    Args:
        ids: The id of each neighbour, as `node_id` would return it.
        make: A function that returns the nodes of a slice of `ids`, one per id.

    Example:
        >>> list(LazyNeighbors([7, 8, 9], lambda part: [f"node {id}" for id in [7, 8, 9][part]]))
        ['node 7', 'node 8', 'node 9']
    """

    ids: Sequence[Hashable]
    make: Callable[[slice], list[Any]]

    def __len__(self) -> int:
        """Return the number of neighbours without creating any."""
        return len(self.ids)

    def __getitem__(self, part: slice) -> list[Any]:
        """Create and return the neighbours of a slice.

        Raises:
            PolicyError: If `make` does not return one node per id.
        """
        places = range(len(self.ids))[part]
        nodes, count = self.make(slice(places.start, places.stop)), len(places)
        if len(nodes) != count:
            raise PolicyError(f"LazyNeighbors.make returned {len(nodes)} nodes; return one node per id ({count})")
        return nodes

    def pick(self, places: Sequence[int]) -> "LazyNeighbors":
        """Return the neighbours at some places without creating any."""
        return replace(self, ids=[self.ids[place] for place in places], make=lambda part: self.take(places[part]))

    def take(self, places: Sequence[int]) -> list[Any]:
        """Create and return the neighbours at some places, which ascend.

        If these are close to each other, those in between are created, too.
        """
        if not places:
            return []
        first, stop = places[0], places[-1] + 1
        if stop - first > _SPARSE * len(places):
            return [node for place in places for node in self[place : place + 1]]
        nodes = self[first:stop]
        return nodes if len(nodes) == len(places) else [nodes[place - first] for place in places]

    def __iter__(self) -> Iterator[Any]:
        """Create all neighbours and iterate over them."""
        return iter(self[:])


@dataclass(frozen=True, slots=True)
class NeighborValues(LazyNeighbors):
    """Lazy neighbours that are values.

    A walk does not keep them, and makes one again when somebody looks at it. So a node that the walk discovers and
    never commits costs no object, unless its policy looks at it.
    """


class NewNodes(Sequence[Any]):
    """The nodes that `score` receives, if they are values.

    Args:
        ids: Their ids.
        parents: The ids of the nodes they were reached from.
        make: A function that returns the nodes of a slice.
    """

    __slots__ = ("_make", "ids", "parents")

    def __init__(
        self, ids: Sequence[Hashable], parents: Sequence[Hashable], make: Callable[[slice], list[Any]]
    ) -> None:
        self.ids: Sequence[Hashable] = ids
        self.parents: Sequence[Hashable] = parents
        self._make = make

    def __getitem__(self, place: Any) -> Any:
        """Make a node, or those of a slice."""
        if isinstance(place, slice):
            return [self[each] for each in range(len(self))[place]]
        start = range(len(self))[place]
        return self._make(slice(start, start + 1))[0]

    def __len__(self) -> int:
        """Return the number of nodes without making any."""
        return len(self.ids)

    def __iter__(self) -> Iterator[Any]:
        """Make all nodes and iterate over them."""
        return iter(self._make(slice(0, len(self))))


class ColumnView(Sequence[T]):
    """A read-only view of one column of the walk record, indexed by position."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[T]) -> None:
        """View `items` without copying them."""
        self._items = items

    def __getitem__(self, position: Any) -> Any:
        """Return the item at a position, or a copy of a slice."""
        return self._items[position]

    def __len__(self) -> int:
        """Return the number of positions so far."""
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all positions in order of discovery."""
        return iter(self._items)


def is_iterable(answer: object) -> bool:
    """Return whether an answer can be iterated over; text and a scalar array cannot."""
    return isinstance(answer, Iterable) and not isinstance(answer, str | bytes) and getattr(answer, "ndim", 1) != 0


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The frontier of a walk, as `select` receives it.

    Each discovered node has a position: 0 for the first, then 1, and so on. Positions are never reused. The columns
    contain every node discovered so far, but `select` may return live positions only.

    Args:
        nodes: The node at each position, as the policy returned it.
        ids: The id at each position.
        depths: The depth at each position.
        scores: The score at each position, `(n,) float64`, read-only.
        live: The positions that wait to be selected, `(m,) intp`, ascending.
        fresh: The positions discovered in this step.
        dropped: The positions that `drop` has read.
    """

    nodes: Sequence[Any]
    ids: Sequence[Hashable]
    depths: Sequence[int]
    scores: NDArray[np.float64]
    live: NDArray[np.intp]
    fresh: range
    dropped: list[int] = field(default_factory=list)

    def drop(self, positions: Iterable[int]) -> None:
        """Remove positions from the frontier, except those that `select` returns.

        If the walk reaches the same node later, it gets a new position. In each call no more positions are read than
        nodes wait, so an endless iterable ends.

        Raises:
            PolicyError: If `positions` is no iterable.
        """
        if not is_iterable(positions):
            raise PolicyError(f"frontier.drop takes a list of positions, not {short_repr(positions)}")
        self.dropped.extend(islice(positions, len(self.live)))

    def best_first(self, count: int | None = None) -> NDArray[np.intp]:
        """Return the live positions, highest score first; ties in order of discovery.

        Args:
            count: The number of positions to return at most; `None` for all.
        """
        scores = self.scores[self.live]
        if count is None or len(scores) < _FULL_SORT_BELOW:
            return self.live[np.argsort(-scores, kind="stable")[:count]]
        return self.live[best_first(scores, count)]


class CommittedNode(NamedTuple):
    """A committed node, as `expand` and `to_hits` of a policy receive it.

    Args:
        node: The node, as the policy returned it.
        id: The id that `node_id` returned for it.
        depth: The number of hops from its seed; 0 for a seed.
        score: The number that `score` returned for it.
        parent: The id of the node it was reached from; `None` for a seed.
    """

    node: Any
    id: Hashable
    depth: int
    score: float
    parent: Hashable | None


class CommittedNodes(tuple[CommittedNode, ...]):
    """Committed nodes, in the order in which they were committed."""

    __slots__ = ()

    @overload
    def __getitem__(self, index: SupportsIndex) -> CommittedNode: ...
    @overload
    def __getitem__(self, index: slice) -> "CommittedNodes": ...
    def __getitem__(self, index: SupportsIndex | slice) -> "CommittedNode | CommittedNodes":
        """Return one node, or those of a slice."""
        return CommittedNodes(super().__getitem__(index)) if isinstance(index, slice) else super().__getitem__(index)

    @property
    def nodes(self) -> list[Any]:
        """The nodes, as the policy returned them."""
        return [entry.node for entry in self]

    @property
    def ids(self) -> list[Hashable]:
        """The ids of the nodes."""
        return [entry.id for entry in self]

    @property
    def depths(self) -> NDArray[np.intp]:
        """The number of hops from their seeds, `(n,) intp`."""
        return np.array([entry.depth for entry in self], np.intp)

    @property
    def scores(self) -> NDArray[np.float64]:
        """The scores of the nodes, `(n,) float64`."""
        return np.array([entry.score for entry in self], np.float64)

    @property
    def parents(self) -> list[Hashable | None]:
        """The ids of the nodes they were reached from; `None` for seeds."""
        return [entry.parent for entry in self]


@dataclass(slots=True, weakref_slot=True, eq=False)
class WalkState(Generic[M]):
    """The state of one walk, as its policy sees it.

    The operator writes it and never reads it, so a policy that changes it cannot break the walk.

    Args:
        query: The query of the walk.
        max_depth: The depth cap; `None` for no cap.
        node_budget: The number of nodes that may be committed, routers included.
        limits: The other limits of the walk.
        visited: The ids committed so far.
        results: The hits yielded so far.
        cache: A dict for policies that have no memory of their own.
        memory: The object that the policy's `begin` returned; `None` if the policy has no `begin`.
    """

    query: str
    max_depth: int | None
    node_budget: int
    limits: Limits
    _record: Any = field(repr=False)
    visited: set[Hashable] = field(default_factory=set, repr=False)
    results: list[SearchHit] = field(default_factory=list, repr=False)
    cache: dict[Any, Any] = field(default_factory=dict)
    memory: M = field(default=cast("Any", None))

    @property
    def budget(self) -> int:
        """The same as `node_budget`: policies written for `ir` read it by this name."""
        return self.node_budget

    def depth_of(self, id: Hashable) -> int | None:
        """Return the depth of a waiting or committed node; `None` for any other id."""
        return cast("int | None", self._record.depth_of(id))

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Return the id of the node it was reached from; `None` for seeds and other ids."""
        return cast("Hashable | None", self._record.parent_of(id))


class WalkPolicy(Protocol):
    """A policy of walks: where they start, which nodes are near, and where they go.

    In each step the operator calls `expand`, `score` and `select` once, for all nodes of the step. `Policy` has
    defaults for all methods except `seed`, `score`, `expand` and `to_hits`. A policy may also have methods `begin`
    and `find_obstacle`, and an attribute `rescores_committed`; see `Policy`.

    A deadline cancels the method that waits then. If the walk goes on (`Walk.extend`), the same call is repeated. So a
    method changes the memory after its last `await`.
    """

    @property
    def max_depth(self) -> int | None:
        """The depth cap of a walk if the caller of `traverse` passes none; `None` for no cap."""
        ...

    @property
    def keeps_frontier(self) -> bool:
        """True if nodes that were not selected wait for a later step; else they are dropped."""
        ...

    @property
    def scores_paths(self) -> bool:
        """True if each path to a node gets a position of its own.

        If False, a node has one position, that of the shortest path to it.
        """
        ...

    async def seed(self, state: WalkState, store: Any) -> Neighbors:
        """Return the nodes at depth 0, from which the walk starts.

        The operator reads at most `limits.max_frontier` of them, so an iterator may be endless.
        """
        ...

    async def score(self, state: WalkState, nodes: Sequence[Any], store: Any) -> Sequence[float] | NDArray[Any]:
        """Return one number per node; higher is better.

        NaN is an error; ±inf is allowed.
        """
        ...

    def select(self, state: WalkState, frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Return the positions to commit in this step, in that order; no position ends the walk."""
        ...

    async def expand(self, state: WalkState, committed: CommittedNodes, store: Any) -> Sequence[Neighbors]:
        """Return the neighbours of each committed node: one iterable or async iterable per node.

        The operator reads them lazily and within the limits. Return `LazyNeighbors` to avoid creating nodes that are
        only counted.
        """
        ...

    def node_id(self, node: Any) -> Hashable:
        """Return the id of a node; the operator commits no id twice."""
        ...

    def stop(self, state: WalkState) -> bool | Awaitable[bool]:
        """Return True if the walk has found enough; the operator asks after each hit.

        If the answer is awaited and the deadline passes meanwhile, the walk ends.
        """
        ...

    async def to_hits(self, state: WalkState, committed: CommittedNodes, store: Any) -> Sequence[SearchHit | None]:
        """Return a new hit per committed node, `None` for a router."""
        ...

    def edge_of(self, node: Any) -> Edge | None:
        """Return the edge that led to a node; `None` if there is none."""
        ...

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the hits of an ended walk in their final order, best first.

        It may leave out or replace hits, but add none.
        """
        ...


class Policy(Generic[M]):
    """A base class of policies, with defaults for most methods of `WalkPolicy`.

    By default a node is its own id, and every waiting node is committed, best first. The walk never stops before its
    limits, and hits are ranked by score. A subclass adds `seed`, `score`, `expand` and `to_hits`. If a walk has to
    remember something, write a class with fields for it: `class Mine(Policy[MyMemory])` creates one in `begin`, and
    reads and writes `state.memory`.
    """

    max_depth: int | None = None
    keeps_frontier: bool = False
    scores_paths: bool = False
    rescores_committed: bool = False
    """True if `score` also gets the paths that lead to committed nodes once more; it needs `scores_paths`.

    They come after the new nodes, in the same call; circles are left out. Nothing is committed twice. If such a path
    scores higher, `rank` gets the hit with that score and path, and so does `walk.ranking`.
    """

    def begin(self, state: WalkState[M]) -> M:
        """Return the memory of one walk; the operator stores it as `state.memory` before `seed`."""
        return cast("M", None)

    def select(self, state: WalkState[M], frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Commit all waiting nodes, best first; ties in order of discovery."""
        if len(frontier.live) > _OFFLOAD_ABOVE:
            return in_thread(frontier.best_first)
        return frontier.best_first()

    def node_id(self, node: Any) -> Hashable:
        """Return the node itself as its id."""
        return cast("Hashable", node)

    def stop(self, state: WalkState[M]) -> bool | Awaitable[bool]:
        """Return False: the walk runs to its limits."""
        return False

    def edge_of(self, node: Any) -> Edge | None:
        """Return None: nodes have no edges."""
        return None

    def rank(self, state: WalkState[M], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Return the hits, highest score first; ties in order of commitment."""
        return sorted(hits, key=lambda hit: -hit.score)

    def find_obstacle(self, state: WalkState[M]) -> str | None:
        """Return why the walk cannot go on from here (`Walk.extend`); `None` if it can."""
        return None
