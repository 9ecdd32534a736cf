"""Ingestion: from the items of a source to what a store holds of them."""

from airw.ingestion.drafts import OnError, Recipe
from airw.ingestion.pipeline import Builder, BuildProgress, Pages
from airw.ingestion.report import BuildReport
from airw.ingestion.settings import BY_HAND, edge_extractor_of, recipes_with, strategy_of
from airw.ingestion.surveys import surveyed

__all__ = [
    "BY_HAND",
    "BuildProgress",
    "BuildReport",
    "Builder",
    "OnError",
    "Pages",
    "Recipe",
    "edge_extractor_of",
    "recipes_with",
    "strategy_of",
    "surveyed",
]
