"""The language of texts: stems and stop words, kept in the file."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, discover, from_mapping, from_notes
from airw.errors import ArgumentError, SourceError
from airw.protocols import ArtifactIds, Change, Rank, RecordsOf, TextLanguage, Vectors, Words, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Analyser, TermCounts, formula_of
from tests.support.drawing import examples

TEXTS = {"keys": "Rotating the signing keys", "bread": "to be or not to bake", "c": "vitamin c"}


async def find(store, *queries):
    return [sorted(ranking.artifact_ids) for ranking in await ask(store, Rank(queries, 9))]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How do I rotate my keys?", {"kei": 1, "rotat": 1}),
        ("What was that, again?", {"again": 1, "that": 1, "wa": 1, "what": 1}),
        ("vitamin C", {"vitamin": 1}),
        ("c", {"c": 1}),
        ("keys and locks: which key?", {"kei": 2, "lock": 1}),
        ("the café\u2019s cafés", {"cafe": 2}),
        ("東京都 の keys", {"kei": 1, "の": 1, "京都": 1, "東京": 1}),
        ("?!", {}),
    ],
)
def test_stop_words_count_only_in_a_query_of_nothing_else(query, words):
    assert Analyser("en").query_terms([query, "locks"]) == [words, {"lock": 1}]


MARKED = {
    "hindi": "शेर एक जानवर है जो जंगल में रहता है, किताब नमस्ते",
    "bengali": "বাংলা ভাষা",
    "tamil": "தமிழ் மொழி",
    "telugu": "తెలుగు భాష",
    "arabic": "كَتَبَ الْوَلَدُ",
    "hebrew": "שָׁלוֹם עוֹלָם",
    "vietnamese": "Tie\u0302\u0301ng Vie\u0323\u0302t",
    "heart": "❤\ufe0f keys",
}
QUESTIONS = {
    "किताब": "hindi",
    "नमस्ते": "hindi",
    "বাংলা": "bengali",
    "தமிழ்": "tamil",
    "తెలుగు": "telugu",
    "كَتَبَ": "arabic",
    "كتب": "arabic",
    "שָׁלוֹם": "hebrew",
    "שלום": "hebrew",
    "Tiếng": "vietnamese",
    "❤ key": "heart",
}


@pytest.mark.parametrize("language", ["en", None])
def test_marks_do_not_cut_words(language):
    for name, text in MARKED.items():
        count = len(text.split()) - (name == "heart")
        assert len(Analyser(language).terms(text)) == Analyser(language).count(text) == count
    assert Analyser(language).terms("কি") != Analyser(language).terms("কা")


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_question_finds_the_words_with_their_marks(kind, tmp_path, anyio_backend):
    if kind == "file" and anyio_backend != "asyncio":
        return
    store = MemoryStore() if kind == "memory" else tmp_path / "n.airw"
    async with build(from_mapping(MARKED, name="marked", embedder="light"), store=store) as corpus:
        for question, name in QUESTIONS.items():
            hits = await corpus.search(question, mode="lexical")
            assert (question, [hit.artifact_id for hit in hits]) == (question, [name])


@pytest.mark.asyncio_only
async def test_a_file_of_an_earlier_version_keeps_its_words_until_it_is_built_for_a_language_again(tmp_path):
    path, source = tmp_path / "old.airw", from_mapping(MARKED, name="old", embedder="light")
    async with build(source, store=path, language="en-unicode61") as corpus:
        assert await ask(corpus.store, TextLanguage()) == "en-unicode61"
        before = await ask(corpus.store, Rank(["किताब कविता"], 9))
    async with build(source, store=path) as corpus:
        assert await ask(corpus.store, TextLanguage()) == "en-unicode61"
        after = await ask(corpus.store, Rank(["किताब कविता"], 9))
        assert [each.artifact_ids for each in after] == [each.artifact_ids for each in before] == [["hindi"]]
        assert (await ask(corpus.store, Words(["किताब"]))).formula == formula_of(Analyser("en-unicode61"))
    async with build(source, store=path, language="en") as corpus:
        assert await ask(corpus.store, TextLanguage()) == "en"
        assert await find(corpus.store, "किताब कविता", "कविता") == [["hindi"], []]


@given(st.lists(st.text(max_size=30), max_size=4))
def test_texts_have_the_same_words_alone_together_and_a_second_time(texts):
    for analyser in map(Analyser, ("en", None, "en-unicode61", "unicode61")):
        together = analyser.split(texts)
        assert together == [analyser.terms(text) for text in texts] == analyser.split(texts)
        # A query keeps words of the text in the form of the index, so each text is found by its own words.
        for text, words in zip(texts, together, strict=True):
            [found] = analyser.query_terms([text])
            assert found.keys() <= {*words}


WORDS = st.sampled_from(
    ["walk", "walked", "Walking", "the", "keys", "key", "café", "東京都", "किताब", "כָּתַב", "c", "one"]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["en", None, "en-unicode61", "unicode61"]),
        st.dictionaries(st.sampled_from("abc"), st.lists(WORDS, max_size=6).map(" ".join), max_size=3),
        st.lists(st.sampled_from("abc"), max_size=1),
    ),
    min_size=1,
    max_size=4,
)
QUERIES = ["the walks", "key", "walk the key walk", "東京", "the", "CAFE c", "absent"]


def rows_of(rankings):
    return [[*zip(each.record_ids, each.artifact_ids, each.scores.tolist(), strict=True)] for each in rankings]


@pytest.mark.slow
@given(steps=STEPS)
@settings(max_examples=examples(6))
def test_stores_agree_to_the_last_bit_after_any_changes_of_language(steps):
    async def main(folder):
        async with MemoryStore() as memory, SqliteStore(folder / "notes.airw") as sqlite:
            for language, puts, removals in steps:
                for store in (memory, sqlite):
                    await store.apply(Change(language=language))
                    await store.apply(Change([put(name, text) for name, text in puts.items()], removals=removals))
                    assert await ask(store, TextLanguage()) == language
                async with MemoryStore(language=language) as fresh:
                    artifact_ids = await ask(memory, ArtifactIds())
                    records = await ask(memory, RecordsOf(artifact_ids))
                    await fresh.apply(Change([put(each[0].artifact_id, each[0].text) for each in records]))
                    expected = rows_of(await ask(fresh, Rank(QUERIES, 9)))
                    counts = await ask(fresh, Words(QUERIES))
                for store in (memory, sqlite):
                    assert rows_of(await ask(store, Rank(QUERIES, 9))) == expected
                    assert rows_of(await ask(store, Rank(QUERIES, 9, statistics=counts))) == expected
                    assert await ask(store, Words(QUERIES)) == counts

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, Path(folder))


@pytest.mark.asyncio_only
async def test_a_file_keeps_its_language_and_readers_see_a_new_one_at_their_next_call(tmp_path):
    path = tmp_path / "notes.airw"
    async with SqliteStore(path, language=None) as store:
        await store.apply(Change([put(name, text) for name, text in TEXTS.items()]))
    # Another wish of a reader changes nothing.
    async with await SqliteStore.open(path, language="en") as reader, SqliteStore(path) as writer:
        assert "words" in reader.capabilities
        assert (await ask(reader, TextLanguage()), await find(reader, "rotate", "the key")) == (None, [[], ["keys"]])
        await writer.apply(Change(language="en"))
        assert (await ask(reader, TextLanguage()), await find(reader, "rotate", "the key")) == (
            "en",
            [["keys"], ["keys"]],
        )
        vectors = await ask(reader, Vectors([record.id for [record] in await ask(reader, RecordsOf([*TEXTS]))]))
        assert not np.isnan(vectors).any()
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("INSERT INTO record_text (record_text) VALUES ('integrity-check')").fetchall() == []


@pytest.mark.asyncio_only
async def test_a_build_changes_the_language_without_embedding_and_later_builds_keep_it(tmp_path):
    path, source = tmp_path / "notes.airw", from_mapping(TEXTS, name="notes", embedder="light")
    n_unchanged = 0
    for language, expected in (("auto", "en"), (None, None), ("auto", None), ("en", "en"), ("auto", "en")):
        async with build(source, store=path, language=language) as corpus:
            assert await ask(corpus.store, TextLanguage()) == expected
            assert (corpus.report.updated, corpus.report.unchanged) == (0, n_unchanged)
            n_unchanged = len(TEXTS)
            assert await find(corpus.store, "rotate") == [["keys"] if expected else []]
    async with build(source, store=MemoryStore(language=None), language="en") as corpus:
        assert await ask(corpus.store, TextLanguage()) == "en"


@pytest.mark.asyncio_only
async def test_a_build_that_is_refused_leaves_the_language_as_it_was(tmp_path):
    path = tmp_path / "corpus.airw"
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.md").write_text("rotating keys")
    async with build(from_notes(tmp_path / "one", name="notes", embedder="light"), store=path):
        pass
    with pytest.raises(SourceError, match="was built from"):
        await build(from_notes(tmp_path / "two", name="notes", embedder="light"), store=path, language=None)
    async with await SqliteStore.open(path) as store:
        assert await ask(store, TextLanguage()) == "en"


async def test_corpora_of_different_languages_are_channels_of_their_own():
    async with (
        build(from_mapping(TEXTS, name="stems", embedder="light"), store=MemoryStore()) as stems,
        build(from_mapping(TEXTS, name="plain", embedder="light"), store=MemoryStore(language=None)) as plain,
    ):
        result = await discover([stems, plain], "rotating keys", strategy="top_k", max_k=4)
        assert [hit.artifact_id for hit in result.results[:2]] == ["keys", "keys"]
        counts = [await ask(corpus.store, Words(["keys"])) for corpus in (stems, plain)]
        with pytest.raises(ArgumentError, match="stems and stop words of en"):
            TermCounts.sum(counts)


@pytest.mark.parametrize("language", ["de", "", "EN", 1, True])
def test_an_unknown_language_is_refused(language, tmp_path):
    for make in (Analyser, lambda it: MemoryStore(language=it), lambda it: SqliteStore(tmp_path / "a", language=it)):
        with pytest.raises(ArgumentError, match="language must be 'en', or None for words as they are, not"):
            make(language)
    with pytest.raises(ArgumentError, match="language must be"):
        build(from_mapping(TEXTS, name="notes"), language=language)


def test_counts_of_other_formulas_have_no_analyser():
    assert TermCounts(formula_of(Analyser(None)), 1, 1, {}).analyser == Analyser(None)
    assert TermCounts("tf-idf", 1, 1, {}).analyser is None
    with pytest.raises(ArgumentError, match="the repeats of 'key'"):
        TermCounts("bm25", 1, 1, {"key": 1}, {"key": 0})
