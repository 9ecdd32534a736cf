"""Copies of a corpus are taken and put back while others read and write."""

import shutil

import anyio
import pytest

from airw.corpora import build, check_corpus_file, copy_corpus, open_corpus, restore_corpus
from airw.errors import ArgumentError, CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Change, Ledger, ask
from airw.sources import from_mapping
from airw.stores import SqliteStore
from airw.stores.sqlite import files
from tests.support.corpora import start_process
from tests.support.stored import change, check_file, everything, fill

pytestmark = pytest.mark.asyncio_only


def texts(word, count=20):
    return from_mapping({f"{number}": f"{word} {number}" for number in range(count)}, name="notes", embedder="light")


async def read(path):
    async with await SqliteStore.open(path) as store:
        return await everything(store)


async def test_a_copy_has_all_that_was_written_and_is_one_file(tmp_path):
    path, copy = tmp_path / "notes.airw", tmp_path / "copies" / "monday"
    copy.parent.mkdir()
    async with SqliteStore(path) as store:
        await store.apply(Change([change("a", links=["b"]), change("b")]))
        assert await copy_corpus(path, copy) == copy
        before = await everything(store)
        await store.apply(Change([change("c")]))
    assert [each.name for each in copy.parent.iterdir()] == ["monday"]
    assert await read(copy) == before
    assert await check_corpus_file(copy) == []


@pytest.mark.slow
async def test_a_copy_taken_while_others_write_is_the_state_of_one_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_PAGES", 1)
    path = tmp_path / "notes.airw"

    async def write():
        async with SqliteStore(path) as writer:
            for step in range(10**6):
                await writer.apply(Change([change(name, "word " * 300, version=f"{step}") for name in "ab"]))

    await fill(path, change("a"), change("b"))
    versions = set()
    async with anyio.create_task_group() as group:
        group.start_soon(write)
        while len(versions) < 4:
            await copy_corpus(path, tmp_path / "copy.airw", replace=True)
            check_file(tmp_path / "copy.airw")
            async with await SqliteStore.open(tmp_path / "copy.airw") as store:
                [version] = {entry.version for entry in await ask(store, Ledger())}
            versions.add(version)
        group.cancel_scope.cancel()


@pytest.mark.slow
async def test_a_corpus_is_restored_under_its_readers_and_writers(tmp_path):
    path, copy = tmp_path / "notes.airw", tmp_path / "copy.airw"
    async with build(texts("old"), store=path) as service:
        await copy_corpus(path, copy)
        # The log now continues the very content of the copy.
        await service.upsert({"late": "late words"})
        for _ in range(2):
            assert await restore_corpus(path, copy) == path
            assert await service.search("late", mode="lexical") == []
            assert len(await service.search("old", mode="lexical", k=99)) == 20
            await service.upsert({"late": "late words"})
            assert len(await service.search("late", mode="lexical")) == 1
            check_file(path)
        await restore_corpus(path, copy)
    check_file(path)
    async with open_corpus(path) as corpus:
        assert len(await ask(corpus.store, ArtifactIds())) == 20
    assert {each.name for each in tmp_path.iterdir()} <= {"notes.airw", "copy.airw", "notes.airw-lock"}


async def test_a_copy_is_restored_by_name_where_no_corpus_is(tmp_path):
    async with build(texts("old")):
        pass
    await copy_corpus("notes", tmp_path / "copy.airw")
    await SqliteStore.remove((await restore_corpus("other", tmp_path / "copy.airw")).with_name("notes.airw"))
    async with open_corpus("other") as corpus:
        assert len(await corpus.search("old", mode="lexical", k=99)) == 20


async def test_a_copy_is_refused_in_one_line_and_nothing_is_changed(tmp_path):
    path, copy = tmp_path / "notes.airw", tmp_path / "copy.airw"
    await fill(path, change("a"))
    await fill(copy, change("b"))
    (tmp_path / "letter.txt").write_text("Dear ...")
    before = path.read_bytes(), copy.read_bytes()
    for call, error, says in (
        (copy_corpus(path, copy), StoreError, r"copy\.airw' exists; pass replace=True"),
        (copy_corpus(path, path, replace=True), ArgumentError, "the same file"),
        (copy_corpus(path, tmp_path / "letter.txt", replace=True), StoreError, "is not a corpus"),
        (copy_corpus(tmp_path / "no.airw", copy), CorpusNotFound, "no corpus at"),
        (copy_corpus(path, tmp_path / "no" / "copy.airw"), StoreError, "cannot be made"),
        (restore_corpus(path, tmp_path / "no.airw"), CorpusNotFound, "no corpus at"),
    ):
        with pytest.raises(error, match=says) as caught:
            await call
        assert "\n" not in str(caught.value)
    assert (path.read_bytes(), copy.read_bytes()) == before
    assert sorted(each.name for each in tmp_path.iterdir()) == ["copy.airw", "letter.txt", "notes.airw"]


async def test_a_damaged_copy_is_not_restored(tmp_path):
    path, copy = tmp_path / "notes.airw", tmp_path / "copy.airw"
    await fill(path, *[change(f"{number}", "word " * 200) for number in range(50)])
    shutil.copy(path, copy)
    whole = bytearray(copy.read_bytes())
    whole[16_384:20_000] = b"\x55" * (20_000 - 16_384)
    copy.write_bytes(whole)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"the copy .* is damaged .* use another one"):
        await restore_corpus(path, copy)
    assert path.read_bytes() == before


async def test_a_restoration_waits_for_a_builder(tmp_path, monkeypatch):
    path, copy = tmp_path / "notes.airw", tmp_path / "copy.airw"
    await fill(path, change("a"))
    await fill(copy, change("b"))
    hold = SqliteStore.writing
    monkeypatch.setattr(SqliteStore, "writing", lambda store, timeout=0.1: hold(store, timeout=timeout))
    async with SqliteStore(path).writing():
        with pytest.raises(StoreBusy):
            await restore_corpus(path, copy)
    await restore_corpus(path, copy)
    assert (await read(path))[0] == ["b"]


KILLED = """
from airw.corpora import restore_corpus
async def main():
    print("ready", flush=True)
    while True:
        for copy in sys.argv[2:]:
            await restore_corpus(path, copy)
anyio.run(main)
"""


@pytest.mark.slow
async def test_a_restoration_that_is_killed_leaves_the_old_corpus_or_the_new_one(tmp_path):
    path, copies = tmp_path / "notes.airw", [tmp_path / "one.airw", tmp_path / "two.airw"]
    for copy in copies:
        await fill(copy, *[change(f"{copy.stem}{number}", "word " * 300) for number in range(30)])
    shutil.copy(copies[0], path)
    for delay in range(8):
        with start_process(KILLED, path, *copies) as process:
            assert process.stdout.readline() == "ready\n"
            await anyio.sleep(0.02 + delay * 0.013)
            process.kill()
        ids = (await read(path))[0]
        assert len(ids) == 30
        assert len({name[:3] for name in ids}) == 1
        check_file(path)
    await restore_corpus(path, copies[0])
    assert not list(tmp_path.glob("*-partial*"))
