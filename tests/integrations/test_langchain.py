"""LangChain's vector stores as corpora: searches, and walks as graph-retriever's."""

import math
import uuid
from functools import partial
from random import Random

import anyio
import graph_retriever
import pytest
from graph_retriever import strategies
from graph_retriever.adapters.in_memory import InMemory
from hypothesis import given, settings
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

import airw
from airw.errors import ArgumentError, EmbedderError, NoLedgerEntry, StoreError
from airw.integrations.langchain import from_vector_store
from airw.policies import Eager, LinkWalk, Mmr, Scope, Scored
from airw.protocols import VectorsOf, ask
from tests.support.drawing import examples
from tests.support.graph_retriever_oracle import (
    bounds_of,
    compare,
    graph_of,
    numbers,
    ranking_of,
    their_bounds,
    weight,
)

ANIMALS = {
    "fox": (["red", "forest"], 0.0),
    "wolf": (["grey", "forest"], 0.3),
    "hen": (["red", "farm"], 1.2),
    "cow": (["farm"], 1.4),
    "whale": (["sea"], 1.5),
}
EDGES = [("tags", "tags")]


class Given(Embeddings):
    """Embeddings with a vector for each text."""

    def __init__(self, vectors):
        self.vectors, self.calls = vectors, []

    def embed_documents(self, texts):
        self.calls.append(list(texts))
        return [self.vectors[text] for text in texts]

    def embed_query(self, text):
        return self.vectors[text]


def angles(**turns):
    return Given({name: [math.cos(turn), math.sin(turn)] for name, turn in turns.items()})


def key(name):
    """Return an id that Qdrant accepts."""
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


def in_memory(documents, embeddings):
    store = InMemoryVectorStore(embeddings)
    store.add_documents(documents)
    return from_vector_store(store, name="animals")


def in_qdrant(documents, embeddings):
    from langchain_qdrant import QdrantVectorStore  # takes a second
    from qdrant_client import QdrantClient, models

    client = QdrantClient(":memory:")
    width = len(next(iter(embeddings.vectors.values())))
    client.create_collection("own", models.VectorParams(size=width, distance=models.Distance.COSINE))
    store = QdrantVectorStore(client, "own", embeddings, validate_collection_config=False)
    store.add_documents([Document(each.page_content, id=key(each.id), metadata=each.metadata) for each in documents])

    def filter_for(field, value):
        match = models.FieldCondition(key=f"metadata.{field}", match=models.MatchValue(value=value))
        return models.Filter(must=[match])

    return from_vector_store(store, name="animals", filter_for=filter_for)


MAKERS = {"in memory": in_memory, "qdrant": in_qdrant}


@pytest.fixture
def documents():
    return [Document(name, id=name, metadata={"tags": tags}) for name, (tags, _) in ANIMALS.items()]


@pytest.fixture
def embeddings():
    return angles(**{name: turn for name, (_, turn) in ANIMALS.items()}, query=0.1)


@pytest.fixture(params=MAKERS)
def corpus(request, documents, embeddings):
    return MAKERS[request.param](documents, embeddings)


async def test_a_search_ranks_by_cosine(corpus):
    hits = await airw.search(corpus, "query", k=3)
    assert [(hit.text, round(hit.score, 3), hit.source) for hit in hits] == [
        ("fox", 0.995, "animals"),
        ("wolf", 0.98, "animals"),
        ("hen", 0.454, "animals"),
    ]
    assert hits[0].metadata["tags"] == ["red", "forest"]


@pytest.mark.parametrize("policy", [Eager, Scored, Mmr])
async def test_a_walk_follows_shared_metadata(corpus, policy):
    walk = airw.traverse("query", corpus, policy=policy(start_k=1, edges=EDGES))
    depths = {hit.text: hit.metadata["walk_depth"] async for hit in walk}
    assert depths == {"fox": 0, "wolf": 1, "hen": 1, "cow": 2}


async def test_the_default_walk_returns_the_search(corpus):
    assert [hit.text async for hit in airw.traverse("query", corpus)][:2] == ["fox", "wolf"]


async def test_a_discovery_takes_it_beside_other_corpora(corpus):
    source = airw.from_mapping({"keys": "query of the keys"}, name="docs", embedder="light")
    async with airw.build(source, store=airw.stores.MemoryStore()) as docs:
        result = await airw.discover([docs, corpus], "query")
    assert "animals" in {item.source for item in result.results}
    assert {report["status"] for report in result.signals["per_source"].values()} == {"ok"}


