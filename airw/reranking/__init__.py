"""Rerankers: functions that score the candidates of a search against its query again."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.reranking.boosts import dependency_evidence_boost
    from airw.reranking.cross_encoder import CrossEncoderReranker
    from airw.reranking.http import HttpReranker
    from airw.reranking.identity import RERANK_TEXTS, calibration_key, is_anonymous, rerank_tag
    from airw.reranking.scores import score_texts
    from airw.reranking.specs import resolve_reranker
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "boosts": ["dependency_evidence_boost"],
            "cross_encoder": ["CrossEncoderReranker"],
            "http": ["HttpReranker"],
            "identity": ["RERANK_TEXTS", "calibration_key", "is_anonymous", "rerank_tag"],
            "scores": ["score_texts"],
            "specs": ["resolve_reranker"],
        },
    )

__all__ = [
    "RERANK_TEXTS",
    "CrossEncoderReranker",
    "HttpReranker",
    "calibration_key",
    "dependency_evidence_boost",
    "is_anonymous",
    "rerank_tag",
    "resolve_reranker",
    "score_texts",
]
