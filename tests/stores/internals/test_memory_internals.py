"""Internals of the store in memory: released resources and work that is not repeated."""

import gc
import sqlite3

import pytest

from airw.protocols import Change, Matching, ask
from airw.stores import MemoryStore
from airw.stores._indexes import value_index
from airw.testing.changes import put
from tests.support.waiting import wait_for


async def test_a_forgotten_store_closes_its_database():
    store = MemoryStore()
    await store.apply(Change([put("a", "text")]))
    database, closing = store._content.texts._connection, store._finalizer
    del store
    gc.collect()
    await wait_for(lambda: not closing.alive)  # the worker thread may keep the last reference for a moment
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        database.execute("SELECT 1")


async def test_unchanged_content_is_not_sorted_again(monkeypatch):
    sizes = []
    monkeypatch.setattr(
        value_index, "sort_in_slices", lambda names: (sizes.append(len(names)), sorted(names))[1], raising=False
    )
    async with MemoryStore() as store:
        await store.apply(Change([put(name, "t", metadata={"tag": [name, "all"]}) for name in "cab"]))
        for _ in range(3):
            [names, one] = await ask(store, Matching([("tag", "all"), ("tag", "a")]))
            assert (names, one) == (["a", "b", "c"], ["a"])
            names.clear()
        assert sizes == [3, 1]
        await store.apply(Change([put("d", "t", metadata={"tag": "all"})], removals=["b"]))
        assert await ask(store, Matching([("tag", "all"), ("tag", "a")])) == [["a", "c", "d"], ["a"]]
        assert sizes == [3, 1, 3]


async def test_only_the_most_recently_used_fields_are_remembered():
    async with MemoryStore() as store:
        await store.apply(Change([put("a", "t", metadata={f"f{at}": at for at in range(50)})]))
        for at in [*range(40), 0, 39]:
            assert await ask(store, Matching([(f"f{at}", at)])) == [["a"]]
        assert [*store._content.values] == [*(f"f{at}" for at in range(9, 39)), "f0", "f39"]
