"""Formats of walks along links: trees as text, JSON, records, dot and HTML pages."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.views.bundled import Bundle, BundledNote, NoteLink, bundle_document
    from airw.views.bundling import BundleStream, bundle, estimate_tokens
    from airw.views.dot import path_dot, tree_dot
    from airw.views.links import walk_links
    from airw.views.listing import ListedLink, list_links, listing_records, unresolved_dict, unresolved_line
    from airw.views.model import NodeView, TreeLink, WalkTree, describe, edge_dict, node_view
    from airw.views.page import path_page, tree_page
    from airw.views.path import path_dict, path_text
    from airw.views.reading import TreeReader, read_tree
    from airw.views.records import path_records, tree_records
    from airw.views.schema import path_schema, tree_schema
    from airw.views.text import TreeTextWriter, tree_text
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "bundled": ["Bundle", "BundledNote", "NoteLink", "bundle_document"],
            "bundling": ["BundleStream", "bundle", "estimate_tokens"],
            "dot": ["path_dot", "tree_dot"],
            "links": ["walk_links"],
            "listing": ["ListedLink", "list_links", "listing_records", "unresolved_dict", "unresolved_line"],
            "model": ["NodeView", "TreeLink", "WalkTree", "describe", "edge_dict", "node_view"],
            "page": ["path_page", "tree_page"],
            "path": ["path_dict", "path_text"],
            "reading": ["TreeReader", "read_tree"],
            "records": ["path_records", "tree_records"],
            "schema": ["path_schema", "tree_schema"],
            "text": ["TreeTextWriter", "tree_text"],
        },
    )

__all__ = [
    "Bundle",
    "BundleStream",
    "BundledNote",
    "ListedLink",
    "NodeView",
    "NoteLink",
    "TreeLink",
    "TreeReader",
    "TreeTextWriter",
    "WalkTree",
    "bundle",
    "bundle_document",
    "describe",
    "edge_dict",
    "estimate_tokens",
    "list_links",
    "listing_records",
    "node_view",
    "path_dict",
    "path_dot",
    "path_page",
    "path_records",
    "path_schema",
    "path_text",
    "read_tree",
    "tree_dot",
    "tree_page",
    "tree_records",
    "tree_schema",
    "tree_text",
    "unresolved_dict",
    "unresolved_line",
    "walk_links",
]
