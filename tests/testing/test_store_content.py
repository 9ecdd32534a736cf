"""The exam of stores whose content their authors name."""

import asyncio
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial

import anyio
import httpx
import numpy as np
import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from airw import adapt
from airw.corpora import Corpus
from airw.embedders import resolve_embedder
from airw.errors import ArgumentError
from airw.integrations.langchain import from_vector_store
from airw.protocols import CAPABILITIES, Change
from airw.remote import RemoteCorpus
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore, OwnStore
from airw.testing import StoreSuite
from airw.testing.changes import put, put_document
from airw.values import Edge, Link, Ranking, Record
from airw.values.filters import matches
from tests.support.federated_stores import EMBEDDER, open_halves

PAGES = {
    "rota": ("Rotate the one two signing keys each month.", {"tag": "x", "n": 1}, ["vault", "door"]),
    "vault": ("The keys lie in the vault, three of them.", {"tag": ["x", "y"], "who": {"name": "Ada"}}, ["door"]),
    "door": ("The vault has two doors.", {"n": 2}, ["rota"]),
    "yard": ("One two three.", {}, []),
    "b": ("", {"tag": None}, ["rota", "vault"]),
}
LIGHT = resolve_embedder("light")
QUICK = ("content_are_right", "not_offered", "another_width")


async def embed(texts):
    return await LIGHT.embed_documents([*texts])


def describe_pages():
    """Return what the pages are in a store: artifacts that are their own records."""
    texts = [text for text, _, _ in PAGES.values()]
    vectors = anyio.run(embed, [text or "x" for text in texts])
    vectors[[at for at, text in enumerate(texts) if not text]] = 0  # an empty text is near to nothing
    return [
        put_document(name, text, vector, metadata=metadata, links=[*map(Link, ends)])
        for (name, (text, metadata, ends)), vector in zip(PAGES.items(), vectors, strict=True)
    ]


CONTENT = describe_pages()


def find(query, k):
    """Search by the number of words in common."""
    hits = [(name, sum(word in text for word in query.split())) for name, (text, _, _) in PAGES.items()]
    return sorted((hit for hit in hits if hit[1]), key=lambda hit: -hit[1])[:k]


def read(ids):
    return [PAGES.get(id) and {"text": PAGES[id][0], "metadata": PAGES[id][1]} for id in ids]


def follow(ids):
    return {id: PAGES[id][2] for id in ids if id in PAGES}


def suite_of(store, content):
    return StoreSuite(lambda folder: nullcontext(store), capabilities=store.capabilities, content=content)


FUNCTIONS = {
    "functions": {"search": find, "get": read, "neighbors": follow},
    "search": {"search": find, "get": read},
    "neighbors": {"get": read, "neighbors": follow},
    "get": {"get": read},
}


class Counting(OwnStore):
    """A store of one's own that ranks by the number of words."""

    capabilities = frozenset({"edges", "lexical", "records"})

    async def records(self, request):
        found = [(id, PAGES.get(id)) for id in request.ids]
        return [page and Record(id, id, "document", 0, page[0], page[1]) for id, page in found]

    async def edges(self, request):
        edges = [Edge(name, end, "related") for name, (_, _, ends) in PAGES.items() for end in ends]
        return [self.arrange(id, edges, request) for id in request.ids]

    async def rank(self, request):
        return [self.choose(query, request) for query in request.queries]

    def choose(self, query, request):

        rows = [
            (name, score)
            for name, score in find(query, 100)
            if (request.among is None or name in request.among)
            and (request.records is None or name in request.records)
            and (request.surfaces is None or "document" in request.surfaces)
            and (request.filter is None or matches(request.filter, PAGES[name][1]))
        ][: request.k]
        ids = [name for name, _ in rows]
        return Ranking(ids, ids, np.array([score for _, score in rows], np.float64))


class Light(Embeddings):
    def embed_documents(self, texts):
        return asyncio.run(embed(texts)).tolist()

    def embed_query(self, text):
        return self.embed_documents([text])[0]


def langchain_store():
    store = InMemoryVectorStore(Light())
    store.add_documents([Document(text, id=name, metadata=own) for name, (text, own, _) in PAGES.items() if text])
    return from_vector_store(store, name="pages").store


MIXED = [
    put("a", "one two", "four", kinds=("title", "chunk"), metadata={"tag": "x"}, links=[Link("c", "r"), Link("b")]),
    put("b", "two three", metadata={"tag": ["x", "y"], "n": 1}, links=[Link("d"), Link("none"), Link("a", "q")]),
    put("c", "one two", "one two", metadata={"n": True}, links=[Link("a"), Link("d", weight=0.5)], names=[[], ["T"]]),
    put("d", metadata={"tag": "y"}, links=[Link("b", "r", "typed")]),
    put("e", "three", *["one two"] * 3, kinds=("title", "chunk"), metadata={"who": {"name": "Ada"}}, version="2"),
]


