"""Programs written for graph-retriever, run by it and by `airw.compat.graph_retriever`.

The two runs differ only in the imports of the program.
"""

import importlib
import re
from functools import partial
from random import Random

import graph_retriever
import pytest

import airw.compat.graph_retriever as compat
from airw.compat import ir
from airw.errors import ArgumentError


def graph():
    """Return nodes that share words and mention each other, with vectors that never tie."""
    chance, ids = Random(7), [f"n{at}" for at in range(12)]
    fields = {
        id: {
            "words": chance.sample(["red", "blue", "green", "grey"], 2),
            "mentions": chance.sample(ids, 2),
            "lang": chance.choice(["en", "fr"]),
            "deep": {"topic": chance.choice("xy")},
        }
        for id in ids
    }
    vectors = {text: [chance.gauss(0, 1) for _ in range(5)] for text in [*ids, "query"]}
    return fields, vectors


STORE = """
from graph_retriever import Content, traverse
from graph_retriever.adapters.in_memory import InMemory
from graph_retriever.strategies import Eager, Mmr, NodeTracker, Scored, Strategy

contents = [Content.new(id, "text of " + id, lambda _, id=id: vectors[id], metadata=fields[id]) for id in fields]
store = InMemory(vectors.__getitem__, contents)
"""

PROGRAMS = {
    "each strategy": """
found = [
    traverse("query", edges=[("words", "words"), ("mentions", "$id")], strategy=strategy, store=store)
    for strategy in (
        Eager(select_k=8, start_k=2, max_depth=2), Eager(start_k=1), Mmr(select_k=6, start_k=3, lambda_mult=0.4),
        Scored(scorer=lambda node: -len(node.metadata["words"]) - node.depth + node.similarity_score, select_k=7),
    )
]
""",
    "roots, a filter, and fields within fields": """
from graph_retriever.edges import Id
found = [
    traverse(
        "query", edges=[("deep.topic", "deep.topic")], strategy=Eager(start_k=0), store=store, initial_root_ids=["n3"]
    ),
    traverse(
        "query", edges=[("mentions", Id())], strategy=Eager(start_k=3), store=store, metadata_filter={"lang": "en"}
    ),
    traverse("query", edges=[], strategy=Eager(start_k=3), store=store, metadata_filter={"words": "red"}),
]
""",
    "edges and a strategy of one's own": """
import dataclasses
from graph_retriever.edges import Edges, IdEdge, MetadataEdge

def edges(content):
    words = {MetadataEdge("words", word) for word in content.metadata["words"][:1]}
    mine = {MetadataEdge("words", word) for word in content.metadata["words"]} | {IdEdge(content.id)}
    return Edges(mine, words | {IdEdge(content.metadata["mentions"][0])})

@dataclasses.dataclass(kw_only=True)
class Nearest(Strategy):
    each: int = 2
    def iteration(self, nodes, tracker: NodeTracker):
        best = sorted(nodes, key=lambda node: -node.similarity_score)[: self.each]
        for node in best:
            node.extra_metadata["_mark"] = self.each
        tracker.select_and_traverse(best)

base = Nearest(select_k=6, start_k=2)
found = [
    traverse("query", edges=edges, strategy=base, store=store),
    traverse("query", edges=edges, strategy=Strategy.build(base, each=1, k=3), store=store),
]
""",
    "in an event loop": """
import asyncio
from graph_retriever import atraverse

async def main():
    one = atraverse("query", edges=[("words", "words")], strategy=Eager(), store=store)
    other = atraverse("query", edges=[("mentions", "$id")], strategy=Mmr(), store=store)
    return list(await asyncio.gather(one, other))

found = asyncio.run(main())
""",
}


def fields_of(nodes, about):
    """Return the fields of nodes that can be compared.

    `about` converts numbers, which have 32 bits in one library and 64 in the other.
    """
    return [
        {
            "id": node.id,
            "content": node.content,
            "depth": node.depth,
            "metadata": node.metadata,
            "embedding": list(node.embedding),
            "similarity": about(node.similarity_score),
            "extra": about({**node.extra_metadata}),
        }
        for node in nodes
    ]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_finds_the_same_with_changed_imports(name):
    founds = []
    for package in ("graph_retriever", "airw.compat.graph_retriever"):
        program = re.sub(r"^from graph_retriever", f"from {package}", STORE + PROGRAMS[name], flags=re.MULTILINE)
        fields, vectors = graph()
        names = {"fields": fields, "vectors": vectors}
        exec(compile(program, f"<{package}>", "exec"), names)
        founds.append(names["found"])
    theirs, ours = founds
    assert [[node.id for node in nodes] for nodes in ours] == [[node.id for node in nodes] for nodes in theirs]
    assert all(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert fields_of(mine, lambda number: number) == fields_of(other, partial(pytest.approx, abs=1e-5))


@pytest.mark.parametrize("module", ["", ".adapters", ".adapters.in_memory", ".edges", ".strategies"])
def test_every_name_exists_or_has_an_error_with_a_replacement(module):
    theirs = importlib.import_module(f"graph_retriever{module}")
    ours = importlib.import_module(f"airw.compat.graph_retriever{module}")
    told = []
    for name in getattr(theirs, "__all__", ["InMemory", "InMemoryBase"]):
        try:
            getattr(ours, name)
        except ImportError as error:
            told.append((name, str(error)))
    for name, line in told:
        assert re.fullmatch(rf"airw\.compat\.graph_retriever{module} has no {name}: .+", line)
    assert {name for name, _ in told} <= {"Adapter", "InMemoryBase", "MetadataEdgeFunction"}


def test_traverse_walks_an_open_corpus_and_an_empty_in_memory_store():
    source = ir.CorpusSource.from_mapping({"a": "red fox", "b": "red hen"}, name="farm")
    corpus = ir.build(source, store=ir.CorpusStore.memory(), embedder="light")
    options = {"edges": [("$id", "$id")], "strategy": compat.strategies.Eager(start_k=1)}
    [node] = compat.traverse("fox", store=corpus.opened, **options)
    assert (node.id, node.content, node.depth, len(node.embedding)) == ("a", "red fox", 0, 512)
    empty = compat.adapters.in_memory.InMemory(lambda _: [1.0], [])
    assert compat.traverse("fox", store=empty, **options) == []


@pytest.mark.parametrize(
    "wrong", [{"edges": ("words", "words")}, {"edges": 3}, {"store_kwargs": {"x": 1}}, {"strategy": {"k": 3}}]
)
def test_an_invalid_argument_is_an_error_in_one_line(wrong):
    store = compat.adapters.in_memory.InMemory(lambda _: [1.0], [compat.Content("a", "a", [1.0])])
    with pytest.raises(ArgumentError, match=r"^[^\n]+$"):
        compat.traverse("q", **{"edges": [], "strategy": compat.strategies.Eager(), "store": store, **wrong})


def test_the_package_has_no_additional_names():
    assert sorted(compat.__all__) == sorted(graph_retriever.__all__)
