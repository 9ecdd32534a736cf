"""The limits of a walk, and the reasons for which a walk stops."""

from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from airw._base.checks import check_count, check_flag

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
"""The reasons for which a walk stops. If several apply, the walk reports the first in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one walk, besides its depth cap, node budget and deadline.

    Reaching a limit is never an error: the walk reports it in its summary.

    ```text
    Limits()                    the defaults below
    Limits(max_hits=10)         at most 10 hits; routers do not count
    Limits(max_fanout=50)       at most 50 neighbours read per node
    Limits(max_edges=10_000)    at most 10,000 neighbours read in the whole walk
    Limits(max_frontier=5_000)  at most 5,000 nodes waiting; those discovered first stay
    Limits(max_concurrency=4)   at most 4 calls of a per-node policy at the same time
    Limits(count_beyond_limits=True)  after the last hit, one more expansion that counts the nodes beyond the limits;
                                      without it, the summary lists these limits as unknown
    ```

    Raises:
        ArgumentError: If a limit is not a whole number in its range.
    """

    max_fanout: int = 1_000
    max_edges: int = 100_000
    max_frontier: int = 100_000
    max_hits: int | None = None
    max_concurrency: int = 16
    count_beyond_limits: bool = False

    def __post_init__(self) -> None:
        """Check all limits."""
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "count_beyond_limits":
                check_flag("count_beyond_limits", value)
            elif value is not None or item.name != "max_hits":
                check_count(item.name, value, least=int(item.name in ("max_concurrency", "max_frontier")))
