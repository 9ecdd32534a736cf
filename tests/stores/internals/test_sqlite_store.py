"""What is particular to a store in a file: other connections and processes, crashes, damage, cancellation, locks."""

import asyncio
import gc
import inspect
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
import zlib
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airw._base.lru import LruCache
from airw.errors import CorpusNotFound, StoreBusy, StoreCorrupt, StoreError
from airw.stores import MemoryStore, SqliteStore
from airw.stores._indexes.dense import DenseIndex
from airw.stores._indexes.texts import prepare_texts
from airw.stores.memory._links import LinkTable
from airw.stores.sqlite import _connection, _links, _schema, _segmented_index, _writing
from airw.stores.sqlite._records import counts
from airw.stores.sqlite._schema import APPLICATION_ID, VERSION, _create_tables, check_sqlite, connect
from airw.stores.sqlite._writing import apply_changes
from airw.values import ArtifactChange, Edge, Extraction, LedgerEntry, Link, LinkFilter, Record
from airw.values.filters import matches, parse_filter

pytestmark = pytest.mark.asyncio_only

ROOT = Path(__file__).parents[3]
FOREVER = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def change(name, text="", *, version="1", records=1, dim=4, links=(), names=(), metadata=None, seed=None):
    """Make one artifact with `records` chunks; its vectors follow from its name and version."""
    rows = [
        Record(Record.make_id(name, "chunk", at), name, "chunk", at, text or f"{name} {version}", dict(metadata or {}))
        for at in range(records)
    ]
    random = np.random.default_rng(zlib.crc32(f"{name} {version} {seed}".encode(errors="replace")))
    vectors = random.standard_normal((records, dim)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    entry = LedgerEntry(name, version, "e", "s", record_ids=tuple(row.id for row in rows))
    return ArtifactChange(entry, rows, vectors, Extraction([Link(ref) for ref in links], names))


def run_python(code, *arguments, **options):
    """Start another process that has the library and `change`; its first argument is `sys.argv[1]`."""
    prelude = "import sys, zlib, anyio, numpy as np\nfrom airw.stores import SqliteStore\nfrom airw.values import *\n"
    program = prelude + inspect.getsource(change) + textwrap.dedent(code)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE, **options)


def finish(process, timeout=30):
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == 0
    return output


async def everything(store):
    """Read all that a store holds, by every way to read it."""
    ids = await store.artifact_ids()
    records = await store.records_of(ids)
    record_ids = [record.id for group in records for record in group]
    words = [record.text for group in records for record in group][:3]
    query = np.ones((1, 4), np.float32)
    rankings = [*await store.search_vectors(query, 99), *await store.search_text(words, 99)]
    return (
        ids,
        records,
        await store.get_records(record_ids),
        await store.ledger(),
        (await store.vectors(record_ids)).tolist(),
        [vectors.tolist() if isinstance(vectors, np.ndarray) else vectors for vectors in await store.vectors_of(ids)],
        [(list(ranking.record_ids), ranking.scores.tolist()) for ranking in rankings],
        await store.neighbors(ids, direction="both"),
        await store.referrers(ids),
        await store.max_fan_in(),
        await store.unresolved(),
        await store.link_counts(),
        await store.matching([("n", 1), ("version", "1")]),
        await store.counts(),
        await store.config(),
        await store.calibration(),
    )


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


@pytest.fixture
async def store(path):
    async with SqliteStore(path) as store:
        yield store


async def fill(path, *changes):
    async with SqliteStore(path) as store:
        await store.apply(changes)


# Files


async def test_everything_is_there_again_after_reopening(path):
    async with SqliteStore(path) as store:
        await store.apply([change("a", records=3, links=["B"], metadata={"year": 2020}), change("b", names=[["B"]])])
        await store.set_config({"embedder": "e", "n": [1, None]})
        await store.set_calibration("dense", {"floor": 0.25})
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
        assert await store.artifact_ids() == ["a"]


