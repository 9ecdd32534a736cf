"""Builds report the problems of all artifacts, also of those that have not changed."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, open_corpus
from airw.cli import main
from airw.corpora import copy_corpus, finish_ingest, ingest_partition, prepare_ingest
from airw.embedders import HashingEmbedder
from airw.errors import SourceError
from airw.indexing import WholeText
from airw.links import extractor_from
from airw.protocols import ArtifactIds, Change, Config, ask
from airw.sources import CorpusSource, from_mapping, from_notes
from airw.stores import MemoryStore
from airw.values import Artifact, Extraction, ItemProblem
from tests.support.drawing import examples
from tests.support.reading import write

OUT, SELF, TYPED = "[x](../../out.md)", "[[a]] [[b]] [[c]]", "---\nlinks: [true]\n---\n"
TEXTS = [OUT, SELF, TYPED, f"{TYPED}{OUT}", "---\nid: same\n---\n", "---\ntitle: [\n---\n", "fine", "[[c]]"]


class Complaining:
    """Reports the problems that stand in the texts, one a line."""

    id = "complaining"

    def extract(self, artifact, fields):
        return Extraction(problems=artifact.raw.split("\n") if artifact.raw else [])


def source(texts, name="notes"):
    return from_mapping(texts, name=name, embedder="light", edge_extractor=Complaining())


def reasons(report):
    assert not any(problem.lost for problem in report.problems)
    return sorted((problem.item, problem.reason) for problem in report.problems)


async def build_reasons(texts, store, **options):
    return reasons((await build(source(texts, **options), store=store)).report)


@pytest.mark.slow
@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from(["a.md", "b.md", "sub/c.md"]), st.sampled_from(TEXTS), min_size=1),
        min_size=2,
        max_size=4,
    )
)
def test_after_any_changes_of_a_folder_a_build_reports_the_problems_of_a_fresh_one(states):
    async def compare():
        store = MemoryStore()
        for texts in states:
            with tempfile.TemporaryDirectory() as folder:
                notes = from_notes(write(Path(folder), texts), name="n", embedder="light")
                later = await build(notes, store=store)
                fresh = await build(notes, store=MemoryStore())
            assert reasons(later.report) == reasons(fresh.report)

    anyio.run(compare)


async def test_problems_of_unchanged_artifacts_are_reported_until_they_are_solved_or_removed():
    store = MemoryStore()
    assert await build_reasons({"a": "one\ntwo", "b": "three", "c": ""}, store) == [
        ("a", "one"),
        ("a", "two"),
        ("b", "three"),
    ]
    assert await build_reasons({"a": "one\ntwo", "b": "three", "c": "four"}, store) == [
        ("a", "one"),
        ("a", "two"),
        ("b", "three"),
        ("c", "four"),
    ]
    assert await build_reasons({"a": "two", "b": ""}, store) == [("a", "two")]
    assert await build_reasons({"b": "", "c": ""}, store) == []
    assert "problems" not in await ask(store, Config())


async def test_each_source_of_a_corpus_reports_its_own_problems():
    store = MemoryStore()
    assert await build_reasons({"a": "one"}, store) == [("a", "one")]
    assert await build_reasons({"b": "two"}, store, name="others") == [("b", "two")]
    for texts, name in [({"a": "one"}, "notes"), ({"b": "two"}, "others")]:
        assert await build_reasons(texts, store, name=name) == list(texts.items())


async def test_an_upsert_replaces_problems_and_a_deletion_forgets_them():
    store = MemoryStore()
    corpus = await build(source({"a": "one", "b": "two", "c": "three"}), store=store)
    assert reasons(await corpus.upsert({"a": "other", "b": "", "d": "four"})) == [("a", "other"), ("d", "four")]
    assert reasons(await corpus.upsert({"a": "other"})) == [("a", "other")]
    assert await corpus.delete(["c", "d", "never"]) == 2
    assert await build_reasons({"a": "other", "b": "", "c": ""}, store) == [("a", "other")]


async def test_an_extractor_that_reports_nothing_forgets_the_problems_of_the_earlier_one():
    store = MemoryStore()
    await build_reasons({"a": "one"}, store)
    silent = extractor_from(lambda name, fields: {}, id="silent")
    corpus = await build(source({"a": "one"}), store=store, edge_extractor=silent)
    assert corpus.report.problems == ()
    assert await build_reasons({"a": "one"}, store) == [("a", "one")]


async def test_a_build_that_fails_has_kept_the_problems_of_what_it_wrote():
    store, texts = MemoryStore(), {f"n{number}": f"problem {number}" for number in range(9)}

    def pages():
        yield from ([Artifact(*each)] for each in texts.items())
        yield [ItemProblem("x", "is locked")]

    broken = CorpusSource("notes", pages, WholeText())
    with pytest.raises(SourceError, match="is locked"):
        await build(broken, store=store, batch_size=1, embedder="light", edge_extractor=Complaining())
    written = await ask(store, ArtifactIds())
    corpus = await build(source(texts), store=store)
    assert (corpus.report.unchanged, len(corpus.report.problems)) == (len(written), 9)
    assert written


async def test_an_item_that_is_lost_keeps_its_version_and_its_problems():
    store = MemoryStore()
    await build(source({"a": "one", "b": ""}), store=store)
    corpus = await build(source({"a": 7, "b": ""}), store=store, on_error="skip")
    assert [(problem.item, problem.lost) for problem in corpus.report.problems] == [("a", True)]
    assert await build_reasons({"a": "one", "b": ""}, store) == [("a", "one")]


async def test_another_embedder_forgets_the_problems_of_what_it_removes():
    store = MemoryStore()
    await build(source({"a": "one", "b": "two"}), store=store)
    corpus = await build(source({"b": "two"}), store=store, embedder=HashingEmbedder(dim=16))
    assert reasons(corpus.report) == [("b", "two")]
    assert (await ask(store, Config()))["problems"] == {"b": ["two"]}


@pytest.mark.slow
async def test_an_ingest_in_partitions_reports_the_problems_of_a_build():
    store, other = MemoryStore(), MemoryStore()
    for texts in [{"a": "one", "b": "two", "c": "three"}, {"a": "one", "b": "", "d": "four"}, {"a": "one", "b": ""}]:
        plan = await prepare_ingest(source({}), store=store)
        for number, name in enumerate(texts):
            report = await ingest_partition(plan, number, {name: texts[name]})
            assert reasons(report) == ([(name, texts[name])] if texts[name] else [])
            assert await ingest_partition(plan, number, {name: texts[name]}) == report
        corpus = await finish_ingest(plan, partitions=len(texts))
        assert reasons(corpus.report) == await build_reasons(texts, other)
        assert (await ask(store, Config()))["problems"] == (await ask(other, Config()))["problems"]
    assert await build_reasons({"a": "one", "b": ""}, store) == [("a", "one")]


@pytest.mark.parametrize(
    "problems",
    [
        None,
        "text",
        [["a", "one"]],
        {"a": "one"},
        {"a": {"one": 1}},
        {"a": [1, None, ["x"]]},
        {"b": ["other"], "a": []},
        {"a\0": ["x"], "": ["x"]},
    ],
)
async def test_settings_of_strangers_are_no_problem(problems):
    store = MemoryStore()
    corpus = await build(source({"a": "", "c": "three"}), store=store)
    await store.apply(Change(config={**await ask(store, Config()), "problems": problems}))
    assert await build_reasons({"a": ""}, store) == []
    await corpus.upsert({"a": "two"})
    assert await corpus.delete(["a"]) == 1
    assert await build_reasons({"c": "three"}, store) == [("c", "three")]


async def test_words_of_strangers_are_escaped_and_cut():
    store = MemoryStore()
    await build(source({"a": ""}), store=store)
    await store.apply(
        Change(
            config={**await ask(store, Config()), "problems": {"a": ["\x1b[2J\n", "x" * 9_000, *map(str, range(500))]}}
        )
    )
    texts = [reason for _, reason in await build_reasons({"a": ""}, store)]
    assert r"\u001b[2J\n" in texts
    assert (max(map(len, texts)), len(texts)) == (1_000, 101)


async def test_of_very_many_problems_each_build_reports_the_first_and_the_number_of_others():
    store, texts = MemoryStore(), {"a": "\n".join(f"line\t{number:04}" for number in range(5_000))}
    found = await build_reasons(texts, store)
    assert (len(found), found[0], found[-2]) == (101, ("a", "4900 more problems"), ("a", "line\\t0098"))
    assert await build_reasons(texts, store) == found


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_a_file_and_its_copy_keep_problems_and_the_command_lists_them(tmp_path, capsys):
    notes = write(tmp_path / "notes", {"a.md": SELF, "b.md": "fine"})
    listed = "in part: a.md: "
    for _ in range(2):
        assert (
            await anyio.to_thread.run_sync(main, ["build", str(notes), "--name", "n", "--embedder", "light", "-v"]) == 0
        )
        assert listed in capsys.readouterr().err
    await copy_corpus("n", tmp_path / "copy.airw")
    async with build(from_notes(notes, name="n", embedder="light"), store=tmp_path / "copy.airw") as corpus:
        assert (corpus.report.unchanged, len(corpus.report.problems)) == (2, 1)
    async with open_corpus(tmp_path / "copy.airw") as corpus:
        assert await corpus.delete(["a.md"]) == 1
        assert "problems" not in await ask(corpus.store, Config())
