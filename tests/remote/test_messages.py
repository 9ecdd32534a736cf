"""Messages to the stores of one server travel together, and nobody notices."""

import json
import random
from collections import Counter
from contextlib import AsyncExitStack, asynccontextmanager

import anyio
import httpx
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, build, discover, from_mapping, traverse
from airw.discovery import FederatedCorpus, discover_stream
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError, RemoteError, StoreCorrupt
from airw.links import extractor_from
from airw.policies import LinkWalk
from airw.protocols import Change, Counts, Names, Rank, RecordsOf, Schema, Words, ask
from airw.remote import RemoteCorpus, Timeouts
from airw.serving import ServingLimits, Token, app
from airw.stores import MemoryStore, Wrapper
from airw.testing.changes import put
from tests.support.drawing import examples
from tests.support.serving import serve
from tests.support.waiting import PATIENCE, wait_for

URL = "http://localhost"
EMBEDDER = MissingEmbedder("e", 4, EmbedderError("nothing embeds here"))
LONG = "x" * 3_000
TOGETHER, ALONE = "/stores/read", "/store/read"


class CountingServer:
    """An application that counts its requests, and has faults instead of answers to some.

    Attributes:
        paths: The number of requests by path.
        faults: An error of the connection, or a status and a body, by path.
    """

    def __init__(self, application):
        self.application, self.paths, self.faults = application, Counter(), {}

    async def __call__(self, scope, receive, send):
        fault = None
        if scope["type"] == "http":
            self.paths[scope["path"]] += 1
            fault = self.faults.get(scope["path"])
        if isinstance(fault, Exception):
            raise fault
        if fault is None:
            await self.application(scope, receive, send)
            return
        status, body = fault
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


class GatedStore(Wrapper):
    """A store that answers once its gate is open, with an error if it has one."""

    def __init__(self, store):
        super().__init__(store)
        self.gate, self.error = anyio.Event(), None
        self.reads = self.cancelled = 0
        self.gate.set()

    async def read(self, *requests):
        self.reads += 1
        try:
            await self.gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if self.error is not None:
            raise self.error
        return await super().read(*requests)


@asynccontextmanager
async def serve_stores(count=4, *, times=Timeouts(), sent=None, **options):  # noqa: B008 - immutable
    """Yield remote corpora `c0`, `c1`, … of one server, their stores there, and the server.

    Each has two documents, one of them long. `sent` are the tokens that the remote corpora send.
    """
    async with AsyncExitStack() as stack:
        stores = []
        for at in range(count):
            memory = await stack.enter_async_context(MemoryStore())
            await memory.apply(Change([put(f"{at}-a", f"keys {at} {LONG}"), put(f"{at}-b", "bake bread")]))
            stores.append(GatedStore(memory))
        server = CountingServer(app([Corpus(f"c{at}", store, EMBEDDER) for at, store in enumerate(stores)], **options))
        client = await stack.enter_async_context(httpx.AsyncClient(transport=httpx.ASGITransport(server)))
        remotes = []
        for at in range(count):
            token = None if sent is None else sent[at]
            remote = RemoteCorpus(URL, f"c{at}", client=client, timeouts=times, token=token)
            remotes.append(await stack.enter_async_context(remote))
        server.paths.clear()
        yield remotes, stores, server


async def ask_all_at_once(remotes, request=Counts()):  # noqa: B008 - immutable
    """Return the answer or the error of each corpus, asked at the same time."""
    outcomes = [None] * len(remotes)

    async def call(at):
        try:
            outcomes[at] = await ask(remotes[at].store, request)
        except Exception as error:  # noqa: BLE001 - it is the outcome
            outcomes[at] = error

    async with anyio.create_task_group() as group:
        for at in range(len(remotes)):
            group.start_soon(call, at)
    return outcomes


def ids_of(at):
    return [f"{at}-a", f"{at}-b", "none"]


