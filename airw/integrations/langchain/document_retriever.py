"""LangChain's retriever over corpora."""

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever

from airw._base.overriding import override
from airw.integrations._finder import Finder, FoundDocument

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun


class AirwRetriever(BaseRetriever):
    """A retriever of LangChain that asks corpora.

    `search_retriever`, `discover_retriever` and `walk_retriever` return one. A call may pass options of its own, as in
    `invoke(query, k=3)`: they replace those of the retriever.

    Args:
        finder: What it asks.
    """

    finder: Finder

    @override
    def _get_relevant_documents(
        self, query: str, *, run_manager: "CallbackManagerForRetrieverRun", **options: Any
    ) -> list[Document]:
        return _to_documents(self.finder.find(query, **options))

    @override
    async def _aget_relevant_documents(
        self, query: str, *, run_manager: "AsyncCallbackManagerForRetrieverRun", **options: Any
    ) -> list[Document]:
        return _to_documents(await self.finder.find_async(query, **options))


def _to_documents(documents: list[FoundDocument]) -> list[Document]:
    # Retrievers that merge the answers of others look for a key in the metadata.
    return [Document(found.text, id=found.id, metadata={"id": found.id, **found.metadata}) for found in documents]