def damage(content, path):
    """Give the bad file of each kind, made of a good one."""
    if content == "text":
        path.write_text("# Notes\n" * 1000)
    elif content == "another application's":
        path.unlink()
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE t (x)")
    elif content == "newer":
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA user_version = {VERSION + 1}")
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
    ("content", "says"),
    [
        ("text", "damaged or not a corpus"),
        ("another application's", "another application"),
        ("newer", f"format {VERSION + 1}.*upgrade"),
        ("without a table", "lacks the table 'name'"),
        ("cut in the header", "damaged or not a corpus"),
        ("cut in half", "damaged"),
        ("overwritten", "damaged"),
    ],
)
@pytest.mark.parametrize("create", [False, True])
async def test_a_file_that_is_no_good_corpus_is_refused_with_one_line_and_left_alone(path, content, says, create):
    await fill(path, *[change(f"{each}", "word " * 100) for each in range(50)])
    damage(content, path)
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=says) as caught:
        async with await SqliteStore.open(path, create=create) as store:
            await everything(store)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("metadata", ["{}, {}", "{", ""])
async def test_metadata_that_is_no_json_is_damage_beside_other_records_too(path, metadata):
    await fill(path, change("a"), change("b"))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE record SET metadata = ? WHERE artifact_id = 'a'", [metadata])
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match="damaged"):
            await store.records_of(["a", "b"])


@pytest.mark.parametrize("empty", [False, True])
async def test_opening_without_create_makes_nothing(path, empty):
    if empty:
        path.touch()
    with pytest.raises(CorpusNotFound, match="build it first"):
        await SqliteStore.open(path)
    assert path.exists() == empty
    assert not empty or not path.stat().st_size


async def test_an_empty_file_becomes_a_corpus_when_entered(path):
    """As a process leaves it that was killed right after making it."""
    path.touch()
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        assert await store.artifact_ids() == ["a"]


@pytest.mark.parametrize("where", ["missing/x.airw", "file/x.airw", ".", "/proc/x.airw"])
async def test_a_file_that_cannot_be_made_is_a_store_error(tmp_path, where):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot be read or written") as caught:
        async with SqliteStore(tmp_path / where):
            pass
    assert isinstance(caught.value.__cause__, sqlite3.Error)


async def test_a_lock_file_that_cannot_be_made_is_a_store_error():
    with pytest.raises(StoreError, match="cannot be made"):
        async with SqliteStore("/proc/x.airw").writing(timeout=0):
            pass


async def test_a_full_disk_is_a_store_error_and_stores_nothing(store):
    await store.apply([change("a")])
    await store._writer.run(lambda raw: raw.execute("PRAGMA max_page_count = 60").fetchall())
    before = await everything(store)
    with pytest.raises(StoreError, match="free some space"):
        await store.apply([change(f"b{each}", "words " * 500) for each in range(200)])
    assert await everything(store) == before


@pytest.mark.parametrize(("version", "has_fts5"), [((3, 37, 2), True), ((3, 40, 1), False)])
def test_an_sqlite_that_lacks_something_is_named(version, has_fts5):
    with pytest.raises(StoreError, match=r"SQLite 3\.\d+\.\d.* FTS5.*MemoryStore"):
        check_sqlite(version, has_fts5=has_fts5)


# Manners


def test_trio_is_told_which_store_to_use(path):
    async def main():
        async with SqliteStore(path):
            pass

    with pytest.raises(StoreError, match=r"asyncio only.*MemoryStore"):
        anyio.run(main, backend="trio")
    assert not path.exists()


def test_importing_stores_does_not_load_aiosqlite():
    assert finish(run_python("print('aiosqlite' in sys.modules)")) == "False\n"


async def test_a_store_that_is_not_open_says_what_to_do(path):
    store = SqliteStore(path)
    with pytest.raises(StoreError, match="async with"):
        await store.artifact_ids()
    await store.aclose()
    async with store:
        await store.apply([change("a")])
    await store.aclose()
    for call in (store.artifact_ids, store.counts):
        with pytest.raises(StoreError, match="closed; open it again"):
            await call()
    with pytest.raises(StoreError, match="closed; open it again"):
        await store.apply([change("b")])


async def test_a_forgotten_store_warns_with_the_fix(path):
    store = SqliteStore(path)
    await store.__aenter__()
    await store.apply([change("a")])
    with pytest.warns(ResourceWarning) as caught:
        del store
    gc.collect()
    await anyio.sleep(0.05)  # its threads end, and have nothing to add
    assert [str(each.message).partition("; ")[2] for each in caught] == ["use `async with`, or `await store.aclose()`"]


def test_a_forgotten_store_does_not_keep_the_interpreter_from_exiting(path):
    process = run_python(
        """
        store = SqliteStore(sys.argv[1])
        async def main():
            await store.__aenter__()
        anyio.run(main)
        print("done")
        """,
        path,
    )
    assert finish(process, timeout=20) == "done\n"