# --- a stage is a request ------------------------------------------------------------------------------------------


def note_source(at, count):
    texts = {f"{at}-{note:02}": f"rotate the signing keys of house {(at * 7 + note) % 9}" for note in range(6)}

    def link(id, _):
        return {"next": [(f"c{(at + 1) % count:02}", f"{(at + 1) % count}-{id[-2:]}")]}

    return from_mapping(texts, name=f"c{at:02}", embedder="light", edge_extractor=extractor_from(link, id="next"))


@asynccontextmanager
async def serve_houses(monkeypatch, count=12):
    """Yield corpora, the same corpora on a real server, and its counts."""
    monkeypatch.setattr("airw.serving.store_calls._PATIENCE", PATIENCE)  # a busy machine is not a slow store
    async with AsyncExitStack() as stack:
        here = [
            await stack.enter_async_context(build(note_source(at, count), store=MemoryStore())) for at in range(count)
        ]
        server = CountingServer(app(here))
        url = stack.enter_context(serve(server)).url
        there = [await stack.enter_async_context(RemoteCorpus(url, corpus.name)) for corpus in here]
        server.paths.clear()
        yield here, there, server.paths


def rows_of(hits):
    return [(hit.key, hit.score, hit.text) for hit in hits]


def facts_of(result):
    """Return what a discovery has found, without its times."""
    sources = {name: {**report, "seconds": None} for name, report in result.signals["per_source"].items()}
    return [each.to_dict() for each in result.results], sources, result.reason, result.n_retrieved


QUERY = "how to rotate the signing keys of house 4"
STAGES = 5  # of a discovery: words and texts, vectors, records, evidence, the union


@pytest.mark.asyncio_only
async def test_a_discovery_over_corpora_of_one_server_is_a_request_a_stage(monkeypatch):
    async with serve_houses(monkeypatch) as (here, there, sent):
        result = await discover(there, QUERY)
        assert facts_of(result) == facts_of(await discover(here, QUERY))
        assert sent["/embed"] == 1
        assert sent[TOGETHER] + sent[ALONE] <= 2 * STAGES  # one by one they would be 60
        assert sent[TOGETHER] >= 3


@pytest.mark.asyncio_only
async def test_a_discovery_that_is_watched_is_a_request_a_stage(monkeypatch):
    async with serve_houses(monkeypatch) as (here, there, sent):
        async with discover_stream(there, QUERY) as updates:
            last = [update async for update in updates][-1]
        assert facts_of(last) == facts_of(await discover(here, QUERY))
        assert sent[TOGETHER] + sent[ALONE] <= 2 * STAGES


@pytest.mark.asyncio_only
async def test_a_stage_of_a_walk_over_corpora_of_one_server_is_a_request(monkeypatch):
    async with serve_houses(monkeypatch) as (here, there, sent):
        policy = LinkWalk(roots=[(corpus.name, f"{at}-00") for at, corpus in enumerate(here)])
        walks = [traverse(QUERY, FederatedCorpus(corpora), policy=policy) for corpora in (here, there)]
        expected, hits = [rows_of([hit async for hit in walk]) for walk in walks]
        assert hits == expected
        assert len(hits) == 12
        assert sent[ALONE] == 0
        assert sent[TOGETHER] <= 2 * (walks[1].summary.steps + 1)


async def test_messages_that_are_ready_at_the_same_moment_are_one_request():
    async with serve_stores(8) as (remotes, stores, server):
        assert [each["artifacts"] for each in await ask_all_at_once(remotes)] == [2] * 8
        assert server.paths == {TOGETHER: 1}
        assert [store.reads for store in stores] == [1] * 8


async def test_one_corpus_is_asked_alone_whatever_it_is_asked_at_once():
    async with serve_stores() as (remotes, _, server):
        await ask_all_at_once(remotes[:1] * 3)
        assert server.paths == {ALONE: 3}


