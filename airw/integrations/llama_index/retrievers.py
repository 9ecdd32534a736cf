"""LlamaIndex's retrievers: one for each verb of airw."""

from typing import TYPE_CHECKING, Final

from airw._base.signatures import convert_result
from airw.integrations import _retrieving
from airw.integrations._finder import Finder

if TYPE_CHECKING:
    from airw.integrations.llama_index.node_retriever import AirwNodeRetriever


def _make_retriever(finder: Finder) -> "AirwNodeRetriever":
    from airw.integrations.llama_index import AirwNodeRetriever  # the package names the extra that is missing

    return AirwNodeRetriever(finder)


search_retriever: Final = convert_result(_retrieving.search_retriever, _make_retriever)
discover_retriever: Final = convert_result(_retrieving.discover_retriever, _make_retriever)
walk_retriever: Final = convert_result(_retrieving.walk_retriever, _make_retriever)
