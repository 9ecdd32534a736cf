"""The inverted index ranks by BM25 after any writes, interrupts and evictions."""

import math
import re
import sqlite3
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw._base.folding import space
from airw.protocols import Change, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.stores._indexes import inverted_index as inverted_index_module, texts as texts_module
from airw.stores._indexes.inverted_index import InvertedIndex
from airw.stores._indexes.texts import (
    RECORD_TABLES,
    change_language,
    create_index,
    delete_records,
    insert_records,
    prepare_texts,
    read_language,
)
from airw.stores.sqlite._schema import transaction
from airw.testing.changes import put
from airw.values import Analyser
from tests.support.drawing import examples

pytestmark = pytest.mark.slow  # the exam of stores asks the same of whole stores


def rank_by_formula(connection, query, k, *, allowed=None, surfaces=None, per_artifact=False):
    """Return the ranking by BM25 of all rows, computed from the tables of FTS5."""
    [words] = Analyser(read_language(connection)).query_terms([query])
    lengths = dict(connection.execute("SELECT doc, count(*) FROM temp.record_word GROUP BY doc"))
    (count,) = connection.execute("SELECT count(*) FROM record").fetchone()
    mean, scores = sum(lengths.values()) / (count or 1), {}
    for word, repeats in words.items():
        holders = connection.execute("SELECT doc, count(*) FROM temp.record_word WHERE term = ? GROUP BY doc", [word])
        found = dict(holders)
        weight = math.log(1 + (count - len(found) + 0.5) / (len(found) + 0.5))
        for row, times in found.items():
            gain = times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[row] / mean))
            scores[row] = scores.get(row, 0.0) + repeats * weight * gain
    details = connection.execute("SELECT rowid, artifact_id, idx, kind, id FROM record").fetchall()
    # Rounding must not decide between equal scores.
    matches = [(round(-scores[row[0]], 9), row[1], row[2], *row) for row in details if row[0] in scores]
    rows = sorted(
        row for row in matches if (allowed is None or row[3] in allowed) and (surfaces is None or row[6] in surfaces)
    )
    if per_artifact:
        best = {}
        for row in rows:
            best.setdefault(row[1], row)
        rows = [*best.values()]
    return [(row[-1], row[1], pytest.approx(-row[0], rel=1e-6)) for row in rows[: max(k, 0)]]


def rank(postings, connection, queries, k, **scope):
    return to_rows(postings.rank(connection, queries, k, **scope))


def to_rows(rankings):
    return [[*zip(each.record_ids, each.artifact_ids, each.scores.tolist(), strict=True)] for each in rankings]


def check(postings, connection, queries, k=10, *, allowed=None, **scope):
    numbers = None if allowed is None else np.array(sorted(allowed), np.int64)
    expected = [rank_by_formula(connection, query, k, allowed=allowed, **scope) for query in queries]
    assert rank(postings, connection, queries, k, allowed=numbers, **scope) == expected


def open_database(path=":memory:"):
    connection = sqlite3.connect(path, isolation_level=None)
    prepare_texts(connection)
    return connection


def make_database(path=":memory:", language=None):
    connection = open_database(path)
    for statement in RECORD_TABLES:
        connection.execute(statement)
    create_index(connection, language)
    return connection


def add(connection, texts, artifact="a", kinds=("chunk",)):
    """Insert an artifact with a record for each text."""
    (number,) = connection.execute("SELECT coalesce(max(rowid), 0) FROM record").fetchone()
    rows = [
        (f"{artifact} {number} {at}", artifact, kinds[at % len(kinds)], at, "{}", text) for at, text in enumerate(texts)
    ]
    with transaction(connection):
        return insert_records(connection, rows)


def trace_statements(connection):
    """Return a list to which each later statement is appended."""
    statements = []
    connection.set_trace_callback(statements.append)
    return statements


def spread(count, *words):
    """Return texts that contain the words, each unequally often, among others."""
    return [" ".join([f"w{at % 7}"] * (at % 3) + [*words] * (at % 4) + ["filler"] * (at % 5)) for at in range(count)]


