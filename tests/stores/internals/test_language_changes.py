"""Searches that run while the language of a file changes."""

import asyncio
import threading

import pytest

from airw.protocols import Change, Rank, ask
from airw.stores import SqliteStore
from airw.testing.changes import put
from airw.values.filters import parse_filter


@pytest.mark.asyncio_only
async def test_a_slow_search_that_began_before_leaves_no_old_answers_behind(tmp_path, monkeypatch):
    has_begun, may_end = threading.Event(), threading.Event()

    async def find(store, **options):
        [ranking] = await ask(store, Rank(["walks"], 50, **options))
        return len(ranking)

    async with SqliteStore(tmp_path / "walks.airw") as store:
        await store.apply(Change([put(f"n{number}", f"walking keys {number}") for number in range(30)]))
        assert await find(store) == 30

        def match_slowly(connection, filter):
            connection.execute("SELECT count(*) FROM record").fetchone()  # from here on it sees the file as it is now
            has_begun.set()
            may_end.wait(20)

        with monkeypatch.context() as patch:
            patch.setattr(store._indexes.filters, "match", match_slowly)
            slow = asyncio.create_task(find(store, filter=parse_filter({"no": {"$ne": 1}})))
            await asyncio.to_thread(has_begun.wait, 10)
            await store.apply(Change(language=None))
            assert await find(store) == 0
            may_end.set()
            await slow
        assert [await find(store) for _ in range(3)] == [0, 0, 0]
