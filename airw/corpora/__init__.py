"""Corpora and their names: here, and nowhere below, a name becomes an open corpus."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.corpora.building.builder import build
    from airw.corpora.building.partitions import (
        IngestPlan,
        PartitionReport,
        finish_ingest,
        ingest_partition,
        prepare_ingest,
    )
    from airw.corpora.ingestion.drafts import OnError, Recipe
    from airw.corpora.ingestion.pipeline import Builder, BuildProgress, Pages
    from airw.corpora.ingestion.report import BuildReport
    from airw.corpora.ingestion.settings import BY_HAND, edge_extractor_of, recipes_with, strategy_of
    from airw.corpora.ingestion.surveys import surveyed
    from airw.corpora.naming import corpus_names, corpus_path, existing_path, home, is_name
    from airw.corpora.opening import CUSTOM, Corpus, CorpusLike, Opening, borrowed, open_corpus
    from airw.corpora.registry.building import BuildOptions, build_corpus
    from airw.corpora.registry.coverage import Coverage, coverage
    from airw.corpora.registry.definitions import Definition
    from airw.corpora.registry.file import list_corpora, register, unregister
    from airw.corpora.registry.kinds import PRESETS
    from airw.corpora.registry.maintenance import Maintained, MaintenanceReport, maintain
    from airw.corpora.registry.retrievers import Retrievers, retriever_for, retrievers
    from airw.corpora.registry.schedules import Maintenance
    from airw.corpora.retriever import CorpusRetriever, as_retriever
    from airw.corpora.searching import reading, records_for_artifact, search
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "building.builder": ["build"],
            "building.partitions": [
                "IngestPlan",
                "PartitionReport",
                "finish_ingest",
                "ingest_partition",
                "prepare_ingest",
            ],
            "ingestion.drafts": ["OnError", "Recipe"],
            "ingestion.pipeline": ["BuildProgress", "Builder", "Pages"],
            "ingestion.report": ["BuildReport"],
            "ingestion.settings": ["BY_HAND", "edge_extractor_of", "recipes_with", "strategy_of"],
            "ingestion.surveys": ["surveyed"],
            "naming": ["corpus_names", "corpus_path", "existing_path", "home", "is_name"],
            "opening": ["CUSTOM", "Corpus", "CorpusLike", "Opening", "borrowed", "open_corpus"],
            "registry.building": ["BuildOptions", "build_corpus"],
            "registry.coverage": ["Coverage", "coverage"],
            "registry.definitions": ["Definition"],
            "registry.file": ["list_corpora", "register", "unregister"],
            "registry.kinds": ["PRESETS"],
            "registry.maintenance": ["Maintained", "MaintenanceReport", "maintain"],
            "registry.retrievers": ["Retrievers", "retriever_for", "retrievers"],
            "registry.schedules": ["Maintenance"],
            "retriever": ["CorpusRetriever", "as_retriever"],
            "searching": ["reading", "records_for_artifact", "search"],
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
