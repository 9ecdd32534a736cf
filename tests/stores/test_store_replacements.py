"""A corpus file is replaced, restored or renamed.

Meanwhile others have it open, or were killed before.
"""

import os
import shutil
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw._base.concurrency import map_bounded
from airw.corpora import build, open_corpus, restore_corpus
from airw.errors import StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Change, Rank, VectorsOf, ask
from airw.sources import from_mapping
from airw.stores import SqliteStore, copy_file
from tests.support.corpora import start_process
from tests.support.stored import change, check_file, fill

pytestmark = pytest.mark.asyncio_only

BACKUP, OTHER, LATER, KILLED = (
    [f"{name}{number:02}" for number in range(20)] for name in ("backup", "other", "later", "killed")
)

KILLED_PROCESS = """
from tests.support.stored import change, fill
import shutil
async def main():
    stores = []
    for name in sys.argv[2:]:
        folder = path / name
        folder.mkdir()
        file = folder / "notes.airw"
        await fill(file, *[change(f"backup{at:02}", "word " * 300) for at in range(20)])
        shutil.copy(file, folder / "backup.airw")
        if name.startswith("older"):
            await fill(file, *[change(f"later{at:02}", "word " * 300) for at in range(20)])
        store = await SqliteStore(file).__aenter__()
        stores.append(store)
        for at in range(20):
            await store.apply(Change([change(f"killed{at:02}", "word " * 300)], [f"backup{at:02}"]))
    os.kill(os.getpid(), signal.SIGKILL)
anyio.run(main)
"""


@pytest.fixture(scope="module")
def folder_of_killed(tmp_path_factory):
    """Return a folder of folders, each with a corpus whose writer was killed, and a backup.

    The writer had added 20 artifacts and removed those of the backup; all of that is in the log.
    """
    folder = tmp_path_factory.mktemp("killed")
    names = ["older", "same", "other", "whole", "moved", "stopped"]
    with start_process(KILLED_PROCESS, folder, *names) as process:
        _, complaints = process.communicate(timeout=60)
    assert process.returncode == -9, complaints
    return folder


async def read_ids(path):
    """Return the ids of all artifacts after a check of the whole file."""
    async with await SqliteStore.open(path) as store:
        ids = await ask(store, ArtifactIds())
        width = len((await ask(store, VectorsOf(ids[:1]))).vectors[0])
        [ranking] = await ask(store, Rank(np.ones((1, width), np.float32), 999))
        assert sorted({*ranking.artifact_ids}) == ids
    check_file(path)
    return ids


@pytest.mark.slow
@pytest.mark.parametrize("name", ["older", "same"])
async def test_a_backup_that_is_restored_after_a_kill_is_neither_damaged_nor_undone(folder_of_killed, name):
    path = folder_of_killed / name / "notes.airw"
    assert path.with_name("notes.airw-wal").stat().st_size > 100_000
    await restore_corpus(path, path.with_name("backup.airw"))
    assert await read_ids(path) == BACKUP


@pytest.mark.slow
async def test_another_corpus_that_takes_the_place_of_a_killed_one_is_not_damaged(folder_of_killed):
    path = folder_of_killed / "other" / "notes.airw"
    await fill(path.with_name("new.airw"), *[change(name, "other words") for name in OTHER])
    await copy_file(path.with_name("new.airw"), path, replace=True)
    assert await read_ids(path) == OTHER


async def test_a_replacement_that_fails_halfway_keeps_what_was_acknowledged(folder_of_killed, monkeypatch):
    path = folder_of_killed / "stopped" / "notes.airw"

    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", refuse)
        with pytest.raises(StoreError, match=r"notes\.airw' cannot be written \(Permission denied\)"):
            await copy_file(path.with_name("backup.airw"), path, replace=True)
    assert await read_ids(path) == KILLED


async def test_what_was_acknowledged_before_a_kill_is_there(folder_of_killed):
    assert await read_ids(folder_of_killed / "whole" / "notes.airw") == KILLED


@pytest.mark.parametrize("copy", [True, False])
async def test_a_folder_that_is_copied_or_moved_after_a_kill_keeps_what_was_acknowledged(
    folder_of_killed, tmp_path, copy
):
    new = tmp_path / "new"
    (shutil.copytree if copy else os.rename)(folder_of_killed / "moved", new)
    os.utime(new / "notes.airw")
    if not copy:
        os.utime(new / "notes.airw-wal")
    assert await read_ids(new / "notes.airw") == KILLED


# Open corpora


def texts(word, count):
    return from_mapping({f"{word}{number}": f"{word} {number}" for number in range(count)}, name="n", embedder="light")


