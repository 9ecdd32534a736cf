"""Reads from standby servers: only what is new enough, and never an error because of them."""

import os
import signal
from contextlib import suppress

import anyio
import pytest

from airw.errors import ArgumentError, StoreError
from airw.stores import PostgresStore
from tests.support.postgres import PostgresServer, fresh_name

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]

PAUSE, RESUME = "SELECT pg_wal_replay_pause()", "SELECT pg_wal_replay_resume()"


@pytest.fixture(scope="module")
def primary():
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="module")
def standby(primary):
    with PostgresServer(copy_of=primary) as server:
        yield server


@pytest.fixture
async def store(primary, standby):
    name = fresh_name("replica")
    async with PostgresStore(primary.dsn(), name, replicas=[standby.dsn()], max_lag=0.8) as store:
        yield store
    await PostgresStore.remove(primary.dsn(), name)


async def is_on_standby(store):
    return await store._database.read(lambda c: c.fetchval("SELECT pg_is_in_recovery()"))


async def wait_for(store, *, is_standby, within=5.0):
    deadline = anyio.current_time() + within
    while await is_on_standby(store) != is_standby:
        assert anyio.current_time() < deadline
        await anyio.sleep(0.02)


async def test_reads_go_to_a_standby_and_writes_to_the_primary(store):
    await wait_for(store, is_standby=True)
    await store.set_config({"a": 1})
    assert await store.config() == {"a": 1}


async def test_a_writer_reads_its_own_writes_however_far_the_standby_is(store, standby):
    await wait_for(store, is_standby=True)
    await standby.execute(PAUSE)
    try:
        for number in range(20):
            await store.set_config({"number": number})
            assert await store.config() == {"number": number}
            assert not await is_on_standby(store)
    finally:
        await standby.execute(RESUME)
    await wait_for(store, is_standby=True)
    assert await store.config() == {"number": 19}


async def test_a_store_sees_all_that_was_saved_before_it_was_opened(store, primary, standby):
    name = store._database.schema.removeprefix("airw_")
    await wait_for(store, is_standby=True)
    await standby.execute(PAUSE)
    try:
        async with PostgresStore(primary.dsn(), name) as other:
            await other.set_config({"a": 1})
        async with PostgresStore(primary.dsn(), name, replicas=[standby.dsn()]) as reader:
            assert await reader.config() == {"a": 1}
    finally:
        await standby.execute(RESUME)


async def test_changes_of_others_are_seen_within_the_bound(store, primary, standby):
    name = store._database.schema.removeprefix("airw_")
    await wait_for(store, is_standby=True)
    await standby.execute(PAUSE)
    try:
        async with PostgresStore(primary.dsn(), name) as other:
            await other.set_config({"a": 1})
            changed_at = anyio.current_time()
            while await store.config() != {"a": 1}:
                assert anyio.current_time() < changed_at + 1.2  # the bound, and time for the last read
                await anyio.sleep(0.01)
        assert not await is_on_standby(store)
    finally:
        await standby.execute(RESUME)


async def test_a_standby_that_is_killed_is_never_an_error_and_taken_again(store, standby):
    await wait_for(store, is_standby=True)
    standby.kill()
    try:
        for _ in range(10):
            assert await store.config() == {}
    finally:
        standby.start()
    await wait_for(store, is_standby=True)


async def test_a_standby_lost_in_the_middle_of_a_read_is_replaced_by_the_primary(store, standby):
    await wait_for(store, is_standby=True)
    places = []

    async def work(connection):
        places.append(await connection.fetchval("SELECT pg_is_in_recovery()"))
        if places == [True]:
            await standby.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'airw'"
            )
        return await connection.fetchval("SELECT 7")

    assert await store._database.read(work) == 7
    assert places == [True, False]


async def test_a_builder_reads_the_primary_as_others_may_have_built_before(store):
    await wait_for(store, is_standby=True)
    async with store.writing():
        assert not await is_on_standby(store)
    assert not await store._database.read(lambda c: c.fetchval("SELECT pg_is_in_recovery()"), latest=True)


async def test_what_is_no_standby_of_the_primary_is_never_read(primary):
    with PostgresServer() as other, PostgresServer(copy_of=other) as its_standby:
        name = fresh_name("replica")
        wrong = [other.dsn(), its_standby.dsn(), primary.dsn(), "postgresql://nobody@127.0.0.1:9/none"]
        async with PostgresStore(primary.dsn(), name, replicas=wrong, max_lag=0.2) as store:
            for _ in range(10):
                await store.set_config({"a": 1})
                assert await store.config() == {"a": 1}
                assert not await is_on_standby(store)
                await anyio.sleep(0.05)
        await PostgresStore.remove(primary.dsn(), name)


async def test_reads_go_on_for_a_while_when_the_primary_is_gone(monkeypatch):
    monkeypatch.setattr("airw.stores.postgres._database._RESTART_WITHIN", 0.3)
    with PostgresServer() as primary, PostgresServer(copy_of=primary) as standby:
        async with PostgresStore(primary.dsn(), "left", replicas=[standby.dsn()], max_lag=20) as store:
            await wait_for(store, is_standby=True)
            primary.kill()
            assert await is_on_standby(store)
            with pytest.raises(StoreError, match=r"cannot be reached|was lost"):
                await store.set_config({"a": 1})
            assert await store.config() == {}


