"""Disks that fail, locks that fail, and paths that are too long.

A shim over the C library makes disks fail.
"""

import errno
import os
import shutil
import sqlite3
import subprocess
from contextlib import closing

import anyio
import pytest

from airw._base import file_lock
from airw.corpora import build, open_corpus
from airw.errors import ArgumentError, StoreBusy, StoreCorrupt, StoreError
from airw.protocols import ArtifactIds, Rank, ask
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from tests.support.corpora import run, source
from tests.support.stored import change, fill
from tests.support.waiting import PATIENCE

pytestmark = pytest.mark.asyncio_only

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int is_corpus(int descriptor, const char *suffix) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return length > strlen(suffix) && !strcmp(path + length - strlen(suffix), suffix);
}

ssize_t pread64(int descriptor, void *data, size_t count, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (!real) real = dlsym(RTLD_NEXT, "pread64");
    if (getenv("FAILING") && !access(getenv("FAILING"), F_OK) && offset >= 8192 && is_corpus(descriptor, ".airw")) {
        errno = EIO;
        return -1;
    }
    return real(descriptor, data, count, offset);
}

static void count_sync(int descriptor) {
    if (!getenv("SYNCS") || !is_corpus(descriptor, "-wal")) return;
    int log = open(getenv("SYNCS"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (write(log, "x", 1)) close(log);
}

int fdatasync(int descriptor) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fdatasync");
    count_sync(descriptor);
    return real(descriptor);
}

int fsync(int descriptor) {
    static int (*real)(int);
    if (!real) real = dlsym(RTLD_NEXT, "fsync");
    count_sync(descriptor);
    return real(descriptor);
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """Return the command that starts a program whose calls of the C library the shim sees."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"], check=True)
    return ["env", f"LD_PRELOAD={folder / 'shim.so'}"]


READ_WHILE_FAILING = """
async def main():
    failing = pathlib.Path(os.environ["FAILING"])
    async with await SqliteStore.open(path) as store:
        failing.touch()
        for request in (ArtifactIds(), Ledger(), Rank(["word"], 5)):
            try:
                await ask(store, request)
            except StoreError as error:
                print(type(error).__name__, error)
        failing.unlink()
        print(len(await ask(store, ArtifactIds())))
anyio.run(main)
"""


@pytest.mark.slow
async def test_a_disk_that_fails_to_read_is_no_damage_and_no_reason_to_remove_the_file(tmp_path, shim):
    path = tmp_path / "notes.airw"
    await fill(path, *[change(f"{at}", "word " * 200) for at in range(200)])
    said = run(READ_WHILE_FAILING, path, before=[*shim, f"FAILING={tmp_path / 'failing'}"]).splitlines()
    assert len(said) == 4
    for line in said[:3]:
        assert line.startswith("StoreError '")
        assert os.strerror(errno.EIO) in line
        assert "check its disk, cable or network" in line
        assert "remove" not in line
        assert "again" not in line
    assert said[3] == "200"


WRITE = """
from tests.support.stored import change
async def main():
    syncs = pathlib.Path(os.environ["SYNCS"])
    async with SqliteStore(path, durability=sys.argv[2]) as store:
        await store.apply(Change(config={}))
        before = syncs.stat().st_size if syncs.exists() else 0
        for at in range(20):
            await store.apply(Change([change(f"{at}")]))
        print(syncs.stat().st_size - before if syncs.exists() else 0)
anyio.run(main)
"""


@pytest.mark.slow
def test_only_with_full_durability_each_write_waits_for_the_disk(tmp_path, shim):
    def count_syncs(durability):
        before = [*shim, f"SYNCS={tmp_path / durability}"]
        return int(run(WRITE, tmp_path / f"{durability}.airw", durability, before=before))

    assert count_syncs("full") >= 20
    assert count_syncs("normal") < 5


async def test_builds_and_open_corpora_have_a_durability(tmp_path):
    path = tmp_path / "notes.airw"
    texts = from_mapping({"a": "rotate the keys"}, name="notes", embedder="light")
    async with build(texts, store=path, durability="full") as corpus:
        assert await ask(corpus.store, ArtifactIds()) == ["a"]
    async with open_corpus(path, durability="full") as corpus:
        await corpus.upsert({"new": "words"})
        writer = corpus.store._writer
        assert await writer.run(lambda connection: connection.execute("PRAGMA synchronous").fetchone()) == (2,)


async def test_an_unknown_durability_is_an_error(tmp_path):
    for call in (
        lambda: SqliteStore(tmp_path / "notes.airw", durability="some"),
        lambda: build(source(), store=tmp_path / "notes.airw", durability="some"),
    ):
        with pytest.raises(ArgumentError, match="durability must be one of 'normal', 'full', not 'some'"):
            call()
    with pytest.raises(ArgumentError, match="not for a store that is passed"):
        build(source(), store=MemoryStore(), durability="full")
    assert list(tmp_path.iterdir()) == []


# Locks


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.EBADF])
async def test_a_lock_that_fails_is_reported_at_once_and_not_as_another_builder(tmp_path, monkeypatch, number):
    def fail(_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(file_lock, "_try_lock", fail)
    with anyio.fail_after(PATIENCE), pytest.raises(StoreError) as caught:
        async with SqliteStore(tmp_path / "notes.airw").writing():
            pass
    assert not isinstance(caught.value, StoreBusy)
    assert f"cannot be locked ({os.strerror(number)})" in str(caught.value)
    assert "move it to a file system with locks" in str(caught.value)


# Paths


async def test_a_path_that_is_too_long_for_sqlite_is_an_error_that_names_the_limit(tmp_path):
    folder = tmp_path / ("e" * 240) / ("f" * 240)
    folder.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"its path has \d+ bytes, and SQLite opens paths of up to 500; use a shorter"):
        async with SqliteStore(folder / "notes.airw"):
            pass


# Damaged text indexes


@pytest.mark.parametrize(
    "damage",
    ["DELETE FROM record_text_docsize", "DELETE FROM record_text_docsize WHERE id = (SELECT max(rowid) FROM record)"],
)
@pytest.mark.parametrize("surfaces", [None, ["chunk"]])
async def test_a_text_index_that_lacks_rows_is_an_error(tmp_path, damage, surfaces):
    path = tmp_path / "notes.airw"
    await fill(path, *[change(f"{at}", f"word {at}") for at in range(5)])
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(damage)
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match=r"text index does not match the records.* restore a copy of it"):
            await ask(store, Rank(["word"], 5, surfaces=surfaces))
