"""Building: from a source to an open corpus, incrementally."""

from airw.building.builder import build
from airw.building.pipeline import BuildProgress

__all__ = ["BuildProgress", "build"]
