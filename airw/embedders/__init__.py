"""Embedders: what turns texts into unit vectors."""

from airw.embedders.adapters import embedder_from
from airw.embedders.cached import CachedEmbedder
from airw.embedders.export import ExportReport, export_model
from airw.embedders.hashing import HashingEmbedder
from airw.embedders.http import HttpEmbedder
from airw.embedders.onnx import OnnxEmbedder
from airw.embedders.sentence import SentenceTransformerEmbedder
from airw.embedders.specs import check_embedder, resolve_embedder

__all__ = [
    "CachedEmbedder",
    "ExportReport",
    "HashingEmbedder",
    "HttpEmbedder",
    "OnnxEmbedder",
    "SentenceTransformerEmbedder",
    "check_embedder",
    "embedder_from",
    "export_model",
    "resolve_embedder",
]
