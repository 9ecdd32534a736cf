"""Edges follow the writes of all stores on a file, though they are kept in memory."""

import subprocess
import sys
import tempfile
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.protocols import Change, EdgeLabel, EdgeRow, Edges, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import ArtifactRef, Edge, Link, LinkFilter
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
CHOICES = [
    Edges(NAMES, "both"),
    Edges(NAMES, "in", LinkFilter(types=["r"])),
    Edges(NAMES, limit=1),
    Edges(NAMES, links=LinkFilter(exclude=["r"]), limit=2),
]
ROOT = Path(__file__).parents[2]


async def check_writes(folder, writes):
    path = Path(folder) / "c.airw"
    async with SqliteStore(path) as one, SqliteStore(path) as other, MemoryStore() as memory:
        for puts, removed in writes:
            for store in (one, memory):
                await store.apply(Change(puts, removals=[removed]))
            expected = await memory.read(*CHOICES)
            # The first call of each reads the changes; the second one answers from memory.
            for store in (one, other, other):
                assert await store.read(*CHOICES) == expected


@pytest.mark.slow
@given(writes=WRITES)
@settings(max_examples=examples(10), deadline=None)
def test_edges_follow_the_writes_of_another_store(writes):
    with tempfile.TemporaryDirectory() as folder:
        anyio.run(check_writes, folder, writes)


WRITE = """
import anyio, sys
from airw.protocols import Change
from airw.stores import SqliteStore
from airw.testing.changes import put
from airw.values import Link

async def main():
    async with SqliteStore(sys.argv[1]) as store:
        await store.apply(Change([put("b", "x", links=[Link("a")])], removals=["c"]))

anyio.run(main)
"""


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_edges_follow_the_writes_of_another_process(tmp_path):
    async with SqliteStore(tmp_path / "c.airw") as store:
        await store.apply(Change([put(name, "x", links=[Link("b"), Link("c")]) for name in "abc"]))
        for _ in range(3):
            edges = await ask(store, Edges(["a"], "both"))
        assert edges == [[Edge("a", "b", "related"), Edge("a", "c", "related")]]
        await anyio.to_thread.run_sync(subprocess.check_call, [sys.executable, "-c", WRITE, tmp_path / "c.airw"])
        edges = await ask(store, Edges(["a"], "both"))
        assert edges == [[Edge("a", "b", "related"), Edge("b", "a", "related")]]


@pytest.mark.asyncio_only
async def test_edges_in_memory_are_answered_without_a_reader(tmp_path, monkeypatch):
    async with SqliteStore(tmp_path / "c.airw") as store:
        await store.apply(Change([put(name, "x", links=[Link("b")]) for name in "abc"]))
        expected = [[Edge("a", "b", "related")], [Edge("c", "b", "related")]]
        for _ in range(2):
            assert await ask(store, Edges(["a", "c"])) == expected
        with monkeypatch.context() as patch:
            patch.setattr(store, "_use_reader", None)
            assert await ask(store, Edges(["a", "c"])) == expected
        # A write drops only the rows that it has changed.
        await store.apply(Change([put("c", "x")]))
        assert await ask(store, Edges(["a", "c"])) == [expected[0], []]


@pytest.mark.asyncio_only
async def test_edges_are_those_of_a_file_that_replaces_another(tmp_path):
    for name, links in (("old", "b"), ("new", "ac")):
        async with SqliteStore(tmp_path / f"{name}.airw") as store:
            await store.apply(Change([put(id, "x", links=[Link(end) for end in links]) for id in "abc"]))
    async with SqliteStore(tmp_path / "old.airw") as store:
        for _ in range(3):
            assert await ask(store, Edges(["b"])) == [[]]
        (tmp_path / "new.airw").replace(tmp_path / "old.airw")
        assert await ask(store, Edges(["b"])) == [[Edge("b", "a", "related"), Edge("b", "c", "related")]]


def some_row():
    labels = [
        EdgeLabel("cites", "typed", is_incoming=False, is_foreign=False),
        EdgeLabel("cites", "typed", is_incoming=True, is_foreign=False, weight=0.5),
        EdgeLabel("see", "inline", is_incoming=False, is_foreign=True),
    ]
    return EdgeRow("a", ("b", "c", ArtifactRef("far", "d")), labels)


EDGES = [Edge("a", "b", "cites", "typed"), Edge("c", "a", "cites", "typed", 0.5), Edge("a", ("far", "d"), "see")]


def test_a_row_of_edges_is_like_a_list_of_them():
    row = some_row()
    assert row == EDGES
    assert row == EDGES
    assert [row] == [EDGES]
    assert row != EDGES[:2]
    assert row != "abc"
    assert [*row] == EDGES
    assert (len(row), row[1], row[-1], row[1:], row.index(EDGES[1])) == (3, EDGES[1], EDGES[2], EDGES[1:], 1)
    assert repr(row) == repr(EDGES)
    assert hash(row) == hash(EdgeRow.of(row.id, list(row)))


def test_a_row_is_made_from_edges_once():
    row = EdgeRow.of("a", EDGES)
    assert (row.ends, list(row.labels)) == (some_row().ends, some_row().labels)
    assert EdgeRow.of("a", row) is row


def test_a_row_is_filtered_by_labels():
    row = some_row()
    assert row.select(lambda label: label.type == "cites") == EDGES[:2]
    assert row.select(lambda label: True, 2) == EDGES[:2]
    assert row.select(lambda label: True) is row
    assert row.pick([2, 0]) == [EDGES[2], EDGES[0]]
    assert row.inside == EDGES[:2]
    assert row.inside.inside == EDGES[:2]
