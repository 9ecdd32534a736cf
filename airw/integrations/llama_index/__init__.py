"""Retrievers and a postprocessor for LlamaIndex, with the extra `llama-index`."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.integrations.llama_index.link_postprocessor import LinkPostprocessor as LinkPostprocessor
    from airw.integrations.llama_index.node_retriever import AirwNodeRetriever as AirwNodeRetriever
    from airw.integrations.llama_index.retrievers import (
        discover_retriever as discover_retriever,
        search_retriever as search_retriever,
        walk_retriever as walk_retriever,
    )
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__, extra="llama-index")
