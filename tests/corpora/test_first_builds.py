"""A failed first build leaves nothing, and another source replaces no corpus by mistake."""

import sys

import anyio
import pytest

from airw.corpora import build, build_corpus, corpus_names, corpus_path, list_corpora, open_corpus, register
from airw.embedders import embedder_from
from airw.errors import EmbedderError, EmbedderUnavailable, SourceError
from airw.protocols import ArtifactIds, ask
from airw.sources import CorpusSource, from_files, from_mapping
from airw.values import Artifact
from tests.support.corpora import at_each_page

pytestmark = pytest.mark.asyncio_only

TEXTS = {f"{number:02}": f"text {number}" for number in range(6)}


def list_files(folder):
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


def list_leftovers(home):
    return [name for name in list_files(home) if name not in ("corpora", "registry.json", "registry.lock")]


async def test_a_build_without_the_package_of_its_embedder_leaves_no_corpus(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderUnavailable):
        await build(from_mapping(TEXTS, name="notes"), embedder="default")
    assert corpus_names() == []
    assert list_leftovers(home) == []


@pytest.mark.parametrize("error", [EmbedderError("no credit"), OSError("no network")])
async def test_a_build_whose_embedder_fails_at_once_leaves_no_corpus(home, error):
    def embed(texts):
        raise error

    failing = embedder_from(embed, id="failing", dim=2)
    with pytest.raises(EmbedderError):
        await build(from_mapping(TEXTS, name="notes", embedder=failing))
    assert corpus_names() == []
    assert list_leftovers(home) == []


async def test_a_build_whose_source_fails_in_its_first_page_leaves_no_corpus(home):
    def pages():
        yield [Artifact("a", "alpha")]
        raise OSError("the disk is gone")

    with pytest.raises(SourceError):
        await build(CorpusSource("notes", pages, embedder="light"))
    assert list_leftovers(home) == []


async def test_a_registered_corpus_whose_first_build_fails_stays_registered_and_unbuilt(home, tmp_path):
    (tmp_path / "a.md").write_text("alpha")
    await register("notes", "files", root=tmp_path, embedder="light")
    failing = embedder_from(lambda texts: 1 // 0, id="failing", dim=2)
    with pytest.raises(EmbedderError):
        await build_corpus("notes", embedder=failing)
    assert corpus_names() == []
    assert list(list_corpora()) == ["notes"]
    async with build_corpus("notes") as corpus:
        assert corpus.report.added == 1


async def test_a_first_build_that_is_cancelled_before_it_wrote_anything_leaves_no_corpus(home):
    async def embed(texts):
        scope.cancel()
        await anyio.sleep_forever()

    slow = embedder_from(embed, id="slow", dim=2)
    with anyio.CancelScope() as scope:
        await build(from_mapping(TEXTS, name="notes", embedder=slow))
    assert scope.cancelled_caught
    assert list_leftovers(home) == []


async def test_a_first_build_that_fails_after_a_page_keeps_what_it_wrote_and_the_next_one_continues(home):
    def fail():
        raise LookupError("stopped")

    source = from_mapping(TEXTS, name="notes", embedder="light")
    with pytest.raises(LookupError):
        await build(source, batch_size=2, progress=at_each_page(fail))
    async with open_corpus("notes") as corpus:
        written = len(await ask(corpus.store, ArtifactIds()))
    assert written >= 2
    async with build(source) as corpus:
        assert (corpus.report.unchanged, corpus.report.added) == (written, 6 - written)


async def test_a_later_build_that_fails_before_its_first_page_keeps_the_corpus(home):
    source = from_mapping(TEXTS, name="notes", embedder="light")
    await (await build(from_mapping({}, name="notes", embedder="light"))).aclose()
    failing = embedder_from(lambda texts: 1 // 0, id="failing", dim=2)
    with pytest.raises(EmbedderError):
        await build(source, embedder=failing)
    assert corpus_names() == ["notes"]
    async with build(source) as corpus:
        assert corpus.report.added == 6


async def test_a_builder_that_waits_for_a_failing_first_build_builds_the_corpus(home):
    started = anyio.Event()

    async def embed(texts):
        started.set()
        await anyio.sleep(0.05)
        raise EmbedderError("no credit")

    failing = embedder_from(embed, id="failing", dim=2)

    async def fail():
        with pytest.raises(EmbedderError):
            await build(from_mapping(TEXTS, name="notes", embedder=failing))

    async with anyio.create_task_group() as group:
        group.start_soon(fail)
        await started.wait()
        async with build(from_mapping(TEXTS, name="notes", embedder="light")) as corpus:
            assert corpus.report.added == 6
    assert corpus_path("notes").exists()
    async with open_corpus("notes") as corpus:
        assert len(await corpus.search("text 3", mode="lexical", k=9)) == 6


# Another folder under the same name


@pytest.fixture
def folders(tmp_path):
    return write_notes(tmp_path / "one"), write_notes(tmp_path / "two")


def write_notes(folder):
    folder.mkdir()
    for number in range(3):
        (folder / f"{folder.name}{number}.md").write_text(f"{folder.name} {number}")
    return folder


def notes_in(folder):
    return from_files(folder, name="notes", embedder="light")


async def test_another_folder_does_not_replace_a_corpus_without_force(folders):
    one, two = folders
    await (await build(notes_in(one))).aclose()
    with pytest.raises(SourceError) as caught:
        await build(notes_in(two))
    assert str(one) in str(caught.value)
    assert str(two) in str(caught.value)
    assert "force=True" in str(caught.value)
    async with open_corpus("notes") as corpus:
        assert await ask(corpus.store, ArtifactIds()) == ["one0.md", "one1.md", "one2.md"]
    async with build(notes_in(two), force=True) as corpus:
        assert (corpus.report.added, corpus.report.removed) == (3, 3)
    async with build(notes_in(two)) as corpus:
        assert corpus.report.unchanged == 3
    with pytest.raises(SourceError, match="replace"):
        await build(notes_in(one))


async def test_a_folder_that_was_moved_is_the_same_source(folders):
    one, _ = folders
    await (await build(notes_in(one))).aclose()
    moved = one.rename(one.with_name("moved"))
    async with build(notes_in(moved)) as corpus:
        assert (corpus.report.updated, corpus.report.removed) == (3, 0)  # their metadata contain the path


async def test_another_folder_may_add_to_a_corpus_without_pruning_or_under_another_name(folders):
    one, two = folders
    await (await build(notes_in(one))).aclose()
    async with build(from_files(two, name="more", embedder="light"), store="notes") as corpus:
        assert (corpus.report.added, corpus.report.removed) == (3, 0)
    async with build(notes_in(one)) as corpus:
        assert corpus.report.unchanged == 3
    third = write_notes(two.with_name("three"))
    async with build(notes_in(third), full=False) as corpus:
        assert (corpus.report.added, corpus.report.removed) == (3, 0)


async def test_a_corpus_that_lost_all_artifacts_takes_any_folder(folders):
    one, two = folders
    async with build(notes_in(one)) as corpus:
        await corpus.delete(await ask(corpus.store, ArtifactIds()))
    async with build(notes_in(two)) as corpus:
        assert corpus.report.added == 3


async def test_a_mapping_has_no_folder_to_compare(home):
    await (await build(from_mapping(TEXTS, name="notes", embedder="light"))).aclose()
    async with build(from_mapping({"x": "other"}, name="notes", embedder="light")) as corpus:
        assert corpus.report.removed == 6
