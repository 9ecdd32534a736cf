"""Dense search on a PostgreSQL server: exact results, and those of an approximate index."""

from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import numpy as np
import pytest

from airw._base.vectors import unit_rows
from airw.errors import ArgumentError, EmbedderError, EmbedderMismatch, StoreBusy
from airw.protocols import Change, Rank, Vectors, VectorsOf, ask
from airw.stores import MemoryStore, PostgresStore
from airw.values import Record
from airw.values.filters import parse_filter
from tests.support.postgres import fresh_name, fresh_store, get_server, server_dsn
from tests.support.vector_corpora import SHARES, changes_of, fill, iterate_pages, near_topics, search

pytestmark = [pytest.mark.slow, pytest.mark.asyncio_only]


@pytest.fixture
def limit_exact(monkeypatch):
    """Return a function that sets up to how many records there is no index."""

    def set_rows(rows):
        monkeypatch.setattr("airw.stores.postgres._vector_index._EXACT_ROWS", rows)
        monkeypatch.setattr("airw.stores.postgres._vector_index._BUILD_MEMORY", "64MB")

    return set_rows


async def measure_recall(store, exact, queries, **options):
    found, wanted = await search(store, queries, **options), await search(exact, queries, **options)
    assert [len(ids) for ids, _, _ in found] == [len(ids) for ids, _, _ in wanted]
    for _, _, scores in found:
        assert all(one >= other for one, other in pairwise(scores))
    hits = sum(len({*ids} & {*others}) for (ids, _, _), (others, _, _) in zip(found, wanted, strict=True))
    return hits / max(1, sum(len(ids) for ids, _, _ in wanted))


OPTIONS = [
    {"per_artifact": per_artifact, **scope}
    for per_artifact in (False, True)
    for scope in (
        {},
        {"surfaces": ["chunk"]},
        {"surfaces": []},
        {"filter": parse_filter({"half": True})},
        {"filter": parse_filter({"$not": {"n": {"$lt": 150}}}), "surfaces": ["title", "nul\0"]},
    )
]


@pytest.mark.parametrize("kind", ["random", "equal", "zero", "nearly equal"])
async def test_an_exact_search_equals_that_of_other_stores(kind):
    random = np.random.default_rng(2)
    rows = random.standard_normal((200, 4))
    if kind == "equal":
        rows = np.sign(rows)
    elif kind == "zero":
        rows[20:] = 0
    elif kind == "nearly equal":
        rows = rows[random.integers(0, 3, len(rows))] + 1e-7 * random.random(rows.shape)
    vectors = unit_rows(rows, count=len(rows))
    queries = np.concatenate([near_topics(2, 3, dim=4), vectors[:2], np.zeros((1, 4), np.float32)])
    async with fresh_store() as store, MemoryStore() as exact:
        for each in (store, exact):
            assert await search(each, queries) == [([], [], [])] * 5
            await fill(each, vectors)
        for options in OPTIONS:
            for k in (0, 1, 7, 40, 10**18, None):
                assert await search(store, queries, k, **options) == await search(exact, queries, k, **options)
        assert await search(store, queries[:0]) == []


async def test_queries_that_do_not_fit_are_errors():
    async with fresh_store() as store:
        with pytest.raises(EmbedderError, match="NaN"):
            await ask(store, Rank(np.full((1, 3), np.nan, np.float32), 1))
        with pytest.raises(ArgumentError, match="shape"):
            await ask(store, Rank(np.zeros(3, np.float32), 1))
        # No server has vectors so wide.
        widest = np.zeros((1, 70_000), np.float32)
        assert await search(store, widest) == [([], [], [])]
        assert [len(each) for each in await ask(store, Rank(widest, records=["a"]))] == [0]
        await fill(store, near_topics(10, 1))
        for wide in (np.zeros((1, 33), np.float32), widest):
            for call in (
                ask(store, Rank(wide, 0, surfaces=[])),
                ask(store, Rank(wide, 5)),
                ask(store, Rank(wide, among=["a000000"], per_artifact=True)),
                ask(store, Rank(wide, records=[])),
                ask(store, Rank(wide, 5, surfaces=["title"], among=["a000000"])),
            ):
                with pytest.raises(EmbedderMismatch, match=f"{wide.shape[1]} wide, but the stored vectors are 32 wide"):
                    await call


