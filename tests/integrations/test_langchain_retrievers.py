"""Retrievers of LangChain: batches, callbacks, chains and tools."""

import asyncio

import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.tools.retriever import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

from airw import from_mapping, from_records, sync
from airw.errors import AirwError, ArgumentError
from airw.integrations.langchain import discover_retriever, from_vector_store, search_retriever, walk_retriever
from airw.policies import Eager
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


def teams(count=6, *, words=1):
    records = [
        {"id": f"d{at}", "text": f"budget of team {at}. " * words, "tenant": "a" if at % 2 else "b"}
        for at in range(count)
    ]
    return sync.build(from_records(records, name="teams", embedder="light"))


@pytest.mark.parametrize("make", [search_retriever, discover_retriever])
async def test_a_call_can_replace_the_options_of_the_retriever(make):
    teams().close()
    retriever = make("teams", k=4, filter={"tenant": "b"})
    change = {"filter": {"tenant": "a"}, "k": 2}
    for found in (retriever.invoke("budget", **change), await retriever.ainvoke("budget", **change)):
        assert {each.metadata["tenant"] for each in found} == {"a"}
        assert len(found) == 2
    assert {each.metadata["tenant"] for each in retriever.invoke("budget")} == {"b"}


async def test_a_walk_takes_options_of_a_call_too(name):
    retriever = walk_retriever(name, k=4)
    assert len(retriever.invoke(QUERY)) > 1
    [found] = retriever.invoke(QUERY, k=1, node_budget=3)
    assert found.metadata["airw"]["stop"] == "node_budget"
    assert [found] == await retriever.ainvoke(QUERY, k=1, policy=Eager(start_k=1), max_depth=0)


@pytest.mark.parametrize(
    ("make", "options", "error", "match"),
    [
        (search_retriever, {"top": 1}, TypeError, r"search_retriever\(\) got an unexpected .* 'top'"),
        (search_retriever, {"k": -1}, ArgumentError, "k must be"),
        (search_retriever, {"timeout": "soon"}, ArgumentError, "timeout must be"),
        (discover_retriever, {"top": 1}, TypeError, r"discover_retriever\(\) got an unexpected .* 'top'"),
        (discover_retriever, {"max_k": 0}, ArgumentError, "max_k must be"),
        (walk_retriever, {"filter": {"tenant": "a"}}, TypeError, r"walk_retriever\(\) got an unexpected .* 'filter'"),
        (walk_retriever, {"node_budget": 0}, ArgumentError, "node_budget must be"),
    ],
)
async def test_an_option_of_a_call_that_cannot_be_used_is_an_error(name, make, options, error, match):
    retriever = make(name)
    with pytest.raises(error, match=match):
        retriever.invoke(QUERY, **options)
    with pytest.raises(error, match=match):
        await retriever.ainvoke(QUERY, **options)


@pytest.mark.parametrize("make", [search_retriever, walk_retriever])
def test_a_document_that_several_questions_find_is_one_document(make):
    teams().close()
    retriever = make("teams", k=4)
    found = [each for query in ("budget team", "team 3", "the budget of team 5") for each in retriever.invoke(query)]
    unique = [each for at, each in enumerate(found) if each not in found[:at]]  # as LangChain does
    assert sorted(each.id for each in unique) == sorted({each.id for each in found})
    assert len({each.metadata["airw"]["score"] for each in found if each.id == "d3"}) > 1


def test_documents_of_the_same_words_are_different():
    same = dict.fromkeys("ab", "the same words")
    with sync.build(from_mapping(same, name="same", embedder="light"), store=MemoryStore()) as corpus:
        first, second = search_retriever(corpus).invoke("same words")
    assert first != second
    assert first.metadata["airw"] != second.metadata["airw"]
    assert first.metadata["airw"] == dict(first.metadata["airw"])


@pytest.mark.parametrize("make", [search_retriever, discover_retriever, walk_retriever])
def test_the_metadata_have_the_id_by_which_rankings_are_merged(make):
    with teams(words=80) as corpus:
        found = make(corpus).invoke("budget of team 3")
    assert [each.metadata["id"] for each in found] == [each.id for each in found]
    assert len(found[0].page_content) < len("budget of team 3. " * 80)  # the passage that matched


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
