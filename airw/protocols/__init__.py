"""The protocols of all replaceable parts: stores, embedders, sources, rerankers.

There is one protocol per capability. A class need not inherit from a protocol: having its methods is enough. Methods
that may block are async, and one call serves many ids or texts.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.protocols.adjacency import (
        AdjacencyReader as AdjacencyReader,
        EdgeLabel as EdgeLabel,
        NeighborColumns as NeighborColumns,
    )
    from airw.protocols.capabilities import methods_of as methods_of
    from airw.protocols.contents import ContentReader as ContentReader, StoreContent as StoreContent
    from airw.protocols.finding import (
        Formulator as Formulator,
        MaybeAwaitable as MaybeAwaitable,
        NeighborhoodPolicy as NeighborhoodPolicy,
        Reranker as Reranker,
        Retriever as Retriever,
        Selector as Selector,
    )
    from airw.protocols.indexing import (
        CorpusWideExtractor as CorpusWideExtractor,
        EdgeExtractor as EdgeExtractor,
        Embedder as Embedder,
        EmbedderLike as EmbedderLike,
        IndexingStrategy as IndexingStrategy,
        Source as Source,
        Survey as Survey,
        Synthesizer as Synthesizer,
    )
    from airw.protocols.runs import IngestRun as IngestRun, RunKeeper as RunKeeper, RunRows as RunRows
    from airw.protocols.steps import StepAnswer as StepAnswer, StepReader as StepReader
    from airw.protocols.stores import (
        ArtifactVectors as ArtifactVectors,
        BestRecordFinder as BestRecordFinder,
        BestRecords as BestRecords,
        ChangeFinder as ChangeFinder,
        EdgeReader as EdgeReader,
        GraphStore as GraphStore,
        LinkReader as LinkReader,
        OpenCorpus as OpenCorpus,
        RecordLookup as RecordLookup,
        RecordReader as RecordReader,
        RecordsByArtifact as RecordsByArtifact,
        RecordWriter as RecordWriter,
        SchemaReader as SchemaReader,
        SearchStore as SearchStore,
        Store as Store,
        VectorRanker as VectorRanker,
        VectorSearch as VectorSearch,
        WalkStore as WalkStore,
    )
    from airw.protocols.surfaces import FirstSurfaceReader as FirstSurfaceReader, FirstSurfaces as FirstSurfaces
    from airw.protocols.texts import (
        LanguageKeeper as LanguageKeeper,
        TermStatistics as TermStatistics,
        TextSearch as TextSearch,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
