"""The end of a walk: why it ended, what its limits left out, and whether it may go on."""

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, Self

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError, WalkNotExtendable
from airw.values import Limits, StopReason


@dataclass(frozen=True, slots=True)
class LostCorpus:
    """A corpus that failed during a walk, and was left out from then on.

    Args:
        name: The name of the corpus.
        status: `"failed"` if a call of it raised an error, `"timeout"` if a call took too long.
        error: The type and the message of the error, on one line of at most 200 characters.
    """

    name: str
    status: Literal["failed", "timeout"]
    error: str


class LossyCorpus(Protocol):
    """Several corpora that a walk treats as one, and that go on when one of them fails.

    `FederatedCorpus` is one. A walk asks `begin_walk` for the corpora that its policy sees.
    """

    def begin_walk(self, timeout: float) -> Self:
        """Return the same corpora for a walk of `timeout` seconds, with no losses so far."""
        ...

    @property
    def lost(self) -> Sequence[LostCorpus]:
        """The corpora that failed in this walk so far, for its summary."""
        ...

    def leave_out_lost(self) -> None:
        """Call the corpora that failed so far no more.

        The walk calls this before each stage. So the calls of one stage do not depend on which of them fails first.
        """
        ...


@dataclass(frozen=True, slots=True)
class WalkSummary:
    """The summary of an ended walk.

    Args:
        stop: The reason why the walk ended. If several apply, it is the first of `failed`, `closed`, `timeout`,
            `sufficient`, `max_hits`, `node_budget`, `exhausted`.
        emitted: The number of hits yielded.
        routed: The number of routers committed.
        steps: The number of times that nodes were selected from the frontier.
        edges: The number of neighbours read.
        depth: The greatest depth of a committed node.
        seconds: The time from the first request to the end, on the event loop's clock.
        left_out: The number of nodes that each limit left out, by the name of the limit.
        at_least: The limits whose number in `left_out` is a lower bound.
        unknown: The limits that kept nodes from being expanded, and behind which nothing was counted. See
            `Limits.count_beyond_limits`.
        lost: The corpora that failed during a walk over several, in their order.
        improved: The number of committed nodes that the walk found again by a better path. See
            `Policy.rescores_committed`.
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
    lost: tuple[LostCorpus, ...] = ()
    improved: int = 0

    @property
    def committed(self) -> int:
        """The number of nodes committed: hits and routers."""
        return self.emitted + self.routed

    @property
    def truncated(self) -> bool:
        """True if anything was, or may have been, left out.

        A limit that is reached exactly does not truncate a walk if `count_beyond_limits` found nothing beyond it.
        """
        return bool(self.left_out or self.at_least or self.unknown or self.lost) or self.stop == "timeout"

    def to_dict(self) -> dict[str, Any]:
        """Return the summary as a dict of JSON values."""
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
            "lost": [asdict(corpus) for corpus in self.lost],
            "improved": self.improved,
            "truncated": self.truncated,
        }


@dataclass(slots=True)
class WalkCounts:
    """What a running walk has read, and what its limits left out so far."""

    edges: int = 0
    left_out: dict[str, int] = field(default_factory=dict)
    at_least: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)

    def refuse(self, limit: str, count: int, *, at_least: bool = False) -> None:
        """Add nodes to those that a limit left out; with `at_least`, `count` is a lower bound."""
        if count > 0:  # it is negative if an iterable reports a smaller length than it has
            self.left_out[limit] = self.left_out.get(limit, 0) + count
            if at_least:
                self.at_least.add(limit)

    def forget_end(self) -> None:
        """Forget what was counted when the walk ended: the nodes that these limits left out."""
        for limit in ("max_depth", "max_hits", "node_budget"):
            self.left_out.pop(limit, None)
            self.at_least.discard(limit)
            self.unknown.discard(limit)


# When a walk may go on: here and on servers.


def check_bounds(max_depth: int | None, node_budget: int, timeout: float | None) -> None:
    """Check the limits of a walk.

    Raises:
        ArgumentError: If one cannot be used.
    """
    if max_depth is not None:
        check_count("max_depth", max_depth)
    check_count("node_budget", node_budget)
    # A whole number may be too large for a float, and a clock counts in floats.
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if timeout is not None and not (is_number and (0 <= timeout <= sys.float_info.max or timeout == math.inf)):
        raise ArgumentError(f"timeout must be a number of seconds (0 or more) or None, not {short_repr(timeout)}")


def check_raised(name: str, value: float | None, before: float | None) -> None:
    """Check that a limit of a walk that goes on is not lower than before; `None` is no limit.

    Raises:
        ArgumentError: If it is lower.
    """
    least = math.inf if before is None else before
    if value is not None and value < least:
        allowed = "None" if least == math.inf else f"at least {least:,}"
        raise ArgumentError(f"{name} must be {allowed}, as before, not {value:,}; limits are totals of the whole walk")


def check_extendable(
    summary: WalkSummary | None,
    policy: Any,
    limits: Limits,
    *,
    max_depth: int | None,
    raises_depth: bool,
    has_lost_items: bool,
    find_obstacle: Callable[[], str | None] = lambda: None,
) -> None:
    """Check that a walk can go on as one with larger limits would.

    Args:
        summary: The summary of the walk; `None` if it has not ended.
        policy: Its policy.
        limits: Its limits.
        max_depth: Its depth cap before.
        raises_depth: Whether the cap shall be raised.
        has_lost_items: Whether hits of it were dropped before anybody took them.
        find_obstacle: Returns what its policy finds, if nothing else is in the way.

    Raises:
        WalkNotExtendable: If it cannot.
    """
    reason, remedy = None, "start another walk"
    if summary is None:
        reason, remedy = "it has not ended", "request its hits"
    elif summary.stop in ("closed", "failed"):
        reason = "it was closed" if summary.stop == "closed" else "it failed"
    elif has_lost_items:
        reason = "its block of prefetch or merge was left before all its hits were taken"
    elif summary.emitted == limits.max_hits:
        reason = f"it has reached max_hits={summary.emitted:,}, and only its other limits can be raised"
    elif limits.count_beyond_limits:
        reason = "it has read what lies beyond its limits, for the count"
        remedy = "leave count_beyond_limits out"
    elif raises_depth and policy.keeps_frontier:
        name = type(policy).__name__
        reason = f"nodes below max_depth={max_depth:,} would have competed with the hits of {name}"
        remedy = "start another walk with the higher max_depth"
    else:
        reason = find_obstacle()
    if reason is not None:
        raise WalkNotExtendable(f"this walk cannot go on: {reason}; {remedy}")
