"""Links have weights: in both stores, and in files of an older format."""

import sqlite3
from contextlib import closing

import pytest

from airw.corpora import check_corpus_file
from airw.errors import ArgumentError, StoreCorrupt
from airw.protocols import Change, Edges, UnresolvedLinks, ask
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Edge, Link, UnresolvedLink

pytestmark = pytest.mark.asyncio_only  # files need asyncio

_TO_FORMAT_6 = (
    "DROP INDEX link_by_target",
    "ALTER TABLE link DROP COLUMN weight",
    "CREATE INDEX link_by_target ON link (target, type, origin, artifact_id) WHERE target IS NOT NULL",
    "PRAGMA user_version = 6",
)
LINKS = [Link("b", "r", weight=0.5), Link("b", "r", weight=0.85), Link("c", "r"), Link("no", weight=0.25)]
WEIGHTS = {"b": 0.85, "c": 1.0}


@pytest.fixture(params=["memory", "sqlite"])
async def store(request, tmp_path):
    async with MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / "w.airw") as store:
        yield store


async def test_both_stores_keep_weights(store):
    await store.apply(Change([put("a", "x", links=LINKS), put("b", "x"), put("c", "x")]))
    [out] = await ask(store, Edges(["a"]))
    assert out == [Edge("a", "b", "r", weight=0.85), Edge("a", "c", "r")]
    [into] = await ask(store, Edges(["b"], "in"))
    assert into == out[:1]
    assert await ask(store, UnresolvedLinks()) == [UnresolvedLink("a", Link("no", weight=0.25))]


async def test_a_file_of_the_format_before_has_weights_of_1_until_they_are_written(tmp_path):
    path = tmp_path / "old.airw"
    async with SqliteStore(path) as store:
        await store.apply(Change([put("a", "x", links=LINKS), put("b", "x"), put("c", "x")]))
    with closing(sqlite3.connect(path)) as connection:
        for statement in _TO_FORMAT_6:
            connection.execute(statement)
    before = path.read_bytes()
    async with await SqliteStore.open(path) as store:
        both = await ask(store, Edges(["a", "b"], "both"))
        assert both == [[Edge("a", "b", "r"), Edge("a", "c", "r")], [Edge("a", "b", "r")]]
        assert await ask(store, UnresolvedLinks()) == [UnresolvedLink("a", Link("no"))]
        assert path.read_bytes() == before
        await store.apply(Change([put("c", "x", links=LINKS)]))
        assert await ask(store, Edges(["c", "a"])) == [[Edge("c", "b", "r", weight=0.85)], both[0]]
    async with await SqliteStore.open(path) as store:
        assert await ask(store, Edges(["b"], "in")) == [[both[1][0], Edge("c", "b", "r", weight=0.85)]]


@pytest.mark.parametrize("weight", ["heavy", -1, 2, b"\0"])
async def test_a_weight_that_airw_never_writes_is_damage(tmp_path, weight):
    path = tmp_path / "odd.airw"
    async with SqliteStore(path) as store:
        await store.apply(Change([put("a", "x", links=[Link("b", weight=0.5)]), put("b", "x")]))
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE link SET weight = ?", [weight])
    assert await check_corpus_file(path) == ["1 links with a wrong weight"]
    async with await SqliteStore.open(path) as store:
        with pytest.raises(StoreCorrupt, match="weight"):
            await ask(store, Edges(["a"]))


@pytest.mark.parametrize("changes", [["PRAGMA user_version = 6"], [*_TO_FORMAT_6, "PRAGMA user_version = 7"]])
async def test_a_file_whose_format_and_columns_disagree_is_damaged(tmp_path, changes):
    path = tmp_path / "odd.airw"
    async with SqliteStore(path) as store:
        await store.apply(Change([put("a", "x")]))
    with closing(sqlite3.connect(path)) as connection:
        for statement in changes:
            connection.execute(statement)
    with pytest.raises(StoreCorrupt, match="links are not those of its format"):
        await SqliteStore.open(path)


@pytest.mark.parametrize("weight", [0, -0.5, 1.01, float("nan"), "1", None])
def test_meaningless_weights_are_refused(weight):
    with pytest.raises(ArgumentError, match=r"weight must be a finite number from 0\.001 to 1, not"):
        Link("a", weight=weight)


def test_weights_are_kept_to_three_decimals_and_shown_if_they_are_not_1():
    assert Link("a", weight=2 / 3).weight == 0.667
    assert repr(Edge("a", "b", "r")) == "Edge(source='a', target='b', type='r', origin='inline')"
    assert repr(Edge("a", "b", "r", weight=0.5)).endswith("origin='inline', weight=0.5)")
    assert Edge("a", "b", "r", weight=0.5) != Edge("a", "b", "r")
