"""Retrievers of LangChain: batches, callbacks, chains and tools."""

import asyncio

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.tools.retriever import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from airw import sync
from airw.errors import AirwError, ArgumentError
from airw.integrations.langchain import from_vector_store, search_retriever, walk_retriever
from airw.policies import Eager
from airw.sources import from_records
from airw.stores import MemoryStore
from tests.support.retrievers import QUERY, write_notes

pytestmark = pytest.mark.asyncio_only  # as LangChain


@pytest.fixture
def name(tmp_path):
    sync.build(write_notes(tmp_path / "notes")).close()
    return "notes"


async def test_a_batch_answers_as_single_calls_do(name):
    retriever, queries = walk_retriever(name, k=3), [QUERY, "bread", "who may open the vault", QUERY]
    expected = [retriever.invoke(query) for query in queries]
    assert retriever.batch(queries) == await retriever.abatch(queries) == expected
    assert [[each.metadata["airw"]["id"] for each in found] for found in expected] == [
        [each.id for each in found] for found in expected
    ]


def test_a_vector_store_gains_a_retriever_that_walks_along_metadata():
    words = {"fox": ["red"], "hen": ["red", "farm"], "cow": ["farm"]}
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(id, id=id, metadata={"words": own}) for id, own in words.items()])
    corpus = sync.SyncCorpus(from_vector_store(store))
    retriever = walk_retriever(corpus, policy=Eager(start_k=1, edges=[("words", "words")]))
    found = retriever.invoke("fox")
    assert [(each.id, each.metadata["words"]) for each in found] == list(words.items())
    assert found == asyncio.run(retriever.ainvoke("fox"))


def test_documents_have_their_fields_and_the_facts_of_the_walk_beside_them():
    fields = {"seed": "wheat", "walk_depth": "deep", "fused_sources": None, "lexical_score": "none"}
    source = from_records([{"id": "a", "text": "bread", **fields}], name="loaves", embedder="light")
    with sync.build(source, store=MemoryStore()) as corpus:
        for retriever in (walk_retriever(corpus), search_retriever(corpus)):
            [found] = retriever.invoke("bread")
            assert fields.items() <= found.metadata.items()
            assert "airw_facts" not in found.metadata
        assert walk_retriever(corpus).invoke("bread")[0].metadata["airw"]["walk_depth"] == 0


class Noted(BaseCallbackHandler):
    """Notes the calls of LangChain."""

    def __init__(self):
        self.events = []

    def on_retriever_start(self, serialized, query, **options):
        self.events.append(("start", query, options["name"]))

    def on_retriever_end(self, documents, **options):
        self.events.append(("end", [document.id for document in documents]))

    def on_retriever_error(self, error, **options):
        self.events.append(("error", type(error)))


class NotedAsync(AsyncCallbackHandler):
    def __init__(self):
        self.noted = Noted()

    async def on_retriever_start(self, *arguments, **options):
        self.noted.on_retriever_start(*arguments, **options)

    async def on_retriever_end(self, *arguments, **options):
        self.noted.on_retriever_end(*arguments, **options)


async def test_callbacks_see_the_start_the_end_and_the_error(name):
    noted, noted_async = Noted(), NotedAsync()
    retriever = search_retriever(name, k=1)
    retriever.invoke(QUERY, {"callbacks": [noted]})
    await retriever.ainvoke(QUERY, {"callbacks": [noted_async]})
    expected = [("start", QUERY, "AirwRetriever"), ("end", ["keys.md"])]
    assert noted.events == noted_async.noted.events == expected
    with pytest.raises(ArgumentError):
        retriever.invoke(" ", {"callbacks": [noted]})
    assert noted.events[-1] == ("error", ArgumentError)


async def test_it_is_a_part_of_chains_and_a_tool(name):
    retriever = search_retriever(name, k=1)
    chain = retriever | RunnableLambda(lambda documents: documents[0].page_content)
    assert "Rotate the signing keys" in chain.invoke(QUERY) == await chain.ainvoke(QUERY)
    tool = create_retriever_tool(retriever, "notes", "Finds notes.")
    assert "Rotate the signing keys" in await tool.ainvoke({"query": QUERY})
    fallback = search_retriever("missing").with_fallbacks([retriever], exceptions_to_handle=(AirwError,))
    assert fallback.invoke(QUERY) == retriever.invoke(QUERY)
