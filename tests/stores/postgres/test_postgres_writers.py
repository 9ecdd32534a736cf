"""Artifacts stay whole while several processes write to a server and one is killed."""

import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest

from airw._base.concurrency import in_thread
from airw.errors import StoreError
from airw.protocols import ArtifactIds, Calibrations, Change, IngestRun, Ledger, Matching, RecordsOf, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Link
from tests.support.histories import REFUSED, content, expect_alike
from tests.support.postgres import drop_corpus, fresh_name, fresh_store, get_server, server_dsn
from tests.support.relay import PostgresRelay
from tests.support.stored import change

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]

WRITER = """
import sys
import anyio
from airw.protocols import Change
from airw.stores.postgres.store import PostgresStore
from tests.support.stored import change

async def main(dsn, corpus, number, steps):
    async with await PostgresStore.open(dsn, corpus) as store:
        print("open", flush=True)
        sys.stdin.readline()  # all begin together
        for step in range(int(steps)):
            # The five artifacts of a step are also written by others.
            names = [f"{(step * 7 + each) % 40}" for each in range(5)]
            version = f"{number}.{step}"
            same = {"version": version, "records": 4, "links": names[:1]}
            changes = [change(name, f"{name} w{version}", **same) for name in names]
            await store.apply(Change(changes, [f"{step % 50}"]))

anyio.run(main, *sys.argv[1:])
"""


