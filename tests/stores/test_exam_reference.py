"""What a `MemoryStore` does with runs, in expected values: the exam compares with it."""

import math

import pytest

from airw.errors import StoreError
from airw.protocols import ArtifactIds, Change, IngestRun, Ledger, ask
from airw.stores import MemoryStore
from airw.testing.changes import put

RUN, LATER, OTHER = IngestRun("notes", "first", {}), IngestRun("notes", "second", {}), IngestRun("mails", "first", {})
ROW = {"held": {"a": "1"}, "é": [1, None, True]}


async def versions_of(store):
    return {entry.artifact_id: entry.version for entry in await ask(store, Ledger())}


@pytest.mark.asyncio_only
async def test_rows_of_a_run_are_read_by_part_and_apart_from_those_of_other_runs():
    async with MemoryStore() as store:
        assert await store.read_run(RUN) is None
        await store.begin_run(RUN, {"of": "notes"})
        await store.begin_run(OTHER, {"of": "mails"})
        for part in (10, 9, 2):
            assert await store.apply_part(RUN, part, {"at": part}, []) == {"at": part}
        row, parts = await store.read_run(RUN)
        assert (row, [*parts.items()]) == ({"of": "notes"}, [(2, {"at": 2}), (9, {"at": 9}), (10, {"at": 10})])
        assert await store.read_run(RUN, [9, 3]) == ({"of": "notes"}, {9: {"at": 9}})
        assert await store.read_run(RUN, []) == ({"of": "notes"}, {})
        assert await store.read_run(OTHER) == ({"of": "mails"}, {})


@pytest.mark.asyncio_only
async def test_a_part_is_written_once_and_with_its_row_or_not_at_all():
    async with MemoryStore() as store:
        await store.begin_run(RUN, {})
        assert await store.apply_part(RUN, 0, ROW, [put("a", "x", version="1")]) == ROW
        for row, puts in ((ROW, [put("b", "y"), put("b", "z")]), ({"held": math.nan}, [put("b", "y")])):
            with pytest.raises(StoreError):
                await store.apply_part(RUN, 1, row, puts)
        assert await store.apply_part(RUN, 0, {}, [put("a", "y", version="2"), put("b", "z")]) == ROW
        assert (await versions_of(store), await store.read_run(RUN)) == ({"a": "1"}, ({}, {0: ROW}))
        await store.forget_run(RUN, [0])
        assert await store.read_run(RUN) == ({}, {})
        assert await store.apply_part(RUN, 0, {}, [put("a", "y", version="2")]) == {}
        assert await versions_of(store) == {"a": "2"}


@pytest.mark.asyncio_only
async def test_a_run_that_was_replaced_or_forgotten_takes_no_part():
    async with MemoryStore() as store:
        await store.begin_run(RUN, {})
        await store.apply_part(RUN, 0, ROW, [put("a", "x")])
        await store.begin_run(LATER, {"later": True})
        assert await store.read_run(RUN) is None
        assert await store.apply_part(RUN, 1, ROW, [put("b", "y")]) is None
        await store.forget_run(RUN, removals=["a"])
        assert await store.read_run(LATER) == ({"later": True}, {})
        await store.forget_run(LATER)
        assert await store.read_run(LATER) is None
        assert await store.apply_part(LATER, 1, ROW, [put("b", "y")]) is None
        assert await ask(store, ArtifactIds()) == ["a"]


@pytest.mark.asyncio_only
async def test_a_part_is_refused_while_the_settings_are_not_what_its_run_needs():
    run = IngestRun("notes", "first", {"embedder_id": "e", "dim": 2})
    async with MemoryStore() as store:
        await store.begin_run(run, {})
        for config in ({}, {"embedder_id": "e"}, {"embedder_id": "f", "dim": 2}):
            await store.apply(Change(config=config))
            assert await store.apply_part(run, 0, ROW, [put("a", "x")]) is None
        assert await ask(store, ArtifactIds()) == []
        await store.apply(Change(config={"embedder_id": "e", "dim": 2, "more": 1}))
        assert await store.apply_part(run, 0, ROW, [put("a", "x")]) == ROW


@pytest.mark.asyncio_only
async def test_a_run_begins_and_ends_with_removals_in_the_same_write():
    async with MemoryStore() as store:
        await store.apply(Change([put(name, "x") for name in "abc"]))
        with pytest.raises(StoreError):
            await store.begin_run(RUN, {"a": math.nan}, removals=["a"])
        assert await ask(store, ArtifactIds()) == ["a", "b", "c"]
        await store.begin_run(RUN, {}, removals=["a", "never there"])
        assert await ask(store, ArtifactIds()) == ["b", "c"]
        await store.forget_run(RUN, removals=["b"])
        assert await ask(store, ArtifactIds()) == ["c"]
