"""Walks along links, for people and programs: as a tree, JSON, records, text, dot and a page."""

from airw.views.model import NodeView, TreeLink, WalkTree, edge_dict, node_view

__all__ = ["NodeView", "TreeLink", "WalkTree", "edge_dict", "node_view"]
