"""Requests with malformed values end in an error of this library, with one short line.

A server passes the requests of strangers on. An untyped error would be its own fault, and a message that repeats a
request of megabytes would fill its log.
"""

import datetime
import random
import warnings
from contextlib import AsyncExitStack
from pathlib import Path

import numpy as np
import pytest

import airw
from airw.errors import AirwError, UnknownFieldWarning
from airw.indexing import Chunked, WholeText
from airw.policies import Beam, CollapsedTree, Eager, LinkWalk, PersonalizedPageRank
from airw.sources import from_mapping, from_records
from airw.stores import MemoryStore, SqliteStore
from airw.values import Limits, SearchHit

TEXTS = {"a.md": "rotate the signing keys", "b.md": "bake a loaf of bread", "c.md": "see [a](a.md) and [b](b.md)"}
LONGEST = 1_000


def nest(levels, wrap, inner=1):
    for _ in range(levels):
        inner = wrap(inner)
    return inner


class Plain:
    """An object without a `repr` of its own."""


SCALARS = [
    *(None, True, False, -1, 0, 1, 3, 10**6, 10**9, 2**63, 10**400, 10**5_000, -(10**5_000)),
    *(float("nan"), float("inf"), -float("inf"), 1e308, 0.5, -0.5, 1j),
    *("", " ", "x", "a.md", "hybrid", "rrf", "\ud800", "nul\0", "x\ny", "x" * 100_000, "1" * 5_000, "${x}", "../.."),
    *(b"", b"\xff\xfe", Plain(), datetime.date(2026, 11, 22), Path("nowhere"), np.float64("nan"), np.int64(3)),
]
NESTED = [
    *([], {}, (), set(), [None], ["a.md"], ["\ud800"], ["nul\0"], [1, "x"], {"a": 1}, {1: 2}, {None: None}, {"": ""}),
    *([[]] * 3, ["x"] * 10_000, {"x" * 10_000: 1}, range(3), {"a.md": "text"}, {"text": "T", "title": 1}),
    *(nest(400, lambda part: [part]), nest(400, lambda part: {"x": part}), nest(30, lambda part: [part])),
    *(nest(levels, lambda part: {"$not": part}, {"a": 1}) for levels in (40, 400, 5_000)),
    *(nest(400, lambda part: {"$and": [part]}, {"a": 1}), {"$or": [{"a": 1}] * 6_000}),
]
OPERATORS = ["$eq", "$ne", "$gt", "$lte", "$in", "$nin", "$contains", "$exists", "$foo", "$and", "$or", "$not", "", 1]
# Values that pass the checks, so that requests with one malformed value get further.
PLAUSIBLE = {
    name: values
    for names, values in [
        ("k fetch_k rrf_k max_k start_k seed_k select_k node_budget width batch_size", [1, 3, 10**6]),
        ("alpha rel gap_ratio score min_score bm25_sat_k timeout source_timeout", [0.5, 1]),
        ("surface_index max_depth max_hits max_fanout max_edges max_frontier", [1, 2]),
        ("full force per_artifact weighted count_beyond_limits", [True, False]),
        ("rerank boost formulate progress loader store edge_extractor policy", [None]),
        ("artifact_id id_key text_key text source", ["a.md", "text", "title"]),
        ("on_error", ["raise", "skip"]),
        ("mode seeding", ["dense", "lexical", "hybrid"]),
        ("fusion", ["rrf", "blend"]),
        ("direction", ["in", "out", "both"]),
        ("surfaces", [["document"], ["nothing"], None]),
        ("surface_kind", ["document", None]),
        ("filter", [{"title": "x"}, {"a.b": {"$exists": False}}]),
        ("roots", [["a.md"], []]),
        ("metadata", [{}, {"path": "/nowhere"}, {"skill_path": "x\0"}]),
        ("level", ["metadata", "body", "bundled"]),
        ("disclose_level", ["metadata"]),
        ("strategy", ["top_k", "conservative", None]),
        ("merge", ["rrf", "score"]),
        ("embedder", ["light"]),
        ("surface_weights", [{"document": 2}]),
    ]
    for name in names.split()
}
FIELDS = ["title", "path", "a.b", "", "$x", "\ud800", "x" * 5_000, 'quo"te', 1, None]


