"""`/traverse` walks a corpus, or several as one graph, and streams the hits."""

import dataclasses
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from functools import partial

import anyio
import httpx
import pytest

from airw import build, from_mapping, traverse
from airw.discovery import FederatedCorpus
from airw.embedders import HashingEmbedder
from airw.errors import StoreError
from airw.links import extractor_from
from airw.policies import Beam, LinkWalk, PersonalizedPageRank
from airw.policies.specs import list_policies, policy_spec
from airw.protocols import Edges, RecordsOf
from airw.serving import ServingLimits, Token, app, sse
from airw.stores import MemoryStore
from airw.testing import ScriptedStore, run_on_virtual_clock
from airw.values import SearchHit
from tests.support.event_streams import StreamClient, parse_events
from tests.support.served import client, notes, serve_notes
from tests.support.streamed_notes import NAMES, open_chain

pytestmark = pytest.mark.asyncio_only  # those that take time are on trio, too: see `backend`

HIT_FIELDS = [field.name for field in dataclasses.fields(SearchHit)]
CHAIN = {"corpus": "notes", "query": "keys", "policy": {"name": "link-walk", "params": {"roots": ["n00"]}}}


async def events_of(asking, fields, **options):
    answer = await asking.post("/traverse", json=fields, **options)
    assert answer.status_code == 200, answer.text
    return parse_events(answer.content)


def rebuild(hit, entry):
    """Return a hit of the final ranking, from the hit that was sent and its entry."""
    metadata = {**hit["metadata"], **entry.get("metadata", {})}
    return entry.get("replaced") or {**hit, "score": entry["score"], "metadata": metadata}


async def test_operators_choose_where_a_walk_starts():
    fields = {"corpus": "notes", "query": "keys -signing", "policy": "eager", "max_depth": 0}
    async with serve_notes() as asking:
        for operators, expected in (
            (True, {"rotation.md", "bread.md"}),
            (False, {"keys.md", "rotation.md", "bread.md"}),
        ):
            events = await events_of(asking, {**fields, "operators": operators})
            assert {event.data["artifact_id"] for event in events if event.kind == "hit"} == expected


def without_time(event):
    return {**event, "seconds": 0}


@pytest.mark.parametrize(
    "policy",
    [None, Beam(width=2), LinkWalk(roots=["keys.md"], max_depth=None), PersonalizedPageRank()],
    ids=["default", "beam", "link-walk", "pagerank"],
)
async def test_a_walk_is_that_of_the_library(policy):
    async with notes() as corpus, client(app([corpus])) as asking:
        fields = {"corpus": "notes", "query": "signing keys", "edges": True}
        spec = None if policy is None else policy_spec(policy)
        *sent, summary = [event.data for event in await events_of(asking, {**fields, "policy": spec})]
        walk = traverse("signing keys", corpus, policy=policy)
        *walked, end = [event.to_dict() async for event in walk.events()]
    assert sent == walked
    assert without_time(end).items() <= without_time(summary).items()
    hits = [{name: event.get(name) for name in HIT_FIELDS} for event in sent if event["type"] == "hit"]
    ranking = [rebuild(hits[entry["hit"]], entry) for entry in summary["ranking"]]
    assert ranking == [hit.to_dict() for hit in walk.ranking]


@pytest.mark.parametrize("name", [name for name in list_policies() if name != "reverse-dependency"])
async def test_each_policy_has_a_name(name):
    async with serve_notes() as asking:
        events = await events_of(asking, {"corpus": "notes", "query": "keys", "policy": name})
    assert events[-1].kind == "summary"
    assert "hit" in {event.kind for event in events}


async def test_edges_are_sent_when_they_are_asked_for():
    async with serve_notes() as asking:
        fields = {"corpus": "notes", "query": "keys"}
        without = await events_of(asking, fields)
        with_edges = await events_of(asking, {**fields, "edges": True})
    assert {event.kind for event in without} == {"hit", "progress", "summary"}
    assert "edge" in {event.kind for event in with_edges}


