"""A server that never ends a walk is left some time after the deadline."""

import anyio
import httpx
import pytest
from anyio.lowlevel import checkpoint

from airw import Corpus
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError, RemoteError
from airw.policies import LinkWalk
from airw.protocols import Change
from airw.remote import RemoteCorpus, walk
from airw.serving import app
from airw.stores import MemoryStore
from airw.testing.changes import put
from tests.support.serving import serve
from tests.support.waiting import PATIENCE

HEARTBEAT = b": \n\n"
PROGRESS = b'event: progress\ndata: {"type": "progress", "step": 1, "committed": 0, "edges": 0, "waiting": 0}\n\n'


class EndlessServer:
    """An application whose walks consist of one event, again and again."""

    def __init__(self, application, event):
        self.application, self.event = application, event

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] != "/traverse":
            await self.application(scope, receive, send)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with anyio.create_task_group() as group:
            group.start_soon(self._beat, send)
            while (await receive())["type"] != "http.disconnect":
                pass
            group.cancel_scope.cancel()

    async def _beat(self, send):
        while True:
            await send({"type": "http.response.body", "body": self.event, "more_body": True})
            await anyio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("event", [HEARTBEAT, PROGRESS], ids=["heartbeat", "progress"])
async def test_a_walk_ends_soon_after_its_deadline_whatever_the_server_does(event, monkeypatch):
    monkeypatch.setattr(walk, "_LATENESS", 0.1)
    async with MemoryStore() as store:
        await store.apply(Change([put("a", "keys")]))
        corpus = Corpus("notes", store, MissingEmbedder("e", 4, EmbedderError("nothing embeds here")))
        with serve(EndlessServer(app([corpus]), event)) as server:
            async with RemoteCorpus(server.url, "notes") as remote:
                endless = remote.traverse("", policy=LinkWalk(roots=["a"]), timeout=0.1)
                with anyio.fail_after(PATIENCE), pytest.raises(RemoteError, match="walks on after the deadline"):
                    await anext(endless)
                assert endless.summary.stop == "failed"
        assert server.connections_left == 0


class Flood(httpx.AsyncByteStream):
    """A stream whose next piece is there already, and takes longer to read than to receive."""

    def __init__(self, piece):
        self.piece = piece

    async def __aiter__(self):
        while True:
            await checkpoint()
            yield self.piece


class FloodingServer(httpx.AsyncBaseTransport):
    """The way to an application whose walks are floods."""

    def __init__(self, application, piece):
        self.others, self.piece = httpx.ASGITransport(application), piece

    async def handle_async_request(self, request):
        if request.url.path != "/traverse":
            return await self.others.handle_async_request(request)
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Flood(self.piece))


FLOODS = {
    "comments": HEARTBEAT * 400_000,
    "progress": PROGRESS * 8_000,
    "unknown events": b"event: news\ndata: {}\n\n" * 40_000,
    "one line": b"data: " + 20_000 * b"x",
}


@pytest.mark.slow
@pytest.mark.parametrize("form", ["hits", "events"])
@pytest.mark.parametrize("piece", FLOODS.values(), ids=[*FLOODS])
async def test_the_time_to_read_a_flood_counts_for_the_deadline(piece, form, monkeypatch):
    monkeypatch.setattr(walk, "_LATENESS", 0.2)
    async with MemoryStore() as store:
        await store.apply(Change([put("a", "keys")]))
        corpus = Corpus("notes", store, MissingEmbedder("e", 4, EmbedderError("nothing embeds here")))
        async with (
            httpx.AsyncClient(transport=FloodingServer(app([corpus]), piece)) as client,
            RemoteCorpus("http://localhost", "notes", client=client) as remote,
        ):
            flooded = remote.traverse("", policy=LinkWalk(roots=["a"]), timeout=0.1)
            reading = flooded if form == "hits" else flooded.events()
            with anyio.fail_after(PATIENCE), pytest.raises(RemoteError):
                async for _ in reading:
                    pass
            assert flooded.summary.stop == "failed"