async def test_a_large_corpus_has_an_index_that_finds_nearly_all(limit_exact):
    limit_exact(1_000)
    vectors, queries = near_topics(8_000, 4), near_topics(50, 5)
    async with fresh_store() as store, MemoryStore() as exact:
        await fill(store, vectors[:900])
        assert await store.describe_index() == "all 900 vectors are compared; an index is made above 1000"
        for each in (store, exact):
            await fill(each, vectors)
        assert await store.describe_index() == "an index finds the nearest of 8000 vectors"
        for options in ({}, {"per_artifact": True}, {"surfaces": ["title"]}):
            assert await measure_recall(store, exact, queries, **options) >= 0.98, options
        for field in SHARES:
            for per_artifact in (False, True):
                options = {"filter": parse_filter({field: True}), "per_artifact": per_artifact}
                assert await measure_recall(store, exact, queries, **options) >= 0.98, options
        # All that match are few, or none, or more are wanted than an index is asked for.
        few = parse_filter({"n": {"$in": [5, 6, 7]}})
        for options in ({"filter": few}, {"filter": parse_filter({"n": -1})}, {"k": 3_000}):
            assert await search(store, queries[:2], **options) == await search(exact, queries[:2], **options)


async def test_an_index_follows_the_size_and_width_of_the_corpus(limit_exact):
    limit_exact(1_000)
    async with fresh_store() as store, fresh_store() as other:
        vectors = near_topics(1_500, 6)
        await fill(store, vectors)
        assert "an index finds" in await store.describe_index()
        # New and changed artifacts are found.
        new = near_topics(30, 7)
        await store.apply(Change([*changes_of(new, first=10_000)]))
        assert [ids for _, ids, _ in await search(store, new[:1], 1)] == [["a010000"]]
        # It is kept until the corpus has halved.
        names = [f"a{number:06}" for number in range(500)]
        for count, text in ((200, "an index finds"), (400, "all 330 vectors are compared")):
            async with store.writing():
                await store.apply(Change(removals=names[:count]))
            assert text in await store.describe_index()
        # All artifacts are replaced by those of another embedder in one change.
        await fill(other, vectors)
        wide = near_topics(1_500, 8, dim=16)
        async with other.writing():
            await other.apply(Change([*changes_of(wide)]))
        assert "an index finds" in await other.describe_index()
        assert [ids for _, ids, _ in await search(other, wide[:1], 1)] == [["a000000"]]
        with pytest.raises(EmbedderMismatch):
            await search(other, vectors[:1])


async def test_vectors_too_wide_for_an_index_are_compared(limit_exact):
    limit_exact(0)
    vectors = unit_rows(np.random.default_rng(11).standard_normal((12, 4_096)), count=12)
    async with fresh_store() as store, MemoryStore() as exact:
        for each in (store, exact):
            await fill(each, vectors)
        assert "wider than the 4000 of an index" in await store.describe_index()
        assert await search(store, vectors[:2]) == await search(exact, vectors[:2])


async def test_an_index_that_cannot_be_made_is_a_warning(limit_exact, monkeypatch):
    limit_exact(10)
    statement = "CREATE INDEX {name} ON embedding USING nothing (value)"
    monkeypatch.setattr("airw.stores.postgres._vector_index._CREATE", statement)
    async with fresh_store() as store:
        with pytest.warns(RuntimeWarning, match="the vector index cannot be made"):
            await fill(store, near_topics(30, 12))
        assert "as there is no index yet" in await store.describe_index()
        assert len((await search(store, near_topics(1, 13)))[0][0]) == 10


async def test_others_read_and_write_while_an_index_is_made(limit_exact):
    limit_exact(1_000)
    vectors = near_topics(6_000, 14)
    async with fresh_store() as store:
        answered = 0
        async with anyio.create_task_group() as group:

            async def read():
                nonlocal answered
                number = 50_000
                while True:
                    await search(store, vectors[:1])
                    await store.apply(Change([*changes_of(vectors[:1], first=number)]))
                    answered, number = answered + 1, number + 1

            async with store.writing():
                for page in iterate_pages(changes_of(vectors), 1_000):
                    await store.apply(Change(page))
                group.start_soon(read)
                await anyio.sleep(0.05)
                before = answered
            assert answered > before + 1
            group.cancel_scope.cancel()
        assert "an index finds" in await store.describe_index()


@asynccontextmanager
async def open_transaction(statement):
    """Yield a connection of another program that has made a statement in a transaction."""
    asyncpg = pytest.importorskip("asyncpg")
    connection = await asyncpg.connect(server_dsn())
    try:
        await connection.execute(f"BEGIN ISOLATION LEVEL REPEATABLE READ; {statement}")
        yield connection
    finally:
        await connection.close()


async def test_timeouts_of_a_role_end_no_wait_and_no_build(limit_exact):
    limit_exact(50)
    role = fresh_name("timed")
    limits = {"statement_timeout": "300ms", "lock_timeout": "200ms", "idle_session_timeout": "400ms"}
    async with open_transaction(f"CREATE ROLE {role} LOGIN SUPERUSER") as admin:
        for name, value in limits.items():
            await admin.execute(f"ALTER ROLE {role} SET {name} = '{value}'")
        await admin.execute("COMMIT")
        try:
            await check_waits(get_server().dsn(user=role))
        finally:
            await admin.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


