"""Why a walk ended and what its limits left out."""

from dataclasses import dataclass, field
from typing import Any

from airw.values import StopReason


@dataclass(frozen=True, slots=True)
class WalkSummary:
    """The end of a walk, told honestly.

    Args:
        stop: Why it ended; the first that holds of `failed`, `closed`, `timeout`, `sufficient`, `max_hits`,
            `node_budget`, `exhausted`.
        emitted: Hits yielded.
        routed: Nodes committed that only routed.
        steps: Times the frontier was scored and selected from.
        edges: Neighbours read.
        depth: The greatest depth committed.
        seconds: From the first request to the end, on the event loop's clock.
        left_out: How many were seen and refused, by limit.
        at_least: Limits whose count in `left_out` is a lower bound.
        unknown: Limits behind which nobody looked.
    """

    stop: StopReason
    emitted: int
    routed: int
    steps: int
    edges: int
    depth: int
    seconds: float
    left_out: dict[str, int]
    at_least: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def committed(self) -> int:
        """Nodes committed: hits and routers."""
        return self.emitted + self.routed

    @property
    def truncated(self) -> bool:
        """Whether anything was, or may have been, left out; a limit reached exactly is not truncation."""
        return bool(self.left_out or self.at_least or self.unknown) or self.stop == "timeout"

    def to_dict(self) -> dict[str, Any]:
        """Give all of it as JSON-clean values."""
        return {
            "stop": self.stop,
            "committed": self.committed,
            "emitted": self.emitted,
            "routed": self.routed,
            "steps": self.steps,
            "edges": self.edges,
            "depth": self.depth,
            "seconds": self.seconds,
            "left_out": dict(self.left_out),
            "at_least": list(self.at_least),
            "unknown": list(self.unknown),
            "truncated": self.truncated,
        }


@dataclass(slots=True)
class WalkCounts:
    """What is counted while a walk runs."""

    emitted: int = 0
    routed: int = 0
    steps: int = 0
    edges: int = 0
    depth: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    at_least: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    @property
    def committed(self) -> int:
        """Nodes committed so far."""
        return self.emitted + self.routed

    def refuse(self, limit: str, count: int, *, at_least: bool = False) -> None:
        """Note that a limit left `count` out, or at least that many."""
        if count > 0:  # an iterable may understate its length
            self.left_out[limit] = self.left_out.get(limit, 0) + count
            if at_least:
                self.at_least.add(limit)

    def summary(self, stop: StopReason, seconds: float) -> WalkSummary:
        """Freeze the counts."""
        return WalkSummary(
            stop=stop,
            emitted=self.emitted,
            routed=self.routed,
            steps=self.steps,
            edges=self.edges,
            depth=self.depth,
            seconds=seconds,
            left_out=dict(sorted(self.left_out.items())),
            at_least=tuple(sorted(self.at_least)),
            unknown=tuple(sorted(self.unknown)),
        )
