"""Async retrieval: walk a corpus or a graph, and stream each hit as it is committed."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw import (
        chat as chat,
        corpora as corpora,
        discovery as discovery,
        embedders as embedders,
        errors as errors,
        evaluation as evaluation,
        indexing as indexing,
        links as links,
        policies as policies,
        protocols as protocols,
        reranking as reranking,
        retrieval as retrieval,
        sources as sources,
        stores as stores,
        sync as sync,
        testing as testing,
        tools as tools,
        values as values,
        views as views,
        walking as walking,
    )
    from airw._base.version import __version__ as __version__
    from airw.corpora import (
        BuildReport as BuildReport,
        Corpus as Corpus,
        adapt as adapt,
        as_retriever as as_retriever,
        build as build,
        build_corpus as build_corpus,
        maintain as maintain,
        open_corpus as open_corpus,
        register as register,
        search as search,
    )
    from airw.discovery import (
        Disclosure as Disclosure,
        DiscoveryResult as DiscoveryResult,
        FederatedCorpus as FederatedCorpus,
        Selection as Selection,
        disclose as disclose,
        discover as discover,
        discover_stream as discover_stream,
        expand as expand,
        select as select,
    )
    from airw.embedders import embedder_from as embedder_from
    from airw.errors import AirwError as AirwError
    from airw.links import CorpusGraph as CorpusGraph
    from airw.protocols import (
        Embedder as Embedder,
        IndexingStrategy as IndexingStrategy,
        Source as Source,
        Store as Store,
    )
    from airw.retrieval import fuse_hits as fuse_hits
    from airw.sources import (
        from_files as from_files,
        from_jsonl as from_jsonl,
        from_mapping as from_mapping,
        from_mcp_tools as from_mcp_tools,
        from_md_reports as from_md_reports,
        from_notes as from_notes,
        from_packages as from_packages,
        from_records as from_records,
        from_skills as from_skills,
    )
    from airw.traversal import traverse as traverse
    from airw.values import (
        Artifact as Artifact,
        ArtifactRef as ArtifactRef,
        Edge as Edge,
        IndexPlan as IndexPlan,
        Limits as Limits,
        Link as Link,
        Passage as Passage,
        Record as Record,
        SearchHit as SearchHit,
        Surface as Surface,
    )
    from airw.walking import (
        CommittedNode as CommittedNode,
        Frontier as Frontier,
        Policy as Policy,
        Walk as Walk,
        WalkState as WalkState,
        WalkSummary as WalkSummary,
        merge as merge,
        prefetch as prefetch,
        top_k as top_k,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