REQUESTS = [
    lambda at: [Counts()],
    lambda at: [RecordsOf(ids_of(at)), Names(ids_of(at))],
    lambda at: [Rank(["keys bread"], 5), Words(["keys"])],
    lambda at: [Schema(["note"])],
    lambda at: [],
]


@settings(max_examples=examples(40))
@given(
    asked=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(REQUESTS)), max_size=8),
    max_ids=st.sampled_from([3, 7, 10_000]),
    max_answer=st.sampled_from([4_000, 8_000, 10**6]),
    max_body=st.sampled_from([600, 10**6]),
)
async def test_whatever_travels_together_is_answered_as_the_stores_answer(asked, max_ids, max_answer, max_body):
    limits = ServingLimits(max_ids=max_ids, max_answer=max_answer, max_body=max_body)
    async with serve_stores(3, limits=limits) as (remotes, stores, _):
        answers = {}

        async def call(place, at, make):
            answers[place] = await remotes[at].store.read(*make(at))

        async with anyio.create_task_group() as group:
            for place, (at, make) in enumerate(asked):
                group.start_soon(call, place, at, make)
        for place, (at, make) in enumerate(asked):
            assert repr(answers[place]) == repr(await stores[at].read(*make(at)))


# --- limits and older servers --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "batches"),
    [({"max_ids": 6}, 4), ({"max_ids": 9}, 3), ({"max_body": 300}, 3), ({"max_body": 400}, 2), ({}, 1)],
    ids=str,
)
async def test_a_server_with_small_limits_gets_a_few_requests(limits, batches):
    async with serve_stores(8, limits=ServingLimits(**limits)) as (remotes, _, server):
        outcomes = await ask_all_at_once(remotes, RecordsOf(["x", "y", "z"]))
        assert outcomes == [[None] * 3] * 8
        assert server.paths == {TOGETHER: batches}


async def test_no_more_messages_travel_together_than_the_server_takes(monkeypatch):
    monkeypatch.setattr("airw.serving.store_calls.MOST_MESSAGES", 3)
    async with serve_stores(7) as (remotes, _, server):
        await ask_all_at_once(remotes)
        assert server.paths == {TOGETHER: 2, ALONE: 1}


async def test_an_older_server_gets_each_message_alone():
    async with serve_stores(2) as (remotes, stores, server), AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(transport=httpx.ASGITransport(server)))
        description = (await client.post(f"{URL}/store/describe", json={"corpus": "c0"})).json()
        assert description["limits"].pop("max_messages") > 1
        server.faults = {"/store/describe": (200, description), TOGETHER: (404, {})}
        older = [await RemoteCorpus.open(URL, remote.name, client=client) for remote in remotes]
        server.paths.clear()
        assert await ask_all_at_once(older) == [await ask(store, Counts()) for store in stores]
        assert server.paths == {ALONE: 2}


async def test_answers_that_are_too_long_together_are_asked_for_alone():
    async with serve_stores(3, limits=ServingLimits(max_answer=8_000)) as (remotes, stores, server):
        request = RecordsOf(["0-a", "1-a", "2-a"])
        assert await ask_all_at_once(remotes, request) == [await ask(store, request) for store in stores]
        assert server.paths == {TOGETHER: 1, ALONE: 1}


# --- slow and faulty ones ------------------------------------------------------------------------------------------


async def test_a_slow_corpus_does_not_hold_up_the_others():
    async with serve_stores() as (remotes, stores, server):
        stores[1].gate = anyio.Event()
        answers = {}

        async def call(at):
            answers[at] = await ask(remotes[at].store, Counts())

        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for at in (1, 0, 2, 3):  # the slow one sends the message
                    group.start_soon(call, at)
                await wait_for(lambda: answers.keys() == {0, 2, 3})
                await wait_for(lambda: stores[1].reads == 2)
                stores[1].gate.set()
        assert answers[1]["artifacts"] == 2
        assert server.paths == {TOGETHER: 1, ALONE: 1}
        # For some messages it travels alone, and then with the others again.
        for _ in range(10):
            await ask_all_at_once(remotes)
        assert server.paths == {TOGETHER: 11, ALONE: 11}
        await ask_all_at_once(remotes)
        assert server.paths == {TOGETHER: 12, ALONE: 11}


