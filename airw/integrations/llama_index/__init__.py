"""Retrievers and a postprocessor for LlamaIndex, with the extra `llama-index`."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.integrations.llama_index.link_postprocessor import LinkPostprocessor
    from airw.integrations.llama_index.node_retriever import AirwNodeRetriever
    from airw.integrations.llama_index.retrievers import discover_retriever, search_retriever, walk_retriever
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "link_postprocessor": ["LinkPostprocessor"],
            "node_retriever": ["AirwNodeRetriever"],
            "retrievers": ["discover_retriever", "search_retriever", "walk_retriever"],
        },
        extra="llama-index",
    )

__all__ = [
    "AirwNodeRetriever",
    "LinkPostprocessor",
    "discover_retriever",
    "search_retriever",
    "walk_retriever",
]
