"""Corpora as tools of agents, by the Model Context Protocol (MCP)."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.mcp.application import app as app
    from airw.mcp.running import run_stdio as run_stdio
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, extra="mcp")
