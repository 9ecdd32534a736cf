"""What a policy decides, what it sees, and the defaults it may keep.

The policy owns the meaning of a walk: where it starts, what is near the query, what lies behind a node. The operator
owns the loop and every bound. A policy is configuration only, a frozen dataclass. What one walk of it remembers is an
object of its own: `begin` makes it, and the policy's methods find it in `state.memory`.
"""

from collections.abc import AsyncIterable, Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np

from airw._base.arrays import NDArray
from airw._base.concurrency import in_thread
from airw._base.vectors import best_first
from airw.errors import PolicyError
from airw.values import Edge, Limits, SearchHit

T = TypeVar("T")
if TYPE_CHECKING:  # a default of a type variable: for Python itself from 3.13 on
    from typing_extensions import TypeVar as DefaultingTypeVar

    M = DefaultingTypeVar("M", default=Any)
else:
    M = TypeVar("M")
_FEW = 500  # sorting all of them takes less than finding the best
_MANY = 10_000  # sorting them takes longer than other tasks should wait
Neighbors: TypeAlias = Iterable[Any] | AsyncIterable[Any]


class CommittedNode(NamedTuple):
    """A committed node: what the policy gave, and what the operator recorded of it; `parent` is an id or `None`."""

    node: Any
    id: Hashable
    depth: int
    score: float
    parent: Hashable | None


@dataclass(frozen=True, slots=True)
class LazyNeighbors:
    """Neighbours of one node that are made when they are read; the look over the edge reads their ids alone.

    Args:
        ids: The id of each, as `node_id` gives it.
        make: Gives the nodes of a slice of them.

    Example:
        >>> list(LazyNeighbors([7, 8, 9], lambda part: [f"node {id}" for id in [7, 8, 9][part]]))
        ['node 7', 'node 8', 'node 9']
    """

    ids: Sequence[Hashable]
    make: Callable[[slice], list[Any]]

    def __len__(self) -> int:
        """Count them, without making any."""
        return len(self.ids)

    def __getitem__(self, part: slice) -> list[Any]:
        """Make those of a slice.

        Raises:
            PolicyError: There is not one for each id.
        """
        nodes, count = self.make(part), len(self.ids[part])
        if len(nodes) != count:
            raise PolicyError(f"make must give {count} nodes, one an id, not {len(nodes)}")
        return nodes

    def __iter__(self) -> Iterator[Any]:
        """Make all."""
        return iter(self[:])


class ColumnView(Sequence[T]):
    """A read-only view of one column of the operator's record, indexed by position."""

    __slots__ = ("_items",)

    def __init__(self, items: list[T]) -> None:
        """View `items` without copying them."""
        self._items = items

    @overload
    def __getitem__(self, position: int) -> T: ...
    @overload
    def __getitem__(self, position: slice) -> list[T]: ...
    def __getitem__(self, position: int | slice) -> T | list[T]:
        """Give the item at a position, or a copy of a slice."""
        return self._items[position]

    def __len__(self) -> int:
        """Count the discoveries so far."""
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """Iterate over all discoveries."""
        return iter(self._items)


@dataclass(frozen=True, slots=True, eq=False)
class Frontier:
    """The walk's discoveries in columns, as `select` sees them.

    A position is the number of a discovery; it is never used again. Only live positions may be selected.

    Args:
        nodes: The node at each position, as the policy gave it.
        ids: Its id.
        depths: Its depth.
        scores: `(n,) float64`, read-only.
        live: `(m,) intp`, the positions that wait, ascending.
        fresh: The positions discovered in this step.
        dropped: What `drop` was asked to drop.
    """

    nodes: Sequence[Any]
    ids: Sequence[Hashable]
    depths: Sequence[int]
    scores: NDArray[np.float64]
    live: NDArray[np.intp]
    fresh: range
    dropped: list[int] = field(default_factory=list)

    def drop(self, positions: Iterable[int]) -> None:
        """Let these entries wait no longer, unless they are selected; found again, they are new discoveries."""
        self.dropped.extend(positions)

    def best_first(self, count: int | None = None) -> NDArray[np.intp]:
        """Give the live positions by score, the `count` highest first, or all; ties in order of discovery."""
        scores = self.scores[self.live]
        if count is None or len(scores) < _FEW:
            return self.live[np.argsort(-scores, kind="stable")[:count]]
        return self.live[best_first(scores, count)]


class _Known(Protocol):
    """What a state can look up in the operator's record."""

    def depth_of(self, id: Hashable) -> int | None: ...
    def parent_of(self, id: Hashable) -> Hashable | None: ...


