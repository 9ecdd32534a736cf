"""Paths along links, the limits of searches for them, and cycles."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from airw._base.checks import check_count
from airw.values import Direction, Edge, NodeId


@dataclass(frozen=True, slots=True)
class LinkPath:
    """The result of a search for a path: the path, if there is one, and what limits left out.

    Args:
        start: The artifact where the path begins.
        end: The artifact where it ends.
        direction: The direction in which links were followed.
        max_hops: The cap on hops; `None` if there was none.
        nodes: The artifacts on the path, including both ends; empty if no path was found.
        edges: The edges between them, as stored.
        cost: The number of hops, or the sum of the weights; `None` if no path was found.
        visited: The number of artifacts that the search reached.
        left_out: The number of artifacts or links that each limit left out: `max_hops`, `max_nodes`, `max_edges`,
            `max_fanout`. If a path was found, these limits may have hidden a shorter one.
        at_least: The limits whose number in `left_out` is a lower bound.
    """

    start: NodeId
    end: NodeId
    direction: Direction
    max_hops: int | None
    nodes: tuple[NodeId, ...] = ()
    edges: tuple[Edge, ...] = ()
    cost: float | None = None
    visited: int = 0
    left_out: Mapping[str, int] = field(default_factory=dict)
    at_least: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """True if a path was found."""
        return bool(self.nodes)


@dataclass(frozen=True, slots=True)
class LinkCycle:
    """A group of artifacts that all lead to one another, and a shortest cycle in it.

    Args:
        members: The artifacts of the group, two or more, sorted.
        nodes: The artifacts on the cycle, in its order; the first is not repeated at the end.
        edges: The edges from each of these nodes to the next, and from the last to the first.
    """

    members: tuple[NodeId, ...]
    nodes: tuple[NodeId, ...]
    edges: tuple[Edge, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLimits:
    """The limits of a path search; `None` means no limit.

    Args:
        max_hops: The most links on the path.
        max_nodes: The most artifacts to reach; both ends count.
        max_edges: The most links to follow; more may be read from the store.
        max_fanout: The most links to follow from one artifact.

    Raises:
        ArgumentError: If a limit is not a whole number in its range.
    """

    max_hops: int | None = 10
    max_nodes: int | None = None
    max_edges: int | None = None
    max_fanout: int | None = None

    def __post_init__(self) -> None:
        """Check all limits; `max_nodes` is at least 2, because both ends count."""
        for limit in fields(self):
            if (value := getattr(self, limit.name)) is not None:
                check_count(limit.name, value, least=2 if limit.name == "max_nodes" else 0)
