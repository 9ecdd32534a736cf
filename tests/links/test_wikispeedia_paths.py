"""Paths in a graph of real hyperlinks have the lengths of an independent search."""

import gzip
import json
from itertools import pairwise

import numpy as np
import pytest

from airw.links import CorpusGraph
from airw.protocols import Change
from airw.stores import MemoryStore
from airw.values import ArtifactChange, Extraction, LedgerEntry, Link

TASKS = 100


def change(article):
    entry = LedgerEntry(article["id"], "1", "none", "none")
    links = [Link(target, "related", "inline") for target in article.get("links", ())]
    return ArtifactChange(entry, [], np.empty((0, 1), np.float32), Extraction(links))


@pytest.fixture(scope="module")
def articles(data):
    with gzip.open(data / "wikispeedia" / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def tasks(data):
    with (data / "wikispeedia" / "queries.jsonl").open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines][:TASKS]


@pytest.mark.slow
async def test_every_path_is_as_short_as_possible_and_each_of_its_edges_is_a_link(articles, tasks):
    store = MemoryStore()
    await store.apply(Change([change(article) for article in articles]))
    graph, links = CorpusGraph(store), {article["id"]: set(article.get("links", ())) for article in articles}
    for task in tasks:
        path = await graph.path(task["start"], task["gold"][0], direction="out", max_hops=None)
        assert len(path.edges) == path.cost == task["shortest"]
        assert (path.nodes[0], path.nodes[-1]) == (task["start"], task["gold"][0])
        assert all(there in links[here] for here, there in pairwise(path.nodes))


@pytest.mark.slow
async def test_one_hop_less_finds_no_path_and_reports_the_cap(articles, tasks):
    store = MemoryStore()
    await store.apply(Change([change(article) for article in articles]))
    for task in tasks[:10]:
        path = await CorpusGraph(store).path(
            task["start"], task["gold"][0], direction="out", max_hops=task["shortest"] - 1
        )
        assert not path.found
        assert path.left_out["max_hops"] > 0