@pytest.mark.parametrize("per_artifact", [True, False])
def test_a_ranking_from_memory_is_that_of_the_last_state_or_none(per_artifact):
    with closing(make_database()) as connection:
        add(connection, spread(50, "one", "two"), "a")
        add(connection, spread(50, "one"), "b")
        index, queries = InvertedIndex(), ["one", "two w3 absent", "?!"]
        ask = partial(index.rank_if_quick, per_artifact=per_artifact)
        assert not index.is_used
        assert ask(["one"], 3) is None
        for k in (3, 100, 0, -1):
            check(index, connection, queries, k, per_artifact=per_artifact)
            expected = rank(index, connection, queries, k, per_artifact=per_artifact)
            assert to_rows(ask(queries, k)) == expected
        assert index.is_used
        # A new word, letters that the database splits, and a very long query.
        assert ask(["w4"], 3) is ask(["né"], 3) is ask(["one " * 999], 3) is None


# Any content, any writes

LONG = "ა" * 11_000  # FTS5 would cut it inside a character
WORDS = st.sampled_from(
    [
        "one",
        "one",
        "one",
        "two",
        "two",
        "ONE",
        "né",
        "ne\u0301",
        "Straße",
        "字",
        "東京都",
        "京",
        "İx",
        "walked",
        "Walking",
        "the",
        LONG,
        "x" * 33_000,
        "a\0b",
        "",
    ]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join) | st.integers(0, 400).map(lambda count: "many " * count)
NAMES = st.sampled_from("abcd")
STEP = [st.dictionaries(NAMES, st.lists(TEXTS, max_size=4), max_size=3), st.lists(NAMES, max_size=2)]
QUERIES = [LONG, "one", "two absent", "NÉ straße ix 字", "東京 京", "東京都 one", "many one b", "x" * 33_000, "?!"]
QUERIES += ["the walks", "walked walking one", "the b"]
LANGUAGES = st.sampled_from(["en", None])


@given(
    steps=st.lists(st.tuples(LANGUAGES, *STEP), min_size=1, max_size=5),
    late=st.sampled_from([0, 20, 1 << 16]),
    room=st.sampled_from([0, 2_000, 1 << 26]),
    scope=st.fixed_dictionaries(
        {
            "k": st.sampled_from([-1, 0, 1, 2, 3, 100]),
            "per_artifact": st.booleans(),
            "surfaces": st.none() | st.lists(st.sampled_from(["title", "chunk", "none"]), max_size=2),
            "allowed": st.none() | st.frozensets(st.integers(1, 12)),
        }
    ),
)
@settings(max_examples=examples(25))
def test_rankings_are_those_of_the_formula_after_any_writes_of_another_connection(steps, late, room, scope):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(inverted_index_module, "_MAX_NEW_WORDS", late)
        patch.setattr(inverted_index_module, "_MAX_BYTES", room)
        path = Path(folder, "texts")
        with closing(make_database(path)) as writer, closing(open_database(path)) as reader:
            writer.execute("PRAGMA synchronous = OFF")
            postings = InvertedIndex()
            for language, puts, removals in steps:
                with transaction(writer):
                    change_language(writer, language)
                    for name in (*removals, *puts):
                        delete_records(writer, [name])
                for name, texts in puts.items():
                    add(writer, texts, name, ["title", "chunk"])
                there = {number for (number,) in reader.execute("SELECT rowid FROM record")}
                asked = scope | {"allowed": None if scope["allowed"] is None else scope["allowed"] & there}
                with transaction(reader):
                    check(postings, reader, QUERIES, **asked)


@pytest.mark.parametrize("count", [0, 1, 127, 128, 129, 16_383, 16_384, 20_000])
def test_the_length_of_a_very_long_text_counts(count):
    with closing(make_database()) as connection:
        add(connection, ["word " * count, "word and others", "others", "", "word"])
        check(InvertedIndex(), connection, ["word", "word others"])


