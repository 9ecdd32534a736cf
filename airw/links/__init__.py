"""Links: what artifacts say about each other, and the graph that this makes."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.links.adapters import CallableLinks, extractor_from
    from airw.links.dependencies import CHILD, NEXT, PARENT, PREV, REF, DependencyLinks, default_edge_extractor
    from airw.links.diagnosis import Finding, GraphDiagnosis
    from airw.links.graph import CorpusGraph
    from airw.links.inverses import INVERSES, Inverses
    from airw.links.markdown import MarkdownLinks
    from airw.links.mentions import MentionFinder, TitleMentions
    from airw.links.paths import LinkCycle, LinkPath
    from airw.links.specs import extractor_from_spec, extractor_spec
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adapters": ["CallableLinks", "extractor_from"],
            "dependencies": ["CHILD", "DependencyLinks", "NEXT", "PARENT", "PREV", "REF", "default_edge_extractor"],
            "diagnosis": ["Finding", "GraphDiagnosis"],
            "graph": ["CorpusGraph"],
            "inverses": ["INVERSES", "Inverses"],
            "markdown": ["MarkdownLinks"],
            "mentions": ["MentionFinder", "TitleMentions"],
            "paths": ["LinkCycle", "LinkPath"],
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
    "GraphDiagnosis",
    "Inverses",
    "LinkCycle",
    "LinkPath",
    "MarkdownLinks",
    "MentionFinder",
    "TitleMentions",
    "default_edge_extractor",
    "extractor_from",
    "extractor_from_spec",
    "extractor_spec",
]
