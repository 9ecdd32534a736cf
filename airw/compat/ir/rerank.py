"""Rerankers by name, and the keys of calibrations."""

from typing import Final

from airw.compat._missing_names import explain_missing
from airw.reranking import RERANK_TEXTS as RERANK_TEXTS
from airw.reranking import calibration_key as calibration_key
from airw.reranking import is_anonymous as is_anonymous
from airw.reranking import rerank_tag as rerank_tag
from airw.reranking import resolve_reranker as resolve_reranker

DFLT_RERANK_MODEL = "cross-encoder/ms-marco-MiniLM-L-6-v2"
DFLT_RERANK_MAX_CHARS = 2000
CROSS_ENCODER = "cross-encoder"

__getattr__: Final = explain_missing(
    __name__,
    {
        "spec_tag": "call rerank_tag(resolve_reranker(spec), rerank_text)",
        "passage_texts": "call search(…, rerank=…, rerank_text='artifact')",
        "ANONYMOUS": "call is_anonymous(tag)",
        "MAX_TAG_CHARS": "airw does not limit the length of tags",
    },
)
