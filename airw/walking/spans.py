"""The span of a walk: what it says at the start, at each step and at the end."""

import math
from collections.abc import Mapping
from typing import Any

from airw._base.telemetry import OpenSpan, start_span
from airw.walking.summary import WalkCounts, WalkSummary


def start_walk_span(
    query: str, store: Any, policy: object, *, max_depth: int | None, node_budget: int, timeout: float
) -> OpenSpan | None:
    """Start the span of a walk, with its policy and limits; `None` if nobody wants spans."""
    name = getattr(store, "name", None)
    source = name if isinstance(name, str) else None
    return start_span("walk", source, query, _describe_start, policy, max_depth, node_budget, timeout)


def _describe_start(policy: object, max_depth: int | None, node_budget: int, timeout: float) -> Mapping[str, Any]:
    return {
        "airw.walk.policy": type(policy).__name__,
        "airw.walk.node_budget": node_budget,
        "airw.walk.max_depth": max_depth,
        "airw.walk.timeout": None if math.isinf(timeout) else timeout,
    }


def note_step(span: OpenSpan, step: int, counts: WalkCounts, waiting: int) -> None:
    """Add the event that a step is done: the same numbers as `StepDone`."""
    numbers = {"step": step, "committed": counts.committed, "edges": counts.edges, "waiting": waiting}
    span.note("airw.walk.step", {f"airw.walk.{name}": number for name, number in numbers.items()})


def end_walk_span(span: OpenSpan, summary: WalkSummary, error: BaseException | None) -> None:
    """End the span of a walk with the numbers of its summary."""
    span.set(
        {
            "airw.walk.stop": summary.stop,
            "airw.walk.emitted": summary.emitted,
            "airw.walk.routed": summary.routed,
            "airw.walk.steps": summary.steps,
            "airw.walk.edges": summary.edges,
            "airw.walk.depth": summary.depth,
            "airw.walk.truncated": summary.truncated,
            "airw.walk.lost": [corpus.name for corpus in summary.lost] or None,
            **{f"airw.walk.left_out.{limit}": count for limit, count in summary.left_out.items()},
        }
    )
    span.fail(error)
    span.end()
