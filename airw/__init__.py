"""Async retrieval: walk a corpus or a graph, and stream each hit as it is committed."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw import chat as chat
    from airw import corpora as corpora
    from airw import discovery as discovery
    from airw import embedders as embedders
    from airw import errors as errors
    from airw import evaluation as evaluation
    from airw import indexing as indexing
    from airw import links as links
    from airw import policies as policies
    from airw import protocols as protocols
    from airw import reranking as reranking
    from airw import retrieval as retrieval
    from airw import sources as sources
    from airw import stores as stores
    from airw import sync as sync
    from airw import testing as testing
    from airw import tools as tools
    from airw import values as values
    from airw import views as views
    from airw import walking as walking
    from airw._base.version import __version__ as __version__
    from airw.corpora import (
        BuildReport,
        Corpus,
        adapt,
        as_retriever,
        build,
        build_corpus,
        maintain,
        open_corpus,
        register,
        search,
    )
    from airw.discovery import (
        Disclosure,
        DiscoveryResult,
        FederatedCorpus,
        Selection,
        disclose,
        discover,
        discover_stream,
        expand,
        select,
    )
    from airw.embedders import embedder_from
    from airw.errors import AirwError
    from airw.links import CorpusGraph
    from airw.protocols import Embedder, IndexingStrategy, Source, Store
    from airw.retrieval import fuse_hits
    from airw.sources import (
        from_files,
        from_jsonl,
        from_mapping,
        from_mcp_tools,
        from_md_reports,
        from_notes,
        from_packages,
        from_records,
        from_skills,
    )
    from airw.traversal import traverse
    from airw.values import Artifact, ArtifactRef, Edge, IndexPlan, Limits, Link, Passage, Record, SearchHit, Surface
    from airw.walking import (
        CommittedNode,
        Frontier,
        Policy,
        Walk,
        WalkState,
        WalkSummary,
        merge,
        prefetch,
        top_k,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "_base.version": ["__version__"],
            "chat": [],
            "corpora": [
                "BuildReport",
                "Corpus",
                "adapt",
                "as_retriever",
                "build",
                "build_corpus",
                "maintain",
                "open_corpus",
                "register",
                "search",
            ],
            "discovery": [
                "Disclosure",
                "DiscoveryResult",
                "FederatedCorpus",
                "Selection",
                "disclose",
                "discover",
                "discover_stream",
                "expand",
                "select",
            ],
            "embedders": ["embedder_from"],
            "errors": ["AirwError"],
            "evaluation": [],
            "indexing": [],
            "links": ["CorpusGraph"],
            "policies": [],
            "protocols": ["Embedder", "IndexingStrategy", "Source", "Store"],
            "reranking": [],
            "retrieval": ["fuse_hits"],
            "sources": [
                "from_files",
                "from_jsonl",
                "from_mapping",
                "from_mcp_tools",
                "from_md_reports",
                "from_notes",
                "from_packages",
                "from_records",
                "from_skills",
            ],
            "stores": [],
            "sync": [],
            "testing": [],
            "tools": [],
            "traversal": ["traverse"],
            "values": [
                "Artifact",
                "ArtifactRef",
                "Edge",
                "IndexPlan",
                "Limits",
                "Link",
                "Passage",
                "Record",
                "SearchHit",
                "Surface",
            ],
            "views": [],
            "walking": [
                "CommittedNode",
                "Frontier",
                "Policy",
                "Walk",
                "WalkState",
                "WalkSummary",
                "merge",
                "prefetch",
                "top_k",
            ],
        },
    )

__all__ = [  # noqa: RUF022 - in sections, for the reader
    # Verbs
    "build",
    "open_corpus",
    "adapt",
    "search",
    "as_retriever",
    "traverse",
    "top_k",
    "prefetch",
    "merge",
    "discover",
    "discover_stream",
    "select",
    "disclose",
    "expand",
    "fuse_hits",
    "register",
    "build_corpus",
    "maintain",
    "embedder_from",
    "from_files",
    "from_jsonl",
    "from_mapping",
    "from_mcp_tools",
    "from_md_reports",
    "from_notes",
    "from_packages",
    "from_records",
    "from_skills",
    # The values they give and take
    "Artifact",
    "ArtifactRef",
    "BuildReport",
    "Corpus",
    "CorpusGraph",
    "Disclosure",
    "DiscoveryResult",
    "Edge",
    "FederatedCorpus",
    "IndexPlan",
    "Limits",
    "Link",
    "Passage",
    "Record",
    "SearchHit",
    "Selection",
    "Surface",
    "Walk",
    "WalkSummary",
    # What one implements
    "Embedder",
    "CommittedNode",
    "Frontier",
    "IndexingStrategy",
    "Policy",
    "Source",
    "Store",
    "WalkState",
    # The root of all errors; the others are in airw.errors
    "AirwError",
]
