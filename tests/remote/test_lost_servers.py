"""Corpora on servers that are killed, hang, answer garbage or redirect; nothing leaks."""

import asyncio
import gc
from contextlib import AsyncExitStack, ExitStack

import anyio
import pytest

from airw import Corpus, build, discover, from_mapping, traverse
from airw.discovery import FederatedCorpus, SourceAnswered, discover_stream
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError, RemoteError
from airw.links import extractor_from
from airw.policies import LinkWalk
from airw.protocols import ArtifactIds, Counts, Edges, ask
from airw.remote import RemoteCorpus, Timeouts
from airw.serving import app
from airw.stores import MemoryStore, Wrapper
from airw.testing import ScriptedStore
from tests.support.serving import serve, serve_in_process
from tests.support.waiting import PATIENCE, skip_time, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]
QUERY = "how to rotate the keys"
NAMES = ["good", "hanging", "garbage", "redirecting"]
TIMES = Timeouts(connect=60, read=10_000, total=10_000)


def source(name, links=None):
    """Return twelve notes in a row, each with a link to the next one; `links` adds others."""
    texts = {f"{name}-{at:02}": f"how to rotate the keys of house {at}" for at in range(12)}

    def link(id, _):
        return {"next": [f"{name}-{int(id[-2:]) + 1:02}", *(links or {}).get(id, [])]}

    return from_mapping(texts, name=name, embedder="light", edge_extractor=extractor_from(link, id="next"))


class TurningServer:
    """An application that answers well until it is turned to something else."""

    def __init__(self, application, elsewhere=""):
        self.application, self.elsewhere, self.turn = application, elsewhere, "good"
        self.requests = self.all_requests = 0

    async def __call__(self, scope, receive, send):
        self.all_requests += 1
        if scope["type"] == "lifespan" or self.turn == "good":
            await self.application(scope, receive, send)
            return
        self.requests += 1
        if self.turn == "hanging":
            while (await receive())["type"] != "http.disconnect":
                pass
            return
        headers = [(b"location", f"{self.elsewhere}{scope['path']}".encode())] if self.turn == "redirecting" else []
        await send({"type": "http.response.start", "status": 307 if headers else 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"\x00\xff{]garbage" * 100})


class Servers:
    """A good server and four that go bad, each with a corpus."""

    def __init__(self, stack, corpora, file):
        self.elsewhere = TurningServer(app([corpora[0]]))
        self.elsewhere.turn = "garbage"
        target = stack.enter_context(serve(self.elsewhere))
        self.applications = [TurningServer(app([corpus]), target.url) for corpus in corpora]
        self.threads = [target, *(stack.enter_context(serve(each)) for each in self.applications)]
        self.process = stack.enter_context(serve_in_process("tests.support.serving:serve_files", [str(file)]))
        self.urls = [*(thread.url for thread in self.threads[1:]), self.process.url]

    def turn(self):
        """Turn all but the first one bad."""
        for application, name in zip(self.applications, NAMES, strict=True):
            application.turn = name
        self.process.kill()

    async def end_patience(self):
        """Skip time once no server is asked any more, and one of them hangs."""
        await wait_for(lambda: self.applications[NAMES.index("hanging")].requests)
        asked, quiet = 0, 0
        while quiet < 400:  # turns of the event loop, not seconds
            await anyio.sleep(0.005)
            before, asked = asked, sum(application.all_requests for application in self.applications)
            quiet = quiet + 1 if asked == before else 0
        skip_time(1_000)


async def open_all(stack, tmp_path, links=None):
    """Return the servers, and remote corpora on them; the last one is on the process."""
    file = tmp_path / "killed.airw"
    async with build(source("killed"), store=file):
        pass
    corpora = [await stack.enter_async_context(build(source(name, links), store=MemoryStore())) for name in NAMES]
    servers = Servers(stack.enter_context(ExitStack()), corpora, file)
    remotes = [
        await stack.enter_async_context(RemoteCorpus(url, name, timeouts=TIMES))
        for url, name in zip(servers.urls, [*NAMES, "killed"], strict=True)
    ]
    return servers, corpora, remotes


