"""Corpora and their names: here, and nowhere below, a name becomes an open corpus."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.corpora.building import BuildOptions, build
    from airw.corpora.definitions import PRESETS, Definition, Maintenance
    from airw.corpora.maintenance import Coverage, Maintained, MaintenanceReport, coverage, maintain
    from airw.corpora.naming import corpus_names, corpus_path, existing_path, home, is_name
    from airw.corpora.opening import CUSTOM, Corpus, CorpusLike, Opening, borrowed, open_corpus, reading
    from airw.corpora.partitions import IngestPlan, PartitionReport, finish_ingest, ingest_partition, prepare_ingest
    from airw.corpora.pipeline import Builder, BuildProgress, BuildReport, Pages, surveyed
    from airw.corpora.recipes import BY_HAND, OnError, Recipe, edge_extractor_of, recipes_with, strategy_of
    from airw.corpora.registry import (
        Retrievers,
        build_corpus,
        list_corpora,
        register,
        retriever_for,
        retrievers,
        unregister,
    )
    from airw.corpora.searching import CorpusRetriever, as_retriever, records_for_artifact, search
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "building": ["BuildOptions", "build"],
            "definitions": ["Definition", "Maintenance", "PRESETS"],
            "maintenance": ["Coverage", "Maintained", "MaintenanceReport", "coverage", "maintain"],
            "naming": ["corpus_names", "corpus_path", "existing_path", "home", "is_name"],
            "opening": ["CUSTOM", "Corpus", "CorpusLike", "Opening", "borrowed", "open_corpus", "reading"],
            "partitions": ["IngestPlan", "PartitionReport", "finish_ingest", "ingest_partition", "prepare_ingest"],
            "pipeline": ["BuildProgress", "BuildReport", "Builder", "Pages", "surveyed"],
            "recipes": ["BY_HAND", "OnError", "Recipe", "edge_extractor_of", "recipes_with", "strategy_of"],
            "registry": [
                "Retrievers",
                "build_corpus",
                "list_corpora",
                "register",
                "retriever_for",
                "retrievers",
                "unregister",
            ],
            "searching": ["CorpusRetriever", "as_retriever", "records_for_artifact", "search"],
        },
    )

__all__ = [
    "BY_HAND",
    "CUSTOM",
    "PRESETS",
    "BuildOptions",
    "BuildProgress",
    "BuildReport",
    "Builder",
    "Corpus",
    "CorpusLike",
    "CorpusRetriever",
    "Coverage",
    "Definition",
    "IngestPlan",
    "Maintained",
    "Maintenance",
    "MaintenanceReport",
    "OnError",
    "Opening",
    "Pages",
    "PartitionReport",
    "Recipe",
    "Retrievers",
    "as_retriever",
    "borrowed",
    "build",
    "build_corpus",
    "corpus_names",
    "corpus_path",
    "coverage",
    "edge_extractor_of",
    "existing_path",
    "finish_ingest",
    "home",
    "ingest_partition",
    "is_name",
    "list_corpora",
    "maintain",
    "open_corpus",
    "prepare_ingest",
    "reading",
    "recipes_with",
    "records_for_artifact",
    "register",
    "retriever_for",
    "retrievers",
    "search",
    "strategy_of",
    "surveyed",
    "unregister",
]
