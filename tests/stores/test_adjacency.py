"""Edges as columns equal those of `neighbors`, whoever writes, and whenever."""

import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import ArgumentError
from airw.protocols import AdjacencyReader
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Edge, Link
from tests.support.drawing import examples

NAMES = ["a", "b", "c", "d"]
LINKS = st.builds(
    Link, st.sampled_from([*NAMES, "T"]), st.sampled_from("rq"), target_source=st.sampled_from([None, None, "else"])
)
PUTS = st.builds(
    put,
    st.sampled_from(NAMES),
    links=st.lists(LINKS, max_size=4),
    names=st.sampled_from([[], [["T"]], [["c"]]]),
)
WRITES = st.lists(
    st.tuples(st.lists(PUTS, max_size=2, unique_by=lambda change: change.entry.artifact_id), st.sampled_from(NAMES)),
    min_size=1,
    max_size=5,
)
CHOICES = [{"direction": "both"}, {"direction": "in", "types": ["r"]}, {"limit": 1}, {"exclude": ["r"], "limit": 2}]
ROOT = Path(__file__).parents[2]


async def columns_of(store, **options):
    columns = await store.neighbor_columns(await store.artifact_numbers(NAMES), **options)
    return columns.to_edges(NAMES)


async def check_writes(folder, writes):
    path = Path(folder) / "c.airw"
    async with SqliteStore(path) as one, SqliteStore(path) as other, MemoryStore() as memory:
        for puts, removed in writes:
            for store in (one, memory):
                await store.apply(puts, removals=[removed])
            for options in CHOICES:
                expected = await memory.neighbors(NAMES, **options)
                assert await columns_of(memory, **options) == expected
                # The first call of each reads the changes; the second one answers from memory.
                for store in (one, other, other):
                    assert await columns_of(store, **options) == expected
                    assert await store.neighbors(NAMES, **options) == expected


@pytest.mark.slow
@given(writes=WRITES)
@settings(max_examples=examples(10), deadline=None)
def test_columns_follow_the_writes_of_another_store(writes):
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check_writes, folder, writes)


WRITE = """
import anyio, sys
from airw.stores import SqliteStore
from airw.testing.changes import put
from airw.values import Link

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        await store.apply([put("b", "x", links=[Link("a")])], removals=["c"])

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_columns_follow_the_writes_of_another_process(tmp_path):
    async with SqliteStore(tmp_path / "c.airw") as store:
        await store.apply([put(name, "x", links=[Link("b"), Link("c")]) for name in "abc"])
        numbers = await store.artifact_numbers(["a"])
        for _ in range(3):
            columns = await store.neighbor_columns(numbers, direction="both")
        assert columns.to_edges(["a"]) == [[Edge("a", "b", "related"), Edge("a", "c", "related")]]
        await anyio.to_thread.run_sync(subprocess.check_call, [sys.executable, "-c", WRITE, tmp_path / "c.airw"])
        columns = await store.neighbor_columns(numbers, direction="both")
        assert columns.to_edges(["a"]) == [[Edge("a", "b", "related"), Edge("b", "a", "related")]]


@pytest.mark.asyncio_only
async def test_edges_in_memory_are_answered_without_a_reader(tmp_path, monkeypatch):
    async with SqliteStore(tmp_path / "c.airw") as store:
        await store.apply([put(name, "x", links=[Link("b")]) for name in "abc"])
        numbers = await store.artifact_numbers(["a", "c"])
        for _ in range(2):
            await store.neighbor_columns(numbers)
        with monkeypatch.context() as patch:
            patch.setattr(store, "_read_index", None)
            assert (await store.neighbor_columns(numbers)).offsets.tolist() == [0, 1, 2]
            assert await store.neighbors(["a"]) == [[Edge("a", "b", "related")]]
        # A write drops only the rows that it has changed.
        await store.apply([put("c", "x")])
        assert (await store.neighbor_columns(numbers)).offsets.tolist() == [0, 1, 1]


@pytest.mark.asyncio_only
async def test_numbers_outlive_a_file_that_is_replaced(tmp_path):
    for name, links in (("old", "b"), ("new", "ac")):
        async with SqliteStore(tmp_path / f"{name}.airw") as store:
            await store.apply([put(id, "x", links=[Link(end) for end in links]) for id in "abc"])
    async with SqliteStore(tmp_path / "old.airw") as store:
        numbers = await store.artifact_numbers(["a", "b"])
        for _ in range(3):
            assert (await store.neighbor_columns(numbers)).to_edges(["a", "b"])[1] == []
        (tmp_path / "new.airw").replace(tmp_path / "old.airw")
        columns = await store.neighbor_columns(numbers)
        assert columns.to_edges(["a", "b"])[1] == [Edge("b", "a", "related"), Edge("b", "c", "related")]
        assert (await store.artifact_numbers(["a", "b"])).tolist() == numbers.tolist()


async def test_a_number_that_is_none_is_refused():
    async with MemoryStore() as store:
        assert isinstance(store, AdjacencyReader)
        assert (await store.neighbor_columns(np.array([-1, -1]))).offsets.tolist() == [0, 0, 0]
        with pytest.raises(ArgumentError, match="not 5"):
            await store.neighbor_columns([5])
