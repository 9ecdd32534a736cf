"""Operators in a query: phrases, words to leave out, beginnings of words."""

import re
from contextlib import AsyncExitStack

import pytest
from hypothesis import given, settings, strategies as st

import airw
from airw.errors import ArgumentError
from airw.protocols import Change, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Analyser, Contains, read_operators

TEXTS = {
    "a": "the connection pool times out",
    "b": "redis connection and a pool of swimmers",
    "c": "pool connection order reversed",
    "d": "Connecting the connected connectors",
    "e": "a car in a carpet; cars",
    "f": "東京都の鍵 and keys",
    "g": "happy happiness",
    "h": "at -5 degrees, pre-commit with git commit -m",
}


@pytest.fixture(params=["memory", "file"])
def place(request, tmp_path):
    return MemoryStore() if request.param == "memory" else tmp_path / "texts.airw"


def build(place, texts=TEXTS, **options):
    return airw.build(airw.from_mapping(texts, name="texts", embedder="light"), store=place, **options)


async def find(corpus, query, **options):
    hits = await airw.search(corpus, query, k=20, operators=True, **options)
    return {hit.artifact_id for hit in hits}


@pytest.mark.parametrize("mode", ["lexical", "hybrid"])
async def test_each_operator_finds_what_it_says(place, mode):
    expected = {
        '"connection pool"': "a",
        "\u201cconnection pool\u201d": "a",
        '"pools, connections"': "c",
        "connection pool -redis": "acd",
        'pool -"pool connection"': "ab",
        "pool -conn*": "",
        "connec*": "abcd",
        "connecti*": "abcd",
        "connected*": "d",
        "carpet*": "e",
        "CAR*": "e",
        "happine*": "g",
        '"東京都" keys': "f",
        '"の鍵 and keys"': "f",
        '"鍵 keys"': "f",  # words with and without spaces are phrases of their own
        '"order reversed" connec* -swim*': "c",
        "zzz*": "",
    }
    async with build(place) as corpus:
        assert {query: "".join(sorted(await find(corpus, query, mode=mode))) for query in expected} == expected


@pytest.mark.parametrize("beginning", ["capab*", "capabi*", "capabil*", "capability*"])
async def test_a_beginning_finds_words_whose_stems_end_otherwise(place, beginning):
    async with build(place, {"a": "the capability of it", "b": "capable"}) as corpus:
        assert await find(corpus, beginning, mode="lexical") == ({"a", "b"} if beginning == "capab*" else {"a"})


async def test_a_term_without_a_word_in_the_language_of_the_corpus_is_in_no_text():
    async with MemoryStore(language="unicode61") as store:
        await store.apply(Change([put("a", "one")]))
        for contains, found in ((Contains(("\u3099",)), []), (Contains((), ("\u3099",)), ["a"])):
            [ranking] = await ask(store, Rank(["one"], 9, contains=contains))
            assert ranking.artifact_ids == found


@pytest.mark.parametrize("query", ["U.S.", "e.g.", '"e.g."', "a.b"])
async def test_a_query_of_single_letters_finds_them(place, query):
    async with build(place, {"a": "in the U.S., e.g. of a.b", "b": "else"}) as corpus:
        assert await find(corpus, query, mode="lexical") == {"a"}


async def test_a_query_without_operators_finds_what_it_found(place):
    queries = ["at -5 degrees", "git commit -m", "pre-commit", 'a 5" pipe', "* pool *", "con*ion", "connec", "-"]
    async with build(place) as corpus:
        for query in queries:
            assert await airw.search(corpus, query, operators=True) == await airw.search(corpus, query)
        plain = await airw.search(corpus, '"connection pool" -redis', mode="lexical")
        assert {hit.artifact_id for hit in plain} == set("abcd")


