"""Internals of the store in a file: costs of reads, caches, cancellation, waiting."""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace

import anyio
import numpy as np
import pytest

from airw._base.concurrency import map_bounded
from airw.errors import StoreBusy, StoreError
from airw.protocols import (
    ArtifactIds,
    Change,
    Counts,
    Edges,
    Matching,
    MaxFanIn,
    Rank,
    RecordsOf,
    VectorsOf,
    ask,
    ask_all,
)
from airw.stores import MemoryStore, SqliteStore
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores.sqlite import _connection, _near_index, _schema, _writing
from airw.stores.sqlite._records import counts
from airw.stores.sqlite._schema import APPLICATION_ID, check_sqlite, connect
from airw.stores.sqlite._writing import apply_change
from airw.values import Record
from airw.values.filters import parse_filter
from tests.support.stored import change, everything, fill
from tests.support.waiting import PATIENCE, wait_for

pytestmark = pytest.mark.asyncio_only

FOREVER = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


@pytest.fixture
async def store(path):
    async with SqliteStore(path) as store:
        yield store


# Files


async def test_a_full_disk_is_a_store_error_and_stores_nothing(store):
    await store.apply(Change([change("a")]))
    await store._writer.run(lambda raw: raw.execute("PRAGMA max_page_count = 60").fetchall())
    before = await everything(store)
    with pytest.raises(StoreError, match="free some space"):
        await store.apply(Change([change(f"b{each}", "words " * 500) for each in range(200)]))
    assert await everything(store) == before


@pytest.mark.parametrize(("version", "has_fts5"), [((3, 37, 2), True), ((3, 40, 1), False)])
def test_the_error_for_an_sqlite_that_lacks_a_feature_names_it(version, has_fts5):
    with pytest.raises(StoreError, match=r"SQLite 3\.\d+\.\d.* FTS5.*MemoryStore"):
        check_sqlite(version, has_fts5=has_fts5)


def test_the_file_of_a_corpus_carries_the_application_id(path):
    connect(path, create=True).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_a_file_that_another_process_created_first_is_not_created_again(path, monkeypatch):
    def other_is_faster(connection):
        monkeypatch.undo()
        connect(path, create=True).close()
        return True

    monkeypatch.setattr(_schema, "_is_empty", other_is_faster)
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        assert await ask(store, ArtifactIds()) == ["a"]


# Changes of the file


async def test_after_one_write_a_matrix_reads_only_changed_records(store, monkeypatch):
    await store.apply(Change([change(f"{each}") for each in range(50)]))
    east, seen, put = np.ones((1, 4), np.float32), [], DenseIndex.put

    def spy(self, ids, *columns, **more):
        seen.extend(ids)
        put(self, ids, *columns, **more)

    await ask(store, Rank(east, 1))
    monkeypatch.setattr(DenseIndex, "put", spy)
    await store.apply(Change([change("7", version="2", records=2)], removals=["8"]))
    await ask(store, Rank(east, 1))
    assert seen == [Record.make_id("7", "chunk", at) for at in range(2)]


@pytest.mark.parametrize("filter", [None, parse_filter({"n": {"$gt": 1}})])
async def test_a_dense_query_after_one_write_costs_the_file_the_same_in_a_corpus_of_any_size(store, filter):
    """The cost is counted in steps of SQLite's virtual machine."""
    east, steps = np.ones((1, 4), np.float32), []

    def watch(raw):
        raw.set_progress_handler(lambda: steps.__setitem__(-1, steps[-1] + 1), 1)

    for size in (50, 1_500):
        await store.apply(Change([change(f"{each}", metadata={"n": each % 3}) for each in range(size)]))
        await ask(store, Rank(east, 1, filter=filter))
        await store.apply(Change([change("7", version="2")], removals=["8"]))
        steps.append(0)
        await store._read(watch)
        await ask(store, Rank(east, 1, filter=filter))
        await store._read(lambda raw: raw.set_progress_handler(None, 1))
    assert 10 < steps[1] <= steps[0] + 20