# Values


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (change("b\ud800"), "unpaired surrogate"),
        (change("b", "text \udfff"), "unpaired surrogate"),
        (change("b", metadata={"k": ["\ud800"]}), "unpaired surrogate"),
        (change("b", links=["\ud800"]), "unpaired surrogate"),
        (change("b\0"), "NUL"),
        (change("b", names=[["x\0"]]), "NUL"),
        (change("b", dim=5), "5 wide.* 4"),
        (ArtifactChange(LedgerEntry("b", "1", "e", "s"), change("b").records, np.full((1, 4), np.nan, "f4")), "NaN"),
        (ArtifactChange(LedgerEntry("b", "1", "e", "s"), change("b").records, np.zeros((2, 4), "f4")), r"shape \(1, "),
        (ArtifactChange(LedgerEntry("b", "1", "e", "s"), change("a").records, np.zeros((1, 4), "f4")), "its own"),
        (change("a"), "twice"),
    ],
)
async def test_what_cannot_be_stored_is_named_and_nothing_of_the_call_is_stored(store, bad, says):
    await store.apply([change("kept")])
    before = await everything(store)
    with pytest.raises(StoreError, match=says):
        await store.apply([change("a"), bad], removals=["kept"])
    assert await everything(store) == before


async def test_a_record_id_that_another_artifact_has_is_refused(store):
    await store.apply([change("a")])
    stolen = Record(change("a").records[0].id, "b", "chunk", 0, "text")
    with pytest.raises(StoreError, match="make_id"):
        await store.apply([ArtifactChange(LedgerEntry("b", "1", "e", "s"), [stolen], np.ones((1, 4), np.float32))])
    assert await store.artifact_ids() == ["a"]


async def test_ids_are_just_strings(store):
    names = ["../../evil", "x" * 10_000, "🤖", "a/b", ".hidden", 'it\'s "q"', "a\nb", "%", "", "é", "e\u0301", "A", "a"]
    await store.apply([change(name) for name in names])
    assert await store.artifact_ids() == sorted(names)
    assert [entry.artifact_id for entry in await store.ledger(names)] == names
    assert [group[0].artifact_id for group in await store.records_of(names)] == names


async def test_an_id_with_nul_is_not_the_id_before_it(store):
    await store.apply([change("a", links=["b"]), change("b")])
    asked = ["a\0b", "a", "\ud800"]
    assert [entry and entry.artifact_id for entry in await store.ledger(asked)] == [None, "a", None]
    assert [len(edges) for edges in await store.neighbors(asked)] == [0, 1, 0]
    await store.apply([], removals=["a\0b"])
    assert await store.artifact_ids() == ["a", "b"]


async def test_a_corpus_may_change_its_width_when_all_of_it_is_replaced(store):
    other = await SqliteStore.open(store._path)
    await store.apply([change("a"), change("b")])
    assert len((await other.search_vectors(np.ones((1, 4), np.float32), 5))[0]) == 2
    await store.apply([change("a", dim=6), change("c", dim=6)], removals=["b"])
    for each in (store, other):
        [ranking] = await each.search_vectors(np.ones((1, 6), np.float32), 5)
        assert sorted(ranking.artifact_ids) == ["a", "c"]
    await other.aclose()


async def test_removing_takes_a_damaged_corpus_but_no_file_of_somebody_else(tmp_path):
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


async def test_a_store_that_has_only_read_so_far_never_writes_to_a_file_that_took_the_place_of_its_own(path):
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        await store.artifact_ids()
        await SqliteStore.remove(path)
        await fill(path, change("b"))
        with pytest.raises(StoreError, match="replaced while open"):
            await store.apply([change("c")])
    async with await SqliteStore.open(path) as store:
        assert await store.artifact_ids() == ["b"]


# Other connections and processes


async def test_another_store_sees_each_write_at_its_next_call(store):
    async with await SqliteStore.open(store._path) as other:
        for step in range(5):
            await store.apply(
                [change("a", version=str(step), records=step % 3), change(f"n{step}", links=["a"])],
                removals=[f"n{step - 2}"],
            )
            assert await everything(other) == await everything(store)
            assert (await other.counts())["artifacts"] == min(step + 2, 3)


