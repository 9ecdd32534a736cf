"""Tools for agents: async functions with a schema, whose answers are short texts."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.tools.definition import Tool
    from airw.tools.finding import discover_tool, read_tool, walk_tool
else:
    __getattr__, __dir__ = lazy_names(
        __name__, {"definition": ["Tool"], "finding": ["discover_tool", "read_tool", "walk_tool"]}
    )

__all__ = ["Tool", "discover_tool", "read_tool", "walk_tool"]
