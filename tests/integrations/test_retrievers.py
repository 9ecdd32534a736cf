"""Retrievers of every framework: what airw itself answers, from any loop and thread."""

import asyncio
import gc
import sys
import threading
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import anyio
import pytest

import airw
from airw import sync
from airw._base.background import background_loop
from airw.errors import ArgumentError, CorpusNotFound, StoreError
from airw.policies import Beam, LinkWalk
from airw.protocols import Edges
from airw.remote import RemoteCorpus
from airw.serving import app
from airw.stores import MemoryStore, Wrapper
from tests.support.retrievers import QUERY, describe_hits, write_notes
from tests.support.serving import serve
from tests.support.waiting import skip_time, wait_for, wait_until

pytestmark = pytest.mark.asyncio_only  # as the frameworks

QUERIES = [QUERY, "bread", "who may open the vault", QUERY]


@dataclass(frozen=True)
class Framework:
    """A framework: how its retrievers are made and asked."""

    name: str
    sync_method: str
    async_method: str

    @property
    def package(self) -> Any:
        """The retrievers of airw for it."""
        return import_module(f"airw.integrations.{self.name}")

    def ask(self, retriever, query):
        return getattr(retriever, self.sync_method)(query)

    async def ask_async(self, retriever, query):
        return await getattr(retriever, self.async_method)(query)


@pytest.fixture(
    params=[
        Framework("langchain", "invoke", "ainvoke"),
        # To import LlamaIndex takes seconds.
        pytest.param(Framework("llama_index", "retrieve", "aretrieve"), marks=pytest.mark.slow),
    ],
    ids=lambda framework: framework.name,
)
def framework(request):
    return request.param


RETRIEVERS = {
    "search": lambda package, corpus: package.search_retriever(corpus, k=3),
    "discover": lambda package, corpus: package.discover_retriever(corpus, rel=0.2),
    "walk": lambda package, corpus: package.walk_retriever(corpus, k=3, node_budget=3),
    "walk with a policy": lambda package, corpus: package.walk_retriever(corpus, policy=Beam(seed_k=1)),
}


@pytest.fixture
def source(tmp_path):
    return write_notes(tmp_path / "notes")


@pytest.fixture
def name(source):
    sync.build(source).close()
    return "notes"


def answer(verb, corpus, query):
    """Return the answer of airw itself."""
    if verb == "search":
        return describe_hits(sync.search(corpus, query, k=3))
    if verb == "discover":
        return describe_hits(sync.discover(corpus, query, rel=0.2).results)
    with sync.open_corpus(corpus) as opened:
        if verb == "walk":
            return describe_hits(sync.top_k(sync.traverse(query, opened, node_budget=3), k=3))
        return describe_hits(sync.top_k(sync.traverse(query, opened, policy=Beam(seed_k=1))))


def facts_of(answers):
    return [each.metadata["airw"] for each in answers]


def describe(answers):
    """Return what answers say of their hits, after a look at their ranks."""
    facts = facts_of(answers)
    assert [fact["rank"] for fact in facts] == [*range(1, len(facts) + 1)]
    return [(fact["id"], fact["score"], fact["source"]) for fact in facts]


@pytest.mark.parametrize("verb", RETRIEVERS)
def test_both_calls_answer_as_airw_does(framework, verb, name):
    retriever = RETRIEVERS[verb](framework.package, name)
    expected = [answer(verb, name, query) for query in QUERIES]
    assert any(len(each) > 1 for each in expected)
    assert [describe(framework.ask(retriever, query)) for query in QUERIES] == expected

    async def ask():
        answers = await asyncio.gather(*(framework.ask_async(retriever, query) for query in QUERIES))
        assert [describe(framework.ask(retriever, query)) for query in QUERIES] == expected  # while this loop runs
        return [describe(each) for each in answers]

    for _ in range(2):  # each run has a loop of its own
        assert asyncio.run(ask()) == expected


def test_the_fields_of_a_document_stay_as_they_are(framework, name):
    [found] = framework.ask(framework.package.walk_retriever(name, k=1, node_budget=1), QUERY)
    own = found.metadata
    assert (own["source"], own["score"], own["filename"]) == ("handbook", 7, "keys.md")
    facts = own["airw"]
    assert (facts["source"], facts["walk_path"], facts["walk_depth"]) == ("notes", ["keys.md"], 0)
    assert (facts["stop"], facts["truncated"], facts["left_out"]) == ("node_budget", True, {"node_budget": 2})
    assert not {"walk_depth", "walk_path"} & set(own)


