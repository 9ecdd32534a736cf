"""Retrievers for LangChain, and its vector stores as corpora, with the extra `langchain`."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.integrations.langchain.document_retriever import AirwRetriever
    from airw.integrations.langchain.retrievers import discover_retriever, search_retriever, walk_retriever
    from airw.integrations.langchain.vector_stores import MetadataFilter, from_vector_store
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "document_retriever": ["AirwRetriever"],
            "retrievers": ["discover_retriever", "search_retriever", "walk_retriever"],
            "vector_stores": ["MetadataFilter", "from_vector_store"],
        },
        extra="langchain",
    )

__all__ = [
    "AirwRetriever",
    "MetadataFilter",
    "discover_retriever",
    "from_vector_store",
    "search_retriever",
    "walk_retriever",
]
