"""Walks: `start_walk` starts one; policies, events, streams of hits and summaries."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.walking.batches import WalkBatches
    from airw.walking.columns import Columns
    from airw.walking.committed import CommittedNode, CommittedNodes
    from airw.walking.events import EdgeFound, NodeCommitted, StepDone, WalkEnded, WalkEvent
    from airw.walking.policy import (
        ColumnView,
        Frontier,
        LazyNeighbors,
        Neighbors,
        Policy,
        WalkPolicy,
        WalkState,
    )
    from airw.walking.record import WalkRecord
    from airw.walking.streams import merge, prefetch, top_k
    from airw.walking.summary import LossyCorpus, LostCorpus, WalkCounts, WalkSummary
    from airw.walking.walk import Walk, start_walk
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "batches": ["WalkBatches"],
            "columns": ["Columns"],
            "committed": ["CommittedNode", "CommittedNodes"],
            "events": ["NodeCommitted", "EdgeFound", "WalkEnded", "StepDone", "WalkEvent"],
            "policy": [
                "LazyNeighbors",
                "ColumnView",
                "Frontier",
                "Neighbors",
                "Policy",
                "WalkPolicy",
                "WalkState",
            ],
            "record": ["WalkRecord"],
            "streams": ["merge", "prefetch", "top_k"],
            "summary": ["LossyCorpus", "LostCorpus", "WalkCounts", "WalkSummary"],
            "walk": ["Walk", "start_walk"],
        },
    )

__all__ = [
    "ColumnView",
    "Columns",
    "CommittedNode",
    "CommittedNodes",
    "EdgeFound",
    "Frontier",
    "LazyNeighbors",
    "LossyCorpus",
    "LostCorpus",
    "Neighbors",
    "NodeCommitted",
    "Policy",
    "StepDone",
    "Walk",
    "WalkBatches",
    "WalkCounts",
    "WalkEnded",
    "WalkEvent",
    "WalkPolicy",
    "WalkRecord",
    "WalkState",
    "WalkSummary",
    "merge",
    "prefetch",
    "start_walk",
    "top_k",
]
