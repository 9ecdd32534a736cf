"""Retrievers of LangChain: what airw itself answers, from any loop and thread."""

import asyncio
import gc
import sys
import threading

import anyio
import pytest
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.runnables import RunnableLambda
from langchain_core.tools.retriever import create_retriever_tool
from langchain_core.vectorstores import InMemoryVectorStore

import airw
from airw import sync
from airw._base.background import background_loop
from airw.errors import AirwError, ArgumentError, CorpusNotFound, StoreError
from airw.integrations import langchain
from airw.integrations.langchain import discover_retriever, from_vector_store, search_retriever, walk_retriever
from airw.policies import Beam, Eager, LinkWalk
from airw.remote import RemoteCorpus
from airw.serving import app
from airw.stores import MemoryStore
from tests.support.serving import serve
from tests.support.waiting import wait_for, wait_until

pytestmark = pytest.mark.asyncio_only  # as LangChain

NOTES = {
    "keys.md": "---\nsource: handbook\nscore: 7\n---\n# Keys\nRotate the signing keys. See [the vault](vault.md).",
    "vault.md": "# Vault\nThe vault keeps secrets. See [people](people.md).",
    "people.md": "# People\nWho may open the vault.",
    "bread.md": "# Bread\nBake a loaf of bread.",
}
QUERY = "rotate the signing keys"
QUERIES = [QUERY, "bread", "who may open the vault", QUERY]
RETRIEVERS = {
    "search": lambda corpus: search_retriever(corpus, k=3),
    "discover": discover_retriever,
    "walk": lambda corpus: walk_retriever(corpus, k=3, node_budget=3),
    "walk with a policy": lambda corpus: walk_retriever(corpus, policy=Beam(seed_k=1)),
}


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in NOTES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return airw.from_notes(folder, name="notes", embedder="light")


@pytest.fixture
def name(source):
    sync.build(source).close()
    return "notes"


def rows(hits):
    return [(hit.artifact_id, hit.score, hit.source) for hit in hits]


def answer(verb, corpus, query):
    """Return the answer of airw itself."""
    if verb == "search":
        return rows(sync.search(corpus, query, k=3))
    if verb == "discover":
        return rows(sync.discover(corpus, query).results)
    with sync.open_corpus(corpus) as opened:
        if verb == "walk":
            return rows(sync.top_k(sync.traverse(query, opened, node_budget=3), k=3))
        return rows(sync.top_k(sync.traverse(query, opened, policy=Beam(seed_k=1))))


def describe(documents):
    """Return what documents say of their hits, after a look at their ranks."""
    facts = [document.metadata["airw"] for document in documents]
    assert [fact["rank"] for fact in facts] == [*range(1, len(facts) + 1)]
    assert [document.id for document in documents] == [fact["id"] for fact in facts]
    return [(fact["id"], fact["score"], fact["source"]) for fact in facts]


@pytest.mark.parametrize("verb", RETRIEVERS)
def test_all_four_calls_answer_as_airw_does(verb, name):
    retriever = RETRIEVERS[verb](name)
    expected = [answer(verb, name, query) for query in QUERIES]
    assert any(len(each) > 1 for each in expected)
    assert [describe(retriever.invoke(query)) for query in QUERIES] == expected
    assert [describe(each) for each in retriever.batch(QUERIES)] == expected

    async def ask():
        one_by_one = [describe(await retriever.ainvoke(query)) for query in QUERIES]
        return one_by_one, [describe(each) for each in await retriever.abatch(QUERIES)]

    for _ in range(2):  # each run has a loop of its own
        assert asyncio.run(ask()) == (expected, expected)


async def test_a_sync_call_works_while_a_loop_runs(name):
    retriever = search_retriever(name, k=2)
    assert retriever.invoke(QUERY) == await retriever.ainvoke(QUERY)


def test_the_fields_of_a_document_stay_as_they_are(name):
    [document] = walk_retriever(name, k=1, node_budget=1).invoke(QUERY)
    own = document.metadata
    assert (own["source"], own["score"], own["filename"]) == ("handbook", 7, "keys.md")
    facts = own["airw"]
    assert (facts["source"], facts["walk_path"], facts["walk_depth"]) == ("notes", ["keys.md"], 0)
    assert (facts["stop"], facts["truncated"]) == ("node_budget", True)
    assert not {"walk_depth", "walk_path"} & set(own)