@pytest.mark.slow
@pytest.mark.parametrize("kept", [3, 100_000])
async def test_fields_are_matched_in_the_present_state_after_any_earlier_calls(store, monkeypatch, kept, path):
    """Both connections do so, also one that is so far behind that it must start again."""
    monkeypatch.setattr(_writing, "_MAX_TOMBSTONES", kept)
    random = np.random.default_rng(5)
    wanted = [(field, value) for field in ("n", "tags", "none") for value in range(3)]
    async with await SqliteStore.open(path) as other:
        for step in range(60):
            names = [f"{each}" for each in random.permutation(12)[:5]]
            puts = [
                change(name, version=f"{step}", records=at, metadata={"n": step % 3, "tags": [step % 2, at]})
                for at, name in enumerate(names[:3])
            ]
            await store.apply(Change(puts, removals=names[3:]))
            held = [
                record for group in await ask(store, RecordsOf(await ask(store, ArtifactIds()))) for record in group
            ]
            expected = [
                sorted({r.artifact_id for r in held if value in np.atleast_1d(r.metadata.get(field, -1))})
                for field, value in wanted
            ]
            assert await ask(store, Matching(wanted[: step % 10])) == expected[: step % 10]
            if step % 7 == 0:
                assert await ask(other, Matching(wanted[::-1])) == expected[::-1]


async def test_matching_after_one_write_costs_the_file_the_same_in_a_corpus_of_any_size(store):
    """The cost is counted in steps of SQLite's virtual machine."""
    steps, wanted = [], [("tag", "rare"), ("n", 7)]

    def watch(raw):
        raw.set_progress_handler(lambda: steps.__setitem__(-1, steps[-1] + 1), 1)

    for size in (50, 1_500):
        await store.apply(Change([change(f"{each}", metadata={"n": each, "tag": "often"}) for each in range(size)]))
        assert await ask(store, Matching(wanted)) == [[], ["7"]]
        await store.apply(Change([change("7", version="2", metadata={"n": 7, "tag": "rare"})], removals=["8"]))
        steps.append(0)
        await store._read(watch)
        assert await ask(store, Matching(wanted)) == [["7"], ["7"]]
        await store._read(lambda raw: raw.set_progress_handler(None, 1))
    assert 10 < steps[1] <= steps[0] + 20


@pytest.mark.slow
async def test_reading_a_field_continues_after_an_interruption(store):
    await store.apply(Change([change(f"{at:04}", metadata={"n": at % 5}) for at in range(4_000)]))
    for stop in (500, 1_500, 3_000):

        def is_due(stop=stop):
            return "n" in store._indexes.fields and store._indexes.fields["n"]._log.last >= stop

        await store._read(lambda raw, is_due=is_due: raw.set_progress_handler(is_due, 100))
        with pytest.raises(StoreError, match="interrupted"):
            await ask(store, Matching([("n", 0)]))
        assert stop <= store._indexes.fields["n"]._log.last < 4_000
        await store._read(lambda raw: raw.set_progress_handler(None, 1))
        await store.apply(Change([change("0000", metadata={"n": stop})], removals=[f"{stop // 10:04}"]))
    gone = {f"{stop // 10:04}" for stop in (500, 1_500, 3_000)} | {"0000"}
    expected = [[f"{at:04}" for at in range(value, 4_000, 5) if f"{at:04}" not in gone] for value in range(5)]
    assert await ask(store, Matching([("n", value) for value in (*range(5), 500, 3_000)])) == [*expected, [], ["0000"]]


async def test_the_largest_fan_in_is_counted_once_per_state_of_the_file(store, path):
    await store.apply(Change([change("a", links=["c"]), change("b", links=["c"])]))
    async with await SqliteStore.open(path) as other:
        for _ in range(2):
            assert [await ask(each, MaxFanIn()) for each in (store, other, store)] == [2, 2, 2]
            assert await ask(store, MaxFanIn(types=["none"])) == 0
        assert [len(each._indexes.max_fan_in) for each in (store, other)] == [2, 1]
        await other.apply(Change([change("d", links=["c"])]))
        assert [await ask(each, MaxFanIn()) for each in (store, other, store)] == [3, 3, 3]
        assert [len(each._indexes.max_fan_in) for each in (store, other)] == [3, 2]


async def test_the_vectors_of_artifacts_are_those_of_memory_in_a_corpus_too_large_for_a_matrix_too(store, monkeypatch):
    monkeypatch.setattr(_near_index, "EXACT_ROWS", 50)
    async with MemoryStore() as memory:
        for each in (store, memory):
            await each.apply(Change([change(f"{at}", records=at % 5) for at in range(40)]))
            await each.apply(Change([change("7", version="2", records=4)], removals=["8"]))
        for asked in (["7", "absent", "4", "5", "7", "8", "7\0", "\ud800"], ["absent"], []):
            (ids, vectors), (expected, rows) = [await ask(each, VectorsOf(asked)) for each in (store, memory)]
            assert ids == expected
            assert vectors.dtype == rows.dtype
            assert np.array_equal(vectors, rows)
        assert vectors.shape == (0, 4)


