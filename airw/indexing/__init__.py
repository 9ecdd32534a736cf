"""Strategies that decompose an artifact into fields to filter on and surfaces to search."""

from airw.indexing.chunked import Chunked
from airw.indexing.notes import Notes
from airw.indexing.whole import WholeText

__all__ = ["Chunked", "Notes", "WholeText"]
