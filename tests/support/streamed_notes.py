"""A chain of notes for tests of streams, with a store that counts its calls."""

from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise

from airw import build, from_mapping, traverse
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.policies import LinkWalk
from airw.stores import MemoryStore
from airw.testing import ScriptedStore

NAMES = [f"n{number:02}" for number in range(12)]
TEXTS = {name: f"signing keys, part {number}" for number, name in enumerate(NAMES)}


@asynccontextmanager
async def open_chain(texts=None, *, delays=0.0, failures=None, name="notes", metadata=None):
    """Open a corpus in which each note links to the next; its store is a `ScriptedStore`."""
    texts = TEXTS if texts is None else texts
    ids = [*texts]
    after = dict(pairwise(ids))
    links = extractor_from(lambda name, _: {"next": [after[name]] if name in after else []}, id="chain")
    source = from_mapping(
        texts,
        name=name,
        embedder=HashingEmbedder(dim=32),
        edge_extractor=links,
        metadata_of=lambda name, _: (metadata or {}).get(name, {}),
    )
    async with build(source, store=MemoryStore()) as corpus:
        yield replace(corpus, store=ScriptedStore(corpus.store, delays=delays, failures=failures))


def walk_chain(corpus, *, start=None, **options):
    """Return a walk along the chain, one note a step."""
    roots = [start or NAMES[0]]
    return traverse("keys", corpus, policy=LinkWalk(roots=roots, direction="out", max_depth=None), **options)
