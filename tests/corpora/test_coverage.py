"""Coverage compares a source with its corpus without embedding and without writing."""

import json
from dataclasses import replace

import pytest

from airw.corpora import Coverage, build, build_corpus, corpus_names, coverage, register
from airw.embedders import HashingEmbedder, embedder_from
from airw.errors import ArgumentError, CorpusNotFound, SourceError
from airw.indexing import Chunked, WholeText
from airw.links import MarkdownLinks, TitleMentions
from airw.sources import CorpusSource, from_mapping
from airw.stores import MemoryStore
from airw.values import Artifact, IndexPlan, ItemProblem, Surface
from tests.support.asked import Asked

TEXTS = {"a": "alpha", "b": "beta", "c": "gamma"}


class ReadOnly(Asked):
    """A store that notes its reads and refuses writes as soon as it is sealed."""

    sealed = False

    async def apply(self, change):
        assert not self.sealed
        await super().apply(change)


def silent_embedder():
    """Return an embedder with the id of "light" that must not be used."""

    def embed(texts):
        raise AssertionError("coverage embeds nothing")

    return embedder_from(embed, id=HashingEmbedder().id, dim=512)


def source(texts, **options):
    return from_mapping(texts, name="notes", **{"embedder": "light", **options})


async def build_sealed(*sources):
    store = ReadOnly(MemoryStore())
    for each in sources:
        corpus = await build(each, store=store)
    store.sealed, store.reads = True, []
    return replace(corpus, embedder=silent_embedder())


async def test_coverage_is_full_if_all_is_indexed():
    corpus = await build_sealed(source(TEXTS))
    found = await coverage(source(TEXTS), corpus=corpus)
    assert found == Coverage("notes", expected=("a", "b", "c"), indexed=("a", "b", "c"))
    assert found.ratio == 1.0


async def test_missing_outdated_and_gone_are_distinguished_by_one_call_of_the_store():
    corpus = await build_sealed(source(TEXTS))
    found = await coverage(source({"d": "new", "b": "changed", "a": "alpha"}), corpus=corpus)
    assert found.expected == ("a", "b", "d")
    assert (found.indexed, found.missing, found.outdated, found.gone) == (("a", "b"), ("d",), ("b",), ("c",))
    assert found.ratio == 2 / 3
    assert corpus.store.calls == ["Config", "Ledger"]


async def test_coverage_of_an_empty_source_is_full():
    corpus = await build_sealed(source(TEXTS))
    found = await coverage(source({}), corpus=corpus)
    assert (found.expected, found.gone, found.ratio) == ((), ("a", "b", "c"), 1.0)


@pytest.mark.parametrize("changed", [{"strategy": Chunked()}, {"edge_extractor": MarkdownLinks()}])
async def test_artifacts_indexed_by_another_strategy_or_extractor_are_outdated(changed):
    corpus = await build_sealed(source(TEXTS))
    assert (await coverage(source(TEXTS, **changed), corpus=corpus)).outdated == ("a", "b", "c")


async def test_the_embedder_is_neither_created_nor_compared():
    corpus = await build_sealed(source(TEXTS))
    assert (await coverage(source(TEXTS, embedder="no/such-model"), corpus=corpus)).outdated == ()


class HalfDone(WholeText):
    """A strategy whose plans have problems, so that the next build repeats them."""

    def decompose(self, artifact):
        return IndexPlan(surfaces=[Surface(artifact.id, "document", artifact.raw)], problems=["half done"])


async def test_artifacts_indexed_with_problems_are_outdated_because_the_next_build_tries_again():
    corpus = await build_sealed(source(TEXTS, strategy=HalfDone()))
    assert (await coverage(source(TEXTS, strategy=HalfDone()), corpus=corpus)).outdated == ("a", "b", "c")


async def test_artifacts_of_other_sources_do_not_count():
    corpus = await build_sealed(source({"a": "alpha"}), from_mapping({"x": "other"}, name="letters", embedder="light"))
    found = await coverage(source({"a": "alpha", "x": "mine"}), corpus=corpus)
    assert (found.indexed, found.missing, found.gone) == (("a",), ("x",), ())


def source_of_page(*items, **options):
    def pages():
        yield list(items)

    return CorpusSource("notes", pages, embedder="light", **options)


