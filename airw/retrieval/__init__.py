"""Searching in one open corpus: dense, lexical or hybrid, each on one scale; names are `airw.corpus`'s business."""

from airw.retrieval.answering import answer, formulated, retrieve
from airw.retrieval.channels import channel_rankings, check_corpus, embedded
from airw.retrieval.question import (
    FUSIONS,
    MODES,
    Boost,
    Fusion,
    Mode,
    PassageReader,
    Question,
    SearchOptions,
    SearchTuning,
    ask,
    channels_of,
    hybrid_depth,
)

__all__ = [
    "FUSIONS",
    "MODES",
    "Boost",
    "Fusion",
    "Mode",
    "PassageReader",
    "Question",
    "SearchOptions",
    "SearchTuning",
    "answer",
    "ask",
    "channel_rankings",
    "channels_of",
    "check_corpus",
    "embedded",
    "formulated",
    "hybrid_depth",
    "retrieve",
]
