"""The store in a file: other processes, crashes, damage, cancellation and locks."""

import gc
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace

import anyio
import numpy as np
import pytest

from airw.errors import ArgumentError, CorpusNotFound, StoreCorrupt, StoreError
from airw.protocols import (
    ArtifactIds,
    Artifacts,
    Change,
    Counts,
    Edges,
    Ledger,
    Matching,
    Rank,
    Records,
    RecordsOf,
    VectorsOf,
    ask,
)
from airw.stores import MemoryStore, SqliteStore
from airw.values import Edge
from airw.values.filters import matches, parse_filter
from tests.support.corpora import ROOT, run, start_process
from tests.support.stored import change, check_file, everything, fill
from tests.support.waiting import PATIENCE, cancel_once

pytestmark = pytest.mark.asyncio_only


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


@pytest.fixture
async def store(path):
    async with SqliteStore(path) as store:
        yield store


# Files


async def test_the_content_is_the_same_after_reopening(path):
    async with SqliteStore(path) as store:
        await store.apply(
            Change([change("a", records=3, links=["B"], metadata={"year": 2020}), change("b", names=[["B"]])])
        )
        await store.apply(Change(config={"embedder": "e", "n": [1, None]}))
        await store.apply(Change(calibrations={"dense": {"floor": 0.25}}))
        before = await everything(store)
    store = await SqliteStore.open(path)
    after = await everything(store)
    await store.aclose()
    assert before == after
    assert before[0] == ["a", "b"]
    assert before[7] == [[Edge("a", "b", "related")]] * 2


async def test_reading_a_file_leaves_it_as_it_was(path):
    await fill(path, change("a"), change("b", links=["a"]))
    bytes_before, time_before = path.read_bytes(), path.stat().st_mtime_ns
    async with await SqliteStore.open(path) as store:
        await everything(store)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == (bytes_before, time_before)
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", ["what?.airw", "a#b%20c.airw", "naïve 🤖.airw", "file:x.airw", "it's.airw"])
async def test_a_path_is_taken_literally(tmp_path, name):
    await fill(tmp_path / name, change("a"))
    assert [each.name for each in tmp_path.iterdir()] == [name]
    async with await SqliteStore.open(str(tmp_path / name)) as store:
        assert await ask(store, ArtifactIds()) == ["a"]


def damage(content, path):
    """Damage the file of a corpus in one of several ways."""
    if content == "text":
        path.write_text("# Notes\n" * 1000)
    elif content == "another application's":
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (x)")
    elif content in ("older", "newer"):
        with closing(sqlite3.connect(path)) as connection:
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version + 1 if content == 'newer' else 5}")
    elif content == "without a table":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("DROP TABLE name")
    elif content == "cut in the header":
        path.write_bytes(path.read_bytes()[:60])
    elif content == "cut in half":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    else:
        content = path.read_bytes()
        path.write_bytes(content[:4096] + b"\x55" * (len(content) - 4096))


@pytest.mark.parametrize(
    ("content", "create", "says"),
    [
        ("text", False, "damaged or not a corpus"),
        ("text", True, "damaged or not a corpus"),
        ("another application's", True, "another application"),
        ("older", True, r"has format \d+, .* build it again"),
        ("newer", False, r"format \d+.*upgrade"),
        ("without a table", True, "lacks the table 'name'"),
        ("cut in the header", False, "damaged or not a corpus"),
        ("cut in half", True, "damaged"),
        ("overwritten", False, "damaged"),
    ],
)
async def test_a_file_that_is_no_valid_corpus_is_refused_in_one_line_and_left_as_it_is(path, content, create, says):
    await fill(path, *[change(f"{each}", "word " * 100) for each in range(50)])
    damage(content, path)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=says) as caught:
        async with await SqliteStore.open(path, create=create) as store:
            await everything(store)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("metadata", ["{}, {}", "{", ""])