async def test_another_process_s_writes_are_seen_at_the_next_query(store):
    await store.apply([change("a", "old words")])
    assert len((await store.search_vectors(np.ones((1, 4), np.float32), 9))[0]) == 1
    process = run_python(
        """
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                await store.apply([change("a", "new words", records=2), change("b", "more words")])
        anyio.run(main)
        """,
        store._path,
    )
    finish(process)
    [dense] = await store.search_vectors(np.ones((1, 4), np.float32), 9)
    [lexical] = await store.search_text(["old new"], 9)
    assert sorted(dense.artifact_ids) == ["a", "a", "b"]
    assert list(lexical.artifact_ids) == ["a", "a"]


async def test_processes_that_make_the_same_file_at_once_all_succeed(path):
    code = """
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                await store.apply([change(sys.argv[2])])
        sys.stdin.readline()
        anyio.run(main)
        """
    processes = [run_python(code, path, name, stdin=subprocess.PIPE) for name in "abcd"]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)
    async with await SqliteStore.open(path) as store:
        assert await store.artifact_ids() == ["a", "b", "c", "d"]


async def test_opening_waits_for_whoever_makes_the_file_at_that_moment(path):
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as maker:
        maker.execute("BEGIN EXCLUSIVE")
        threading.Timer(0.2, maker.execute, ["ROLLBACK"]).start()
        await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        assert await store.artifact_ids() == ["a"]


async def test_a_file_that_another_process_made_first_is_not_made_again(path, monkeypatch):
    def other_is_faster(connection):
        monkeypatch.undo()
        connect(path, create=True).close()
        return True

    monkeypatch.setattr(_schema, "_is_empty", other_is_faster)
    await fill(path, change("a"))
    async with await SqliteStore.open(path) as store:
        assert await store.artifact_ids() == ["a"]


async def test_after_one_write_a_matrix_takes_in_only_what_changed(store, monkeypatch):
    await store.apply([change(f"{each}") for each in range(50)])
    east, seen, put = np.ones((1, 4), np.float32), [], DenseIndex.put

    def spied(self, ids, *columns, **more):
        seen.extend(ids)
        put(self, ids, *columns, **more)

    await store.search_vectors(east, 1)
    monkeypatch.setattr(DenseIndex, "put", spied)
    await store.apply([change("7", version="2", records=2)], removals=["8"])
    await store.search_vectors(east, 1)
    assert seen == [Record.make_id("7", "chunk", at) for at in range(2)]


@pytest.mark.parametrize("filter", [None, parse_filter({"n": {"$gt": 1}})])
async def test_a_dense_query_after_one_write_costs_the_file_the_same_in_a_corpus_of_any_size(store, filter):
    """Counted in steps of SQLite's virtual machine."""
    east, steps = np.ones((1, 4), np.float32), []

    def watch(raw):
        raw.set_progress_handler(lambda: steps.__setitem__(-1, steps[-1] + 1), 1)

    for size in (50, 3_000):
        await store.apply([change(f"{each}", metadata={"n": each % 3}) for each in range(size)])
        await store.search_vectors(east, 1, filter=filter)
        await store.apply([change("7", version="2")], removals=["8"])
        steps.append(0)
        await store._reader.run(watch)
        await store.search_vectors(east, 1, filter=filter)
        await store._reader.run(lambda raw: raw.set_progress_handler(None, 1))
    assert 10 < steps[1] <= steps[0] + 20


async def test_what_a_filter_keeps_is_remembered_and_never_grows_old(store):
    east, filters = np.ones((1, 4), np.float32), [parse_filter({"n": 1}), parse_filter({"n": {"$ne": 1}})]
    random = np.random.default_rng(3)
    for step in range(40):
        names = [f"{each}" for each in random.permutation(9)[:4]]
        puts = [change(name, version=f"{step}", records=2, metadata={"n": step % 2}) for name in names[:2]]
        await store.apply(puts, removals=names[2:])
        groups = await store.records_of(await store.artifact_ids())
        for filter in filters if step % 3 else filters[:1]:
            [ranking] = await store.search_vectors(east, 100, filter=filter)
            kept = {record.id for group in groups for record in group if matches(filter, record.metadata)}
            assert set(ranking.record_ids) == kept


async def test_what_another_process_wrote_is_matched_at_the_next_call(store):
    await store.apply([change("a", metadata={"tag": "x"}), change("b", metadata={"tag": ["x", "y"]})])
    wanted = [("tag", "x"), ("tag", "y"), ("tag", "z")]
    assert await store.matching(wanted) == [["a", "b"], ["b"], []]
    process = run_python(
        """
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                puts = [change("a", metadata={"tag": "z"}), change("c", metadata={"tag": "y"})]
                await store.apply(puts, removals=["b"])
        anyio.run(main)
        """,
        store._path,
    )
    finish(process)
    assert await store.matching(wanted) == [[], ["c"], ["a"]]


