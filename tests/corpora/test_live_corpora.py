"""Changes of an open corpus: every reader sees the content of a fresh build.

The next query of each reader sees the change.
"""

import subprocess
import sys
import textwrap
import zlib
from collections import Counter
from dataclasses import dataclass, replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import Artifact, Corpus
from airw.corpora import build, open_corpus
from airw.embedders import HashingEmbedder, embedder_from
from airw.errors import (
    ArgumentError,
    ArgumentKindError,
    CorpusNotFound,
    EmbedderError,
    EmbedderMismatch,
    SourceError,
    StoreBusy,
)
from airw.indexing import Chunked, Notes, WholeText
from airw.links import MarkdownLinks, extractor_from
from airw.protocols import ArtifactIds, Counts, Edges, Ledger, RecordsOf, Vectors, ask
from airw.sources import CorpusSource, from_mapping, from_notes
from airw.stores import MemoryStore, SqliteStore, Wrapper
from airw.values import IndexPlan, Surface
from tests.support.drawing import examples
from tests.support.watched import Watched

REFS = extractor_from(lambda _, fields: {"REF": fields.get("refs", [])}, id="refs")


def hash_texts(texts):
    return [np.random.default_rng(zlib.crc32(text.encode())).standard_normal(8) for text in texts]


class Counting:
    """An embedder that remembers the texts that it has embedded."""

    def __init__(self, id="counting"):
        self.texts = []
        self.embedder = embedder_from(self.embed, id=id, dim=8)

    def embed(self, texts):
        self.texts += texts
        return hash_texts(texts)


@dataclass(frozen=True)
class Words:
    """A strategy with a surface for each word; the text "lie" is an error."""

    id: str = "words-1"

    def decompose(self, artifact):
        if artifact.raw == "lie":
            raise SourceError("is a lie")
        return IndexPlan(artifact.metadata, [Surface(artifact.id, "chunk", word) for word in artifact.raw.split()])


def source_of(artifacts, name="notes", **options):
    """Return a source of artifacts with fields and links."""
    settings = {"indexing_strategy": Words(), "embedder": embedder_from(hash_texts, id="hashed", dim=8)}
    return CorpusSource(name, lambda: (page for page in [list(artifacts)]), edge_extractor=REFS, **settings | options)


def notes(items, **options):
    return from_mapping(items, **{"name": "notes", "embedder": "light", **options})


async def content(store):
    """Return the content of a store except for the sources of its artifacts."""
    ids = await ask(store, ArtifactIds())
    records = await ask(store, RecordsOf(ids))
    vectors = await ask(store, Vectors([record.id for group in records for record in group]))
    ledger = [replace(entry, source="") for entry in await ask(store, Ledger())]
    return ledger, records, vectors.tolist(), await ask(store, Edges(ids, "both")), await ask(store, Counts())


IDS = st.sampled_from("abcdef")
TEXTS = st.lists(st.sampled_from(["keys", "bread", "oven", "lock"]), max_size=3).map(" ".join)
FIELDS = st.fixed_dictionaries({"refs": st.lists(IDS, max_size=3)}, optional={"year": st.integers(1, 3)})
ARTIFACTS = st.dictionaries(IDS, st.tuples(TEXTS, FIELDS), max_size=4).map(
    lambda found: [Artifact(name, text, fields) for name, (text, fields) in found.items()]
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("upsert"), ARTIFACTS),
        st.tuples(st.just("delete"), st.lists(IDS, max_size=3)),
        st.tuples(st.just("build"), ARTIFACTS),
        st.tuples(st.just("add"), ARTIFACTS),
        st.tuples(st.just("other"), ARTIFACTS),
    ),
    max_size=7,
)


class Model:
    """The expected content of a corpus: each artifact and its source."""

    def __init__(self):
        self.artifacts = {}

    def upsert(self, artifacts):
        for artifact in artifacts:
            self.artifacts[artifact.id] = (artifact, self.artifacts.get(artifact.id, (None, ""))[1])

    def delete(self, ids):
        for name in ids:
            self.artifacts.pop(name, None)

    def build(self, artifacts, source, *, full):
        theirs = {each.id for each in artifacts}
        if full:
            self.delete([name for name, (_, owner) in self.artifacts.items() if owner == source and name not in theirs])
        for artifact in artifacts:
            if self.artifacts.get(artifact.id, (None, source))[1] in ("", source):
                self.artifacts[artifact.id] = (artifact, source)