@pytest.mark.parametrize(("language", "found"), [("en", 1), (None, 1), ("en-unicode61", 0), ("unicode61", 0)])
def test_a_very_long_word_is_found_before_and_after_a_write_or_never(language, found):
    with closing(make_database()) as connection:
        change_language(connection, language)
        postings = InvertedIndex()
        for turn in range(2):
            add(connection, ["one", LONG], f"a{turn}")
            [ranking] = rank(postings, connection, [LONG], 5)
            assert ranking == rank(InvertedIndex(), connection, [LONG], 5)[0]
            assert len(ranking) == found * (turn + 1)


def test_any_number_of_equal_scores_is_ordered_by_artifact_and_surface():
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        for artifact in ("b", "é", "a", "B", "c"):
            add(connection, ["same text"] * 30 + ["same"], artifact)
        connection.execute("UPDATE record SET idx = abs(idx - 20)")
        for k in (1, 3, 31, 100, 1_000, 2**70):
            for per_artifact in (False, True):
                check(postings, connection, ["same", "text", "same text"], k, per_artifact=per_artifact)


def test_artifacts_are_found_behind_one_that_contains_all_of_the_best_records():
    with closing(make_database()) as connection:
        add(connection, ["word"] * 500, "a")
        for name in "bcd":
            add(connection, ["word among others"], name)
        check(InvertedIndex(), connection, ["word"], 3, per_artifact=True)


# Reads


def test_a_word_is_read_once_and_after_a_write_only_new_rows_are_read():
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        add(connection, spread(500, "one", "two"))
        postings.rank(connection, ["one two w3"], 5)
        added = add(connection, ["one more of three"], "b")
        statements = trace_statements(connection)
        postings.rank(connection, ["one two w3"], 5)
        assert not [each for each in statements if "record_word" in each]
        assert [each for each in statements if "text FROM" in each] == [
            f"SELECT text FROM record WHERE rowid > {added - 1} ORDER BY rowid"
        ]
        connection.set_trace_callback(None)
        check(postings, connection, ["one two w3", "three"])


def test_an_unchanged_file_is_not_read_again():
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        add(connection, spread(50, "one"))
        postings.rank(connection, ["one"], 5, surfaces=["chunk"])
        statements = trace_statements(connection)
        postings.rank(connection, ["one"], 5, surfaces=["chunk"])
        assert len([each for each in statements if not re.search("json_each|PRAGMA", each)]) == 1  # checks for changes


def test_the_least_recently_used_words_are_forgotten_and_the_others_are_not_read_again(monkeypatch):
    monkeypatch.setattr(inverted_index_module, "_MAX_BYTES", 5_400)
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        add(connection, [f"w{at % 20} always" for at in range(200)])
        for at in range(20):
            check(postings, connection, [f"w{at}", "always"])
            assert postings._latest._bytes <= 5_400
        assert [*postings._latest.postings] == ["w18", "w19", "always"]


def test_after_many_new_words_earlier_words_are_read_again_at_their_next_query(monkeypatch):
    monkeypatch.setattr(inverted_index_module, "_MAX_NEW_WORDS", 20)
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        add(connection, spread(50, "one", "two"))
        for count, expected in ((2, []), (5, []), (6, ["one"]), (2, []), (6, ["one"])):
            check(postings, connection, ["one two"])
            add(connection, ["one more of several"] * count)
            statements = trace_statements(connection)
            postings.rank(connection, ["one"], 5)
            read = [word for word in ("one", "two") for each in statements if f"term = '{word}'" in each]
            assert read == expected
            connection.set_trace_callback(None)


@given(numbers=st.lists(st.integers(1, 2**62), max_size=30), slice=st.integers(1, 50))
def test_numbers_are_read_whole_at_any_size_of_slices(numbers, slice):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(texts_module, "_PARSE_CHARS", slice)
        assert texts_module.parse_numbers(",".join(map(str, numbers)) or None).tolist() == numbers


def test_a_word_that_exceeds_the_memory_of_all_words_is_ranked(monkeypatch):
    monkeypatch.setattr(inverted_index_module, "_MAX_BYTES", 10)
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        add(connection, spread(50, "one", "two"))
        check(postings, connection, ["one two", "two"])
        assert [*postings._latest.postings] == ["two"]


