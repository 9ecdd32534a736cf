"""Corpora of a few texts, in memory."""

from airw.corpora import build
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface


def notes(items, **options):
    return from_mapping(items, **{"name": "notes", "embedder": "light", **options})


async def in_memory(items, **options):
    return await build(notes(items, **options), store=MemoryStore())


class Kinds:
    """A strategy that makes one surface from each `(kind, text)`."""

    id = "kinds"

    def decompose(self, artifact):
        return IndexPlan({}, [Surface(artifact.id, kind, text) for kind, text in artifact.raw])
