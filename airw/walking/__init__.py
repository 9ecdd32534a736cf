"""Walks: the call that starts one, what a policy decides and sees, events, streams, and how a walk ended."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.walking.events import Committed, EdgeFound, Ended, StepDone, WalkEvent
    from airw.walking.policy import Behind, Column, Entry, Frontier, Neighbors, Policy, WalkPolicy, WalkState
    from airw.walking.record import WalkRecord
    from airw.walking.streams import merge, prefetch, top_k
    from airw.walking.summary import Tally, WalkSummary
    from airw.walking.walk import Walk, traverse
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "events": ["Committed", "EdgeFound", "Ended", "StepDone", "WalkEvent"],
            "policy": ["Behind", "Column", "Entry", "Frontier", "Neighbors", "Policy", "WalkPolicy", "WalkState"],
            "record": ["WalkRecord"],
            "streams": ["merge", "prefetch", "top_k"],
            "summary": ["Tally", "WalkSummary"],
            "walk": ["Walk", "traverse"],
        },
    )

__all__ = [
    "Behind",
    "Column",
    "Committed",
    "EdgeFound",
    "Ended",
    "Entry",
    "Frontier",
    "Neighbors",
    "Policy",
    "StepDone",
    "Tally",
    "Walk",
    "WalkEvent",
    "WalkPolicy",
    "WalkRecord",
    "WalkState",
    "WalkSummary",
    "merge",
    "prefetch",
    "top_k",
    "traverse",
]
