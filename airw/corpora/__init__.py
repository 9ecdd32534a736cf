"""Corpora: building, opening, searching and maintaining them, by name or path."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.corpora.adapting import adapt
    from airw.corpora.building import BuildOptions, build
    from airw.corpora.copying import check_corpus_file, copy_corpus, restore_corpus
    from airw.corpora.definitions import Definition, Maintenance
    from airw.corpora.maintenance import Coverage, MaintenanceOutcome, MaintenanceReport, coverage, maintain
    from airw.corpora.naming import PRESETS, corpus_names, corpus_path, find_corpus_path, home, is_corpus_name
    from airw.corpora.opening import CUSTOM, Corpus, CorpusLike, Opening, open_corpus, use_corpus, use_store
    from airw.corpora.partitions import IngestPlan, PartitionReport, finish_ingest, ingest_partition, prepare_ingest
    from airw.corpora.pipeline import Builder, BuildReport, with_survey
    from airw.corpora.places import CorpusAddress, Location, Place, find_location, locate, open_store, remove_corpus
    from airw.corpora.progress import BuildProgress
    from airw.corpora.recipes import (
        UPSERT_SOURCE,
        BuildRecipe,
        OnError,
        edge_extractor_of,
        recipes_by_source,
        strategy_of,
    )
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
    from airw.corpora.source_pages import SourcePages
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adapting": ["adapt"],
            "building": ["BuildOptions", "build"],
            "copying": ["check_corpus_file", "copy_corpus", "restore_corpus"],
            "definitions": ["Definition", "Maintenance"],
            "maintenance": ["Coverage", "MaintenanceOutcome", "MaintenanceReport", "coverage", "maintain"],
            "naming": ["PRESETS", "corpus_names", "corpus_path", "find_corpus_path", "home", "is_corpus_name"],
            "opening": ["CUSTOM", "Corpus", "CorpusLike", "Opening", "use_corpus", "open_corpus", "use_store"],
            "partitions": ["IngestPlan", "PartitionReport", "finish_ingest", "ingest_partition", "prepare_ingest"],
            "pipeline": ["BuildReport", "Builder", "with_survey"],
            "places": ["CorpusAddress", "Location", "Place", "find_location", "locate", "open_store", "remove_corpus"],
            "progress": ["BuildProgress"],
            "recipes": [
                "UPSERT_SOURCE",
                "OnError",
                "BuildRecipe",
                "edge_extractor_of",
                "recipes_by_source",
                "strategy_of",
            ],
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
            "source_pages": ["SourcePages"],
        },
    )

__all__ = [
    "CUSTOM",
    "PRESETS",
    "UPSERT_SOURCE",
    "BuildOptions",
    "BuildProgress",
    "BuildRecipe",
    "BuildReport",
    "Builder",
    "Corpus",
    "CorpusAddress",
    "CorpusLike",
    "CorpusRetriever",
    "Coverage",
    "Definition",
    "IngestPlan",
    "Location",
    "Maintenance",
    "MaintenanceOutcome",
    "MaintenanceReport",
    "OnError",
    "Opening",
    "PartitionReport",
    "Place",
    "Retrievers",
    "SourcePages",
    "adapt",
    "as_retriever",
    "build",
    "build_corpus",
    "check_corpus_file",
    "copy_corpus",
    "corpus_names",
    "corpus_path",
    "coverage",
    "edge_extractor_of",
    "find_corpus_path",
    "find_location",
    "finish_ingest",
    "home",
    "ingest_partition",
    "is_corpus_name",
    "list_corpora",
    "locate",
    "maintain",
    "open_corpus",
    "open_store",
    "prepare_ingest",
    "recipes_by_source",
    "records_for_artifact",
    "register",
    "remove_corpus",
    "restore_corpus",
    "retriever_for",
    "retrievers",
    "search",
    "strategy_of",
    "unregister",
    "use_corpus",
    "use_store",
    "with_survey",
]