async def check_against_model(steps, store):
    model = Model()
    corpus = await build(source_of([]), store=store)
    for step, given_now in steps:
        if step == "upsert":
            await corpus.upsert(given_now)
            model.upsert(given_now)
        elif step == "delete":
            before = len(model.artifacts)
            model.delete(given_now)
            assert await corpus.delete(given_now) == before - len(model.artifacts)
        else:
            name = "other" if step == "other" else "notes"
            options = {"full": step != "add", "force": True, "on_error": "skip"}
            await build(source_of(given_now, name), store=store, **options)
            model.build(given_now, name, full=step != "add")
    fresh = MemoryStore()
    await build(source_of([artifact for artifact, _ in model.artifacts.values()]), store=fresh)
    assert await content(store) == await content(fresh)
    owners = {entry.artifact_id: entry.source for entry in await ask(store, Ledger())}
    assert owners == {name: owner for name, (_, owner) in model.artifacts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(steps=STEPS)
@settings(max_examples=examples(60))
def test_any_sequence_of_upserts_deletions_and_builds_equals_a_fresh_build_of_the_result(backend, steps):
    anyio.run(lambda: check_against_model(steps, MemoryStore()), backend=backend)


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=examples(40))
def test_the_same_is_true_for_a_file(tmp_path_factory, steps):
    async def main():
        async with SqliteStore(tmp_path_factory.mktemp("law") / "law.airw") as store:
            await check_against_model(steps, store)

    anyio.run(main)


async def test_unchanged_artifacts_are_not_embedded_again():
    counting = Counting()
    async with build(notes({"a": "one", "b": "two"}, embedder=counting.embedder), store=MemoryStore()) as corpus:
        counting.texts.clear()
        report = await corpus.upsert({"a": "one", "b": "two!", "c": "three"})
        assert (report.added, report.updated, report.unchanged, report.removed) == (1, 1, 1, 0)
        assert counting.texts == ["two!", "three"]
        report = await corpus.upsert({"c": "three", "b": "two!"})
        assert (report.unchanged, counting.texts) == (2, ["two!", "three"])


async def test_a_full_build_prunes_only_artifacts_of_its_source():
    store = MemoryStore()
    async with build(notes({"a": "one", "b": "two"}), store=store) as corpus:
        await corpus.upsert({"b": "two, by hand", "mine": "by hand"})
        await build(notes({"a": "one"}), store=store)
        assert await ask(store, ArtifactIds()) == ["a", "mine"]
        await build(notes({"a": "one", "mine": "now a note"}), store=store)
        await build(notes({"a": "one"}), store=store)
        assert await ask(store, ArtifactIds()) == ["a"]


async def test_a_build_restores_the_artifacts_of_its_source():
    store = MemoryStore()
    async with build(notes({"a": "one", "b": "two"}), store=store) as corpus:
        await corpus.upsert({"a": "by hand"})
        await corpus.delete(["b"])
        await build(notes({"a": "one", "b": "two"}), store=store)
        assert [hit.text for hit in await corpus.search("one two", mode="lexical")] == ["one", "two"]


async def test_links_follow_upserts_and_deletions():
    store = MemoryStore()
    async with build(source_of([Artifact("a", "x", {"refs": ["b"]})]), store=store) as corpus:
        assert await ask(store, Edges(["a"])) == [[]]
        await corpus.upsert([Artifact("b", "y", {"refs": ["a"]})])
        [[out], [back]] = await ask(store, Edges(["a", "b"]))
        assert (out.target, back.target) == ("b", "a")
        await corpus.delete(["b"])
        assert await ask(store, Edges(["a"], "both")) == [[]]


async def test_artifacts_of_each_source_keep_the_strategy_of_their_source():
    store = MemoryStore()
    await build(notes({"long": "one\n\n" * 400}, strategy=Chunked(chunk_size=500, overlap=0)), store=store)
    async with build(notes({"whole": "x"}, name="wholes"), store=store) as corpus:
        await corpus.upsert({"long": "two\n\n" * 400, "whole": "two\n\n" * 400, "new": "two\n\n" * 400})
        found = await ask(store, RecordsOf(["long", "whole", "new"]))
        assert [Counter(record.surface_kind for record in records) for records in found] == [
            {"chunk": 4},
            {"document": 1},
            {"document": 1},
        ]


