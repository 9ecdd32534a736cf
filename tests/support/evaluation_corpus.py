"""A small corpus with links and cases for tests of evaluation."""

from contextlib import asynccontextmanager

from airw.corpora import build
from airw.evaluation import DiscoveryCase
from airw.links import extractor_from
from airw.sources import from_mapping
from airw.stores import MemoryStore

TEXTS = {
    "keys": "rotate the signing keys every month",
    "vault": "the vault holds what nobody may copy",
    "bread": "bake the bread for an hour",
    "flour": "wheat is milled in the mill by the river",
    "roses": "prune roses in spring",
}
LINKS = {"keys": ["vault"], "bread": ["flour"]}
CASES = [
    DiscoveryCase("signing keys", ["keys", "vault"]),
    DiscoveryCase("how to bake bread", ["bread", "flour"]),
    DiscoveryCase("prune roses", "roses"),
    DiscoveryCase("a winter in Rome"),
]


def small_source():
    """Return a source of five notes, two of which link to another one."""
    links = extractor_from(lambda name, _: {"related": LINKS.get(name, [])}, id="links")
    return from_mapping(TEXTS, name="notes", embedder="light", edge_extractor=links)


@asynccontextmanager
async def small_corpus(store=None):
    """Open a corpus of `small_source`, in memory or in a file."""
    async with build(small_source(), store=store or MemoryStore()) as corpus:
        yield corpus
