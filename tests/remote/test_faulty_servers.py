"""What servers can do wrong, and how a corpus on them tells it."""

import json
import random
from contextlib import asynccontextmanager

import anyio
import httpx
import numpy as np
import pytest

from airw import Corpus, discover, traverse
from airw.discovery import FederatedCorpus
from airw.embedders import MissingEmbedder
from airw.errors import (
    ArgumentError,
    CorpusNotFound,
    EmbedderError,
    RemoteError,
    SourceError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
)
from airw.policies import LinkWalk
from airw.protocols import (
    Best,
    Change,
    Counts,
    Edges,
    Ends,
    Fed,
    Names,
    Rank,
    Records,
    Vectors,
    VectorsOf,
    ask,
    ask_all,
)
from airw.protocols.wire import pack_array
from airw.remote import RemoteCorpus, Timeouts, corpus as corpus_module
from airw.serving import app
from airw.stores import MemoryStore
from airw.testing.changes import put
from tests.support.waiting import PATIENCE

TOKEN = "correct-horse-battery"
EMBEDDER = MissingEmbedder("e", 4, EmbedderError("nothing embeds here"))


class FickleServer:
    """An application that answers as another one does, but for the answers that are planned."""

    def __init__(self, application):
        self.application = application
        self.planned = []
        self.requests = []

    async def __call__(self, scope, receive, send):
        self.requests.append((scope["path"], {key.decode(): value.decode() for key, value in scope["headers"]}))
        answer = self.planned.pop(0) if self.planned else None
        if answer is None:
            await self.application(scope, receive, send)
            return
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        pairs = [(key.encode(), value.encode()) for key, value in headers.items()]
        await send({"type": "http.response.start", "status": status, "headers": pairs})
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        await send({"type": "http.response.body", "body": content})


@asynccontextmanager
async def open_fickle(**options):
    """Yield a remote corpus and its server, on which the next answers can be planned."""
    async with MemoryStore() as store:
        await store.apply(Change([put("a", "rotate the keys"), put("b", "bake bread")]))
        server = FickleServer(app([Corpus("notes", store, EMBEDDER)]))
        async with (
            httpx.AsyncClient(transport=httpx.ASGITransport(server)) as client,
            RemoteCorpus("http://localhost", "notes", client=client, **options) as corpus,
        ):
            server.requests.clear()
            yield corpus, server


def answer(*values):
    return 200, {}, {"answers": values}


def problem(status, error, detail="no", **headers):
    return status, headers, {"error": error, "status": status, "detail": detail}


# --- answers that cannot be used -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "told"),
    [
        ((200, {}, b"<html>hello"), "answered with '<html>hello', which is not JSON"),
        ((200, {}, b""), "answered with 'nothing', which is not JSON"),
        ((200, {}, b"[" * 100_000), "which is not JSON"),
        ((200, {}, b"9" * 5_000), "which is not JSON"),
        ((200, {}, b"null"), "cannot be used: None is not a list"),
        (answer([["a"]]), "Names was answered about 1 of 2"),
        (answer(), "the message was answered about 0 of 1"),
        (answer([["a"], []], []), "the message was answered about 2 of 1"),
        (answer([1, 2]), "1 is not a list"),
        (answer([["a"], [7]]), "7 is not a string"),
        (answer("a" * 10_000), "is not a list"),
        ((200, {"content-encoding": "gzip"}, b"\x1f\x8b"), "in the encoding 'gzip'"),
        (
            (302, {"location": "http://elsewhere.example/x"}, b""),
            "answered 302 and points to 'http://elsewhere.example/x'",
        ),
        ((404, {}, b"<html>"), "answered 404: an HTML page"),
        (
            (401, {}, {"detail": "send a token", "error": "AirwError"}),
            "answered 401: send a token; pass a token that it accepts as token=...",
        ),
        ((500, {}, {"detail": "one\nline \x1b[2J\u202e"}), r"answered 500: one line \u001b[2J\u202e"),
    ],
)
async def test_an_answer_that_cannot_be_used_is_an_error_that_says_so(planned, told):
    async with open_fickle() as (corpus, server):
        server.planned = [planned]
        with pytest.raises(RemoteError) as error:
            await ask(corpus.store, Names(["a", "b"]))
        assert told in str(error.value)
        assert str(error.value).startswith("corpus 'notes' at http://localhost ")
        assert len(str(error.value)) < 700
        assert len(server.requests) == 1


