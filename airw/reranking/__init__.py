"""Rerankers: functions that score the candidates of a search against its query again."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.reranking.boosts import (
        dependency_evidence_boost as dependency_evidence_boost,
        recency as recency,
        resolve_boost as resolve_boost,
    )
    from airw.reranking.calling import resolve_reranker as resolve_reranker, score_texts as score_texts
    from airw.reranking.cross_encoder import CrossEncoderReranker as CrossEncoderReranker
    from airw.reranking.http import HttpReranker as HttpReranker
    from airw.reranking.identity import (
        RERANK_TEXTS as RERANK_TEXTS,
        calibration_key as calibration_key,
        is_anonymous as is_anonymous,
        rerank_tag as rerank_tag,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