@pytest.mark.parametrize("kept", [3, 100_000])
async def test_fields_are_matched_in_the_present_state_of_the_file_whatever_was_asked_before(store, monkeypatch, kept):
    """Of two connections; also by one that is so far behind that it has to start again."""
    monkeypatch.setattr(_writing, "_TOMBSTONES", kept)
    random = np.random.default_rng(5)
    wanted = [(field, value) for field in ("n", "tags", "none") for value in range(3)]
    async with await SqliteStore.open(store._path) as other:
        for step in range(60):
            names = [f"{each}" for each in random.permutation(12)[:5]]
            puts = [
                change(name, version=f"{step}", records=at, metadata={"n": step % 3, "tags": [step % 2, at]})
                for at, name in enumerate(names[:3])
            ]
            await store.apply(puts, removals=names[3:])
            held = [record for group in await store.records_of(await store.artifact_ids()) for record in group]
            expected = [
                sorted({r.artifact_id for r in held if value in np.atleast_1d(r.metadata.get(field, -1))})
                for field, value in wanted
            ]
            assert await store.matching(wanted[: step % 10]) == expected[: step % 10]
            if step % 7 == 0:
                assert await other.matching(wanted[::-1]) == expected[::-1]


async def test_matching_after_one_write_costs_the_file_the_same_in_a_corpus_of_any_size(store):
    """Counted in steps of SQLite's virtual machine."""
    steps, wanted = [], [("tag", "rare"), ("n", 7)]

    def watch(raw):
        raw.set_progress_handler(lambda: steps.__setitem__(-1, steps[-1] + 1), 1)

    for size in (50, 3_000):
        await store.apply([change(f"{each}", metadata={"n": each, "tag": "often"}) for each in range(size)])
        assert await store.matching(wanted) == [[], ["7"]]
        await store.apply([change("7", version="2", metadata={"n": 7, "tag": "rare"})], removals=["8"])
        steps.append(0)
        await store._reader.run(watch)
        assert await store.matching(wanted) == [["7"], ["7"]]
        await store._reader.run(lambda raw: raw.set_progress_handler(None, 1))
    assert 10 < steps[1] <= steps[0] + 20


async def test_a_field_whose_reading_was_stopped_midway_is_read_on(store):
    await store.apply([change(f"{at:04}", metadata={"n": at % 5}) for at in range(4_000)])
    for stop in (500, 1_500, 3_000):

        def is_due(stop=stop):
            return "n" in store._fields and store._fields["n"]._log.last >= stop

        await store._reader.run(lambda raw, is_due=is_due: raw.set_progress_handler(is_due, 100))
        with pytest.raises(StoreError, match="interrupted"):
            await store.matching([("n", 0)])
        assert stop <= store._fields["n"]._log.last < 4_000
        await store._reader.run(lambda raw: raw.set_progress_handler(None, 1))
        await store.apply([change("0000", metadata={"n": stop})], removals=[f"{stop // 10:04}"])
    gone = {f"{stop // 10:04}" for stop in (500, 1_500, 3_000)} | {"0000"}
    expected = [[f"{at:04}" for at in range(value, 4_000, 5) if f"{at:04}" not in gone] for value in range(5)]
    assert await store.matching([("n", value) for value in (*range(5), 500, 3_000)]) == [*expected, [], ["0000"]]


async def test_what_most_artifacts_link_to_is_counted_once_a_state_of_the_file(store, monkeypatch):
    asked, ask = [], _links._ask
    monkeypatch.setattr(_links, "_ask", lambda *args, **bound: (asked.append(args), ask(*args, **bound))[1])
    await store.apply([change("a", links=["c"]), change("b", links=["c"])])
    async with await SqliteStore.open(store._path) as other:
        for _ in range(2):
            assert [await each.max_fan_in() for each in (store, other, store)] == [2, 2, 2]
            assert await store.max_fan_in(types=["none"]) == 0
        assert len(asked) == 3
        await other.apply([change("d", links=["c"])])
        assert [await each.max_fan_in() for each in (store, other, store)] == [3, 3, 3]
        assert len(asked) == 5


