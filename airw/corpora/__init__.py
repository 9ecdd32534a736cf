"""Corpora: building, opening, searching and maintaining them, by name or path."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.corpora.adapting import adapt as adapt
    from airw.corpora.building import BuildOptions as BuildOptions, build as build
    from airw.corpora.copying import (
        check_corpus_file as check_corpus_file,
        copy_corpus as copy_corpus,
        restore_corpus as restore_corpus,
    )
    from airw.corpora.definitions import Definition as Definition, Maintenance as Maintenance
    from airw.corpora.maintenance import (
        Coverage as Coverage,
        MaintenanceOutcome as MaintenanceOutcome,
        MaintenanceReport as MaintenanceReport,
        coverage as coverage,
        maintain as maintain,
    )
    from airw.corpora.naming import (
        PRESETS as PRESETS,
        corpus_names as corpus_names,
        corpus_path as corpus_path,
        find_corpus_path as find_corpus_path,
        home as home,
        is_corpus_name as is_corpus_name,
    )
    from airw.corpora.opening import (
        CUSTOM as CUSTOM,
        Corpus as Corpus,
        CorpusLike as CorpusLike,
        Opening as Opening,
        open_corpus as open_corpus,
        use_corpus as use_corpus,
        use_store as use_store,
    )
    from airw.corpora.partitions import (
        IngestPlan as IngestPlan,
        PartitionReport as PartitionReport,
        finish_ingest as finish_ingest,
        ingest_partition as ingest_partition,
        prepare_ingest as prepare_ingest,
    )
    from airw.corpora.pipeline import Builder as Builder, BuildReport as BuildReport, with_survey as with_survey
    from airw.corpora.places import (
        CorpusAddress as CorpusAddress,
        Location as Location,
        Place as Place,
        find_location as find_location,
        locate as locate,
        open_store as open_store,
        remove_corpus as remove_corpus,
    )
    from airw.corpora.progress import BuildProgress as BuildProgress
    from airw.corpora.recipes import (
        UPSERT_SOURCE as UPSERT_SOURCE,
        BuildRecipe as BuildRecipe,
        OnError as OnError,
        edge_extractor_of as edge_extractor_of,
        recipes_by_source as recipes_by_source,
        strategy_of as strategy_of,
    )
    from airw.corpora.registry import (
        Retrievers as Retrievers,
        build_corpus as build_corpus,
        list_corpora as list_corpora,
        register as register,
        retriever_for as retriever_for,
        retrievers as retrievers,
        unregister as unregister,
    )
    from airw.corpora.searching import (
        CorpusRetriever as CorpusRetriever,
        as_retriever as as_retriever,
        records_for_artifact as records_for_artifact,
        search as search,
    )
    from airw.corpora.source_pages import SourcePages as SourcePages
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