class Requests:
    """Random requests, the same for the same seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def value(self):
        return self.random.choice(SCALARS if self.random.random() < 0.6 else NESTED)

    def filter(self, depth=0):
        kind = self.random.random()
        if kind < 0.15 or depth > 4:
            return self.value()
        if kind < 0.3:
            return {self.random.choice(["$and", "$or"]): [self.filter(depth + 1) for _ in range(2)]}
        if kind < 0.4:
            return {"$not": self.filter(depth + 1)}
        field = self.random.choice(FIELDS)
        return {field: self.value() if kind < 0.6 else {self.random.choice(OPERATORS): self.value()}}

    def query(self):
        return "rotate the keys" if self.random.random() < 0.8 else self.value()

    def options(self, names, least=1):
        chosen = self.random.sample(names, self.random.randint(least, min(4, len(names))))
        return {name: self.option(name) for name in chosen}

    def option(self, name):
        if name in PLAUSIBLE and self.random.random() < 0.7:
            return self.random.choice(PLAUSIBLE[name])
        return self.filter() if name == "filter" else self.value()

    def policy(self):
        kind = self.random.choice([Eager, Beam, LinkWalk, PersonalizedPageRank, CollapsedTree])
        names = [name for name in kind.__dataclass_fields__ if not name.startswith("_")]
        return kind(**self.options(names, least=0)) if self.random.random() < 0.8 else self.value()

    def hit(self):
        values = {"artifact_id": "a.md", "surface_kind": "document", "score": 0.5, "text": "x", "surface_index": 0}
        return SearchHit(**{**values, **self.options([*values, "metadata", "source"], least=0)})


SEARCH = ["k", "mode", "filter", "surfaces", "per_artifact", "fusion", "rrf_k", "alpha", "bm25_sat_k", "fetch_k"]
SEARCH += ["rerank", "rerank_text", "rerank_max_chars", "formulate", "surface_weights", "boost"]
DISCOVER = [*SEARCH, "min_score", "strategy", "max_k", "rel", "gap_ratio", "merge", "merge_weights", "merge_rrf_k"]
DISCOVER += ["identity", "source_timeout", "timeout", "disclose_level", "loader", "store", "node_budget"]
WALK = ["max_depth", "node_budget", "timeout"]
BUILD = ["embedder", "full", "force", "batch_size", "edge_extractor", "progress", "on_error"]


async def search(requests, corpus):
    await airw.search(corpus, requests.query(), **requests.options(SEARCH))


async def discover(requests, corpus):
    corpora = requests.random.choice([corpus, [corpus], {"x": corpus}, requests.value()])
    if not isinstance(corpora, str | Path):  # a name would be looked up in the home of the user
        await airw.discover(corpora, requests.query(), **requests.options(DISCOVER))


async def traverse(requests, corpus):
    options = requests.options(WALK, least=0)
    if requests.random.random() < 0.3:
        options["limits"] = Limits(**requests.options([*Limits.__dataclass_fields__]))
    async with airw.traverse(requests.query(), corpus, policy=requests.policy(), **options) as walk:
        async for _ in walk:
            pass


async def disclose(requests, corpus):
    selection = airw.select([requests.hit()], **requests.options(["max_k", "rel", "gap_ratio", "min_score"], least=0))
    options = requests.options(["level", "loader", "store", "expand", "roots"])
    await airw.disclose(selection, **options, **({"corpus": corpus} if "expand" in options else {}))


async def expand(requests, corpus):
    hit = requests.hit() if requests.random.random() < 0.8 else requests.value()
    await airw.expand(hit, corpus, **requests.options(["policy"], least=0))


async def read_records(requests, corpus):
    await airw.corpora.records_for_artifact(
        corpus, requests.option("artifact_id"), **requests.options(["surface_kind"])
    )


async def upsert(requests, corpus):
    items = requests.random.choice([requests.value(), {"new.md": requests.value()}, [requests.value()]])
    await corpus.upsert(items, **requests.options(["on_error"], least=0))


async def delete(requests, corpus):
    await corpus.delete(requests.value())


async def build(requests, corpus):
    items = {"a": requests.value(), "b": {"text": requests.value(), "x": requests.value()}}
    strategy = requests.random.choice([None, WholeText(), Chunked()])
    source = from_mapping(items, name="any", strategy=strategy, embedder="light")
    if requests.random.random() < 0.3:
        source = from_records([requests.value(), {"id": requests.value(), "text": "x"}], name="any", embedder="light")
    options = requests.options(BUILD, least=0)
    embedder = options.get("embedder")
    if not isinstance(embedder, str | Path) or embedder == "light":  # another name would be looked up on the hub
        await airw.build(source, store=MemoryStore(), **options)


async def make_source(requests, corpus):
    options = requests.options(["id_key", "text_key", "metadata_keys", "strategy", "edge_extractor"])
    source = from_records([{"id": 1, "text": "x", "title": "T"}], name="any", embedder="light", **options)
    await airw.build(source, store=MemoryStore())


CALLS = [search, discover, traverse, disclose, expand, read_records, upsert, delete, build, make_source]


async def run_requests(corpus, seed, count):
    """Run requests and return those whose error is not one short line of this library."""
    faults = []
    for number in range(count):
        requests = Requests(f"{seed} {number}")
        call = requests.random.choice(CALLS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnknownFieldWarning)
                await call(requests, corpus)
        except AirwError as error:
            if len(str(error)) > LONGEST or "\n" in str(error):
                faults.append(f"{call.__name__} {number}: {type(error).__name__} of {len(str(error))} characters")
        except Exception as error:  # noqa: BLE001 - this is what must not happen
            faults.append(f"{call.__name__} {number}: {type(error).__name__}: {error!s:.200}")
    return faults


async def test_malformed_requests_end_in_typed_errors_of_one_short_line():
    async with airw.build(from_mapping(TEXTS, name="notes", embedder="light"), store=MemoryStore()) as corpus:
        assert await run_requests(corpus, "quick", 300) == []


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_thousands_of_malformed_requests_end_in_typed_errors(kind, tmp_path):
    async with AsyncExitStack() as stack:
        store = MemoryStore() if kind is MemoryStore else await stack.enter_async_context(SqliteStore(tmp_path / "x"))
        corpus = await airw.build(from_mapping(TEXTS, name="notes", embedder="light"), store=store)
        assert await run_requests(corpus, kind.__name__, 3_000) == []
