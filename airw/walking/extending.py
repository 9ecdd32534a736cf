"""When a walk that has ended may go on, for walks of this process and of servers."""

import math
import sys
from collections.abc import Callable

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError, WalkNotExtendable
from airw.values import Limits
from airw.walking.policy import WalkPolicy
from airw.walking.summary import WalkSummary


def check_bounds(max_depth: int | None, node_budget: int, timeout: float | None) -> None:
    """Check the limits of a walk.

    Raises:
        ArgumentError: If one cannot be used.
    """
    if max_depth is not None:
        check_count("max_depth", max_depth)
    check_count("node_budget", node_budget)
    if timeout is not None and not _is_seconds(timeout):
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
    policy: WalkPolicy,
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
        reason = f"it {'was closed' if summary.stop == 'closed' else 'failed'}"
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


def _is_seconds(value: object) -> bool:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return False
    # A whole number may be too large for a float, and a clock counts in floats.
    return 0 <= value <= sys.float_info.max or value == math.inf
