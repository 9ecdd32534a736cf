"""Texts that a model reads only in part: how a build reports them, or splits them."""

from dataclasses import replace

import numpy as np
import pytest

from airw import build, from_files, from_jsonl, from_mapping, open_corpus
from airw.corpora import coverage, finish_ingest, ingest_partition, prepare_ingest
from airw.embedders import CachedEmbedder
from airw.errors import EmbedderError
from airw.indexing import Chunked, FittedText, WholeText
from airw.protocols import Ledger, Records, ask
from airw.stores import MemoryStore
from airw.values import Artifact
from tests.support.corpora import assert_same, content


class Reader:
    """A model that reads the first words of a text, one token each."""

    def __init__(self, max_tokens: int | None = 8, dim: int = 8):
        self.max_tokens, self.dim, self.id = max_tokens, dim, f"reader-{max_tokens}"

    async def find_ends(self, texts):
        return [len(" ".join(text.split(" ")[: self.max_tokens])) for text in texts]

    async def embed_documents(self, texts):
        rows = np.zeros((len(texts), self.dim), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for word in text.split(" ")[: self.max_tokens]:
                row[sum(map(ord, word)) % self.dim] += 1
        return rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-9)

    async def embed_query(self, text):
        return (await self.embed_documents([text]))[0]


LONG = "one two three four five six seven eight nine ten eleven twelve"
TEXTS = {"short": "a few words only", "long": LONG}


def whole(texts=TEXTS, **options):
    return from_mapping(texts, name="notes", strategy=WholeText(), embedder=Reader(), **options)


@pytest.mark.parametrize("wrap", [lambda embedder: embedder, CachedEmbedder], ids=["direct", "cached"])
async def test_a_build_counts_and_names_what_the_model_does_not_read(wrap):
    async with build(whole(), store=MemoryStore(), embedder=wrap(Reader())) as corpus:
        report = corpus.report
    assert report.cut == 1
    (problem,) = report.problems
    assert (problem.item, problem.lost) == ("long", False)
    assert f"only about 39 of the {len(LONG)} characters of its text 0 of the kind 'document'" in problem.reason


async def test_problems_name_only_some_but_all_texts_count():
    texts = {f"note{at:03}": LONG for at in range(50)}
    async with build(whole(texts), store=MemoryStore()) as corpus:
        assert corpus.report.cut == 50
        assert [problem.item for problem in corpus.report.problems] == sorted(texts)[:20]


async def test_what_the_next_chunk_repeats_is_not_lost():
    texts = {"a": " ".join(f"w{at:02}" for at in range(40))}
    for overlap, cut in ((11, 0), (0, 3)):
        strategy = Chunked(chunk_size=39, overlap=overlap)  # ten words; a chunk repeats some of the last two
        source = from_mapping(texts, name="notes", strategy=strategy, embedder=Reader())
        async with build(source, store=MemoryStore()) as corpus:
            assert corpus.report.cut - cut in (0, 1)  # the last chunk has no other after it


async def test_a_later_build_repeats_the_problem_until_it_is_solved():
    store = MemoryStore()
    for counted in (1, 0):
        corpus = await build(whole(), store=store)
        assert corpus.report.cut == counted
        assert [problem.item for problem in corpus.report.problems] == ["long"]
    corpus = await build(whole({**TEXTS, "long": "short now"}), store=store)
    assert (corpus.report.cut, corpus.report.problems) == (0, ())


async def test_a_change_of_metadata_alone_keeps_the_problem_and_needs_no_model():
    class Idle(Reader):
        async def find_ends(self, texts):
            raise AssertionError("no text has changed")

        embed_documents = find_ends

    store, texts = MemoryStore(), {name: {"text": text} for name, text in TEXTS.items()}
    await build(whole(texts), store=store)
    changed = {name: {**fields, "owner": "ada"} for name, fields in texts.items()}
    for _ in range(2):
        corpus = await build(whole(changed), store=store, embedder=Idle())
        assert [problem.item for problem in corpus.report.problems] == ["long"]
    assert corpus.report.unchanged == 2


async def test_an_embedder_that_does_not_find_each_end_ends_the_build():
    class Lazy(Reader):
        async def find_ends(self, texts):
            return []

    with pytest.raises(EmbedderError, match="'reader-8' found 0 ends of 2 texts in find_ends"):
        await build(whole(), store=MemoryStore(), embedder=Lazy())


async def test_an_upsert_counts_them_too():
    corpus = await build(whole({"a": "b"}), store=MemoryStore())
    report = await corpus.upsert(TEXTS)
    assert (report.cut, [problem.item for problem in report.problems]) == (1, ["long"])