async def test_metadata_that_is_no_json_is_damage_even_if_other_records_are_whole(path, metadata):
    await fill(path, change("a"), change("b"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE record SET metadata = ? WHERE artifact_id = 'a'", [metadata])
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match="damaged"):
            await ask(store, RecordsOf(["a", "b"]))


@pytest.mark.parametrize("empty", [False, True])
async def test_opening_without_create_creates_no_file(path, empty):
    if empty:
        path.touch()
    with pytest.raises(CorpusNotFound, match="build it first"):
        await SqliteStore.open(path)
    assert path.exists() == empty
    assert not empty or not path.stat().st_size


async def test_an_empty_file_becomes_a_corpus_when_entered(path):
    """A process that is killed right after it created the file leaves it empty."""
    path.touch()
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        assert await ask(store, ArtifactIds()) == ["a"]


@pytest.mark.parametrize("where", ["missing/x.airw", "file/x.airw", ".", "/proc/x.airw"])
async def test_a_file_that_cannot_be_created_is_a_store_error(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be read or written") as caught:
        async with SqliteStore(tmp_path / where):
            pass
    assert isinstance(caught.value.__cause__, sqlite3.Error)


async def test_a_lock_file_that_cannot_be_created_is_a_store_error():
    with pytest.raises(StoreError, match="cannot be made"):
        async with SqliteStore("/proc/x.airw").writing(timeout=0):
            pass


# Errors and warnings on misuse


def test_the_error_on_trio_names_the_store_to_use(path):
    async def main():
        async with SqliteStore(path):
            pass

    with pytest.raises(StoreError, match=r"asyncio only.*MemoryStore"):
        anyio.run(main, backend="trio")
    assert not path.exists()


@pytest.mark.slow
def test_importing_stores_does_not_load_sqlite3():
    code = "import sys; from airw.stores import SqliteStore; sys.exit('sqlite3' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


async def test_the_error_of_a_store_that_is_not_open_contains_the_fix(path):
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="async with"):
        await ask(store, ArtifactIds())
    await store.aclose()
    async with store:
        await store.apply(Change([change("a")]))
    await store.aclose()
    for request in (ArtifactIds(), Counts()):
        with pytest.raises(StoreError, match="closed; open it again"):
            await ask(store, request)
    with pytest.raises(StoreError, match="closed; open it again"):
        await store.apply(Change([change("b")]))


async def test_a_forgotten_store_warns_with_the_fix(path):
    store = SqliteStore(path)
    await store.__aenter__()
    await store.apply(Change([change("a")]))
    with pytest.warns(ResourceWarning) as caught:
        del store
    gc.collect()
    await anyio.sleep(0.05)  # its threads end without another warning
    assert [str(each.message).partition("; ")[2] for each in caught] == ["use `async with`, or `await corpus.aclose()`"]


@pytest.mark.slow
def test_a_forgotten_store_does_not_keep_the_interpreter_from_exiting(path):
    code = """
        store = SqliteStore(path)
        anyio.run(store.__aenter__)
        print("done")
        """
    assert run(code, path) == "done\n"


# Values


async def test_an_id_with_nul_is_not_the_id_before_it(store):
    await store.apply(Change([change("a", links=["b"]), change("b")]))
    asked = ["a\0b", "a", "\ud800"]
    assert [entry and entry.artifact_id for entry in await ask(store, Ledger(asked))] == [None, "a", None]
    assert [len(edges) for edges in await ask(store, Edges(asked))] == [0, 1, 0]
    await store.apply(Change(removals=["a\0b"]))
    assert await ask(store, ArtifactIds()) == ["a", "b"]


async def test_the_width_of_a_corpus_may_change_if_every_artifact_is_replaced(store, path):
    other = await SqliteStore.open(path)
    await store.apply(Change([change("a"), change("b")]))
    assert len((await ask(other, Rank(np.ones((1, 4), np.float32), 5)))[0]) == 2
    await store.apply(Change([change("a", dim=6), change("c", dim=6)], removals=["b"]))
    for each in (store, other):
        [ranking] = await ask(each, Rank(np.ones((1, 6), np.float32), 5))
        assert sorted(ranking.artifact_ids) == ["a", "c"]
    await other.aclose()


async def test_remove_deletes_a_damaged_corpus_but_no_other_file(tmp_path):
    for name in ("notes.db", "damaged.airw"):
        await fill(tmp_path / name, change("a"))
    (tmp_path / "damaged.airw").write_bytes(b"garbage")
    for name in ("notes.db", "damaged.airw", "never.airw", "never.db"):
        await SqliteStore.remove(tmp_path / name)
    (tmp_path / "letter.txt").write_text("Dear ...")
    (tmp_path / "folder").mkdir()
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE t (x)")
    for name in ("letter.txt", "folder", "other.db"):
        with pytest.raises(StoreError, match=name):
            await SqliteStore.remove(tmp_path / name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "letter.txt", "other.db"]


async def test_a_store_never_writes_to_a_file_that_replaced_its_own(path):
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        await ask(store, ArtifactIds())
        await SqliteStore.remove(path)
        await fill(path, change("b"))
        with pytest.raises(StoreError, match="replaced while open"):
            await store.apply(Change([change("c")]))
    async with await SqliteStore.open(path) as store:
        assert await ask(store, ArtifactIds()) == ["b"]


# Other connections and processes


async def test_another_store_sees_each_write_at_its_next_call(store, path):
    async with await SqliteStore.open(path) as other:
        for step in range(5):
            await store.apply(
                Change(
                    [change("a", version=str(step), records=step % 3), change(f"n{step}", links=["a"])],
                    removals=[f"n{step - 2}"],
                )
            )
            assert await everything(other) == await everything(store)
            assert (await ask(other, Counts()))["artifacts"] == min(step + 2, 3)


async def test_a_search_that_is_repeated_sees_the_writes_of_other_stores(store, path):
    """It is answered from memory, unless the file has changed."""
    query = np.ones((1, 4), np.float32)
    async with await SqliteStore.open(path) as other:
        for step in range(4):
            await store.apply(Change([change(f"n{step}", records=2)], removals=[f"n{step - 2}"]))
            [expected] = await ask(store, Rank(query, 9, per_artifact=True))
            [words] = await ask(store, Rank(["1"], 9))
            for _ in range(3):
                [ranking] = await ask(other, Rank(["1"], 9))
                assert list(ranking.record_ids) == list(words.record_ids) != []
                [found] = await ask(other, Rank(query, 9, per_artifact=True))
                assert list(found.artifact_ids) == list(expected.artifact_ids)
                [named] = await ask(other, Rank(query, per_artifact=True, among=[f"n{at}" for at in range(step + 1)]))
                assert list(named.artifact_ids) == list(expected.artifact_ids)
    with pytest.raises(StoreError):
        await ask(other, Rank(query, 9, per_artifact=True))


@pytest.mark.slow
async def test_another_process_s_writes_are_seen_at_the_next_query(store, path):
    await store.apply(
        Change([change("a", "old words", metadata={"tag": "x"}), change("b", metadata={"tag": ["x", "y"]})])
    )
    assert len((await ask(store, Rank(np.ones((1, 4), np.float32), 9)))[0]) == 2
    wanted = [("tag", "x"), ("tag", "y"), ("tag", "z")]
    assert await ask(store, Matching(wanted)) == [["a", "b"], ["b"], []]
    code = """
        from tests.support.stored import change
        async def main():
            async with SqliteStore(path) as store:
                puts = [change("a", "new words", records=2, metadata={"tag": "z"}), change("c", metadata={"tag": "y"})]
                await store.apply(Change(puts, ["b"]))
        anyio.run(main)
        """
    run(code, path)
    [dense] = await ask(store, Rank(np.ones((1, 4), np.float32), 9))
    [lexical] = await ask(store, Rank(["old new"], 9))
    assert sorted(dense.artifact_ids) == ["a", "a", "c"]
    assert list(lexical.artifact_ids) == ["a", "a"]
    assert await ask(store, Matching(wanted)) == [[], ["c"], ["a"]]


@pytest.mark.slow
async def test_the_remembered_result_of_a_filter_is_never_out_of_date(store):
    east, filters = np.ones((1, 4), np.float32), [parse_filter({"n": 1}), parse_filter({"n": {"$ne": 1}})]
    random = np.random.default_rng(3)
    for step in range(40):
        names = [f"{each}" for each in random.permutation(9)[:4]]
        puts = [change(name, version=f"{step}", records=2, metadata={"n": step % 2}) for name in names[:2]]
        await store.apply(Change(puts, removals=names[2:]))
        groups = await ask(store, RecordsOf(await ask(store, ArtifactIds())))
        for filter in filters if step % 3 else filters[:1]:
            [ranking] = await ask(store, Rank(east, 100, filter=filter))
            kept = {record.id for group in groups for record in group if matches(filter, record.metadata)}
            assert set(ranking.record_ids) == kept


async def test_readers_neither_wait_for_a_writer_nor_see_half_of_a_write(store, path):
    await store.apply(Change([change("a")]))
    before = await everything(store)
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM artifact")
        with anyio.fail_after(PATIENCE):
            assert await everything(store) == before
        writer.execute("ROLLBACK")


@pytest.mark.slow
async def test_artifacts_that_change_together_are_never_seen_apart(store, path):
    seen = set()

    async def write():
        async with SqliteStore(path) as writer:
            for step in range(150):
                await writer.apply(Change([change(name, f"{name} w{step}", version=f"{step}") for name in "ab"]))
        scope.cancel()

    await store.apply(Change([change(name, f"{name} w0", version="0") for name in "ab"]))
    async with anyio.create_task_group() as group:
        scope = group.cancel_scope
        group.start_soon(write)
        while True:
            versions = {entry.version for entry in await ask(store, Ledger(["a", "b"]))}
            first, second = await ask(store, Rank(["a", "b"], 5))
            texts = {record.text[2:] for record in await ask(store, Records([*first.record_ids, *second.record_ids]))}
            assert (len(versions), len(texts), len(first)) == (1, 1, 1)
            seen |= versions
    assert len(seen) > 5


@pytest.mark.slow
async def test_a_process_killed_at_any_moment_leaves_whole_artifacts(path):
    code = """
        from tests.support.stored import change
        async def main():
            async with SqliteStore(path) as store:
                for step in range(10**6):
                    names = [f"{(step * 7 + each) % 40}" for each in range(5)]
                    version = f"{sys.argv[2]}.{step}"
                    same = {"version": version, "records": 4, "links": names[:1]}
                    changes = [change(name, f"{name} w{version}", **same) for name in names]
                    await store.apply(Change(changes, [f"{step % 50}"]))
                    print("x", flush=True)
        anyio.run(main)
        """
    for kill in range(12):
        with start_process(code, path, kill) as process:
            process.stdout.read(2 + 2 * kill)
            await anyio.sleep(0.003 * (kill % 5))
            process.kill()
            process.wait()
        async with await SqliteStore.open(path) as store:
            entries = await ask(store, Ledger())
            for entry, records in zip(
                entries, await ask(store, RecordsOf(await ask(store, ArtifactIds()))), strict=True
            ):
                assert [record.text for record in records] == [f"{entry.artifact_id} w{entry.version}"] * 4
                assert entry.record_ids == tuple(record.id for record in records)
            [dense] = await ask(store, Rank(np.ones((1, 4), np.float32), 10**6))
            assert sorted(dense.record_ids) == sorted(each for entry in entries for each in entry.record_ids)
    check_file(path)
    assert len(entries) > 10


# Cancellation


async def test_cancelling_a_long_search_stops_it(store, monkeypatch):
    """Python reads a field that SQL cannot name, which takes minutes here."""
    await store.apply(Change([change("a", "word", records=1_000, metadata={'"tags"': ["x"] * 50})]))
    hard, checks = parse_filter({'"tags"': "y"}), []
    monkeypatch.setattr("airw.stores.sqlite._field_sql.hand_over", lambda: (checks.append(1), time.sleep(0.2)))
    with anyio.fail_after(PATIENCE):
        await cancel_once(lambda: checks, lambda: ask(store, Rank(["word"], 5, filter=hard)))
    assert len(checks) < 1_000
    assert len((await ask(store, Rank(["word"], 5)))[0]) == 5


@pytest.mark.slow
async def test_an_apply_cancelled_midway_leaves_all_or_nothing(store, path):
    await store.apply(Change([change("a", records=5)]))
    for delay in (0, 0.001, 0.005, 0.02, 0.05, 0.1):
        big = [change(f"{each}", "some words here", version=str(delay), records=10) for each in range(200)]
        with anyio.move_on_after(delay):
            await store.apply(Change(big))
        assert {entry.version for entry in await ask(store, Ledger())} - {"1"} in ({str(delay)}, set())
        await store.apply(Change(removals=[str(each) for each in range(200)]))
    assert await ask(store, ArtifactIds()) == ["a"]
    assert (await ask(store, Counts()))["records"] == 5
    check_file(path)


# Writers


async def test_one_builder_at_a_time_among_tasks(store):
    order = []

    async def build(name):
        async with store.writing(timeout=PATIENCE):
            order.append(name)
            await anyio.sleep(0.06)
            order.append(name)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(build, name)
    assert [order[0], order[2], order[4]] == [order[1], order[3], order[5]]


# Equal to memory


@pytest.mark.slow
async def test_a_long_random_history_equals_memory(path):
    random = np.random.default_rng(7)
    async with SqliteStore(path) as store, MemoryStore() as memory:
        for step in range(40):
            puts = [
                change(
                    f"{name}", " ".join(random.choice(list("pqrst"), 4)), version=f"{step}", records=name % 4, seed=step
                )
                for name in random.choice(30, 5, replace=False)
            ]
            removals = [f"{name}" for name in random.choice(30, 3)]
            for each in (store, memory):
                await each.apply(Change(puts, removals=removals))
            if step % 4 == 0:
                assert await everything(store) == await everything(memory)
        assert await everything(store) == await everything(memory)
    check_file(path)


async def test_records_that_are_read_together_are_those_of_each_caller(tmp_path):
    await fill(tmp_path / "two.airw", change("a"), change("b"))
    async with await SqliteStore.open(tmp_path / "two.airw") as store:
        surfaces = await ask(store, RecordsOf(["a", "b"]))
        wanted = [[surfaces[number % 2][0].id, "missing"] for number in range(9)]
        found = [None] * len(wanted)

        async def read(number):
            found[number] = await ask(store, Records(wanted[number]))

        async with anyio.create_task_group() as group:
            for number in range(len(wanted)):
                group.start_soon(read, number)
    assert found == [[surfaces[number % 2][0], None] for number in range(9)]
    assert len({id(record.metadata) for record, _ in found}) == len(found)


async def test_a_few_vectors_are_compared_as_they_are_in_the_file_now(tmp_path):
    await fill(tmp_path / "two.airw", change("a"), change("b"))
    query = np.ones((1, 4), np.float32)
    async with (
        await SqliteStore.open(tmp_path / "two.airw") as store,
        await SqliteStore.open(tmp_path / "two.airw") as other,
    ):
        for _ in range(3):  # at first the index is not in memory
            [ranking] = await ask(store, Rank(query, among=["a", "b"], per_artifact=True))
            assert sorted(ranking.artifact_ids) == ["a", "b"]
            assert list(map(len, (await ask(store, VectorsOf(["b", "a", "b"]))).record_ids)) == [1, 1, 1]
        await other.apply(Change(removals=["b"]))
        [ranking] = await ask(store, Rank(query, among=["b", "a", "b"], per_artifact=True))
        assert list(ranking.artifact_ids) == ["a"]
        assert list(map(len, (await ask(store, VectorsOf(["b", "a"]))).record_ids)) == [0, 1]


async def test_a_snapshot_has_the_artifacts_as_they_were_written_and_shows_one_moment(store):
    """It answers all that a store answers, and cannot be written to."""
    written = [change("a", records=3, links=["B"], metadata={"year": 2020}), change("b", names=[["B"], ["bee"]])]
    await store.apply(Change(written, config={"n": [1, None]}, calibrations={"dense": {"floor": 0.25}}))
    before = await everything(store)
    async with store.snapshot() as snapshot:
        assert await everything(snapshot) == before
        await store.apply(Change([change("a", version="2")], removals=["b"], config={}))
        assert await everything(snapshot) == before != await everything(store)
        found = await ask(snapshot, Artifacts(["b", "absent", "a", "b"]))
        with pytest.raises(ArgumentError, match=r"apply.. needs a store with the capability 'writing'"):
            await snapshot.apply(Change(removals=["a"]))
    with pytest.raises(ArgumentError, match="Artifacts needs a store with the capability 'artifacts'; SqliteStore"):
        await ask(store, Artifacts(["a"]))
    assert found[1] is None
    for one, expected in zip([found[0], *found[2:]], [written[1], *written], strict=True):
        assert (one.entry, list(one.records)) == (expected.entry, list(expected.records))
        assert np.array_equal(one.vectors, expected.vectors)
        assert one.extraction == replace(expected.extraction, names=[*expected.extraction.names])