async def test_nodes_without_a_hit_are_sent_when_they_are_asked_for():
    policy = {"name": "link-walk", "params": {"start_k": 2, "scope": {"keep": {"none": 1}}}}
    async with serve_notes() as asking:
        fields = {"corpus": "notes", "query": "keys", "policy": policy}
        kinds = [
            {event.kind for event in await events_of(asking, {**fields, **more})}
            for more in ({}, {"routers": True}, {"edges": True}, {"edges": True, "routers": False})
        ]
    rest = {"progress", "summary"}
    assert kinds == [rest, rest | {"router"}, rest | {"router", "edge"}, rest | {"edge"}]


async def test_a_query_string_does_the_same_as_a_body():
    policy = {"name": "beam", "params": {"width": 2}}
    async with serve_notes() as asking:
        posted = await events_of(
            asking, {"corpus": "notes", "query": "keys", "policy": policy, "edges": True, "best": 2}
        )
        fields = {"corpus": "notes", "query": "keys", "policy": json.dumps(policy), "edges": "true", "best": "2"}
        answer = await asking.get("/traverse", params=fields)
        named = await asking.get("/traverse", params={"corpus": "notes", "query": "keys", "policy": "beam"})
    assert [without_time(event.data) for event in parse_events(answer.content)] == [
        without_time(event.data) for event in posted
    ]
    assert named.status_code == 200


async def test_the_limits_of_a_walk_are_those_that_were_asked_for():
    async with open_chain() as corpus, client(app([corpus])) as asking:
        fields = {**CHAIN, "node_budget": 5, "max_depth": 3, "limits": {"max_hits": 2}}
        events = await events_of(asking, fields)
        deep = await events_of(asking, {**CHAIN, "max_depth": None})
    assert [event.kind for event in events].count("hit") == 2
    assert events[-1].data["stop"] == "max_hits"
    assert [event.kind for event in deep].count("hit") == len(NAMES)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_walk_ends_at_its_deadline(backend):
    async def main():
        async with open_chain(delays={Edges: [0, 0, 60]}) as corpus, client(app([corpus])) as asking:
            late = await events_of(asking, {**CHAIN, "max_depth": None, "timeout": 5})
            return late, await events_of(asking, {**CHAIN, "timeout": 0})

    late, at_once = run_on_virtual_clock(main, backend=backend)
    assert [event.kind for event in late] == ["hit", "progress"] * 2 + ["hit", "summary"]
    assert late[-1].data["stop"] == at_once[-1].data["stop"] == "timeout"


@pytest.mark.parametrize("asked", [{}, {"timeout": None}, {"timeout": 1e9}])
def test_no_walk_is_without_a_deadline(asked):
    async def main():
        async with open_chain(delays={Edges: float("inf")}) as corpus:
            application = app([corpus], limits=ServingLimits(max_timeout=7))
            async with client(application) as asking:
                events = await events_of(asking, {**CHAIN, **asked}, timeout=None)
            return events[-1].data

    summary = run_on_virtual_clock(main)
    assert summary["stop"] == "timeout"
    assert summary["seconds"] == pytest.approx(7, abs=0.1)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"query": None}, "query must be a string"),
        ({"corpora": ["notes"]}, "send either corpus, the name of one, or corpora"),
        ({"nonsense": 1}, "/traverse takes corpus, corpora, query"),
        ({"policy": "beem"}, "there is no policy 'beem'"),
        ({"policy": {"name": "beam", "params": {"width": 0}}}, "width must be"),
        ({"policy": {"name": "beam", "params": {"seed_k": 10_001}}}, "seed_k must be at most 10,000 here"),
        (
            {"policy": {"name": "beam", "params": {"roots": ["a"] * 10_001}}},
            "roots must have at most 10,000 entries",
        ),
        ({"policy": {"name": "beam", "params": {"scope": {"keep": {"a": {"$in": [1] * 2_000}}}}}}, "at most 1,000"),
        ({"policy": {"name": "beam", "params": {"scope": {"keep": {"$no": 1}}}}}, "unknown operator '$no'"),
        ({"node_budget": 10_001}, "node_budget must be at most 10,000 here"),
        ({"node_budget": 10**300}, "node_budget must be at most 10,000 here"),
        ({"node_budget": -1}, "node_budget must be"),
        ({"max_depth": 101}, "max_depth must be at most 100 here"),
        ({"max_depth": -1}, "max_depth must be"),
        ({"timeout": -1}, "timeout must be"),
        ({"timeout": "1"}, "timeout must be"),
        ({"limits": {"max_edges": 100_001}}, "max_edges in limits must be at most 100,000 here"),
        ({"limits": {"max_fanout": 10**300}}, "max_fanout in limits must be at most 1,000 here"),
        ({"limits": {"max_edge": 1}}, "limits takes max_fanout, max_edges"),
        ({"limits": {"max_hits": "5"}}, "max_hits must be"),
        ({"edges": 1}, "edges must be true or false"),
        ({"best": 0}, "best must be"),
        ({"best": 1_001}, "best must be at most 1,000 here"),
        ({"best": 3, "max_hits": 3}, "best sends whole lists of hits"),
        ({"max_chars": 0}, "max_chars must be"),
        ({"query": "x" * 10_001}, "query must have at most 10,000 characters"),
    ],
)
async def test_a_request_that_cannot_be_met_is_refused_before_the_walk(fields, said):
    async with open_chain() as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/traverse", json={**CHAIN, **fields})
        assert corpus.store.calls.total() == 0
    assert answer.status_code == 400
    assert said in answer.json()["detail"]