def sources_of(folder, texts, embedder):
    """Return a source of each kind that reads whole texts if nobody names a strategy."""
    (folder / "files").mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / "files" / f"{name}.md").write_text(text)
    lines = folder / "lines.jsonl"
    lines.write_text("".join(f'{{"id": "{name}", "body": "{text}"}}\n' for name, text in texts.items()))
    return {
        "mapping": from_mapping(texts, name="notes", embedder=embedder),
        "files": from_files(folder / "files", embedder=embedder),
        "jsonl": from_jsonl(lines, text_key="body", embedder=embedder),
    }


@pytest.mark.parametrize("kind", ["mapping", "files", "jsonl"])
async def test_by_default_texts_longer_than_the_model_reads_are_split(tmp_path, kind):
    source = sources_of(tmp_path, TEXTS, Reader())[kind]
    async with build(source, store=MemoryStore()) as corpus:
        hits = await corpus.search("eleven twelve", mode="dense", k=1, filter=None, per_artifact=False)
        assert "twelve" in hits[0].text
        assert {hit.surface_kind for hit in await corpus.search("four", k=9, per_artifact=False)} == {"document"}
        assert corpus.report.cut == 0


@pytest.mark.parametrize("kind", ["mapping", "files", "jsonl"])
async def test_by_default_short_texts_are_indexed_as_without_a_limit(tmp_path, kind):
    texts = {"a": "a few words only", "b": "some others"}
    found = []
    for embedder in (Reader(), Reader(None), Reader()):
        source = sources_of(tmp_path, texts, embedder)[kind]
        async with build(source, store=MemoryStore()) as corpus:
            found.append([(hit.artifact_id, hit.text, hit.score) for hit in await corpus.search("words")])
    assert found[0] == found[1] == found[2]


async def test_a_strategy_that_the_caller_names_stays():
    async with build(whole(), store=MemoryStore()) as corpus:
        (hit,) = await corpus.search("one", k=1, mode="lexical")
    assert hit.text == LONG


async def test_an_embedder_of_the_build_decides_not_that_of_the_source():
    source = from_mapping(TEXTS, name="notes", embedder=Reader(None))
    async with build(source, store=MemoryStore(), embedder=Reader()) as corpus:
        (hit,) = await corpus.search("twelve", k=1, mode="lexical")
    assert len(hit.text) < len(LONG)


@pytest.mark.asyncio_only
async def test_a_corpus_that_was_split_by_default_can_be_changed_after_opening(tmp_path):
    file, source = tmp_path / "notes.airw", from_mapping(TEXTS, name="notes", embedder=Reader())
    async with build(source, store=file):
        pass
    async with open_corpus(file, embedder=Reader()) as corpus:
        await corpus.upsert({"more": LONG.replace("twelve", "thirteen")})
        (hit,) = await corpus.search("thirteen", k=1, mode="lexical")
        assert (hit.artifact_id, len(hit.text) < len(LONG)) == ("more", True)
    async with build(source, store=file) as corpus:
        assert corpus.report.unchanged == 2


async def test_coverage_knows_how_texts_were_split():
    source, store = from_mapping(TEXTS, name="notes", embedder=Reader()), MemoryStore()
    corpus = await build(source, store=store)
    assert (await coverage(source, corpus=corpus)).outdated == ()
    assert (await coverage(whole(), corpus=corpus)).outdated == ("long", "short")
    await build(whole(), store=store)
    assert (await coverage(whole(), corpus=corpus)).outdated == ()


async def test_partitions_are_split_as_one_build_would():
    source, store, reference = from_mapping(TEXTS, name="notes", embedder=Reader()), MemoryStore(), MemoryStore()
    plan = await prepare_ingest(source, store=store)
    for number, name in enumerate(TEXTS):
        await ingest_partition(plan, number, {name: TEXTS[name]})
    await finish_ingest(plan, partitions=2)
    await build(source, store=reference)
    assert_same(await content(store), await content(reference))


async def test_partitions_add_up_what_is_cut():
    plan = await prepare_ingest(whole({}), store=MemoryStore())
    for number in range(2):
        await ingest_partition(plan, number, {f"long {number}": LONG})
    corpus = await finish_ingest(plan, partitions=2)
    assert (corpus.report.cut, len(corpus.report.problems)) == (2, 2)


def test_fitted_text_is_whole_or_chunks_without_a_gap():
    strategy = FittedText(max_tokens=8)
    for words in (1, 6, 7, 20, 200):
        text = " ".join(f"w{at:03}" for at in range(words))
        surfaces = strategy.decompose(Artifact("a", text)).surfaces
        assert (len(surfaces) == 1) == (len(text) <= 32)
        assert {word for surface in surfaces for word in surface.text.split()} == {*text.split()}
        assert all(len(surface.text) <= 24 for surface in surfaces) or len(surfaces) == 1


