"""Compare walks with those of graph-retriever 0.8.0 on random and hand-made graphs.

The published package is the oracle. One fault of it is corrected for the comparison: it computes the depth of the first
node of a batch and uses it for all others. Here each node is made in a batch of its own.

Where the two differ on purpose:

- A node in the frontier of `Scored`, `Mmr` or a strategy can be discovered again on a shorter path. Ours then takes the
  smaller depth; theirs keeps the first one. `Oracle.nearer` records these nodes. Without a depth cap, only their depths
  may differ. With one, the walks may differ too, so they are not compared.
- Filters on a field of an edge are not drawn, since their filter replaces the edge. Roots that do not pass the filter
  are not drawn, since theirs accepts all roots.
- `adjacent_k=0`, `max_traverse`, a `lambda_mult` of 0 or 1, and lists or mappings in fields of pairs are not drawn.
- Vectors and scores are random reals: there are no ties and no similarity of zero.

`tests/policies/test_graph_retriever_cases.py` and `tests/policies/test_strategy.py` test these cases instead.
"""

import copy
import math
import warnings
from dataclasses import dataclass

import pytest
from graph_retriever import Content
from graph_retriever.adapters.in_memory import InMemory
from graph_retriever.edges import Edges, IdEdge, MetadataEdge
from graph_retriever.traversal import _Traversal
from hypothesis import strategies as st

from airw import build, embedder_from, from_mapping, traverse
from airw.policies import Mmr, Scope, Scored
from airw.stores import MemoryStore
from airw.values import IndexPlan, Surface

ALL = 1_000  # more than all nodes; theirs needs a number where ours takes None
QUERY = "query"


class Oracle(_Traversal):
    """A walk of theirs with a depth for each node.

    `nearer` contains the ids of frontier nodes that were discovered again on a shorter path.
    """

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.made, self.nearer = [], set()

    def _contents_to_new_nodes(self, contents, *, depth=None):
        new = []
        for content in {content.id: content for content in contents}.values():
            new += super()._contents_to_new_nodes([content], depth=depth)
        self.made += new
        return new

    def select_next_edges(self, nodes):
        edges = super().select_next_edges(nodes)
        tracker = self._node_tracker
        done = {node.id for node in tracker.selected} | tracker._visited_node_ids
        for node in self.made:
            depths = [self._edge_depths[edge] for edge in node.incoming_edges & edges]
            if node.id not in done and min(depths, default=math.inf) < node.depth:
                self.nearer.add(node.id)
        return edges


@dataclass(frozen=True)
class Whole:
    """A strategy with one surface per artifact, whose text is the id; fields stay unchanged."""

    id: str = "whole"

    def decompose(self, artifact):
        return IndexPlan(artifact.raw, [Surface(artifact.id, "document", artifact.id)])


def corpus_of(fields, vectors, store=None):
    """Build a corpus of artifacts by id; `vectors` are those of ids and queries."""
    dim = len(next(iter(vectors.values())))
    embedder = embedder_from(lambda texts: [vectors[text] for text in texts], id="given", dim=dim)
    source = from_mapping(fields, name="test", strategy=Whole(), embedder=embedder)
    return build(source, store=store or MemoryStore())


async def ranking_of(query, corpus, policy, **options):
    """Walk to the end and return the ranking."""
    async with traverse(query, corpus, policy=policy, node_budget=ALL, **options) as walk:
        async for _ in walk:
            pass
    return walk.ranking


def depths_of(hits):
    """Return `(id, depth)` per hit."""
    return [(hit.artifact_id, hit.metadata["walk_depth"]) for hit in hits]


async def walk_graph(fields, vectors, policy):
    """Build a corpus, walk it, and return ids and depths in the order of the ranking."""
    async with corpus_of(fields, vectors) as corpus:
        return depths_of(await ranking_of(QUERY, corpus, policy))