async def test_a_root_that_is_not_there_is_404():
    async with serve_notes() as asking:
        policy = {"name": "link-walk", "params": {"roots": ["nowhere.md"]}}
        answer = await asking.post("/traverse", json={"corpus": "notes", "query": "", "policy": policy})
    assert answer.status_code == 404
    assert answer.json()["error"] == "NoLedgerEntry"


async def open_shelf(stack, name, targets):
    """Open a corpus whose artifacts link to those of others."""
    links = extractor_from(lambda _, fields: {"about": fields["about"]}, id="about")
    source = from_mapping(
        dict.fromkeys(targets, "signing keys"),
        name=name,
        embedder=HashingEmbedder(dim=16),
        edge_extractor=links,
        metadata_of=lambda name, _: {"about": targets[name]},
    )
    corpus = await build(source, store=MemoryStore())
    stack.push_async_callback(corpus.aclose)
    return corpus


@pytest.fixture
async def shelves():
    async with AsyncExitStack() as stack:
        first = await open_shelf(stack, "notes", {"n1": [["books", "b1"]]})
        yield [first, await open_shelf(stack, "books", {"b1": ["b2"], "b2": []})]


ACROSS = {"query": "", "policy": {"name": "link-walk", "params": {"roots": [["notes", "n1"]]}}}


async def test_several_corpora_are_one_graph(shelves):
    async with client(app(shelves)) as asking:
        events = await events_of(asking, {**ACROSS, "corpora": ["notes", "books"], "edges": True})
    walk = traverse("", FederatedCorpus(shelves), policy=LinkWalk(roots=[("notes", "n1")]))
    walked = [event.to_dict() async for event in walk.events()]
    assert [event.data for event in events[:-1]] == walked[:-1]
    assert [(event.data["source"], event.data["artifact_id"]) for event in events if event.kind == "hit"] == [
        ("notes", "n1"),
        ("books", "b1"),
        ("books", "b2"),
    ]


async def test_a_corpus_that_fails_in_the_midst_is_named(shelves):
    first, books = shelves
    broken = replace(books, store=ScriptedStore(books.store, failures={RecordsOf: StoreError("disk full")}))
    async with client(app([first, broken])) as asking:
        events = await events_of(asking, {**ACROSS, "corpora": ["notes", "books"]})
    [lost] = events[-1].data["lost"]
    assert (lost["name"], lost["status"], lost["error"]) == ("books", "failed", "StoreError: disk full")


