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


@asynccontextmanager
async def client(application, **options):
    """Yield a client of an application, without a socket.

    At the end, the application closes what it opened.
    """
    asking = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://127.0.0.1", **options)
    async with application.router.lifespan_context(application), asking:
        yield asking


@asynccontextmanager
async def serve_notes(**options):
    """Yield a client of an application that serves a corpus of notes."""
    async with notes() as corpus, client(app([corpus], **options)) as asking:
        yield asking
