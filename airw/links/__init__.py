"""Links between artifacts: their extraction, their inverses, and the graph of a corpus."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.links.diagnosis import Finding as Finding, GraphDiagnosis as GraphDiagnosis
    from airw.links.fields import (
        CHILD as CHILD,
        NEXT as NEXT,
        PARENT as PARENT,
        PREV as PREV,
        REF as REF,
        CallableLinks as CallableLinks,
        DependencyLinks as DependencyLinks,
        default_edge_extractor as default_edge_extractor,
        extractor_from as extractor_from,
    )
    from airw.links.graph import CorpusGraph as CorpusGraph
    from airw.links.inverses import INVERSES as INVERSES, FollowedLinks as FollowedLinks, Inverses as Inverses
    from airw.links.markdown import MarkdownLinks as MarkdownLinks
    from airw.links.mentions import MentionFinder as MentionFinder, TitleMentions as TitleMentions
    from airw.links.neighbor_store import (
        GraphStore as GraphStore,
        LoadedGraph as LoadedGraph,
        load_graph as load_graph,
    )
    from airw.links.paths import LinkCycle as LinkCycle, LinkPath as LinkPath
    from airw.links.shared_names import SharedNameFinder as SharedNameFinder, SharedNames as SharedNames
    from airw.links.specs import extractor_from_spec as extractor_from_spec, extractor_spec as extractor_spec
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
