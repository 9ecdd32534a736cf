"""The language of texts: stems and stop words, kept in the file."""

import sqlite3
import sys
import tempfile
import unicodedata
from contextlib import closing
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, discover, from_mapping, from_notes, open_corpus
from airw.corpora import check_corpus_file, copy_corpus
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, SourceError
from airw.protocols import ArtifactIds, Change, Rank, RecordsOf, TextLanguage, Vectors, Words, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Analyser, TermCounts, formula_of
from tests.golden.files import unpack
from tests.support.drawing import examples

TEXTS = {"keys": "Rotating the signing keys", "bread": "to be or not to bake", "c": "vitamin c"}


async def find(store, *queries):
    return [sorted(ranking.artifact_ids) for ranking in await ask(store, Rank(queries, 9))]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("How do I rotate my keys?", {"kei": 1, "rotat": 1}),
        ("What was that, again?", {"again": 1, "that": 1, "wa": 1, "what": 1}),
        ("vitamin D", {"d": 1, "vitamin": 1}),
        ("is there a plan B?", {"b": 1, "plan": 1}),
        ("a C compiler, I think", {"c": 1, "compil": 1, "think": 1}),
        ("c", {"c": 1}),
        ("I'd say what\u2019s new doesn't count", {"count": 1, "new": 1, "sai": 1}),
        ("the 'C' compiler of Bob's", {"bob": 1, "c": 1, "compil": 1}),
        ("isn't it?", {"isn": 1, "it": 1}),
        ("keys and locks: which key?", {"kei": 2, "lock": 1}),
        ("the café\u2019s cafés, cafe\u0301's", {"cafe": 3}),
        ("東京都 の keys", {"kei": 1, "の": 1, "京都": 1, "東京": 1}),
        ("?!", {}),
    ],
)
def test_stop_words_count_only_in_a_query_of_nothing_else(query, words):
    assert Analyser("en").query_terms([query, "locks"]) == [words, {"lock": 1}]


def test_corpora_of_the_first_edition_count_no_single_letters():
    queries = ["vitamin C", "what\u2019s new", "c", "plan ب"]
    assert Analyser("en-unicode61").query_terms(queries) == [
        {"vitamin": 1}, {"new": 1}, {"c": 1}, {"plan": 1, "ب": 1},
    ]  # fmt: skip