async def records_of(store, artifact_id):
    (entry,) = await ask(store, Ledger([artifact_id]))
    return await ask(store, Records(entry.record_ids))


class Noting(Reader):
    """Notes the texts that it embeds."""

    def __init__(self, max_tokens: int | None = 8):
        super().__init__(max_tokens)
        self.texts: list[str] = []

    async def embed_documents(self, texts):
        self.texts += texts
        return await super().embed_documents(texts)


PLANETS = "sky: mercury and venus and earth and mars and jupiter and saturn"


async def test_a_later_chunk_is_embedded_after_the_beginning_of_its_text():
    embedder, store = Noting(), MemoryStore()
    async with build(from_mapping({"sky": PLANETS}, name="sky", embedder=embedder), store=store) as corpus:
        hits = await corpus.search("mars", k=9, mode="lexical", per_artifact=False)
        titled = await corpus.search("sky", k=9, mode="lexical", per_artifact=False)
    records = await records_of(store, "sky")
    begin = "sky:"
    assert embedder.texts == [records[0].text, *(f"{begin}\n{record.text}" for record in records[1:])]
    # What is stored and searched by words is the text alone.
    assert [hit.text for hit in titled] == [records[0].text]
    assert all("mars" in hit.text for hit in hits)
    assert all(PLANETS[each.metadata["start"] : each.metadata["end"]] == each.text for each in records)
    hashes = [each.metadata.get("airw_context") for each in records]
    assert hashes == [None, *[hashes[1]] * (len(records) - 1)]
    assert corpus.report.cut == 0


class Twice:
    """Makes two surfaces of a text, the second one in a context."""

    def __init__(self, context: str, name: str = "twice"):
        self.context, self.id = context, f"{name}-{context!r}"

    def decompose(self, artifact):
        plan = WholeText().decompose(artifact)
        return replace(plan, surfaces=[*plan.surfaces, replace(plan.surfaces[0], context=self.context)])


async def test_texts_are_embedded_again_if_their_context_changes_and_only_then():
    store, seen = MemoryStore(), []
    for strategy in (Twice(""), Twice("", "other"), Twice("sky"), Twice("sky", "other"), Twice("air"), Twice("")):
        embedder = Noting()
        await build(from_mapping({"a": "mars"}, name="sky", strategy=strategy, embedder=embedder), store=store)
        seen.append(embedder.texts)
    assert seen == [["mars", "mars"], [], ["mars", "sky\nmars"], [], ["mars", "air\nmars"], ["mars", "mars"]]


async def test_of_a_text_in_context_only_what_is_lost_of_the_text_counts_as_cut():
    source = from_mapping({"a": "one two three"}, name="a", strategy=Twice("in the sky"), embedder=Reader(4))
    async with build(source, store=MemoryStore()) as corpus:
        assert corpus.report.cut == 1
    assert "only about 7 of the 13 characters of its text 1" in corpus.report.problems[0].reason


MARS = "# Mars has two moons, Phobos and Deimos, which were found in 1877 by Asaph Hall"


@pytest.mark.parametrize(
    ("begin", "context"),
    [
        (f"---\nlicense: of all files\n---\n{MARS}\n\n", MARS),
        (f"\n\n  {MARS}\n", MARS),
        ("火星是太阳系的第四颗行星。" * 9, "火星是太阳系的第四颗行星。" * 3),
    ],
)
def test_the_context_is_the_beginning_of_the_text_that_tells_its_subject(begin, context):
    text = begin + "A line of this text has some words more than its heading, and it ends with a point.\n\n" * 20
    first, *later = FittedText(max_tokens=256).decompose(Artifact("a", text)).surfaces
    assert first.context == ""
    assert {surface.context for surface in later} == {context}


def test_a_context_leaves_nearly_all_of_a_large_model_to_the_chunk():
    surfaces = FittedText(max_tokens=8_000).decompose(Artifact("a", "one word after the other " * 2_000)).surfaces
    assert {len(surface.context) <= 128 for surface in surfaces} == {True}


async def test_a_document_without_text_is_nothing_that_a_model_cuts():
    source = from_mapping({**TEXTS, "blank": " "}, name="a", embedder=Reader())
    async with build(source, store=MemoryStore()) as corpus:
        assert (corpus.report.added, corpus.report.cut) == (3, 0)


@pytest.mark.parametrize("context", ["\ud800", 7])
async def test_a_context_that_cannot_be_embedded_is_a_problem_of_its_document(context):
    source = from_mapping({"a": "mars"}, name="a", strategy=Twice(context), embedder=Reader())
    async with build(source, store=MemoryStore(), on_error="skip") as corpus:
        assert [(problem.item, problem.lost) for problem in corpus.report.problems] == [("a", True)]