async def test_a_text_is_embedded_once(documents, embeddings):
    corpus = in_memory(documents, embeddings)
    embeddings.calls.clear()
    for _ in range(2):
        walk = airw.traverse("query", corpus, policy=Eager(start_k=1, edges=EDGES))
        assert [hit.text async for hit in walk] == ["fox", "wolf", "hen", "cow"]
    texts = [text for call in embeddings.calls for text in call]
    assert sorted(texts) == ["cow", "fox", "hen", "wolf"]


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda corpus: airw.search(corpus, "query", mode="lexical"), "ranks by vectors alone"),
        (lambda corpus: airw.search(corpus, "query", filter={"weight": {"$gt": 1}}), "filter cannot be used"),
        (lambda corpus: airw.top_k(airw.traverse("query", corpus, policy=LinkWalk(start_k=1)), k=1), "edges="),
    ],
    ids=["lexical", "filter", "links"],
)
async def test_what_a_vector_store_cannot_do_is_an_error_of_one_line(documents, embeddings, call, named):
    with pytest.raises(ArgumentError, match=named) as caught:
        await call(in_memory(documents, embeddings))
    assert "\n" not in str(caught.value)


async def test_a_filter_that_demands_a_value_applies_to_searches_and_walks(corpus):
    def only(*conditions):
        return {"$and": [{"tags": {"$in": ["forest"]}}, *conditions]}

    hits = await airw.search(corpus, "query", k=1, filter=only({"tags": {"$contains": "grey"}}))
    assert [hit.text for hit in hits] == ["wolf"]
    assert [hit.text for hit in await airw.search(corpus, "query", k=5, filter=only())] == ["fox", "wolf"]
    walk = airw.traverse("query", corpus, policy=Eager(start_k=1, edges=EDGES, scope=Scope.only(only())))
    assert [hit.text async for hit in walk] == ["fox", "wolf"]


@pytest.mark.parametrize("only", [None, "red"])
@pytest.mark.parametrize("strategy", ["Eager", "Scored", "Mmr"])
async def test_a_walk_over_a_vector_store_finds_what_graph_retriever_finds(documents, embeddings, strategy, only):
    options = {"start_k": 2} | ({"scorer": lambda node: -node.depth} if strategy == "Scored" else {})
    roots = [] if only else ["whale"]
    nodes = graph_retriever.traverse(
        "query",
        edges=EDGES,
        strategy=getattr(strategies, strategy)(**options),
        store=InMemory(
            embeddings.embed_query,
            [
                graph_retriever.Content(each.id, each.page_content, embeddings.vectors[each.id], each.metadata)
                for each in documents
            ],
        ),
        metadata_filter={"tags": only} if only else None,
        initial_root_ids=roots,
    )
    scope = Scope.only({"tags": {"$in": [only]}}) if only else Scope()
    policy = getattr(airw.policies, strategy)(**options, edges=EDGES, roots=roots, scope=scope, seeding="dense")
    hits = await ranking_of("query", in_memory(documents, embeddings), policy)
    assert len(nodes) >= 2
    assert [(hit.artifact_id, hit.text, hit.metadata["walk_depth"], hit.metadata["tags"]) for hit in hits] == [
        (node.id, node.content, node.depth, node.metadata["tags"]) for node in nodes
    ]


async def test_a_root_that_does_not_exist_is_an_error(documents, embeddings):
    policy = Eager(start_k=0, roots=["unicorn"], edges=EDGES)
    with pytest.raises(NoLedgerEntry, match="no artifact 'unicorn'"):
        await airw.top_k(airw.traverse("query", in_memory(documents, embeddings), policy=policy), k=1)


class Broken(InMemoryVectorStore):
    """A vector store whose server is away."""

    def similarity_search_by_vector(self, *arguments, **options):
        raise OSError("no\nroute")

    async def asimilarity_search_by_vector(self, *arguments, **options):
        self.similarity_search_by_vector()


async def test_a_vector_store_that_fails_is_a_store_error(embeddings):
    corpus = from_vector_store(Broken(embeddings))
    with pytest.raises(StoreError, match=r"^similarity_search_by_vector of Broken failed: OSError: no route$"):
        await airw.search(corpus, "query")
    with pytest.raises(EmbedderError, match=r"^embed_query of Given failed: KeyError: 'unknown'$"):
        await airw.search(corpus, "unknown")


class Silent(InMemoryVectorStore):
    """A vector store that answers nothing."""

    def similarity_search_by_vector(self, *arguments, **options):
        return None

    async def asimilarity_search_by_vector(self, *arguments, **options):
        return None


