"""Formats of walks along links: trees as text, JSON, records, dot and HTML pages."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.views.bundled import (
        Bundle as Bundle,
        BundledNote as BundledNote,
        NoteLink as NoteLink,
        bundle_document as bundle_document,
    )
    from airw.views.bundling import BundleStream as BundleStream, bundle as bundle, estimate_tokens as estimate_tokens
    from airw.views.dot import path_dot as path_dot, tree_dot as tree_dot
    from airw.views.links import walk_links as walk_links
    from airw.views.listing import (
        ListedLink as ListedLink,
        list_links as list_links,
        listing_records as listing_records,
        unresolved_dict as unresolved_dict,
        unresolved_line as unresolved_line,
    )
    from airw.views.model import (
        NodeView as NodeView,
        TreeLink as TreeLink,
        WalkTree as WalkTree,
        describe as describe,
        edge_dict as edge_dict,
        node_view as node_view,
    )
    from airw.views.page import path_page as path_page, tree_page as tree_page
    from airw.views.path import path_dict as path_dict, path_text as path_text
    from airw.views.reading import TreeReader as TreeReader, read_tree as read_tree
    from airw.views.records import path_records as path_records, tree_records as tree_records
    from airw.views.schema import path_schema as path_schema, tree_schema as tree_schema
    from airw.views.text import TreeTextWriter as TreeTextWriter, tree_text as tree_text
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
