"""`RemoteStore` answers over HTTP as the served store does: it passes the exam of stores."""

from contextlib import asynccontextmanager

import httpx
import numpy as np
import pytest

from airw.corpora import Corpus
from airw.embedders import MissingEmbedder
from airw.errors import ArgumentError, EmbedderError, RemoteError
from airw.protocols import (
    CAPABILITIES,
    ArtifactIds,
    Best,
    Calibrations,
    Change,
    Config,
    Counts,
    Edges,
    Ends,
    Fed,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Names,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    Schema,
    TextLanguage,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    Words,
    ask,
)
from airw.remote import RemoteCorpus
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore, Wrapper
from airw.testing.changes import put
from airw.testing.stores import StoreSuite
from airw.values import Link, Ranking

URL = "http://127.0.0.1:8000"
EMBEDDER = MissingEmbedder("e", 4, EmbedderError("nothing embeds here"))


class WrittenStore(Wrapper):
    """A store that is written where it is, and read over HTTP."""

    def __init__(self, written, remote):
        super().__init__(written)
        self.written, self.remote = written, remote

    async def read(self, *requests):
        return await self.remote.read(*requests)

    async def apply(self, change):
        await ask(self.remote, Counts())  # a closed store refuses
        await self.written.apply(change)

    async def aclose(self):
        await self.remote.aclose()


@asynccontextmanager
async def serve_store(_folder, *, limits=ServingLimits(max_conditions=100_000)):  # noqa: B008 - immutable
    async with MemoryStore() as memory:
        transport = httpx.ASGITransport(app([Corpus("notes", memory, EMBEDDER)], limits=limits))
        async with (
            httpx.AsyncClient(transport=transport) as client,
            RemoteCorpus(URL, "notes", client=client) as corpus,
        ):
            yield WrittenStore(memory, corpus.store)


@asynccontextmanager
async def serve_store_in_small_messages(folder):
    async with serve_store(folder, limits=ServingLimits(max_ids=400, max_body=20_000)) as store:
        yield store


SUITE = StoreSuite(serve_store)
SMALL = StoreSuite(serve_store_in_small_messages)
QUICK = ("a_step_as_a_chain", "dense_answers", "edges_answers", "lexical_answers", "metadata_comes", "not_offered")


def is_quick(case):
    return any(name in case.name for name in QUICK)


@pytest.mark.parametrize("case", [each for each in SUITE.cases if is_quick(each)], ids=str)
async def test_the_exam_of_stores_holds_over_http(case):
    await SUITE.check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [each for each in SUITE.cases if not is_quick(each)], ids=str)
async def test_the_whole_exam_of_stores_holds_over_http(case):
    await SUITE.check(case)


@pytest.mark.slow
@pytest.mark.parametrize("case", [each for each in SMALL.cases if "thousands" in each.name], ids=str)
async def test_the_exam_of_stores_holds_in_calls_that_are_split(case):
    await SMALL.check(case)


NAMES = [f"n{at:03}" for at in range(300)]
QUERY = np.eye(1, 4, dtype=np.float32)


async def fill(store):
    await store.apply(
        Change(
            [put(id, f"keys {at}", metadata={"note": "x" * 9_000}, links=[Link("n000")]) for at, id in enumerate(NAMES)]
        )
    )


@asynccontextmanager
async def serve_counted(**limits):
    """Yield a store that is written where it is, and the messages to its server."""
    sent = []

    async def count(request):
        sent.append(request.url.path)

    async with MemoryStore() as memory:
        await fill(memory)
        transport = httpx.ASGITransport(app([Corpus("notes", memory, EMBEDDER)], limits=ServingLimits(**limits)))
        async with (
            httpx.AsyncClient(transport=transport, event_hooks={"request": [count]}) as client,
            RemoteCorpus(URL, "notes", client=client) as corpus,
        ):
            sent.clear()
            yield WrittenStore(memory, corpus.store), sent


def make_requests(ids):
    """Return a request of each kind that takes ids."""
    return [
        Records([f"{id}#document/0" for id in ids]),
        RecordsOf(ids),
        Vectors([f"{id}#document/0" for id in ids]),
        VectorsOf(ids),
        Edges(ids, "both"),
        Names(ids),
        Referrers(ids),
        Ledger(ids),
        Rank(QUERY, among=ids),
        Rank(np.vstack([QUERY, -QUERY]), 7, among=ids),
        Rank(QUERY, 50, records=[f"{id}#document/0" for id in ids]),
        Rank(["keys 7", "keys 8"], 20),
    ]


def same(one, two):
    """Return whether two answers are equal, arrays within them to the last bit."""
    if isinstance(one, np.ndarray):
        return np.array_equal(one, two, equal_nan=True)
    if isinstance(one, Ranking):
        columns = [(list(each.record_ids), list(each.artifact_ids), each.scores.tolist()) for each in (one, two)]
        return columns[0] == columns[1]
    if isinstance(one, list | tuple):
        return len(one) == len(two) and all(map(same, one, two))
    return one == two


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", [{"max_answer": 90_000}, {"max_answer": 10**8}, {"max_ids": 100}, {"max_body": 2_000}], ids=str
)
async def test_what_is_too_much_at_once_is_split(limits):
    """Duplicates, which the server refuses, are answered too."""
    requests = make_requests([*NAMES, "none", "n007", *NAMES])
    async with serve_counted(**limits) as (store, _):
        for request in requests:
            assert same(await ask(store.remote, request), await ask(store.written, request)), request
        for one, two in zip(await store.remote.read(*requests), await store.written.read(*requests), strict=True):
            assert same(one, two)


