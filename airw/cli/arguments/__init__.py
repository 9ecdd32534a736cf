"""What the command line understands."""

from airw.cli.arguments.tree import parser

__all__ = ["parser"]
