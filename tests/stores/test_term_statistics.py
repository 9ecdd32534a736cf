"""Stores that hold parts of a corpus rank, with pooled counts, as one store with all."""

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError
from airw.protocols import Change, Rank, Words, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put, vector_of
from airw.values import Analyser, TermCounts
from airw.values.filters import parse_filter
from tests.support.drawing import examples

QUERIES = ["one two", "three café 日本 absent", "one one three", "the walks", "?!", ""]
WORDS = ["one", "two", "three", "Café", "日本語 日本", "walked", "filler"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
PUTS = st.builds(
    lambda name, texts, tag: put(name, *texts, kinds=("title", "chunk"), metadata={"tag": tag}, dim=37),
    st.sampled_from("abcdefgh"),
    st.lists(TEXTS, max_size=4),
    st.sampled_from(["x", "y"]),
)
SCOPES = st.fixed_dictionaries(
    {
        "filter": st.sampled_from([None, parse_filter({"tag": "x"})]),
        "surfaces": st.sampled_from([None, ["chunk"], ["title", "chunk"]]),
        "per_artifact": st.booleans(),
    }
)


def merge(rankings, k):
    """Return the best rows of several stores.

    They are ordered by score, then artifact. Ties within an artifact keep their order.
    """
    rows = [
        (-score, artifact_id, record_id)
        for each in rankings
        for score, artifact_id, record_id in zip(each.scores.tolist(), each.artifact_ids, each.record_ids, strict=True)
    ]
    return sorted(rows, key=lambda row: row[:2])[:k]


async def search_as_one(stores, k, scope):
    """Return the rows that several stores rank as if they were one, by words and by vectors."""
    pooled = TermCounts.sum([await ask(store, Words(QUERIES)) for store in stores])
    points = np.array([vector_of(query, 37) for query in QUERIES], np.float32)
    by_words = [await ask(store, Rank(QUERIES, k, **scope, statistics=pooled)) for store in stores]
    by_vectors = [await ask(store, Rank(points, k, **scope)) for store in stores]
    return pooled, [merge(rankings, k) for channel in (by_words, by_vectors) for rankings in zip(*channel, strict=True)]


@pytest.mark.slow
@settings(max_examples=examples(25))
@given(
    puts=st.lists(PUTS, max_size=8, unique_by=lambda each: each.entry.artifact_id),
    member_of=st.lists(st.integers(0, 2), min_size=8, max_size=8),
    earlier=st.lists(PUTS, max_size=3, unique_by=lambda each: each.entry.artifact_id),
    k=st.sampled_from([1, 3, 100]),
    scope=SCOPES,
)
def test_any_split_of_a_corpus_ranks_as_one_store_to_the_last_bit(puts, member_of, earlier, k, scope):
    parts = [[each for each, member in zip(puts, member_of, strict=False) if member == number] for number in range(3)]

    async def main(folder):
        async with AsyncExitStack() as stack:
            members = [MemoryStore(), SqliteStore(folder / "one.airw"), SqliteStore(folder / "two.airw")]
            for store, part in zip(members, parts, strict=True):
                await stack.enter_async_context(store)
                # Artifacts that were written before and removed, or replaced, must not count.
                await store.apply(Change(earlier))
                await ask(store, Words(QUERIES))
                await store.apply(Change(part, removals=[each.entry.artifact_id for each in earlier]))
            whole = await stack.enter_async_context(MemoryStore())
            await whole.apply(Change(puts))
            assert await search_as_one(members, k, scope) == await search_as_one([whole], k, scope)
            # The pooled counts of one store are its own, so they change nothing.
            plain = await ask(whole, Rank(QUERIES, k, **scope))
            _, ranked = await search_as_one([whole], k, scope)
            assert ranked[: len(QUERIES)] == [merge([each], k) for each in plain]

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(main, Path(folder))


@pytest.mark.asyncio_only
async def test_the_counts_are_those_of_the_whole_store(tmp_path):
    async def count(store):
        await store.apply(Change([put("a", "rotate the keys", "keys, keys"), put("b", "the weather")]))
        return await ask(store, Words(["Keys?", "the absent keys and keys", ""]))

    async with MemoryStore() as memory, SqliteStore(tmp_path / "corpus.airw") as sqlite:
        for store in (memory, sqlite):
            counts = await count(store)
            assert (counts.records, counts.words) == (3, 7)
            assert counts.frequencies == {"absent": 0, "kei": 2}
            assert counts.repeats == {"kei": 2}
            assert counts.analyser == Analyser("en")
            assert "words" in store.capabilities
        # A store without words answers, too.
        assert (await ask(memory, Words([]))).frequencies == {}


async def test_statistics_that_do_not_fit_are_refused_by_name():
    async with MemoryStore() as store:
        counts = await ask(store, Words(["keys"]))
        with pytest.raises(ArgumentError, match="no count of the word 'rotat'; pass the sum"):
            await ask(store, Rank(["rotate keys"], 5, statistics=counts))
        other = TermCounts("tf-idf", 1, 1, {"keys": 1})
        with pytest.raises(ArgumentError, match="of the formula 'tf-idf', but this store computes 'bm25"):
            await ask(store, Rank(["keys"], 5, statistics=other))
        with pytest.raises(ArgumentError, match=r"cannot add counts of .*'tf-idf'"):
            TermCounts.sum([counts, other])
        with pytest.raises(ArgumentError, match="only some of the counts contain the word 'lock'"):
            TermCounts.sum([counts, await ask(store, Words(["lock", "keys"]))])
        with pytest.raises(ArgumentError, match="at least one store"):
            TermCounts.sum([])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 0, {}), "records must be a whole number of at least 0, not -1"),
        ((1, 2.5, {}), "words must be a whole number of at least 0, not 2.5"),
        ((1, 10**17, {}), r"words must be at most 2\*\*53"),
        ((1, 1, {"keys": 2}), "'keys' cannot be in 2 of 1 records"),
        ((1, 1, {"keys": None}), "the frequency of 'keys' must be a whole number"),
    ],
)
def test_counts_that_no_store_can_have_are_refused(values, message):
    """BM25 would fail on the logarithm of a negative number, or overflow."""
    with pytest.raises(ArgumentError, match=message):
        TermCounts("bm25", *values)
