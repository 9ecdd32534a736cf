"""LangChain's retrievers: one for each verb of airw."""

from typing import TYPE_CHECKING, Final

from airw._base.signatures import convert_result
from airw.integrations import _retrieving
from airw.integrations._finder import Finder

if TYPE_CHECKING:
    from airw.integrations.langchain.document_retriever import AirwRetriever


def _make_retriever(finder: Finder) -> "AirwRetriever":
    from airw.integrations.langchain import AirwRetriever  # the package names the extra that is missing

    return AirwRetriever(finder=finder)


search_retriever: Final = convert_result(_retrieving.search_retriever, _make_retriever)
discover_retriever: Final = convert_result(_retrieving.discover_retriever, _make_retriever)
walk_retriever: Final = convert_result(_retrieving.walk_retriever, _make_retriever)