async def test_an_artifact_that_cannot_be_indexed_ends_an_upsert_or_is_left_out_and_reported():
    store = MemoryStore()
    async with build(source_of([Artifact("a", "one")]), store=store) as corpus:
        with pytest.raises(SourceError, match="upsert: 'b' is a lie") as caught:
            await corpus.upsert({"a": "two", "b": "lie"})
        assert "\n" not in str(caught.value)
        assert [hit.text for hit in await corpus.search("one two", mode="lexical")] == ["one"]
        report = await corpus.upsert({"a": "two", "b": "lie"}, on_error="skip")
        assert [(each.item, each.reason) for each in report.problems] == [("b", "is a lie")]
        report = await corpus.upsert({"a": "lie"}, on_error="skip")
        assert "its indexed version is kept" in report.problems[0].reason
        assert [hit.text for hit in await corpus.search("two", mode="lexical")] == ["two"]


@pytest.mark.parametrize(
    ("items", "says"),
    [
        ("text", "a list of Artifact, not 'text'"),
        (None, "upsert takes"),
        (7, "upsert takes"),
        (["a"], "not 'a'"),
        ({"": "x"}, "id is a string that is not empty"),
        ({7: "x"}, "id is a string that is not empty"),
    ],
)
async def test_a_value_that_is_no_artifact_is_refused_before_anything_is_written(items, says):
    async with build(notes({"a": "one"}), store=MemoryStore()) as corpus:
        before = await content(corpus.store)
        with pytest.raises(ArgumentError, match=says):
            await corpus.upsert(items)
        assert await content(corpus.store) == before


async def test_a_duplicate_id_is_a_problem_as_in_a_build():
    async with build(notes({}), store=MemoryStore()) as corpus:
        with pytest.raises(SourceError, match="'a' the source yields this id twice"):
            await corpus.upsert([Artifact("a", "one"), Artifact("a", "two")])


async def test_bad_options_are_refused():
    async with build(notes({"a": "one"}), store=MemoryStore()) as corpus:
        with pytest.raises(ArgumentError, match="on_error must be"):
            await corpus.upsert({}, on_error="ignore")
        with pytest.raises(ArgumentKindError, match="artifact_ids"):
            await corpus.delete("a")
        assert await ask(corpus.store, ArtifactIds()) == ["a"]


async def test_delete_returns_the_number_of_removed_artifacts():
    async with build(notes({"a": "one", "b": "two"}), store=MemoryStore()) as corpus:
        assert await corpus.delete(["b", "b", "nobody"]) == 1
        assert await corpus.delete([]) == 0
        assert await corpus.delete(["a"]) == 1
        assert await corpus.search("one") == []


async def test_upserting_to_a_corpus_that_was_never_built_is_an_error():
    async with Corpus("empty", MemoryStore(), HashingEmbedder()) as corpus:
        with pytest.raises(CorpusNotFound, match="'empty' was never built"):
            await corpus.upsert({"a": "one"})


async def test_a_corpus_that_was_rebuilt_with_another_embedder_is_not_written_to():
    store = MemoryStore()
    corpus = await build(notes({"a": "one"}), store=store)
    await build(notes({"a": "one"}), store=store, embedder=Counting().embedder)
    with pytest.raises(EmbedderMismatch):
        await corpus.upsert({"b": "two"})
    assert await ask(store, ArtifactIds()) == ["a"]


async def test_the_error_names_upserted_artifacts_that_prevent_a_change_of_embedder():
    store = MemoryStore()
    corpus = await build(notes({"a": "one"}), store=store)
    await corpus.upsert({"b": "two"})
    with pytest.raises(EmbedderMismatch, match="contains artifacts of 'upserts'"):
        await build(notes({"a": "one"}), store=store, embedder=Counting().embedder)


async def test_up_to_256_artifacts_of_any_sources_are_written_in_one_transaction():
    store = Watched(MemoryStore())
    async with build(notes({"a": "one"}), store=store) as corpus:
        store.clear()
        await corpus.upsert({"a": "two", **{f"{number}": "text" for number in range(299)}})
        assert [len(change.puts) for change in store.changes] == [256, 44]
        await corpus.upsert({"a": "two"})
        assert len(store.changes) == 2


