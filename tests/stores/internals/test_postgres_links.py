"""Links on a PostgreSQL server are those of the other stores after any writes."""

import random
import string
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings

from airw.protocols import Change, Counts, Edges, LinkCounts, MaxFanIn, Names, Referrers, UnresolvedLinks, ask
from airw.stores import MemoryStore, SqliteStore
from airw.stores.postgres._writing import prepare, write_rows
from airw.stores.postgres.store import PostgresStore
from airw.testing.changes import put
from airw.values import ArtifactRef, Edge, Link, LinkFilter, UnresolvedLink
from tests.support.drawing import examples
from tests.support.link_histories import REFS, STEPS, TYPES, changes
from tests.support.postgres import drop_corpus, fresh_name, fresh_store, server_dsn

pytestmark = [pytest.mark.asyncio_only, pytest.mark.slow]


async def read_all(store):
    """Return the answers about all links, for many questions."""
    refs = [*REFS, "absent", "a\0", "\ud800", "a"]
    nodes = [*refs, *(ArtifactRef("else", ref) for ref in refs), ("oth\0er", "a"), ("none", "a")]
    choices = [
        (LinkFilter(), None),
        (LinkFilter(), 1),
        (LinkFilter(), 0),
        (LinkFilter(types=["r"]), None),
        (LinkFilter(exclude=["r"]), 2),
        (LinkFilter(origins=["typed"]), None),
    ]
    answers = {
        "resolve": await ask(store, Names(refs)),
        "counts": await ask(store, Counts()),
        "by": await ask(store, LinkCounts()),
    }
    for direction in ("out", "in", "both"):
        for links, limit in choices:
            answers[direction, links, limit] = await ask(store, Edges(refs, direction, links=links, limit=limit))
    for types in (None, ["r"], TYPES, []):
        answers["referrers", str(types)] = await ask(store, Referrers(nodes, types=types))
        answers["fan_in", str(types)] = [len(ids) for ids in await ask(store, Referrers(nodes, types=types))]
        answers["most", str(types)] = await ask(store, MaxFanIn(types=types))
    for ids in (None, refs, ["b"], []):
        for limit in (None, 1):
            answers["unresolved", str(ids), limit] = await ask(store, UnresolvedLinks(ids, limit=limit))
    return answers


@asynccontextmanager
async def three_stores(folder):
    async with MemoryStore() as memory, SqliteStore(folder / "l.airw") as file, fresh_store() as server:
        yield memory, file, server


@given(steps=STEPS)
@settings(max_examples=examples(40))
async def test_after_any_writes_links_are_those_of_the_other_stores(steps, tmp_path_factory):
    async with three_stores(tmp_path_factory.mktemp("links")) as stores:
        for puts, removals in steps:
            answers = []
            for store in stores:
                await store.apply(Change(changes(puts), removals=removals))
                answers.append(await read_all(store))
            assert answers[2] == answers[0] == answers[1]


def long_text(seed):
    """Return 10 kB that no server can compress into a key; the first half is the same for all."""
    letters = string.ascii_letters + "éß🦊"
    start = "".join(random.Random(0).choices(letters, k=5_000))
    return start + "".join(random.Random(seed).choices(letters, k=5_000))


async def test_names_types_and_references_of_any_length_are_told_apart(tmp_path):
    kind, name, other, gone, place = map(long_text, range(5))
    one, two = "x" * 2_000, "x" * 1_999 + "y"
    wanted = [Link(one, kind), Link(name, "n"), Link(other, "o"), Link(gone), Link("?", "p", or_ref=name.upper())]
    puts = [
        put(one, names=[[], [name]], fold_case=True, links=[Link(two, kind, "typed"), Link(gone, target_source=place)]),
        put(two, names=[[], [other]], links=[Link(one, weight=0.5), Link(two)]),
        put("a", links=wanted),
    ]
    ids, refs = [one, two, "a", "x" * 300], [one, two, name, name.upper(), other, gone]
    nodes = [*refs, (place, gone)]
    async with three_stores(tmp_path) as stores:
        answers = []
        for store in stores:
            await store.apply(Change(puts))
            found = [await ask(store, Edges(ids, each)) for each in ("out", "in", "both")]
            found += [
                await ask(store, Edges(ids, "both", links=LinkFilter(types=[kind]), limit=1)),
                await ask(store, LinkCounts()),
            ]
            found += [
                await ask(store, Names(refs)),
                await ask(store, Referrers(nodes)),
                [len(ids) for ids in await ask(store, Referrers(nodes))],
            ]
            found += [
                await ask(store, MaxFanIn()),
                await ask(store, UnresolvedLinks()),
                await ask(store, UnresolvedLinks(ids)),
            ]
            await store.apply(Change([put(two)], removals=[one]))
            found += [
                await ask(store, Edges(ids)),
                await ask(store, UnresolvedLinks()),
                await ask(store, Referrers(nodes)),
            ]
            await store.apply(Change([put("b", names=[[name]]), put("c", names=[[other]])]))
            found += [await ask(store, Edges(ids)), await ask(store, UnresolvedLinks()), await ask(store, Names(refs))]
            answers.append(found)
        assert answers[2] == answers[0] == answers[1]


async def test_the_largest_weight_of_several_links_counts():
    wanted = [Link("b", "r", weight=0.5), Link("b", "r", weight=0.85), Link("c", "r"), Link("no", weight=0.25)]
    async with fresh_store() as store:
        await store.apply(Change([put("a", "x", links=wanted), put("b", "x"), put("c", "x")]))
        [out] = await ask(store, Edges(["a"]))
        assert out == [Edge("a", "b", "r", weight=0.85), Edge("a", "c", "r")]
        assert await ask(store, Edges(["b"], "in")) == [out[:1]]
        assert await ask(store, UnresolvedLinks()) == [UnresolvedLink("a", Link("no", weight=0.25))]


async def test_the_largest_fan_in_follows_the_writes_of_others():
    dsn, name = server_dsn(), fresh_name()
    async with PostgresStore(dsn, name) as store, PostgresStore(dsn, name) as other:
        for count in (1, 2, 0, 3):
            await other.apply(Change([put(each, links=[Link("a")]) for each in "bcd"[:count]], removals="bcd"))
            assert [await ask(store, MaxFanIn()) for _ in range(2)] == [count] * 2
            assert await ask(store, MaxFanIn(types=["r"])) == 0
    await drop_corpus(dsn, name)


async def test_pages_of_a_build_are_resolved_without_reading_whole_tables():
    """Right after a bulk load, the server has no statistics."""
    draw, ids = random.Random(5), [f"artifact {at}" for at in range(3_000)]
    count_scans = """
        SELECT sum(seq_scan) FROM pg_stat_xact_user_tables
        WHERE schemaname = current_schema() AND relname IN ('link', 'name')"""
    async with fresh_store() as store:
        for start in range(0, len(ids), 500):
            links = {
                id: [Link(each, or_ref=f"Title {each}") for each in draw.sample(ids, 5)]
                for id in ids[start : start + 500]
            }
            rows = await prepare([put(id, links=links[id], names=[[f"Title {id}"]]) for id in links], "en")

            async def write(connection, rows=rows, removed=tuple(ids[start - 100 : start])):
                before = await connection.fetchval(count_scans)
                await write_rows(connection, rows, removed)
                return await connection.fetchval(count_scans) - before

            assert await store._database.write(write) == 0
        counts = {each.state: each.count for each in await ask(store, LinkCounts())}
        assert set(counts) == {"resolved", "dangling"}
        assert sum(counts.values()) == 5 * 2_500
