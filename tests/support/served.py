"""Applications that serve corpora, asked without a socket."""

from contextlib import asynccontextmanager

import httpx

from airw import build, from_mapping
from airw.links import MarkdownLinks
from airw.serving import app
from airw.stores import MemoryStore

NOTES = {
    "keys.md": "See [[rotation]]. Rotate the signing keys every month.",
    "rotation.md": "A schedule of rotations, for keys and for people.",
    "bread.md": "Bake a loaf of bread. See [[keys]].",
}


def notes(texts=NOTES, name="notes", store=None):
    """Return the opening of a corpus of linked notes in memory."""
    source = from_mapping(texts, name=name, embedder="light", edge_extractor=MarkdownLinks())
    return build(source, store=store or MemoryStore())


def client(application, **options):
    """Return a client of an application; no socket is opened."""
    transport = httpx.ASGITransport(application)
    return httpx.AsyncClient(transport=transport, base_url="http://localhost", **options)


@asynccontextmanager
async def serve_notes(corpora=None, **options):
    """Yield a client of an application with these corpora; by default, one of notes."""
    if corpora is not None:
        async with client(app(corpora, **options)) as asking:
            yield asking
        return
    async with notes() as corpus, client(app([corpus], **options)) as asking:
        yield asking
