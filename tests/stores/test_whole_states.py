"""Each call sees one state of a store, and each change is written whole or not at all."""

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from threading import Event

import anyio
import numpy as np
import pytest

from airw.errors import ArgumentError, EmbedderMismatch, StoreError
from airw.protocols import (
    ArtifactIds,
    Best,
    Change,
    Config,
    Counts,
    Edges,
    Ends,
    Fed,
    Ledger,
    Matching,
    Rank,
    Records,
    RecordsOf,
    TextLanguage,
    VectorsOf,
    ask,
    ask_all,
)
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put
from airw.values import Link
from airw.values.filters import parse_filter
from tests.support.postgres import fresh_store
from tests.support.stored import everything

pytestmark = pytest.mark.asyncio_only  # files and servers need asyncio

MEMBERS = [f"m{number:02}" for number in range(12)]
QUERY = np.full((1, 4), 0.5, np.float32)
STORES = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)]


@asynccontextmanager
async def open_store(kind, folder, **options):
    if kind == "postgres":
        async with fresh_store(**options) as store:
            yield store
    else:
        async with MemoryStore(**options) if kind == "memory" else SqliteStore(folder / "s.airw", **options) as store:
            yield store


def draw_state(draw, tag):
    """Return a change after which a hub and the members to which it links have this tag."""
    names = draw.sample(MEMBERS, draw.randrange(1, len(MEMBERS)))
    puts = [put(name, f"word {tag}", metadata={"tag": tag}, version=tag) for name in names]
    hub = put("hub", f"word {tag}", metadata={"tag": tag}, version=tag, links=[Link(name) for name in names])
    return Change([hub, *puts], removals=[*{*MEMBERS} - {*names}], config={"tag": tag, "size": len(names) + 1})


def tags_of(records):
    return {record.metadata["tag"] for record in records}


async def check_many(store):
    """Answers of all kinds are about the same artifacts."""
    ids, counts, config, words, vectors, entries, edges, matching = await store.read(
        ArtifactIds(),
        Counts(),
        Config(),
        Rank(["word"], 50),
        Rank(QUERY, 50, filter=parse_filter({"tag": {"$ne": "none"}})),
        Ledger(),
        Edges(["hub"]),
        Matching([("tag", "none")]),
    )
    assert counts["artifacts"] == counts["records"] == counts["resolved"] + 1 == config["size"] == len(ids)
    assert sorted(words[0].artifact_ids) == sorted(vectors[0].artifact_ids) == ids
    assert ids == ["hub", *(edge.target for edge in edges[0])]
    assert {entry.version for entry in entries} == {config["tag"]}
    assert matching == [[]]


async def check_quick(store):
    """Check that what is answered from memory is of one state, too."""
    words, vectors, edges, stored = await ask_all(
        store, Rank(["word"], 20), Rank(QUERY, 20), Edges(["hub"]), VectorsOf(["hub", *MEMBERS])
    )
    held = sorted(vectors[0].artifact_ids)
    assert held == sorted(words[0].artifact_ids) == ["hub", *(edge.target for edge in edges[0])]
    assert [bool(ids) for ids in stored.record_ids] == [name in held for name in ["hub", *MEMBERS]]


async def check_chain(store):
    """Check that what feeds a request, and what it finds, are of one state."""
    edges = Edges(["hub"])
    best = Fed(Rank(QUERY, per_artifact=True, among=()), Ends(edges))
    groups = Fed(RecordsOf(()), Ends(edges))
    ends, [ranking], records, found, counts = await store.read(
        edges, best, Fed(Records(()), Best(best)), groups, Counts()
    )
    assert sorted(ranking.artifact_ids) == [edge.target for edge in ends[0]]
    assert [record.id for record in records] == list(ranking.record_ids)
    assert len(tags_of([*records, *(record for group in found for record in group)])) == 1
    assert counts["artifacts"] == len(ends[0]) + 1


async def check_each(store):
    """A record that a call finds has the tag of all others."""
    [words] = await ask(store, Rank(["word"], 3))
    assert len(words) == min(3, len(words))
    first, counts = await ask_all(store, RecordsOf(["hub", *MEMBERS]), Counts())
    held = [group for group in first if group is not None]
    assert len(held) == counts["artifacts"]
    assert len(tags_of(record for group in held for record in group)) == 1


