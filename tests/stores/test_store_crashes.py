"""Processes are killed, race with each other or run out of disk space.

The corpus is valid at every moment and complete after a build.
"""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial

import anyio
import numpy as np
import pytest

from airw.corpora import build, open_corpus
from airw.embedders import embedder_from
from airw.errors import EmbedderError, StoreBusy, StoreError
from airw.protocols import ArtifactIds, Calibrations, Change, Config, Rank, RecordsOf, ask
from airw.sources import from_mapping
from airw.stores import SqliteStore
from airw.values import ArtifactChange, LedgerEntry, Record
from tests.support.corpora import (
    assert_same,
    build_corpus,
    check_whole,
    content,
    embed,
    reference_content,
    run,
    source,
    start_process,
)
from tests.support.waiting import PATIENCE, cancel_once

pytestmark = pytest.mark.asyncio_only


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


# Killed processes

COUNT, PAGE, KILLS = 60, 2, 15
KILLED = """
# One process after the other builds, says so after each commit, and is killed some time after one of its commits.
# The parent starts no thread, so that it may fork.
word, count, page = sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def child(path, told):
    async def main():
        written = 0
        def progress(counts):
            nonlocal written
            if counts.written > written:
                written = counts.written
                os.write(told, b"x")
        opening = build(source(word, count=count, pause=0.004), store=path, batch_size=page, progress=progress)
        await (await opening).aclose()
    anyio.run(main)

for number, moment in enumerate(sys.argv[5:]):
    commits, delay = moment.split("+")
    read, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        child(path / f"{number}.airw", told)
        os._exit(0)
    os.close(told)
    seen = b""
    while len(seen) < int(commits):
        seen += os.read(read, int(commits) - len(seen))
    time.sleep(float(delay))
    os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    while more := os.read(read, 100):
        seen += more
    os.close(read)
    print(number, os.waitstatus_to_exitcode(status), len(seen))
"""


def kill_builds(folder, word, seed):
    """Kill builds at random moments; return the number of commits that each had reported."""
    chance = random.Random(seed)
    last = COUNT // PAGE
    # Not close to the end: on a busy machine, a build may reach it before the signal.
    moments = [f"{chance.randrange(last * 2 // 3)}+{chance.uniform(0, 0.012):.4f}" for _ in range(KILLS)]
    lines = [line.split() for line in run(KILLED, folder, word, COUNT, PAGE, *moments).splitlines()]
    assert [line[0] for line in lines] == [str(number) for number in range(KILLS)]
    return [int(commits) if code == "-9" else last for _, code, commits in lines]


@pytest.mark.slow
async def test_builds_killed_at_15_random_moments_leave_whole_pages_that_answer_and_the_next_build_completes(tmp_path):
    reported, between = kill_builds(tmp_path, "alpha", seed=4), 0
    undisturbed = await reference_content(count=COUNT)
    for number, commits in enumerate(reported):
        path = tmp_path / f"{number}.airw"
        if path.exists() and path.stat().st_size:
            async with SqliteStore(path) as store:
                held, has_settings = await ask(store, ArtifactIds()), bool(await ask(store, Config()))
            assert commits * PAGE <= len(held) <= (commits + 1) * PAGE
            assert held == [f"{at:03}" for at in range(len(held))]
            between += commits > 0 and len(held) < COUNT
        if not path.exists() or not has_settings:
            assert commits == 0
            await build_corpus(path, count=COUNT)
        await check_whole(path, undisturbed, count=COUNT)
    assert between >= 12


@pytest.mark.slow
async def test_rebuilds_killed_at_15_random_moments_leave_each_artifact_old_or_new_and_the_next_build_completes(
    tmp_path,
):
    await build_corpus(tmp_path / "0.airw", "alpha", count=COUNT)
    whole = (tmp_path / "0.airw").read_bytes()
    for number in range(1, KILLS):
        (tmp_path / f"{number}.airw").write_bytes(whole)
    reported, between = kill_builds(tmp_path, "beta", seed=2), 0
    undisturbed = await reference_content("beta", count=COUNT)
    for number, commits in enumerate(reported):
        path = tmp_path / f"{number}.airw"
        async with await SqliteStore.open(path) as store:
            words = [
                record.text.split()[0] for (record,) in await ask(store, RecordsOf(await ask(store, ArtifactIds())))
            ]
            (lexical,) = await ask(store, Rank(["beta"], COUNT))
        new = words.count("beta")
        assert commits * PAGE <= new <= (commits + 1) * PAGE
        assert words == ["beta"] * new + ["alpha"] * (COUNT - new)
        assert len(lexical) == new
        between += commits > 0 and new < COUNT
        await check_whole(path, undisturbed, "beta", count=COUNT)
    assert between >= 12


# No disk space

