"""Many open files need few threads: those that nobody uses are put aside."""

import shutil
import sqlite3
import threading
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import numpy as np
import pytest

import airw
from airw.errors import StoreError
from airw.protocols import ArtifactIds, Change, Rank, RecordsOf, Words, ask
from airw.stores import SqliteStore
from tests.support.stored import change

pytestmark = pytest.mark.asyncio_only

COUNT = 70
DESCRIPTORS = Path("/proc/self/fd")  # on Linux


@pytest.fixture(scope="module")
def source_folder(tmp_path_factory):
    """Return a folder of many files, each with one artifact of its own."""
    folder = tmp_path_factory.mktemp("built")

    async def build():
        for number in range(COUNT):
            async with SqliteStore(folder / f"{number}.airw") as store:
                await store.apply(Change([change(f"a{number}", f"the keys of {number}")]))

    anyio.run(build)
    return folder


@pytest.fixture
def folder(source_folder, tmp_path):
    return shutil.copytree(source_folder, tmp_path / "files")


@asynccontextmanager
async def open_files(folder):
    """Yield an open store of each file; all but the first ones are put aside."""
    async with AsyncExitStack() as stack:
        stores = [await SqliteStore.open(folder / f"{number}.airw") for number in range(COUNT)]
        for store in stores:
            stack.push_async_callback(store.aclose)
        yield stores


@contextmanager
def count_threads():
    """Yield a list; at the end of the block it has the largest number of threads seen in it."""
    numbers, ended = [threading.active_count()], threading.Event()

    def watch():
        while not ended.wait(0.001):
            numbers[0] = max(numbers[0], threading.active_count())

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield numbers
    finally:
        ended.set()
        watcher.join()


async def read_text(store, number):
    [[record]] = await ask(store, RecordsOf([f"a{number}"]))
    return record.text


async def test_all_of_many_files_answer_and_few_are_open_at_once(folder):
    with count_threads() as most:
        async with open_files(folder) as stores:
            for number, store in enumerate(stores):
                assert await read_text(store, number) == f"the keys of {number}"
            descriptors = [*DESCRIPTORS.iterdir()] if DESCRIPTORS.exists() else []  # noqa: ASYNC240
    assert most[0] <= 24
    assert len(descriptors) <= 128


async def test_a_file_that_is_put_aside_answers_from_memory_what_it_can(folder):
    east, words = Rank(np.ones((1, 4), np.float32), 5), Rank(["keys"], 5)
    async with open_files(folder) as stores:
        store = stores[0]
        expected = await store.read(east, words)
        pooled = replace(words, statistics=await ask(store, Words(["keys"])))
        for number, other in enumerate(stores[1:], 1):
            await read_text(other, number)
        for request, ranking in zip((east, words, pooled), [*expected, expected[1]], strict=True):
            assert [each.artifact_ids for each in await ask(store, request)] == [["a0"]] == [ranking[0].artifact_ids]
            assert not store._reader.first.is_open
        assert await read_text(store, 0) == "the keys of 0"  # which is not in memory
        assert store._reader.first.is_open


async def test_a_file_that_was_written_just_before_it_was_put_aside_does_not_answer_from_memory(folder, monkeypatch):
    """The next write could leave the same times."""
    monkeypatch.setattr("airw.stores.sqlite.store._TICK", 1 << 62)
    async with open_files(folder) as stores:
        for request in (Rank(np.ones((1, 4), np.float32), 5), Rank(["keys"], 5)):
            await ask(stores[0], request)
            for number, other in enumerate(stores[1:], 1):
                await read_text(other, number)
            assert not stores[0]._reader.first.is_open
            await ask(stores[0], request)
            assert stores[0]._reader.first.is_open


async def test_a_discovery_of_many_paths_needs_few_threads_and_descriptors(tmp_path):
    first = tmp_path / "0.airw"
    async with airw.build(airw.from_mapping({"a": "the keys"}, name="notes"), store=first, embedder="light"):
        pass
    paths = {f"{number}": shutil.copy(first, tmp_path / f"{number}.airw") for number in range(1, 2 * COUNT)}
    with count_threads() as most:
        found = await airw.discover(paths, "keys", timeout=None, source_timeout=None)
    assert {report["status"] for report in found.signals["per_source"].values()} == {"ok"}
    assert most[0] <= 16 + 2  # and that of the test, and that which counts


