"""Servers that restart, are killed, or are gone, and what was saved before."""

import asyncio
import gc
import os
import re
import signal
from functools import partial

import anyio
import numpy as np
import pytest

from airw import traverse
from airw.embedders import HashingEmbedder
from airw.errors import StoreBusy, StoreError
from airw.policies import Beam
from airw.protocols import ArtifactIds, Change, Config, Counts, RecordsOf, VectorsOf, ask
from airw.stores import PostgresStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.support.postgres import PostgresServer, fresh_name
from tests.support.relay import PostgresRelay
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'airw'"


@pytest.fixture(scope="module")
def server():
    """A server of these tests alone, as they kill it."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
async def store(server):
    name = fresh_name("fault")
    async with PostgresStore(server.dsn(), name) as store:
        yield store
    await PostgresStore.remove(server.dsn(), name)


def change(number):
    """An artifact of three records."""
    id = f"a{number:05}"
    records = [Record(Record.make_id(id, "document", i), id, "document", i, f"text {number} {i}") for i in range(3)]
    return ArtifactChange(LedgerEntry(id, "v1", "e", "s"), records, np.eye(3, 8, dtype=np.float32))


class Opened:
    """A store as an open corpus."""

    def __init__(self, store):
        self.name, self.store, self.embedder = "faults", store, HashingEmbedder(8)


def is_one_line(error):
    return len(str(error)) < 500 and str(error) == " ".join(str(error).split())


async def test_reads_go_on_over_a_restart(server, store):
    await store.apply(Change([change(1)]))
    await ask(store, Counts())
    server.restart()
    assert (await ask(store, Counts()))["artifacts"] == 1
    for call in (partial(ask, store, Counts()), partial(store.apply, Change(config={"a": 1}))):
        server.kill()
        await anyio.sleep(0.05)  # the connections notice
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as group:
                group.start_soon(call)  # it waits a little for the server
                await anyio.sleep(0.3)
                server.start()
    server.restart()
    await store.apply(Change(config={"a": 2}))
    assert await ask(store, ArtifactIds()) == ["a00001"]


async def test_a_read_whose_connection_ends_midway_is_made_once_more(server, store):
    calls = []

    async def work(connection):
        calls.append(await connection.fetchval("SELECT pg_backend_pid()"))
        if len(calls) == 1:
            await server.execute(TERMINATE)
        return await connection.fetchval("SELECT 7")

    assert await store._database.read(work) == 7
    assert len(set(calls)) == 2


async def test_a_read_that_fails_twice_is_a_typed_error(server, store):
    calls = []

    async def work(connection):
        calls.append(await connection.fetchval("SELECT 1"))
        await server.execute(TERMINATE)
        return await connection.fetchval("SELECT 7")

    with pytest.raises(StoreError, match="the connection was lost") as caught:
        await store._database.read(work)
    assert len(calls) == 2
    assert is_one_line(caught.value)


async def test_a_write_whose_connection_ends_is_undone_and_never_repeated(server, store):
    calls = []

    async def work(connection):
        calls.append(await connection.execute("INSERT INTO setting VALUES ('config', '', '{}')"))
        await server.execute(TERMINATE)
        await connection.execute("SELECT 1")

    with pytest.raises(StoreError, match="the connection was lost"):
        await store._database.write(work)
    assert len(calls) == 1
    assert await store._database.read(lambda c: c.fetchval("SELECT count(*) FROM setting WHERE kind = 'config'")) == 0
    await store.apply(Change(config={"a": 1}))


@pytest.mark.parametrize("is_saved", [False, True])
async def test_a_connection_lost_at_the_commit_leaves_all_or_nothing(server, store, is_saved):
    name = store._database.schema.removeprefix("airw_")
    async with (
        PostgresRelay(server).run() as relay,
        PostgresStore(relay.dsn(parameters="?sslmode=disable"), name) as far,
    ):
        await ask(far, Counts())
        relay.cut_at, relay.cut_after = b"COMMIT", is_saved
        with pytest.raises(StoreError, match="whole or not at all, so write them again") as caught:
            await far.apply(Change([change(1), change(2)]))
        assert is_one_line(caught.value)
        relay.cut_at = None
        assert await ask(far, ArtifactIds()) == (["a00001", "a00002"] if is_saved else [])
        await far.apply(Change([change(1), change(2)]))
        assert (await ask(far, Counts()))["records"] == 6


@pytest.fixture
async def without_lost_futures():
    """Ignore a future that asyncpg forgets when a COPY begins on a lost connection."""
    loop = asyncio.get_running_loop()
    handler = loop.get_exception_handler()

    def handle(loop, context):
        if "connection was closed in the middle" not in str(context.get("exception")):
            handler(loop, context)

    loop.set_exception_handler(handle)
    yield
    gc.collect()
    await asyncio.sleep(0)
    loop.set_exception_handler(handler)


async def test_a_kill_of_the_server_loses_no_acknowledged_write(server, store, without_lost_futures):
    saved, unknown, errors = [], [], []
    enough, killed = anyio.Event(), anyio.Event()

    async def write(first):
        for number in range(first, first + 1_000):
            if killed.is_set():
                return
            try:
                await store.apply(Change([change(number)]))
            except StoreError as error:
                errors.append(error)
                unknown.append(number)
                return
            saved.append(number)
            if len(saved) > 30:
                enough.set()

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for first in (0, 10_000, 20_000):
                group.start_soon(write, first)
            await enough.wait()
            server.kill()
            killed.set()
            await anyio.sleep(0.1)
            server.start()
    assert all(map(is_one_line, errors))
    ids = {int(id[1:]) for id in await ask(store, ArtifactIds())}
    assert set(saved) <= ids <= {*saved, *unknown}
    wanted = sorted(f"a{number:05}" for number in ids)
    assert [len(records) for records in await ask(store, RecordsOf(wanted))] == [3] * len(wanted)
    assert (await ask(store, Counts()))["records"] == 3 * len(wanted)
    assert len((await ask(store, VectorsOf(wanted))).vectors) == 3 * len(wanted)


async def test_a_walk_over_a_server_that_is_gone_fails_in_one_line(server, store, monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._database._RESTART_WITHIN", 0.3)
    await store.apply(Change([change(number) for number in range(20)]))
    async with PostgresRelay(server).run() as relay:
        name = store._database.schema.removeprefix("airw_")
        async with PostgresStore(relay.dsn(login="postgres:hunter2", parameters="?sslmode=disable"), name) as far:
            assert [hit async for hit in traverse("text 7", Opened(far), policy=Beam())]
            relay.refuses = True
            relay.cut()
            with anyio.fail_after(PATIENCE), pytest.raises(StoreError, match=r"cannot be reached|was lost") as caught:
                async for _ in traverse("text 7", Opened(far), policy=Beam()):
                    pass
            assert is_one_line(caught.value)
            assert "hunter2" not in str(caught.value)


async def test_a_cancelled_walk_ends_its_statement(server, store):
    await store.apply(Change([change(number) for number in range(5)]))
    import asyncpg

    blocker = await asyncpg.connect(server.dsn())
    transaction = blocker.transaction()
    await transaction.start()
    await blocker.execute(f'LOCK TABLE "{store._database.schema}".embedding IN ACCESS EXCLUSIVE MODE')
    waiting = "SELECT FROM pg_stat_activity WHERE application_name = 'airw' AND state = 'active'"
    try:
        with anyio.move_on_after(0.3):
            async for _ in traverse("text 3", Opened(store), policy=Beam()):
                pass
        assert not await server.fetch(waiting)
    finally:
        await transaction.rollback()
        await blocker.close()
    assert (await ask(store, Counts()))["artifacts"] == 5


async def test_a_builder_that_loses_its_lock_writes_no_more(server, store):
    async with store.writing(timeout=0):
        await store.apply(Change(config={"a": 1}))
        server.restart()
        await anyio.sleep(0.05)
        with pytest.raises(StoreError, match="has lost its lock with its connection"):
            await store.apply(Change(config={"a": 2}))
        assert await ask(store, Config()) == {"a": 1}
    async with store.writing(timeout=0):
        await store.apply(Change(config={"a": 3}))


async def test_a_server_that_hangs_holds_up_no_cancelled_caller_for_long(server, store):
    backends = []

    async def hang(connection):
        backends.append(await connection.fetchval("SELECT pg_backend_pid()"))
        os.kill(backends[-1], signal.SIGSTOP)
        await connection.fetchval("SELECT 1")

    try:
        with anyio.fail_after(PATIENCE), anyio.move_on_after(0.2):
            await store._database.read(hang)
        assert (await ask(store, Counts()))["artifacts"] == 0  # on another connection
    finally:
        for backend in backends:
            os.kill(backend, signal.SIGCONT)


async def test_a_server_that_does_not_answer_is_a_typed_error(monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._connecting._CONNECT_WITHIN", 0.2)

    async def listen(reader, writer):
        await reader.read()
        writer.close()

    silent = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    async with silent:
        with pytest.raises(StoreError, match="does not answer") as caught:
            await PostgresStore.open(f"postgresql://ada:hunter2@127.0.0.1:{port}/db", "notes")
        await asyncio.sleep(0.05)
    assert is_one_line(caught.value)
    assert "hunter2" not in str(caught.value)


@pytest.fixture
def small():
    """A server that takes four connections."""
    with PostgresServer(
        {"max_connections": "4", "superuser_reserved_connections": "0", "max_wal_senders": "0"}
    ) as server:
        yield server


async def test_a_full_server_is_busy_with_a_hint(small, monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._pool._WAIT", 0.5)
    async with PostgresStore(small.dsn(), "full") as store:

        async def hold(connection):
            await connection.execute("SELECT pg_sleep(30)")

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(store._database.read, hold)
            await anyio.sleep(0.3)
            with anyio.fail_after(PATIENCE), pytest.raises(StoreBusy, match="set a smaller max_connections"):
                await ask(store, Counts())
            with anyio.fail_after(PATIENCE), pytest.raises(StoreBusy, match="set a smaller max_connections"):
                await PostgresStore.open(small.dsn(), "full")
            group.cancel_scope.cancel()
        assert (await ask(store, Counts()))["artifacts"] == 0


async def test_calls_take_turns_on_the_connections_that_a_full_server_has_given(small):
    import asyncpg

    async def work(connection):
        await connection.execute("SELECT pg_sleep(0.01)")
        return await connection.fetchval("SELECT pg_backend_pid()")

    async with PostgresStore(small.dsn(), "full") as store:
        others = [await asyncpg.connect(small.dsn()) for _ in range(2)]
        with anyio.fail_after(PATIENCE):
            backends = await asyncio.gather(*(store._database.read(work) for _ in range(40)))
        assert len(set(backends)) <= 2
        for other in others:
            await other.close()
        await asyncio.gather(*(ask(store, Counts()) for _ in range(3)))


@pytest.mark.parametrize("place", ["/no/such/folder", "127.0.0.1:9"])
async def test_a_server_that_cannot_be_reached_is_a_typed_error(place):
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        await PostgresStore.open(f"postgresql://ada:hunter2@/db?host={place}", "notes")
    assert is_one_line(caught.value)
    assert not re.search("hunter2", str(caught.value))
