"""What a walk tells as it goes, for those who draw or log it."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, TypeAlias

from airw._base.json import json_clean
from airw.values import Edge, SearchHit
from airw.walking.summary import WalkSummary

__all__ = ["Committed", "EdgeFound", "Ended", "StepDone", "WalkEvent"]


@dataclass(frozen=True, slots=True)
class Committed:
    """A node was committed.

    Args:
        id: The node.
        depth: Hops from its seed.
        score: That of its hit; what the policy gave a node that only routes.
        parent: The node it was reached from; `None` for a seed.
        hit: The hit it is; `None` where it only routes.
    """

    id: Hashable
    depth: int
    score: float
    parent: Hashable | None
    hit: SearchHit | None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values: of type `hit` with the fields of the hit, or of type `router`."""
        about = {"id": self.id, "depth": self.depth, "parent": self.parent, "score": self.score}
        found = {} if self.hit is None else self.hit.to_dict()
        return {"type": "router" if self.hit is None else "hit", **json_clean(about), **found}


@dataclass(frozen=True, slots=True)
class EdgeFound:
    """A neighbour of a committed node was read.

    Args:
        source: The committed node.
        target: The neighbour, in the direction of the walk.
        type: The type of the edge, where the policy names one.
        known: Whether the neighbour was committed or waiting already.
        edge: The edge as it is stored, where the policy names one; walked against where it does not begin at `source`.
    """

    source: Hashable
    target: Hashable
    type: str | None
    known: bool
    edge: Edge | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values, of type `edge`."""
        ends = {"source": json_clean(self.source), "target": json_clean(self.target)}
        origin = None if self.edge is None else self.edge.origin
        return {"type": "edge", **ends, "edge_type": self.type, "origin": origin, "known": self.known}


@dataclass(frozen=True, slots=True)
class StepDone:
    """A step is done: its nodes are committed, and their neighbours read.

    Args:
        step: Its number; the first is 1.
        committed: Nodes committed so far.
        edges: Neighbours read so far.
        waiting: Nodes that wait to be selected.
    """

    step: int
    committed: int
    edges: int
    waiting: int

    def to_dict(self) -> dict[str, Any]:
        """Give it as JSON-clean values, of type `progress`."""
        counts = {"committed": self.committed, "edges": self.edges, "waiting": self.waiting}
        return {"type": "progress", "step": self.step, **counts}


@dataclass(frozen=True, slots=True)
class Ended:
    """The walk ended; `summary` says why, and what was left out."""

    summary: WalkSummary

    def to_dict(self) -> dict[str, Any]:
        """Give the summary as JSON-clean values, of type `summary`."""
        return {"type": "summary", **self.summary.to_dict()}


WalkEvent: TypeAlias = Committed | EdgeFound | StepDone | Ended
"""What `walk.events()` yields; `to_dict()` of each is one line of streaming JSON."""
