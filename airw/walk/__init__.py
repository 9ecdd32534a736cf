"""One walk as values and pure decisions: what a policy sees, what the operator records, how it ended."""

from airw.walk.events import Committed, EdgeFound, Ended, StepDone, WalkEvent
from airw.walk.policy import Behind, Column, Entry, Frontier, Neighbors, Policy, WalkPolicy, WalkState
from airw.walk.record import WalkRecord
from airw.walk.summary import Tally, WalkSummary

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
    "WalkEvent",
    "WalkPolicy",
    "WalkRecord",
    "WalkState",
    "WalkSummary",
]
