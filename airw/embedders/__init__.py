"""Embedders, which turn texts into unit vectors."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.embedders.adapters import embedder_from as embedder_from
    from airw.embedders.cached import CachedEmbedder as CachedEmbedder
    from airw.embedders.hashing import HashingEmbedder as HashingEmbedder
    from airw.embedders.http import HttpEmbedder as HttpEmbedder
    from airw.embedders.missing import MissingEmbedder as MissingEmbedder, first_usable as first_usable
    from airw.embedders.onnx import OnnxEmbedder as OnnxEmbedder
    from airw.embedders.sentence import SentenceTransformerEmbedder as SentenceTransformerEmbedder
    from airw.embedders.specs import (
        check_embedder as check_embedder,
        is_builtin as is_builtin,
        is_same_model as is_same_model,
        resolve_embedder as resolve_embedder,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