async def test_a_document_is_meant_not_one_of_its_texts(place):
    texts = {"a": "redis here", "b": "maple there"}
    source = airw.from_mapping(
        texts, name="texts", embedder="light", strategy=airw.indexing.Chunked(chunk_size=5, overlap=0)
    )
    async with airw.build(source, store=place) as corpus:
        assert await find(corpus, "here there", mode="lexical") == {"a", "b"}
        assert await find(corpus, "here there -redis", mode="lexical") == {"b"}
        assert await find(corpus, "here red*", mode="lexical") == {"a"}


@pytest.mark.parametrize("query", ["-redis", '-"a pool" -redis', "-re*"])
async def test_a_query_of_words_to_leave_out_says_to_add_one(place, query):
    async with build(place) as corpus:
        with pytest.raises(ArgumentError, match=r"^query must have words to search for beside .*; add a word$"):
            await find(corpus, query)


@pytest.mark.parametrize(
    ("every", "problem"),
    [((), "1 to 32 terms, not 0"), (("?!",), "have a word"), (("a b*",), "one word before"), (("x",) * 33, "not 33")],
)
def test_conditions_that_mean_nothing_are_refused(every, problem):
    with pytest.raises(ArgumentError, match=problem):
        Contains(every)


async def test_a_store_that_cannot_look_into_texts_refuses():
    corpus = airw.adapt(search=lambda query, k: [("a", 1.0)], get=lambda ids: ["a pool"] * len(ids))
    assert await find(corpus, "pool") == {"a"}
    with pytest.raises(ArgumentError, match="capability 'phrases'"):
        await find(corpus, '"a pool"')


WORDS = st.sampled_from(
    ["connect", "connection", "connected", "pool", "pools", "happy", "car", "carpet", "the", "東京"]
)
TEXT = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)
TERM = st.one_of(
    st.lists(WORDS, min_size=1, max_size=3).map(" ".join),
    st.sampled_from(["con", "connect", "connecti", "connected", "po", "poo", "car", "carp", "hap", "happy", "th"]).map(
        "{}*".format
    ),
)


def contains_term(texts, term, language):
    """Return whether one of the texts contains a term, by looking at each of its words."""
    if term.endswith("*"):
        return any(word.startswith(term[:-1]) for text in texts for word in text.split())
    words = Analyser(language).terms(term) if "東" not in term else term.split()
    for text in texts:
        own = Analyser(language).terms(text) if "東" not in term else text.split()
        if any(own[at : at + len(words)] == words for at in range(len(own))):
            return True
    return False


@pytest.mark.slow
@given(
    artifacts=st.lists(st.lists(TEXT, min_size=1, max_size=2), min_size=1, max_size=5),
    terms=st.tuples(st.lists(TERM, max_size=2), st.lists(TERM, max_size=2)),
    language=st.sampled_from(["en", None]),
    is_file=st.booleans(),
)
@settings(deadline=None, max_examples=150)
async def test_conditions_hold_for_each_word_of_random_texts(tmp_path_factory, artifacts, terms, language, is_file):
    every, none = terms
    # In the words of a language, one term with letters of both kinds is several phrases.
    every, none = ([t for t in terms if not re.search(r"東京 \w|[a-z] 東京", t)] for terms in (every, none))
    if not every and not none:
        return
    contains = Contains(tuple(every), tuple(none))
    texts = {f"n{number}": own for number, own in enumerate(artifacts)}
    store = (
        SqliteStore(tmp_path_factory.mktemp("texts") / "x.airw", language=language)
        if is_file
        else MemoryStore(language=language)
    )
    async with store:
        await store.apply(Change([put(id, *own) for id, own in texts.items()]))
        vectors = [put("x", "one").vectors[0]]
        import numpy as np

        [dense] = await ask(store, Rank(np.array(vectors), contains=contains, per_artifact=True))
        expected = {
            id
            for id, own in texts.items()
            if all(contains_term(own, term, language) for term in every)
            and not any(contains_term(own, term, language) for term in none)
        }
        assert {*dense.artifact_ids} == expected
        beginnings = [term[:-1] for term in every if term.endswith("*")]
        [lexical] = await ask(store, Rank(["pool"], contains=contains, per_artifact=True))
        with_word = {
            id
            for id in expected
            if any(
                word.startswith(tuple(beginnings)) or contains_term([word], "pool", language)
                for text in texts[id]
                for word in text.split()
            )
        }
        assert {*lexical.artifact_ids} == with_word