async def test_an_answer_that_is_too_long_is_cut_and_refused(monkeypatch):
    async with open_fickle() as (corpus, server):
        monkeypatch.setattr("airw.remote.calls._LARGEST_ANSWER", 1_000)  # not 128 MB
        server.planned = [answer(["x" * 1_000])]
        with pytest.raises(RemoteError, match="answered with more than 1,000 bytes; ask for less at once"):
            await ask(corpus.store, Names(["a"]))


EMPTY = {"shape": [0], "dtype": "<f4", "base64": ""}


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ({"shape": [1], "dtype": "<f4", "base64": "AAAA"}, "does not have the shape"),
        ({"shape": [1 << 39], "dtype": "<f4", "base64": ""}, "does not have the shape"),
        ({"shape": [1], "dtype": "<i8", "base64": ""}, "is not an array"),
        ({"shape": [1], "dtype": "<f4", "base64": "%%"}, "not in base64"),
        (EMPTY, "Rank was answered about 0 of 1"),
    ],
)
async def test_numbers_that_do_not_fit_are_refused(scores, told):
    async with open_fickle() as (corpus, server):
        server.planned = [answer([[["x"], ["a"], scores, None]])]
        with pytest.raises(RemoteError, match=told):
            await ask(corpus.store, Rank(np.eye(1, 4, dtype=np.float32), records=["x"]))


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([[[]], [[["x"], ["a"], EMPTY, None]], []], "Rank was answered about 0 of 1"),
        ([[[]], [[["x"], ["a"], pack_array(np.ones(1)), None]], []], "Records was answered about 0 of 1"),
        ([[[]], [], []], "Rank was answered about 0 of 1"),
        ([[], [], []], "Edges was answered about 0 of 1"),
    ],
)
async def test_a_chain_that_is_answered_with_other_lengths_is_refused(answers, told):
    edges = Edges(["a"])
    scores = Fed(Rank(np.eye(1, 4, dtype=np.float32), among=()), Ends(edges))
    async with open_fickle() as (corpus, server):
        server.planned = [answer(*answers)]
        with pytest.raises(RemoteError, match=told):
            await ask_all(corpus.store, edges, scores, Fed(Records(()), Best(scores)))


async def test_hits_with_scores_that_are_no_numbers_are_refused():
    nan = {"shape": [1], "dtype": "<f8", "base64": "AAAAAAAA+H8="}
    async with open_fickle() as (corpus, server):
        server.planned = [answer([[["x"], ["a"], nan, None]])]
        with pytest.raises(RemoteError, match="a number that is not finite"):
            await ask(corpus.store, Rank(["keys"], 5))


WIDE = pack_array(np.zeros((1, 5), np.float32))
INFINITE = pack_array(np.array([[np.inf, 0, 0, 0]], np.float32))
HALF_A_ROW = pack_array(np.array([[np.nan, 0, 0, 0]], np.float32))


@pytest.mark.parametrize(
    ("request_", "planned", "told"),
    [
        (Vectors(["a"]), WIDE, "Vectors was answered with vectors of 5 numbers, and those here have 4"),
        (Vectors(["a"]), INFINITE, "Vectors was answered with a number that is not finite"),
        (Vectors(["a"]), HALF_A_ROW, "Vectors was answered with a number that is not finite"),
        (VectorsOf(["a"]), [[["x"]], WIDE], "VectorsOf was answered with vectors of 5 numbers"),
        (VectorsOf(["a"]), [[["x"]], HALF_A_ROW], "not finite"),
    ],
)
async def test_vectors_of_another_width_or_not_finite_are_refused(request_, planned, told):
    async with open_fickle() as (corpus, server):
        server.planned = [answer(planned)]
        with pytest.raises(RemoteError, match=told) as error:
            await ask(corpus.store, request_)
        assert "corpus 'notes' at http://localhost" in str(error.value)


async def test_what_does_not_describe_a_corpus_is_refused():
    async with open_fickle() as (corpus, server):
        server.planned = [(200, {}, {"hello": 1})]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server)) as client:
            with pytest.raises(RemoteError, match="it does not describe a corpus"):
                await RemoteCorpus.open("http://localhost", corpus.name, client=client)


# --- a server that is upgraded or changed -----------------------------------------------------------------------------

UPGRADED = {"airw-api": "2, 3"}
OTHER_VERSION = r"corpus 'notes' at http://localhost speaks version 2, 3 of the API, and this library 1$"


async def test_a_server_of_another_version_is_refused():
    async with open_fickle() as (corpus, server):
        server.planned = [(200, UPGRADED, {"corpus": 1})]
        async with httpx.AsyncClient(transport=httpx.ASGITransport(server)) as client:
            with pytest.raises(RemoteError, match=OTHER_VERSION):
                await RemoteCorpus.open("http://localhost", corpus.name, client=client)