def test_removed_rows_do_not_pile_up():
    with closing(make_database()) as connection:
        postings = InvertedIndex()
        for turn in range(10):
            delete_records(connection, ["a"])
            add(connection, [f"one {turn}"] * 20)
            check(postings, connection, [f"one {turn}", "one 0"])
            assert len(postings._latest.rowids) <= 40
        delete_records(connection, ["a"])
        check(postings, connection, ["one"])


# Faults


@pytest.mark.parametrize("scope", [{}, {"surfaces": ["title"]}])
def test_a_search_stopped_at_any_statement_leaves_the_next_one_right(scope):
    with closing(make_database()) as connection:
        postings, stopped = InvertedIndex(), []
        for turn in range(60):
            with connection:
                delete_records(connection, [f"a{turn - 3}"])
            add(connection, spread(9, "one", f"new{turn}"), f"a{turn}", ["title", "chunk"])
            steps = iter(range(turn * 3))
            connection.set_progress_handler(lambda steps=steps: next(steps, None) is None, 10)
            try:
                postings.rank(connection, ["one w3", f"new{turn}"], 5, **scope)
            except sqlite3.OperationalError as error:
                stopped.append(str(error))
            connection.set_progress_handler(None, 0)
            if turn % 2:
                check(postings, connection, ["one w3", f"new{turn} w1"], 5, **scope)
        assert 20 < len(stopped) < 60
        assert {*stopped} == {"interrupted"}


@pytest.mark.parametrize(
    "damage",
    [
        "DELETE FROM record_text_docsize WHERE id = 3",
        "UPDATE record_text_docsize SET sz = x'' WHERE id = 3",
        "UPDATE record_text_docsize SET sz = x'80' WHERE id = 9",
        f"UPDATE record_text_docsize SET sz = x'{'FF' * 999}01' WHERE id = 3",
        "UPDATE record_text_data SET block = x'' WHERE id = 1",
        "UPDATE record_text_data SET block = x'08' WHERE id = 1",
        "UPDATE record_text_data SET block = 'odd' WHERE id = 1",
        "UPDATE record_text_data SET block = x'FFFFFFFFFFFF0109' WHERE id = 1",
        f"UPDATE record_text_data SET block = x'{'FF' * 999}0109' WHERE id = 1",
    ],
)
def test_an_index_that_does_not_fit_the_records_is_an_error_of_the_database(damage):
    with closing(make_database()) as connection:
        add(connection, spread(9, "one"))
        connection.execute(damage)
        with pytest.raises(sqlite3.DatabaseError, match="does not match"):
            InvertedIndex().rank(connection, ["one w2 filler"], 5)


# Several connections


def test_a_connection_that_sees_an_earlier_state_is_answered_from_it(tmp_path):
    path, postings = tmp_path / "texts", InvertedIndex()
    with closing(make_database(path)) as writer, closing(open_database(path)) as late:
        writer.execute("PRAGMA journal_mode = WAL")
        for change in (
            lambda: add(writer, spread(9, "one", "two"), "b"),
            lambda: delete_records(writer, ["a"]),
            lambda: writer.execute("UPDATE record SET idx = 1"),
        ):
            add(writer, spread(9, "one"), "a")
            late.execute("BEGIN")
            check(postings, late, ["one", "two w3"])
            change()
            for connection in (writer, late, writer):
                check(postings, connection, ["one", "two w3"], surfaces=["chunk"])
                counts = postings.count_terms(connection, ["one two"])
                assert counts == InvertedIndex().count_terms(connection, ["one two"])
            late.execute("COMMIT")


def test_threads_rank_at_the_same_time_while_texts_change(tmp_path, monkeypatch):
    monkeypatch.setattr(inverted_index_module, "_MAX_NEW_WORDS", 200)
    path, postings = tmp_path / "texts", InvertedIndex()

    def search(number):
        with closing(open_database(path)) as connection:
            for turn in range(15):
                query = f"one w{(number + turn) % 7}"
                with transaction(connection):
                    check(postings, connection, [query, "two"])

    with closing(make_database(path)) as writer, ThreadPoolExecutor(4) as pool:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = OFF")
        add(writer, spread(50, "one", "two"))
        searches = [pool.submit(search, number) for number in range(4)]
        for turn in range(20):
            add(writer, spread(7, "one"), f"b{turn}")
            with transaction(writer):
                delete_records(writer, [f"b{turn - 2}"])
        for each in searches:
            each.result()