async def test_a_matrix_that_is_far_behind_is_read_again(store, monkeypatch, path):
    monkeypatch.setattr(_writing, "_MAX_TOMBSTONES", 3)
    await store.apply(Change([change(f"{each}") for each in range(10)]))
    async with await SqliteStore.open(path) as other:
        await everything(other)
        for step in range(8):
            await store.apply(Change([change(f"{step}", version="2")], removals=[f"{step + 1}"]))
        assert await everything(other) == await everything(store)


async def test_each_call_reads_one_snapshot(store, path):
    """A write between two statements of one call is visible to neither."""
    with closing(connect(path, writable=True)) as writer:

        def read_twice(raw):
            before = counts(raw)
            apply_change(writer, Change([change("new")]))
            return before, counts(raw)

        before, after = await store._read(read_twice)
    assert before == after == {**await ask(store, Counts()), "artifacts": 0, "records": 0}
    assert await ask(store, ArtifactIds()) == ["new"]


async def test_answers_from_memory_are_of_one_state_though_another_call_updates_an_index(store, path, monkeypatch):
    await store.apply(Change([change("a", "word", links=["b"]), change("b", "word")]))
    edges, words = Edges(["a"]), Rank(["word"], 5)
    for _ in range(3):
        expected = await store.read(edges, words)
    find = store._indexes.edges.find_at_once

    def find_before_a_write(*asked):
        rows = find(*asked)

        async def write_and_search():
            async with SqliteStore(path) as other:
                await other.apply(Change([change("c", "word")], removals=["b"]))
            return await ask_all(store, words, Counts())

        with monkeypatch.context() as patch, ThreadPoolExecutor(1) as threads:
            patch.setattr(store._indexes.edges, "find_at_once", find)
            threads.submit(asyncio.run, write_and_search()).result(PATIENCE)
        return rows

    monkeypatch.setattr(store._indexes.edges, "find_at_once", find_before_a_write)
    found = await store.read(edges, words)
    assert len(expected[0][0]) == 1
    assert (found[0], [sorted(ranking.artifact_ids) for ranking in found[1]]) == ([[]], [["a", "c"]])


# Cancellation and writers


async def test_cancelling_a_long_statement_stops_it_and_the_connection_works(store):
    await store.apply(Change([change("a")]))
    with anyio.fail_after(PATIENCE):
        with anyio.move_on_after(0.1):
            await store._read(lambda raw: raw.execute(FOREVER).fetchall())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):  # asyncio itself does not know the shields of anyio
                await store._read(lambda raw: raw.execute(FOREVER).fetchall())
        assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_cancelled_call_ends_though_a_statement_stays_open_that_interrupts_the_rollback(store):
    await store.apply(Change([change("a"), change("b")]))
    opened = []

    def leave_open(raw):
        opened.append(raw.execute("SELECT id FROM artifact"))
        opened[0].fetchone()
        raw.execute(FOREVER).fetchall()

    with anyio.fail_after(PATIENCE):
        with anyio.move_on_after(0.1) as scope:
            await store._read(leave_open)
        assert scope.cancelled_caught
        for _ in range(3):
            assert await map_bounded(lambda _: ask(store, ArtifactIds()), range(5), limit=5) == [["a", "b"]] * 5
        await store.apply(Change([change("c")]))
        assert await ask(store, ArtifactIds()) == ["a", "b", "c"]


async def test_a_cancelled_write_is_undone_and_blocks_no_other_writer(store, path):
    def slow(raw):
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("DELETE FROM artifact")
        raw.execute(FOREVER).fetchall()

    await store.apply(Change([change("a")]))
    with anyio.move_on_after(0.1):
        await store._write(slow)
    async with SqliteStore(path) as other:
        with anyio.fail_after(PATIENCE):
            await other.apply(Change([change("b")]))
    await store.apply(Change([change("c")]))
    assert await ask(store, ArtifactIds()) == ["a", "b", "c"]


