"""Faults of `ir` 0.1.61 in its corpora, which airw lacks.

The docstring of a test begins with the number of the fault.
"""

import json
import sqlite3
import sys
import threading
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import date

import anyio
import numpy as np
import pytest

import airw
from airw.corpora import build, corpus_names, open_corpus, records_for_artifact, search
from airw.embedders import embedder_from
from airw.errors import (
    ArgumentError,
    CorpusNotFound,
    EmbedderError,
    EmbedderMismatch,
    EmbedderUnavailable,
    NoLedgerEntry,
    SourceError,
    StoreCorrupt,
    StoreError,
)
from airw.indexing import WholeText
from airw.links import extractor_from
from airw.protocols import ArtifactIds, Change, Counts, Edges, Ledger, Vectors, ask
from airw.sources import from_files, from_jsonl, from_notes
from airw.stores import MemoryStore
from airw.testing.changes import put
from airw.values import Artifact, Record
from tests.support.corpora import assert_same, content, reference_content, run, source
from tests.support.small_corpora import in_memory, notes

EMBEDDER = source().embedder


@pytest.fixture
def path(tmp_path):
    return tmp_path / "notes.airw"


async def test_a_change_of_metadata_alone_is_indexed(tmp_path):
    """F10: not only the text counts, with fields from a function and from a file."""
    store = MemoryStore()
    for owner in ("ada", "bob"):
        corpus = await build(notes({"a": "text"}, metadata_of=lambda *_, to=owner: {"owner": to}), store=store)
        assert [hit.metadata["owner"] for hit in await corpus.search("text")] == [owner]
    lines, store = tmp_path / "lines.jsonl", MemoryStore()
    for body in ("first", "second"):
        lines.write_text(json.dumps({"id": "a", "text": "same", "body": body}))
        corpus = await build(from_jsonl(lines, text_key="body", embedder="light"), store=store)
        assert [hit.text for hit in await corpus.search(body)] == [body]


def of_width(dim, id):
    return embedder_from(lambda texts: np.eye(dim)[[len(text) % dim for text in texts]], id=id, dim=dim)


async def test_an_embedder_with_another_id_embeds_everything_again():
    """F11: a callable needs an id, and another width under the same id is refused."""
    with pytest.raises(TypeError, match="id"):
        embedder_from(len, dim=2)
    with pytest.raises(ArgumentError, match="id must name the model"):
        embedder_from(len, id=" ", dim=2)
    store, items = MemoryStore(), {"a": "alpha", "b": "beta"}
    await build(notes(items, embedder=of_width(4, "one")), store=store)
    corpus = await build(notes(items, embedder=of_width(6, "two")), store=store)
    assert corpus.report.updated == 2
    assert len(await corpus.search("alpha", mode="dense")) == 2
    assert (await ask(store, Vectors([Record.make_id("a", "document", 0)]))).shape == (1, 6)
    with pytest.raises(EmbedderError, match=r"'two'.* 6"):
        await build(notes(items | {"c": "more"}, embedder=of_width(4, "two")), store=store)
    assert len(await corpus.search("alpha", mode="dense")) == 2


@pytest.mark.asyncio_only
async def test_a_corpus_with_a_custom_embedder_is_never_searched_with_another():
    """F11: a search by vectors needs its embedder, and a different one is refused."""
    async with build(notes({"a": "alpha"}, embedder=of_width(512, "mine"))):
        pass
    with pytest.raises(EmbedderUnavailable, match=r"'mine'.*embedder="):
        await search("notes", "alpha")
    for other in ("light", of_width(512, "other"), of_width(4, "mine")):
        with pytest.raises(EmbedderMismatch):
            await open_corpus("notes", embedder=other)
    async with open_corpus("notes", embedder=of_width(512, "mine")) as corpus:
        assert len(await corpus.search("alpha")) == 1