async def test_problems_of_the_source_are_listed_and_their_artifacts_are_not_gone():
    before = source_of_page(
        Artifact("a", "alpha"), Artifact("b", "beta"), Artifact("sub/c", "gamma"), Artifact("d", "delta")
    )
    corpus = await build_sealed(before)
    problems = [ItemProblem("b", "cannot be read"), ItemProblem("sub", "cannot be listed")]
    note = ItemProblem("a", "its frontmatter is broken", lost=False)
    found = await coverage(source_of_page(*problems, note, Artifact("a", "alpha")), corpus=corpus)
    assert found.problems == (*problems, note)
    assert (found.expected, found.gone) == (("a",), ("d",))


async def test_ids_that_a_build_would_refuse_are_problems():
    def signal(artifact):
        if artifact.id == "b":
            raise ValueError("no signal")
        return artifact.raw

    twice = [Artifact("a", "alpha"), Artifact("a", "again"), Artifact("", "nameless"), Artifact("b", "beta")]
    found = await coverage(source_of_page(*twice, change_signal=signal), corpus=await build_sealed(source({})))
    assert found.expected == ("a",)
    reasons = [problem.reason for problem in found.problems]
    assert "yields this id twice" in reasons[0]
    assert "non-empty" in reasons[1]
    assert reasons[2] == "ValueError: no signal"


async def test_excluded_items_are_listed_by_reason():
    left_out = {"vendored folder": ["z/b.md", "z/a.md"], "blank": ["c.md"]}
    given = replace(source(TEXTS), excluded=lambda: left_out)
    found = await coverage(given, corpus=await build_sealed(source(TEXTS)))
    assert found.excluded == {"blank": ("c.md",), "vendored folder": ("z/a.md", "z/b.md")}
    assert list(found.excluded) == ["blank", "vendored folder"]


async def test_a_report_is_json():
    found = Coverage("notes", ("a", "b"), ("a",), ("b",), ("a",), ("c",), (ItemProblem("d", "why"),), {"blank": ("e",)})
    assert json.loads(json.dumps(found.to_dict())) == {
        "name": "notes",
        "expected": 2,
        "indexed": 1,
        "ratio": 0.5,
        "missing": ["b"],
        "outdated": ["a"],
        "gone": ["c"],
        "problems": [{"item": "d", "reason": "why", "lost": True}],
        "excluded": {"blank": ["e"]},
    }


async def test_a_registered_corpus_that_is_not_built_lacks_everything_and_stays_unbuilt(home, tmp_path):
    (tmp_path / "a.md").write_text("alpha")
    await register("vault", "notes", root=tmp_path, embedder="light")
    found = await coverage("VAULT")
    assert (found.name, found.missing, found.ratio) == ("vault", ("a.md",), 0.0)
    assert not (home / "corpora").exists()


@pytest.mark.asyncio_only
async def test_a_built_corpus_is_compared_with_the_present_state_of_its_folder(home, tmp_path):
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("alpha")
    await register("vault", "notes", root=vault, embedder="light")
    async with build_corpus("vault"):
        pass
    (vault / "b.md").write_text("beta")
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    found = await coverage("vault")
    assert (found.indexed, found.missing, found.ratio) == (("a.md",), ("b.md",), 0.5)
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before
    assert (await coverage("vault", corpus=home / "corpora" / "vault.airw")).missing == ("b.md",)
    with pytest.raises(CorpusNotFound):
        await coverage("vault", corpus="other")
    assert corpus_names() == ["vault"]


async def test_a_source_that_is_missing_is_an_error(tmp_path):
    await register("vault", "notes", root=tmp_path / "missing", embedder="light")
    with pytest.raises(SourceError, match="does not exist"):
        await coverage("vault")


@pytest.mark.parametrize("given", [None, 3, {"a": "text"}, CorpusSource])
async def test_a_value_that_is_neither_name_nor_source_is_refused(given):
    with pytest.raises(ArgumentError, match="a registered corpus or a source"):
        await coverage(given)


async def test_a_corpus_whose_links_need_all_titles_is_covered_right_after_its_build():
    texts = {"a": "# Signing keys\n\ntext", "b": "# Runbook\n\nRotate the signing keys."}
    source = from_mapping(texts, name="notes", embedder="light", edge_extractor=TitleMentions())
    async with build(source, store=MemoryStore()) as corpus:
        found = await coverage(source, corpus=corpus)
    assert (found.outdated, found.ratio) == ((), 1.0)
