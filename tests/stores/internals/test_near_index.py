"""A corpus too large for exact search has an index beside the file.

The limits are lowered for these tests.
"""

import errno
import json
import math
import os
import random
import shutil
import sqlite3
import sys
import textwrap
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest

from airw.errors import EmbedderError, EmbedderMismatch, StoreCorrupt
from airw.protocols import ArtifactIds, Change, Counts, Rank, Vectors, ask
from airw.stores import MemoryStore, SqliteStore, copy_file
from airw.stores.sqlite import _near_index, _vectors
from airw.stores.sqlite._near_index import NearIndex
from airw.values import ArtifactChange, LedgerEntry, Record
from airw.values.filters import parse_filter
from tests.support.corpora import ROOT

if not _near_index.is_installed():
    pytest.skip("the extra `ann` is not installed", allow_module_level=True)
pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]  # each test writes thousands of vectors

DIM = 32


@pytest.fixture(autouse=True)
def small_limits(monkeypatch):
    """An index above 3,000 rows, saved for 500 new ones."""
    lower_limits(monkeypatch.setattr)


def lower_limits(setattr):
    setattr(_near_index, "EXACT_ROWS", 3_000)
    setattr(_near_index, "_ALLOWED_PER_CANDIDATE", 1)
    setattr(_vectors, "MIN_ROWS", 1)
    setattr(_vectors, "MIN_NEW", 500)
    setattr(_vectors, "MIN_AT_END", 100)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "large.airw"


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def near_topics(count, seed, spread=0.25):
    """Return unit vectors around 40 topics, similar to those of real texts."""
    topics = unit(np.random.default_rng(0).standard_normal((40, DIM)))
    random = np.random.default_rng(seed)
    return unit(topics[random.integers(0, 40, count)] + spread * random.standard_normal((count, DIM)))


def changes(start, stop, *, seed=None, per_artifact=1, vectors=None):
    """Return changes that put artifacts `a0…`; the metadata contain their number."""
    puts = []
    rows = near_topics((stop - start) * per_artifact, start if seed is None else seed) if vectors is None else vectors
    for at in range(start, stop):
        name = f"a{at:05}"
        records = [
            Record(
                Record.make_id(name, "chunk", i), name, ("title", "chunk")[i % 2], i, "", {"n": at, "parity": at % 2}
            )
            for i in range(per_artifact)
        ]
        entry = LedgerEntry(name, "1", "e", "s", record_ids=tuple(each.id for each in records))
        first = (at - start) * per_artifact
        puts.append(ArtifactChange(entry, records, rows[first : first + per_artifact]))
    return puts


QUERIES = near_topics(20, 99)


async def fill(store, count, **more):
    for start in range(0, count, 1_000):
        await store.apply(Change(changes(start, min(count, start + 1_000), **more)))


def list_sizes(path):
    """Return the number of rows of each index."""
    from usearch.index import Index

    return [len(Index.restore(str(file), view=True)) for file in list_indexes(path)]


def list_indexes(path):
    return sorted(_vectors.vector_folder(path).glob("*.usearch"))


def list_strays(path):
    """Return the files beside the index and the vectors that do not belong there."""
    names = {(file.stem, file.suffix) for file in _vectors.vector_folder(path).iterdir()}
    stems = {stem for stem, suffix in names if suffix == ".usearch"}
    return names - {(stem, suffix) for stem in stems for suffix in (".vectors", ".usearch")} - {("writer", ".lock")}


def recall(rankings, expected):
    shared = [len({*one.record_ids} & {*other.record_ids}) for one, other in zip(rankings, expected, strict=True)]
    return sum(shared) / sum(map(len, expected)) if any(map(len, expected)) else 1.0


async def check_same_as_memory(store, memory, least=0.98, **options):
    """Check that rankings are nearly those of exact search, in order.

    A record has the same score in both.
    """
    rankings, expected = [await ask(each, Rank(QUERIES, 10, **options)) for each in (store, memory)]
    assert [len(each) for each in rankings] == [len(each) for each in expected]
    assert recall(rankings, expected) >= least
    for ranking in rankings:
        assert np.array_equal(ranking.scores, np.sort(ranking.scores)[::-1])
    for one, other in zip(rankings, expected, strict=True):
        scores = dict(zip(other.record_ids, other.scores.tolist(), strict=True))
        common = [each for each in one.record_ids if each in scores]
        assert [scores[each] for each in common] == [
            score for each, score in zip(one.record_ids, one.scores.tolist(), strict=True) if each in scores
        ]