def test_a_field_of_the_author_with_the_name_of_the_facts_stays(framework):
    records = [{"id": "a", "text": "signing keys", "airw": "a word of Welsh", "id_of_author": 7}]
    with sync.build(airw.from_records(records, name="words", embedder="light"), store=MemoryStore()) as words:
        [found] = framework.ask(framework.package.search_retriever(words), "signing keys")
    assert (found.metadata["airw"], found.metadata["id_of_author"]) == ("a word of Welsh", 7)


def test_a_walk_says_by_which_path_it_found_a_document(framework, name):
    policy = LinkWalk(roots=["keys.md"], direction="out")
    found = framework.ask(framework.package.walk_retriever(name, policy=policy), "")
    assert [facts["walk_path"] for facts in facts_of(found)] == [
        ["keys.md"],
        ["keys.md", "vault.md"],
        ["keys.md", "vault.md", "people.md"],
    ]


def test_several_corpora_are_walked_as_one_graph(framework, name):
    walk_retriever = framework.package.walk_retriever
    other = airw.from_mapping({"keys.md": "signing keys of the door"}, name="other", embedder="light")
    with sync.build(other, store=MemoryStore()) as opened:
        found = describe(framework.ask(walk_retriever([name, opened], k=2, node_budget=2), "signing keys"))
        with sync.open_corpus(name) as notes:
            together = walk_retriever(airw.FederatedCorpus([notes, opened]), k=2, node_budget=2)
            assert describe(framework.ask(together, "signing keys")) == found
    assert {(id, source) for id, _, source in found} == {("keys.md", "notes"), ("keys.md", "other")}


def test_a_discovery_answers_without_the_corpus_that_fails(framework, name, tmp_path):
    broken = tmp_path / "broken.airw"
    broken.write_bytes(b"no corpus" * 1_000)
    found = framework.ask(framework.package.discover_retriever([name, str(broken)]), QUERY)
    assert facts_of(found)[0]["id"] == "keys.md"


def test_a_discovery_that_abstains_returns_nothing(framework, name):
    assert framework.ask(framework.package.discover_retriever(name), "zebra xylophone") == []


async def test_an_open_corpus_answers_on_its_own_loop(framework, source):
    async with airw.build(source, store=MemoryStore()) as corpus:
        retriever = framework.package.search_retriever(corpus, k=2)
        found = await framework.ask_async(retriever, QUERY)
        assert describe(found) == describe_hits(await corpus.search(QUERY, k=2))
        with pytest.raises(ArgumentError, match=r"'notes'.*was opened with await.*pass the name of the corpus"):
            framework.ask(retriever, QUERY)


@pytest.mark.slow
@pytest.mark.parametrize("verb", RETRIEVERS)
def test_a_corpus_on_another_machine_answers_alike(framework, verb, name):
    with (
        serve(app([name])) as server,
        sync.SyncCorpus(sync.run(RemoteCorpus.open, server.url, name)) as remote,
    ):
        retriever = RETRIEVERS[verb](framework.package, remote)
        expected = [answer(verb, name, query) for query in QUERIES]
        assert [describe(framework.ask(retriever, query)) for query in QUERIES] == expected
        assert [describe(asyncio.run(framework.ask_async(retriever, query))) for query in QUERIES] == expected


def test_a_corpus_is_opened_once_and_closed_with_its_retriever(framework, name):
    before = set(background_loop().open)
    retriever = framework.package.search_retriever(name, k=1)

    async def ask(retriever):
        await asyncio.gather(*(framework.ask_async(retriever, query) for query in QUERIES))

    asyncio.run(ask(retriever))
    [opened] = background_loop().open - before
    framework.ask(retriever, QUERY)
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


@pytest.mark.parametrize("verb", ["search_retriever", "discover_retriever", "walk_retriever"])
async def test_a_cancelled_call_stops_the_store_before_it_returns(framework, verb, slow):
    store, corpus = slow
    task = asyncio.create_task(framework.ask_async(getattr(framework.package, verb)(corpus), QUERY))
    await wait_for(store.asked.is_set)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert store.ended == [asyncio.CancelledError]


async def test_a_call_that_is_cancelled_at_once_ends_at_once(framework, name):
    retriever = framework.package.search_retriever(name)
    for _ in range(20):
        task = asyncio.create_task(framework.ask_async(retriever, QUERY))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert describe(await framework.ask_async(retriever, QUERY))


