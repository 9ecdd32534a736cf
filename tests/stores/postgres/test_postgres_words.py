"""Words on a PostgreSQL server: the same records, order and scores as in a file, after any history."""

import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airw.stores import SqliteStore
from airw.stores.postgres import _word_runs
from airw.testing.changes import put
from airw.values import TermCounts
from airw.values.filters import parse_filter
from tests.support.drawing import examples
from tests.support.postgres import fresh_store

pytestmark = pytest.mark.asyncio_only

LONG = "ა" * 11_000  # it is cut inside a character, which no query can match
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


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(
    steps=STEPS,
    scope=st.fixed_dictionaries(
        {
            "k": st.sampled_from([-1, 0, 1, 2, 3, 100]),
            "filter": st.sampled_from([None, parse_filter({"tag": "x"})]),
            "surfaces": st.sampled_from([None, ["chunk"], ["title", "chunk"], ["nul\0"], []]),
            "per_artifact": st.booleans(),
        }
    ),
    sizes=st.sampled_from([(1 << 20, 512), (64, 2)]),
)
def test_words_rank_as_in_a_file_to_the_last_bit_after_any_history(steps, scope, sizes):
    async def main(folder):
        async with SqliteStore(folder / "words.airw") as file, fresh_store() as server:
            for language, puts, removals in steps:
                changes = [
                    put(name, *texts, kinds=("title", "chunk"), metadata={"tag": tag})
                    for name, (texts, tag) in puts.items()
                ]
                for store in (file, server):
                    await store.set_language(language)
                    await store.apply(changes, removals=[name for name in removals if name not in puts])
                    assert await store.language() == language
            counts = await file.term_statistics(QUERIES)
            assert await server.term_statistics(QUERIES) == counts
            for statistics in (None, counts, TermCounts.sum([counts, counts])):
                expected = rows_of(await file.search_text(QUERIES, **scope, statistics=statistics))
                assert rows_of(await server.search_text(QUERIES, **scope, statistics=statistics)) == expected

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        # Small runs and parts are merged and split after a few texts.
        patch.setattr(_word_runs, "MAX_PAIRS", sizes[0])
        patch.setattr(_word_runs, "_COMMON", sizes[1])
        anyio.run(main, Path(folder))
