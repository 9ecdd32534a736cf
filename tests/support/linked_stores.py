"""Stores with chosen edges for tests of graphs, and a store that counts its calls."""

from collections import Counter
from contextlib import asynccontextmanager

import numpy as np

from airw.protocols import Change, Edges
from airw.stores import MemoryStore, Wrapper
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record
from tests.support.asked import kind_of

IDS = "abcdefgh"


def change(id, links=(), *, value=None, vectors=((1.0, 0.0),)):
    """Return an artifact with one record per vector."""
    fields = {} if value is None else {"value": value}
    records = [
        Record(Record.make_id(id, "document", number), id, "document", number, f"text of {id}", fields)
        for number in range(len(vectors))
    ]
    entry = LedgerEntry(id, "1", "embedder", "strategy", "extractor", "test", tuple(record.id for record in records))
    rows = np.array(vectors, np.float32).reshape(len(records), -1)
    return ArtifactChange(entry, records, rows, Extraction(list(links), [[id]]))


def link_of(edge):
    if isinstance(edge.target, str):
        return Link(edge.target, edge.type, edge.origin)
    source, target = edge.target
    return Link(target, edge.type, edge.origin, target_source=source)


async def fill(store, edges, *, ids=IDS, values=(), vectors=(), missing=()):
    """Write the artifacts with these ids and those at the ends of the edges.

    The edges become links. Artifacts in `missing` are left out.
    """
    ends = [end for edge in edges for end in (edge.source, edge.target) if isinstance(end, str)]
    links = {id: [] for id in [*ids, *ends] if id not in missing}
    for edge in edges:
        links[edge.source].append(link_of(edge))
    values, vectors = dict(values), dict(vectors)
    await store.apply(Change([
        change(id, own, value=values.get(id), vectors=vectors.get(id, ((1.0, 0.0),))) for id, own in links.items()
    ]))  # fmt: skip


@asynccontextmanager
async def store_of(edges, **options):
    """Open a store in memory with the artifacts and edges of `fill`."""
    async with MemoryStore() as store:
        await fill(store, edges, **options)
        yield store


class Counting(Wrapper):
    """Counts requests by kind, and the most artifacts whose links are read at once."""

    def __init__(self, store):
        super().__init__(store)
        self.calls, self.largest = Counter(), 0

    async def read(self, *requests):
        for request in requests:
            self.calls[kind_of(request)] += 1
            if isinstance(request, Edges):
                self.largest = max(self.largest, len(request.ids))
        return await super().read(*requests)