@pytest.mark.slow
@pytest.mark.parametrize("has_written", [False, True])
async def test_an_open_corpus_that_is_replaced_answers_from_the_new_file(tmp_path, has_written):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    for word, file in (("old", path), ("new", new)):
        async with build(texts(word, 30), store=file):
            pass
    async with open_corpus(path) as service:
        assert len(await service.search("old", mode="lexical", k=99)) == 30
        await service.search("old")
        if has_written:
            await service.upsert({"z": "old words"})
        new.replace(path)
        for mode in ("lexical", "dense", "hybrid"):
            hits = await service.search("new", mode=mode, k=99)
            assert sorted(hit.artifact_id for hit in hits) == sorted(f"new{number}" for number in range(30))
        async with open_corpus(path) as other:
            assert await other.search("old", mode="lexical") == []
            await service.upsert({"y": "newest words"})
            assert [hit.artifact_id for hit in await other.search("newest", mode="lexical")] == ["y"]
    ids = await read_ids(path)
    assert (len(ids), "y" in ids, "z" in ids) == (31, True, False)


async def test_closing_a_corpus_that_was_replaced_leaves_the_new_file_as_it_is(tmp_path):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    await fill(path, *map(change, BACKUP))
    await fill(new, *map(change, OTHER))
    async with await SqliteStore.open(path) as store:
        await store.apply(Change([change("late")]))
        new.replace(path)
    assert await read_ids(path) == OTHER


async def test_a_write_in_progress_never_goes_to_another_file(tmp_path):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    await fill(path, change("a"))
    await fill(new, change("b"))
    async with await SqliteStore.open(path) as store:
        async with store.writing():
            await ask(store, ArtifactIds())
            new.replace(path)
            for call in (store.apply(Change([change("c")])), ask(store, ArtifactIds())):
                with pytest.raises(StoreError, match="replaced while open; nothing was written, so try again"):
                    await call
        async with store.writing():
            assert await ask(store, ArtifactIds()) == ["b"]
            await store.apply(Change([change("c")]))
        assert await ask(store, ArtifactIds()) == ["b", "c"]
    assert await read_ids(path) == ["b", "c"]


async def test_a_file_that_is_no_corpus_is_an_error_until_a_corpus_is_there_again(tmp_path):
    path, kept = tmp_path / "notes.airw", tmp_path / "kept.airw"
    await fill(path, change("a"))
    shutil.copy(path, kept)
    async with await SqliteStore.open(path) as store:
        (tmp_path / "text").write_text("# Notes\n" * 1000)
        (tmp_path / "text").replace(path)
        for _ in range(2):
            with pytest.raises(StoreCorrupt):
                await ask(store, ArtifactIds())
        kept.replace(path)
        assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_corpus_of_another_embedder_must_be_opened_again(tmp_path):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    for file, embedder in ((path, "one"), (new, "two")):
        await fill(file, change(embedder))
        async with await SqliteStore.open(file) as store:
            await store.apply(Change(config={"embedder_id": embedder}))
    async with await SqliteStore.open(path) as store:
        assert await ask(store, ArtifactIds()) == ["one"]
        new.replace(path)
        for _ in range(2):
            with pytest.raises(StoreError, match="replaced by a corpus of another embedder; open it again"):
                await ask(store, Rank(np.ones((1, 4), np.float32), 5))
    assert await read_ids(path) == ["two"]


WRITER = """
from tests.support.stored import change
async def main():
    async with SqliteStore(path) as store:
        print("open", flush=True)
        for step in range(10**6):
            try:
                await store.apply(Change([change(f"{step % 50}", "word " * 3000, version=f"{step}", records=3)]))
            except StoreError as error:
                assert "replaced while open" in str(error)
anyio.run(main)
"""


@pytest.mark.slow
async def test_a_file_that_is_replaced_again_and_again_beside_a_writer_is_never_damaged(tmp_path):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    await fill(path, *[change(name) for name in OTHER])
    await copy_file(path, new)
    with start_process(WRITER, path) as process:
        assert process.stdout.readline() == "open\n"
        for _ in range(100):
            await copy_file(new, path, replace=True)
            async with await SqliteStore.open(path) as store:
                assert set(OTHER) <= {*await ask(store, ArtifactIds())}
        assert process.poll() is None
    assert set(OTHER) <= {*await read_ids(path)}


@pytest.mark.slow
async def test_reads_that_begin_while_a_replaced_file_is_opened_wait_for_it(tmp_path):
    path, new = tmp_path / "notes.airw", tmp_path / "new.airw"
    await fill(path, change("old"))
    await fill(new, *[change(name) for name in OTHER])
    async with await SqliteStore.open(path) as store:

        async def read(number):
            await anyio.sleep(number / 5_000)
            return await ask(store, ArtifactIds())

        for _ in range(5):
            shutil.copy(new, tmp_path / "next.airw")
            (tmp_path / "next.airw").replace(path)
            assert await map_bounded(read, range(60), limit=60) == [OTHER] * 60


async def test_connections_end_when_one_of_them_has_met_another_file(tmp_path):
    path, other = tmp_path / "notes.airw", tmp_path / "other.airw"
    await fill(path, *map(change, BACKUP))
    await fill(other, *map(change, OTHER))
    async with SqliteStore(path) as store:
        await map_bounded(lambda _: ask(store, ArtifactIds()), range(8), limit=8)
        before = store._reader
        await copy_file(other, path, replace=True)
        await before.first._submit(before.first._replace_raw)  # as after a transaction that could not be undone
        assert await ask(store, ArtifactIds()) == OTHER
        assert not any(connection.is_open for connection in before._all)