@pytest.mark.parametrize("planned", [(200, UPGRADED, {"result": 5}), (404, UPGRADED, b"moved"), (503, UPGRADED, b"")])
async def test_a_server_that_was_upgraded_under_an_open_corpus_is_refused(planned):
    async with open_fickle() as (corpus, server):
        assert (await ask(corpus.store, Counts()))["artifacts"] == 2
        server.requests.clear()
        server.planned = [planned, planned, (200, UPGRADED | {"content-type": "text/event-stream"}, b"event: odd\n\n")]
        with pytest.raises(RemoteError, match=OTHER_VERSION):
            await ask(corpus.store, Counts())
        with pytest.raises(RemoteError, match=OTHER_VERSION):
            await corpus.upsert({"c": "text"})
        with pytest.raises(RemoteError, match=OTHER_VERSION):
            await anext(corpus.traverse("", policy=LinkWalk(roots=["a"])))
        assert len(server.requests) == 3
        server.planned = [(200, {"airw-api": "2, 1"}, {"answers": [{"artifacts": 7}]})]  # it still speaks ours
        assert await ask(corpus.store, Counts()) == {"artifacts": 7}


@pytest.mark.parametrize("lacks", ["policy", "parameter"])
async def test_a_walk_with_a_policy_that_the_server_lacks_is_walked_here(lacks):
    async with open_fickle() as (corpus, server), httpx.AsyncClient(transport=httpx.ASGITransport(server)) as client:
        answered = await client.post("http://localhost/store/describe", json={"corpus": "notes"})
        description = answered.json()
        if lacks == "policy":
            del description["policies"]["link-walk"]
        else:
            description["policies"]["link-walk"].remove("weighted")
        server.planned = [(200, {}, description)]
        older = await RemoteCorpus.open("http://localhost", "notes", client=client)
        policy, found = LinkWalk(roots=["a"]), []
        for each in (corpus, older):
            server.requests.clear()
            found.append([hit.to_dict() async for hit in each.traverse("", policy=policy)])
            found.append([path for path, _ in server.requests])
        here, paths, there, older_paths = found
        assert there == here
        assert paths == ["/traverse"]
        assert {*older_paths} == {"/store/read"}


# --- errors that keep their type -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "kind"),
    [
        (problem(400, "ArgumentError"), ArgumentError),
        (problem(503, "StoreCorrupt"), StoreCorrupt),
        (problem(409, "StoreBusy"), StoreBusy),
        (problem(403, "AirwError"), RemoteError),
        (problem(400, "KeyboardInterrupt"), RemoteError),
        (problem(400, "UnknownFieldWarning"), RemoteError),
        (problem(400, "os"), RemoteError),
        (problem(400, 7), RemoteError),
    ],
)
async def test_an_error_has_the_type_that_it_had_on_the_server(planned, kind):
    async with open_fickle() as (corpus, server):
        server.planned = [planned]
        with pytest.raises(kind) as error:
            await ask(corpus.store, Counts())
        assert type(error.value) is kind or isinstance(error.value, RemoteError)
        assert len(server.requests) == 1


async def test_a_server_that_refuses_arguments_does_not_end_the_work_of_others():
    async with open_fickle() as (bad, server), MemoryStore() as store:
        await store.apply(Change([put("c", "rotate the keys")]))
        good = Corpus("good", store, EMBEDDER)
        for error in ("ArgumentError", "FilterError"):
            server.planned = [problem(400, error)] * 99
            result = await discover([good, bad], "rotate the keys", mode="lexical")
            assert result.ids == ["c"]
            assert result.signals["per_source"]["notes"]["status"] == "failed"
            server.planned = [problem(400, error)] * 99
            walk = traverse("", FederatedCorpus([good, bad]), policy=LinkWalk(roots=[("good", "c"), ("notes", "a")]))
            assert [hit.key async for hit in walk] == [("good", "c")]
            assert [lost.name for lost in walk.summary.lost] == ["notes"]


async def test_a_token_is_sent_in_a_header_and_appears_nowhere_else():
    async with open_fickle(token=TOKEN) as (corpus, server):
        await ask(corpus.store, Counts())
        assert server.requests[0][1]["authorization"] == f"Bearer {TOKEN}"
        assert server.requests[0][1]["accept-encoding"] == "identity"
        for planned in (
            problem(401, "AirwError", f"not {TOKEN}"),
            (302, {"location": f"http://x.example/{TOKEN}"}, b""),
        ):
            server.planned = [planned]
            with pytest.raises(RemoteError) as error:
                await ask(corpus.store, Counts())
            assert TOKEN not in repr(error.value) + str(error.value.__cause__) + repr(corpus) + repr(corpus.store)
            assert "***" in str(error.value)