async def test_the_vectors_of_artifacts_are_those_of_memory_in_a_corpus_too_large_for_a_matrix_too(store, monkeypatch):
    monkeypatch.setattr(_segmented_index, "EXACT_ROWS", 50)
    async with MemoryStore() as memory:
        for each in (store, memory):
            await each.apply([change(f"{at}", records=at % 5) for at in range(40)])
            await each.apply([change("7", version="2", records=4)], removals=["8"])
        for asked in (["7", "absent", "4", "5", "7", "8", "7\0", "\ud800"], ["absent"], []):
            (ids, vectors), (expected, rows) = [await each.vectors_of(asked) for each in (store, memory)]
            assert ids == expected
            assert vectors.dtype == rows.dtype
            assert np.array_equal(vectors, rows)
        assert vectors.shape == (0, 4)


async def test_a_matrix_far_behind_is_read_again(store, monkeypatch):
    monkeypatch.setattr(_writing, "_TOMBSTONES", 3)
    await store.apply([change(f"{each}") for each in range(10)])
    async with await SqliteStore.open(store._path) as other:
        await everything(other)
        for step in range(8):
            await store.apply([change(f"{step}", version="2")], removals=[f"{step + 1}"])
        assert await everything(other) == await everything(store)


async def test_readers_neither_wait_for_a_writer_nor_see_half_of_its_work(store):
    await store.apply([change("a")])
    before = await everything(store)
    with closing(sqlite3.connect(store._path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute("DELETE FROM artifact")
        with anyio.fail_after(5):
            assert await everything(store) == before
        writer.execute("ROLLBACK")


async def test_each_call_reads_one_state(store):
    """A write between two statements of one call is seen by neither."""
    with closing(connect(store._path, writable=True)) as writer:

        def read_twice(raw):
            before = counts(raw)
            apply_changes(writer, [change("new")], [])
            return before, counts(raw)

        before, after = await store._read(read_twice)
    assert before == after == {**await store.counts(), "artifacts": 0, "records": 0}
    assert await store.artifact_ids() == ["new"]


async def test_artifacts_that_change_together_are_never_seen_apart(store):
    seen = set()

    async def write():
        async with SqliteStore(store._path) as writer:
            for step in range(150):
                await writer.apply([change(name, f"{name} w{step}", version=f"{step}") for name in "ab"])
        scope.cancel()

    await store.apply([change(name, f"{name} w0", version="0") for name in "ab"])
    async with anyio.create_task_group() as group:
        scope = group.cancel_scope
        group.start_soon(write)
        while True:
            versions = {entry.version for entry in await store.ledger(["a", "b"])}
            first, second = await store.search_text(["a", "b"], 5)
            texts = {record.text[2:] for record in await store.get_records([*first.record_ids, *second.record_ids])}
            assert (len(versions), len(texts), len(first)) == (1, 1, 1)
            seen |= versions
    assert len(seen) > 5


@pytest.mark.slow
async def test_a_process_killed_at_any_moment_leaves_whole_artifacts(path):
    code = """
        async def main():
            async with SqliteStore(sys.argv[1]) as store:
                for step in range(10**6):
                    names = [f"{(step * 7 + each) % 40}" for each in range(5)]
                    version = f"{sys.argv[2]}.{step}"
                    same = {"version": version, "records": 4, "links": names[:1]}
                    changes = [change(name, f"{name} w{version}", **same) for name in names]
                    await store.apply(changes, removals=[f"{step % 50}"])
                    print("x", flush=True)
        anyio.run(main)
        """
    for kill in range(12):
        process = run_python(code, path, kill)
        process.stdout.read(2 + 2 * kill)
        await anyio.sleep(0.003 * (kill % 5))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        async with await SqliteStore.open(path) as store:
            entries = await store.ledger()
            for entry, records in zip(entries, await store.records_of(await store.artifact_ids()), strict=True):
                assert [record.text for record in records] == [f"{entry.artifact_id} w{entry.version}"] * 4
                assert entry.record_ids == tuple(record.id for record in records)
            [dense] = await store.search_vectors(np.ones((1, 4), np.float32), 10**6)
            assert sorted(dense.record_ids) == sorted(each for entry in entries for each in entry.record_ids)
    check_file(path)
    assert len(entries) > 10


def check_file(path):
    """Ask SQLite itself whether the file and the text index are whole, and look for what nothing refers to."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.execute("INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1)")
        for table, column in (("record", "artifact_id"), ("link", "artifact_id"), ("name", "artifact_id")):
            orphans = f"SELECT count(*) FROM {table} WHERE {column} NOT IN (SELECT id FROM artifact)"
            assert connection.execute(orphans).fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM vector").fetchone() == (
            connection.execute("SELECT count(*) FROM record").fetchone()
        )


# Cancellation


async def test_cancelling_a_long_statement_stops_it_and_the_connection_works(store):
    await store.apply([change("a")])
    start = time.perf_counter()
    with anyio.move_on_after(0.1):
        await store._read(lambda raw: raw.execute(FOREVER).fetchall())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):  # it knows nothing of shields
            await store._read(lambda raw: raw.execute(FOREVER).fetchall())
    assert await store.artifact_ids() == ["a"]
    assert time.perf_counter() - start < 1


async def test_cancelling_a_long_search_stops_it(store):
    """A filter over many records, decided one by one in Python."""
    await store.apply([change("a", "word", records=20_000, metadata={"tags": ["x"] * 50})])
    hard = parse_filter({"$or": [{"tags": {"$in": [f"{each}"]}} for each in range(100)]})
    start = time.perf_counter()
    with anyio.move_on_after(0.1):
        await store.search_text(["word"], 5, filter=hard)
    assert time.perf_counter() - start < 1
    assert len((await store.search_text(["word"], 5))[0]) == 5


async def test_a_cancelled_write_is_undone_and_holds_up_nobody(store):
    def slow(raw):
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("DELETE FROM artifact")
        raw.execute(FOREVER).fetchall()

    await store.apply([change("a")])
    with anyio.move_on_after(0.1):
        await store._write(slow)
    async with SqliteStore(store._path) as other:
        with anyio.fail_after(2):
            await other.apply([change("b")])
    await store.apply([change("c")])
    assert await store.artifact_ids() == ["a", "b", "c"]


async def test_an_apply_cancelled_midway_leaves_all_or_nothing(store):
    await store.apply([change("a", records=5)])
    for delay in (0, 0.001, 0.005, 0.02, 0.05, 0.1):
        big = [change(f"{each}", "some words here", version=str(delay), records=10) for each in range(200)]
        with anyio.move_on_after(delay):
            await store.apply(big)
        assert {entry.version for entry in await store.ledger()} - {"1"} in ({str(delay)}, set())
        await store.apply([], removals=[str(each) for each in range(200)])
    assert await store.artifact_ids() == ["a"]
    assert (await store.counts())["records"] == 5
    check_file(store._path)


async def test_cancelling_one_task_does_not_stop_another_s_statement(store):
    finished = []

    async def count():
        bounded = FOREVER.replace("FROM n)", "FROM n LIMIT 300000)")
        finished.append(await store._read(lambda raw: raw.execute(bounded).fetchone()[0]))

    async with anyio.create_task_group() as group:
        group.start_soon(count)
        await anyio.sleep(0.01)
        with anyio.move_on_after(0.02) as scope:
            await store.artifact_ids()
        assert scope.cancelled_caught
    assert finished == [300_000]


# Writers


async def test_a_write_waits_for_another_writer_and_then_gives_up(store, monkeypatch):
    monkeypatch.setattr(_connection, "_PATIENCE", 0.2)
    await store.apply([change("a")])
    with closing(sqlite3.connect(store._path, isolation_level=None)) as writer:
        writer.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreBusy, match="try again"):
            await store.apply([change("b")])
        monkeypatch.setattr(_connection, "_PATIENCE", 20)
        async with anyio.create_task_group() as group:
            group.start_soon(store.apply, [change("c")])
            await anyio.sleep(0.1)
            writer.execute("ROLLBACK")
        writer.execute("BEGIN IMMEDIATE")
        start = time.perf_counter()
        with anyio.move_on_after(0.05):
            await store.apply([change("d")])
        assert time.perf_counter() - start < 1
    assert await store.artifact_ids() == ["a", "c"]


async def test_one_builder_at_a_time_among_tasks(store):
    order = []

    async def build(name):
        async with store.writing(timeout=5):
            order.append(name)
            await anyio.sleep(0.06)
            order.append(name)

    async with anyio.create_task_group() as group:
        for name in "abc":
            group.start_soon(build, name)
    assert [order[0], order[2], order[4]] == [order[1], order[3], order[5]]


async def test_one_builder_at_a_time_among_processes_and_a_killed_one_lets_go(store):
    process = run_python(
        """
        async def main():
            async with SqliteStore(sys.argv[1]) as store, store.writing():
                print("held", flush=True)
                await anyio.sleep(60)
        anyio.run(main)
        """,
        store._path,
    )
    assert process.stdout.readline() == "held\n"
    with pytest.raises(StoreBusy, match=r"notes\.airw-lock.* after 0\.1 seconds"):
        async with store.writing(timeout=0.1):
            pytest.fail("two builders at once")
    await store.apply([change("a")])  # small writes go on
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    async with store.writing(timeout=5):
        pass


# Equal to memory, whatever came before

NAMES = st.sampled_from(["a", "b", "c", "d"])
REFS = st.sampled_from(["a", "b", "c", "d", "T", "U"])
EXTRACTIONS = st.builds(
    Extraction,
    st.lists(
        st.builds(
            Link,
            REFS,
            st.sampled_from(["related", "requires"]),
            st.sampled_from(["typed", "inline"]),
            st.sampled_from([None, None, None, "other"]),
            or_ref=st.none() | REFS,
        ),
        max_size=4,
    ),
    st.lists(st.lists(REFS, max_size=2), max_size=3),
)
STEPS = st.lists(
    st.tuples(st.dictionaries(NAMES, EXTRACTIONS, max_size=3), st.lists(NAMES, max_size=2)), min_size=1, max_size=6
)


@given(steps=STEPS)
@settings(max_examples=150)
def test_links_after_any_writes_are_those_of_the_final_content(steps):
    table, kept = LinkTable(), set()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        prepare_texts(connection)
        _create_tables(connection)
        for puts, removals in steps:
            changes = [ArtifactChange(change(name).entry, [], np.zeros((0, 4)), links) for name, links in puts.items()]
            apply_changes(connection, changes, removals)
            for name in removals:
                table.remove(name)
            for name, links in puts.items():
                table.put(name, links)
            kept = (kept - set(removals)) | set(puts)
        for direction in ("out", "in", "both"):
            for limit, keys in ((None, {}), (1, {}), (None, {"types": ["related"]}), (2, {"exclude": ["related"]})):
                choice = LinkFilter(**keys)
                found = _links.neighbors(connection, sorted(kept), direction, choice, limit)
                assert found == [table.neighbors(name, direction, choice)[:limit] for name in sorted(kept)]
        found = counts(connection)
        assert {key: found[key] for key in table.counts()} == table.counts()
        assert _links.link_counts(connection) == table.link_counts()
        for ids in (None, ["b", "a\0", "\ud800", "a", "b", "absent"], []):
            for limit in (None, 1):
                unresolved = list(table.unresolved(ids))[:limit]
                assert _links.unresolved(connection, ids, limit) == unresolved
        refs = ["a", "b", "c", "d", "T", "U", "absent", "a\0", "\ud800"]
        assert _links.resolve(connection, refs) == [table.resolve(ref) for ref in refs]
        nodes = [*refs, *(("other", ref) for ref in refs), ("oth\0er", "a"), ("none", "a"), "a"]
        for types in (None, ("related",), ("related", "requires"), ()):
            links = LinkFilter(types=types)
            found = _links.referrers(connection, nodes, links)
            assert found == [sorted(table.referrers(node, links)) for node in nodes]
            assert _links.fan_in(connection, nodes, links) == list(map(len, found))
            most = max(map(len, found))
            assert _links.max_fan_in(connection, LruCache(9), links) == most
            assert table.max_fan_in(links) == most
            edges = _links.neighbors(connection, "abcd", "in", links, None)
            assert found[:4] == [
                sorted({edge.source for edge in each}) if name in kept else referrers
                for name, each, referrers in zip("abcd", edges, found, strict=False)
            ]


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
                await each.apply(puts, removals=removals)
            if step % 4 == 0:
                assert await everything(store) == await everything(memory)
        assert await everything(store) == await everything(memory)
    check_file(path)


def test_a_corpus_s_file_says_whose_it_is(path):
    connect(path, create=True).close()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


async def test_an_aiosqlite_that_does_not_fit_is_an_error_that_names_the_interpreter_and_the_command(path, monkeypatch):
    import aiosqlite

    monkeypatch.delattr(aiosqlite.Connection, "_execute")
    with pytest.raises(StoreError, match="too new for this airw") as caught:
        await SqliteStore.open(path, create=True)
    assert f"{sys.executable} -m pip install 'aiosqlite<" in str(caught.value)
    assert not path.exists()