@pytest.mark.asyncio_only
async def test_a_failed_write_leaves_the_artifact_unchanged(path):
    """F12: ledger and records change in one transaction.

    So the ledger never reports an artifact as unchanged whose records were removed.
    """
    async with build(notes({"a": "first", "b": "beta"}), store=path) as corpus:
        dim = corpus.embedder.dim
        wrong = put("c", "third", "fourth", dim=dim)
        first, _ = wrong.records
        wrong = replace(wrong, records=[first, first], entry=replace(wrong.entry, record_ids=(first.id, first.id)))
        with pytest.raises(StoreError, match="the same id"):
            await corpus.store.apply(Change([put("a", "second", dim=dim), wrong]))
    async with build(notes({"a": "first", "b": "beta"}), store=path) as corpus:
        assert corpus.report.unchanged == 2
        assert [hit.artifact_id for hit in await corpus.search("first", k=1)] == ["a"]


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_after_a_crash_an_artifact_that_left_the_source_is_removed(path):
    """F13: the ledger lists all that a killed build stored, so the next build can remove it."""
    code = """
        def progress(counts):
            if counts.done == 6:
                os.kill(os.getpid(), signal.SIGKILL)
        pid = os.fork()
        if pid == 0:
            anyio.run(lambda: build(source(), store=path, batch_size=3, progress=progress))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    assert run(code, path) == "-9\n"
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        served = {hit.artifact_id for hit in await corpus.search("alpha 1", k=99)}
        assert "000" in served == {entry.artifact_id for entry in await ask(corpus.store, Ledger())}
        assert all([await records_for_artifact(corpus, each) for each in served])
    rest = source()
    items = {key: text for key, text in rest.scope.items() if key != "000"}
    async with build(notes(items, embedder=EMBEDDER, edge_extractor=rest.edge_extractor), store=path) as corpus:
        assert "000" not in {hit.artifact_id for hit in await corpus.search("alpha 0", k=99)}
        with pytest.raises(NoLedgerEntry):
            await records_for_artifact(corpus, "000")


@pytest.mark.parametrize("read", [from_files, from_notes])
async def test_an_empty_or_mistyped_source_removes_nothing_without_force(tmp_path, read):
    """F15: a missing root is an error, and so is a source without artifacts."""
    store, folder = MemoryStore(), tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("alpha")
    await build(read(folder, embedder="light"), store=store)
    for wrong in (tmp_path / "note", folder / "a.md"):
        with pytest.raises(SourceError):
            await build(read(wrong, name="notes", embedder="light"), store=store)
    with pytest.raises(SourceError, match="force=True"):
        await build(notes({}), store=store)
    assert await ask(store, ArtifactIds()) == ["a.md"]
    await build(notes({}), store=store, force=True)
    assert await ask(store, ArtifactIds()) == []


@pytest.mark.asyncio_only
async def test_two_names_are_two_corpora_and_invalid_names_are_refused(home):
    """F16: no two names share a file, and no name leaves the home folder."""
    for name in ("a_b", "a.b", "a-b"):
        async with build(notes({name: "text"}, name=name)):
            pass
    for name in ("..", ".", "a b", "", "a:b", "-x", ".hidden", "a\0b", "x" * 101):
        with pytest.raises(ArgumentError, match="name"):
            await build(notes({"x": "text"}), store=name)
    assert corpus_names() == ["a-b", "a.b", "a_b"]
    for name in corpus_names():
        async with open_corpus(name) as corpus:
            assert await ask(corpus.store, ArtifactIds()) == [name]
    assert sorted(each.name for each in home.iterdir()) == ["corpora"]


@pytest.mark.asyncio_only
async def test_an_unknown_name_is_an_error_and_leaves_no_trace(home, capsys):
    """F17: this is true for searching, opening and reading records."""
    for attempt in (search("nope", "x"), open_corpus("nope"), records_for_artifact("nope", "a")):
        with pytest.raises(CorpusNotFound, match="there is no corpus 'nope'"):
            await attempt
    assert not home.exists()


STRANGE = ["../../evil", "a", "a/b", "x" * 300, ".hidden", "con", "a\u241fb", "%00", " "]


@pytest.mark.asyncio_only
async def test_any_id_can_have_incoming_and_outgoing_links(path):
    """F18: ids are never file names; a hidden one counts as a dependent like any other."""
    extractor = extractor_from(lambda one, _: {"REF": [other for other in STRANGE if other != one]}, id="all")
    async with build(notes(dict.fromkeys(STRANGE, "text"), edge_extractor=extractor), store=path) as corpus:
        incoming = await ask(corpus.store, Edges(STRANGE, "in"))
        outgoing = await ask(corpus.store, Edges(STRANGE))
    for at, id in enumerate(STRANGE):
        assert {edge.source for edge in incoming[at]} == {edge.target for edge in outgoing[at]} == {*STRANGE} - {id}
    with pytest.raises(SourceError, match="non-empty"):
        await build(notes({"": "text"}), store=MemoryStore())


async def test_every_edge_leads_to_an_artifact_of_the_corpus():
    """F28: a reference in any spelling of a package name is a link in both directions."""
    needs = extractor_from(lambda _, fields: {"REF": fields["needs"]}, id="needs")
    items = {"PyYAML": [], "app": ["pyyaml", "ruamel-yaml"], "ruamel.yaml": ["pyyaml", "gone"]}
    corpus = await in_memory(
        dict.fromkeys(items, "text"), metadata_of=lambda name, _: {"needs": items[name]}, edge_extractor=needs
    )
    (out,) = await ask(corpus.store, Edges(["app"]))
    assert [edge.target for edge in out] == ["PyYAML", "ruamel.yaml"]
    assert None not in await ask(corpus.store, Ledger([edge.target for edge in out]))
    ((first, second),) = await ask(corpus.store, Edges(["PyYAML"], "in"))
    assert {first.source, second.source} == {"app", "ruamel.yaml"}
    assert (await ask(corpus.store, Counts()))["dangling"] == 1


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("mode", ["dense", "lexical", "hybrid"])
async def test_an_open_corpus_sees_a_rebuild_at_its_next_search(path, mode):
    """F19: through the same handle or another one, after a rebuild in this process or another."""
    async with build(source(), store=path) as mine, open_corpus(path, embedder=EMBEDDER) as other:
        for each in (mine, other):
            assert len(await each.search("alpha 1", mode=mode, k=99)) == 24
        async with build(source("beta", count=3), store=path):
            pass
        for each in (mine, other):
            assert {hit.text.split()[0] for hit in await each.search("beta 1", mode=mode, k=99)} == {"beta"}
        run("anyio.run(build_corpus, path, 'alpha')", path)
        for each in (mine, other):
            assert len(await each.search("alpha 1", mode=mode, k=99)) == 24


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_reader_never_sees_fewer_artifacts_while_another_process_rebuilds_them_all(path):
    """F20: 300 documents stay 300 documents, each wholly old or wholly new."""
    async with build(source(count=300, size=0), store=path):
        pass
    process = threading.Thread(
        target=run, args=["anyio.run(lambda: build_corpus(path, 'beta', count=300, size=0))", path]
    )
    process.start()
    async with open_corpus(path, embedder=EMBEDDER) as corpus:
        words = set()
        while process.is_alive():
            hits = await corpus.search("alpha 1", k=999)
            entries = await ask(corpus.store, Ledger())
            assert len({hit.artifact_id for hit in hits}) == len(hits) == len(entries) == 300
            words |= {hit.text.split()[0] for hit in hits}
            await anyio.sleep(0.01)
        assert {hit.text.split()[0] for hit in await corpus.search("x", k=999)} == {"beta"}
    process.join()
    assert "alpha" in words


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_two_concurrent_builds_of_one_name_leave_the_result_of_one():
    """F21: the result is never a mixture, and no build removes records of the other."""
    words = ("alpha", "beta")

    def build_in_new_loop(word):
        async def one():
            async with build(source(word, pause=0.001), batch_size=2):
                pass

        anyio.run(one)

    async with anyio.create_task_group() as group:
        for word in words:
            group.start_soon(anyio.to_thread.run_sync, build_in_new_loop, word)
    async with open_corpus("notes", embedder=EMBEDDER) as corpus:
        found = await content(corpus.store)
    word = found[0]["records"][0][0].text.split()[0]
    assert_same(found, await reference_content(word))


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("table", ["setting", "record"])
async def test_damage_inside_the_file_is_a_typed_error(path, table):
    """F22: settings and metadata that are not JSON are reported as damage."""
    async with build(source(), store=path):
        pass
    column = {"setting": "value", "record": "metadata"}[table]
    await anyio.sleep(0.01)  # as file times are only so exact
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"UPDATE {table} SET {column} = '[' || {column} WHERE rowid = 1" if table == "record" else
                           f"UPDATE {table} SET {column} = '[' || {column}")  # fmt: skip
    with pytest.raises(StoreCorrupt, match=r"is damaged.* check its disk, then restore a copy of it"):
        async with open_corpus(path, embedder=EMBEDDER) as corpus:
            await corpus.search("alpha 0", k=99)
    with pytest.raises(StoreCorrupt, match="restore a copy of it"):
        await build(source(), store=path)


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_no_corpus_is_lost_if_many_are_built_concurrently():
    """F23: 4 threads build 20 named corpora each and list them; all exist and open."""

    def make(thread):
        async def one():
            for number in range(20):
                name = f"c{thread}-{number}"
                async with build(notes({name: "text"}, name=name)):
                    pass
                assert name in corpus_names()

        anyio.run(one)

    async with anyio.create_task_group() as group:
        for thread in range(4):
            group.start_soon(anyio.to_thread.run_sync, make, thread)
    names = sorted(f"c{thread}-{number}" for thread in range(4) for number in range(20))
    assert corpus_names() == names
    for name in names:
        async with open_corpus(name) as corpus:
            assert await ask(corpus.store, ArtifactIds()) == [name]


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_the_presets_work_on_a_machine_with_only_this_library(home, tmp_path, monkeypatch):
    """F46: skills come from the folder of agents, packages from Python; reports need a folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SourceError, match=r"no SKILL\.md below '~/\.claude/skills'"):
        await airw.build_corpus("skills", embedder="light")
    with pytest.raises(ArgumentError, match=r"projects_root .* AIRW_PROJECTS"):
        await airw.build_corpus("reports", embedder="light")
    assert not home.exists()
    folder = tmp_path / ".claude" / "skills" / "pdf"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: pdf\ndescription: Merge PDF files\n---\n")
    async with airw.build_corpus("skills", embedder="light") as skills:
        assert await ask(skills.store, ArtifactIds()) == ["pdf"]
    async with airw.build_corpus("packages", embedder="light", on_error="skip") as packages:
        assert {"airw", "numpy", "anyio"} <= set(await ask(packages.store, ArtifactIds()))


