"""Connections of a store on a server: opening, waiting, locking, cancelling, closing."""

import asyncio
import gc
import os
import subprocess
import sys
from functools import partial

import anyio
import pytest
import trio

from airw.errors import ArgumentError, CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Change, Config, Counts, TextLanguage, ask
from airw.stores import PostgresStore
from tests.support.postgres import drop_corpus, fresh_name, fresh_store, get_server, server_dsn
from tests.support.relay import PostgresRelay
from tests.support.waiting import PATIENCE

pytestmark = [pytest.mark.asyncio_only]

ACTIVE = "SELECT query FROM pg_stat_activity WHERE application_name = 'airw' AND state = 'active' AND query LIKE $1"


async def _sleep(connection):
    await connection.execute("SELECT pg_sleep(120) AS long_call")


async def _doze(started, connection):
    started.set()
    await connection.execute("SELECT pg_sleep(1)")


async def _one(connection):
    return await connection.fetchval("SELECT 1")


async def _is_asleep():
    return bool(await get_server().fetch(ACTIVE, "%long_call%"))


async def _until(condition, within=PATIENCE):
    deadline = anyio.current_time() + within
    while not await condition():
        assert anyio.current_time() < deadline
        await anyio.sleep(0.01)


def _forget(stores):
    stores.clear()
    gc.collect()


@pytest.mark.slow
async def test_a_corpus_is_made_found_listed_and_removed():
    dsn, name = server_dsn(), fresh_name("Found")
    store = PostgresStore(dsn, name)
    assert not await store.exists()
    with pytest.raises(CorpusNotFound, match="build it first"):
        await PostgresStore.open(dsn, name)
    async with store:
        assert await ask(store, ArtifactIds()) == []
        assert await store.exists()
        assert name.casefold() in await PostgresStore.list_corpora(dsn)
    async with await PostgresStore.open(dsn, name.upper()) as again:  # names are compared without case
        assert await ask(again, TextLanguage()) == "en"
    await PostgresStore.remove(dsn, name)
    assert not await store.exists()
    with pytest.raises(CorpusNotFound):
        await PostgresStore.remove(dsn, name)


def test_another_event_loop_is_refused_in_one_line():
    async def main():
        with pytest.raises(StoreError, match="runs on asyncio only, because asyncpg does"):
            await PostgresStore.open("postgresql://localhost/none", "notes")

    trio.run(main)


