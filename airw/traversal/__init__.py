"""The one loop that awaits."""

from airw.traversal.events import WalkEvents
from airw.traversal.operator import Walk
from airw.traversal.start import traverse

__all__ = ["Walk", "WalkEvents", "traverse"]
