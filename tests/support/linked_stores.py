"""Stores that hold given edges, for tests of graphs, and one that notes what it is asked."""

from collections import Counter
from contextlib import asynccontextmanager

import numpy as np

from airw.stores import MemoryStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link, Record

IDS = "abcdefgh"


def change(id, links=(), *, value=None, vectors=((1.0, 0.0),)):
    """Give an artifact of one record for each vector."""
    fields = {} if value is None else {"value": value}
    records = [
        Record(Record.make_id(id, "document", place), id, "document", place, f"text of {id}", fields)
        for place in range(len(vectors))
    ]
    entry = LedgerEntry(id, "1", "embedder", "strategy", "extractor", "test", tuple(each.id for each in records))
    rows = np.array(vectors, np.float32).reshape(len(records), -1)
    return ArtifactChange(entry, records, rows, Extraction(list(links), [[id]]))


def link_of(edge):
    if isinstance(edge.target, str):
        return Link(edge.target, edge.type, edge.origin)
    source, target = edge.target
    return Link(target, edge.type, edge.origin, target_source=source)


async def fill(store, edges, *, ids=IDS, values=(), vectors=(), missing=()):
    """Put all artifacts that edges name, but those that are missing, and those of these ids; the edges as links."""
    ends = [end for edge in edges for end in (edge.source, edge.target) if isinstance(end, str)]
    links = {id: [] for id in [*ids, *ends] if id not in missing}
    for edge in edges:
        links[edge.source].append(link_of(edge))
    values, vectors = dict(values), dict(vectors)
    await store.apply([
        change(id, each, value=values.get(id), vectors=vectors.get(id, ((1.0, 0.0),))) for id, each in links.items()
    ])  # fmt: skip


@asynccontextmanager
async def filled(edges, **options):
    async with MemoryStore() as store:
        await fill(store, edges, **options)
        yield store


class Counting:
    """Counts the calls of a store, and notes the most artifacts it was asked for links of at once."""

    def __init__(self, store):
        self._store, self.calls, self.largest = store, Counter(), 0

    async def neighbors(self, ids, **options):
        self.calls["neighbors"] += 1
        self.largest = max(self.largest, len(ids))
        return await self._store.neighbors(ids, **options)

    async def records_of(self, ids, **options):
        self.calls["records_of"] += 1
        return await self._store.records_of(ids, **options)

    def __getattr__(self, name):
        return getattr(self._store, name)
