"""Builds into a file: after any interruption the corpus is valid.

It is complete after the next build.
"""

import subprocess
import sys
import textwrap
import zlib
from dataclasses import replace

import anyio
import pytest

from airw.corpora import build, corpus_names, open_corpus
from airw.embedders import embedder_from
from airw.errors import EmbedderError, StoreBusy
from airw.protocols import ArtifactIds, Config, Ledger, Stale, ask
from airw.sources import from_mapping
from airw.stores import MemoryStore, SqliteStore
from tests.support.corpora import at_each_page
from tests.support.stored import content_of
from tests.support.watched import Watched

pytestmark = pytest.mark.asyncio_only

COUNT, PAGE = 24, 2
COMMON = """
import zlib, time, os, signal, sys
import anyio, numpy as np
from airw.corpora import build
from airw.embedders import embedder_from
from airw.links import extractor_from
from airw.sources import from_mapping

def embed(texts):
    time.sleep(0.004)
    return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(8) for text in texts]

def source(word, id="e"):
    return from_mapping(
        {f"{at:02}": f"{word} {at}" for at in range(COUNT)},
        name="notes",
        embedder=embedder_from(embed, id=id, dim=8),
        edge_extractor=extractor_from(lambda name, _: {"NEXT": [f"{(int(name) + 1) % COUNT:02}"]}, id="ring"),
    )
""".replace("COUNT", str(COUNT))
namespace = {}
exec(COMMON, namespace)
source = namespace["source"]


def run(code, *arguments):
    script = COMMON + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, arguments)], check=False, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def fresh_content(word, id="e"):
    store = MemoryStore()
    await build(source(word, id), store=store)
    return await content_of(store)


KILLED = """
# Each child builds and is killed: at a moment, or by itself after a number of pages. The parent starts no thread.
def child(moment, page):
    pages = done = 0

    def progress(counts):
        nonlocal pages, done
        pages, done = pages + (counts.done > done), counts.done
        if pages == page:
            os.kill(os.getpid(), signal.SIGKILL)

    async def main():
        await (await build(source(word, id), store=path, batch_size=PAGE, progress=progress)).aclose()

    anyio.run(main)

word, id, folder = sys.argv[1:4]
import pathlib, airw.stores
for number, when in enumerate(sys.argv[4:]):
    path = pathlib.Path(folder, f"{number}.airw")
    pid = os.fork()
    if pid == 0:
        child(*((None, int(when)) if when.isdigit() else (float(when), None)))
        os._exit(0)
    if not when.isdigit():
        time.sleep(float(when))
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
""".replace("PAGE", str(PAGE))
MOMENTS = ["0.012", "0.03", "0.045", "0.06", "0.08", "0.11", "0.15", "0.2", "1", "2", "5", "9", "12"]


@pytest.mark.slow
async def test_a_first_build_killed_at_any_moment_leaves_a_searchable_corpus_that_the_next_build_completes(
    tmp_path,
):
    run(KILLED, "alpha", "e", tmp_path, *MOMENTS)
    expected, partial = await fresh_content("alpha"), []
    for number, moment in enumerate(MOMENTS):
        path = tmp_path / f"{number}.airw"
        if not path.exists():
            continue
        async with await SqliteStore.open(path, create=True) as store:
            started = bool(await ask(store, Config()))
            found = await ask(store, ArtifactIds())
        partial.append(len(found))
        if moment.isdigit():
            assert len(found) == int(moment) * PAGE
        if started:
            async with open_corpus(path, embedder=source("alpha").embedder) as corpus:
                hits = await corpus.search("alpha 1", mode="hybrid", k=COUNT)
                assert sorted(hit.artifact_id for hit in hits) == found
        async with build(source("alpha"), store=path) as corpus:
            assert corpus.report.unchanged == len(found)
            assert await content_of(corpus.store) == expected
    assert len(set(partial)) >= 5