# --- walks -----------------------------------------------------------------------------------------------------------

HIT = {"id": "a", "depth": 0, "parent": None, "score": 0.5, "artifact_id": "a", "surface_kind": "chunk", "text": "x"}
HIT |= {"metadata": {}, "source": "notes", "surface_index": 0}


def stream(*events, **headers):
    text = "".join(f"event: {kind}\ndata: {json.dumps(data)}\n\n" for kind, data in events)
    return 200, {"content-type": "text/event-stream", **headers}, text.encode()


@pytest.mark.parametrize(
    ("planned", "kind", "told"),
    [
        (stream(("hit", HIT)), RemoteError, "ended the stream of a walk before the end of the walk"),
        (stream(("error", {"error": "StoreCorrupt", "detail": "damaged"})), StoreCorrupt, "damaged"),
        (stream(("error", ["odd"])), RemoteError, "it is not an object"),
        (stream(("error", {})), RemoteError, "no reason given"),
        (stream(*[("hit", HIT)] * 100), RemoteError, "more nodes than its budget of 64"),
        (stream(("hit", {**HIT, "score": "high"})), RemoteError, "'high' is not a number"),
        (stream(("hit", {**HIT, "metadata": []})), RemoteError, "[] is not an object"),
        (stream(("summary", {"stop": "bored"})), RemoteError, "does not stop for the reason 'bored'"),
        (stream(("progress", {"step": -1e9})), RemoteError, "is not a whole number"),
        (stream(("edge", {"source": "a", "target": 7})), RemoteError, "7 is neither an id nor a pair"),
        ((200, {"content-type": "text/html"}, b"<html>"), RemoteError, "answered 'text/html', not a stream of events"),
        (stream(**{"content-encoding": "gzip"}), RemoteError, "not a stream of events"),
        (problem(404, "CorpusNotFound"), CorpusNotFound, "no"),
        ((302, {"location": "http://elsewhere.example"}, b""), RemoteError, "points to"),
    ],
)
async def test_a_walk_whose_stream_cannot_be_used_fails_and_says_so(planned, kind, told):
    async with open_fickle() as (corpus, server):
        server.planned = [planned]
        walk = corpus.traverse("", policy=LinkWalk(roots=["a"]))
        with pytest.raises(kind) as error:
            [hit async for hit in walk]
        assert told in str(error.value)
        assert walk.summary.stop == "failed"
        assert [hit.artifact_id for hit in walk.ranking] == ["a"] * walk.summary.emitted
        assert walk.summary.emitted <= 65
        assert len(server.requests) == 1
        assert [hit async for hit in walk] == []


async def test_kinds_of_events_that_are_not_known_are_passed_over():
    async with open_fickle() as (corpus, server):
        server.planned = [stream(("aura", {}), ("hit", HIT), ("summary", {"stop": "odd"}))]
        walk = corpus.traverse("", policy=LinkWalk(roots=["a"]))
        assert (await anext(walk)).artifact_id == "a"
        await walk.aclose()
        assert (walk.summary.stop, walk.summary.truncated) == ("closed", False)


async def test_a_walk_is_read_as_hits_or_as_events():
    async with open_fickle() as (corpus, _):
        walk = corpus.traverse("", policy=LinkWalk(roots=["a"]))
        assert (await anext(walk)).artifact_id == "a"
        with pytest.raises(RuntimeError, match="is being read already"):
            walk.events()
        await walk.aclose()
        walk = corpus.traverse("", policy=LinkWalk(roots=["a"]))
        events = walk.events()
        with pytest.raises(RuntimeError, match="is read as events"):
            await anext(walk)
        with pytest.raises(ZeroDivisionError):
            await events.athrow(ZeroDivisionError())
        assert walk.summary.stop == "closed"


async def test_hits_that_arrived_with_a_failure_come_before_it():
    failing = stream(("hit", HIT), ("error", {"error": "StoreCorrupt", "detail": "damaged"}))
    async with open_fickle() as (corpus, server):
        for form in ("hits", "events"):
            server.planned = [failing]
            walk = corpus.traverse("", policy=LinkWalk(roots=["a"]))
            reader = walk if form == "hits" else walk.events()
            first = [await anext(reader)] if form == "hits" else await reader.read_batch()
            assert len(first) == 1
            assert walk.summary is None
            with pytest.raises(StoreCorrupt, match="damaged"):
                await anext(reader)
            assert walk.summary.stop == "failed"
            assert [each async for each in reader] == []


