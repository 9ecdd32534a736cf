"""Searches with a filter on 10,000 records in memory, in a file and on a server.

The peer compares the records of the file one by one, which is what columns of values in memory are there to avoid.
"""

import json
import sqlite3
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from anyio.from_thread import start_blocking_portal

from airw.protocols import Change, Rank, ask
from airw.stores import MemoryStore, SqliteStore
from airw.stores.postgres.store import PostgresStore
from airw.testing.changes import put
from airw.values.filters import matches, parse_filter
from tests.benchmarks.results import run_in_turn
from tests.support.postgres import PostgresServer

QUESTION = "How fast is a search with a filter?"
PEER = "one by one"
COUNT, PAGE, DIM, ROUNDS = 10_000, 2_000, 64, 15
QUERY = np.ones((1, DIM), np.float32)
FILTERS = {
    "a number": {"n": 4_321},
    "a range of numbers": {"n": {"$gte": 4_000, "$lt": 7_000}},
    "one of some": {"group": {"$in": [3, 4, 7]}},
    "an item of a list": {"tags": {"$contains": "t3"}},
    "a part of a text": {"name": {"$contains": "43"}},
    "a range of moments": {"at": {"$gte": "2020-06-01T00:00:00+02:00"}},
}


def fields(at):
    day = f"2020-{1 + at % 12:02}-{1 + at % 28:02}T{at % 24:02}:{at % 60:02}:00Z"
    return {"n": at, "group": at % 50, "tags": [f"t{at % 7}", f"t{at % 11}"], "name": f"file-{at}.md", "at": day}


@pytest.fixture(scope="module")
def portal():
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def stores(portal, tmp_path_factory):
    path = tmp_path_factory.mktemp("filters") / "filters.airw"
    with (
        PostgresServer(settings={"shared_buffers": "256MB"}) as server,
        portal.wrap_async_context_manager(PostgresStore(server.dsn(), "filters")) as postgres,
        portal.wrap_async_context_manager(SqliteStore(path)) as file,
        portal.wrap_async_context_manager(MemoryStore()) as memory,
    ):
        stores = {"memory": memory, "a file": file, "a server": postgres}
        for start in range(0, COUNT, PAGE):
            page = [put(f"a{at:05}", "word", dim=DIM, metadata=fields(at)) for at in range(start, start + PAGE)]
            for store in stores.values():
                portal.call(store.apply, Change(page))
        portal.call(server.execute, "VACUUM ANALYZE")
        yield stores, path


@pytest.mark.parametrize("name", FILTERS)
def test_speed_of_filtered_searches(portal, stores, results, name):
    opened, path = stores
    filter = parse_filter(FILTERS[name])

    def compare_all():
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT metadata FROM record")
            assert sum(matches(filter, json.loads(metadata)) for (metadata,) in rows)

    async def search(store):
        [ranking] = await ask(store, Rank(QUERY, 10, filter=filter))
        assert len(ranking)

    ways = {place: partial(portal.call, search, store) for place, store in opened.items()}
    for way in ways.values():
        way()  # the first one reads the field
    rounds = run_in_turn({**ways, PEER: compare_all}, rounds=ROUNDS)
    for place in ways:
        results.compare(QUESTION, f"{name}, {place}", {"airw": rounds[place], PEER: rounds[PEER]}, {PEER: None})
