"""The command line."""

from airw.cli.program import main

__all__ = ["main"]
