"""A damaged corpus file is reported by a build, and healed by a build with `repair`."""

import random
import shutil
import sqlite3
import time
from contextlib import closing

import anyio
import pytest

from airw.corpora import build, check_corpus_file, open_corpus
from airw.errors import ArgumentError, CorpusNotFound, StoreCorrupt, StoreError
from airw.sources import from_mapping, from_notes
from airw.stores import MemoryStore, SqliteStore
from airw.stores.sqlite import files
from tests.support.corpora import assert_same, build_corpus, check_whole, content, reference_content, source
from tests.support.stored import check_file

EMBEDDER = source().embedder

pytestmark = pytest.mark.asyncio_only


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


def overwrite_a_page(path, seed):
    """Overwrite one random block of 4 KB, and return whether any byte changed."""
    time.sleep(0.01)  # as file times are only so exact
    chance, whole = random.Random(seed), bytearray(path.read_bytes())
    first = 4096 * chance.randrange(len(whole) // 4096)
    before = bytes(whole)
    whole[first : first + 4096] = chance.randbytes(4096)
    path.write_bytes(whole)
    return whole != before


async def is_readable(path):
    """Return whether everything in a corpus can be read."""
    try:
        async with await SqliteStore.open(path) as store:
            await content(store)
    except (StoreError, CorpusNotFound):
        return False
    return True


@pytest.mark.parametrize("seed", range(2))
async def test_an_overwritten_page_is_reported_by_a_build_and_healed_by_a_repair(path, seed):
    await build_corpus(path)
    while not overwrite_a_page(path, seed) or await is_readable(path):
        seed += 1000
    before = path.read_bytes()
    with pytest.raises(StoreCorrupt, match=r"notes\.airw' is damaged .* build it with repair=True, or restore a copy"):
        await build(source(), store=path)
    assert await check_corpus_file(path)
    assert path.read_bytes() == before
    async with build(source(), store=path, repair=True) as corpus:
        assert_same(await content(corpus.store), await reference_content())
    assert await check_corpus_file(path) == []
    check_file(path)
    assert path.with_name("notes.airw-damaged").read_bytes() == before
    await SqliteStore.remove(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 160))
async def test_whatever_page_is_overwritten_the_check_sees_it_if_a_read_does_and_a_repair_heals_it(path, seed):
    await build_corpus(path, count=80)
    overwrite_a_page(path, seed)
    is_damaged = bool(await check_corpus_file(path))
    assert is_damaged or await is_readable(path)
    async with build(source(count=80), store=path, repair=True) as corpus:
        assert_same(await content(corpus.store), await reference_content(count=80))


async def read_all(store):
    """Return what a repair must keep."""
    ids = await store.artifact_ids()
    records = await store.records_of(ids)
    return (
        ids,
        records,
        [entry.source for entry in await store.ledger()],
        (await store.vectors([record.id for group in records for record in group])).tolist(),
        await store.neighbors(ids, direction="both"),
        await store.unresolved_links(),
        await store.resolve(["Title", "b", "c"]),
        await store.config(),
        await store.calibration(),
    )


async def test_a_repair_keeps_the_artifacts_of_others_the_calibration_and_the_links(path, tmp_path):
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "a.md").write_text("---\ntitle: Title\n---\nsee [[b]] and [[nobody]]")
    (tmp_path / "first" / "b.md").write_text("see [[Title]]")
    first = from_notes(tmp_path / "first", name="first", embedder="light")
    second = from_mapping({"c": "three", "d": "four"}, name="second", embedder="light")
    async with build(first, store=path):
        pass
    async with build(second, store=path) as corpus:
        await corpus.upsert({"mine": "my own words"})
        await corpus.store.set_calibration("any", {"floor": 0.25})
        before = await read_all(corpus.store)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM record_text_docsize WHERE id = 1")
    async with build(second, store=path, repair=True) as corpus:
        assert (corpus.report.updated, corpus.report.unchanged, corpus.report.problems) == (2, 0, ())
        assert await read_all(corpus.store) == before
    assert len(before[4][0]) == 2