async def test_cancelling_one_task_does_not_stop_another_s_statement(store):
    begun, released, finished = threading.Event(), threading.Event(), []

    def wait():
        begun.set()
        return released.wait(PATIENCE)

    def wait_in_sql(raw):
        raw.create_function("wait", 0, wait)
        finished.extend(raw.execute("SELECT wait() FROM setting").fetchall())

    async with anyio.create_task_group() as group:
        group.start_soon(store._read, wait_in_sql)
        await anyio.to_thread.run_sync(begun.wait)
        with anyio.move_on_after(0.1) as scope:
            await store._read(lambda raw: raw.execute(FOREVER).fetchall())
        assert scope.cancelled_caught
        assert not finished
        released.set()
    assert finished == [(True,)]


@pytest.mark.slow
async def test_a_long_call_holds_up_no_short_one_and_takes_no_more_connections_than_it_must(store, monkeypatch):
    """Short calls share two connections; each long one has its own, up to eight."""
    clock = SimpleNamespace(now=0.0, monotonic=lambda: clock.now)  # on which all calls are short, at first
    monkeypatch.setattr(_connection, "time", clock)
    await store.apply(Change([change("a")]))
    released = threading.Event()
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for long_calls in range(7):
                await map_bounded(lambda _: ask(store, ArtifactIds()), range(50), limit=50)
                assert len(store._reader._all) <= max(2, long_calls + 2)
                begun = threading.Event()
                group.start_soon(store._read, lambda raw, begun=begun: (begun.set(), released.wait(PATIENCE)))
                await wait_for(begun.is_set)
                clock.now += 1
            assert await ask(store, ArtifactIds()) == ["a"]
            assert len(store._reader._all) == 8
            with anyio.move_on_after(0.1) as scope:
                group.start_soon(store._read, lambda raw: released.wait(PATIENCE))
                await anyio.sleep(0.01)
                await ask(store, ArtifactIds())
            assert scope.cancelled_caught
            released.set()
    assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_cancelled_call_waits_no_longer_for_the_index_of_another(store):
    begun, released = threading.Event(), threading.Event()

    def hold(raw):
        begun.set()
        released.wait(PATIENCE)
        return lambda: None

    async with anyio.create_task_group() as group:
        group.start_soon(store._reader.run_locked, hold, [store._indexes._fields_lock])
        await anyio.to_thread.run_sync(begun.wait)
        with anyio.move_on_after(0.05) as scope:
            await ask(store, Matching([("n", 1)]))
        assert scope.cancelled_caught
        assert not released.is_set()
        released.set()
    assert await ask(store, Matching([("n", 1)])) == [[]]


async def test_every_reader_sees_a_write_of_this_store_in_its_next_call(store, monkeypatch):
    monkeypatch.setattr(_connection, "_SHORT", 60)
    for size in range(20):
        await store.apply(Change([change(f"{size:02}", metadata={"n": size})]))
        counts = await map_bounded(lambda _: ask(store, Counts()), range(6), limit=6)
        assert [each["artifacts"] for each in counts] == [size + 1] * 6
        found = await map_bounded(lambda _: ask(store, Rank(["1"], 99)), range(6), limit=6)
        assert [len(ranking) for [ranking] in found] == [size + 1] * 6
    assert len(store._reader._all) == 2


async def test_a_write_waits_for_another_writer_and_then_gives_up(store, path, monkeypatch):
    await store.apply(Change([change("a")]))
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        monkeypatch.setattr(_connection, "_PATIENCE", 0.1)
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            await store.apply(Change([change("b")]))
        monkeypatch.setattr(_connection, "_PATIENCE", 60)
        async with anyio.create_task_group() as group:
            group.start_soon(store.apply, Change([change("c")]))
            await anyio.sleep(0.1)
            writer.execute("ROLLBACK")
        writer.execute("BEGIN IMMEDIATE")
        with anyio.fail_after(PATIENCE), anyio.move_on_after(0.05):
            await store.apply(Change([change("d")]))
    assert await ask(store, ArtifactIds()) == ["a", "c"]


async def test_only_the_most_recently_used_fields_are_remembered(store):
    await store.apply(Change([change("a", metadata={f"f{at}": at for at in range(50)})]))
    for at in [*range(40), 0, 39]:
        assert await ask(store, Matching([(f"f{at}", at)])) == [["a"]]
    assert [*store._indexes.fields] == [*(f"f{at}" for at in range(9, 39)), "f0", "f39"]