def test_a_walk_says_by_which_path_it_found_a_document(name):
    documents = walk_retriever(name, policy=LinkWalk(roots=["keys.md"], direction="out")).invoke("")
    assert [document.metadata["airw"]["walk_path"] for document in documents] == [
        ["keys.md"],
        ["keys.md", "vault.md"],
        ["keys.md", "vault.md", "people.md"],
    ]


def test_several_corpora_are_walked_as_one_graph(name):
    other = airw.from_mapping({"keys.md": "signing keys of the door"}, name="other", embedder="light")
    with sync.build(other, store=MemoryStore()) as opened:
        documents = walk_retriever([name, opened], k=2, node_budget=2).invoke("signing keys")
        with sync.open_corpus(name) as notes:
            together = airw.FederatedCorpus([notes, opened])
            assert walk_retriever(together, k=2, node_budget=2).invoke("signing keys") == documents
    assert {document.metadata["airw"]["source"] for document in documents} == {"notes", "other"}
    assert {document.id for document in documents} == {"keys.md"}


def test_a_discovery_answers_without_the_corpus_that_fails(name, tmp_path):
    broken = tmp_path / "broken.airw"
    broken.write_bytes(b"no corpus" * 1_000)
    found = discover_retriever([name, str(broken)]).invoke(QUERY)
    assert [document.id for document in found][:1] == ["keys.md"]


def test_a_discovery_that_abstains_returns_no_document(name):
    assert discover_retriever(name).invoke("zebra xylophone") == []


async def test_an_open_corpus_answers_on_its_own_loop(source):
    async with airw.build(source, store=MemoryStore()) as corpus:
        retriever = search_retriever(corpus, k=2)
        found = await retriever.ainvoke(QUERY)
        assert describe(found) == rows(await corpus.search(QUERY, k=2))
        with pytest.raises(ArgumentError, match=r"'notes'.*was opened with await.*pass the name of the corpus"):
            retriever.invoke(QUERY)


def test_a_vector_store_gains_a_retriever_that_walks_along_metadata():
    words = {"fox": ["red"], "hen": ["red", "farm"], "cow": ["farm"]}
    store = InMemoryVectorStore(DeterministicFakeEmbedding(size=8))
    store.add_documents([Document(id, id=id, metadata={"words": own}) for id, own in words.items()])
    corpus = sync.SyncCorpus(from_vector_store(store))
    retriever = walk_retriever(corpus, policy=Eager(start_k=1, edges=[("words", "words")]))
    found = retriever.invoke("fox")
    assert [(each.id, each.metadata["words"]) for each in found] == list(words.items())
    assert found == asyncio.run(retriever.ainvoke("fox"))


@pytest.mark.slow
@pytest.mark.parametrize("verb", RETRIEVERS)
def test_a_corpus_on_another_machine_answers_alike(verb, name):
    with (
        serve(app([name])) as server,
        sync.SyncCorpus(sync.run(RemoteCorpus.open, server.url, name)) as remote,
    ):
        retriever = RETRIEVERS[verb](remote)
        expected = [answer(verb, name, query) for query in QUERIES]
        assert [describe(each) for each in retriever.batch(QUERIES)] == expected
        assert [describe(asyncio.run(retriever.ainvoke(query))) for query in QUERIES] == expected


def test_a_corpus_is_opened_once_and_closed_with_its_retriever(name):
    before = set(background_loop().open)
    retriever = search_retriever(name, k=1)
    retriever.batch(QUERIES)
    [opened] = background_loop().open - before
    retriever.invoke(QUERY)
    assert background_loop().open - before == {opened}
    del retriever
    gc.collect()
    wait_until(lambda: opened not in background_loop().open)


class SlowStore:
    """Functions of a store that never answer, and note how their call ended."""

    def __init__(self):
        self.asked, self.ended = threading.Event(), []

    async def search(self, query, k):
        self.asked.set()
        try:
            await anyio.sleep_forever()
        except BaseException as error:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.01)  # as if it released a connection
            self.ended.append(type(error))
            raise


@pytest.fixture(params=["sync", "async"])
def slow(request):
    """Return a store that never answers, with a corpus of it."""
    store = SlowStore()
    adapt = sync.adapt if request.param == "sync" else airw.adapt
    return store, adapt(search=store.search, name="slow")