async def test_many_that_hang_do_not_keep_the_others_from_their_turn():
    async with serve_stores(24) as (remotes, stores, server):
        answers = {}

        async def call(at):
            answers[at] = await ask(remotes[at].store, Counts())

        for store in stores[:20]:
            store.gate = anyio.Event()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for at in range(24):
                    group.start_soon(call, at)
                await wait_for(lambda: answers.keys() == {20, 21, 22, 23})
                for store in stores:
                    store.gate.set()
        assert len(answers) == 24
        assert server.paths[TOGETHER] == 1


async def test_an_error_reaches_only_its_own_caller_and_keeps_its_type():
    async with serve_stores(3) as (remotes, stores, server):
        stores[0].error = StoreCorrupt("damaged")
        failed, *others = await ask_all_at_once(remotes)
        assert type(failed) is StoreCorrupt
        assert str(failed) == "corpus 'c0' at http://localhost: damaged"
        assert [each["artifacts"] for each in others] == [2, 2]
        assert server.paths == {TOGETHER: 1, ALONE: 1}


@pytest.mark.parametrize(
    "fault", [(404, {}), (400, {"error": "ArgumentError", "detail": "no"}), (200, {"answers": [None]}), (200, "odd")]
)
async def test_a_request_that_cannot_be_used_is_sent_again_one_by_one(fault):
    async with serve_stores(3) as (remotes, _, server):
        server.faults[TOGETHER] = fault
        assert [each["artifacts"] for each in await ask_all_at_once(remotes)] == [2] * 3
        assert server.paths == {TOGETHER: 1, ALONE: 3}


async def test_an_answer_that_cannot_be_used_concerns_its_own_corpus_only():
    async with serve_stores(3) as (remotes, _, server):
        good = {"answers": [{"artifacts": 7}]}
        server.faults = {TOGETHER: (200, {"answers": [good, {"answers": [["odd"]]}, good]}), ALONE: (200, {})}
        outcomes = await ask_all_at_once(remotes)
        assert outcomes.count({"artifacts": 7}) == 2
        [odd] = [(at, each) for at, each in enumerate(outcomes) if isinstance(each, Exception)]
        assert str(odd[1]) == f"corpus 'c{odd[0]}' at {URL} sent an answer that cannot be used: None is not a list"