@pytest.mark.asyncio_only
async def test_a_registry_file_alone_imports_no_module(home, tmp_path, monkeypatch):
    """F48: a fetcher is called only if the environment lists its module."""
    (tmp_path / "intruder.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    home.mkdir()
    entry = {"kind": "records", "params": {"fetcher": "intruder:records"}, "embedder": "light"}
    (home / "registry.json").write_text(json.dumps({"version": 1, "corpora": {"mine": entry}}))
    assert list(airw.corpora.list_corpora()) == ["mine"]
    with pytest.raises(ArgumentError, match="AIRW_FETCHERS"):
        await airw.build_corpus("mine")
    [failed] = (await airw.maintain()).failed
    assert "AIRW_FETCHERS" in failed.reason
    assert "intruder" not in sys.modules


@dataclass
class Given:
    """A custom source that yields these artifacts."""

    artifacts: list
    name: str = "given"
    embedder: str = "light"
    edge_extractor: object = None
    indexing_strategy: object = WholeText()

    def change_signal(self, artifact):
        return str(artifact.raw)

    async def items(self):
        for artifact in self.artifacts:
            yield artifact


async def test_a_repeated_id_is_refused_or_reported_and_zero_is_a_valid_id(tmp_path):
    """F36: no artifact is overwritten silently; the number 0 and the text "0" are the same id."""
    lines = tmp_path / "lines.jsonl"
    rows = [{"id": 0, "text": "zero"}, {"id": "a", "text": "one"}, {"id": "a", "text": "two"}, {"id": "0", "text": "0"}]
    lines.write_text("\n".join(map(json.dumps, rows)))
    given = Given([Artifact("a", "one"), Artifact("a", "two"), Artifact("0", "zero")])
    for repeating, problems in ((from_jsonl(lines, embedder="light"), 2), (given, 1)):
        with pytest.raises(SourceError, match=r"already on line 2|yields this id twice"):
            await build(repeating, store=MemoryStore())
        corpus = await build(repeating, store=MemoryStore(), on_error="skip")
        assert len(corpus.report.problems) == problems
        hits = await corpus.search("x", mode="dense")
        assert {hit.artifact_id: hit.text for hit in hits} == {"0": "zero", "a": "one"}


async def test_one_bad_item_does_not_affect_the_others(tmp_path):
    """F37: an item that cannot be read or stored is reported and skipped; the rest is indexed.

    Dates and numbers are accepted.
    """
    (tmp_path / "good.md").write_text("alpha")
    (tmp_path / "latin.md").write_bytes(b"caf\xe9")
    corpus = await build(from_files(tmp_path, name="files", embedder="light"), store=MemoryStore(), on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["latin.md"]
    assert await ask(corpus.store, ArtifactIds()) == ["good.md"]
    items = {"half": "\ud800", "list": ["x"], 7: "number", "dated": "text", "fields": {"title": "words", "n": 1}}
    dated = notes(items, metadata_of=lambda *_: {"on": date(2026, 1, 2)})
    with pytest.raises(SourceError, match="half"):
        await build(dated, store=MemoryStore())
    store = MemoryStore()
    corpus = await build(dated, store=store, on_error="skip")
    assert [problem.item for problem in corpus.report.problems] == ["half", "7", "list"]
    assert {hit.artifact_id: hit.metadata["on"] for hit in await corpus.search("x", mode="dense")} == {
        "dated": "2026-01-02", "fields": "2026-01-02",
    }  # fmt: skip
    assert (await ask(store, Counts()))["records"] == 2
