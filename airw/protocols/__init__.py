"""What can be replaced: one protocol a capability, all async where they may block, all batch-first.

Nobody needs to inherit.
"""

from airw.protocols.finding import Formulator, MaybeAwaitable, NeighborhoodPolicy, Reranker, Retriever, Selector
from airw.protocols.indexing import EdgeExtractor, Embedder, EmbedderLike, IndexingStrategy, Source, Synthesizer
from airw.protocols.stores import (
    ChangeFinder,
    GraphStore,
    LinkReader,
    OpenCorpus,
    RecordReader,
    RecordWriter,
    Run,
    RunKeeper,
    Store,
    TextSearch,
    VectorSearch,
)

__all__ = [
    "ChangeFinder",
    "EdgeExtractor",
    "Embedder",
    "EmbedderLike",
    "Formulator",
    "GraphStore",
    "IndexingStrategy",
    "LinkReader",
    "MaybeAwaitable",
    "NeighborhoodPolicy",
    "OpenCorpus",
    "RecordReader",
    "RecordWriter",
    "Reranker",
    "Retriever",
    "Run",
    "RunKeeper",
    "Selector",
    "Source",
    "Store",
    "Synthesizer",
    "TextSearch",
    "VectorSearch",
]
