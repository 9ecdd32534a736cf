"""Walks without a policy: the default walks every form of corpus, or advice is given."""

from dataclasses import replace

import pytest

import airw
from airw import CorpusGraph, FederatedCorpus, build, from_mapping
from airw.embedders import HashingEmbedder
from airw.errors import AirwError, ArgumentError
from airw.links import MarkdownLinks
from airw.policies import Beam, Eager, LinkWalk, PathCoverage, PersonalizedPageRank, Scored, default_policy
from airw.policies.path_coverage import DEFAULT_POLICY
from airw.stores import MemoryStore
from tests.support.asked import Without

NOTES = {"a": "Rotate the signing keys, see [[b]].", "b": "The vault.", "c": "A cake."}
QUERY = "rotate the signing keys"


def corpus_of(notes=NOTES, name="notes"):
    source = from_mapping(notes, name=name, embedder=HashingEmbedder(), edge_extractor=MarkdownLinks())
    return build(source, store=MemoryStore())


async def rank(corpus, **options):
    """Return what a walk ranks: id and score, and its policy."""
    async with airw.traverse(QUERY, corpus, **options) as walk:
        async for _ in walk:
            pass
    return [(hit.key, hit.score) for hit in walk.ranking], walk.policy


async def test_a_walk_without_a_policy_is_one_with_the_default():
    async with corpus_of() as corpus:
        ranking, policy = await rank(corpus)
        assert policy is DEFAULT_POLICY is default_policy(corpus)
        assert (ranking, policy) == await rank(corpus, policy=DEFAULT_POLICY)
        assert ranking[0][0] == ("notes", "a")


async def test_several_corpora_and_a_graph_are_walked_too():
    async with corpus_of() as notes, corpus_of({"a": "Signing keys.", "d": "rain"}, name="more") as more:
        ranking, _ = await rank(FederatedCorpus([notes, more]))
        assert {source for (source, _), _ in ranking} == {"notes", "more"}
        assert (await rank(CorpusGraph(notes)))[0] == (await rank(notes))[0]


async def test_a_graph_of_a_store_alone_says_what_it_lacks():
    async with corpus_of() as corpus:
        with pytest.raises(AirwError, match="embed"):
            await rank(CorpusGraph(corpus.store))


async def test_a_corpus_without_links_or_text_search_is_walked():
    async with corpus_of({"a": "Rotate the signing keys.", "b": "The vault."}) as corpus:
        ids = [id for (_, id), _ in (await rank(corpus))[0]]
        assert ids == [hit.artifact_id for hit in await corpus.search(QUERY, mode="hybrid")]
        dense = replace(corpus, store=Without(corpus.store, "lexical", "words"))
        ids = [id for (_, id), _ in (await rank(dense))[0]]
        assert ids == [hit.artifact_id for hit in await corpus.search(QUERY, mode="dense")]


@pytest.mark.slow
async def test_without_links_the_ranking_is_that_of_a_search_with_its_own_defaults():
    words = ["keys", "signing", "vault", "rotate", "cake", "harbour", "the"]
    texts = {f"n{at:02}": " ".join(words[(at * step) % 7] for step in range(1, 2 + at % 5)) for at in range(40)}
    async with corpus_of(texts) as corpus:
        found = await airw.search(corpus, QUERY, k=15)
        assert [key for key, _ in (await rank(corpus))[0]] == [hit.key for hit in found]


async def test_a_corpus_whose_store_reads_no_links_is_searched():
    async with corpus_of() as corpus:
        flat = replace(corpus, store=Without(corpus.store, "edges"))
        ids = [id for (_, id), _ in (await rank(flat))[0]]
        assert ids == [hit.artifact_id for hit in await corpus.search(QUERY, mode="hybrid")]


@pytest.mark.parametrize("graph", [None, {"a": ["b"]}, MemoryStore(), object], ids=["None", "dict", "store", "class"])
def test_what_is_no_corpus_needs_a_policy(graph):
    with pytest.raises(ArgumentError, match=r"policy must be given to walk .*; pass a policy of your own"):
        airw.traverse(QUERY, graph)


def test_a_name_is_no_corpus():
    with pytest.raises(ArgumentError, match=r"not the name 'notes'; open it with open_corpus\('notes'\)$"):
        airw.traverse(QUERY, "notes")


@pytest.mark.parametrize("policy", [None, LinkWalk(roots=["a"])])
def test_a_name_is_shown_on_one_line_without_its_password(policy):
    with pytest.raises(ArgumentError) as caught:
        airw.traverse(QUERY, "postgresql://ada:hunter2@db/kb#" + "notes\n\x1b" * 1_000, policy=policy)
    message = str(caught.value)
    assert message.startswith("store must be an open corpus, not the name 'postgresql://ada@db/kb#notes")
    assert "hunter2" not in message
    assert {"\n", "\x1b"}.isdisjoint(message)
    assert len(message) < 500


async def test_a_store_that_cannot_score_is_refused_with_a_policy_that_can_walk_it():
    async with corpus_of() as corpus:
        plain = replace(corpus, store=Without(corpus.store, "scores"))
        with pytest.raises(
            ArgumentError, match=r"lacks the capability 'scores', .* pass airw.policies.LinkWalk"
        ) as caught:
            airw.traverse(QUERY, plain)
        assert "\n" not in str(caught.value)
        ranking, _ = await rank(plain, policy=LinkWalk(roots=["a"]))
        assert [id for (_, id), _ in ranking] == ["a", "b"]


@pytest.mark.parametrize(
    "policy",
    [Eager(), Scored(), Beam(), PathCoverage(), PersonalizedPageRank()],
    ids=lambda policy: type(policy).__name__,
)
async def test_a_policy_that_scores_names_what_the_store_lacks(policy):
    async with corpus_of() as corpus:
        plain = replace(corpus, store=Without(corpus.store, "scores", "dense"))
        with pytest.raises(
            ArgumentError, match="Rank needs a store with the capability 'scores'; Without offers counts, "
        ):
            await rank(plain, policy=policy)


async def test_discover_walks_with_it_too():
    async with corpus_of() as corpus:
        expected = await airw.discover(corpus, QUERY, walk=DEFAULT_POLICY)
        found = await airw.discover(corpus, QUERY, walk=True)
        assert [hit.to_dict() for hit in found.results] == [hit.to_dict() for hit in expected.results]
        assert found.signals["walk"]["stop"] == expected.signals["walk"]["stop"]
        searched = await airw.discover(corpus, QUERY, walk=False)
        assert "walk" not in searched.signals