@pytest.mark.slow
@pytest.mark.parametrize(("word", "id"), [("beta", "e"), ("alpha", "other")])
async def test_a_rebuild_killed_at_any_moment_mixes_no_vectors_and_the_next_build_completes(word, id, tmp_path):
    moments = ["0.06", "0.1", "0.14", "1", "6", "12"]
    for number in range(len(moments)):
        async with build(source("alpha"), store=tmp_path / f"{number}.airw"):
            pass
    run(KILLED, word, id, tmp_path, *moments)
    expected = await fresh_content(word, id)
    for number in range(len(moments)):
        path = tmp_path / f"{number}.airw"
        async with await SqliteStore.open(path) as store:
            embedder_id = (await ask(store, Config()))["embedder_id"]
            assert {entry.embedder_id for entry in await ask(store, Ledger())} <= {embedder_id}
        async with open_corpus(path, embedder=source(word, embedder_id).embedder) as corpus:
            assert await corpus.search("alpha 1") is not None
            if id == "e":
                assert len(await ask(corpus.store, ArtifactIds())) == COUNT
        async with build(source(word, id), store=path) as corpus:
            assert await content_of(corpus.store) == expected


@pytest.mark.slow
async def test_two_processes_that_build_one_name_leave_the_corpus_of_one_of_them(home):
    code = """
    async def main():
        await (await build(source(word), batch_size=2)).aclose()

    pids = []
    for word in ("alpha", "beta"):
        pids.append(os.fork())
        if pids[-1] == 0:
            anyio.run(main)
            os._exit(0)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0]
    """
    run(code)
    assert corpus_names() == ["notes"]
    async with open_corpus("notes", embedder=source("").embedder) as corpus:
        assert await content_of(corpus.store) in (await fresh_content("alpha"), await fresh_content("beta"))


@pytest.mark.slow
async def test_the_second_of_two_builders_of_a_file_waits_and_fails_after_its_timeout(tmp_path):
    path, order = tmp_path / "notes.airw", []

    async def one(word):
        corpus = await build(source(word), store=path, batch_size=6, progress=at_each_page(lambda: order.append(word)))
        await corpus.aclose()

    async with anyio.create_task_group() as group:
        group.start_soon(one, "alpha")
        group.start_soon(one, "beta")
    assert order in (["alpha"] * 4 + ["beta"] * 4, ["beta"] * 4 + ["alpha"] * 4)
    async with await SqliteStore.open(path) as store:
        assert await content_of(store) == await fresh_content(order[-1])
        async with store.writing(), await SqliteStore.open(path) as other:
            with pytest.raises(StoreBusy):
                async with other.writing(timeout=0.1):
                    pass


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.02, 0.03, 0.05])
async def test_a_build_cancelled_at_any_moment_leaves_a_valid_corpus_that_the_next_build_completes(seconds, tmp_path):
    path = tmp_path / "notes.airw"
    async with build(source("alpha"), store=path, batch_size=6):
        pass
    with anyio.move_on_after(seconds) as scope:
        async with build(source("beta"), store=path, batch_size=1):
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    async with open_corpus(path, embedder=source("").embedder) as corpus:
        assert len(await corpus.search("alpha 1", k=COUNT)) == COUNT
    async with build(source("beta"), store=path) as corpus:
        assert await content_of(corpus.store) == await fresh_content("beta")


async def test_a_build_that_fails_keeps_every_page_it_committed(tmp_path):
    def embed(texts):
        if "text 7" in texts:
            raise OSError("model server is gone")
        return [[1.0, float(zlib.crc32(text.encode()) % 7)] for text in texts]

    path = tmp_path / "notes.airw"
    texts = {str(at): f"text {at}" for at in range(10)}
    notes = from_mapping(texts, name="notes", embedder=embedder_from(embed, id="e", dim=2))
    with pytest.raises(EmbedderError, match="model server is gone"):
        await build(notes, store=path, batch_size=1)
    async with open_corpus(path, embedder=notes.embedder) as corpus:
        found = await ask(corpus.store, ArtifactIds())
        assert found == sorted(texts)[: len(found)]
        assert len(await corpus.search("text")) == len(found)


@pytest.mark.slow
async def test_a_file_equals_memory_record_for_record(tmp_path):
    async with build(source("alpha"), store=tmp_path / "notes.airw") as corpus:
        assert await content_of(corpus.store) == await fresh_content("alpha")


