"""Walks on a server that is lost while they are read.

The hits so far stay, an error names the server, and neither side keeps anything.
"""

import math
import re
import signal
from contextlib import asynccontextmanager

import httpx
import pytest
from anyio import create_task_group, sleep, to_thread

from airw import build, from_mapping
from airw.errors import RemoteError
from airw.links import extractor_from
from airw.policies import LinkWalk
from airw.remote import RemoteCorpus, Timeouts
from airw.serving import app
from tests.support.adversaries import leaving_nothing
from tests.support.serve_command import refuses, run_serve
from tests.support.served_corpora import make_chain, name_at
from tests.support.serving import files_of, serve, serve_in_process
from tests.support.waiting import skip_time, wait_for, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

ALONG = LinkWalk(roots=[name_at(0)], direction="out", max_depth=None)
# The walk sends three hits, then the store of the server hangs.
HANGING = {"count": 20, "seconds": {"Edges": [0, 0, math.inf]}}
HITS = 3


@asynccontextmanager
async def walk_at(url, *, name="chain", policy=ALONG, **times):
    """Yield a walk of a corpus on a server, and check that its end leaves no task and no file."""
    files = files_of()
    async with leaving_nothing(), RemoteCorpus(url, name, timeouts=Timeouts(**times)) as corpus:
        yield corpus.traverse("keys", policy=policy, node_budget=1_000)
    await wait_for(lambda: files_of() <= files)


async def read_on(walk, hits):
    async for hit in walk:
        hits.append(hit)


async def check_lost(walk, hits, url, told):
    """Read on; check that the hits stay, and that the error says what happened where."""
    with pytest.raises(RemoteError) as error:
        await read_on(walk, hits)
    assert re.match(rf"corpus '(chain|star)' at {re.escape(url)}\b", str(error.value))
    assert told in str(error.value)
    assert (walk.summary.stop, walk.summary.emitted) == ("failed", len(hits))
    assert [hit.artifact_id for hit in walk.ranking] == [hit.artifact_id for hit in hits]
    assert [hit async for hit in walk] == []  # it does not begin again


async def test_a_walk_whose_server_is_killed_keeps_its_hits():
    with serve_in_process("tests.support.served_corpora:chain_app", HANGING) as server:
        async with walk_at(server.url) as walk:
            hits = [await anext(walk) for _ in range(HITS)]
            server.kill()
            await check_lost(walk, hits, server.url, "is it running?")


async def test_a_walk_whose_server_falls_silent_is_given_up_and_ends_there_too():
    """Heartbeats stop: the silence lasts longer than `read`."""
    plan = {**HANGING, "limits": {"heartbeat": 0.05}}
    with serve_in_process("tests.support.served_corpora:chain_app", plan) as server:
        async with walk_at(server.url, read=30) as walk:
            hits = [await anext(walk) for _ in range(HITS)]
            server.pause()
            async with create_task_group() as group:
                group.start_soon(check_lost, walk, hits, server.url, "ReadTimeout")
                for _ in range(40):  # what had come before the silence is read first
                    await sleep(0.005)
                skip_time(31)
        server.resume()
        wait_until(lambda: 'walks_total{stop="disconnected"} 1' in httpx.get(f"{server.url}/metrics").text)


class Garbling:
    """An application that sends garbage from the second hit of a stream on."""

    def __init__(self, application, garbage):
        self.application, self.garbage = application, garbage

    async def __call__(self, scope, receive, send):
        hits = 0

        async def send_garbled(message):
            nonlocal hits
            hits += message.get("body", b"").count(b"event: hit")
            await send({**message, "body": self.garbage} if hits > 1 else message)

        await self.application(scope, receive, send_garbled)


@pytest.mark.parametrize(
    ("garbage", "told"),
    [
        (b"\x00\xff{]garbage\n", "sent an event that cannot be used: its stream is not UTF-8"),
        (b"event: hit\ndata: {]garbage\x1b[2J\n\n", "sent an event that cannot be used: it is not JSON"),
        (b"event: hit\ndata: {}\n\n", "sent an event that cannot be used: None is not a string"),
        (b"<html><script>alert(1)</script></html>\n\n", "ended the stream of a walk before the end of the walk"),
    ],
)
async def test_a_walk_whose_stream_turns_into_garbage_keeps_its_hits(garbage, told):
    corpus = await to_thread.run_sync(make_chain, 20)
    with serve(Garbling(app([corpus]), garbage)) as server:
        async with walk_at(server.url) as walk:
            await check_lost(walk, [await anext(walk)], server.url, told)
        await wait_for(lambda: server.connections == 0)
    assert (server.tasks_left, server.connections_left, corpus.store.running) == ([], 0, 0)


async def test_a_walk_whose_server_is_shut_down_is_told_so(tmp_path):
    """The walk waits for its reader, so it has not ended when the server stops."""
    names = [f"n{at}" for at in range(200)]
    links = extractor_from(lambda name, _: {"next": names[1:] if name == names[0] else []}, id="star")
    file = tmp_path / "star.airw"
    source = from_mapping(dict.fromkeys(names, "keys " * 3_000), name="star", embedder="light", edge_extractor=links)
    async with build(source, store=file):
        pass
    with run_serve(file) as server:
        address = server.url.rstrip("/")
        async with walk_at(address, name="star", policy=LinkWalk(roots=["n0"])) as walk:
            hits = [await anext(walk)]
            server.process.send_signal(signal.SIGTERM)
            await wait_for(lambda: refuses(server.url))
            await check_lost(walk, hits, address, ": the server is going to stop; ask again")
            assert len(hits) < len(names)
            assert await to_thread.run_sync(server.process.wait, 30) == 0