def check_told(told, statuses):
    """Check what is told about each corpus but the good one."""
    assert statuses == {"hanging": "timeout", "garbage": "failed", "redirecting": "failed", "killed": "failed"}
    assert "which is not JSON" in told["garbage"]
    assert "answered 307 and points to" in told["redirecting"]
    assert "is it running?" in told["killed"]


async def test_a_discovery_says_which_servers_failed(tmp_path):
    tasks = len(asyncio.all_tasks())
    async with AsyncExitStack() as stack:
        servers, corpora, remotes = await open_all(stack, tmp_path)
        assert len((await discover(remotes, QUERY)).signals["per_source"]) == 5
        servers.turn()
        async with discover_stream(remotes, QUERY, source_timeout=5_000, timeout=90_000) as updates:
            async for result in updates:
                if isinstance(result, SourceAnswered) and result.pending == ("hanging",):
                    skip_time(6_000)
        reports = result.signals["per_source"]
        bad = {name: report for name, report in reports.items() if name != "good"}
        errors = {name: report["error"] for name, report in bad.items()}
        check_told(errors, {name: report["status"] for name, report in bad.items()})
        assert reports["good"]["status"] == "ok"
        assert result.ids == (await discover(corpora[:1], QUERY)).ids
        assert servers.elsewhere.requests == 0  # the redirect was not followed
        await wait_for(lambda: len(asyncio.all_tasks()) <= tasks)
    assert all(thread.connections_left == 0 and thread.tasks_left == [] for thread in servers.threads)
    gc.collect()


async def test_a_walk_goes_on_without_servers_that_fail_and_says_which(tmp_path):
    tasks = len(asyncio.all_tasks())
    links = {"good-02": [["garbage", "garbage-00"], ["killed", "killed-00"]], "garbage-00": []}
    async with AsyncExitStack() as stack:
        servers, _, remotes = await open_all(stack, tmp_path, links)
        federated = FederatedCorpus(remotes, member_timeout=500)
        roots = [(name, f"{name}-00") for name in [*NAMES, "killed"]]
        hits = []
        walk = traverse(QUERY, federated, policy=LinkWalk(roots=roots, max_depth=9))
        async with anyio.create_task_group() as group, walk:
            async for hit in walk:
                hits.append(hit.key)
                if len(hits) == len(roots):
                    servers.turn()
                    group.start_soon(servers.end_patience)
        lost = {each.name: each for each in walk.summary.lost}
        check_told(
            {name: each.error for name, each in lost.items()}, {name: each.status for name, each in lost.items()}
        )
        assert walk.summary.truncated
        assert set(hits) >= {("good", f"good-{at:02}") for at in range(10)}
        assert servers.elsewhere.requests == 0
        await wait_for(lambda: len(asyncio.all_tasks()) <= tasks)
    assert all(thread.connections_left == 0 and thread.tasks_left == [] for thread in servers.threads)


async def test_a_walk_on_a_server_that_is_killed_fails_and_says_so(tmp_path):
    file = tmp_path / "killed.airw"
    async with build(source("killed"), store=file):
        pass
    with serve_in_process("tests.support.serving:serve_files", [str(file)]) as server:
        async with RemoteCorpus(server.url, "killed", timeouts=TIMES) as corpus:
            assert await corpus.search(QUERY, k=1)
            server.kill()
            with pytest.raises(RemoteError, match="is it running"):
                await corpus.search(QUERY, k=1)
            with pytest.raises(RemoteError, match="is it running"):
                await anext(corpus.traverse(QUERY))


class Hanging(Wrapper):
    """A store that never answers some requests."""

    def __init__(self, store, hangs):
        super().__init__(store)
        self._hangs = hangs

    async def read(self, *requests):
        if any(map(self._hangs, requests)):
            await anyio.sleep_forever()
        return await super().read(*requests)


