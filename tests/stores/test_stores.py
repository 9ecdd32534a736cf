"""Both stores pass the exam of stores, and laws that Hypothesis tries to break."""

import asyncio

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError, ArgumentKindError, StoreError
from airw.protocols import ChangeFinder, RunKeeper, SchemaReader
from airw.stores import MemoryStore, SqliteStore
from airw.testing import CAPABILITIES, StoreSuite
from airw.testing.changes import put, vector_of
from airw.values import Link
from airw.values.filters import get_field, matches, parse_filter
from tests.support.drawing import examples
from tests.support.histories import FILTERS, PUTS, REFUSED, STEPS, WANTED, content, with_both
from tests.support.internals.step_stores import StepStore
from tests.support.repeats import share_cases

MEMORY = StoreSuite(lambda folder: MemoryStore(), capabilities=CAPABILITIES.keys() - {"persistent", "shared", "steps"})
STEP_SUITE = StoreSuite(lambda folder: StepStore(), capabilities=["steps"])
SQLITE = StoreSuite(
    lambda folder: SqliteStore(folder / "corpus.airw"), capabilities=CAPABILITIES.keys() - {"adjacency", "steps"}
)
MEMORY_CASES, SQLITE_CASES = share_cases(MEMORY, SQLITE)


@pytest.mark.parametrize("case", MEMORY_CASES)
async def test_memory_store(case):
    await MEMORY.check(case)


@pytest.mark.asyncio_only
@pytest.mark.parametrize("case", SQLITE_CASES)
async def test_sqlite_store(case):
    await SQLITE.check(case)


@pytest.mark.parametrize("case", [case for case in STEP_SUITE.cases if "read_step" in case.needs], ids=str)
async def test_a_store_that_reads_steps(case):
    await STEP_SUITE.check(case)


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
def test_a_store_inherits_no_method_of_a_protocol(kind):
    """An inherited method would return `None`."""
    for protocol in kind.__mro__[1:]:
        methods = {name for name, value in vars(protocol).items() if callable(value) and not name.startswith("_")}
        assert not [name for name in methods if getattr(kind, name).__module__.startswith("airw.protocols")]
    assert issubclass(kind, RunKeeper)
    assert issubclass(kind, SchemaReader)
    assert issubclass(kind, ChangeFinder) == (kind is SqliteStore)


@pytest.mark.parametrize(("bad", "message"), REFUSED)
def test_the_error_for_a_change_that_cannot_be_stored_contains_the_value(bad, message):
    async def refuse(store):
        await store.apply([put("kept", "kept one"), put("other", "other")])
        before = await content(store)
        with pytest.raises(StoreError, match=message) as caught:
            await store.apply([put("good", "three"), bad], removals=["other"])
        assert "\n" not in str(caught.value)
        return await content(store) == before

    async def main():
        assert await with_both(refuse) == [True, True]

    anyio.run(main)


@pytest.mark.asyncio_only
async def test_arguments_that_cannot_be_used_are_refused():
    async def ask(store):
        for limit in (-1, True, 1.5, "2"):
            for read in (
                lambda limit=limit: store.unresolved_links(limit=limit),
                lambda limit=limit: store.records_of(["a"], limit=limit),
                lambda limit=limit: store.neighbors([], limit=limit),
                lambda limit=limit: store.matching([("tag", "x")], limit=limit),
            ):
                with pytest.raises(ArgumentError, match="limit must be a whole number of at least 0"):
                    await read()
        for ask in (store.neighbors, store.referrers, store.fan_in):
            with pytest.raises(ArgumentKindError, match="types must be a list of strings"):
                await ask(["a"], types="related")
        with pytest.raises(ArgumentError, match="direction must be one of"):
            await store.neighbors(["a"], direction="up")

    await with_both(ask)


def test_one_store_serves_several_event_loops_one_after_the_other():
    async def write(name):
        async with store.writing():
            await store.apply([put(name, "text")])

    store = MemoryStore()
    anyio.run(write, "a")
    anyio.run(write, "b", backend="trio")
    assert anyio.run(store.artifact_ids) == ["a", "b"]
    anyio.run(store.aclose)


@pytest.mark.asyncio_only
async def test_a_task_cancelled_in_the_middle_of_a_write_leaves_a_whole_store():
    """`asyncio.timeout` cancels in this way, without regard to the shields of anyio."""
    async with MemoryStore() as store:
        changes = [put(f"n{at}", f"three {at}", links=[Link("n0")]) for at in range(300)]
        writing = asyncio.ensure_future(store.apply(changes))
        await asyncio.sleep(0.005)
        writing.cancel()
        await asyncio.wait([writing])
        after = await content(store)
        async with MemoryStore() as fresh:
            await fresh.apply(changes if after["ledger"] else [])
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
            await store.apply(puts, removals=removals)
        return await content(store)

    async def write_at_once(store):
        await store.apply(sorted(final.values(), key=lambda each: each.entry.artifact_id, reverse=True))
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
        await store.apply(puts)
        found = []
        for condition in conditions:
            parsed = parse_filter(condition)
            options = {"filter": parsed, "surfaces": surfaces, "per_artifact": per_artifact}
            for rankings in (
                await store.search_vectors(np.array([vector_of("one"), vector_of("q")], np.float32), k, **options),
                await store.search_text(["one two", "three"], k, **options),
            ):
                for ranking in rankings:
                    assert all(matches(parsed, records[each].metadata) for each in ranking.record_ids)
                    found.append((list(ranking.record_ids), ranking.scores.tolist()))
            kept = {
                each.id
                for each in records.values()
                if matches(parsed, each.metadata) and (surfaces is None or each.surface_kind in surfaces)
            }
            [everything] = await store.search_vectors(vector_of("one")[None], 100, filter=parsed, surfaces=surfaces)
            assert set(everything.record_ids) == kept
            [words] = await store.search_text(["one"], 100, filter=parsed, surfaces=surfaces)
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
            await store.apply(puts, removals=removals)
            kept = {name: each for name, each in kept.items() if name not in removals}
            kept |= {each.entry.artifact_id: each.records for each in puts}
            assert await store.matching(wanted, limit=limit) == [
                [
                    name
                    for name, records in sorted(kept.items())
                    if any(matches_value(value, get_field(each.metadata, field)) for each in records)
                ][:limit]
                for field, value in wanted
            ]

    anyio.run(with_both, follow)
