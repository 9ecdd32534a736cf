"""Vectors are mapped from files; answers are the same with and without them.

The limits are lowered for these tests.
"""

import errno
import os
import random
import shutil
import sys
import tempfile
import textwrap
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.protocols import ArtifactIds, Change, Rank, Vectors, VectorsOf, ask
from airw.stores import MemoryStore, SqliteStore, check_file, copy_file
from airw.stores._indexes.dense_index import DenseIndex
from airw.stores.sqlite import _vectors
from airw.stores.sqlite._vectors import vector_folder
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.filters import parse_filter
from tests.support.corpora import ROOT
from tests.support.drawing import examples

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]  # whole stores are damaged in test_store_faults.py, too

DIM = 6
QUERIES = np.random.default_rng(1).standard_normal((3, DIM)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """Save every eight rows, and each row when a store closes."""
    lower_limits(monkeypatch.setattr)


def lower_limits(setattr):
    for name, value in (("MIN_ROWS", 1), ("MIN_NEW", 8), ("MIN_AT_END", 1), ("_BLOCK", 5)):
        setattr(_vectors, name, value)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


def change(number, seed=0, records=2):
    name = f"a{number:03}é"
    rows = np.random.default_rng([number, seed]).standard_normal((records, DIM)).astype(np.float32)
    made = [
        Record(Record.make_id(name, "chunk", at), name, ("title", "chunk")[at % 2], at, "", {"n": number})
        for at in range(records)
    ]
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return ArtifactChange(LedgerEntry(name, str(seed), "e", "s"), made, rows)


async def read_all(store):
    """Return all that a store says about its vectors, as lists."""
    names = [f"a{number:03}é" for number in (1, 5, 1, 99, 30)]
    ids = [Record.make_id(name, "chunk", at) for name in names for at in range(2)]
    rankings = []
    for k in (3, 100):
        for options in (
            {},
            {"per_artifact": True},
            {"surfaces": ["title"]},
            {"filter": parse_filter({"n": {"$lt": 7}})},
        ):
            rankings += await ask(store, Rank(QUERIES, k, **options))
    rankings += await ask(store, Rank(QUERIES, among=names, per_artifact=True))
    rankings += await ask(store, Rank(QUERIES, records=ids))
    stored = await ask(store, VectorsOf(names))
    return [
        *[(list(each.record_ids), list(each.artifact_ids), each.scores.tolist()) for each in rankings],
        (await ask(store, Vectors(ids))).tobytes(),
        (stored.record_ids, stored.vectors.tobytes()),
    ]


def list_saved(path, suffix="*"):
    return sorted(vector_folder(path).glob(f"*.{suffix}"), key=lambda file: file.suffix)


def is_mapped(store):
    return store._indexes.vectors._index._start > 0


# What may happen between two questions; numbers choose artifacts, bytes and files.
STEP = st.one_of(
    st.tuples(st.just("put"), st.lists(st.integers(0, 12), min_size=1, max_size=9, unique=True), st.integers(0, 99)),
    st.tuples(st.just("remove"), st.lists(st.integers(0, 12), max_size=9), st.just(0)),
    st.tuples(st.sampled_from(["close", "delete", "flip", "cut", "copy", "restore"]), st.just([]), st.integers(0, 999)),
)


async def take_step(path, store, memory, step):
    """Do one step to a store and its files, and return the store to ask next."""
    kind, numbers, seed = step
    if kind in ("put", "remove"):
        puts = [change(number, seed, records=1 + seed % 3) for number in numbers] if kind == "put" else []
        removals = [] if puts else [f"a{number:03}é" for number in numbers]
        for each in (store, memory):
            await each.apply(Change(puts, removals=removals))
        return store
    if kind == "copy":
        await copy_file(path, path.with_name("copy.airw"), replace=True)
        return store
    if kind == "restore":  # through another file, so that the content stays that of `memory`
        await copy_file(path, path.with_name("twin.airw"), replace=True)
        await copy_file(path.with_name("twin.airw"), path, replace=True)
        return store
    await store.aclose()
    files = [file for file in list_saved(path) if file.suffix == ".vectors"]
    file = files[seed % len(files)] if files else None
    if kind == "delete" and file:
        file.unlink()
    elif kind == "flip" and file and file.stat().st_size:
        content = bytearray(file.read_bytes())
        content[seed * 7919 % len(content)] ^= 1 + seed % 255
        file.write_bytes(content)
    elif kind == "cut" and file:
        os.truncate(file, file.stat().st_size * (seed % 100) // 100)
    return await SqliteStore.open(path)


@pytest.mark.slow
@settings(max_examples=examples(30), deadline=None)
@given(st.lists(STEP, max_size=12))
def test_answers_are_the_same_with_and_without_files_whatever_happens_to_them(steps):
    async def main(folder):
        path = folder / "notes.airw"
        async with MemoryStore() as memory:
            store, other = await SqliteStore.open(path, create=True), await SqliteStore.open(path)
            try:
                for step in [("put", [1, 2, 3, 4, 5], 1), ("close", [], 0), *steps]:
                    store = await take_step(path, store, memory, step)
                    expected = await read_all(memory)
                    assert await read_all(store) == expected
                    assert await read_all(other) == expected
            finally:
                await store.aclose()
                await other.aclose()

    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        lower_limits(patch.setattr)
        anyio.run(main, Path(folder))


async def fill(path, count=40, **options):
    async with SqliteStore(path, **options) as store:
        for number in range(count):
            await store.apply(Change([change(number)]))
    assert [file.suffix for file in list_saved(path)] == [".lock", ".vectors"]


async def test_a_store_that_opens_saved_vectors_reads_none_from_the_database(path, monkeypatch):
    await fill(path)
    monkeypatch.setattr(_vectors, "decode_vectors", None)
    async with await SqliteStore.open(path) as store, MemoryStore() as memory:
        await memory.apply(Change([change(number) for number in range(40)]))
        assert await read_all(store) == await read_all(memory)
        assert is_mapped(store)


async def test_after_one_write_only_its_rows_are_read_and_the_mapped_ones_stay(path, monkeypatch):
    await fill(path)
    added, put = [], DenseIndex.put
    monkeypatch.setattr(
        DenseIndex, "put", lambda self, ids, *args, **more: (added.extend(ids), put(self, ids, *args, **more))
    )
    async with await SqliteStore.open(path) as store:
        await ask(store, Rank(QUERIES, 3))
        await store.apply(Change([change(7, seed=5)], removals=["a003é"]))
        await ask(store, Rank(QUERIES, 3))
        assert is_mapped(store)
    assert added == [record.id for record in change(7).records]


@pytest.mark.slow
async def test_a_flipped_byte_anywhere_is_found_and_the_next_write_saves_the_vectors_again(path):
    await fill(path, 12)
    [file] = list_saved(path, "vectors")
    whole, chance = file.read_bytes(), random.Random(1)
    async with MemoryStore() as memory:
        await memory.apply(Change([change(number) for number in range(12)]))
        expected = await read_all(memory)
    for _ in range(24):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(whole))] ^= chance.randrange(1, 256)
        file.write_bytes(damaged)
        async with await SqliteStore.open(path) as store:
            assert await read_all(store) == expected
            assert not is_mapped(store)
        assert not file.exists()
    async with await SqliteStore.open(path) as store:
        await store.apply(Change(config={}))
    async with await SqliteStore.open(path) as store:
        assert await read_all(store) == expected
        assert is_mapped(store)
    assert await check_file(path) == []


