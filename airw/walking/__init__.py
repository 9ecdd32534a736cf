"""Walks: `start_walk` starts one; policies, events, streams of hits and summaries."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.walking.events import (
        EdgeFound as EdgeFound,
        NodeCommitted as NodeCommitted,
        StepDone as StepDone,
        WalkEnded as WalkEnded,
        WalkEvent as WalkEvent,
    )
    from airw.walking.policy import (
        ColumnView as ColumnView,
        CommittedNode as CommittedNode,
        CommittedNodes as CommittedNodes,
        Frontier as Frontier,
        LazyNeighbors as LazyNeighbors,
        Neighbors as Neighbors,
        Policy as Policy,
        WalkPolicy as WalkPolicy,
        WalkState as WalkState,
    )
    from airw.walking.streams import merge as merge, prefetch as prefetch, top_k as top_k
    from airw.walking.summary import (
        LossyCorpus as LossyCorpus,
        LostCorpus as LostCorpus,
        WalkSummary as WalkSummary,
    )
    from airw.walking.walk import Walk as Walk, start_walk as start_walk
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
