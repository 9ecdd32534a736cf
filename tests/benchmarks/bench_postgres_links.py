"""Links on a server: beside the shortest query by hand, a bare COPY, and a file.

20,000 artifacts with ten links each; all link to one more often.
"""

import random
import time
from functools import partial

import pytest
from anyio.from_thread import start_blocking_portal

from airw.stores import SqliteStore
from airw.stores.postgres.store import PostgresStore
from airw.testing.changes import put
from airw.values import Edge, Extraction, Link
from tests.benchmarks.results import run_in_turn
from tests.support.postgres import PostgresServer

QUESTION = "How fast are links on a PostgreSQL server?"
COUNT, DEGREE, PAGE, ROUNDS = 20_000, 10, 1_000, 15
IDS = [f"notes/area-{at % 97}/artifact-{at:06}.md" for at in range(COUNT)]
HUB = IDS[0]
_OUT = "SELECT artifact_id, type, target, origin FROM link WHERE is_covered AND artifact_id = ANY ($1) ORDER BY 1, 2, 3"
_IN = "SELECT target, type, artifact_id, origin FROM link WHERE is_covered AND target = ANY ($1) ORDER BY 1, 2, 3"


def extract(draw):
    return Extraction([*map(Link, draw.sample(IDS, DEGREE)), *[Link(HUB)] * (draw.random() < 0.5)])


@pytest.fixture(scope="module")
def portal():
    with start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def stores(portal, tmp_path_factory):
    """The same links on a server and in a file."""
    folder = tmp_path_factory.mktemp("links")
    with (
        PostgresServer(settings={"shared_buffers": "256MB"}) as server,
        portal.wrap_async_context_manager(PostgresStore(server.dsn(), "links")) as store,
        portal.wrap_async_context_manager(SqliteStore(folder / "links.airw")) as file,
    ):
        draw = random.Random(1)
        for start in range(0, COUNT, PAGE):
            page = [put(id, links=extract(draw).links) for id in IDS[start : start + PAGE]]
            portal.call(store.apply, page)
            portal.call(file.apply, page)
        portal.call(server.execute, "VACUUM ANALYZE")
        yield store, file


async def ask_by_hand(store, ids, sql):
    """Return the edges of artifacts, as a caller would read them from this table."""

    async def ask(connection):
        edges = {id: [] for id in ids}
        for near, type_, far, origin in await connection.fetch(sql, ids):
            source, target = (near, far) if sql == _OUT else (far, near)
            edges[near].append(Edge(source, target, type_, origin))
        return edges

    return await store._database.read(ask)


async def time_of(call):
    start = time.perf_counter()
    await call()
    return time.perf_counter() - start


@pytest.mark.parametrize("direction", ["out", "in"])
def test_neighbors(stores, portal, results, direction):
    store, file = stores
    draw = random.Random(2)
    for ids in ([draw.choice(IDS)], draw.sample(IDS[1:], 100), draw.sample(IDS[1:], 1_000), [HUB]):
        calls = {
            "airw": partial(store.neighbors, ids, direction=direction),
            "a query by hand": partial(ask_by_hand, store, ids, {"out": _OUT, "in": _IN}[direction]),
            "SqliteStore": partial(file.neighbors, ids, direction=direction),
        }
        ways = {name: partial(portal.call, time_of, call) for name, call in calls.items()}
        for way in ways.values():
            way()
        name = "the hub" if ids == [HUB] else f"{len(ids):,} artifacts"
        goals = {"a query by hand": 1.3, "SqliteStore": None}
        results.compare(QUESTION, f"edges of {name}, {direction}", run_in_turn(ways, rounds=ROUNDS), goals)