def test_queries_together_are_answered_as_one_by_one():
    with closing(make_database()) as connection:
        add(connection, spread(200, "one", "two"))
        queries = ["one w3", "two", "", "w2 w4 filler", "one w3"]
        together = rank(InvertedIndex(), connection, queries, 7)
        assert together == [rank(InvertedIndex(), connection, [query], 7)[0] for query in queries]


# Words


@given(st.text(st.characters(max_codepoint=127)) | st.integers(32_760, 32_780).map(lambda count: "x" * count + " y"))
def test_the_words_of_an_ascii_text_are_those_that_sqlite_would_cut(query):
    """SQLite itself cuts the words of all other texts."""
    for analyser in (Analyser(None), Analyser("en")):
        assert analyser.terms(f"{query} \u0436") == [*analyser.terms(query), "\u0436"]


UNSPACED = {
    "日本語の全文検索エンジン": ["検索", "日本", "全文検索", "語"],
    "署名鍵をローテーションする手順": ["ローテーション", "署名鍵", "鍵"],
    "轮换签名密钥的步骤": ["密钥", "签名"],
    "서명 키를 교체하는 방법을": ["교체", "방법", "키"],
    "การค้นหาข้อมูลในเอกสาร": ["ค้นหา", "ข้อมูล"],
    "ການຄົ້ນຫາຂໍ້ມູນ": ["ຄົ້ນຫາ"],
    "ការស្វែងរកឯកសារ": ["ឯកសារ"],
    "စာရွက်စာတမ်းများ": ["စာတမ်း"],
    "airw 検索v2": ["airw", "検索", "v2"],
}
"""Texts whose script has no spaces between words, with words of each."""


@pytest.mark.asyncio_only
async def test_words_of_scripts_without_spaces_are_found_inside_a_text(tmp_path):
    async with MemoryStore() as memory, SqliteStore(tmp_path / "notes.airw") as sqlite:
        for store in (memory, sqlite):
            await store.apply(Change([put(text, text) for text in UNSPACED]))
            for text, words in UNSPACED.items():
                rankings = await ask(store, Rank(words, 20))
                assert [text in each.artifact_ids for each in rankings] == [True] * len(words), words
            # Letters that are not neighbours are no match.
            assert [len(each) for each in await ask(store, Rank(["日語", "本日"], 5))] == [0, 0]


@given(st.text(st.characters(max_codepoint=0xDFF) | st.sampled_from("ẞğŁ—„🦊ḍ")))
def test_texts_of_other_scripts_are_indexed_as_they_are(text):
    assert space(text, letters=True) == space(text, letters=False) == text


# In the stores


@pytest.mark.asyncio_only
async def test_a_closed_store_keeps_no_postings(tmp_path):
    async with SqliteStore(tmp_path / "notes.airw") as store:
        await store.apply(Change([put("a", "one two", "two")]))
        assert [len(each) for each in await ask(store, Rank(["one", "two"], 5))] == [1, 2]
        assert [*store._indexes.words._latest.postings] == ["on", "two"]
    assert not store._indexes.words.is_used


async def test_a_store_in_memory_follows_its_own_writes():
    async with MemoryStore() as store:
        for turn in range(5):
            await store.apply(Change([put(f"a{turn}", "one two", f"new{turn}")], removals=[f"a{turn - 2}"]))
            found = await ask(store, Rank(["one", f"new{turn}", f"new{turn - 2}"], 5, surfaces=["chunk"]))
            assert [sorted(each.artifact_ids) for each in found] == [
                [f"a{each}" for each in (turn - 1, turn) if each >= 0],
                [f"a{turn}"],
                [],
            ]
