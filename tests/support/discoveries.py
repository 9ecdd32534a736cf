"""Corpora that are slow, fail or hang, for tests of discovery."""

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace

import anyio

from airw import build, from_mapping
from airw.embedders import HashingEmbedder
from airw.protocols import check_able
from airw.stores import MemoryStore, Wrapper
from airw.testing import ScriptedStore

LIGHT = HashingEmbedder()


@asynccontextmanager
async def corpora(texts_by_name, *, delays=None, failures=None, embedders=None, **source):
    """Open a corpus in memory for each name, with delays and failures by name."""
    async with AsyncExitStack() as stack:
        corpora = []
        for name, texts in texts_by_name.items():
            embedder = (embedders or {}).get(name, LIGHT)
            corpus = await stack.enter_async_context(
                build(from_mapping(texts, name=name, embedder=embedder, **source), store=MemoryStore())
            )
            store = ScriptedStore(
                corpus.store, delays=(delays or {}).get(name, 0.0), failures=(failures or {}).get(name)
            )
            corpora.append(replace(corpus, store=store))
        yield corpora


class Without(Wrapper):
    """A store that lacks capabilities which the store behind it has."""

    def __init__(self, store, *lacking):
        super().__init__(store)
        self._lacking = lacking

    @property
    def capabilities(self):
        return {*super().capabilities}.difference(self._lacking)

    async def read(self, *requests):
        check_able(self, *requests)
        return await super().read(*requests)


class Counting:
    """An embedder that records its queries, and delays or fails them."""

    def __init__(self, id, seconds=0.0, error=None):
        self.id, self.dim, self.seconds, self.error, self.queries = id, LIGHT.dim, seconds, error, []

    async def embed_documents(self, texts):
        return await LIGHT.embed_documents(texts)

    async def embed_query(self, text):
        self.queries.append(text)
        await anyio.sleep(self.seconds)
        if self.error:
            raise self.error
        return await LIGHT.embed_query(text)


KEYS = {"k1": "rotate the signing keys", "k2": "store keys in a vault"}
FOOD = {"f1": "bake a loaf of bread", "f2": "keys of the bakery"}
CARS = {"c1": "change the oil", "c2": "the car keys are lost"}
ALL = {"keys": KEYS, "food": FOOD, "cars": CARS}