async def test_changes_at_the_same_time_are_all_stored():
    async with build(notes({}), store=MemoryStore()) as corpus, anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(corpus.upsert, {f"{number}": f"text {number}", "same": f"by {number}"})
        group.start_soon(corpus.delete, ["nobody"])
    async with corpus:
        assert len(await ask(corpus.store, ArtifactIds())) == 21


async def test_a_change_waits_for_a_build_and_fails_after_its_timeout():
    store = MemoryStore()
    async with build(notes({"a": "one"}), store=store) as corpus:
        async with store.writing():
            with anyio.move_on_after(0.05) as waiting:
                await corpus.upsert({"b": "two"})
            assert waiting.cancelled_caught
        busy = replace(corpus, store=Hurried(store))
        async with store.writing():
            with pytest.raises(StoreBusy):
                await busy.delete(["a"])
        assert await ask(store, ArtifactIds()) == ["a"]


class Moody:
    """An embedder that hangs or fails according to its mood."""

    id, dim = "moody", 8
    mood = ""

    async def embed_documents(self, texts):
        if self.mood == "hangs":
            await anyio.sleep_forever()
        if self.mood == "fails":
            raise EmbedderError("the model is out of memory")
        return np.asarray(hash_texts(texts), np.float32)

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]


async def test_an_upsert_that_fails_or_is_cancelled_changes_nothing_and_releases_its_lock():
    embedder = Moody()
    async with build(notes({"a": "one"}, embedder=embedder), store=MemoryStore()) as corpus:
        before = await content(corpus.store)
        embedder.mood = "fails"
        with pytest.raises(EmbedderError, match="out of memory"):
            await corpus.upsert({"a": "two", "b": "three"})
        embedder.mood = "hangs"
        with anyio.move_on_after(0.02) as hanging:
            await corpus.upsert({"a": "two", "b": "three"})
        assert hanging.cancelled_caught
        assert await content(corpus.store) == before
        embedder.mood = ""
        with anyio.fail_after(60):
            assert (await corpus.upsert({"a": "two", "b": "three"})).added == 1


class Hurried(Wrapper):
    """A store whose builders do not wait."""

    def writing(self, **_):
        return self.store.writing(timeout=0)


async def searching(corpus, done, seen):
    while not done.is_set():
        hits = await corpus.search("version", mode="lexical", k=10, per_artifact=False)
        seen.append(Counter(hit.text for hit in hits))
        await anyio.lowlevel.checkpoint()


async def check_readers_see_whole_versions(corpus, readers):
    done, seen = anyio.Event(), []
    async with anyio.create_task_group() as group:
        for reader in readers:
            group.start_soon(searching, reader, done, seen)
        for version in range(12):
            await corpus.upsert({"a": f"version {version}\n\n" * 3})
            for reader in readers:
                hits = await reader.search(f"version {version}", mode="lexical", per_artifact=False)
                assert {hit.text for hit in hits} == {f"version {version}"}
        done.set()
    assert {sum(texts.values()) for texts in seen} <= {0, 3}
    assert all(len(texts) <= 1 for texts in seen)


LINES = Chunked(chunk_size=12, overlap=0)


async def test_readers_see_a_change_at_their_next_query_and_never_half_of_it():
    async with build(notes({}, strategy=LINES), store=MemoryStore()) as corpus:
        await check_readers_see_whole_versions(corpus, [corpus, corpus])


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_the_same_is_true_for_readers_of_a_file_with_their_own_connections():
    async with build(notes({}, strategy=LINES)) as corpus, open_corpus("notes") as one, open_corpus("notes") as other:
        await check_readers_see_whole_versions(one, [corpus, one, other])


