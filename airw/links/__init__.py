"""Links between artifacts: their extraction, their inverses, and the graph of a corpus."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.links.diagnosis import Finding, GraphDiagnosis
    from airw.links.fields import (
        CHILD,
        NEXT,
        PARENT,
        PREV,
        REF,
        CallableLinks,
        DependencyLinks,
        default_edge_extractor,
        extractor_from,
    )
    from airw.links.graph import CorpusGraph
    from airw.links.inverses import INVERSES, FollowedLinks, Inverses
    from airw.links.markdown import MarkdownLinks
    from airw.links.mentions import MentionFinder, TitleMentions
    from airw.links.neighbor_store import LoadedGraph, NeighborStore, load_graph
    from airw.links.paths import LinkCycle, LinkPath
    from airw.links.shared_names import SharedNameFinder, SharedNames
    from airw.links.specs import extractor_from_spec, extractor_spec
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "diagnosis": ["Finding", "GraphDiagnosis"],
            "fields": [
                "CHILD",
                "CallableLinks",
                "DependencyLinks",
                "NEXT",
                "PARENT",
                "PREV",
                "REF",
                "default_edge_extractor",
                "extractor_from",
            ],
            "graph": ["CorpusGraph"],
            "inverses": ["INVERSES", "FollowedLinks", "Inverses"],
            "markdown": ["MarkdownLinks"],
            "mentions": ["MentionFinder", "TitleMentions"],
            "neighbor_store": ["LoadedGraph", "NeighborStore", "load_graph"],
            "paths": ["LinkCycle", "LinkPath"],
            "shared_names": ["SharedNameFinder", "SharedNames"],
            "specs": ["extractor_from_spec", "extractor_spec"],
        },
    )

__all__ = [
    "CHILD",
    "INVERSES",
    "NEXT",
    "PARENT",
    "PREV",
    "REF",
    "CallableLinks",
    "CorpusGraph",
    "DependencyLinks",
    "Finding",
    "FollowedLinks",
    "GraphDiagnosis",
    "Inverses",
    "LinkCycle",
    "LinkPath",
    "LoadedGraph",
    "MarkdownLinks",
    "MentionFinder",
    "NeighborStore",
    "SharedNameFinder",
    "SharedNames",
    "TitleMentions",
    "default_edge_extractor",
    "extractor_from",
    "extractor_from_spec",
    "extractor_spec",
    "load_graph",
]