def is_second_step(request):
    return isinstance(request, Edges) and "slow-01" in request.ids


async def hanging_corpus(stack, hangs):
    """Return a corpus, and its store, which never answers some requests."""
    corpus = await stack.enter_async_context(build(source("slow"), store=MemoryStore()))
    store = ScriptedStore(Hanging(corpus.store, hangs))
    return type(corpus)(corpus.name, store, corpus.embedder), store


async def read(walk, hits):
    async for hit in walk:
        hits.append(hit)


async def test_a_cancelled_call_closes_its_connection_and_the_next_one_works():
    async with AsyncExitStack() as stack:
        corpus, store = await hanging_corpus(stack, lambda request: isinstance(request, Counts))
        with serve(app([corpus])) as server:
            async with RemoteCorpus(server.url, "slow", timeouts=TIMES) as remote:
                async with anyio.create_task_group() as group:
                    group.start_soon(ask, remote.store, Counts())
                    await wait_for(lambda: store.running)
                    group.cancel_scope.cancel()
                await wait_for(lambda: server.connections == 0)
                assert len(await ask(remote.store, ArtifactIds())) == 12
                assert server.connections == 1  # it stays open for the next call
        assert (server.connections_left, server.tasks_left) == (0, [])


async def test_a_walk_that_is_closed_or_cancelled_stops_on_its_server():
    async with AsyncExitStack() as stack:
        corpus, store = await hanging_corpus(stack, is_second_step)
        with serve(app([corpus])) as server:
            async with RemoteCorpus(server.url, "slow", timeouts=TIMES) as remote:
                walk = remote.traverse(QUERY, policy=LinkWalk(roots=["slow-00"], max_depth=None))
                async with walk:
                    first = await anext(walk)
                assert first.artifact_id == "slow-00"
                assert (walk.summary.stop, walk.summary.emitted) == ("closed", 1)
                await wait_for(lambda: server.connections == 0)
                walk = remote.traverse(QUERY, policy=LinkWalk(roots=["slow-00"], max_depth=None))
                hits = []
                async with anyio.create_task_group() as group:
                    group.start_soon(read, walk, hits)
                    await wait_for(lambda: len(hits) == 2 and store.running)
                    group.cancel_scope.cancel()
                assert (walk.summary.stop, walk.summary.emitted) == ("closed", 2)
                await wait_for(lambda: server.connections == 0 and not store.running)
                assert store.calls[Edges] <= 4  # two of each walk
        assert (server.connections_left, server.tasks_left) == (0, [])


async def test_no_proxy_of_the_environment_sees_a_request(monkeypatch):
    requests = []

    async def watch(scope, receive, send):
        requests.append(scope)

    corpus = Corpus("notes", MemoryStore(), MissingEmbedder("e", 4, EmbedderError("nothing embeds here")))
    with serve(app([corpus])) as server, serve(watch, lifespan="off") as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
            monkeypatch.setenv(name.upper(), proxy.url)
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        async with RemoteCorpus(server.url, "notes", token="correct-horse-battery") as remote:
            assert (await ask(remote.store, Counts()))["artifacts"] == 0
    assert requests == []


async def test_another_task_can_close_a_walk():
    async with AsyncExitStack() as stack:
        corpus, store = await hanging_corpus(stack, is_second_step)
        with serve(app([corpus])) as server:
            async with RemoteCorpus(server.url, "slow", timeouts=TIMES) as remote:
                walk = remote.traverse(QUERY, policy=LinkWalk(roots=["slow-00"]))
                hits = []
                with anyio.fail_after(PATIENCE):
                    async with anyio.create_task_group() as group:
                        group.start_soon(read, walk, hits)
                        await wait_for(lambda: hits and store.running)
                        with pytest.raises(RuntimeError, match="another task is waiting"):
                            await anext(walk)
                        await walk.aclose()
                assert walk.summary.stop == "closed"
                assert await walk.aclose() is None
                assert [hit async for hit in walk] == []