async def test_a_file_that_is_changed_while_it_is_mapped_is_checked_again(path):
    await fill(path, 30)
    [file] = list_saved(path, "vectors")
    async with await SqliteStore.open(path) as store:
        expected = await read_all(store)
        assert is_mapped(store)
        rows = np.fromfile(file, np.float32, 9)
        with file.open("r+b") as opened:
            opened.write((-rows).tobytes())
        assert await read_all(store) == expected
        assert not is_mapped(store)
    await fill(path, 31)
    async with await SqliteStore.open(path) as store:
        expected = await read_all(store)
        os.truncate(list_saved(path, "vectors")[0], 0)  # to read what is mapped would end the process now
        assert await read_all(store) == expected


async def test_vectors_that_change_place_are_found_too(path):
    await fill(path, 12)
    [file] = list_saved(path, "vectors")
    rows = np.fromfile(file, np.float32, 2 * DIM).reshape(2, DIM)
    with file.open("r+b") as opened:
        opened.write(rows[::-1].tobytes())
    async with await SqliteStore.open(path) as store:
        await read_all(store)
        assert not is_mapped(store)


async def test_files_of_another_database_are_not_used_and_go_away(path, tmp_path):
    await fill(path, 12)
    await fill(tmp_path / "other.airw", 11)
    for mine, theirs in zip(list_saved(path), list_saved(tmp_path / "other.airw"), strict=True):
        shutil.copy(theirs, mine)
        shutil.copy(theirs, mine.with_name(theirs.name))
    async with await SqliteStore.open(path) as store:
        await ask(store, Rank(QUERIES, 3))
        assert not is_mapped(store)
        await store.apply(Change(config={}))
    assert len(list_saved(path)) == 2


