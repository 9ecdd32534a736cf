"""Tools for agents: async functions with a schema, whose answers are short texts."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.tools.definition import Tool as Tool
    from airw.tools.finding import discover_tool as discover_tool, read_tool as read_tool, walk_tool as walk_tool
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
