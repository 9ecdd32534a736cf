"""A graph of 10,000 artifacts for benchmarks of policies, and a walk over it."""

import time
from contextlib import contextmanager
from dataclasses import dataclass

from anyio.from_thread import start_blocking_portal

from airw.corpora import build
from airw.embedders import embedder_from
from airw.links import extractor_from
from airw.sources import from_mapping
from airw.traversal import traverse
from airw.values import IndexPlan, Surface

COUNT, DIM, DEGREE, BUDGET = 10_000, 64, 10, 1_000
QUERY = "query"


@dataclass(frozen=True)
class Whole:
    """A strategy with one surface per artifact, whose text is the id."""

    id: str = "whole"

    def decompose(self, artifact):
        return IndexPlan(artifact.raw, [Surface(artifact.id, "document", artifact.id)])


@contextmanager
def open_graph(graph, store):
    """Yield the corpus in a store, and a function that times walks in its event loop."""
    fields_of, vectors = graph
    source = from_mapping(
        fields_of,
        name="graph",
        strategy=Whole(),
        embedder=embedder_from(lambda texts: [vectors[text] for text in texts], id="given", dim=DIM),
        edge_extractor=extractor_from(lambda _, fields: {"links": fields["links"]}, id="links"),
        metadata_of=lambda _, fields: fields,
    )
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(store) as opened,
        portal.wrap_async_context_manager(build(source, store=opened)) as corpus,
    ):
        yield corpus, portal


async def walk_of(corpus, policy, answers):
    """Return the seconds of a walk; keep the ids of its hits, and the seconds to the first."""
    ids, first, start = [], 0.0, time.perf_counter()
    async with traverse(QUERY, corpus, policy=policy, node_budget=BUDGET) as walk:
        async for hit in walk:
            first = first or time.perf_counter() - start
            ids.append(hit.artifact_id)
    answers[:] = [ids, first]
    return time.perf_counter() - start
