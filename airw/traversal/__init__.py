"""The one loop that awaits."""

from airw.traversal.operator import Walk
from airw.traversal.start import traverse

__all__ = ["Walk", "traverse"]
