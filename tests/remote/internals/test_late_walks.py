"""A server that never ends a walk is left some time after the deadline."""

import anyio
import pytest

from airw import Corpus
from airw.embedders import MissingEmbedder
from airw.errors import EmbedderError, RemoteError
from airw.policies import LinkWalk
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
        await store.apply([put("a", "keys")])
        corpus = Corpus("notes", store, MissingEmbedder("e", 4, EmbedderError("nothing embeds here")))
        with serve(EndlessServer(app([corpus]), event)) as server:
            async with RemoteCorpus(server.url, "notes") as remote:
                endless = remote.traverse("", policy=LinkWalk(roots=["a"]), timeout=0.1)
                with anyio.fail_after(PATIENCE), pytest.raises(RemoteError, match="walks on after the deadline"):
                    await anext(endless)
                assert endless.summary.stop == "failed"
        assert server.connections_left == 0
