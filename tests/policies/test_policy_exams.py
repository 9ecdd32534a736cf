"""Eager, Scored, Mmr and PathCoverage in the exam of policies."""

import pytest

from airw import open_corpus
from airw.policies import Eager, Mmr, PathCoverage, Scope, Scored
from airw.testing import PolicySuite
from tests.support.artifact_corpora import ANGLE, corpus_of, item


def ring(store=None):
    """Build artifacts in a ring with many cycles, ties, and one artifact without surfaces.

    One artifact has two surfaces.
    """
    texts = {3: ["0.9", "0.2"], 9: []}
    items = {
        f"{at:02}": item(
            *texts.get(at, [f"0.{(at * 7) % 10}"]),
            to=[f"{(at + step) % 14:02}" for step in (1, 3, 5)],
            tags=[at % 4, {"deep": [at % 3]}],
            next=f"{(at + 2) % 15:02}",
            kind="ab"[at % 2],
            rank=at % 5,
        )
        for at in range(14)
    }
    return corpus_of(items, store)


async def by_rank(node):
    return -node.metadata["rank"]


WAYS = {
    "links": {},
    "edges": {"edges": [("tags", "tags"), ("next", "$id")], "adjacent_k": 3},
    "scope": {
        "scope": Scope(start={"rank": {"$ne": 1}}, cross={"kind": "a"}, keep={"rank": {"$ne": 4}}),
        "direction": "both",
        "roots": ["09", "13"],
        "max_depth": 3,
    },
    "all": {"edges": [("tags", "tags")], "scope": Scope(keep={"kind": "a"}), "seeding": "hybrid", "max_traverse": 6},
}
STRATEGIES = {
    "Eager": (Eager, {"select_k": 12}),
    "Scored": (Scored, {"select_k": 9}),
    "Scored-scorer": (Scored, {"select_k": None, "scorer": by_rank, "per_iteration_limit": 2}),
    "Mmr": (Mmr, {"select_k": 12, "lambda_mult": 0.4}),
}


PATHS = {
    "deep": {"seed_k": 3, "direction": "in", "max_depth": 3},
    "fields": {"seed_k": 4, "edges": [("tags", "tags"), ("next", "$id")]},
    "scope": {**WAYS["scope"], "seed_k": 4, "seeding": ("titles", "hybrid")},
}


def maker(strategy, way):
    if strategy == "PathCoverage":
        return lambda: PathCoverage(**PATHS[way])
    make, options = STRATEGIES[strategy]
    return lambda: make(**options, **WAYS[way])


# Each strategy and each way occurs; the ways are options of the one class from which all strategies are derived.
PAIRS = [("Eager", "links"), ("Eager", "all"), ("Scored-scorer", "scope"), ("Scored", "edges")]
PAIRS += [("Mmr", "links"), ("Mmr", "all"), *(("PathCoverage", way) for way in PATHS)]
EXAMINED = {f"{strategy}-{way}": maker(strategy, way) for strategy, way in PAIRS}


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMINED)
async def test_it_passes_the_exam(name):
    report = await PolicySuite(EXAMINED[name], ring, "0.3").run()
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", ["Eager-all", "PathCoverage-fields"])
async def test_it_passes_the_exam_over_a_file(name, tmp_path):
    path = tmp_path / "ring.airw"
    async with ring(path):
        pass
    report = await PolicySuite(EXAMINED[name], lambda: open_corpus(path, embedder=ANGLE), "0.3").run()
    assert report.passed, str(report)