@dataclass(slots=True, weakref_slot=True, eq=False)
class WalkState(Generic[M]):
    """One walk as its policy sees it: a mirror that the operator writes and never reads.

    Args:
        query: What the walk looks for.
        max_depth: The depth cap; `None` for none.
        node_budget: How many nodes may be committed.
        limits: The further bounds.
        visited: The ids committed so far.
        results: The hits yielded so far.
        cache: Scratch for policies that have no memory of their own.
        memory: What the policy's `begin` returned; `None` where it has none.
    """

    query: str
    max_depth: int | None
    node_budget: int
    limits: Limits
    _record: _Known = field(repr=False)
    visited: set[Hashable] = field(default_factory=set)
    results: list[SearchHit] = field(default_factory=list)
    cache: dict[Any, Any] = field(default_factory=dict)
    memory: M = field(default=cast("Any", None))

    def depth_of(self, id: Hashable) -> int | None:
        """Give the depth of a node that is waiting or committed; `None` for others."""
        return self._record.depth_of(id)

    def parent_of(self, id: Hashable) -> Hashable | None:
        """Give the id of the node it was reached from; `None` for seeds and unknown nodes."""
        return self._record.parent_of(id)


class WalkPolicy(Protocol):
    """The meaning of a walk: where it starts, what is near, what lies behind a node, what is a hit.

    `Policy` has defaults for all but `seed`, `score`, `expand` and `to_hits`. A policy may have a method `begin` too:
    see `Policy.begin`.
    """

    @property
    def max_depth(self) -> int | None:
        """The depth cap when the caller of `traverse` names none."""
        ...

    @property
    def keeps_frontier(self) -> bool:
        """Whether entries that were not selected wait for a later step; otherwise they are dropped."""
        ...

    @property
    def scores_paths(self) -> bool:
        """Whether an id reached on several paths has an entry for each; otherwise it has one, the nearest."""
        ...

    async def seed(self, state: WalkState, store: Any) -> Neighbors:
        """Give the nodes at depth 0; read lazily, at most `limits.max_frontier` of them."""
        ...

    async def score(self, state: WalkState, nodes: Sequence[Any], store: Any) -> Sequence[float] | NDArray[Any]:
        """Give one number for each node, higher is better; NaN is an error, ±inf is not."""
        ...

    def select(self, state: WalkState, frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Give the positions to commit, in that order; none ends the walk."""
        ...

    async def expand(self, state: WalkState, committed: Sequence[CommittedNode], store: Any) -> Sequence[Neighbors]:
        """Give one iterable, or async iterable, of neighbouring nodes for each entry; read lazily under the limits.

        As `LazyNeighbors`, nodes are not made where they are only counted.
        """
        ...

    def node_id(self, node: Any) -> Hashable:
        """Give what identifies a node: the key of the visited set."""
        ...

    def stop(self, state: WalkState) -> bool | Awaitable[bool]:
        """Say, after each hit, whether the walk has found enough; one that waits past the deadline ends the walk."""
        ...

    async def to_hits(
        self, state: WalkState, committed: Sequence[CommittedNode], store: Any
    ) -> Sequence[SearchHit | None]:
        """Give a fresh hit for each entry; `None` for a node that only routes."""
        ...

    def edge_of(self, node: Any) -> Edge | None:
        """Give the edge a node was reached by, where there is one."""
        ...

    def rank(self, state: WalkState, hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Give the final order of the hits of an ended walk; may cut and replace, never add."""
        ...


class Policy(Generic[M]):
    """The defaults of a `WalkPolicy`: a node is its own id, commit everything best first, never stop, rank by score.

    A policy inherits these and adds `seed`, `score`, `expand` and `to_hits`. What one walk remembers is a class with
    fields: `class Mine(Policy[MyMemory])` makes one in `begin`, and reads and writes `state.memory`.
    """

    max_depth: int | None = None
    keeps_frontier: bool = False
    scores_paths: bool = False

    def begin(self, state: WalkState[M]) -> M:
        """Return what one walk is to remember, before it is seeded: it becomes `state.memory`."""
        return cast("M", None)

    def select(self, state: WalkState[M], frontier: Frontier) -> Iterable[int] | Awaitable[Iterable[int]]:
        """Commit all that wait, best first, ties in order of discovery."""
        if len(frontier.live) > _MANY:
            return in_thread(frontier.best_first)
        return frontier.best_first()

    def node_id(self, node: Any) -> Hashable:
        """Identify a node by itself."""
        return cast("Hashable", node)

    def stop(self, state: WalkState[M]) -> bool | Awaitable[bool]:
        """Never stop: run to the limits."""
        return False

    def edge_of(self, node: Any) -> Edge | None:
        """Name no edge."""
        return None

    def rank(self, state: WalkState[M], hits: Sequence[SearchHit]) -> Sequence[SearchHit]:
        """Order by score, highest first; ties in the order of the walk."""
        return sorted(hits, key=lambda hit: -hit.score)