async def test_a_repair_reports_artifacts_of_others_that_cannot_be_read(path):
    async with build(from_mapping({"a": "one", "b": "two"}, name="first", embedder="light"), store=path):
        pass
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE vector SET sum = sum + 1 WHERE rowid = 1")
    second = from_mapping({"c": "text"}, name="second", embedder="light")
    async with build(second, store=path, repair=True) as corpus:
        [problem] = corpus.report.problems
        assert (problem.item, problem.lost) == ("a", True)
        assert "index it again" in problem.reason
        assert await corpus.store.artifact_ids() == ["b", "c"]


async def test_a_repair_of_a_whole_file_is_an_ordinary_build(path):
    await build_corpus(path)
    async with build(source(), store=path, repair=True) as corpus:
        assert (corpus.report.unchanged, corpus.report.updated) == (24, 0)
    assert not path.with_name("notes.airw-damaged").exists()


async def test_a_repair_never_replaces_a_file_of_another_application(tmp_path):
    text, other = tmp_path / "letter.txt", tmp_path / "other.db"
    text.write_text("Dear ...\n" * 500)
    with closing(sqlite3.connect(other)) as connection:
        connection.execute("CREATE TABLE t (x)")
    for path in (text, other):
        before = path.read_bytes()
        with pytest.raises(StoreError):
            await build(source(), store=path, repair=True)
        assert path.read_bytes() == before
    with pytest.raises(ArgumentError, match="durability and repair are for a corpus file"):
        build(source(), store=MemoryStore(), repair=True)


async def test_an_open_corpus_goes_on_after_a_repair(path):
    await build_corpus(path)
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("UPDATE vector SET sum = sum + 1 WHERE rowid = 1")
        with pytest.raises(StoreCorrupt):
            await corpus.search("alpha 1")
        await (await build(source(), store=path, repair=True)).aclose()
        assert len(await corpus.search("alpha 1", k=99)) == 24
    await check_whole(path, await reference_content())


DAMAGE = {
    "UPDATE vector SET sum = sum + 1 WHERE rowid = 3": "vectors: StoreCorrupt",
    "DELETE FROM vector WHERE rowid = 3": "1 records without a vector",
    "DELETE FROM record_text_docsize WHERE id = 3": "records that are not in the text index",
    "DELETE FROM artifact WHERE id = '003'": "records without an artifact",
    "UPDATE link SET target = 'nobody' WHERE artifact_id = '003'": "links with a wrong target",
    "UPDATE record SET metadata = '[' WHERE rowid = 3": "records: DamagedValue",
    "UPDATE record SET metadata = '[1]' WHERE rowid = 3": "records: DamagedValue: a value is JSON, but no mapping",
    "UPDATE record SET idx = 'x' WHERE rowid = 3": "a value has another type",
    "UPDATE setting SET value = '7' WHERE kind = 'config'": "settings: DamagedValue",
    "UPDATE bucket SET live = 7": "records that are not counted",
    "DELETE FROM record_text_data WHERE id > 10": "words",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_check_finds_each_kind_of_damage_and_a_repair_heals_it(path, damage):
    await build_corpus(path)
    assert await check_corpus_file(path) == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    faults = await check_corpus_file(path)
    assert any(DAMAGE[damage] in fault for fault in faults), faults
    assert "\n" not in "".join(faults)
    async with build(source(), store=path, repair=True) as corpus:
        assert_same(await content(corpus.store), await reference_content())


@pytest.mark.parametrize("how", ["closed", "changed", "copied"])
async def test_a_build_reads_the_whole_file_only_if_somebody_else_may_have_changed_it(path, monkeypatch, how):
    checked, check = [], files.find_damage
    monkeypatch.setattr(files, "find_damage", lambda connection: (checked.append(how), check(connection))[1])
    await build_corpus(path)
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        await corpus.delete(["003"])
    if how == "changed":
        await anyio.sleep(0.01)
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("DELETE FROM setting WHERE kind = 'calibration' AND key = 'none'")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            connection.execute(f"PRAGMA user_version = {version}")
    elif how == "copied":
        shutil.copy(path, path.with_name("copy"))
        path.with_name("copy").replace(path)
    for _ in range(2):
        await build_corpus(path)
    assert len(checked) == (how != "closed")


async def test_a_check_can_be_cancelled(path):
    await build_corpus(path)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await check_corpus_file(path)
    assert scope.cancelled_caught
    assert await check_corpus_file(path) == []