@pytest.mark.parametrize(
    "artifact_id", ["../../evil", "a/b", "/etc/passwd", ".hidden", "🦊" * 20, "x" * 10_000, "a\nb"]
)
async def test_any_string_can_be_an_id_in_a_file(artifact_id, tmp_path):
    items = {artifact_id: "fox den", "a": "alpha"}
    notes = from_mapping(items, name="notes", embedder="light")
    async with build(notes, store=tmp_path / "notes.airw"):
        pass
    async with build(notes, store=tmp_path / "notes.airw") as corpus:
        assert corpus.report.unchanged == 2
        (hit,) = await corpus.search("fox", mode="lexical")
        assert hit.artifact_id == artifact_id
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".airw") == ["notes.airw"]


@pytest.mark.slow
@pytest.mark.parametrize(("options", "compared", "written"), [({}, 1_024, 2_048), ({"batch_size": 300}, 300, 300)])
async def test_unchanged_artifacts_are_compared_many_at_once_and_changed_ones_written_in_batches(
    options, compared, written, tmp_path
):
    texts = {str(number): "alpha" for number in range(2_000)}
    changed = {name: "beta" if int(name) >= 900 else text for name, text in texts.items()}
    async with SqliteStore(tmp_path / "notes.airw") as file:
        store = Watched(file)
        await build(from_mapping(texts, name="notes"), store=store, embedder="light")
        store.clear()
        again = await build(from_mapping(changed, name="notes"), store=store, embedder="light", **options)
        assert (again.report.updated, again.report.unchanged) == (1_100, 900)
        assert await ask(store, ArtifactIds()) == sorted(texts)
    sizes = [len(request.versions) for request in store.of(Stale)]
    assert (sum(sizes), max(sizes)) == (2_000, compared)
    sizes = [len(change.puts) for change in store.changes]
    assert sum(sizes) == 1_100
    assert max(sizes) <= written


async def test_building_again_reads_ledger_entries_only_of_changed_artifacts(tmp_path):
    texts = {'a "b"\\c': "alpha", "é\n/x": "beta", "🗝": "gamma"}
    async with SqliteStore(tmp_path / "notes.airw") as file:
        store = Watched(file)
        await build(from_mapping(texts, name="notes"), store=store, embedder="light")
        store.clear()
        again = await build(from_mapping({**texts, "🗝": "delta"}, name="notes"), store=store, embedder="light")
        assert (again.report.updated, again.report.unchanged, again.report.removed) == (1, 2, 0)
        assert [request.ids for request in store.of(Ledger)] == [["🗝"]]


async def test_a_text_that_cannot_be_stored_is_never_up_to_date(tmp_path):
    async with SqliteStore(tmp_path / "notes.airw") as store:
        await build(from_mapping({"😀": "alpha"}, name="notes"), store=store, embedder="light")
        [entry] = await ask(store, Ledger())
        halves = "\ud83d\ude00"  # two characters, which JSON writes like the one that they are in UTF-16
        assert await ask(store, Stale({halves: entry.version, "😀": entry.version}, entry)) == [halves]


@pytest.mark.parametrize("part", ["version", "embedder_id", "strategy_id", "extractor_id", "source"])
async def test_an_artifact_has_changed_when_any_part_of_its_stamp_has(tmp_path, part):
    async with SqliteStore(tmp_path / "notes.airw") as store:
        await build(from_mapping({"a": "alpha", "b": "beta"}, name="notes"), store=store, embedder="light")
        entries = await ask(store, Ledger())
        versions = {entry.artifact_id: entry.version for entry in entries}
        assert await ask(store, Stale(versions, entries[0])) == []
        if part == "version":
            assert await ask(store, Stale({**versions, "a": "other", "new": "v"}, entries[0])) == ["a", "new"]
            assert await ask(store, Stale({"a": f"{versions['a']}\0"}, entries[0])) == ["a"]
        else:
            assert await ask(store, Stale(versions, replace(entries[0], **{part: "other"}))) == ["a", "b"]