async def test_a_vector_store_that_answers_nothing_is_a_store_error(embeddings):
    with pytest.raises(StoreError, match=r"^similarity_search_by_vector of Silent failed: TypeError: "):
        await airw.search(from_vector_store(Silent(embeddings)), "query")


async def test_a_filter_for_that_fails_is_a_store_error_of_one_line(documents, embeddings):
    def filter_for(field, value):
        raise KeyError("red\n\x1b")

    store = InMemoryVectorStore(embeddings)
    store.add_documents(documents)
    corpus = from_vector_store(store, filter_for=filter_for)
    with pytest.raises(StoreError, match=r"^filter_for failed: KeyError: ") as caught:
        await airw.top_k(airw.traverse("query", corpus, policy=Eager(start_k=1, edges=EDGES)), k=3)
    assert {"\n", "\x1b"}.isdisjoint(str(caught.value))


async def test_vectors_of_documents_are_read_before_any_query(corpus):
    found = await ask(corpus.store, VectorsOf([key("fox"), "fox"]))
    assert [len(ids) for ids in found.record_ids] in ([1, 0], [0, 1])
    assert found.vectors.round(3).tolist() == [[1.0, 0.0]]


class Nameless(InMemoryVectorStore):
    """A vector store of documents without ids."""

    def similarity_search_by_vector(self, *arguments, **options):
        return [Document("fox")]

    async def asimilarity_search_by_vector(self, *arguments, **options):
        return [Document("fox")]


async def test_documents_need_ids(embeddings):
    with pytest.raises(StoreError, match="returned the document 'fox' without an id; add ids"):
        await airw.search(from_vector_store(Nameless(embeddings)), "query")


class Careless(InMemoryVectorStore):
    """A vector store that does not look at filters."""

    def similarity_search_by_vector(self, embedding, k=4, filter=None):
        return super().similarity_search_by_vector(embedding, k)

    async def asimilarity_search_by_vector(self, embedding, k=4, filter=None):
        return self.similarity_search_by_vector(embedding, k)


async def test_a_filter_that_the_store_ignores_leads_nowhere_else(documents, embeddings):
    store = Careless(embeddings)
    store.add_documents(documents)
    walk = airw.traverse("query", from_vector_store(store), policy=Eager(start_k=1, edges=EDGES))
    assert [hit.text async for hit in walk] == ["fox", "wolf", "hen", "cow"]


@pytest.mark.parametrize("store", [None, "chroma", InMemoryVectorStore], ids=repr)
def test_something_else_than_a_vector_store_is_refused(store):
    with pytest.raises(ArgumentError, match="must be a LangChain vector store with embeddings"):
        from_vector_store(store)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "a/\x1b"}, r"'a/\\x1b' cannot name a corpus"),
        ({"name": 5}, "5 cannot name a corpus"),
        ({"filter_for": 5}, "filter_for must be a function, not 5"),
    ],
)
def test_unusable_options_are_refused(embeddings, options, message):
    with pytest.raises(ArgumentError, match=message):
        from_vector_store(InMemoryVectorStore(embeddings), **options)


def make_corpus(graph):
    embeddings = Given(graph.vectors)
    documents = [Document(id, id=id, metadata=fields) for id, fields in graph.fields.items()]
    return in_memory(documents, embeddings)


def draw(number, kind):
    """Return a random graph without a filter, our policy and their strategy."""
    chance = Random(number)
    graph = graph_of(chance)
    while graph.filter[0]:
        graph = graph_of(chance)
    bounds = bounds_of(chance)
    if kind == "eager":
        return graph, Eager(**bounds, **graph.ours), strategies.Eager(**their_bounds(bounds))
    if kind == "scored":
        return (
            graph,
            Scored(scorer=weight, **bounds, **graph.ours),
            strategies.Scored(scorer=weight, **their_bounds(bounds)),
        )
    part = chance.uniform(0.2, 0.9)
    mine = Mmr(lambda_mult=part, **bounds, **graph.ours)
    return graph, mine, strategies.Mmr(lambda_mult=part, **their_bounds(bounds))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["eager", "scored", "mmr"])
@given(number=numbers())
@settings(max_examples=examples(80))
def test_random_graphs_are_walked_as_graph_retriever_walks_them(kind, number):
    anyio.run(partial(compare, *draw(number, kind), make_corpus=make_corpus))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["eager", "scored", "mmr"])
def test_they_are_walked_alike_on_trio(kind):
    for number in range(10):
        anyio.run(partial(compare, *draw(number, kind), make_corpus=make_corpus), backend="trio")