@pytest.mark.slow
def test_without_asyncpg_the_error_names_what_to_install():
    code = """
import asyncio, sys
sys.modules["asyncpg"] = None
from airw.stores import PostgresStore
asyncio.run(PostgresStore.open("postgresql://localhost/none", "notes"))
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stderr.splitlines()[-1].endswith(
        "StoreError: PostgresStore needs asyncpg: pip install 'airw[postgres]'"
    )


@pytest.mark.parametrize("name", ["", "n\0l", "x" * 59, "ü" * 30, "\ud800"])
def test_a_name_that_cannot_be_a_schema_is_refused(name):
    with pytest.raises(ArgumentError, match="cannot be a schema"):
        PostgresStore("postgresql://localhost/none", name)


@pytest.mark.parametrize(
    ("dsn", "words"),
    [
        ("notes.airw", "must be an address"),
        ("postgresql://localhost/db#notes", "after '#'"),
        ("postgresql://localhost/db?sslmod=require", "'sslmod'"),
        ("postgresql://localhost/db?options=-csearch_path%3Devil", "'options'"),
        ("postgresql://localhost/db?sslmode=maybe", "another sslmode"),
        ("postgresql://localhost:port/db", "not a number"),
    ],
)
def test_an_address_with_unknown_parts_is_refused(dsn, words):
    with pytest.raises(ArgumentError, match=words):
        PostgresStore(dsn, "notes")


@pytest.mark.slow
async def test_names_with_quotes_and_spaces_are_quoted():
    name = f'{fresh_name()} "; DROP SCHEMA public; --'
    try:
        async with PostgresStore(server_dsn(), name) as store:
            await store.apply(Change(config={"a": 1}))
            assert await ask(store, Config()) == {"a": 1}
    finally:
        await PostgresStore.remove(server_dsn(), name)
    assert await get_server().fetch("SELECT FROM pg_namespace WHERE nspname = 'public'")


@pytest.mark.slow
async def test_many_that_create_a_corpus_at_once_share_it():
    dsn, name = server_dsn(), fresh_name()
    stores = [PostgresStore(dsn, name) for _ in range(6)]
    await asyncio.gather(*(store.__aenter__() for store in stores))
    await stores[0].apply(Change(config={"a": 1}))
    assert [await ask(store, Config()) for store in stores] == [{"a": 1}] * 6
    await asyncio.gather(*(store.aclose() for store in stores))
    await drop_corpus(dsn, name)


@pytest.mark.slow
async def test_what_is_no_corpus_or_newer_is_not_touched():
    name = fresh_name()
    await get_server().execute(f"CREATE SCHEMA airw_{name}; CREATE TABLE airw_{name}.other (id int)")
    try:
        with pytest.raises(StoreCorrupt, match="is not a corpus"):
            await PostgresStore.open(server_dsn(), name, create=True)
        with pytest.raises(StoreCorrupt, match="is not a corpus"):
            await PostgresStore.remove(server_dsn(), name)
        await get_server().execute(f"COMMENT ON SCHEMA airw_{name} IS 'airw corpus, format 99'")
        with pytest.raises(StoreCorrupt, match=r"newer version of airw \(format 99\)"):
            await PostgresStore.open(server_dsn(), name)
    finally:
        await drop_corpus(server_dsn(), name)


@pytest.mark.slow
async def test_a_closed_store_says_so_and_opens_again():
    async with fresh_store() as store:
        await store.apply(Change(config={"a": 1}))
        await store.aclose()
        await store.aclose()
        with pytest.raises(StoreError, match="is closed; open it again"):
            await ask(store, Config())
        async with store:
            assert await ask(store, Config()) == {"a": 1}
    with pytest.raises(StoreError, match="is not open; use `async with`"):
        await ask(PostgresStore(server_dsn(), "never"), Config())


@pytest.mark.slow
async def test_a_closed_store_ends_its_calls_and_those_that_wait_and_writes_no_more():
    async with fresh_store(max_connections=1) as store, asyncio.TaskGroup() as group:
        started = asyncio.Event()
        running = group.create_task(_error_of(store._database.read(partial(_doze, started))))
        await started.wait()
        waiting = [group.create_task(_error_of(store.apply(Change(config={"a": 1})))) for _ in range(3)]
        await anyio.sleep(0.05)
        await store.aclose()
        with anyio.fail_after(PATIENCE):
            errors = [await running, *[await task for task in waiting]]
        assert all(str(error).endswith("is closed; open it again") for error in errors)
        async with store:
            assert await ask(store, Config()) == {}


async def _error_of(call):
    with pytest.raises(StoreError) as caught:
        await call
    return caught.value


@pytest.mark.slow
async def test_another_event_loop_needs_a_store_of_its_own():
    async with fresh_store() as store:

        async def use():
            for call in (ask(store, Counts()), store.apply(Change(config={"a": 1}))):
                with pytest.raises(StoreError, match="in another event loop; open one store for each loop"):
                    await call
            with pytest.raises(StoreError, match="in another event loop; close it there"):
                await store.aclose()
            return await store.exists()

        assert await anyio.to_thread.run_sync(asyncio.run, use())
        with pytest.raises(StoreError, match="another event loop"):
            await anyio.to_thread.run_sync(trio.run, ask, store, Counts())
        assert await ask(store, Config()) == {}


@pytest.mark.slow
async def test_a_store_whose_event_loop_has_ended_can_be_closed_and_opened_again():
    code = """
import asyncio, sys
from airw.errors import StoreError
from airw.protocols import Config, ask
from airw.stores import PostgresStore

async def use():
    try:
        await ask(store, Config())
    except StoreError as error:
        print(error)
    await store.aclose()
    async with store:
        print(await ask(store, Config()))

