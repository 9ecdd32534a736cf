"""Texts that an embedder refuses: a build names their artifacts, or leaves out only those."""

import math

import pytest

from airw import build, from_mapping
from airw.embedders import CachedEmbedder, HttpEmbedder, embedder_from
from airw.errors import EmbedderError
from airw.indexing import Chunked
from airw.stores import MemoryStore
from tests.support.corpora import assert_same, content
from tests.support.embedding_server import EmbeddingServer, alone, status

TEXTS = {f"note{at}": f"short text {at}" for at in range(50)}
WHY = "maximum context length is 8192 tokens"


def refuse_long(handler, texts):
    refused = any(len(text) > 100 for text in texts)
    (status(400, {"error": {"message": WHY}}) if refused else type(handler).send_rows)(handler, texts)


@pytest.fixture
def server(monkeypatch):
    alone(monkeypatch)
    with EmbeddingServer(always=refuse_long) as running:
        yield running


@pytest.fixture
def embedder(server) -> HttpEmbedder:
    return HttpEmbedder(server.url, "m", batch_size=16)


def source(texts, **options):
    return from_mapping(texts, name="notes", **options)


async def test_a_build_ends_with_an_error_that_names_the_artifact_and_the_text(embedder):
    with pytest.raises(
        EmbedderError, match=r"source 'notes': 'the-long-one' its text 0 of the kind 'document'"
    ) as caught:
        await build(source(TEXTS | {"the-long-one": "long " * 200}), store=MemoryStore(), embedder=embedder)
    assert WHY in str(caught.value)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value.__cause__, EmbedderError)


@pytest.mark.parametrize("wrap", [lambda embedder: embedder, CachedEmbedder], ids=["direct", "cached"])
async def test_skipping_leaves_out_only_those_artifacts(embedder, wrap):
    texts = dict(sorted((TEXTS | {f"note{at}long": "long " * 200 for at in (3, 4, 20, 49)}).items()))
    async with build(source(texts), store=MemoryStore(), embedder=wrap(embedder), on_error="skip") as corpus:
        report = corpus.report
        built = await content(corpus.store)
    assert [problem.item for problem in report.problems] == ["note20long", "note3long", "note49long", "note4long"]
    assert all(problem.lost and WHY in problem.reason for problem in report.problems)
    assert report.added == len(TEXTS)
    async with build(source(TEXTS), store=MemoryStore(), embedder=embedder) as corpus:
        assert_same(built, await content(corpus.store))


async def test_a_corpus_in_which_every_text_is_refused_is_empty(embedder):
    texts = {f"note{at}": "long " * 200 for at in range(5)}
    async with build(source(texts), store=MemoryStore(), embedder=embedder, on_error="skip") as corpus:
        assert (corpus.report.added, len(corpus.report.problems)) == (0, 5)


async def test_one_refused_chunk_leaves_out_its_artifact(embedder):
    texts = {"a": "short", "b": "word " * 12 + "x" * 150 + " word" * 12, "c": "short too"}
    chunked = source(texts, strategy=Chunked(chunk_size=60, overlap=5))
    async with build(chunked, store=MemoryStore(), embedder=embedder, on_error="skip") as corpus:
        assert corpus.report.added == 3
    whole_words = source(texts, strategy=Chunked(chunk_size=160, overlap=5))
    async with build(whole_words, store=MemoryStore(), embedder=embedder, on_error="skip") as corpus:
        (problem,) = corpus.report.problems
    assert problem.item == "b"
    assert "of the kind 'chunk'" in problem.reason


async def test_the_indexed_version_of_a_refused_artifact_is_kept(embedder):
    store = MemoryStore()
    await build(source(TEXTS), store=store, embedder=embedder)
    changed = TEXTS | {"note7": "long " * 200, "note8": "changed"}
    for _ in range(2):
        corpus = await build(source(changed), store=store, embedder=embedder, on_error="skip")
        (problem,) = corpus.report.problems
        assert (problem.item, corpus.report.removed) == ("note7", 0)
        assert problem.reason.endswith("its indexed version is kept")
    assert [hit.text for hit in await corpus.search("short text 7", k=1)] == ["short text 7"]


async def test_an_upsert_leaves_them_out_too(embedder):
    corpus = await build(source(TEXTS), store=MemoryStore(), embedder=embedder)
    report = await corpus.upsert({"new": "short", "long": "long " * 200}, on_error="skip")
    assert (report.added, [problem.item for problem in report.problems]) == (1, ["long"])
    with pytest.raises(EmbedderError, match="'long'"):
        await corpus.upsert({"long": "long " * 200})


@pytest.mark.parametrize("answer", ["refused", "nan"])
async def test_an_embedder_of_your_own_can_name_the_texts_that_it_refuses(answer):
    def embed(texts):
        long = [at for at, text in enumerate(texts) if len(text) > 100]
        if long and answer == "refused":
            raise EmbedderError("two texts are too long", dict.fromkeys(long, "because it is too long"))
        return [[math.nan if at in long else 1.0, 2.0] for at in range(len(texts))]

    texts = {"a": "short", "b": "long " * 200, "c": "short"}
    mine = embedder_from(embed, id="mine", dim=2)
    async with build(source(texts), store=MemoryStore(), embedder=mine, on_error="skip") as corpus:
        assert [problem.item for problem in corpus.report.problems] == ["b"]
        assert corpus.report.added == 2
    with pytest.raises(EmbedderError, match="'b'"):
        await build(source(texts), store=MemoryStore(), embedder=mine)


@pytest.mark.parametrize("position", [2, -1])
async def test_an_embedder_that_refuses_a_text_that_was_not_asked_ends_the_build(position):
    def embed(texts):
        raise EmbedderError("broken", {position: "why"})

    mine = embedder_from(embed, id="mine", dim=2)
    with pytest.raises(EmbedderError, match="broken"):
        await build(source({"a": "short", "b": "x"}), store=MemoryStore(), embedder=mine, on_error="skip")
