"""Edge extractors: what artifacts say about each other."""

from airw.links.adapters import CallableLinks, extractor_from
from airw.links.markdown import MarkdownLinks
from airw.links.specs import extractor_from_spec, extractor_spec

__all__ = ["CallableLinks", "MarkdownLinks", "extractor_from", "extractor_from_spec", "extractor_spec"]