OTHER_PROCESS = """
    import anyio, sys
    from airw import open_corpus

    async def main():
        async with open_corpus("notes") as corpus:
            for line in sys.stdin:
                report = await corpus.upsert({"a": line.strip(), line.strip(): "x"})
                print(report.added + report.updated, flush=True)

    anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_changes_of_another_process_are_seen_at_the_next_query():
    async with build(notes({"a": "nothing"})) as corpus:
        await corpus.search("nothing")  # the caches in memory are filled before the change
        command = [sys.executable, "-c", textwrap.dedent(OTHER_PROCESS)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:  # noqa: ASYNC220 - lines to and fro are simplest so
            for word in ("keys", "bread"):
                other.stdin.write(f"{word}\n")
                other.stdin.flush()
                assert other.stdout.readline() == "2\n"
                for mode in ("dense", "lexical", "hybrid"):
                    assert (await corpus.search(word, mode=mode))[0].artifact_id == "a"
            other.stdin.close()
        assert await ask(corpus.store, ArtifactIds()) == ["a", "bread", "keys"]


@pytest.mark.asyncio_only
@pytest.mark.parametrize("strategy", [WholeText(kind="abstract"), LINES, Notes(chunk_size=300, overlap=0)])
async def test_a_corpus_opened_by_name_has_the_settings_of_its_build(strategy):
    extractor = MarkdownLinks(inline_type="mentions")
    text = "one [two](b.md)\n\n" * 20
    async with build(notes({}, strategy=strategy, edge_extractor=extractor)):
        pass
    async with open_corpus("notes") as corpus:
        await corpus.upsert({"a.md": text, "b.md": "two"})
        async with build(notes({"a.md": text, "b.md": "two"}, strategy=strategy, edge_extractor=extractor)) as built:
            assert (built.report.updated, built.report.added) == (2, 0)  # they belong to the source from now on
            with_upserts = await content(corpus.store)
    fresh = MemoryStore()
    await build(notes({"a.md": text, "b.md": "two"}, strategy=strategy, edge_extractor=extractor), store=fresh)
    assert with_upserts == await content(fresh)


@pytest.mark.asyncio_only
async def test_a_custom_strategy_must_be_passed_again_on_opening():
    async with build(source_of([Artifact("a", "one")]), embedder="light"):
        pass
    async with open_corpus("notes") as corpus:
        with pytest.raises(ArgumentError, match=r"strategy=words-1, .* open_corpus\('notes', strategy=\.\.\.\)"):
            await corpus.upsert({"b": "two three"})
    async with open_corpus("notes", strategy=Words()) as corpus:
        with pytest.raises(ArgumentError, match=r"open_corpus\('notes', edge_extractor=\.\.\.\)"):
            await corpus.upsert({"b": "two three"})
    async with open_corpus("notes", strategy=Words("words-2"), edge_extractor=REFS) as corpus:
        with pytest.raises(ArgumentError, match="strategy=words-1"):
            await corpus.upsert({"b": "two three"})
    async with open_corpus("notes", strategy=Words(), edge_extractor=replace(REFS, id="refs-2")) as corpus:
        with pytest.raises(ArgumentError, match="edge_extractor=refs,"):
            await corpus.upsert({"b": "two three"})
    async with open_corpus("notes", strategy=Words(), edge_extractor=REFS) as corpus:
        await corpus.upsert([Artifact("b", "two three", {"refs": ["a"]})])
        [records] = await ask(corpus.store, RecordsOf(["b"]))
        assert [record.text for record in records] == ["two", "three"]
        assert [edge.target for edge in (await ask(corpus.store, Edges(["b"])))[0]] == ["a"]


@pytest.mark.asyncio_only
async def test_a_corpus_opened_before_a_rebuild_indexes_with_the_settings_of_the_rebuild():
    async with build(notes({"a": "one\n\n" * 100}, strategy=Chunked())) as corpus:
        async with build(notes({"a": "one\n\n" * 100}, strategy=WholeText())):
            pass
        await corpus.upsert({"b": "two\n\n" * 100})
        [records] = await ask(corpus.store, RecordsOf(["b"]))
        assert [record.surface_kind for record in records] == ["document"]


@pytest.mark.asyncio_only
async def test_an_item_of_a_source_can_be_upserted(tmp_path):
    (tmp_path / "a.md").write_text("---\ntitle: Keys\n---\nSee [b](b.md).")
    source = from_notes(tmp_path, name="notes", embedder="light")
    async with build(source) as corpus:
        (tmp_path / "b.md").write_text("# Bread\n\nBack to [a](a.md).")
        await corpus.upsert([item async for item in source.items() if item.id == "b.md"])
        changed = await content(corpus.store)
        async with build(source) as again:
            assert (again.report.updated, again.report.unchanged) == (1, 1)
            assert await content(again.store) == changed