CHECKS = [check_many, check_quick, check_chain, check_each]


async def write_states(store, name, count, has_ended):
    draw = random.Random(name)
    for step in range(count):
        await store.apply(draw_state(draw, f"{name} {step}"))
    has_ended.append(name)


async def check_beside(store, check, is_over):
    checked = 0
    while not is_over() or not checked:
        await check(store)
        checked += 1


@pytest.mark.parametrize("kind", STORES)
async def test_all_answers_of_a_call_are_of_one_state_whoever_writes(kind, tmp_path):
    async with open_store(kind, tmp_path) as store:
        await store.apply(draw_state(random.Random(0), "first"))
        ended = []
        async with anyio.create_task_group() as group:
            for name in "ab":
                group.start_soon(write_states, store, name, 12, ended)
            for check in CHECKS:
                group.start_soon(check_beside, store, check, lambda: len(ended) == 2)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_readers_in_other_threads_and_loops_see_whole_states_too(kind, tmp_path):
    async with open_store(kind, tmp_path) as store:
        await store.apply(draw_state(random.Random(0), "first"))
        ended, is_over = [], Event()
        with ThreadPoolExecutor(len(CHECKS) * 2) as threads:
            readers = [threads.submit(asyncio.run, check_beside(store, check, is_over.is_set)) for check in 2 * CHECKS]
            try:
                async with anyio.create_task_group() as group:
                    for name in "abc":
                        group.start_soon(write_states, store, name, 60, ended)
            finally:
                is_over.set()
            for reader in readers:
                await asyncio.wrap_future(reader)


# Changes


BEFORE = Change(
    [put("a", "walking keys", links=[Link("b")]), put("b", "walks")],
    config={"a": 1},
    calibrations={"one": {"floor": 0.5}},
    language="en",
)
SOUND = {
    "puts": [put("a", "other words"), put("c", "walked")],
    "removals": ["b"],
    "config": {"a": 2},
    "calibrations": {"one": {"floor": 0.9}, "two": {"floor": 0.1}},
    "language": None,
}
_FOREIGN_ID = put("d", "walks")
_FOREIGN_ID.records[0] = _FOREIGN_ID.records[0].__class__(
    put("b", "x").records[0].id, "d", "chunk", 0, "has the id of a record of another artifact"
)
REFUSED = {
    "a config that is no JSON": {"config": {"a": object()}},
    "a config with NaN": {"config": {"a": float("nan")}},
    "a calibration that is no JSON": {"calibrations": {"one": {"floor": 0.9}, "two": {"floor": object()}}},
    "vectors of another width": {"puts": [put("c", "walked", dim=3)], "removals": ["a"]},
    "an artifact twice": {"puts": [put("c", "walked"), put("c", "walked")]},
    "the id of a record of another artifact": {"puts": [_FOREIGN_ID], "removals": []},
    "a text that is none": {"puts": [put("c", "walked"), put("d", "\ud800")]},
    "a language that is none": {"language": "xx"},
}


@pytest.mark.parametrize("fault", REFUSED)
@pytest.mark.parametrize("kind", STORES)
async def test_a_change_that_is_refused_leaves_everything_as_it_was(kind, fault, tmp_path):
    async with open_store(kind, tmp_path) as store:
        await store.apply(BEFORE)
        before = await everything(store), await ask(store, TextLanguage())
        with pytest.raises((StoreError, ArgumentError, EmbedderMismatch)):
            await store.apply(Change(**SOUND | REFUSED[fault]))
        assert (await everything(store), await ask(store, TextLanguage())) == before
        assert len((await ask(store, Rank(["walk"], 9)))[0]) == 2  # as words of the language are cut
        await store.apply(Change(**SOUND))
        assert await store.read(ArtifactIds(), Config(), TextLanguage()) == [["a", "c"], {"a": 2}, None]
        assert [len(each) for each in await ask(store, Rank(["walk", "walked"], 9))] == [0, 1]
