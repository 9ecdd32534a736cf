"""Eager and Mmr on a server, beside graph-retriever over langchain-postgres.

10,000 artifacts with 64-dimensional vectors on one server. Each has the ids of ten others in a field, and a topic. Ten
more fields each name a topic that comes next: the filters of langchain-postgres do not look into lists.
"""

import random
from functools import partial

import anyio
import graph_retriever
import numpy as np
import pytest
from graph_retriever import strategies as theirs
from graph_retriever.adapters.base import Adapter
from langchain_core.embeddings import Embeddings
from langchain_postgres import PGVector

from airw.policies import Eager, Mmr
from airw.stores.postgres.store import PostgresStore
from tests.benchmarks.results import run_in_turn
from tests.support.policy_graphs import COUNT, DEGREE, DIM, QUERY, open_graph, walk_of
from tests.support.postgres import PostgresServer

QUESTION = "How fast are walks on a PostgreSQL server?"
TOPICS, ROUNDS, PAGE = 1_000, 5, 500
EDGES = {"ids": [("links", "$id")], "ten fields": [(f"next {at}", "topic") for at in range(DEGREE)]}
# Edges in a field, the work, both policies, and the goal: how many times faster.
STRATEGIES = [
    (edges, f"{name}, {select_k} hits, over {edges}", own(select_k=select_k, edges=EDGES[edges]), other(select_k), 10)
    for edges in EDGES
    for name, own, select_k, other in (
        ("Eager", Eager, 50, lambda k: theirs.Eager(select_k=k)),
        ("Mmr", Mmr, 100, lambda k: theirs.Mmr(select_k=k)),
    )
]


class GivenVectors(Embeddings):
    """An embedder of langchain that looks up the vector of a text."""

    def __init__(self, vectors):
        self._vectors = vectors

    def embed_documents(self, texts):
        return [self._vectors[text] for text in texts]

    def embed_query(self, text):
        return self._vectors[text]


class PGVectorAdapter(Adapter):
    """What graph-retriever needs of a `PGVector`, for which it has no adapter of its own."""

    def __init__(self, store):
        self._store = store

    def search_with_embedding(self, query, k=4, filter=None, **kwargs):
        embedding = self._store.embeddings.embed_query(query)
        return embedding, self.search(embedding, k, filter)

    def search(self, embedding, k=4, filter=None, **kwargs):
        # The public searches run this query, too, but return no vectors, which graph-retriever needs.
        rows = self._store._PGVector__query_collection(embedding, k, filter) if k else []
        return [to_content(row.EmbeddingStore) for row in rows]

    def get(self, ids, filter=None, **kwargs):
        table = self._store.EmbeddingStore
        with self._store._make_sync_session() as session:
            return [to_content(row) for row in session.query(table).filter(table.id.in_(list(ids)))]


def to_content(row):
    return graph_retriever.Content(row.id, row.document, row.embedding, metadata=row.cmetadata)


@pytest.fixture(scope="module")
def graph():
    """Fields and vectors by id; the query has a vector as well."""
    draw, normal = random.Random(5), np.random.default_rng(5)
    ids = [f"n{at:05}" for at in range(COUNT)]
    fields_of = {
        id: {
            "links": draw.sample(ids, DEGREE),
            "topic": f"t{draw.randrange(TOPICS)}",
            **{f"next {at}": f"t{draw.randrange(TOPICS)}" for at in range(DEGREE)},
        }
        for id in ids
    }
    vectors = dict(zip([*ids, QUERY], normal.standard_normal((COUNT + 1, DIM)).tolist(), strict=True))
    return fields_of, vectors


@pytest.fixture(scope="module")
def server():
    with PostgresServer(settings={"shared_buffers": "256MB"}) as server:
        yield server


@pytest.fixture(scope="module")
def peer(graph, server):
    """The same artifacts in langchain-postgres."""
    fields_of, vectors = graph
    dsn = server.dsn().replace("postgresql://", "postgresql+psycopg://")
    store = PGVector(GivenVectors(vectors), connection=dsn, collection_name="graph", use_jsonb=True)
    ids = [*fields_of]
    for start in range(0, COUNT, PAGE):
        page = ids[start : start + PAGE]
        store.add_embeddings(page, [vectors[id] for id in page], [fields_of[id] for id in page], page)
    yield PGVectorAdapter(store)
    store._engine.dispose()


def test_strategies(graph, server, peer, results):
    with open_graph(graph, PostgresStore(server.dsn(), "graph")) as (corpus, portal):
        portal.call(analyze, server)
        for edges, work, policy, strategy, goal in STRATEGIES:
            own, other = [], []

            def walk_theirs(edges=edges, strategy=strategy, other=other):
                found = anyio.run(
                    partial(graph_retriever.atraverse, QUERY, edges=EDGES[edges], strategy=strategy, store=peer)
                )
                other[:] = [node.id for node in found]

            ways = {"airw": partial(portal.call, walk_of, corpus, policy, own), "graph-retriever": walk_theirs}
            portal.call(walk_of, corpus, policy, own)
            walk_theirs()
            rounds = run_in_turn(ways, rounds=ROUNDS if edges == "ids" else 1)
            results.compare(QUESTION, work, rounds, {"graph-retriever": 1 / goal})
            assert own[0] == other


async def analyze(server):
    """Gather the statistics of all tables, as a server does by itself after a while."""
    await server.execute("VACUUM ANALYZE")