@pytest.mark.parametrize("make", [search_retriever, discover_retriever, walk_retriever])
async def test_a_cancelled_call_stops_the_store_before_it_returns(make, slow):
    store, corpus = slow
    task = asyncio.create_task(make(corpus).ainvoke(QUERY))
    await wait_for(store.asked.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.ended == [asyncio.CancelledError]


async def test_a_call_that_is_cancelled_at_once_ends_at_once(name):
    retriever = search_retriever(name)
    for _ in range(20):
        task = asyncio.create_task(retriever.ainvoke(QUERY))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert describe(await retriever.ainvoke(QUERY))


async def test_a_search_without_an_answer_in_time_is_an_error(slow):
    store, corpus = slow
    with pytest.raises(TimeoutError, match=r"search_retriever\('slow'\) found no answer within 0.01 s"):
        await search_retriever(corpus, timeout=0.01).ainvoke(QUERY)
    assert store.ended == [asyncio.CancelledError]


@pytest.mark.slow
async def test_a_walk_returns_what_it_found_until_the_deadline(source):
    class Stuck(MemoryStore):
        async def neighbors(self, *arguments, **options):
            await anyio.sleep_forever()

    async with airw.build(source, store=Stuck()) as corpus:
        found = await walk_retriever(corpus, policy=LinkWalk(start_k=2), timeout=2).ainvoke(QUERY)
    assert [document.metadata["airw"]["stop"] for document in found] == ["timeout", "timeout"]


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


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: search_retriever("notes", k=-1), ArgumentError, "k must be"),
        (lambda: search_retriever("notes", mode="sparse"), ArgumentError, "mode"),
        (lambda: search_retriever("notes", top=1), TypeError, r"search_retriever\(\) got .* 'top'"),
        (lambda: search_retriever("notes", timeout="1"), ArgumentError, "timeout"),
        (lambda: search_retriever(""), ArgumentError, "name"),
        (lambda: search_retriever(["notes"]), ArgumentError, "expected an open corpus"),
        (lambda: discover_retriever("notes", max_results=1), TypeError, r"discover_retriever\(\) got .* 'max_results'"),
        (lambda: discover_retriever("notes", surfaces="chunk"), ArgumentError, "surfaces"),
        (lambda: walk_retriever("notes", k=-1), ArgumentError, "k must be"),
        (lambda: walk_retriever("notes", node_budget=0), ArgumentError, "node_budget must be"),
        (lambda: walk_retriever("notes", timeout=-1), ArgumentError, "timeout must be"),
        (lambda: search_retriever("missing").invoke("q"), CorpusNotFound, "no corpus 'missing'"),
        (lambda: walk_retriever(["missing"]).invoke("q"), CorpusNotFound, "no corpus 'missing'"),
        (lambda: discover_retriever(["missing"]).invoke("q"), CorpusNotFound, "no corpus 'missing'"),
    ],
)
def test_what_cannot_be_used_is_a_typed_error_of_one_line(make, error, match):
    with pytest.raises(error, match=match) as caught:
        make()
    assert "\n" not in str(caught.value)


def test_an_iterator_of_options_serves_all_questions(name):
    for make in (search_retriever, discover_retriever):
        retriever = make(name, surfaces=iter(["chunk", "description", "title"]))
        assert retriever.invoke(QUERY) == retriever.invoke(QUERY) != []


def test_a_password_is_not_shown():
    retriever = search_retriever("postgresql://user:hunter2@localhost:1/database#notes")
    assert "hunter2" not in repr(retriever)
    with pytest.raises(StoreError) as caught:
        retriever.invoke(QUERY)
    assert "hunter2" not in str(caught.value)


def test_without_langchain_the_error_names_the_extra(monkeypatch):
    for module in [*sys.modules]:
        if module.startswith("airw.integrations.langchain."):
            monkeypatch.delitem(sys.modules, module)
    monkeypatch.delattr(langchain, "AirwRetriever", raising=False)
    monkeypatch.setitem(sys.modules, "langchain_core.documents", None)
    with pytest.raises(ArgumentError, match=r"needs langchain_core: pip install 'airw\[langchain\]'"):
        search_retriever("notes")