NO_ROOM = """
async def main():
    options = {"count": 60, "size": 600}
    expected = await reference_content(**options)
    limit, free = sys.argv[2], None
    if limit == "disk":
        ballast = path.with_name("ballast")
        ballast.write_bytes(b"0" * 500_000)
        free = ballast.unlink
    else:
        import resource
        _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, most))
        free = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    try:
        await build(source(**options), store=path, batch_size=4)
    except StoreError as error:
        print(error)
    try:
        async with await SqliteStore.open(path) as store:
            await content(store)
        print("readable")
    except StoreError as error:
        print(error)
    free()
    async with await SqliteStore.open(path) as store:
        print(len(await ask(store, ArtifactIds())))
    await check_whole(path, expected, **options)

anyio.run(main)
"""
MOUNT = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"']


def can_mount(folder):
    """Return whether this system lets us mount a small disk."""
    try:
        return subprocess.run([*MOUNT, folder, "true"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.parametrize("limit", ["disk", "file size"])
@pytest.mark.slow
def test_a_build_that_runs_out_of_disk_space_fails_clearly_and_completes_once_there_is_some(tmp_path, limit):
    before = [*MOUNT, tmp_path] if limit == "disk" and can_mount(tmp_path) else []
    said, meanwhile, held = run(
        NO_ROOM, tmp_path / "notes.airw", limit if before else "file size", before=before
    ).splitlines()
    assert ("free some space and try again" if before else "cannot be read or written") in said
    assert "notes.airw" in said
    assert meanwhile == "readable"
    assert 0 < int(held) < 60


# Invalid vectors


@pytest.mark.slow
@pytest.mark.parametrize("answer", [[float("nan")] * 8, [float("inf")] + [1.0] * 7, [1.0] * 9, [1.0]])
async def test_invalid_vectors_stop_a_build_and_the_next_one_completes_it(path, answer):
    def embed_badly(texts):
        return [
            answer if text.startswith("alpha 13") else vector for text, vector in zip(texts, embed(texts), strict=True)
        ]

    with pytest.raises(EmbedderError) as caught:
        await build(source(embed=embed_badly), store=path, batch_size=2)
    assert "\n" not in str(caught.value)
    async with await SqliteStore.open(path) as store:
        assert len(await ask(store, ArtifactIds())) <= 12
    await check_whole(path, await reference_content())


@pytest.mark.parametrize(
    ("vector", "says"), [([np.nan] * 8, "contains NaN"), ([-np.inf] * 8, "infinity"), ([1.0] * 9, "9 wide.* 8")]
)
async def test_a_store_refuses_an_invalid_vector(path, vector, says):
    await build_corpus(path)
    record = Record(Record.make_id("new", "document", 0), "new", "document", 0, "text")
    change = ArtifactChange(LedgerEntry("new", "1", "e", "s"), [record], np.array([vector], np.float32))
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreError, match=says):
            await store.apply(Change([change], removals=["000"]))
        assert_same(await content(store), await reference_content())


# Processes at the same time

BOTH = """
for number in range(6):
    pids = []
    for word in ("alpha", "beta"):
        pids.append(os.fork())
        if pids[-1] == 0:
            async def main():
                where = f"both-{number}" if number % 2 else path / f"{number}.airw"
                await (await build(source(word, pause=0.002), store=where, batch_size=2)).aclose()
            anyio.run(main)
            os._exit(0)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0]
"""


@pytest.mark.slow
async def test_two_processes_that_build_different_content_at_once_leave_the_corpus_of_one_of_them(tmp_path):
    run(BOTH, tmp_path)
    allowed = {word: await reference_content(word) for word in ("alpha", "beta")}
    for number in range(6):
        name = f"both-{number}" if number % 2 else tmp_path / f"{number}.airw"
        async with open_corpus(name, embedder=source().embedder) as corpus:
            found = await content(corpus.store)
        word = found[0]["records"][0][0].text.split()[0]
        found[0]["config"]["name"] = "notes"
        assert_same(found, allowed[word])


OPENED = """
for number in range(10):
    go, start = os.pipe()
    pids = []
    for at in range(6):
        pids.append(os.fork())
        if pids[-1] == 0:
            os.close(start)
            os.read(go, 1)
            async def main():
                async with await SqliteStore.open(path / f"{number}.airw", create=True) as store:
                    assert await ask(store, ArtifactIds()) == []
                    if at % 2:
                        await store.apply(Change(calibrations={str(at): {"at": at}}))
            anyio.run(main)
            os._exit(0)
    os.close(go)
    os.close(start)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * 6, (number, codes)
"""


@pytest.mark.slow
async def test_a_file_that_many_processes_create_at_once_is_created_once_and_opened_by_all(tmp_path):
    run(OPENED, tmp_path)
    for number in range(10):
        async with await SqliteStore.open(tmp_path / f"{number}.airw") as store:
            assert await ask(store, Calibrations()) == {str(at): {"at": at} for at in (1, 3, 5)}


@pytest.mark.parametrize("lock", ["IMMEDIATE", "EXCLUSIVE"])
async def test_opening_waits_for_a_process_that_is_creating_the_file(path, lock):
    """While a file turns to WAL, SQLite itself fails at once, whatever its busy timeout."""
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as maker:
        maker.execute(f"BEGIN {lock}")
        done = threading.Timer(0.2, maker.execute, ["ROLLBACK"])
        done.start()
        try:
            async with await SqliteStore.open(path, create=True) as store:
                assert await ask(store, ArtifactIds()) == []
        finally:
            done.join()


async def test_a_builder_that_waits_while_the_corpus_is_removed_locks_the_new_one(path):
    """The lock file is removed with the corpus.

    A builder that waited for it must not build beside the builder of a new corpus.
    """
    await build_corpus(path)
    inside = 0

    async def hold(seconds):
        nonlocal inside
        async with SqliteStore(path).writing(timeout=PATIENCE):
            inside += 1
            assert inside == 1
            await anyio.sleep(seconds)
            inside -= 1

    async with anyio.create_task_group() as group:
        group.start_soon(hold, 0.2)
        await anyio.sleep(0.01)
        for _ in range(3):
            group.start_soon(SqliteStore.remove, path)
            group.start_soon(hold, 0.06)
    assert inside == 0


@pytest.mark.slow
async def test_searching_an_open_corpus_fails_while_it_is_removed_and_works_once_it_was_built_again(path):
    await build_corpus(path)
    async with open_corpus(path, embedder=source().embedder) as corpus:
        assert len(await corpus.search("alpha 1", k=99)) == 24
        await SqliteStore.remove(path)
        with pytest.raises(StoreError, match="was removed while open"):
            await corpus.search("alpha 1")
        await build_corpus(path, "beta")
        assert {hit.text.split()[0] for hit in await corpus.search("alpha 1", k=99)} == {"beta"}
    await check_whole(path, await reference_content())


@pytest.mark.slow
async def test_a_second_builder_waits_for_the_first_and_a_killed_one_releases_its_lock(path):
    code = """
        async def main():
            async with SqliteStore(path) as store, store.writing():
                print("held", flush=True)
                await anyio.sleep(60)
        anyio.run(main)
        """
    with start_process(code, path) as process:
        assert process.stdout.readline() == "held\n"
        async with await SqliteStore.open(path) as store:
            with pytest.raises(StoreBusy, match=r"another builder still holds .* after 0\.1 seconds; wait"):
                async with store.writing(timeout=0.1):
                    pass
            await store.apply(Change(calibrations={"any": {}}))  # small writes go on
        async with anyio.create_task_group() as group:
            group.start_soon(build_corpus, path)
            await anyio.sleep(0.2)
            process.kill()
    await check_whole(path, await reference_content())


# Cancelled and forgotten


@pytest.mark.slow
async def test_a_cancelled_query_returns_at_once_and_the_store_goes_on(path, monkeypatch):
    """The search would take minutes, because Python reads the field of each record."""
    tags = {f"{at:04}": " ".join(["word"] * 20) for at in range(2000)}
    checks = []
    notes = from_mapping(
        tags,
        name="notes",
        embedder=embedder_from(lambda texts: [[1.0, 0.0]] * len(texts), id="e", dim=2),
        metadata_of=lambda *_: {f'"tags{number}"': [f"t{at}" for at in range(50)] for number in range(10)},
    )

    def slow_filter(number):  # a new field each time: its values are not in memory yet, and SQL cannot name it
        return {f'"tags{number}"': "no tag"}

    async with build(notes, store=path) as corpus:
        for mode, first in (("lexical", 0), ("dense", 5)):
            assert await corpus.search("word", mode=mode, filter=slow_filter(first)) == []
            with monkeypatch.context() as patch:
                patch.setattr("airw.stores.sqlite._field_sql.hand_over", lambda: (checks.append(1), time.sleep(0.1)))
                for number in range(first + 1, first + 5):
                    checks.clear()
                    search = partial(corpus.search, "word", mode=mode, filter=slow_filter(number))
                    with anyio.fail_after(PATIENCE):
                        await cancel_once(lambda: checks, search)
            assert len(await corpus.search("word", mode=mode)) == 10


@pytest.mark.slow
async def test_a_corpus_dropped_without_closing_warns_with_the_fix_and_harms_nothing(path):
    await build_corpus(path)
    corpus = await open_corpus(path, embedder=source().embedder)
    await corpus.search("alpha 1")
    with pytest.warns(ResourceWarning, match=r"notes\.airw' was left open; use `async with`, or `await .*aclose\(\)`"):
        del corpus  # the last reference to it
    await check_whole(path, await reference_content())


FORGETFUL = """
import asyncio, sys, airw

async def forget():
    corpus = await airw.open_corpus(sys.argv[1])
    await corpus.search("alpha", mode="lexical")
    return corpus if sys.argv[2] == "kept" else None

kept = [asyncio.run(forget()) for _ in range(4)]
"""


@pytest.mark.slow
@pytest.mark.parametrize("when", ["dropped", "kept"])
async def test_a_program_that_closes_no_corpus_gets_one_line_for_each(path, when):
    """Their event loops are closed by then, or the interpreter is about to end."""
    await build_corpus(path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = await anyio.run_process([sys.executable, "-W", "always", "-c", FORGETFUL, str(path), when], env=environment)
    lines = done.stderr.decode().splitlines()
    reason = f"the corpus {str(path)!r} was left open; use `async with`, or `await corpus.aclose()`"
    assert lines == [f"airw:1: ResourceWarning: {reason}"] * 4
