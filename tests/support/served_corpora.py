"""Corpora that a test serves: a chain of artifacts whose store counts its calls."""

import asyncio
from collections import deque
from dataclasses import replace
from itertools import pairwise

import anyio
from starlette.responses import JSONResponse
from starlette.routing import Route

from airw import build, from_mapping, protocols
from airw.links import extractor_from
from airw.serving import ServingLimits, app
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from tests.support.heartbeat import Heartbeat

# Each step of this walk commits one more artifact of the chain, at the cost of two calls.
CHAIN_POLICY = {"name": "personalized-page-rank", "params": {"roots": ["n00000"], "width": 1}}
CALLS_A_STEP = 2
CHAIN_WALK = {"corpus": "chain", "query": "keys", "policy": CHAIN_POLICY, "node_budget": 1_000}


def name_at(at):
    return f"n{at:05}"


def make_corpus(texts, links=None, *, name="notes", titles=None, seconds=0.0):
    """Return an open corpus in memory, which any event loop may use.

    `links` has the targets of each artifact by their type. The store takes `seconds` for each call, and counts them.
    """

    async def make():
        extractor = extractor_from(lambda each, _: (links or {}).get(each, {}), id="links")
        fields_of = titles and (lambda each, _: {"title": titles[each]})
        source = from_mapping(texts, name=name, embedder="light", edge_extractor=extractor, metadata_of=fields_of)
        return await build(source, store=MemoryStore())

    corpus = anyio.run(make)
    store = ScriptedStore(corpus.store, delays=seconds)
    store.log = deque(maxlen=100)  # else it grows with each walk
    return replace(corpus, store=store)


def make_chain(count, *, seconds=0.0, text="keys"):
    """Return a corpus of artifacts in a chain; its store takes `seconds` for each call."""
    names = [name_at(at) for at in range(count)]
    links = {source: {"NEXT": [target]} for source, target in pairwise(names)}
    return make_corpus(dict.fromkeys(names, text), links, name="chain", seconds=seconds)


def calls_of(corpus):
    """Return the number of calls that the store of a chain has begun."""
    return corpus.store.calls.total()


def chain_app(options):
    """Return the application of a chain, for `serve_in_process`.

    `limits` are those of the server, and `seconds` may be by the names of kinds of requests. `GET /gap` returns the
    longest time in which the event loop was held up since the last such request, in seconds; see `Heartbeat`.
    """
    limits = ServingLimits(**options.pop("limits", {}))
    if isinstance(options.get("seconds"), dict):
        options["seconds"] = {getattr(protocols, kind): each for kind, each in options["seconds"].items()}
    text = " ".join(["keys"] * options.pop("words", 1))
    application = app([make_chain(**options, text=text)], limits=limits)
    application.router.routes.append(Route("/gap", _Ticker().answer))
    return application


class _Ticker:
    """Measures how long the event loop is held up, by a heartbeat on it."""

    def __init__(self):
        self._heart, self._task = Heartbeat(), None

    async def answer(self, request):
        self._task = self._task or asyncio.create_task(self._heart.beat())
        longest, self._heart.lag = self._heart.lag, 0.0
        return JSONResponse(longest)
