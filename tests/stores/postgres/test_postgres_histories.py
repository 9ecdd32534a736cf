"""After any writes, the store on a server gives what all other stores give."""

import anyio
import numpy as np
import pytest
from hypothesis import given, strategies as st

from airw.protocols import Change, Matching, Rank, ask
from airw.stores import MemoryStore
from airw.testing.changes import put, vector_of
from airw.values.filters import parse_filter
from tests.support.filters import METADATA, OPERANDS, PATHS
from tests.support.histories import (
    FILTERS,
    PUTS,
    STEPS,
    WANTED,
    content,
    expect_alike,
    on_a_server,
    with_all,
)
from tests.support.postgres import fresh_store

pytestmark = pytest.mark.slow


@on_a_server(20)
@given(st.lists(STEPS, min_size=1, max_size=6))
def test_any_sequence_of_writes_gives_the_same_content_in_all_stores(steps):
    async def write(store):
        for puts, removals in steps:
            await content(store)  # reads in between must not matter
            await store.apply(Change(puts, removals=removals))
        return await content(store)

    expect_alike(anyio.run(with_all, write))


@on_a_server(20)
@given(
    st.lists(PUTS, max_size=5, unique_by=lambda each: each.entry.artifact_id),
    st.lists(FILTERS, min_size=1, max_size=4),
    st.sampled_from([None, ["title"], ["chunk", "title"]]),
    st.integers(1, 12),
    st.booleans(),
)
def test_searches_with_filters_rank_alike_in_all_stores(puts, conditions, surfaces, k, per_artifact):
    async def search(store):
        await store.apply(Change(puts))
        found = []
        for condition in conditions:
            options = {"filter": parse_filter(condition), "surfaces": surfaces, "per_artifact": per_artifact}
            points = np.array([vector_of("one"), vector_of("q")], np.float32)
            found += await ask(store, Rank(points, k, **options))
            found += await ask(store, Rank(["one two", "three"], k, **options))
        return {
            "ids": [(list(each.record_ids), list(each.artifact_ids)) for each in found],
            "scores": [each.scores.tolist() for each in found],
        }

    expect_alike(anyio.run(with_all, search))


@on_a_server(20)
@given(st.lists(st.tuples(STEPS, WANTED), min_size=1, max_size=5), st.none() | st.integers(0, 2))
def test_matching_finds_the_same_artifacts_in_all_stores(steps, limit):
    async def follow(store):
        found = []
        for (puts, removals), wanted in steps:
            await store.apply(Change(puts, removals=removals))
            found.append(await ask(store, Matching(wanted, limit=limit)))
        return found

    memory, sqlite, postgres = anyio.run(with_all, follow)
    assert memory == sqlite == postgres


@on_a_server(50)
@given(
    st.lists(METADATA, min_size=1, max_size=5),
    st.lists(st.tuples(PATHS, OPERANDS), max_size=6),
    st.none() | st.integers(0, 2),
)
def test_matching_compares_any_values_as_a_store_in_memory_does(rows, wanted, limit):
    async def match(store):
        await store.apply(Change([put(f"{at}", "x", metadata=fields) for at, fields in enumerate(rows)]))
        return await ask(store, Matching(wanted, limit=limit))

    async def main():
        async with MemoryStore() as memory, fresh_store() as store:
            assert await match(store) == await match(memory)

    anyio.run(main)
