"""Edge extractors: what artifacts say about each other."""

from airw.links.adapters import CallableLinks, extractor_from
from airw.links.markdown import MarkdownLinks

__all__ = ["CallableLinks", "MarkdownLinks", "extractor_from"]