async def test_a_node_whose_parent_was_not_sent_is_refused():
    async with open_fickle() as (corpus, server):
        server.planned = [stream(("hit", {**HIT, "depth": 1, "parent": "z"}))]
        with pytest.raises(RemoteError, match="the node 'a' has the parent 'z', which was not sent"):
            await anext(corpus.traverse("", policy=LinkWalk(roots=["a"])))


async def test_a_walk_with_wrong_arguments_is_refused_by_the_call():
    async with open_fickle() as (corpus, _):
        for options in ({"node_budget": -1}, {"policy": "beam"}, {"timeout": -1}, {"limits": 5}, {"max_depth": 0.5}):
            with pytest.raises(ArgumentError):
                corpus.traverse("keys", **options)


# --- sending again ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        (502, {}, b""),
        (503, {}, b"busy"),
        problem(429, "AirwError", **{"retry-after": "0"}),
        problem(503, "StoreBusy"),
    ],
    ids=repr,
)
async def test_a_call_is_sent_again_after_a_fault_that_may_pass(fault, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    async with open_fickle() as (corpus, server):
        server.planned = [fault, fault]
        assert (await ask(corpus.store, Counts()))["artifacts"] == 2
        assert len(server.requests) == 3
        server.planned = [fault] * 3
        with pytest.raises(StoreError):
            await ask(corpus.store, Counts())
        assert len(server.requests) == 6


@pytest.mark.parametrize(
    "fault", [(500, {}, b""), (400, {}, b""), problem(503, "EmbedderUnavailable"), httpx.ReadTimeout("")]
)
async def test_a_call_is_not_sent_again_if_that_would_not_help(fault):
    async with open_fickle() as (corpus, server):
        server.planned = [fault]
        with pytest.raises((RemoteError, EmbedderError)):
            await ask(corpus.store, Counts())
        assert len(server.requests) == 1


async def test_a_change_is_sent_once():
    async with open_fickle() as (corpus, server):
        server.planned = [httpx.ReadError("reset")]
        with pytest.raises(RemoteError):
            await corpus.upsert({"c": "text"})
        assert len(server.requests) == 1


async def test_a_change_waits_while_others_change_the_corpus(monkeypatch):
    monkeypatch.setattr(corpus_module, "_PAUSE", 0.0)
    busy = problem(409, "StoreBusy", "corpus 'notes' is being changed by others")
    async with open_fickle() as (corpus, server):
        server.planned = [busy, busy, (200, {}, {"added": 1, "updated": 0, "unchanged": 0})]
        assert (await corpus.upsert({"c": "text"})).added == 1
        server.planned = [busy, (200, {}, {"deleted": 1})]
        assert await corpus.delete(["c"]) == 1
        assert len(server.requests) == 5
        server.planned = [busy, busy]
        for change in (corpus.upsert({"c": "text"}, lock_timeout=0), corpus.delete(["c"], lock_timeout=0)):
            with pytest.raises(StoreBusy, match="is being changed by others"):
                await change
        assert len(server.requests) == 7
        with pytest.raises(ArgumentError, match="lock_timeout must be"):
            await corpus.delete(["c"], lock_timeout=-1)


async def test_an_item_that_cannot_be_indexed_ends_an_upsert_or_is_reported():
    wrong, right = problem(400, "SourceError", "it has no title"), (200, {}, {"added": 0, "updated": 1, "unchanged": 0})
    async with open_fickle() as (corpus, server):
        server.planned = [wrong]
        with pytest.raises(SourceError, match="it has no title"):
            await corpus.upsert({"a": {}, "b": "text"})
        server.planned = [wrong, right]
        report = await corpus.upsert({"a": {}, "b": "text"}, on_error="skip")
        assert (report.added, report.updated, [each.item for each in report.problems]) == (0, 1, ["a"])
        assert report.problems[0].reason == "corpus 'notes' at http://localhost: it has no title"
        server.planned = [problem(403, "AirwError")]
        with pytest.raises(RemoteError):
            await corpus.upsert({"a": {}}, on_error="skip")
        with pytest.raises(ArgumentError, match="on_error must be one of"):
            await corpus.upsert({"a": {}}, on_error="odd")


async def test_all_attempts_together_take_no_longer_than_the_total():
    async with open_fickle(timeouts=Timeouts(total=0.2)) as (corpus, server):
        server.planned = [(503, {"retry-after": "3600"}, b"")]
        with anyio.fail_after(PATIENCE), pytest.raises(RemoteError, match=r"did not answer within total=0\.2 s"):
            await ask(corpus.store, Counts())