store = PostgresStore(sys.argv[1], sys.argv[2])
asyncio.run(store.__aenter__())
asyncio.run(use())
"""
    async with fresh_store() as store:
        name = store._database.schema.removeprefix("airw_")
        arguments = [sys.executable, "-c", code, server_dsn(), name]
        result = await anyio.run_process(arguments, check=False)
    assert result.stdout.decode().endswith("in another event loop; open one store for each loop\n{}\n")


@pytest.mark.slow
async def test_a_store_that_is_left_open_warns():
    name = fresh_name()
    store = await PostgresStore.open(server_dsn(), name, create=True)
    stores = [store]
    del store
    with pytest.warns(ResourceWarning, match="was left open"):
        _forget(stores)
    await anyio.sleep(0.05)
    await drop_corpus(server_dsn(), name)


@pytest.mark.slow
async def test_a_corpus_that_was_removed_meanwhile_is_a_typed_error():
    async with fresh_store() as store:
        await PostgresStore.remove(server_dsn(), store._database.schema.removeprefix("airw_"))
        with pytest.raises(StoreError, match="was removed while open"):
            await ask(store, Config())


@pytest.mark.slow
async def test_a_call_costs_one_round_trip_and_opening_few():
    async with fresh_store() as fresh, PostgresRelay(get_server()).run() as relay:
        name = fresh._database.schema.removeprefix("airw_")
        async with await PostgresStore.open(relay.dsn(parameters="?sslmode=disable"), name) as store:
            assert relay.questions <= 3  # startup, and a statement that is prepared and then run
            await ask(store, Counts())
            before = relay.questions
            for _ in range(5):
                await ask(store, Counts())
            assert relay.questions - before == 5
            assert relay.connections == 1
            before = relay.questions
            await asyncio.gather(ask(store, Counts()), ask(store, Counts()))
            assert relay.connections == 2
            assert relay.questions - before == 4  # one more for the start, and one to prepare the statement


@pytest.mark.slow
async def test_all_connections_busy_is_an_error_with_the_numbers(monkeypatch):
    async with fresh_store(max_connections=2) as store, anyio.create_task_group() as group:
        monkeypatch.setattr("airw.stores.postgres._pool._WAIT", 0.3)
        for _ in range(2):
            group.start_soon(store._database.read, _sleep)
        await _until(_is_asleep)
        with pytest.raises(StoreBusy, match=r"all 2 connections to .* were busy for 0.3 seconds; raise max_"):
            await ask(store, Counts())
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_long_call_does_not_hold_up_a_short_one():
    async with fresh_store() as store, anyio.create_task_group() as group:
        await ask(store, Counts())
        group.start_soon(store._database.read, _sleep)
        await _until(_is_asleep)
        with anyio.fail_after(PATIENCE):
            await ask(store, Counts())
        group.cancel_scope.cancel()


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_cancelled_call_ends_on_the_server_and_the_pool_stays_usable(kind):
    async with fresh_store(max_connections=1) as store:
        database = store._database
        backend = await database.read(lambda c: c.fetchval("SELECT pg_backend_pid()"))
        for _ in range(3):
            with anyio.move_on_after(0.1) as scope:
                if kind == "write":
                    await database.write(_sleep)
                else:
                    await database.read(_sleep)
            assert scope.cancelled_caught
            assert not await _is_asleep()
        # Still the same connection, and in no transaction.
        assert await database.read(lambda c: c.fetchval("SELECT pg_backend_pid()")) == backend
        await store.apply(Change(config={"a": 1}))
        assert await ask(store, Config()) == {"a": 1}


@pytest.mark.slow
async def test_a_task_cancelled_again_and_again_leaves_a_usable_pool():
    async with fresh_store(max_connections=2) as store:
        for pause in (0.0, 0.001, 0.02, 0.1):
            task = asyncio.ensure_future(store._database.write(_sleep))
            await asyncio.sleep(pause)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert task.cancelled()
        await _until(lambda: _is_not(_is_asleep))
        await store.apply(Change(config={"a": 1}))
        assert await ask(store, Config()) == {"a": 1}


async def _is_not(condition):
    return not await condition()


async def _lock(store):
    async with store.writing():
        await anyio.sleep(0.01)


@pytest.mark.slow
@pytest.mark.parametrize("call", [PostgresStore.exists, PostgresStore.__aenter__, _lock])
async def test_a_task_cancelled_at_any_moment_ends_and_leaves_no_connection(call):
    async with fresh_store() as fresh:
        name = fresh._database.schema.removeprefix("airw_")
        store = PostgresStore(f"{server_dsn()}&application_name={name}", name)
        for step in range(30):
            task = asyncio.ensure_future(call(store))
            await asyncio.sleep(step * 0.0005)
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            assert task.cancelled() or task.result() is not False
            await store.aclose()

        async def is_gone():
            return not await get_server().fetch("SELECT FROM pg_stat_activity WHERE application_name = $1", name)

        await _until(is_gone)
        async with PostgresStore(server_dsn(), name) as other, other.writing(timeout=0):  # nothing is locked
            await other.apply(Change(config={"a": 1}))


@pytest.mark.slow
async def test_a_forked_child_leaves_the_connections_of_its_parent_alone():
    async with fresh_store() as store:
        backend = await store._database.read(lambda c: c.fetchval("SELECT pg_backend_pid()"))
        child = os.fork()
        if not child:  # as the garbage collector of the child would
            store.__del__()
            os._exit(0)
        await anyio.to_thread.run_sync(os.waitpid, child, 0)
        assert await store._database.read(lambda c: c.fetchval("SELECT pg_backend_pid()")) == backend


@pytest.mark.slow
async def test_calls_cancelled_at_any_moment_never_lose_a_connection():
    async with fresh_store(max_connections=2) as store:
        for step in range(60):
            with anyio.move_on_after(step * 0.0002):
                await store.apply(Change(config={"step": step}))
        with anyio.fail_after(PATIENCE):
            for step in range(5):
                await store.apply(Change(config={"last": step}))
        assert await ask(store, Config()) == {"last": 4}
        assert await asyncio.gather(*(ask(store, Config()) for _ in range(5))) == [{"last": 4}] * 5


@pytest.mark.slow
async def test_builders_take_turns_and_wait_for_each_other():
    async with fresh_store() as store:
        other = PostgresStore(store._database._dsn, store._database.schema.removeprefix("airw_"))
        async with store.writing():
            with pytest.raises(StoreBusy, match=r"another builder still holds .* after 0.2 seconds"):
                async with other.writing(timeout=0.2):
                    pass
            with pytest.raises(StoreBusy, match="another builder still holds"):
                async with other.writing(timeout=0):
                    pass
        with pytest.raises(RuntimeError, match="mine"):
            async with other.writing(timeout=0):
                raise RuntimeError("mine")
        with anyio.move_on_after(0.05):
            async with store.writing(timeout=0):
                await anyio.sleep(30)
        async with other.writing(timeout=0):
            with anyio.move_on_after(0.1):
                async with store.writing():
                    pytest.fail("two builders hold one lock")
        async with store.writing(timeout=0):
            await store.apply(Change(config={"a": 1}))


@pytest.mark.slow
async def test_a_write_that_waits_too_long_for_another_is_busy(monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._catalog.LOCK_WITHIN", 0.2)

    async def hold(connection):
        started.set()
        await anyio.sleep(30)

    started = anyio.Event()
    async with fresh_store() as store, anyio.create_task_group() as group:
        group.start_soon(store._database.write, hold)
        await started.wait()
        with pytest.raises(StoreBusy, match="is locked by others"):
            await store.apply(Change(config={"a": 1}))
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_schema_of_the_extension_that_is_open_to_all_is_refused():
    server = get_server()
    async with fresh_store() as store:
        name = store._database.schema.removeprefix("airw_")
        await server.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
        try:
            with pytest.raises(StoreError, match='REVOKE CREATE ON SCHEMA "public" FROM PUBLIC'):
                await PostgresStore.open(server_dsn(), name)
        finally:
            await server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
