"""Both stores pass the exam of stores, and laws that Hypothesis tries to break."""

import asyncio

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError, ArgumentKindError, StoreError
from airw.protocols import (
    ArtifactIds,
    Change,
    Edges,
    Matching,
    Rank,
    Records,
    RecordsOf,
    Referrers,
    UnresolvedLinks,
    ask,
)
from airw.stores import MemoryStore, SqliteStore
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.changes import put, vector_of
from airw.values import Link
from airw.values.filters import get_field, matches, parse_filter
from tests.support.drawing import examples
from tests.support.histories import FILTERS, PUTS, REFUSED, STEPS, WANTED, content, with_both
from tests.support.repeats import share_cases

MEMORY = StoreSuite(lambda folder: MemoryStore(), capabilities=CAPABILITIES - {"persistent", "shared"})
SQLITE = StoreSuite(lambda folder: SqliteStore(folder / "corpus.airw"), capabilities=CAPABILITIES)
MEMORY_CASES, SQLITE_CASES = share_cases(MEMORY, SQLITE)


@pytest.mark.parametrize("case", MEMORY_CASES)
async def test_memory_store(case):
    await MEMORY.check(case)


@pytest.mark.asyncio_only
@pytest.mark.parametrize("case", SQLITE_CASES)
async def test_sqlite_store(case):
    await SQLITE.check(case)


@pytest.mark.parametrize(("bad", "message"), REFUSED)
def test_the_error_for_a_change_that_cannot_be_stored_contains_the_value(bad, message):
    async def refuse(store):
        await store.apply(Change([put("kept", "kept one"), put("other", "other")]))
        before = await content(store)
        with pytest.raises(StoreError, match=message) as caught:
            await store.apply(Change([put("good", "three"), bad], removals=["other"]))
        assert "\n" not in str(caught.value)
        return await content(store) == before

    async def main():
        assert await with_both(refuse) == [True, True]

    anyio.run(main)


@pytest.mark.parametrize("limit", [-1, True, 1.5, "2"])
@pytest.mark.parametrize(
    "request_up_to",
    [
        lambda limit: RecordsOf(["a"], limit=limit),
        lambda limit: Edges([], limit=limit),
        lambda limit: Matching([("tag", "x")], limit=limit),
        lambda limit: UnresolvedLinks(limit=limit),
    ],
)
def test_a_limit_that_cannot_be_used_is_refused_when_the_request_is_made(request_up_to, limit):
    with pytest.raises(ArgumentError, match="limit must be a whole number of at least 0"):
        request_up_to(limit)


@pytest.mark.asyncio_only
async def test_arguments_that_cannot_be_used_are_refused():
    with pytest.raises(ArgumentError, match="direction must be one of"):
        Edges(["a"], "up")
    with pytest.raises(ArgumentError, match="ids must be a list"):
        Records("a")

    async def refuse_types(store):
        with pytest.raises(ArgumentKindError, match="types must be a list of strings"):
            await ask(store, Referrers(["a"], "related"))

    await with_both(refuse_types)


def test_one_store_serves_several_event_loops_one_after_the_other():
    async def write(name):
        async with store.writing():
            await store.apply(Change([put(name, "text")]))

    store = MemoryStore()
    anyio.run(write, "a")
    anyio.run(write, "b", backend="trio")
    assert anyio.run(ask, store, ArtifactIds()) == ["a", "b"]
    anyio.run(store.aclose)


@pytest.mark.asyncio_only
async def test_a_task_cancelled_in_the_middle_of_a_write_leaves_a_whole_store():
    """`asyncio.timeout` cancels in this way, without regard to the shields of anyio."""
    async with MemoryStore() as store:
        changes = [put(f"n{at}", f"three {at}", links=[Link("n0")]) for at in range(300)]
        writing = asyncio.ensure_future(store.apply(Change(changes)))
        await asyncio.sleep(0.005)
        writing.cancel()
        await asyncio.wait([writing])
        after = await content(store)
        async with MemoryStore() as fresh:
            await fresh.apply(Change(changes if after["ledger"] else []))
            assert after == await content(fresh)


@pytest.mark.slow
@settings(max_examples=examples(40))
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_any_sequence_of_writes_equals_one_fresh_write_of_the_final_content(steps):
    final = {}
    for puts, removals in steps:
        for name in removals:
            final.pop(name, None)
        final |= {each.entry.artifact_id: each for each in puts}

    async def write_step_by_step(store):
        for puts, removals in steps:
            await content(store)  # reads in between must not matter
            await store.apply(Change(puts, removals=removals))
        return await content(store)

    async def write_at_once(store):
        await store.apply(Change(sorted(final.values(), key=lambda each: each.entry.artifact_id, reverse=True)))
        return await content(store)

    async def main():
        memory, sqlite = await with_both(write_step_by_step)
        assert memory == sqlite
        assert await with_both(write_at_once) == [memory, memory]

    anyio.run(main)


@settings(max_examples=examples(40))
@given(
    st.lists(PUTS, max_size=5, unique_by=lambda each: each.entry.artifact_id),
    st.lists(FILTERS, min_size=1, max_size=4),
    st.sampled_from([None, ["title"], ["chunk", "title"]]),
    st.integers(1, 12),
    st.booleans(),
)
def test_filters_keep_what_they_match_and_all_stores_rank_alike(puts, conditions, surfaces, k, per_artifact):
    """Scores, order, ties and the collapse to artifacts are equal bit for bit."""
    records = {record.id: record for each in puts for record in each.records}

    async def search(store):
        await store.apply(Change(puts))
        found = []
        for condition in conditions:
            parsed = parse_filter(condition)
            options = {"filter": parsed, "surfaces": surfaces, "per_artifact": per_artifact}
            for rankings in (
                await ask(store, Rank(np.array([vector_of("one"), vector_of("q")], np.float32), k, **options)),
                await ask(store, Rank(["one two", "three"], k, **options)),
            ):
                for ranking in rankings:
                    assert all(matches(parsed, records[each].metadata) for each in ranking.record_ids)
                    found.append((list(ranking.record_ids), ranking.scores.tolist()))
            kept = {
                each.id
                for each in records.values()
                if matches(parsed, each.metadata) and (surfaces is None or each.surface_kind in surfaces)
            }
            [everything] = await ask(store, Rank(vector_of("one")[None], 100, filter=parsed, surfaces=surfaces))
            assert set(everything.record_ids) == kept
            [words] = await ask(store, Rank(["one"], 100, filter=parsed, surfaces=surfaces))
            assert set(words.record_ids) == {each for each in kept if "one" in records[each].text.split()}
        return found

    async def main():
        memory, sqlite = await with_both(search)
        assert memory == sqlite

    anyio.run(main)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(STEPS, WANTED), min_size=1, max_size=5), st.none() | st.integers(0, 2))
def test_matching_finds_fields_that_equal_the_value_or_contain_it_after_any_writes(steps, limit):
    def matches_value(value, held):
        return value == held or (isinstance(held, list) and value in held)

    async def follow(store):
        kept = {}
        for (puts, removals), wanted in steps:
            await store.apply(Change(puts, removals=removals))
            kept = {name: each for name, each in kept.items() if name not in removals}
            kept |= {each.entry.artifact_id: each.records for each in puts}
            assert await ask(store, Matching(wanted, limit=limit)) == [
                [
                    name
                    for name, records in sorted(kept.items())
                    if any(matches_value(value, get_field(each.metadata, field)) for each in records)
                ][:limit]
                for field, value in wanted
            ]

    anyio.run(with_both, follow)
