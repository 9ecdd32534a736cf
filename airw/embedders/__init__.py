"""Embedders, which turn texts into unit vectors."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.embedders.adapters import embedder_from
    from airw.embedders.cached import CachedEmbedder
    from airw.embedders.hashing import HashingEmbedder
    from airw.embedders.http import HttpEmbedder
    from airw.embedders.missing import MissingEmbedder, first_usable
    from airw.embedders.onnx import OnnxEmbedder
    from airw.embedders.sentence import SentenceTransformerEmbedder
    from airw.embedders.specs import check_embedder, is_builtin, is_same_model, resolve_embedder
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adapters": ["embedder_from"],
            "cached": ["CachedEmbedder"],
            "hashing": ["HashingEmbedder"],
            "http": ["HttpEmbedder"],
            "missing": ["MissingEmbedder", "first_usable"],
            "onnx": ["OnnxEmbedder"],
            "sentence": ["SentenceTransformerEmbedder"],
            "specs": ["check_embedder", "is_builtin", "is_same_model", "resolve_embedder"],
        },
    )

__all__ = [
    "CachedEmbedder",
    "HashingEmbedder",
    "HttpEmbedder",
    "MissingEmbedder",
    "OnnxEmbedder",
    "SentenceTransformerEmbedder",
    "check_embedder",
    "embedder_from",
    "first_usable",
    "is_builtin",
    "is_same_model",
    "resolve_embedder",
]