def vectors_at(query=0.0, **turns):
    """Return unit vectors at angles in units of pi, so that cosines can be computed by hand."""
    turns[QUERY] = query
    return {name: [math.cos(turn * math.pi), math.sin(turn * math.pi)] for name, turn in turns.items()}


@dataclass(frozen=True)
class Graph:
    """Artifacts, roots, edges and a filter; `edges` and `filter` are pairs of ours and theirs."""

    fields: dict
    vectors: dict
    edges: tuple
    filter: tuple
    roots: list

    @property
    def ours(self):
        """The options of our policies for this graph."""
        scope = Scope.only(self.filter[0]) if self.filter[0] else Scope()
        # They skip roots that do not exist; ours are errors.
        roots = [root for root in self.roots if root != "nowhere"]
        return {"edges": self.edges[0], "roots": roots, "scope": scope, "seeding": "dense"}

    def oracle(self, strategy):
        contents = [Content(id, id, self.vectors[id], metadata=fields) for id, fields in self.fields.items()]
        store = InMemory(self.vectors.__getitem__, contents)
        filter, roots = self.filter[1], self.roots
        options = {"edges": self.edges[1], "store": store, "metadata_filter": filter, "initial_root_ids": roots}
        return Oracle(QUERY, strategy=copy.deepcopy(strategy), **options)


def our_edges(record):
    """Yield edges from two fields to two others, one of which contains mappings."""
    fields = record.metadata
    yield from (("word", word) for word in fields["words"] if word is not None)
    yield from (("shapes", {"a": size}) for size in fields["sizes"])
    yield from (("$id", id) for id in fields["mentions"][:1])


def their_edges(content):
    fields = content.metadata
    outgoing = {MetadataEdge("word", word) for word in fields["words"] if word is not None}
    outgoing |= {MetadataEdge("shapes", {"a": size}) for size in fields["sizes"]}
    outgoing |= {IdEdge(str(id)) for id in fields["mentions"][:1]}
    incoming = {MetadataEdge("shapes", shape) for shape in fields["shapes"]} | {IdEdge(content.id)}
    if fields.get("word") is not None:
        incoming.add(MetadataEdge("word", fields["word"]))
    return Edges(incoming=incoming, outgoing=outgoing)


WORDS = [
    "red",
    "blue",
    "green",
    "7",
    7,
    7.5,
    8,
    True,
    1,
    0,
    None,
]  # True and 1 are the same value, and None is no value
PAIRS = [
    ("words", "words"),
    ("mentions", "$id"),
    ("$id", "mentions"),
    ("word", "words"),
    ("words", "word"),
    ("word", "word"),
    ("deep.words", "deep.words"),
    ("deep.er.word", "words"),
    ("words", "deep.er.word"),
    ("deep.words", "words"),
    ("words", "deep.words"),
]
DEAD_ENDS = [("$id", "$id"), ("nowhere", "words"), ("words", "nowhere")]
FILTERS = [  # ours and theirs spell a condition on an item of a list differently
    ({"lang": "a"}, {"lang": "a"}),
    ({"about.topics": {"$contains": "x"}}, {"about.topics": "x"}),
    ({"lang": "a", "about.topics": {"$contains": "y"}}, {"lang": "a", "about.topics": "y"}),
]


def fields_of(chance, ids):
    def pick(values, at_most):
        return chance.sample(values, min(chance.randint(0, at_most), len(values)))

    deep = {"words": pick(WORDS, 3), "er": {"word": chance.choice(WORDS)}}
    optional = {"word": chance.choice(WORDS), "deep": chance.choice([deep, deep, {"words": chance.choice(WORDS)}, {}])}
    return {
        "words": chance.sample(WORDS, chance.randint(1, 3)),
        "mentions": [chance.choice([id, id, int(id)]) for id in pick(ids, 3)] + pick(["nowhere", -1], 1),
        "sizes": pick([1, 2, 3, 4], 2),
        "shapes": [{"a": size} for size in pick([1, 2, 3, 4], 2)],
        "lang": chance.choice("ab"),
        "about": {"topics": pick("xyz", 3)},
        "weight": chance.gauss(0, 1),
        **{name: value for name, value in optional.items() if chance.random() < 0.9},
    }


