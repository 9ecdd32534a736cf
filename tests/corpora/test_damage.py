"""A damaged corpus file is found by a check, and reported by a build."""

import random
import shutil
import sqlite3
import time
from contextlib import closing

import anyio
import pytest

from airw.corpora import build, check_corpus_file, open_corpus
from airw.errors import CorpusNotFound, StoreCorrupt, StoreError
from airw.stores import SqliteStore
from airw.stores.sqlite import files
from tests.support.corpora import build_corpus, content, source

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
async def test_an_overwritten_page_is_reported_by_a_build_which_leaves_the_file_as_it_is(path, seed):
    await build_corpus(path)
    while not overwrite_a_page(path, seed) or await is_readable(path):
        seed += 1000
    before = path.read_bytes()
    with pytest.raises(
        StoreCorrupt, match=r"notes\.airw' is damaged .* restore a copy of it, or remove it and build it"
    ):
        await build(source(), store=path)
    assert await check_corpus_file(path)
    assert path.read_bytes() == before
    await SqliteStore.remove(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 125))
async def test_whatever_page_is_overwritten_the_check_sees_it_if_a_read_does(path, seed):
    await build_corpus(path, count=80)
    overwrite_a_page(path, seed)
    is_damaged = bool(await check_corpus_file(path))
    assert is_damaged or await is_readable(path)


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
async def test_a_check_finds_each_kind_of_damage(path, damage):
    await build_corpus(path)
    assert await check_corpus_file(path) == []
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    faults = await check_corpus_file(path)
    assert any(DAMAGE[damage] in fault for fault in faults), faults
    assert "\n" not in "".join(faults)


@pytest.mark.slow
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