def start_writer(stack, corpus, number, steps):
    command = [sys.executable, "-c", WRITER, server_dsn(), corpus, str(number), str(steps)]
    process = stack.enter_context(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    stack.callback(process.kill)
    return process


def change_of(name, version):
    """Return the artifact that a writer stored."""
    step = int(version.split(".")[1])
    return change(name, f"{name} w{version}", version=version, records=4, links=[f"{step * 7 % 40}"])


@pytest.fixture
async def corpus():
    name = fresh_name()
    yield name
    await drop_corpus(server_dsn(), name)


async def test_artifacts_stay_whole_while_processes_write_and_one_is_killed(corpus):
    from airw.stores.postgres.store import PostgresStore

    async with PostgresStore(server_dsn(), corpus) as store:
        with ExitStack() as stack:
            writers = [start_writer(stack, corpus, at, 40) for at in range(3)]
            for writer in writers:
                await in_thread(writer.stdout.readline)
            for writer in writers:
                writer.stdin.write("\n")
                writer.stdin.flush()
            seen = set()
            while any(writer.poll() is None for writer in writers):
                if len(seen) > 30:
                    writers[0].kill()
                for records in await ask(store, RecordsOf([f"{name}" for name in range(40)])):
                    if records is not None:
                        name, version = records[0].text.split(" w")
                        assert [record.text for record in records] == [f"{name} w{version}"] * 4
                        assert [record.surface_index for record in records] == [0, 1, 2, 3]
                        seen.add(version)
            assert writers[0].wait() < 0 == writers[1].wait() == writers[2].wait()
        entries = await ask(store, Ledger())
        async with MemoryStore() as fresh:
            await fresh.apply(Change([change_of(entry.artifact_id, entry.version) for entry in entries]))
            expect_alike([await content(fresh), await content(store)])
        assert {version.split(".")[0] for version in seen} == {"0", "1", "2"}


@pytest.mark.parametrize(("bad", "message"), REFUSED)
async def test_a_change_that_cannot_be_stored_is_refused_in_the_words_of_a_file(bad, message, tmp_path):
    async def refuse(store):
        await store.apply(Change([put("kept", "kept one"), put("other", "other")]))
        before = await content(store)
        with pytest.raises(StoreError, match=message) as caught:
            await store.apply(Change([put("good", "three"), bad], removals=["other"]))
        assert await content(store) == before
        return str(caught.value)

    async with SqliteStore(tmp_path / "corpus.airw") as in_file, fresh_store() as on_server:
        assert await refuse(in_file) == await refuse(on_server)


async def test_records_with_one_id_in_two_writes_are_refused():
    async with fresh_store() as store:
        await store.apply(Change([put("a", "x")]))
        [record] = put("a", "x").records
        with pytest.raises(StoreError, match="make_id"):
            await store.apply(Change([replace(put("b", "x"), records=[replace(record, artifact_id="b")])]))
        await store.apply(Change([replace(put("b", "x"), records=[replace(record, artifact_id="b")])], removals=["a"]))
        assert await ask(store, ArtifactIds()) == ["b"]


async def test_what_is_too_large_for_the_server_is_refused_with_its_limit():
    random = np.random.default_rng(0)
    long = "".join(map(chr, random.integers(0x4E00, 0x9000, 900)))  # 2,700 bytes, which cannot be compressed
    change = put("a", "x")
    [record] = change.records
    renamed = [replace(record, id=long)]
    async with fresh_store() as store:
        for bad, message in (
            (put(long, "x"), r"the id .* has 2,700 bytes.* at most 2,000"),
            (replace(change, records=renamed), "the record id .* has 2,700 bytes.* at most 2,600"),
            (put("a", "x", dim=16_001), "are 16001 wide; PostgreSQL stores vectors of 1 to 16,000 numbers"),
        ):
            with pytest.raises(StoreError, match=message):
                await store.apply(Change([bad]))
        with pytest.raises(StoreError, match=r"the setting .* has 2,700 bytes.* at most 2,500"):
            await store.apply(Change(calibrations={long: {}}))
        with pytest.raises(StoreError, match=r"the setting 'run .* has 2,704 bytes"):
            await store.begin_run(IngestRun(long, "mark", {}), {})
        # What is as long as it may be.
        await store.apply(Change([put(long[:666], "x", dim=16_000)]))
        assert await ask(store, ArtifactIds()) == [long[:666]]
        await store.apply(Change(calibrations={long[:833]: {}}))
        await store.apply(Change(calibrations={"k" * 50_000: {}}))


async def test_texts_and_metadata_with_control_characters_come_back_as_they_were():
    text, metadata = "a\0b\1\2\3\ud7ff", {"k\0": ["\0", {"\1": "\2"}], "x": 1e300, "y": -0.0, "z": True}
    async with fresh_store() as store:
        await store.apply(Change([put("a", text, metadata=metadata)]))
        [[record]] = await ask(store, RecordsOf(["a"]))
        assert (record.text, repr(record.metadata)) == (text, repr(metadata))
        assert await ask(store, Matching([("k\0", "\0"), ("k\0", {"\1": "\2"}), ("z", 1), ("y", 0)])) == [["a"]] * 4


async def test_settings_with_any_key_come_back():
    async with fresh_store() as store:
        for key in ("", "a\0b", "\1", "é"):
            await store.apply(Change(calibrations={key: {"key": key, "n": 1.0}}))
        assert await ask(store, Calibrations()) == {key: {"key": key, "n": 1.0} for key in ("", "a\0b", "\1", "é")}
        with pytest.raises(StoreError, match="unpaired surrogate"):
            await store.apply(Change(calibrations={"\ud800": {}}))


async def test_the_planner_knows_a_corpus_after_a_block_of_many_writes(corpus):
    from airw.stores.postgres.store import PostgresStore

    async with PostgresStore(server_dsn(), corpus) as store, store.writing():
        await store.apply(Change([put(f"{number}", "x") for number in range(1_000)]))
    rows = await get_server().fetch(
        """SELECT relname, reltuples, relallvisible = relpages FROM pg_class
        WHERE relnamespace = $1::regnamespace AND relname IN ('artifact', 'record', 'embedding')""",
        f"airw_{corpus}",
    )
    assert {tuple(row) for row in rows} == {(name, 1_000, True) for name in ("artifact", "record", "embedding")}


def make_note(number, version):
    texts = f"text {version} of note {number}", f"other words of version {version}"
    links = [Link(f"note {(number + step) % 40}") for step in (1, 2)]
    return put(f"note {number}", *texts, links=links, names=[[f"Title {number}"]])


async def test_a_small_change_costs_few_round_trips():
    server = get_server()
    async with PostgresRelay(server).run() as relay, fresh_store(relay.dsn(), max_connections=1) as store:
        await store.apply(Change([make_note(number, 1) for number in range(40)]))
        await store.apply(Change([make_note(9, 1)]))  # from now on, the statements are prepared
        counts = []
        for turn in range(10):
            before = relay.questions
            await store.apply(Change([make_note(9 + turn % 2, 2 + turn)]))
            counts.append(relay.questions - before)
        assert max(counts) <= 10
        assert min(counts) <= 9
