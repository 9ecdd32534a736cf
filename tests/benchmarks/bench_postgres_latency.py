"""Walks over a PostgreSQL server that is 5 ms away, beside walks over a file.

Each walk commits 64 artifacts, and reads once a step. A read of a server is a round trip for each of its requests. The
reads are counted in a walk of their own.
"""

from functools import partial

import anyio
import pytest

from airw import Corpus, embedder_from, traverse
from airw.policies import (
    Beam,
    Eager,
    LinkWalk,
    Mmr,
    PathCoverage,
    PersonalizedPageRank,
    ReverseDependency,
    Scope,
    Scored,
)
from airw.protocols import Change
from airw.stores import SqliteStore
from airw.testing import ScriptedStore
from airw.testing.changes import put
from airw.values import Link
from tests.benchmarks.results import run_in_turn
from tests.support.postgres import fresh_store, get_server
from tests.support.slow_network import slow_port
from tests.support.vector_corpora import near_centres

QUESTION = "What does a server cost that is 5 ms away?"
COUNT, NODES, ROUNDS = 5_000, 64, 5
EACH_WAY = 0.0025  # seconds
POLICIES = {
    "PathCoverage": PathCoverage(),
    "Beam": Beam(max_depth=None),
    "Beam, with a scope": Beam(max_depth=None, scope=Scope(keep={"c": {"$lt": 9}})),
    "Eager": Eager(select_k=NODES),
    "Eager, shared fields": Eager(select_k=NODES, edges=[("topic", "topic")]),
    "Mmr": Mmr(select_k=NODES),
    "Scored": Scored(select_k=NODES, per_iteration_limit=4),
    "PersonalizedPageRank": PersonalizedPageRank(),
    "LinkWalk": LinkWalk(max_depth=None),
    "LinkWalk, weighted": LinkWalk(max_depth=None, weighted=True),
    "ReverseDependency": ReverseDependency(seeds=["0", "1"], edge_type="a"),
}


def make_changes(texts, vectors):
    """Return artifacts with four links each, most of them to near numbers."""
    return [
        put(
            str(row),
            text,
            metadata={"c": row % 10, "topic": row // 8},
            vectors=[vector],
            links=[Link(str((row * step + step) % COUNT), "ab"[step % 2]) for step in (2, 3, 5, 7)],
        )
        for row, (text, vector) in enumerate(zip(texts, vectors, strict=True))
    ]


async def walk(corpus, query, policy):
    """Walk to the end; return the hits and the summary."""
    async with traverse(query, corpus, policy=policy, node_budget=NODES) as found:
        hits = [hit.artifact_id async for hit in found]
    return hits, found.summary


async def count_reads(corpus, query, policy):
    store = ScriptedStore(corpus.store)
    _, summary = await walk(Corpus(corpus.name, store, corpus.embedder), query, policy)
    return store.reads, summary.steps


@pytest.fixture(scope="module")
def blocking():
    """Return a function that runs async functions in one event loop."""
    with anyio.from_thread.start_blocking_portal() as portal:
        yield portal


@pytest.fixture(scope="module")
def corpora(blocking, make_texts, tmp_path_factory):
    """Return the same corpus twice, and a query."""
    path = tmp_path_factory.mktemp("latency") / "corpus.airw"
    texts, vectors = make_texts(COUNT, rare=True), near_centres(COUNT, 384)
    embedder = embedder_from(lambda given: [vectors[7]] * len(given), id="given", dim=vectors.shape[1])
    changes = make_changes(texts, vectors)
    server = get_server()
    with (
        slow_port(f"{server.folder}/.s.PGSQL.{server.port}", seconds=EACH_WAY) as port,
        blocking.wrap_async_context_manager(SqliteStore(path)) as local,
        blocking.wrap_async_context_manager(fresh_store(f"postgresql://postgres@127.0.0.1:{port}/postgres")) as remote,
    ):
        for start in range(0, COUNT, 1_000):
            for store in (local, remote):
                blocking.call(store.apply, Change(changes[start : start + 1_000]))
        blocking.call(server.execute, "ANALYZE")
        stores = {"SqliteStore, here": local, "airw": remote}
        yield {name: Corpus("notes", store, embedder) for name, store in stores.items()}, " ".join(texts[7].split()[:4])


@pytest.mark.parametrize("name", POLICIES)
def test_a_walk(name, corpora, blocking, results):
    kinds, query = corpora
    ways = {kind: partial(blocking.call, walk, corpus, query, POLICIES[name]) for kind, corpus in kinds.items()}
    answers = [way()[0] for way in ways.values()]
    assert answers[0] == answers[1]
    # Each statement is prepared once per connection, at the cost of a round trip.
    for _ in range(4):
        for way in ways.values():
            way()
    rounds = run_in_turn(ways, rounds=ROUNDS)
    reads, steps = blocking.call(count_reads, kinds["airw"], query, POLICIES[name])
    work = f"{name}, {len(answers[0])} hits, {steps} steps, {reads} reads"
    results.compare(QUESTION, work, rounds, {"SqliteStore, here": None})
