"""Graphs of two methods: read from a corpus, and walked by a policy written for `ir`."""

import ir
import pytest

from airw import top_k, traverse
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import GraphStore, load_graph
from airw.policies import per_node
from airw.protocols import Change
from airw.stores import MemoryStore, OwnStore
from airw.values import Link
from tests.support.ir_twins import TEXTS, embed, our_corpus, their_corpus
from tests.support.linked_stores import change

LINKS = {
    "keys.md": {"SEE": ["bread.md", "deploy.md"], "REF": ["deploy.md", "nowhere.md"]},
    "bread.md": {"SEE": ["garden.md", ["other", "soup"]]},
    "deploy.md": {"SEE": ["keys.md"]},
    "garden.md": {},
}


def links_of(artifact_id, fields):
    return LINKS[artifact_id]


def corpora():
    """Return the corpus of `ir`, and the one of airw, which is not open yet."""
    return their_corpus(TEXTS, edge_extractor=links_of), our_corpus(TEXTS, edge_extractor=links_of)


class Nearest:
    """A policy written for `ir`, which reads nothing but the two methods of its store."""

    def __init__(self, start, edge_type=None):
        self.start, self.edge_type = start, edge_type

    def seed(self, state, store):
        return [self.start]

    def score(self, state, node, store):
        vectors = embed([state.query, *(record.text for record in store[node])])
        return max(float(vectors[0] @ vector) for vector in vectors[1:])

    def select(self, state, scored):
        return sorted(scored, key=lambda triple: triple[2], reverse=True)

    def expand(self, state, node, store):
        targets = store.neighbors(node, edge_type=self.edge_type)
        return iter(sorted(target for target in targets if isinstance(target, str) and target in TEXTS))

    def node_id(self, node):
        return node

    def stop(self, state):
        return len(state.results) >= state.budget

    def to_hit(self, state, node, score, depth):
        return ir.SearchHit(node, "note", score, "", {"depth": depth})


@pytest.mark.parametrize("edge_type", [None, "SEE", "REF"])
@pytest.mark.parametrize(("max_depth", "node_budget"), [(2, 64), (9, 64), (9, 2), (0, 5)])
async def test_a_policy_of_ir_walks_the_graph_as_in_ir(edge_type, max_depth, node_budget):
    theirs, opening = corpora()
    bounds = {"max_depth": max_depth, "node_budget": node_budget}
    expected = ir.traverse("water the keys", ir.CorpusGraph(theirs), policy=Nearest("keys.md", edge_type), **bounds)
    async with opening as corpus:
        graph = await load_graph(corpus)
    walk = traverse("water the keys", graph, policy=per_node(Nearest("keys.md", edge_type)), **bounds)
    found = [(hit.artifact_id, hit.metadata["depth"], round(hit.score, 5)) for hit in await top_k(walk, 10)]
    assert found == [(hit.artifact_id, hit.metadata["depth"], round(hit.score, 5)) for hit in expected]


async def test_the_graph_has_the_neighbours_and_texts_of_ir():
    theirs, opening = corpora()
    expected = ir.CorpusGraph(theirs)
    async with opening as corpus:
        graph = await load_graph(corpus)
    for id in TEXTS:
        assert [record.text for record in graph[id]] == [record.text for record in expected[id]]
        for edge_type in (None, "SEE", "REF", "NONE"):
            theirs = [
                tuple(each) if isinstance(each, list) else each for each in expected.neighbors(id, edge_type=edge_type)
            ]
            assert sorted(graph.neighbors(id, edge_type=edge_type), key=repr) == sorted(theirs, key=repr)
    assert graph.neighbors("unknown") == expected.neighbors("unknown") == []
    with pytest.raises(NoLedgerEntry, match="no artifact 'unknown'"):
        graph["unknown"]


async def test_it_is_the_graph_of_the_moment_it_was_read():
    async with our_corpus(TEXTS, edge_extractor=links_of) as corpus:
        graph = await load_graph(corpus)
        await corpus.delete(["deploy.md"])
        assert graph.neighbors("deploy.md") == ["keys.md"]
        later = await load_graph(corpus)
    assert later.neighbors("deploy.md") == []
    assert "deploy.md" in later.neighbors("keys.md")  # the reference dangles now


async def test_a_graph_of_several_corpora_names_artifacts_by_pairs():
    vault, others = our_corpus(TEXTS, edge_extractor=links_of), our_corpus({"soup": "Salt."}, name="other")
    async with vault as one, others as other:
        graph = await load_graph(FederatedCorpus([one, other]))
    assert graph.neighbors(("vault", "bread.md")) == [("vault", "garden.md"), ("other", "soup")]
    assert [record.text for record in graph["other", "soup"]] == ["Salt."]


async def test_all_pages_of_a_large_corpus_are_read():
    store = MemoryStore()
    ids = [f"{number:04}" for number in range(2_001)]
    ends = [*ids[1:], "end"]
    await store.apply(Change([change(id, [Link(end)]) for id, end in zip(ids, ends, strict=True)]))
    graph = await load_graph(store)
    assert [graph.neighbors(id) for id in ids] == [[end] for end in ends]
    assert len(graph[ids[-1]]) == 1


class Two:
    """A graph of one's own."""

    def __getitem__(self, node_id):
        return "text"

    def neighbors(self, node_id, *, edge_type=None):
        return []


def test_any_object_with_the_two_methods_is_one():
    assert isinstance(Two(), GraphStore)
    assert not isinstance({}, GraphStore)
    assert not isinstance(MemoryStore(), GraphStore)


class Few(OwnStore):
    """A store that cannot list its artifacts."""

    capabilities = frozenset({"records", "edges"})


@pytest.mark.parametrize(
    ("given", "message"),
    [("notes", "needs a corpus"), (Few(), r"ArtifactIds needs a store .*; Few offers")],
    ids=["name", "few"],
)
async def test_what_cannot_be_read_is_refused(given, message):
    with pytest.raises(ArgumentError, match=message):
        await load_graph(given)
