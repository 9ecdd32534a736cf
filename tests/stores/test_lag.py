"""A call that answers with very much leaves the event loop to other tasks."""

from itertools import count

import pytest

from airw.protocols import Edges, Rank, Records, RecordsOf, ask
from airw.stores import MemoryStore, SqliteStore
from airw.values.filters import parse_filter
from tests.support.heartbeat import HUB, QUERY, fill_star, least_lag, slow_down

COUNT, GOAL = 100_000, 0.060
CALLS = {
    "neighbors": lambda store, at: ask(store, Edges([HUB], "both")),
    "neighbors with a limit": lambda store, at: ask(store, Edges([HUB], "both", limit=10)),
    "search_vectors": lambda store, at: ask(store, Rank(QUERY, 10**6)),
    "search_text": lambda store, at: ask(store, Rank(["word many"], 10**6)),
    "a filter on a new field": lambda store, at: ask(store, Rank(["word"], 5, filter=parse_filter({"n": {"$gt": at}}))),
    "get_records": lambda store, at: ask(store, Records(store.all_ids)),
}


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_a_long_answer_leaves_the_loop_to_other_tasks(kind, tmp_path):
    async with kind() if kind is MemoryStore else kind(tmp_path / "notes.airw") as store:
        names = await fill_star(store, COUNT)
        store.all_ids = [record.id for [record] in await ask(store, RecordsOf(names))]
        goal, rounds = slow_down(GOAL), count()
        lags = {name: await least_lag(lambda: call(store, next(rounds)), goal) for name, call in CALLS.items()}  # noqa: B023
        assert {name: lag for name, lag in lags.items() if lag > goal} == {}
