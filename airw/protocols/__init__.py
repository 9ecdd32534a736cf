"""The protocols of all replaceable parts: stores, embedders, sources, rerankers.

There is one protocol per capability. A class need not inherit from a protocol: having its methods is enough. Methods
that may block are async, and one call serves many ids or texts.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.protocols.adjacency import AdjacencyReader, EdgeLabel, NeighborColumns
    from airw.protocols.capabilities import methods_of
    from airw.protocols.contents import ContentReader, StoreContent
    from airw.protocols.finding import Formulator, MaybeAwaitable, NeighborhoodPolicy, Reranker, Retriever, Selector
    from airw.protocols.indexing import (
        CorpusWideExtractor,
        EdgeExtractor,
        Embedder,
        EmbedderLike,
        IndexingStrategy,
        Source,
        Survey,
        Synthesizer,
    )
    from airw.protocols.runs import IngestRun, RunKeeper, RunRows
    from airw.protocols.steps import StepAnswer, StepReader
    from airw.protocols.stores import (
        ArtifactVectors,
        BestRecordFinder,
        BestRecords,
        ChangeFinder,
        EdgeReader,
        GraphStore,
        LinkReader,
        OpenCorpus,
        RecordLookup,
        RecordReader,
        RecordsByArtifact,
        RecordWriter,
        SchemaReader,
        SearchStore,
        Store,
        VectorRanker,
        VectorSearch,
        WalkStore,
    )
    from airw.protocols.surfaces import FirstSurfaceReader, FirstSurfaces
    from airw.protocols.texts import LanguageKeeper, TermStatistics, TextSearch
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adjacency": ["AdjacencyReader", "EdgeLabel", "NeighborColumns"],
            "capabilities": ["methods_of"],
            "contents": ["ContentReader", "StoreContent"],
            "finding": ["Formulator", "MaybeAwaitable", "NeighborhoodPolicy", "Reranker", "Retriever", "Selector"],
            "indexing": [
                "CorpusWideExtractor",
                "EdgeExtractor",
                "Embedder",
                "EmbedderLike",
                "IndexingStrategy",
                "Source",
                "Survey",
                "Synthesizer",
            ],
            "runs": ["IngestRun", "RunKeeper", "RunRows"],
            "stores": [
                "ArtifactVectors",
                "BestRecordFinder",
                "BestRecords",
                "EdgeReader",
                "RecordLookup",
                "RecordsByArtifact",
                "SchemaReader",
                "SearchStore",
                "VectorRanker",
                "WalkStore",
                "ChangeFinder",
                "GraphStore",
                "LinkReader",
                "OpenCorpus",
                "RecordReader",
                "RecordWriter",
                "Store",
                "VectorSearch",
            ],
            "steps": ["StepAnswer", "StepReader"],
            "surfaces": ["FirstSurfaceReader", "FirstSurfaces"],
            "texts": ["LanguageKeeper", "TermStatistics", "TextSearch"],
        },
    )

__all__ = [
    "AdjacencyReader",
    "ArtifactVectors",
    "BestRecordFinder",
    "BestRecords",
    "ChangeFinder",
    "ContentReader",
    "CorpusWideExtractor",
    "EdgeExtractor",
    "EdgeLabel",
    "EdgeReader",
    "Embedder",
    "EmbedderLike",
    "FirstSurfaceReader",
    "FirstSurfaces",
    "Formulator",
    "GraphStore",
    "IndexingStrategy",
    "IngestRun",
    "LanguageKeeper",
    "LinkReader",
    "MaybeAwaitable",
    "NeighborColumns",
    "NeighborhoodPolicy",
    "OpenCorpus",
    "RecordLookup",
    "RecordReader",
    "RecordWriter",
    "RecordsByArtifact",
    "Reranker",
    "Retriever",
    "RunKeeper",
    "RunRows",
    "SchemaReader",
    "SearchStore",
    "Selector",
    "Source",
    "StepAnswer",
    "StepReader",
    "Store",
    "StoreContent",
    "Survey",
    "Synthesizer",
    "TermStatistics",
    "TextSearch",
    "VectorRanker",
    "VectorSearch",
    "WalkStore",
    "methods_of",
]
