"""Wrong calls of the public API: the error of each, and the argument that it names.

A line of `mistakes.txt` is a Python expression. It is evaluated with the names of `make_world`, then awaited or gone
through. `argument` is the argument of the call that the message names, as the caller wrote it; null if it names none.
"""

import ast
import inspect
import math
import os
import re
import warnings
from contextlib import suppress
from pathlib import Path

import anyio
import numpy as np

import airw
from airw import embedders, evaluation, links, protocols, remote, stores, testing, values, walking
from airw.values import SearchHit, filters

PARTS = ["calls"]
WAYS = ["asyncio", "trio"]
QUICK = ["asyncio"]

CALLS = Path(__file__).with_suffix(".txt")


def record(part, way, folder):
    return rows_of(CALLS, way)


def rows_of(calls, way, more=None):
    """Return the row of each call in a file; all of them see the same world."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    lines = calls.read_text(encoding="utf-8").splitlines()
    return anyio.run(record_calls, [line for line in lines if line and line[0] != "#"], more or {}, backend=way)


async def record_calls(calls, more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        world = await make_world() | more
        rows = {call: await row_of(call, world) for call in calls}
        world["opening"].__await__().close()
    return rows


async def row_of(call, world):
    try:
        await finish(eval(call, world))
    except Exception as error:  # noqa: BLE001 - which one is what the row says
        return {"error": public_name(error), "argument": argument_of(error, call, world)}
    return {"error": None}


def public_name(error):
    """Return the name of the nearest class of an error that a user can name."""
    classes = [each for each in type(error).__mro__ if each.__module__ in ("airw.errors", "builtins")]
    return classes[0].__name__


async def finish(result):
    """Do what a caller does with a result: await it, enter it, or go through it."""
    if inspect.isawaitable(result):
        result = await result
    if hasattr(result, "__aiter__"):
        async for _ in result:
            pass
    elif hasattr(result, "__aenter__") and not isinstance(result, (airw.Corpus, stores.MemoryStore)):
        async with result:
            pass


def argument_of(error, call, world):
    """Return the argument of the call that the message of an error names, or `None`.

    A message names an argument at its beginning, in quotes, or with the value: `k must be …`, `'k'`, `k=5`.
    """
    named = r"^{0}\b|'{0}'|\b{0}=|\bneeds {0}\b"
    found = {name: re.search(named.format(name), str(error)) for name in arguments_of(call, world)}
    places = {name: match.start() for name, match in found.items() if match}
    return min(sorted(places), key=places.get, default=None)


def arguments_of(call, world):
    """Return the names of the arguments that a caller wrote, or forgot."""
    names = set()
    for node in (each for each in ast.walk(ast.parse(call)) if isinstance(each, ast.Call)):
        names |= {keyword.arg for keyword in node.keywords if keyword.arg}
        with suppress(Exception):
            parameters = inspect.signature(eval(ast.unparse(node.func), world)).parameters.values()
            written = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
            needed = {each.name for each in parameters if each.default is each.empty}
            names |= needed | {*written[: len(node.args)]}
    return names - {"options", "args", "kwargs"}


def fail(*_, **__):
    raise RuntimeError("no luck")


class Odd(walking.Policy):
    """A policy that finds the artifact `a`, but one of its methods answers nonsense."""

    max_depth = 2

    def __init__(self, stage=None, answer=None):
        self.stage, self.answer = stage, answer

    def replace(self, stage, answer):
        if self.stage != stage:
            return answer
        return fail() if self.answer is fail else self.answer

    async def seed(self, state, store):
        return self.replace("seed", ["a"])

    async def score(self, state, nodes, store):
        return self.replace("score", [1.0] * len(nodes))

    async def expand(self, state, committed, store):
        return self.replace("expand", [["b"]] * len(committed))

    async def to_hits(self, state, committed, store):
        return self.replace("to_hits", [SearchHit(each.node, "document", 1.0, "text") for each in committed])

    def node_id(self, node):
        return self.replace("node_id", node)

    def select(self, state, frontier):
        return self.replace("select", super().select(state, frontier))

    def stop(self, state):
        return self.replace("stop", answer=False)


class NoPlan:
    """A strategy that returns no plan."""

    id = "none"

    def decompose(self, artifact):
        return None


def embedding(answer, *, dim=8):
    """Return an embedder that returns one answer for any texts."""
    return airw.embedder_from(answer, id="odd", dim=dim)


def change_of(id, vectors):
    """Return what writes an artifact of one record."""
    record = airw.Record(airw.Record.make_id(id, "document", 0), id, "document", 0, "text")
    entry = values.LedgerEntry(id, "1", "hashing", "whole", record_ids=[record.id])
    return [values.ArtifactChange(entry, [record], vectors)]


async def in_a_thread(function, *args, **options):
    """Return what a sync function returns in a thread without an event loop."""
    return await anyio.to_thread.run_sync(lambda: function(*args, **options))


async def make_world():
    """Return the names that the calls use."""
    notes = {
        "a": "Rotate the signing keys. See [[b]].",
        "b": "The keys lie in the vault. See [[c]].",
        "c": "The vault opens for two people.",
    }
    source = airw.from_mapping(notes, name="notes", edge_extractor=links.MarkdownLinks())
    light = embedders.resolve_embedder("light")
    corpus = await airw.build(source, store=stores.MemoryStore(), embedder=light)
    narrow = embedding(lambda texts: np.ones((len(texts), 8)))
    other = await airw.build(airw.from_mapping(notes, name="other"), store=stores.MemoryStore(), embedder=narrow)
    closed = await airw.build(source, store=stores.MemoryStore(), embedder=light)
    await closed.store.aclose()
    hits = await airw.search(corpus, "keys")
    ended = airw.traverse("keys", corpus)
    await airw.top_k(ended)
    text_file = Path("text.md")
    text_file.write_text("{no json")  # noqa: ASYNC240 - nothing else runs
    deep_filter = {"tag": "a"}
    for _ in range(60):
        deep_filter = {"$not": deep_filter}
    things = {
        "Odd": Odd,
        "airw": airw,
        "NoPlan": NoPlan,
        "case": evaluation.DiscoveryCase("keys", ["a"]),
        "cases": [evaluation.DiscoveryCase("keys", ["a"]), evaluation.DiscoveryCase("bread")],
        "change_of": change_of,
        "closed": closed,
        "closed_store": closed.store,
        "corpus": corpus,
        "deep_filter": deep_filter,
        "embedding": embedding,
        "ended": ended,
        "fail": fail,
        "filters": filters,
        "graph": airw.CorpusGraph(corpus),
        "hits": hits,
        "in_a_thread": in_a_thread,
        "inf": math.inf,
        "light": light,
        "light_vector": await light.embed_documents(["keys"]),
        "memory": stores.MemoryStore,
        "mixed": airw.Corpus("mixed", corpus.store, narrow),
        "nan": math.nan,
        "opening": airw.open_corpus("notes"),
        "other": other,
        "remote": remote,
        "selection": airw.select(hits),
        "source": source,
        "store": corpus.store,
        "testing": testing,
        "text_file": str(text_file),
        "zeros": lambda *shape: np.zeros(shape, np.float32),
        "unplaced_hit": SearchHit("a", "document", 1.0, "text"),
    }
    asking = {name: getattr(protocols, name) for name in protocols.__all__}
    return asking | {name: getattr(airw, name) for name in dir(airw)} | things