async def test_a_full_disk_is_a_warning_and_the_next_write_saves_the_vectors(path, monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, "no room")

    async with SqliteStore(path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(_vectors, "decode_vectors", fail)
            with pytest.warns(RuntimeWarning, match="cannot be saved beside it.*no room"):
                await store.apply(Change([change(number) for number in range(10)]))
        assert len(await ask(store, ArtifactIds())) == 10
        assert list_saved(path, "vectors") == []
        await store.apply(Change(config={}))
        assert len(list_saved(path, "vectors")) == 1


async def test_a_copy_has_the_vectors_too_and_an_older_one_that_is_restored_is_right(path, tmp_path):
    await fill(path, 12)
    copy = tmp_path / "copy.airw"
    await copy_file(path, copy)
    async with await SqliteStore.open(path) as store, await SqliteStore.open(copy) as other:
        before = await read_all(other)
        assert is_mapped(other)
        await store.apply(Change([change(number, seed=3) for number in range(10, 30)]))
        await copy_file(copy, path, replace=True)
        assert await read_all(store) == before
        await store.apply(Change([change(number, seed=4) for number in range(10, 30)]))
        after = await read_all(store)
    async with await SqliteStore.open(path) as store:
        assert await read_all(store) == after
        assert is_mapped(store)


async def test_removed_rows_are_left_out_once_they_are_many(path):
    await fill(path, 40)
    size = list_saved(path, "vectors")[0].stat().st_size
    async with await SqliteStore.open(path) as store:
        await store.apply(Change(removals=[f"a{number:03}é" for number in range(30)]))
        assert list_saved(path, "vectors")[0].stat().st_size < size / 2
        await store.apply(Change(removals=await ask(store, ArtifactIds())))
        assert list_saved(path, "vectors") == []


@pytest.mark.slow
@pytest.mark.parametrize("step", ["_decode_rows", "_write_files", "_record_setting", "_remove"])
async def test_a_process_killed_at_any_step_of_saving_loses_nothing(path, step):
    await fill(path, 12)
    code = """
        import os, sys, anyio
        import tests.stores.internals.test_saved_vectors as t
        from airw.protocols import Change
        from airw.stores import SqliteStore
        from airw.stores.sqlite import _vectors
        t.lower_limits(setattr)
        step = sys.argv[2]
        work = getattr(_vectors, step)
        def die(*args, **more):
            if step == "_write_files":
                work(*args, **more)  # done, but nobody knows
            os._exit(9)
        setattr(_vectors, step, die)
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                await store.apply(Change([t.change(number, seed=2) for number in range(6, 30)]))
        anyio.run(main)
        """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path), step]
    process = await anyio.run_process(command, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False)
    assert process.returncode == 9
    async with MemoryStore() as memory:
        await memory.apply(Change([change(number) for number in range(6)]))
        await memory.apply(Change([change(number, seed=2) for number in range(6, 30)]))
        expected = await read_all(memory)
    async with await SqliteStore.open(path) as store:
        assert await read_all(store) == expected
        await store.apply(Change(config={}))
    async with await SqliteStore.open(path) as store:
        assert await read_all(store) == expected
        assert is_mapped(store)
        await store.apply(Change([change(number) for number in range(30, 60)]))
    assert len(list_saved(path)) == 2
