"""Faults of the file of a corpus are reported in one line that contains the fix.

The corpus is whole again after the next build.
"""

import os
import random
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import pytest

from airw.corpora import build, open_corpus
from airw.errors import CorpusNotFound, StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Change, Config, ask
from airw.stores import SqliteStore
from tests.support.corpora import build_corpus, check_whole, content, reference_content, run, source, start_process

pytestmark = pytest.mark.asyncio_only

EMBEDDER = source().embedder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


@pytest.fixture
async def intact_content():
    return await reference_content()


# Damage


def empty_file(path):
    path.write_bytes(b"")


def overwrite_the_header(path):
    path.write_bytes(random.Random(1).randbytes(100) + path.read_bytes()[100:])


def flip_bytes_in_the_middle(path):
    whole = bytearray(path.read_bytes())
    for page in range(4096, len(whole), 4096):
        for at in range(page, page + 8):
            whole[at] ^= 0xFF
    path.write_bytes(whole)


def truncate(path):
    os.truncate(path, path.stat().st_size // 2)


def truncate_in_the_header(path):
    os.truncate(path, 60)


def replace_by_text(path):
    path.write_text("# Notes\n" * 1000)


DAMAGE = (overwrite_the_header, flip_bytes_in_the_middle, truncate, truncate_in_the_header, replace_by_text)


@pytest.mark.slow
@pytest.mark.parametrize("damage", DAMAGE)
async def test_a_damaged_file_is_refused_in_one_line_and_left_as_it_is(path, damage, intact_content):
    await build_corpus(path)
    damage(path)
    before = path.read_bytes()
    for attempt in (open_corpus(path, embedder=EMBEDDER), build(source(), store=path)):
        with pytest.raises(
            StoreCorrupt, match=r"'.*notes\.airw' is damaged.* check its disk, then restore a copy of it"
        ) as caught:
            async with attempt as corpus:
                await content(corpus.store)
        assert "\n" not in str(caught.value)
    assert path.read_bytes() == before
    await SqliteStore.remove(path)
    await build_corpus(path)
    await check_whole(path, intact_content)


@pytest.mark.slow
async def test_an_empty_file_contains_no_corpus_and_the_next_build_fills_it(path, intact_content):
    await build_corpus(path)
    empty_file(path)
    with pytest.raises(CorpusNotFound, match="build it first"):
        await open_corpus(path, embedder=EMBEDDER)
    await build_corpus(path)
    await check_whole(path, intact_content)


@pytest.mark.slow
async def test_bytes_flipped_anywhere_cause_at_most_a_typed_error_of_one_line(path):
    await build_corpus(path)
    whole, chance, said = path.read_bytes(), random.Random(5), []
    for _ in range(100):
        flipped = bytearray(whole)
        first = chance.randrange(len(whole))
        for at in range(first, min(first + chance.choice([1, 8, 64, 600]), len(whole))):
            flipped[at] ^= chance.randrange(1, 256)
        path.write_bytes(flipped)
        try:
            async with await SqliteStore.open(path) as store:
                await content(store)
        except StoreError as error:
            said.append(str(error))
    assert len(said) > 5
    assert "\n" not in "".join(said)


@pytest.mark.parametrize(
    "damage",
    [
        "data = x'0000'",
        "data = zeroblob(length(data) + 4)",
        "data = 'text'",
        "data = CAST(substr(data, 1, 8) || x'7f' || substr(data, 10) AS BLOB)",
        "sum = sum + 1",
        "sum = 'text'",
    ],
)
async def test_a_damaged_vector_is_an_error_and_never_a_wrong_score(path, damage):
    await build_corpus(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE vector SET {damage} WHERE rowid = 3")
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match=r"a vector .* is damaged; check its disk, then restore a copy of it"):
            await content(store)


@pytest.mark.slow
async def test_text_that_is_no_utf8_and_metadata_that_is_no_json_are_damage(path):
    for column, value in (("text", b"\xff\xfe\n"), ("metadata", b'{"broken')):
        await build_corpus(path)
        with closing(sqlite3.connect(path)) as connection, connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute(f"UPDATE record SET {column} = CAST(? AS TEXT) WHERE rowid = 3", [value])
        with pytest.raises(StoreCorrupt, match=r"is damaged.* restore a copy of it") as caught:
            async with await SqliteStore.open(path) as store:
                await content(store)
        assert "\n" not in str(caught.value)
        await SqliteStore.remove(path)


@pytest.mark.slow
async def test_a_newer_format_is_refused_and_left_as_it_is(path, intact_content):
    await build_corpus(path)
    with closing(sqlite3.connect(path)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        connection.execute(f"PRAGMA user_version = {version + 1}")
    before = path.read_bytes()
    for attempt in (open_corpus(path, embedder=EMBEDDER), build(source("beta"), store=path)):
        with pytest.raises(
            StoreCorrupt, match=rf"format {version + 1}, this version of airw reads 6 to {version}; upgrade"
        ):
            await attempt
    assert path.read_bytes() == before
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {version}")
    await check_whole(path, intact_content)


async def test_the_database_of_another_application_is_refused_and_left_as_it_is(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE record (precious)")
        connection.execute("INSERT INTO record VALUES ('data')")
    before = path.read_bytes()
    for attempt in (open_corpus(path, embedder=EMBEDDER), build(source(), store=path)):
        with pytest.raises(StoreCorrupt, match="another application; use the path of a corpus"):
            await attempt
    assert path.read_bytes() == before


# Files that a crash leaves beside the corpus


@pytest.fixture(scope="module")
def folder_after_crash(tmp_path_factory):
    """The folder of a build that was killed half-way.

    Most of the corpus is in the log beside the file.
    """
    folder = tmp_path_factory.mktemp("crashed")
    code = """
        def progress(counts):
            if counts.done == 12:
                os.kill(os.getpid(), signal.SIGKILL)
        anyio.run(lambda: build(source(), store=path, batch_size=2, progress=progress))
        """
    with start_process(code, folder / "notes.airw") as process:
        process.communicate(timeout=60)
    assert process.returncode == -9
    assert (folder / "notes.airw-wal").stat().st_size > 100_000
    return folder


def cut_to(share):
    return lambda path: os.truncate(path, int(path.stat().st_size * share))


def overwrite(at, length):
    def spoil(path):
        whole = bytearray(path.read_bytes())
        first = int(len(whole) * at)
        whole[first : first + length] = random.Random(3).randbytes(length)
        path.write_bytes(whole)

    return spoil


def append_garbage(path):
    path.write_bytes(path.read_bytes() + random.Random(4).randbytes(10_000))


BESIDE = {
    "nothing": ("-shm", lambda _: None),
    "the index removed": ("-shm", Path.unlink),
    "the index cut": ("-shm", cut_to(0.5)),
    "garbage in the index": ("-shm", overwrite(0, 500)),
    "the log cut at its end": ("-wal", cut_to(0.97)),
    "the log cut in half": ("-wal", cut_to(0.5)),
    "the log cut in its header": ("-wal", lambda path: os.truncate(path, 20)),
    "the log emptied": ("-wal", lambda path: os.truncate(path, 0)),
    "the log removed": ("-wal", Path.unlink),
    "garbage in the log's header": ("-wal", overwrite(0, 32)),
    "garbage in the log": ("-wal", overwrite(0.6, 5000)),
    "garbage at the log's end": ("-wal", append_garbage),
}


@pytest.mark.parametrize("fault", BESIDE)
@pytest.mark.slow
async def test_after_a_crash_the_intact_part_of_the_log_is_read(folder_after_crash, tmp_path, fault, intact_content):
    folder = tmp_path / "corpus"
    shutil.copytree(folder_after_crash, folder)
    path = folder / "notes.airw"
    suffix, harm = BESIDE[fault]
    harm(path.with_name(path.name + suffix))
    try:
        async with await SqliteStore.open(path) as store:
            held, has_settings = await ask(store, ArtifactIds()), bool(await ask(store, Config()))
    except CorpusNotFound:
        held, has_settings = [], False
    # Pages of two were committed one after another: the first ones are left.
    assert held == [f"{at:03}" for at in range(len(held))]
    assert len(held) % 2 == 0
    assert (len(held) == 12) == (suffix == "-shm" or fault == "garbage at the log's end")
    if not has_settings:
        await build_corpus(path)
    await check_whole(path, intact_content)


# Places that cannot be written

UNPRIVILEGED = """
def step_down():
    if os.geteuid() == 0:  # to whom everything is writable
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)

async def look(path):
    async with open_corpus(path, embedder=source().embedder) as corpus:
        for mode in ("dense", "lexical", "hybrid"):
            hits = await corpus.search("alpha 1", mode=mode, k=999, filter={"tens": {"$lt": 9}})
            assert len(hits) == len(await ask(corpus.store, ArtifactIds()))
        return await content(corpus.store)
"""
READ_AND_BUILD = (
    UNPRIVILEGED
    + """
async def main():
    expected = await content((await build(source(), store=MemoryStore())).store)
    await look(path)  # as oneself: loads everything there is to load
    before = sorted(os.listdir(path.parent))
    folder_mode, file_mode = (int(mode, 8) for mode in sys.argv[2:])
    os.chmod(path, file_mode)
    os.chmod(path.parent, folder_mode)
    step_down()
    assert_same(await look(path), expected)
    assert sorted(os.listdir(path.parent)) == before
    for attempt in (build(source("beta"), store=path), build(source(), store=path.with_name("new.airw"))):
        try:
            await attempt
        except StoreError as error:
            print(error)
    async with await SqliteStore.open(path) as store:
        try:
            await store.apply(Change(config={}))
        except StoreError as error:
            print(error)
    assert_same(await look(path), expected)

anyio.run(main)
"""
)


@pytest.fixture
def public_folder():
    """A folder that other users can read; the folders of pytest are closed to them."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        inner = Path(folder, "corpus")
        inner.mkdir()
        yield inner
        inner.chmod(0o755)


@pytest.mark.parametrize(("folder_mode", "file_mode"), [("555", "644"), ("555", "666"), ("555", "444")])
@pytest.mark.slow
async def test_a_corpus_in_a_folder_that_cannot_be_written_is_searched_but_not_built(
    public_folder, folder_mode, file_mode, intact_content
):
    path = public_folder / "notes.airw"
    await build_corpus(path)
    said = run(READ_AND_BUILD, path, folder_mode, file_mode).splitlines()
    assert len(said) == 3
    assert all("folder" in line for line in said)
    public_folder.chmod(0o755)
    path.chmod(0o644)
    await check_whole(path, intact_content)


@pytest.mark.slow
async def test_a_file_that_cannot_be_written_is_searched_but_not_built(public_folder, intact_content):
    path = public_folder / "notes.airw"
    await build_corpus(path)
    public_folder.chmod(0o777)
    before = path.read_bytes()
    said = run(READ_AND_BUILD, path, "777", "444").splitlines()
    assert all("cannot be read or written" in line or "cannot be made" in line for line in said)
    assert path.read_bytes() == before
    path.chmod(0o644)
    await check_whole(path, intact_content)


LOOK = (
    UNPRIVILEGED
    + """
async def main():
    await look(sys.argv[2])
    for each in (path, path.parent):
        os.chmod(each, 0o555)
    step_down()
    try:
        print(len((await look(path))[0]["ledger"]))
    except StoreError as error:
        print(error)

anyio.run(main)
"""
)


@pytest.mark.slow
async def test_in_a_folder_that_cannot_be_written_the_log_of_a_crash_is_read_or_an_error_is_raised(
    folder_after_crash, public_folder
):
    shutil.copytree(folder_after_crash, public_folder, dirs_exist_ok=True)
    other = public_folder / "other.airw"
    await build_corpus(other)
    assert run(LOOK, public_folder / "notes.airw", other) == "12\n"
    public_folder.chmod(0o755)
    (public_folder / "notes.airw-shm").unlink()
    assert "it needs a writable folder" in run(LOOK, public_folder / "notes.airw", other)


READER = (
    UNPRIVILEGED
    + """
async def main():
    await look(path)
    step_down()
    async with await SqliteStore.open(path) as store:
        while True:
            try:
                print(len(await ask(store, ArtifactIds())), flush=True)
            except StoreError as error:
                print(error, flush=True)
            sys.stdin.readline()

anyio.run(main)
"""
)


HIDDEN = (
    UNPRIVILEGED
    + """
async def main():
    await look(path)
    os.chmod(path if sys.argv[2] == "file" else path.parent, 0)
    step_down()
    for attempt in (open_corpus(path), SqliteStore.open(path), build(source(), store=path)):
        try:
            await attempt
        except StoreError as error:
            print(error)

anyio.run(main)
"""
)


@pytest.mark.parametrize("hidden", ["file", "folder"])
@pytest.mark.slow
async def test_a_corpus_that_may_not_be_read_is_a_store_error(public_folder, hidden, intact_content):
    path = public_folder / "notes.airw"
    await build_corpus(path)
    said = run(HIDDEN, path, hidden).splitlines()
    assert len(said) == 3
    assert all("ask its owner for access" in line for line in said[:2])
    public_folder.chmod(0o755)
    path.chmod(0o644)
    await check_whole(path, intact_content)


def read_line(reader):
    reader.stdin.write("\n")
    reader.stdin.flush()
    return reader.stdout.readline()


@pytest.mark.slow
async def test_a_reader_who_may_not_write_sees_each_write_of_a_writer_at_its_next_call(public_folder):
    path = public_folder / "notes.airw"
    await build_corpus(path)
    async with await SqliteStore.open(path) as store:
        await store.apply(Change(calibrations={"any": {}}))
        public_folder.chmod(0o555)
        with start_process(READER, path) as reader:
            assert reader.stdout.readline() == "24\n"
            for number in range(5):
                await store.apply(Change(removals=[f"{number:03}"]))
                assert read_line(reader) == f"{23 - number}\n"


@pytest.mark.slow
async def test_a_reader_without_locks_opens_again_after_the_file_has_changed(public_folder):
    path = public_folder / "notes.airw"
    await build_corpus(path)
    public_folder.chmod(0o555)
    with start_process(READER, path) as reader:
        assert reader.stdout.readline() == "24\n"
        assert read_line(reader) == "24\n"
        public_folder.chmod(0o755)
        async with await SqliteStore.open(path) as store:
            await store.apply(Change(removals=["003"]))
        public_folder.chmod(0o555)
        assert read_line(reader) == "23\n"
    assert run(READER.replace("while True:", "if True:").replace("sys.stdin", "#"), path) == "23\n"