async def test_a_lost_server_is_asked_three_times_for_all_and_each_error_names_its_corpus(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    async with serve_stores(3) as (remotes, _, server):
        server.faults[TOGETHER] = httpx.ReadError("reset")
        told = "corpus 'c{}' at http://localhost sent no complete answer (ReadError: reset); is it running?"
        outcomes = await ask_all_at_once(remotes)
        assert [*map(str, outcomes)] == [told.format(at) for at in range(3)]
        assert {*map(type, outcomes)} == {RemoteError}
        assert server.paths == {TOGETHER: 3}


async def test_a_server_that_hangs_is_asked_once_for_all():
    async with serve_stores(3) as (remotes, _, server):
        server.faults[TOGETHER] = httpx.ReadTimeout("")
        assert {*map(type, await ask_all_at_once(remotes))} == {RemoteError}
        assert server.paths == {TOGETHER: 1}


async def test_a_busy_server_is_asked_again_for_all(monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    async with serve_stores(3) as (remotes, _, server):
        server.faults = {TOGETHER: (503, {}), ALONE: (429, {})}
        assert all("answered 429" in str(each) for each in await ask_all_at_once(remotes))
        assert server.paths == {TOGETHER: 3, ALONE: 9}


async def test_all_that_is_sent_for_a_call_takes_no_longer_than_the_total():
    async with serve_stores(2, times=Timeouts(total=0.2)) as (remotes, stores, _):
        for store in stores:
            store.gate = anyio.Event()
        with anyio.fail_after(PATIENCE):
            outcomes = await ask_all_at_once(remotes)
        told = "corpus 'c{}' at http://localhost did not answer within total=0.2 s"
        assert [*map(str, outcomes)] == [told.format(at) for at in range(2)]


# --- callers that leave --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaving", [[0], [2], [0, 1], [0, 3], [1, 2, 3], [0, 1, 2, 3]], ids=str)
async def test_a_caller_that_is_cancelled_does_not_disturb_the_others(leaving):
    async with serve_stores() as (remotes, stores, server):
        answers, order = {}, []
        scopes = [anyio.CancelScope() for _ in remotes]

        async def call(at):
            order.append(at)
            with scopes[len(order) - 1]:  # the first one sends the message
                answers[at] = await ask(remotes[at].store, Counts())

        for store in stores:
            store.gate = anyio.Event()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                for at in range(4):
                    group.start_soon(call, at)
                await wait_for(lambda: all(store.reads == 1 for store in stores))
                for place in leaving:
                    scopes[place].cancel()
                if 0 in leaving:  # what the server does for it ends
                    await wait_for(lambda: all(store.cancelled == 1 for store in stores))
                for store in stores:
                    store.gate.set()
        assert answers.keys() == {0, 1, 2, 3} - {order[place] for place in leaving}
        again = {} if 0 not in leaving or len(leaving) == 4 else {TOGETHER: 1}
        assert server.paths == Counter({TOGETHER: 1}) + Counter(again)


async def test_a_caller_that_is_cancelled_before_the_message_is_sent_leaves_the_others_together():
    async with serve_stores() as (remotes, _, server):
        answers = {}

        async def call(at, scope):
            with scope:
                answers[at] = await ask(remotes[at].store, Counts())

        async with anyio.create_task_group() as group:
            for at in range(4):
                scope = anyio.CancelScope()
                if at in (0, 2):
                    scope.cancel()
                group.start_soon(call, at, scope)
        assert answers.keys() == {1, 3}
        assert server.paths == {TOGETHER: 1}


@pytest.mark.parametrize(("long", "paths"), [(0, {TOGETHER: 2, ALONE: 2}), (PATIENCE, {TOGETHER: 2})], ids=str)
async def test_a_message_whose_caller_has_waited_long_is_followed_by_some_alone(long, paths, monkeypatch):
    monkeypatch.setattr("airw.remote.store._LONG", long)
    async with serve_stores() as (remotes, stores, server):
        stores[0].gate = anyio.Event()
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                for at in (0, 1):
                    group.start_soon(ask, remotes[at].store, Counts())
                await wait_for(lambda: stores[1].reads == 1)
                scope.cancel()
        stores[0].gate.set()
        assert [each["artifacts"] for each in await ask_all_at_once(remotes)] == [2] * 4
        assert server.paths == paths


async def test_a_corpus_that_was_closed_is_not_asked_with_the_others():
    async with serve_stores(3) as (remotes, _, server):
        await remotes[0].aclose()
        closed, *others = await ask_all_at_once(remotes)
        assert "corpus 'c0' at http://localhost is closed" in str(closed)
        assert [each["artifacts"] for each in others] == [2, 2]
        assert server.paths == {TOGETHER: 1}


async def test_corpora_with_different_tokens_do_not_travel_together():
    values = ["first-0123456789ab", "other-0123456789ab"]
    served = [Token(value=value, read=["*"]) for value in values]
    async with serve_stores(4, sent=[*values, *values], tokens=served) as (remotes, _, server):
        await ask_all_at_once(remotes)
        assert server.paths == {TOGETHER: 2}