async def test_a_large_corpus_gets_an_index_and_search_finds_what_exact_search_finds(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        await fill(store, 3_000)
        assert list_sizes(path) == []
        await store.apply(Change(changes(3_000, 5_500)))
        assert list_sizes(path) == [5_500]
        await fill(memory, 3_000)
        await memory.apply(Change(changes(3_000, 5_500)))
        await check_same_as_memory(store, memory)
        await check_same_as_memory(store, memory, per_artifact=True)
        assert (await ask(store, Counts()))["records"] == 5_500


async def test_new_rows_are_added_to_the_index_once_they_are_many_and_all_at_the_end(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        sizes = []
        for stop in (4_000, 4_400, 4_600, 5_100, 5_700, 5_900):
            for each in (store, memory):
                await each.apply(Change(changes(len(await ask(each, ArtifactIds())), stop)))
            sizes += list_sizes(path)
            await check_same_as_memory(store, memory)
        assert sizes == [4_000, 4_000, 4_600, 4_600, 5_700, 5_700]
        await store.aclose()
        assert list_sizes(path) == [5_900]
        async with await SqliteStore.open(path) as again:
            await check_same_as_memory(again, memory)
            await again.apply(Change(changes(5_900, 5_950)))
        assert list_sizes(path) == [5_900]


@pytest.mark.slow
async def test_filters_and_surfaces_are_honoured_even_if_they_keep_few_rows(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await fill(each, 2_500, per_artifact=2)
        assert list_sizes(path) == [5_000]
        for filter, options in (
            ({"parity": 1}, {}),
            ({"parity": 1}, {"surfaces": ["title"]}),
            ({"n": {"$lt": 40}}, {"per_artifact": True}),
            ({"n": {"$lt": 40}}, {"surfaces": ["none"]}),
            ({"n": {"$gte": 4_000}}, {}),
            ({"n": -1}, {"surfaces": ["title"]}),
            ({"$and": [{"parity": 0}, {"n": {"$lt": 900}}]}, {"surfaces": ["title"], "per_artifact": True}),
        ):
            await check_same_as_memory(store, memory, filter=parse_filter(filter), **options)


async def test_similarities_best_records_and_vectors_are_exact(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await fill(each, 2_000, per_artifact=2)
        assert list_sizes(path)
        ids = [Record.make_id(f"a{at:05}", "chunk", at % 2) for at in (7, 1_999, 7, 100)] + ["absent", "n\0l"]
        names = ["a00007", "absent", "a01999", "a00007"]
        for query in QUERIES[:3]:
            for named in ({"records": ids}, {"among": names, "per_artifact": True}):
                for surfaces in (None, ["title"], ["none"]):
                    asked = Rank(query[None], surfaces=surfaces, **named)
                    [best], [expected] = [await ask(each, asked) for each in (store, memory)]
                    assert list(best.record_ids) == list(expected.record_ids)
                    assert best.scores.tolist() == expected.scores.tolist()
                    assert bool(len(best)) == (surfaces != ["none"])
        assert np.array_equal(await ask(store, Vectors(ids)), await ask(memory, Vectors(ids)), equal_nan=True)
        assert [len(each) for each in await ask(store, Rank(QUERIES[:1], records=["absent"]))] == [0]
        assert (await ask(store, Vectors(["absent"]))).shape == (1, DIM)
        assert [len(each) for each in await ask(store, Rank(QUERIES[:2], 0))] == [0, 0]
        with pytest.raises(EmbedderMismatch, match=r"3 wide.*32 wide"):
            await ask(store, Rank(np.ones((1, 3), np.float32), 5))
        with pytest.raises(EmbedderError, match="NaN"):
            await ask(store, Rank(np.full((1, DIM), math.nan, np.float32), among=names))


@pytest.mark.slow
async def test_a_write_is_seen_at_the_next_query_and_removed_or_replaced_rows_are_never_found(path):
    async with SqliteStore(path) as store, await SqliteStore.open(path) as other, MemoryStore() as memory:
        for each in (store, memory):
            await fill(each, 4_000)
        for step in range(6):
            random = np.random.default_rng(step)
            put = changes(start := int(random.integers(0, 4_000)), start + 150, seed=1_000 + step)
            removed = [f"a{at:05}" for at in random.integers(0, 4_000, 200)]
            for each in (store, memory):
                await each.apply(Change(put, removals=removed))
            for each in (store, other):
                await check_same_as_memory(each, memory)
        nearest = put[0].vectors
        for each in (store, other):
            assert (await ask(each, Rank(nearest, 1)))[0].artifact_ids == [put[0].entry.artifact_id]


async def test_a_query_after_one_write_reads_only_what_was_written(path, monkeypatch):
    async with SqliteStore(path) as store:
        await fill(store, 5_000)
        await ask(store, Rank(QUERIES, 5))
        added, put = [], NearIndex.put
        monkeypatch.setattr(
            NearIndex,
            "put",
            lambda self, ids, numbers, *args, **more: (
                added.extend(numbers),
                put(self, ids, numbers, *args, **more),
            ),
        )
        await store.apply(Change(changes(17, 18, seed=5)))
        await ask(store, Rank(QUERIES, 5))
        assert added == [5_001]


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "cut", "garbage", "foreign", "vectors"])
async def test_an_index_that_is_missing_cut_short_garbage_or_of_another_file_is_rebuilt_at_the_next_write(path, damage):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        await store.apply(Change(changes(0, 4_400)))
        await store.apply(Change(changes(4_400, 5_000)))
        await memory.apply(
            Change(changes(0, 5_000, vectors=np.concatenate([near_topics(4_400, 0), near_topics(600, 4_400)])))
        )
        [file] = list_indexes(path)
        await check_same_as_memory(store, memory)
        # As if the process was killed here.
        stranger = file.with_name(f"{'0' * 12}{file.name[12:]}")
        if damage == "missing":
            file.unlink()
        elif damage == "vectors":
            file.with_suffix(".vectors").unlink()
        elif damage == "cut":
            file.write_bytes(file.read_bytes()[:500])
        elif damage == "garbage":
            file.write_bytes(b"garbage" * 1_000)
        else:
            file.rename(stranger)
        async with await SqliteStore.open(path) as other:
            await check_same_as_memory(other, memory, least=1.0)  # until then the search is exact
            await other.apply(Change(config={}))
            assert list_sizes(path) == [5_000]
            assert list_indexes(path) != [file]
            assert not stranger.exists()
            assert not list_strays(path)
            await check_same_as_memory(other, memory)
        await check_same_as_memory(store, memory)


async def test_indexes_of_an_earlier_format_are_ignored_and_the_next_write_removes_them(path):
    async with SqliteStore(path) as store:
        await fill(store, 3_500)
    folder = _vectors.vector_folder(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        ((mark,),) = connection.execute("SELECT trim(value, '\"') FROM setting WHERE kind = 'file'").fetchall()
        names = {"columns": f"{mark}-{'0' * 16}.columns", "vectors": f"{mark}-{'1' * 16}.vectors", "rows": 3_500}
        segment = f"{mark}-0-3500-3500-64.usearch"
        connection.executemany(
            "INSERT OR REPLACE INTO setting VALUES (?, ?, ?)",
            [("vectors", "", json.dumps(names)), ("segment", segment, '{"checksum": ""}')],
        )
    for name in (names["columns"], names["vectors"], segment, "partial-columns"):
        (folder / name).write_bytes(b"old")
    async with await SqliteStore.open(path) as store, MemoryStore() as memory:
        await fill(memory, 3_500)
        await check_same_as_memory(store, memory, least=1.0)
        await store.apply(Change(config={}))
        assert list_sizes(path) == [3_500]
        assert not list_strays(path)
        await check_same_as_memory(store, memory)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM setting WHERE kind = 'segment'").fetchone() == (0,)


def flip_a_byte(file, chance):
    whole = bytearray(file.read_bytes())
    whole[chance.randrange(len(whole))] ^= chance.randrange(1, 256)
    file.write_bytes(whole)


async def test_an_index_with_another_checksum_than_the_database_names_is_never_mapped(path, monkeypatch):
    """usearch ends the process at one flipped byte of every tenth or so."""
    async with SqliteStore(path) as store:
        await fill(store, 4_000)
        await copy_file(path, path.with_name("other.airw"))
    async with SqliteStore(path.with_name("other.airw")) as other:
        await other.apply(Change(changes(0, 4_000, seed=5)))
    [first] = list_indexes(path)
    [foreign] = list_indexes(path.with_name("other.airw"))
    whole, chance, mapped = first.read_bytes(), random.Random(1), []
    real = _near_index.NearRows.__init__
    monkeypatch.setattr(
        _near_index.NearRows, "__init__", lambda self, *args: (mapped.append(first.exists()), real(self, *args))[1]
    )
    for damage in range(12):
        if damage == 0:
            shutil.copy(foreign, first)  # a whole index, but of other rows
        else:
            first.write_bytes(whole)
            flip_a_byte(first, chance)
        async with await SqliteStore.open(path) as store:
            [ranking] = await ask(store, Rank(QUERIES[:1], 10))
            assert len(ranking) == 10
        assert not mapped
        assert not first.exists()
    first.write_bytes(whole)
    async with await SqliteStore.open(path) as store:
        await ask(store, Rank(QUERIES[:1], 10))
    assert mapped == [True]


@pytest.mark.slow
async def test_an_index_is_on_the_disk_before_the_database_has_its_name(path, monkeypatch):
    steps = []
    sync, record = os.fsync, _vectors._record_setting

    def note_sync(descriptor):
        steps.append(Path(f"/proc/self/fd/{descriptor}").readlink().suffix)
        sync(descriptor)

    def note_record(connection, setting):
        steps.append("recorded")
        record(connection, setting)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(_vectors, "_record_setting", note_record)
    async with SqliteStore(path) as store:
        await store.apply(Change(changes(0, 4_000)))
    assert steps == [".usearch", "recorded"]


@pytest.mark.slow
async def test_a_restored_corpus_does_not_use_the_indexes_of_what_was_undone(path, tmp_path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await fill(each, 3_500)
        await copy_file(path, tmp_path / "copy.airw")
        await store.apply(Change(changes(3_500, 4_200)))
        assert list_sizes(path) == [4_200]
        await copy_file(tmp_path / "copy.airw", path, replace=True)
        assert len(await ask(store, ArtifactIds())) == 3_500
        for each in (store, memory):
            await each.apply(Change(changes(3_500, 4_200, seed=77)))
        await check_same_as_memory(store, memory)
        assert list_sizes(path) == [4_200]
    async with await SqliteStore.open(tmp_path / "copy.airw") as copy:
        [ranking] = await ask(copy, Rank(QUERIES[:1], 10))
        assert len(ranking) == 10
    assert list_sizes(tmp_path / "copy.airw") == [3_500]


@pytest.mark.slow
async def test_a_mark_that_is_no_mark_is_damage_and_names_no_file(path):
    async with SqliteStore(path) as store:
        await fill(store, 3_500)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("""UPDATE setting SET value = '"../../x"' WHERE kind = 'file'""")
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match="the mark of the file is"):
            await ask(store, Rank(QUERIES[:1], 10))
    assert not [*path.parent.parent.glob("x*"), *path.parent.glob("x*")]


@pytest.mark.slow
async def test_an_index_with_mostly_removed_rows_is_rebuilt_and_one_without_rows_goes_away(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await each.apply(Change(changes(0, 9_000)))
        names = [f"a{at:05}" for at in range(9_000)]
        for removed, size in ((names[:4_000], 9_000), (names[4_000:4_700], 4_300)):
            for each in (store, memory):
                await each.apply(Change(removals=removed))
            assert list_sizes(path) == [size]
            await check_same_as_memory(store, memory)
        for each in (store, memory):
            await each.apply(Change(removals=names))
        assert list_sizes(path) == []


@pytest.mark.slow
async def test_a_corpus_that_is_embedded_again_in_another_width_forgets_the_old_indexes(path):
    async with SqliteStore(path) as store, await SqliteStore.open(path) as other:
        await fill(store, 4_000)
        await ask(other, Rank(QUERIES, 5))
        await store.apply(Change(removals=await ask(store, ArtifactIds())))
        assert list_sizes(path) == []
        await store.apply(Change(changes(0, 4_000, vectors=unit(np.random.default_rng(1).standard_normal((4_000, 8))))))
        query = np.ones((1, 8), np.float32)
        for each in (store, other):
            assert len((await ask(each, Rank(query, 5)))[0]) == 5


@pytest.mark.slow
@pytest.mark.parametrize("efforts", [_near_index._EFFORTS, ()])
async def test_vectors_without_any_structure_are_found(path, monkeypatch, efforts):
    """Their index is measured when it is built; a search may have to compare all vectors."""
    monkeypatch.setattr(_near_index, "_EFFORTS", efforts)
    rows = unit(np.random.default_rng(1).standard_normal((5_000, DIM)))
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await each.apply(Change(changes(0, 5_000, vectors=rows)))
        assert list_sizes(path) == ([5_000] if efforts else [])
        await check_same_as_memory(store, memory, least=0.98 if efforts else 1.0)


async def test_without_the_extra_search_is_exact_and_writing_warns_with_the_install_command(path, monkeypatch):
    monkeypatch.setattr(_near_index, "is_installed", lambda: False)
    async with SqliteStore(path) as store, MemoryStore() as memory:
        with pytest.warns(RuntimeWarning, match=r"pip install 'airw\[ann\]'"):
            await fill(store, 4_000)
        await fill(memory, 4_000)
        assert list_sizes(path) == []
        await check_same_as_memory(store, memory, least=1.0)


async def test_if_an_index_cannot_be_written_the_write_succeeds_and_the_next_one_builds_it(path, monkeypatch):
    def fail_to_save(self, *_):
        raise OSError(errno.ENOSPC, "no room")

    async with SqliteStore(path) as store:
        await fill(store, 3_000)
        with monkeypatch.context() as patch:
            patch.setattr(_near_index.NearMaker, "save", fail_to_save)
            with pytest.warns(RuntimeWarning, match="no room"):
                await store.apply(Change(changes(3_000, 4_000)))
        assert len(await ask(store, ArtifactIds())) == 4_000
        await store.apply(Change(config={}))
        assert list_sizes(path) == [4_000]
        assert not list_strays(path)


@pytest.mark.slow
async def test_a_corpus_that_shrinks_is_searched_from_memory_again(path):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await fill(each, 4_000)
            await each.apply(Change(removals=[f"a{at:05}" for at in range(2_000)]))
        assert list_sizes(path) == []
        await check_same_as_memory(store, memory, least=1.0)


async def test_removing_a_store_removes_its_indexes(path):
    async with SqliteStore(path) as store:
        await fill(store, 4_000)
    await SqliteStore.remove(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
async def test_a_process_killed_while_it_builds_an_index_loses_nothing(path):
    """The next writer builds the index; the written records stay."""
    code = """
        import os, sys, anyio
        import tests.stores.internals.test_near_index as t
        from airw.protocols import Change
        from airw.stores import SqliteStore
        from airw.stores.sqlite import _near_index
        t.lower_limits(setattr)
        sync = _near_index.sync_file
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                await store.apply(Change(t.changes(0, 3_400)))
                _near_index.sync_file = lambda path: (sync(path), os._exit(9))
                await store.apply(Change(t.changes(3_400, 4_000)))
        anyio.run(main)
        """
    command = [sys.executable, "-c", textwrap.dedent(code), str(path)]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    assert (await anyio.run_process(command, check=False, env=environment)).returncode == 9
    assert sorted(list_sizes(path)) == [3_400, 4_000]  # nobody knows the second one
    async with SqliteStore(path) as store:
        assert len(await ask(store, ArtifactIds())) == 4_000  # the write was committed
        await store.apply(Change(config={}))
        assert list_sizes(path) == [4_000]
        assert not list_strays(path)
        [nearest] = await ask(store, Rank(near_topics(600, 3_400)[7:8], 1))
        assert nearest.artifact_ids == ["a03407"]


async def test_a_cancelled_write_leaves_no_part_of_an_index_and_the_next_one_builds_it(path):
    async with SqliteStore(path) as store:
        await fill(store, 3_000)
        with anyio.move_on_after(0.05) as scope:
            await store.apply(Change(changes(3_000, 9_000)))
        assert scope.cancelled_caught
        await store.apply(Change(config={}))
        count = len(await ask(store, ArtifactIds()))
        assert count in (3_000, 9_000)
        assert list_sizes(path) == ([] if count == 3_000 else [9_000])
        assert count == 3_000 or not list_strays(path)


async def test_new_rows_that_were_removed_before_the_index_grows_are_no_error(path, monkeypatch):
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for each in (store, memory):
            await each.apply(Change(changes(0, 4_000)))
            await each.apply(Change(changes(4_000, 4_400)))
            await each.apply(Change(removals=[f"a{at:05}" for at in range(4_000, 4_400)]))
        monkeypatch.setattr(_vectors, "MIN_NEW", 100)
        await each.apply(Change(changes(4_400, 4_500)))
        await store.apply(Change(changes(4_400, 4_500)))
        assert list_sizes(path) == [4_100]
        await check_same_as_memory(store, memory)


async def test_searches_at_the_same_time_find_what_each_finds_alone(path):
    """An index of usearch can be used by one thread at a time."""
    async with SqliteStore(path) as store:
        await fill(store, 4_600)
        even = parse_filter({"parity": 0})
        asked = [(query, filter) for query in near_topics(40, 7) for filter in (None, even)]
        alone = [(await ask(store, Rank(query[None], 10, filter=filter)))[0] for query, filter in asked]
        found = {}

        async def search(number, query, filter):
            [found[number]] = await ask(store, Rank(query[None], 10, filter=filter))

        async with anyio.create_task_group() as group:
            for number, one in enumerate(asked):
                group.start_soon(search, number, *one)
        assert [found[number].record_ids for number in range(len(asked))] == [each.record_ids for each in alone]