async def test_the_right_to_each_corpus_is_checked_before_any_is_opened(shelves):
    opened = []
    first, second = [replace(each, store=ScriptedStore(each.store)) for each in shelves]
    token = Token(value="correct-horse-battery", read=["notes"])
    headers = {"Authorization": "Bearer correct-horse-battery"}
    async with client(app([first, second], tokens=[token]), headers=headers) as asking:
        for fields in ({"corpora": ["notes", "books"]}, {"corpus": "books"}, {"corpora": ["notes", "nowhere"]}):
            answer = await asking.post("/traverse", json={**ACROSS, **fields})
            opened.append((answer.status_code, answer.json()["error"]))
        assert "books" not in answer.json()["detail"]
    assert opened == [(404, "CorpusNotFound")] * 3
    assert first.store.calls.total() == second.store.calls.total() == 0


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_too_many_is_429_before_it_starts(backend):
    async def main():
        async with open_chain(delays=1.0) as corpus:
            application = app([corpus], limits=ServingLimits(max_streams_per_client=1))
            async with client(application) as asking, anyio.create_task_group() as group:
                group.start_soon(partial(asking.post, "/traverse", json=CHAIN))
                await anyio.sleep(0.5)
                answer = await asking.post("/traverse", json=CHAIN)
                group.cancel_scope.cancel()
            return answer, corpus.store.reads

    answer, reads = run_on_virtual_clock(main, backend=backend)
    assert (answer.status_code, reads) == (429, 1)
    assert int(answer.headers["retry-after"]) >= 1
    assert "streams" in answer.json()["detail"]


async def test_a_stream_that_ended_makes_room_for_the_next():
    async with open_chain(failures={Edges: [None, StoreError("disk full")]}) as corpus:
        application = app([corpus], limits=ServingLimits(max_streams=1, max_streams_per_client=1))
        async with client(application) as asking:
            statuses = [(await asking.post("/traverse", json=CHAIN)).status_code for _ in range(5)]
    assert statuses == [200] * 5


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_stream_does_not_hold_the_place_of_a_request(backend):
    async def main():
        async with open_chain(delays={Edges: 60}) as corpus:
            application = app([corpus], limits=ServingLimits(max_requests=1))
            async with client(application) as asking, anyio.create_task_group() as group:
                group.start_soon(partial(asking.post, "/traverse", json=CHAIN))
                await anyio.sleep(1)
                answer = await asking.post("/search", json={"corpus": "notes", "query": "keys"})
                group.cancel_scope.cancel()
            return answer, anyio.current_time()

    answer, at = run_on_virtual_clock(main, backend=backend)
    assert answer.status_code == 200
    assert at < 2


def read_chain(application, **options):
    """Return a client that asks for a walk along the chain, and the call that makes it ask."""
    reader = StreamClient(**options)
    fields = {**CHAIN, "policy": json.dumps(CHAIN["policy"]), "max_depth": "50"}
    reader.scope["query_string"] = str(httpx.QueryParams(fields)).encode()
    return reader, partial(reader.call, application)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_client_that_leaves_ends_the_calls_of_the_store(backend):
    async def main():
        async with open_chain(delays=1.0) as corpus:
            application = app([corpus])
            leaver, ask = read_chain(application, leaves_after=4)
            await ask()
            reads = corpus.store.reads
            await anyio.sleep(60)
            assert (corpus.store.reads, corpus.store.running) == (reads, 0)
            return leaver.kinds, reads, application.state.service.metrics.to_text()

    kinds, reads, numbers = run_on_virtual_clock(main, backend=backend)
    assert kinds == ["hit", "progress"] * 2
    assert reads == 2  # one in each step
    assert 'airw_walks_total{stop="disconnected"} 1' in numbers
    assert "airw_hits_total 2" in numbers
    assert "airw_first_hit_seconds_count 1" in numbers


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_server_that_stops_ends_its_streams_so_that_clients_come_back(backend):
    async def main():
        async with open_chain(delays=1.0) as corpus:
            application = app([corpus])
            reader, ask = read_chain(application)
            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                await anyio.sleep(1.5)
                application.state.service.ending.begin()
            late, ask = read_chain(application)
            await ask()
            return reader, late, corpus.store.running, anyio.current_time()

    reader, late, running, at = run_on_virtual_clock(main, backend=backend)
    assert reader.kinds == ["hit", "progress", "hit", "error"]
    assert reader.is_complete
    assert [event.id for event in reader.events] == ["1", "2", "3", ""]
    assert reader.events[-1].data["status"] == 503
    assert (late.status, late.headers["retry-after"], running) == (503, "1", 0)
    assert at == pytest.approx(1.5, abs=0.01)