def make_chain(ids):
    edges = Edges(ids, "both")
    scores = Fed(Rank(QUERY, per_artifact=True, among=()), Ends(edges, limit=40, without=["n003"]))
    return edges, scores, Fed(Records(()), Best(scores, limit=5)), Fed(VectorsOf(()), Ends(edges))


@pytest.mark.parametrize("ids", [["n000"], ["n001", "n002", "n001"], ["none"], []], ids=str)
async def test_a_chain_is_one_message_and_equals_its_parts(ids):
    async with serve_counted() as (store, sent):
        edges, rankings, records, vectors = await store.remote.read(*make_chain(ids))
        assert sent == ["/store/read"]
        assert same([edges, rankings, records, vectors], await store.written.read(*make_chain(ids)))
        ends = make_chain(ids)[1].by.take(edges)
        assert same(edges, await ask(store.remote, Edges(ids, "both")))
        assert same(rankings, await ask(store.remote, Rank(QUERY, per_artifact=True, among=ends)))
        assert same(records, await ask(store.remote, Records(rankings[0].record_ids[:5])))


@pytest.mark.parametrize("limits", [{"max_ids": 10}, {"max_answer": 60_000}, {"max_body": 500}], ids=str)
async def test_a_chain_that_is_too_much_at_once_is_asked_in_parts(limits):
    async with serve_counted(**limits) as (store, sent):
        chain = make_chain(NAMES[:12])
        assert same(await store.remote.read(*chain), await store.written.read(*chain))
        assert len(sent) > 2


async def test_a_chain_that_finds_more_ids_than_a_message_may_have_is_asked_in_parts():
    async with serve_counted(max_ids=100) as (store, sent):
        edges, scores, records, vectors = make_chain(["n000"])
        assert same(await store.remote.read(edges, scores, records), await store.written.read(edges, scores, records))
        assert sent == ["/store/read"]
        sent.clear()
        assert same(await store.remote.read(edges, vectors), await store.written.read(edges, vectors))
        assert len(sent) == 5  # refused, the edges, and the vectors of 299 ends


async def test_independent_requests_are_one_message():
    async with serve_counted() as (store, sent):
        requests = [Counts(), Config(), Calibrations(), TextLanguage(), LinkCounts(), MaxFanIn(), ArtifactIds()]
        requests += [Schema(["note"]), UnresolvedLinks(), Matching([("note", "x")]), Words(["keys"])]
        assert same(await store.remote.read(*requests), await store.written.read(*requests))
        assert sent == ["/store/read"]


async def test_more_requests_than_a_message_may_have_are_answered():
    async with serve_counted() as (store, _):
        assert await store.remote.read(*[Names([id]) for id in NAMES[:20]]) == [[[id]] for id in NAMES[:20]]
        assert await store.remote.read() == []


async def test_all_entries_of_the_ledger_are_asked_for_by_id():
    async with serve_counted(max_ids=100) as (store, _):
        assert await ask(store.remote, Ledger()) == await ask(store.written, Ledger())


async def test_all_records_are_ranked_if_that_is_not_too_much():
    async with serve_counted() as (store, _):
        for queries in (QUERY, np.vstack([QUERY, -QUERY]), ["keys"]):
            assert same(await ask(store.remote, Rank(queries)), await ask(store.written, Rank(queries)))


async def test_a_request_is_fed_by_an_earlier_one():
    async with serve_counted() as (store, sent):
        edges, scores, records, _ = make_chain(["n000"])
        for chain in ([scores, edges, records], [edges, records], [records]):
            with pytest.raises(ArgumentError, match="does not stand before it"):
                await store.remote.read(*chain)
        assert sent == []


async def test_it_is_not_written():
    async with serve_counted() as (store, _):
        assert store.remote.capabilities == CAPABILITIES - {"writing"}
        with pytest.raises(ArgumentError, match=r"apply\(\) needs a store with the capability 'writing'"):
            await store.remote.apply(Change(removals=["n000"]))
        with pytest.raises(ArgumentError, match=r"writing\(\) needs a store with the capability 'writing'"):
            store.remote.writing()


async def test_a_single_answer_that_is_too_long_is_an_error_that_says_so():
    async with serve_counted(max_answer=8_000) as (store, _):
        with pytest.raises(ArgumentError, match="the answer has more than 8,000 bytes; ask for less at once") as error:
            await ask(store.remote, RecordsOf(["n001", "n002"]))
        assert isinstance(error.value, RemoteError)
        assert "127.0.0.1" in str(error.value)


async def test_ids_that_are_no_texts_are_refused_by_name():
    async with serve_counted() as (store, _):
        for item in (["a"], 7):
            with pytest.raises(ArgumentError, match="artifact_ids must be a list of strings, not of"):
                await ask(store.remote, RecordsOf([item]))