async def test_a_write_to_a_file_that_is_put_aside_is_seen(folder):
    async with open_files(folder) as stores:
        for number in (0, 40):
            [before] = await ask(stores[number], Rank(["rain"], 9))
            assert not len(before)
            version = await stores[number].version()
            assert await stores[number].version() == version
            await stores[number].put_aside()
            assert await stores[number].version() == version
            async with SqliteStore(folder / f"{number}.airw") as writer:
                await writer.apply(Change([change("new", "rain")]))
            assert await stores[number].version() != version
            [after] = await ask(stores[number], Rank(["rain"], 9))
            assert after.artifact_ids == ["new"]


async def test_a_write_of_a_store_that_stays_open_is_seen(folder):
    """Its log begins anew after a checkpoint, and then neither its size nor the file changes."""
    async with open_files(folder) as stores, SqliteStore(folder / "40.airw") as writer:
        for number in range(6):
            version = await stores[40].version()
            await writer.apply(Change([change("new", f"rain {number}")]))
            with closing(sqlite3.connect(folder / "40.airw")) as other:
                other.execute("PRAGMA wal_checkpoint").fetchall()
            after = await stores[40].version()
            assert after is None or after != version
            [ranking] = await ask(stores[40], Rank([f"{number}"], 9))
            assert ranking.artifact_ids == ["new"]


async def test_a_write_that_was_prepared_for_a_file_that_was_replaced_is_refused(folder):
    async with open_files(folder) as stores:
        async with SqliteStore(folder / "other") as other:
            await other.apply(Change([change("b", "another file")]))
        (folder / "other").replace(folder / "40.airw")
        with pytest.raises(StoreError, match="replaced while open"):
            await stores[40].apply(Change([change("new", "rain")]))
        assert await ask(stores[40], ArtifactIds()) == ["b"]
        await stores[40].apply(Change([change("new", "rain")]))
        assert await ask(stores[40], ArtifactIds()) == ["b", "new"]


async def test_a_version_stays_the_same_until_a_write(folder):
    async with open_files(folder) as stores:
        versions = [await store.version() for store in stores]
        for number, store in enumerate(stores):
            await read_text(store, number)
        assert [await store.version() for store in stores] == versions
        await stores[3].apply(Change([change("new", "rain")]))
        changed = [await store.version() != version for store, version in zip(stores, versions, strict=True)]
        assert changed == [number == 3 for number in range(COUNT)]


async def test_a_file_that_is_replaced_while_it_is_put_aside_is_followed(folder):
    async with open_files(folder) as stores:
        async with SqliteStore(folder / "other") as other:
            await other.apply(Change([change("a40", "another file")]))
        (folder / "other").replace(folder / "40.airw")
        assert await read_text(stores[40], 40) == "another file"


async def test_what_is_in_memory_of_a_file_that_is_replaced_while_it_is_put_aside_is_not_used(folder):
    async with open_files(folder) as stores:
        store, rank = stores[40], Rank(np.ones((1, 4), np.float32), 5)
        [ranking] = await ask(store, rank)
        assert ranking.artifact_ids == ["a40"]
        for number, other in enumerate(stores):
            if other is not store:
                await read_text(other, number)
        assert not store._reader.first.is_open
        async with SqliteStore(folder / "other") as other:
            await other.apply(Change([change("new", "another file")]))
        (folder / "other").replace(folder / "40.airw")
        await store.version()
        [ranking] = await ask(store, rank)
        assert ranking.artifact_ids == ["new"]


async def test_a_file_that_is_removed_while_it_is_put_aside_is_an_error(folder):
    async with open_files(folder) as stores:
        (folder / "40.airw").unlink()
        for _ in range(2):
            with pytest.raises(StoreError, match=r"40\.airw"):
                await read_text(stores[40], 40)


async def test_a_file_that_is_put_aside_is_written_and_closed_like_others(folder):
    async with open_files(folder) as stores:
        for number in (0, 40):
            await stores[number].put_aside()
            await stores[number].apply(Change([change("new", "rain")]))
            await stores[number].put_aside()
            [ranking] = await ask(stores[number], Rank(["rain"], 9))
            assert ranking.artifact_ids == ["new"]
        await stores[7].aclose()
        with pytest.raises(StoreError, match="is closed"):
            await read_text(stores[7], 7)