async def test_a_write_whose_place_in_the_log_is_not_known_is_read_from_the_primary(store, primary, standby):
    """The connection ends after the commit, before the store asks where the log is."""
    await wait_for(store, is_standby=True)
    await standby.execute(PAUSE)

    async def work(connection):
        await connection.execute("INSERT INTO setting VALUES ('config', '', '{\"a\": 1}')")

        async def end(*_):
            raise ConnectionResetError

        monkeypatch.setattr(type(connection), "fetchrow", end)

    with pytest.MonkeyPatch.context() as monkeypatch:
        await store._database.write(work)
    try:
        assert await store.config() == {"a": 1}
        await anyio.sleep(0.3)  # a check finds where the log was
        assert await store.config() == {"a": 1}
    finally:
        await standby.execute(RESUME)
    await wait_for(store, is_standby=True)


async def test_a_standby_that_takes_over_is_found_among_several_hosts():
    with PostgresServer() as primary, PostgresServer(copy_of=primary) as standby:
        both = f"postgresql://postgres@/postgres?host={standby.folder},{primary.folder}"
        async with PostgresStore(both, "moved") as store:
            await store.set_config({"a": 1})
            [row] = await primary.fetch("SELECT pg_current_wal_lsn() AS position")
            caught_up = "SELECT pg_last_wal_replay_lsn() >= $1 AS is_done"
            deadline = anyio.current_time() + 5
            while not (await standby.fetch(caught_up, row["position"]))[0]["is_done"]:
                assert anyio.current_time() < deadline
                await anyio.sleep(0.01)
            primary.kill()
            async with anyio.create_task_group() as group:
                group.start_soon(store.config)  # it waits a little for the next primary
                await anyio.sleep(0.3)
                await standby.execute("SELECT pg_promote()")
            assert await store.config() == {"a": 1}
            await store.set_config({"a": 2})
            assert await store.config() == {"a": 2}


async def test_no_read_sees_an_older_state_than_one_before(primary, standby):
    name = fresh_name("replica")

    async def ask_place(store):
        return await store._database.read(lambda c: c.fetchval("SELECT current_setting('data_directory')"))

    with PostgresServer(copy_of=primary) as second:
        standbys = {str(one.data): one for one in (standby, second)}
        async with (
            PostgresStore(primary.dsn(), name) as other,
            PostgresStore(primary.dsn(), name, replicas=[standby.dsn(), second.dsn()], max_lag=60) as store,
        ):
            await wait_for(store, is_standby=True)
            current = standbys.pop(await ask_place(store))
            [behind] = standbys.values()
            await anyio.sleep(1.2)  # a check finds both near
            await behind.execute(PAUSE)
            await other.set_config({"a": 1})
            deadline = anyio.current_time() + 5
            while await store.config() != {"a": 1}:
                assert anyio.current_time() < deadline
                await anyio.sleep(0.01)
            assert await ask_place(store) == str(current.data)
            current.kill()
            try:
                for _ in range(25):
                    assert await store.config() == {"a": 1}
                    await anyio.sleep(0.1)
                assert await ask_place(store) == str(primary.data)
                await behind.execute(RESUME)
                await wait_for(store, is_standby=True)
                assert await store.config() == {"a": 1}
            finally:
                current.start()
        await PostgresStore.remove(primary.dsn(), name)


async def test_reads_at_once_stay_with_one_standby(store, primary, standby):
    name, places = store._database.schema.removeprefix("airw_"), []

    async def read(reader):
        for _ in range(10):
            places.append(await is_on_standby(reader))  # noqa: PERF401 - each read is one call

    async with PostgresStore(primary.dsn(), name, replicas=[standby.dsn()], max_lag=60) as reader:
        await wait_for(reader, is_standby=True)
        async with anyio.create_task_group() as group:
            for _ in range(15):  # more than there are connections
                group.start_soon(read, reader)
    assert places == [True] * 150


def send_signal(processes, kind):
    for process in processes:
        with suppress(ProcessLookupError):  # a process of one query may have ended
            os.kill(process, kind)


async def test_a_standby_that_hangs_holds_up_reads_for_a_few_seconds(store, primary):
    name = store._database.schema.removeprefix("airw_")
    with PostgresServer(copy_of=primary) as other:
        async with PostgresStore(primary.dsn(), name, replicas=[other.dsn()], max_lag=60) as reader:
            await wait_for(reader, is_standby=True)
            rows = await other.fetch("SELECT pid FROM pg_stat_activity")
            processes = [other._process.pid, *(row["pid"] for row in rows)]
            try:
                send_signal(processes, signal.SIGSTOP)
                with anyio.fail_after(9):
                    async with anyio.create_task_group() as group:
                        for _ in range(20):
                            group.start_soon(reader.config)
                with anyio.fail_after(1):
                    assert not await is_on_standby(reader)
            finally:
                send_signal(processes, signal.SIGCONT)
            await wait_for(reader, is_standby=True, within=15)


async def test_a_long_read_of_a_standby_is_not_ended(store, primary, standby):
    name = store._database.schema.removeprefix("airw_")

    async def work(connection):
        return await connection.fetchval("SELECT pg_is_in_recovery() FROM pg_sleep(2.5)")

    async with PostgresStore(primary.dsn(), name, replicas=[standby.dsn()], max_lag=60) as reader:
        await wait_for(reader, is_standby=True)
        assert await reader._database.read(work)


def test_replicas_are_a_list_of_addresses():
    with pytest.raises(ArgumentError, match="replicas"):
        PostgresStore("postgresql://localhost/db", "notes", replicas="postgresql://localhost/db")
    with pytest.raises(ArgumentError, match="replicas must be an address"):
        PostgresStore("postgresql://localhost/db", "notes", replicas=["notes.airw"])
    with pytest.raises(ArgumentError, match="max_lag"):
        PostgresStore("postgresql://localhost/db", "notes", max_lag=0)
