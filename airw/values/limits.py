"""How far a walk may go, and the words for why it ended."""

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError

StopReason: TypeAlias = Literal["failed", "closed", "timeout", "sufficient", "max_hits", "node_budget", "exhausted"]

STOP_REASONS: tuple[StopReason, ...] = (
    "failed",
    "closed",
    "timeout",
    "sufficient",
    "max_hits",
    "node_budget",
    "exhausted",
)
"""Why a walk ended; where several hold, the first in this order is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds on one walk beside its depth, node budget and deadline.

    Spending one is an outcome, never an exception.

    ```text
    Limits()                    the defaults below
    Limits(max_hits=10)         ten hits at most; routers do not count
    Limits(max_fanout=50)       at most 50 neighbours read of each node
    Limits(max_edges=10_000)    at most 10,000 neighbours read in all
    Limits(max_frontier=5_000)  at most 5,000 entries waiting; those known first stay
    Limits(max_concurrency=4)   at most 4 calls of a per-node policy at once
    Limits(count_beyond_limits=False)     no look past the edge at the end; what lies there is then unknown
    ```

    Raises:
        ArgumentError: A bound is not a whole number in its range.
    """

    max_fanout: int = 1_000
    max_edges: int = 100_000
    max_frontier: int = 100_000
    max_hits: int | None = None
    max_concurrency: int = 16
    count_beyond_limits: bool = True

    def __post_init__(self) -> None:
        """Check every bound at birth."""
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "count_beyond_limits":
                if not isinstance(value, bool):
                    raise ArgumentError(f"count_beyond_limits must be True or False, not {short_repr(value)}")
            elif value is not None or item.name != "max_hits":
                check_count(item.name, value, least=int(item.name in ("max_concurrency", "max_frontier")))
