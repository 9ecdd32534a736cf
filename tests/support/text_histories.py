"""Histories of odd texts, and queries that compare what two stores find in them."""

from hypothesis import strategies as st

from airw.protocols import Change, Rank, TextLanguage, Words, ask
from airw.testing.changes import put
from airw.values import TermCounts
from airw.values.filters import parse_filter

LONG = "ა" * 11_000  # more bytes than FTS5 indexes of a word
WORDS = st.sampled_from(
    [
        *("one", "one", "one", "two", "two", "ONE", "né", "ne\u0301", "Straße", "字", "東京都", "京", "İx", "walked"),
        *("Walking", "the", "a\0b", "", LONG, "x" * 3_000, "x" * 3_001, "x" * 33_000, "ไทย", "한국어", "क्षि", "😀 b"),
    ]
)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join) | st.integers(0, 400).map(lambda count: "many " * count) | st.text()
NAMES = st.sampled_from("abcdefgh")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["en", "en", None]),
        st.dictionaries(NAMES, st.tuples(st.lists(TEXTS, max_size=4), st.sampled_from("xy")), max_size=4),
        st.lists(NAMES, max_size=2),
    ),
    min_size=1,
    max_size=12,
)
SCOPES = st.fixed_dictionaries(
    {
        "k": st.sampled_from([None, 0, 1, 2, 3, 100]),
        "filter": st.sampled_from([None, parse_filter({"tag": "x"})]),
        "surfaces": st.sampled_from([None, ["chunk"], ["title", "chunk"], ["nul\0"], []]),
        "per_artifact": st.booleans(),
    }
)
QUERIES = [
    LONG,
    "one",
    "two absent",
    "NÉ straße ix 字",
    "東京 京",
    "東京都 one",
    "many one b",
    "many many one",
    "?!",
    "",
]
QUERIES += ["x" * 3_000, "x" * 33_000, "the walks", "walked walking one", "the b", "ไทย 한국 क्षि"]


def rows_of(rankings):
    return [
        ([*zip(each.record_ids, each.artifact_ids, each.scores.tolist(), strict=True)], each.max_score)
        for each in rankings
    ]


async def replay(steps, stores):
    """Write the same history to all stores: languages, puts and removals."""
    for language, puts, removals in steps:
        changes = [
            put(name, *texts, kinds=("title", "chunk"), metadata={"tag": tag}) for name, (texts, tag) in puts.items()
        ]
        for store in stores:
            await store.apply(Change(language=language))
            await store.apply(Change(changes, removals=[name for name in removals if name not in puts]))
            assert await ask(store, TextLanguage()) == language


async def expect_same_words(one, other, scope):
    """Check that two stores have the same counts of words, and rank alike to the last bit."""
    counts = await ask(one, Words(QUERIES))
    assert await ask(other, Words(QUERIES)) == counts
    for statistics in (None, counts, TermCounts.sum([counts, counts])):
        expected = rows_of(await ask(one, Rank(QUERIES, **scope, statistics=statistics)))
        assert rows_of(await ask(other, Rank(QUERIES, **scope, statistics=statistics))) == expected