async def test_the_end_of_each_walk_is_counted():
    async with open_chain(failures={Edges: [None] * 5 + [StoreError("disk full")]}) as corpus:
        application = app([corpus])
        async with client(application) as asking:
            for fields in ({"limits": {"max_hits": 2}}, {"node_budget": 1}, {"best": 2, "max_depth": 20}):
                await asking.post("/traverse", json={**CHAIN, **fields})
    numbers = application.state.service.metrics.to_text()
    assert {line for line in numbers.splitlines() if line.startswith("airw_walks_total{")} == {
        'airw_walks_total{stop="max_hits"} 1',
        'airw_walks_total{stop="node_budget"} 1',
        'airw_walks_total{stop="failed"} 1',
    }


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_first_event_comes_early_in_a_walk_of_many_steps(backend):
    """A PageRank walk of 24 steps, 10 ms a call: 3 calls before the first event."""

    async def main():
        async with open_chain({f"n{number:02}": f"signing keys {number}" for number in range(40)}) as corpus:
            slow = replace(corpus, store=ScriptedStore(corpus.store.store, delays=0.01))
            policy = PersonalizedPageRank(seed_k=1, width=1, restart=0.15, certify_k=0)
            walk = traverse("signing keys 0", slow, policy=policy, node_budget=24)
            reader = await StreamClient().call(sse(walk))
            return reader.sends, walk.summary

    sends, summary = run_on_virtual_clock(main, backend=backend)
    assert summary.steps == 24
    assert sends[0][0] <= 3 * 0.01 + 0.001
    assert sends[0][0] <= 0.15 * sends[-1][0]


async def test_paths_of_the_server_do_not_leave():
    metadata = {"n01": {"path": "/srv/secret/notes/n01.md"}}
    async with open_chain(metadata=metadata) as corpus, client(app([corpus])) as asking:
        answer = await asking.post("/traverse", json={**CHAIN, "max_depth": 50})
        best = await asking.post("/traverse", json={**CHAIN, "max_depth": 50, "best": 3})
    assert "n01.md" in answer.text
    assert "secret" not in answer.text + best.text


async def test_a_discovery_is_streamed_to_a_client_that_accepts_events(shelves):
    fields = {"corpora": ["notes", "books"], "query": "signing keys", "min_score": None}
    async with client(app(shelves)) as asking:
        answer = await asking.post("/discover", json=fields, headers={"Accept": "text/event-stream"})
        whole = await asking.post("/discover", json=fields)
    events = parse_events(answer.content)
    assert [event.kind for event in events] == ["source", "source", "result"]
    assert events[-1].data["results"] == whole.json()["results"] != []


async def test_the_form_of_the_ai_sdk_is_negotiated():
    async with serve_notes() as asking:
        fields = {"corpus": "notes", "query": "keys"}
        answer = await asking.post("/traverse", json=fields, headers={"x-vercel-ai-ui-message-stream": "v1"})
    assert answer.headers["x-vercel-ai-ui-message-stream"] == "v1"
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_reconnecting_continues_and_ends(shelves):
    async with client(app(shelves)) as asking:
        fields = {**ACROSS, "corpora": ["notes", "books"]}
        whole = await events_of(asking, fields)
        rest = await events_of(asking, fields, headers={"Last-Event-ID": "2"})
        done = await asking.post("/traverse", json=fields, headers={"Last-Event-ID": "end"})
    assert [event.id for event in rest] == [event.id for event in whole][2:]
    assert (done.status_code, done.content) == (204, b"")