def graph_of(chance):
    """Return a random graph.

    If Hypothesis drew the parts, most graphs would have no walk at all.
    """
    ids = [str(number) for number in range(chance.choice([3, 8, 16, 24]))]
    fields = {id: fields_of(chance, ids) for id in ids}
    width = chance.randint(3, 6)
    vectors = {text: [chance.gauss(0, 1) for _ in range(width)] for text in [*ids, QUERY]}
    pairs = chance.sample(PAIRS, chance.choice([*[1, 2, 2] * 9, 0])) + chance.sample(DEAD_ENDS, chance.randint(0, 1))
    edges = chance.choice([*[(pairs, pairs)] * 5, (our_edges, their_edges)])
    filter = chance.choice([*[(None, None)] * 15, *FILTERS])
    roots = chance.choices([*ids, "nowhere"], k=chance.randint(0, 2))
    store = InMemory(vectors.__getitem__, [Content(id, id, vectors[id], metadata=fields[id]) for id in ids])
    return Graph(fields, vectors, edges, filter, [id for id in roots if id not in ids or store.get([id], filter[1])])


def bounds_of(chance):
    """Return random limits of a walk: seeds, admitted and selected nodes, depth."""
    return {
        "select_k": chance.choice([*[5, 8, 12, None] * 5, 0, 1, 3]),
        "start_k": chance.choice([*[1, 2] * 5, 0, 4, 40]),
        "adjacent_k": chance.choice([*[2, 3, 4, 5, 10, None] * 2, 1]),
        "max_depth": chance.choice([*[None] * 5, *[1, 2, 3] * 2, 0]),
    }


def their_bounds(bounds):
    """Return the limits as theirs; `None` as a depth means the same there."""
    return {name: ALL if value is None and name != "max_depth" else value for name, value in bounds.items()}


def weight(node):
    return node.metadata["weight"]


def numbers():
    return st.integers(0, 2**32)


def their_fields(node):
    """Return the fields of a node of theirs."""
    return {**node.extra_metadata, "id": node.id, "depth": node.depth, "similarity": node.similarity_score}


def our_fields(policy, hit):
    """Return the fields of a hit of ours, by their names."""
    fields = {name: value for name, value in hit.metadata.items() if name.startswith("_")}
    if isinstance(policy, Mmr):
        fields |= {"_mmr_score": hit.metadata["mmr_score"], "_redundancy": hit.metadata["redundancy"]}
    fields["_score" if isinstance(policy, Scored) else "similarity"] = hit.score
    return {**fields, "id": hit.artifact_id, "depth": hit.metadata["walk_depth"]}


def assert_alike(ours, theirs, *, may_be_nearer):
    """Check that the ids are equal in order, and the fields that both sides have."""
    assert [node["id"] for node in ours] == [node["id"] for node in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        names = mine.keys() & other.keys()
        if may_be_nearer:
            assert mine["depth"] <= other["depth"]
            names -= {"depth", "_depth"}
        expected = {name: other[name] for name in names}
        assert {name: mine[name] for name in names} == pytest.approx(expected, abs=1e-5)


async def compare(graph, policy, strategy, *, store=None, is_async=False, make_corpus=None):
    """Walk a graph with both libraries and compare; `make_corpus` makes another corpus."""
    oracle = graph.oracle(strategy)
    with warnings.catch_warnings(action="ignore"):  # about values that are None
        nodes = await oracle.atraverse() if is_async else oracle.traverse()
    async with make_corpus(graph) if make_corpus else corpus_of(graph.fields, graph.vectors, store) as corpus:
        hits = await ranking_of(QUERY, corpus, policy)
    if strategy.max_depth is None or not oracle.nearer:
        ours, theirs = [our_fields(policy, hit) for hit in hits], [their_fields(node) for node in nodes]
        assert_alike(ours, theirs, may_be_nearer=bool(oracle.nearer))
