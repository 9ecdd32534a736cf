"""The sync names of `ir`: `import airw.compat.ir as ir`.

Names of `ir` that airw lacks raise an `ImportError` with their replacement.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.compat.ir import base as base
    from airw.compat.ir import cli as cli
    from airw.compat.ir import config as config
    from airw.compat.ir import coverage as coverage
    from airw.compat.ir import embed as embed
    from airw.compat.ir import eval as eval  # noqa: A004
    from airw.compat.ir import eval_gen as eval_gen
    from airw.compat.ir import formulate as formulate
    from airw.compat.ir import graph as graph
    from airw.compat.ir import index as index
    from airw.compat.ir import maintenance as maintenance
    from airw.compat.ir import policy as policy
    from airw.compat.ir import registry as registry
    from airw.compat.ir import requirements as requirements
    from airw.compat.ir import rerank as rerank
    from airw.compat.ir import retrieve as retrieve
    from airw.compat.ir import schedule as schedule
    from airw.compat.ir import sources as sources
    from airw.compat.ir import store as store
    from airw.compat.ir import strategy as strategy
    from airw.compat.ir import synopsis as synopsis
    from airw.compat.ir import tools as tools
    from airw.compat.ir.base import Artifact, IndexPlan, Record, SearchHit, Surface, tag_source
    from airw.compat.ir.expand import NeighborhoodPolicy, Passage, expand, parent_policy, sentence_window_policy
    from airw.compat.ir.formulate import Formulator, make_llm_formulator
    from airw.compat.ir.graph import CorpusGraph, EdgeExtractor, GraphStore, canonical_node_id, default_edge_extractor
    from airw.compat.ir.index import Corpus, build, open_corpus
    from airw.compat.ir.maintenance import MaintenanceResult, maintain, maintain_corpus
    from airw.compat.ir.registry import build_corpus, corpora, register, retriever_for, retrievers
    from airw.compat.ir.rerank import calibration_key, resolve_reranker
    from airw.compat.ir.retrieve import (
        Retriever,
        as_retriever,
        dependency_evidence_boost,
        fuse_hits,
        records_for_artifact,
        search,
    )
    from airw.compat.ir.select import Disclosure, DiscoveryResult, Selection, disclose, discover, select
    from airw.compat.ir.sources import CorpusSource
    from airw.compat.ir.store import CorpusStore
    from airw.compat.ir.strategy import Chunked, IndexingStrategy, Package, Skill, WholeText
    from airw.compat.ir.synopsis import (
        Synthesizer,
        make_llm_synthesizer,
        make_thin_description_predicate,
        thin_description_predicate,
        with_synopsis,
    )
    from airw.compat.ir.tools import make_search, search_tool
    from airw.compat.ir.traverse import (
        WalkPolicy,
        WalkState,
        collapsed_tree_policy,
        reverse_dependency_policy,
        traverse,
    )
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "cli": [],
            "config": [],
            "coverage": [],
            "policy": [],
            "requirements": [],
            "schedule": [],
            "base": ["Artifact", "IndexPlan", "Record", "SearchHit", "Surface", "tag_source"],
            "embed": [],
            "eval": [],
            "eval_gen": [],
            "expand": ["NeighborhoodPolicy", "Passage", "expand", "parent_policy", "sentence_window_policy"],
            "formulate": ["Formulator", "make_llm_formulator"],
            "graph": ["CorpusGraph", "EdgeExtractor", "GraphStore", "canonical_node_id", "default_edge_extractor"],
            "index": ["Corpus", "build", "open_corpus"],
            "maintenance": ["MaintenanceResult", "maintain", "maintain_corpus"],
            "registry": ["build_corpus", "corpora", "register", "retriever_for", "retrievers"],
            "rerank": ["calibration_key", "resolve_reranker"],
            "retrieve": [
                "Retriever",
                "as_retriever",
                "dependency_evidence_boost",
                "fuse_hits",
                "records_for_artifact",
                "search",
            ],
            "select": ["Disclosure", "DiscoveryResult", "Selection", "disclose", "discover", "select"],
            "sources": ["CorpusSource"],
            "store": ["CorpusStore"],
            "strategy": ["Chunked", "IndexingStrategy", "Package", "Skill", "WholeText"],
            "synopsis": [
                "Synthesizer",
                "make_llm_synthesizer",
                "make_thin_description_predicate",
                "thin_description_predicate",
                "with_synopsis",
            ],
            "tools": ["make_search", "search_tool"],
            "traverse": ["WalkPolicy", "WalkState", "collapsed_tree_policy", "reverse_dependency_policy", "traverse"],
        },
        instead={
            "ClaudeTurn": "pass turns as records: CorpusSource.from_records(name=…, fetcher=…)",
            "CoverageReport": "call await airw.corpora.coverage(name), which returns a Coverage",
            "reports_coverage": "call await airw.corpora.coverage('reports')",
            "MaintenancePolicy": "call airw.register(…, maintenance=airw.corpora.Maintenance(…))",
            "ReindexPolicy": "call airw.register(…, maintenance=airw.corpora.Maintenance(…))",
            "SynopsisPolicy": "synopses are part of the strategy: call airw.register(…, strategy=with_synopsis(…))",
            "resolve_policy": "use airw.corpora.list_corpora()[name].schedule",
            "default_policy_for_kind": "use airw.corpora.list_corpora()[name].schedule",
            "policy_for": "use airw.corpora.list_corpora()[name].schedule",
        },
    )

__all__ = [
    "Artifact",
    "Chunked",
    "Corpus",
    "CorpusGraph",
    "CorpusSource",
    "CorpusStore",
    "Disclosure",
    "DiscoveryResult",
    "EdgeExtractor",
    "Formulator",
    "GraphStore",
    "IndexPlan",
    "IndexingStrategy",
    "MaintenanceResult",
    "NeighborhoodPolicy",
    "Package",
    "Passage",
    "Record",
    "Retriever",
    "SearchHit",
    "Selection",
    "Skill",
    "Surface",
    "Synthesizer",
    "WalkPolicy",
    "WalkState",
    "WholeText",
    "as_retriever",
    "build",
    "build_corpus",
    "calibration_key",
    "canonical_node_id",
    "collapsed_tree_policy",
    "corpora",
    "default_edge_extractor",
    "dependency_evidence_boost",
    "disclose",
    "discover",
    "expand",
    "fuse_hits",
    "maintain",
    "maintain_corpus",
    "make_llm_formulator",
    "make_llm_synthesizer",
    "make_search",
    "make_thin_description_predicate",
    "open_corpus",
    "parent_policy",
    "records_for_artifact",
    "register",
    "resolve_reranker",
    "retriever_for",
    "retrievers",
    "reverse_dependency_policy",
    "search",
    "search_tool",
    "select",
    "sentence_window_policy",
    "tag_source",
    "thin_description_predicate",
    "traverse",
    "with_synopsis",
]
