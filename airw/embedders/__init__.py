"""Embedders: what turns texts into unit vectors."""

from airw.embedders.adapters import embedder_from
from airw.embedders.hashing import HashingEmbedder
from airw.embedders.sentence import SentenceTransformerEmbedder
from airw.embedders.specs import check_embedder, resolve_embedder

__all__ = ["HashingEmbedder", "SentenceTransformerEmbedder", "check_embedder", "embedder_from", "resolve_embedder"]
