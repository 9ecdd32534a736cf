"""Retrievers for LangChain, and its vector stores as corpora, with the extra `langchain`."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.integrations.langchain.document_retriever import AirwRetriever as AirwRetriever
    from airw.integrations.langchain.retrievers import (
        discover_retriever as discover_retriever,
        search_retriever as search_retriever,
        walk_retriever as walk_retriever,
    )
    from airw.integrations.langchain.vector_stores import (
        MetadataFilter as MetadataFilter,
        from_vector_store as from_vector_store,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, extra="langchain")