async def check_waits(dsn):
    async with fresh_store(dsn) as store, anyio.create_task_group() as group:
        schema = store._database.schema

        async def wait(_):
            await anyio.sleep(0.6)

        async def write_elsewhere():
            async with open_transaction(f'LOCK TABLE "{schema}".embedding IN ROW EXCLUSIVE MODE'):
                await anyio.sleep(0.6)

        async with store.writing():
            await store.apply(Change([*changes_of(near_topics(90, 30))]))
            # The lock of the builder outlives a session that is idle for long.
            group.start_soon(store._database.write, wait)
            await anyio.sleep(0.1)
            await store.apply(Change([*changes_of(near_topics(90, 31))]))
            with pytest.raises(StoreBusy, match="another builder still holds"):
                async with PostgresStore(dsn, schema.removeprefix("airw_")).writing(timeout=0.5):
                    pass
            await store.apply(Change([*changes_of(near_topics(90, 32))]))
            group.start_soon(write_elsewhere)
            await anyio.sleep(0.1)
        assert "an index finds" in await store.describe_index()


async def list_indexes(store):
    rows = "SELECT indexrelid::regclass::text FROM pg_index WHERE indrelid = 'embedding'::regclass"
    names = await store._database.read(lambda c: c.fetch(rows))
    return [name for (name,) in names if "near" in name]


async def test_an_index_does_not_wait_for_long_transactions(monkeypatch, limit_exact):
    limit_exact(50)
    monkeypatch.setattr("airw.stores.postgres._vector_index._WITHIN", 0.3)
    monkeypatch.setattr("airw.stores.postgres._vector_index._END_WITHIN", 0.3)
    async with fresh_store() as store:
        # One that began before the index: none is begun.
        async with open_transaction("SELECT count(*) FROM pg_class"):
            with anyio.fail_after(10), pytest.warns(RuntimeWarning, match=r"of the process \d+, is open for more than"):
                await fill(store, near_topics(90, 33))
            assert await list_indexes(store) == []
        # One that the index meets only at its end: what was made is dropped, as each write would change it.
        monkeypatch.setattr("airw.stores.postgres._vector_index._OPEN_TRANSACTIONS", "SELECT WHERE false")
        async with open_transaction("SELECT count(*) FROM pg_class"):
            with anyio.fail_after(10), pytest.warns(RuntimeWarning, match="is locked by others"):
                await fill(store, near_topics(90, 33))
            assert await list_indexes(store) == []
        assert "as there is no index yet" in await store.describe_index()
        await fill(store, near_topics(90, 33))
        assert "an index finds" in await store.describe_index()


async def test_vectors_of_another_width_end_the_index_that_is_being_made(recwarn, limit_exact):
    limit_exact(50)
    async with fresh_store() as store:
        await store.apply(Change([*changes_of(near_topics(90, 34))]))

        async def replace_all():
            while not await list_indexes(store):  # noqa: ASYNC110 - the server sends no event
                await anyio.sleep(0.02)
            await store.apply(Change([*changes_of(near_topics(90, 35, dim=16))]))

        # The index waits for this transaction, so that it is not complete.
        lock = f'LOCK TABLE "{store._database.schema}".embedding IN ROW EXCLUSIVE MODE'
        async with open_transaction(lock) as other, anyio.create_task_group() as group, store.writing():
            group.start_soon(replace_all)
            group.start_soon(end_soon, other)
        assert "an index finds" in await store.describe_index()
        assert len(await list_indexes(store)) == 1
    assert not [warning for warning in recwarn if warning.category is RuntimeWarning]


async def end_soon(connection):
    await anyio.sleep(1)
    await connection.execute("COMMIT")


async def test_best_records_of_many_artifacts_equal_those_of_other_stores():
    vectors = near_topics(900, 15)
    async with fresh_store() as store, MemoryStore() as exact:
        for each in (store, exact):
            await fill(each, vectors)
        ids = [*(f"a{number:06}" for number in range(0, 300, 2)), "absent", "nul\0", "a000000"]
        records = [*(Record.make_id(name, "chunk", 1) for name in ids[:-3]), "absent", "\ud800"]
        for surfaces in (None, ["title"], []):
            for asked in (
                Rank(vectors[:1], surfaces=surfaces, among=ids, per_artifact=True),
                Rank(vectors[:1], surfaces=surfaces, records=records),
            ):
                [ours], [theirs] = [await ask(each, asked) for each in (store, exact)]
                assert list(ours.record_ids) == list(theirs.record_ids)
                np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)
        np.testing.assert_array_equal(*[await ask(each, Vectors(records)) for each in (store, exact)])
        ours, theirs = [await ask(each, VectorsOf(ids)) for each in (store, exact)]
        assert ours.record_ids == theirs.record_ids
        np.testing.assert_array_equal(ours.vectors, theirs.vectors)