@asynccontextmanager
async def serve(_folder):
    async with MemoryStore() as memory:
        await memory.apply(Change(MIXED))
        limits = ServingLimits(max_conditions=100_000)
        transport = httpx.ASGITransport(app([Corpus("notes", memory, EMBEDDER)], limits=limits))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            RemoteCorpus("http://127.0.0.1:8000", "notes", client=client) as corpus,
        ):
            yield corpus.store


FEDERATED = {"dense", "edges", "ledger", "lexical", "matching", "names", "records", "scores", "vectors", "words"}
SUITES = {
    **{name: suite_of(adapt(**functions).store, CONTENT) for name, functions in FUNCTIONS.items()},
    "own": suite_of(Counting(), CONTENT),
    "langchain": suite_of(langchain_store(), [each for each in CONTENT if each.records[0].text]),
    "remote": StoreSuite(serve, capabilities=CAPABILITIES - {"writing"}, content=MIXED),
    "federated": StoreSuite(lambda folder: open_halves(MIXED, FEDERATED), capabilities=FEDERATED, content=MIXED),
}


def list_cases(*, quick):
    return [
        pytest.param(suite, case, id=f"{name}-{case}")
        for name, suite in SUITES.items()
        for case in suite.cases
        if any(word in case.name for word in QUICK) == quick
    ]


@pytest.mark.parametrize(("suite", "case"), list_cases(quick=True))
async def test_what_a_store_offers_is_right(suite, case):
    await suite.check(case)


@pytest.mark.slow
@pytest.mark.parametrize(("suite", "case"), list_cases(quick=False))
async def test_what_a_store_offers_is_right_in_all_cases(suite, case):
    await suite.check(case)


async def edges_out(store, request):
    if request.direction == "in":
        raise ArgumentError("direction must be 'out' or 'both', not 'in'")
    return await Counting.edges(store, request)


def twist_ranking(twist):
    """Return an answer to rankings that `twist` changes: a function of the ids and the scores."""

    async def rank(store, request):
        rankings = [twist([*each.record_ids], each.scores.tolist()) for each in await Counting.rank(store, request)]
        return [Ranking(ids, ids, np.array(scores, np.float64)) for ids, scores in rankings]

    return rank


async def rank_without(field, store, request):
    return await Counting.rank(store, replace(request, **{field: None}))


async def refuse(_, request):
    raise ArgumentError(f"filter cannot be used in {type(request).__name__}")


async def refuse_namelessly(store, request):
    if request.filter is not None:
        raise ArgumentError("I cannot do that")
    return await Counting.rank(store, request)


async def refuse_the_second(store, request):
    if len(request.queries) > 1 and request.k is not None:
        raise ArgumentError("queries must be one alone")
    return await Counting.rank(store, request)


FAULTS = {
    "lexical": {
        "refuses what is no option": refuse_the_second,
        "refuses everything": refuse,
        "does not name what it refuses": refuse_namelessly,
        "has no ranking": lambda store, request: anyio.sleep(0, []),
        "is turned around": twist_ranking(lambda ids, scores: (ids[::-1], scores[::-1])),
        "repeats the first": twist_ranking(lambda ids, scores: (ids[:1] + ids, scores[:1] + scores)),
        "finds what is not there": twist_ranking(lambda ids, scores: ([*ids, "nowhere"], [*scores, 0])),
        "has a score more": twist_ranking(lambda ids, scores: (ids, [*scores, 0])),
        "scores without numbers": twist_ranking(lambda ids, scores: (ids, [float("nan")] * len(ids))),
        "depends on the length": twist_ranking(lambda ids, scores: (sorted(ids), [1] * len(ids))),
        **{f"ignores {name}": partial(rank_without, name) for name in ("k", "filter", "surfaces", "among", "records")},
    },
    "edges": {"says that links lead out, and turns them around": edges_out, "refuses everything": refuse},
    "records": {"refuses everything": refuse, "knows nothing": lambda store, request: anyio.sleep(0, None)},
}
METHODS = {"lexical": "rank", "edges": "edges", "records": "records"}


@pytest.mark.parametrize(
    ("capability", "fault"), [(capability, fault) for capability, faults in FAULTS.items() for fault in faults]
)
async def test_a_store_with_a_fault_fails(capability, fault):
    faulty = type("Faulty", (Counting,), {METHODS[capability]: FAULTS[capability][fault]})
    suite = suite_of(faulty(), CONTENT)
    [case] = [case for case in suite.cases if case.name == f"{capability}_of_the_content_are_right"]
    with pytest.raises(AssertionError, match=rf"^{case.name}: "):
        await suite.check(case)


@pytest.mark.slow
async def test_the_report_of_a_store_with_its_own_content_has_no_cases_that_fill_stores():
    report = await suite_of(adapt(**FUNCTIONS["functions"]).store, CONTENT).run()
    assert report.passed, str(report)
    names = {outcome.name for outcome in report.outcomes}
    assert "lexical_of_the_content_are_right" in names
    assert not {name for name in names if name.startswith("filters_")}