async def test_several_corpora_find_what_one_with_all_finds():
    parts = [dict(list(TEXTS.items())[::2]), dict(list(TEXTS.items())[1::2])]
    async with (
        build(MemoryStore()) as whole,
        build(MemoryStore(), parts[0]) as one,
        build(MemoryStore(), parts[1]) as two,
    ):
        for query in ["connec* pool", '"connection pool"', "connection pool -redis", "car*", "zzz*"]:
            both = await airw.discover({"one": one, "two": two}, query, operators=True, min_score=None)
            alone = await airw.discover({"whole": whole}, query, operators=True, min_score=None)
            assert both.query == query
            assert [(hit.artifact_id, hit.score) for hit in both.results] == [
                (hit.artifact_id, hit.score) for hit in alone.results
            ]


@pytest.mark.parametrize("query", ["connec* pool", "connection pool -redis", '"connection pool" car'])
async def test_a_place_that_is_final_stays(query):
    parts = {name: dict([pair]) for name, pair in zip("vwxyz", TEXTS.items(), strict=False)}
    async with AsyncExitStack() as stack:
        corpora = {name: await stack.enter_async_context(build(MemoryStore(), texts)) for name, texts in parts.items()}
        async with airw.discover_stream(corpora, query, operators=True, min_score=None, rel=0, max_k=9) as updates:
            final = []
            async for update in updates:
                if isinstance(update, airw.discovery.SourceAnswered):
                    final.append({n: hit.artifact_id for n, hit in enumerate(update.ranking) if hit in update.final})
                    last = [hit.artifact_id for hit in update.ranking]
        assert all(last[place] == id for places in final for place, id in places.items())


async def test_a_walk_starts_where_the_operators_say():
    async with build(MemoryStore()) as corpus:
        policy = airw.policies.Eager(operators=True, start_k=9)
        async with airw.traverse("connection pool -redis", corpus, policy=policy) as walk:
            hits = [hit.artifact_id async for hit in walk]
    assert {*"acd"} <= {*hits}
    assert "b" not in hits


@pytest.mark.parametrize(
    ("query", "every", "none"),
    [
        ('x "a b"。', ("a b",), ()),
        ('("a b") c', ("a b",), ()),
        ("x -redis, y", (), ("redis,",)),
        ("(foo*) pre(bar*)", ("foo*",), ()),
        ('x "a -b" "c', ("a -b",), ()),
    ],
)
def test_operators_stand_between_spaces_and_punctuation(query, every, none):
    assert read_operators(query).contains == Contains(every, none)


@pytest.mark.parametrize("query", ['-foo.bar"baz x', "東京* 駅", '"!!" foo', 'a "b c"d'])
def test_signs_that_say_nothing_are_left_as_they_are(query):
    assert read_operators(query) == (query, None)


async def test_a_beginning_that_is_several_words_in_the_language_is_a_phrase():
    async with MemoryStore(language="unicode61") as store:
        await store.apply(Change([put("a", "किताब"), put("b", "कताब")]))
        found = await ask(store, Rank(["x"], 9, contains=Contains(("किताब*",))))
        assert found[0].artifact_ids == ["a"]


def test_the_words_to_search_for_have_no_signs():
    query = read_operators('  "connection pool" time* -redis and pre-commit ')
    assert query.text == "connection pool time and pre-commit"
    assert query.contains == Contains(("connection pool", "time*"), ("redis",))
