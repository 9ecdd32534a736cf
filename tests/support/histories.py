"""Histories of writes, and the content of a store, to compare stores with each other."""

import math
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, settings, strategies as st

from airw.protocols import (
    ArtifactIds,
    Counts,
    Edges,
    Ledger,
    LinkCounts,
    Matching,
    MaxFanIn,
    Names,
    Rank,
    RecordsOf,
    Referrers,
    UnresolvedLinks,
    Vectors,
    VectorsOf,
    ask,
)
from airw.stores import MemoryStore, SqliteStore
from airw.testing.changes import put, vector_of
from airw.values import Link
from tests.support.drawing import examples
from tests.support.postgres import fresh_store

REFS = ["a", "b", "c", "d", "e", "T", "U"]


async def content(store, queries=("one two", "three")):
    """Return everything that a store returns, to the last bit."""
    names = await ask(store, ArtifactIds())
    records = await ask(store, RecordsOf(names))
    ids = [record.id for each in records for record in each]
    nodes = [*names, *REFS, *(("else", ref) for ref in REFS)]
    grouped, rows = await ask(store, VectorsOf([*names, "absent", *names[:1]]))
    points = np.array([vector_of(query) for query in queries], np.float32)
    rankings = [
        ranking
        for per_artifact in (False, True)
        for ranking in [
            *(await ask(store, Rank(points, 5, per_artifact=per_artifact)) if ids else []),
            *await ask(store, Rank(queries, 5, per_artifact=per_artifact)),
        ]
    ]
    return {
        "ledger": await ask(store, Ledger()),
        "records": records,
        "vectors": (await ask(store, Vectors(ids))).tolist(),
        "vectors_of": [grouped, rows.tolist()],
        "edges": [await ask(store, Edges(names, direction)) for direction in ("out", "in", "both")],
        "meant": await ask(store, Names([*REFS, "absent"])),
        "referrers": [await ask(store, Referrers(nodes, types=types)) for types in (None, ["r"])],
        "fan_in": [
            [[len(ids) for ids in await ask(store, Referrers(nodes))], await ask(store, MaxFanIn(types=types))]
            for types in (None, ["r"])
        ],
        "counts": await ask(store, Counts()),
        "unresolved_links": [await ask(store, UnresolvedLinks()), await ask(store, UnresolvedLinks(REFS, limit=2))],
        "link_counts": await ask(store, LinkCounts()),
        "matching": await ask(
            store, Matching([("tag", "x"), ("n", 1), ("tag", "y"), ("deep.n", 1), ("deep", {"n": 1})])
        ),
        "rankings": [(list(each.record_ids), list(each.artifact_ids)) for each in rankings],
        "scores": [each.scores.tolist() for each in rankings],
    }


REFUSED = [
    (put("bad", "x", vectors=[[1.0, math.nan, 0.0, 0.0]]), "NaN"),
    (put("bad", "x", vectors=[[math.inf, 0.0, 0.0, 0.0]]), "NaN or infinity"),
    (put("bad", "x", dim=3), "3 wide.* 4"),
    (replace(put("bad", "x"), vectors=np.zeros((2, 4), np.float32)), r"\(1, dim\), not \(2, 4\)"),
    (put("bad", "lone \ud800 surrogate"), "surrogate"),
    (put("bad", "x", metadata={"k": "\ud800"}), "surrogate"),
    (put("\ud800", "x"), "surrogate"),
    (put("bad", "x", links=[Link("\ud800")]), "surrogate"),
    (put("bad", "x", links=[Link("a", or_ref="\ud800")]), "surrogate"),
    (put("bad", "x", links=[Link("a", or_ref="\0")]), "NUL"),
    (put("bad", "x", names=[["\ud800"]]), "surrogate"),
    (put("b\0d", "x"), "NUL"),
    (put("good", "put twice"), "puts contains 'good' 2 times"),
    (replace(put("bad", "x"), records=put("kept", "kept one").records), "'kept'.*'bad'"),
    (put("bad", "x", metadata={"k": 10**5_000}), "metadata .* cannot be stored"),
    (replace(put("bad", "x"), records=[replace(put("kept", "x").records[0], artifact_id="bad")]), "make_id"),
]
"""Changes that no store can keep, each with a part of the error."""