ALIKE = [
    ("eﬃcient workﬂow", "efficient workflow"),
    ("商品ＡＢＣ１２３", "商品abc123"),
    ("ﾃｽﾄ ｶﾞ", "テスト ガ"),
    ("inter\u00adnational co\u200doperation \ufeffword\u2060s", "international cooperation words"),
    ("tiếng Việt ở Huế, đường", "tieng viet o hue duong"),
    ("Größe in KÖLN, Łódź, Smørrebrød", "grosse in koln lodz smorrebrod"),
    ("ΟΔΟΣ Οδός ᾳ", "οδοσ οδοσ \u03b1"),
    ("Ёлка Йод", "елка иод"),
    ("İstanbul ISPARTA \u0131s\u0131", "istanbul isparta isi"),
    ("Œuvre Æsir", "oeuvre aesir"),
    ("שָׁלוֹם كَتَبَ كـتب", "שלום كتب كتب"),
    ("क्\u200dष", "क्ष"),
    ("한글", "\u1112\u1161\u11ab\u1100\u1173\u11af"),
    ("Airw™ o\u02bcbrien", "airw o brien"),
    ("snake_case", "snake case"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_letters_that_look_alike_are_one_letter(one, other):
    assert Analyser(None).terms(one) == Analyser(None).terms(other)
    assert Analyser("en").query_terms([one]) == Analyser("en").query_terms([other])


@pytest.mark.parametrize(("one", "other"), [("कि", "का"), ("tea", "teas"), ("c", "ɔ"), ("ᄀ", "ᄂ"), ("e", "\u0435")])
def test_other_letters_are_other_words(one, other):
    assert Analyser(None).terms(one) != Analyser(None).terms(other)


ANY_TEXT = st.text(st.characters(), max_size=40)


@given(ANY_TEXT)
def test_ways_to_write_the_same_characters_make_no_difference(text):
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD")]
    assert len({(*Analyser(None).terms(form),) for form in [text, *forms]}) == 1


def words_in_file(path):
    """Return the words that SQLite's own index has of each record, read without airw."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("CREATE VIRTUAL TABLE temp.word USING fts5vocab (main, record_text, instance)")
        rows = connection.execute("SELECT doc, term FROM temp.word ORDER BY doc, offset").fetchall()
        count = connection.execute("SELECT max(rowid) FROM record").fetchone()[0] or 0
    return [[word for doc, word in rows if doc == number] for number in range(1, count + 1)]


@pytest.mark.slow
@given(
    st.lists(ANY_TEXT | st.integers(8_190, 8_200).map(lambda n: f"{'ა' * n}x y") | st.just("x" * 40_000), max_size=5),
    st.sampled_from(["en", None]),
)
@settings(max_examples=examples(60))
def test_the_index_of_a_file_has_the_words_of_the_analyser(texts, language):
    async def write(path):
        async with SqliteStore(path, language=language) as store:
            await store.apply(Change([put("a", *texts)]))

    texts = [text.encode(errors="replace").decode() for text in texts]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "words.airw")
        anyio.run(write, path)
        assert words_in_file(path) == Analyser(language).split(texts)


@pytest.mark.slow
def test_the_index_cuts_at_each_character_as_the_analyser_does():
    # Each that Unicode defines, and some of the others.
    others = list(range(0xE000, sys.maxunicode + 1, 997))
    codes = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code))[0] != "C"] + others
    texts = [
        " ".join(f"a{chr(code)}b {chr(code)}" for code in codes[at : at + 500]) for at in range(0, len(codes), 500)
    ]
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE VIRTUAL TABLE t USING fts5 (x, content='', tokenize='ascii')")
        connection.execute("CREATE VIRTUAL TABLE w USING fts5vocab (t, instance)")
        for text in texts:
            connection.execute("INSERT INTO t (rowid, x) VALUES (1, ?)", [Analyser(None).prepare(text)])
            words = connection.execute("SELECT term FROM w ORDER BY offset").fetchall()
            assert [word for (word,) in words] == Analyser(None).terms(text)
            connection.rollback()


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
        assert len(Analyser(language).terms(text)) == count
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


FIRST_EDITION, PASSING = ("logs-6", "logs-7", "notes-6", "notes-7"), ("marks-7", "marks-plain-7")


def format_and_statement(path):
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection:
        [sql] = connection.execute("SELECT sql FROM sqlite_schema WHERE name = 'record_text'").fetchone()
        return connection.execute("PRAGMA user_version").fetchone()[0], sql.rpartition("tokenize=")[2]


@pytest.mark.asyncio_only
@pytest.mark.parametrize("part", FIRST_EDITION)
async def test_a_corpus_of_the_first_edition_keeps_its_words_and_vectors(part, tmp_path):
    path = unpack(part, tmp_path)
    statement = "'unicode61')" if part.endswith("6") else "'porter unicode61')"
    async with open_corpus(path, embedder="light") as corpus:
        before = await ask(corpus.store, Rank(["Köln dome é", "telescope"], 9))
        assert corpus.embedder == HashingEmbedder(version="v1")
        source, vectors = (
            from_mapping({"new": "die Größe"}, name=corpus.name, embedder="light"),
            await all_vectors(corpus),
        )
    async with build(source, store=path, full=False, force=True) as corpus:
        assert corpus.embedder == HashingEmbedder(version="v1")
        assert format_and_statement(path) == (8, statement)
        after = await all_vectors(corpus)
        assert {id: after[id] for id in vectors} == vectors
        assert await find(corpus.store, "größe") == [["new"]]
        await corpus.delete(["new"])
        assert rows_of(await ask(corpus.store, Rank(["Köln dome é", "telescope"], 9))) == rows_of(before)


@pytest.mark.asyncio_only
async def test_a_corpus_of_the_first_edition_gets_the_words_and_vectors_of_today_if_a_build_says_so(tmp_path):
    path = unpack("logs-6", tmp_path)
    source = from_mapping({"new": "die Größe"}, name="logs", embedder=HashingEmbedder())
    async with build(source, store=path, language="en", force=True) as corpus:
        assert await ask(corpus.store, TextLanguage()) == "en"
        assert (corpus.report.added, corpus.embedder_id) == (1, "hashing-v2-512")
    async with open_corpus(path) as corpus:
        assert corpus.embedder == HashingEmbedder()
        assert await find(corpus.store, "grosse") == [["new"]]


async def all_vectors(corpus):
    ids = [
        record.id
        for records in await ask(corpus.store, RecordsOf(await ask(corpus.store, ArtifactIds())))
        for record in records
    ]
    return dict(zip(ids, (await ask(corpus.store, Vectors(ids))).tolist(), strict=True))


@pytest.mark.asyncio_only
@pytest.mark.parametrize("part", PASSING)
async def test_an_index_of_a_passing_kind_answers_and_the_first_write_makes_it_anew(part, tmp_path):
    path, language = unpack(part, tmp_path), "en" if part == "marks-7" else None
    plain, others = ["rotating keys", "bake"], ["Huế koln", "efficient", "किताब", "كتب", "東京"]
    async with open_corpus(path) as corpus:
        assert corpus.embedder_id == "hashing-v1-512"
        assert await ask(corpus.store, TextLanguage()) == language
        assert await find(corpus.store, *plain) == [["keys", "東京"], ["bread"]]
        format, statement = format_and_statement(path)
        assert (format, "categories" in statement) == (7, True)
        copy = await copy_corpus(path, tmp_path / "second.airw")
    for target in (copy, path):
        async with open_corpus(target) as reader, open_corpus(target) as corpus:
            await find(reader.store, *plain, *others)  # what it remembers is not for the new index
            await corpus.upsert({"new": "New: Кёльн", "german": "die Größe von Köln"})
            for store in (reader.store, corpus.store):
                assert await find(store, *plain, *others, "кельн") == [
                    ["keys", "東京"], ["bread"], ["german", "vietnamese"], ["ligature"], ["hindi"], ["arabic"],
                    ["東京"], ["new"],
                ]  # fmt: skip
            assert await corpus.delete(["hindi", "keys"])
            records = await ask(corpus.store, RecordsOf(await ask(corpus.store, ArtifactIds())))
            texts = [record.text for each in records for record in each]
            queries = [*plain, *others]
            found = rows_of(await ask(corpus.store, Rank(queries, 9)))
            counts = await ask(corpus.store, Words(queries))
        assert format_and_statement(target) == (8, "'porter ascii')" if language else "'ascii')")
        assert sorted(map(tuple, filter(None, words_in_file(target)))) == sorted(
            map(tuple, Analyser(language).split(texts))
        )
        async with MemoryStore(language=language) as fresh:
            await fresh.apply(Change([put(each[0].artifact_id, each[0].text) for each in records]))
            assert await ask(fresh, Words(queries)) == counts
            assert [[row[1:] for row in rows] for rows in rows_of(await ask(fresh, Rank(queries, 9)))] == [
                [row[1:] for row in rows] for rows in found
            ]
        assert await check_corpus_file(target) == []


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