async def test_a_search_without_an_answer_in_time_is_an_error(framework, slow):
    store, corpus = slow
    retriever = framework.package.search_retriever(corpus, timeout=0.01)
    with pytest.raises(TimeoutError, match=r"search_retriever\('slow'\) found no answer within 0.01 s"):
        await framework.ask_async(retriever, QUERY)
    assert store.ended == [asyncio.CancelledError] * store.asked.is_set()  # it may be too late to ask


@pytest.mark.slow
async def test_a_walk_returns_what_it_found_until_the_deadline(framework, source):
    asked, found = [], []

    class Stuck(Wrapper):
        async def read(self, *requests):
            if any(isinstance(request, Edges) for request in requests):
                asked.append(requests)
            if len(asked) == 2:  # the first links are read with the records of the start
                await anyio.sleep_forever()
            return await super().read(*requests)

    async def walk():
        found.extend(await framework.ask_async(retriever, QUERY))

    async with airw.build(source, store=Stuck(MemoryStore())) as corpus, anyio.create_task_group() as group:
        retriever = framework.package.walk_retriever(corpus, policy=LinkWalk(start_k=2), timeout=500)
        group.start_soon(walk)
        await wait_for(lambda: len(asked) == 2)
        skip_time(1_000)
    assert [facts["stop"] for facts in facts_of(found)] == ["timeout"] * 3


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda own: own.search_retriever("notes", k=-1), ArgumentError, "k must be"),
        (lambda own: own.search_retriever("notes", mode="sparse"), ArgumentError, "mode"),
        (lambda own: own.search_retriever("notes", top=1), TypeError, r"search_retriever\(\) got .* 'top'"),
        (lambda own: own.search_retriever("notes", timeout="1"), ArgumentError, "timeout"),
        (lambda own: own.search_retriever(""), ArgumentError, "name"),
        (lambda own: own.search_retriever(["notes"]), ArgumentError, "expected an open corpus"),
        (lambda own: own.discover_retriever("notes", max_results=1), TypeError, r"discover_retriever\(\) got .* 'max_"),
        (lambda own: own.discover_retriever("notes", surfaces="chunk"), ArgumentError, "surfaces"),
        (lambda own: own.walk_retriever("notes", k=-1), ArgumentError, "k must be"),
        (lambda own: own.walk_retriever("notes", node_budget=0), ArgumentError, "node_budget must be"),
        (lambda own: own.walk_retriever("notes", timeout=-1), ArgumentError, "timeout must be"),
    ],
)
def test_what_cannot_be_used_is_a_typed_error_of_one_line(framework, make, error, match):
    with pytest.raises(error, match=match) as caught:
        make(framework.package)
    assert "\n" not in str(caught.value)


def test_a_question_raises_the_errors_of_airw(framework, name):
    package = framework.package
    missing = [package.search_retriever("missing"), package.walk_retriever(["missing"])]
    for retriever in (*missing, package.discover_retriever(["missing"])):
        with pytest.raises(CorpusNotFound, match="no corpus 'missing'"):
            framework.ask(retriever, QUERY)
    with pytest.raises(ArgumentError, match="query"):
        framework.ask(package.search_retriever(name), " ")


def test_an_iterator_of_options_serves_all_questions(framework, name):
    for verb in ("search_retriever", "discover_retriever"):
        retriever = getattr(framework.package, verb)(name, surfaces=iter(["chunk", "description", "title"]))
        assert describe(framework.ask(retriever, QUERY)) == describe(framework.ask(retriever, QUERY)) != []


def test_a_password_is_not_shown(framework):
    retriever = framework.package.search_retriever("postgresql://user:hunter2@localhost:1/database#notes")
    assert "hunter2" not in repr(retriever)
    with pytest.raises(StoreError) as caught:
        framework.ask(retriever, QUERY)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("package", "module", "classes"),
    [
        ("langchain", "langchain_core.documents", ["AirwRetriever"]),
        pytest.param(
            "llama_index",
            "llama_index.core.base.base_retriever",
            ["AirwNodeRetriever", "LinkPostprocessor"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_without_the_framework_the_error_names_the_extra(monkeypatch, package, module, classes):
    own = import_module(f"airw.integrations.{package}")
    for name in classes:  # first, as a name that is asked for loads its module
        monkeypatch.delattr(own, name, raising=False)
    for loaded in [*sys.modules]:
        if loaded.startswith(f"{own.__name__}."):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setitem(sys.modules, module, None)
    needed, extra = module.partition(".")[0], package.replace("_", "-")
    with pytest.raises(ArgumentError, match=rf"needs {needed}: pip install 'airw\[{extra}\]'"):
        own.search_retriever("notes")
