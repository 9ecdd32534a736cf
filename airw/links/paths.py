"""Ways along links: from one artifact to another, or back to the same one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from airw.values import Direction, Edge, NodeId


@dataclass(frozen=True, slots=True)
class LinkPath:
    """What the search for a path found.

    Args:
        start: Where the path begins.
        end: Where it ends.
        direction: Which way links were followed.
        max_hops: The cap on hops; `None` for none.
        nodes: The artifacts on the path, both ends included; empty where none was found.
        edges: The edges between them, as they are stored.
        cost: What the path costs: its hops, or the sum of its weights; `None` where none was found.
        visited: The artifacts that were reached in search of it.
        left_out: How many were seen and left out, by limit: `max_hops`, `max_nodes`, `max_edges`, `max_fanout`. Where a
            path was found, a limit named here may have hidden a shorter one.
        at_least: Limits whose count in `left_out` is a lower bound.
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
        """Say whether there is a path."""
        return bool(self.nodes)


@dataclass(frozen=True, slots=True)
class LinkCycle:
    """Artifacts that all lead to one another, and one shortest cycle among them.

    Args:
        members: The artifacts of the group, sorted; two or more.
        nodes: Those on the cycle, in its order, the first one once.
        edges: The edges from each of these to the next, and from the last to the first.
    """

    members: tuple[NodeId, ...]
    nodes: tuple[NodeId, ...]
    edges: tuple[Edge, ...]