WORDS = st.lists(st.sampled_from(["one", "two", "three", "four"]), max_size=4).map(" ".join)
NAMES = st.sampled_from(REFS[:5])
SCALARS = st.none() | st.booleans() | st.integers(-1, 2) | st.sampled_from([0.5, 1.0, "x", "xy", ""])
METADATA = st.fixed_dictionaries(
    {},
    optional={
        "tag": st.lists(st.sampled_from(["x", "y"]), max_size=2) | SCALARS,
        "n": SCALARS,
        "deep": st.fixed_dictionaries({}, optional={"n": SCALARS | st.lists(SCALARS, max_size=2)}),
        "deep.n": SCALARS,
    },
)
LINKS = st.builds(
    Link,
    st.sampled_from(REFS),
    st.sampled_from(["r", "q"]),
    st.sampled_from(["typed", "inline"]),
    st.sampled_from([None, None, None, "else"]),
    or_ref=st.none() | st.sampled_from(REFS),
)
TIERS = st.lists(st.lists(st.sampled_from(["T", "U", "a", "b"]), max_size=2), max_size=3)
PUTS = st.builds(
    lambda name, texts, metadata, links, names: put(
        name, *texts, kinds=("title", "chunk"), metadata=metadata, links=links, names=names
    ),
    NAMES,
    st.lists(WORDS, max_size=3),
    METADATA,
    st.lists(LINKS, max_size=3),
    TIERS,
)
STEPS = st.tuples(
    st.lists(PUTS, max_size=3, unique_by=lambda each: each.entry.artifact_id), st.lists(NAMES, max_size=2)
)
LEAVES = st.one_of(
    st.builds(lambda path, op, value: {path: {op: value}}, st.sampled_from(["tag", "n", "deep.n"]),
              st.sampled_from(["$eq", "$ne", "$gt", "$lte", "$contains"]), SCALARS),
    st.builds(lambda path, op, value: {path: {op: value}}, st.sampled_from(["tag", "n", "deep.n"]),
              st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=2)),
    st.builds(lambda path, flag: {path: {"$exists": flag}}, st.sampled_from(["tag", "deep", "deep.n"]), st.booleans()),
)  # fmt: skip
FILTERS = (
    LEAVES
    | st.builds(lambda parts: {"$or": parts}, st.lists(LEAVES, max_size=2))
    | LEAVES.map(lambda part: {"$not": part})
)


async def with_both(use):
    """Return the results of `use(store)` for a fresh store of each kind."""
    results = []
    async with MemoryStore() as store:
        results.append(await use(store))
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore(Path(folder) / "corpus.airw") as store:
            results.append(await use(store))
    return results


FIELDS = st.sampled_from(["tag", "n", "deep.n", "deep", "none"])
WANTED = st.lists(st.tuples(FIELDS, SCALARS | st.lists(SCALARS, max_size=2)), max_size=6)


async def with_all(use):
    """Return the results of `use(store)` for a fresh store of each kind.

    The last is on a server.
    """
    results = await with_both(use)
    async with fresh_store() as store:
        results.append(await use(store))
    return results


def expect_alike(results):
    """Check that all results are equal.

    Scores by words may differ by a millionth.
    """
    first, *others = results
    for other in others:
        assert {**other, "scores": None} == {**first, "scores": None}
        for scores, expected in zip(other["scores"], first["scores"], strict=True):
            assert scores == pytest.approx(expected, rel=1e-6, abs=1e-6)


def on_a_server(count):
    """Return the settings of a law of a store on a server.

    Examples are not shrunk, as this would take minutes.
    """
    phases = (Phase.explicit, Phase.reuse, Phase.generate)
    return settings(max_examples=examples(count), deadline=None, phases=phases)
