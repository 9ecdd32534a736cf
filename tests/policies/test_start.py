"""The start of a walk: roots that do not exist, and blank queries."""

from dataclasses import replace

import pytest

from airw import FederatedCorpus, build, from_mapping, traverse
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, NoLedgerEntry, StoreError
from airw.links import extractor_from
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    Mmr,
    PathCoverage,
    PersonalizedPageRank,
    ReverseDependency,
    Scored,
    Strategy,
)
from airw.stores import MemoryStore, Wrapper
from airw.values import IndexPlan, Surface
from tests.support.asked import Without

LINKS = extractor_from(lambda _, fields: {"REF": fields["to"]}, id="links")
ITEMS = {"notes/keys.md": "rotate keys", "notes/vault.md": "the vault of keys", "bread.md": "bread", "empty.md": ""}


class Texts:
    """A strategy that makes no surface of an empty text."""

    id = "texts"

    def decompose(self, artifact):
        return IndexPlan({"to": ["empty.md"]}, [Surface(artifact.id, "text", artifact.raw)] if artifact.raw else [])


class Least(Strategy):
    def iteration(self, nodes, tracker):
        tracker.select_and_traverse(nodes)


SEARCHING = [Eager, Scored, Mmr, Beam, PathCoverage, PersonalizedPageRank, Least]
by_name = pytest.mark.parametrize("make", SEARCHING, ids=lambda make: make.__name__)


def corpus_of(name="notes"):
    source = from_mapping(ITEMS, name=name, strategy=Texts(), embedder=HashingEmbedder(), edge_extractor=LINKS)
    return build(source, store=MemoryStore())


def without_search(make, roots, **options):
    """Return a policy that starts from roots alone."""
    name = {Beam: "seed_k", PathCoverage: "seed_k", PersonalizedPageRank: "seed_k"}.get(make, "start_k")
    return make(roots=roots, **{name: 0, **options})


async def run(corpus, policy, query="keys", **options):
    walk = traverse(query, corpus, policy=policy, **options)
    return [hit.artifact_id async for hit in walk], walk


@pytest.mark.parametrize("make", [*SEARCHING, LinkWalk], ids=lambda make: make.__name__)
async def test_by_default_a_walk_starts_from_a_hybrid_search_and_follows_links_both_ways(make):
    async with corpus_of() as corpus:
        for query in ("rotate", "the vault of bread"):
            told = [
                (await run(corpus, make(**options), query))[0]
                for options in ({}, {"seeding": "hybrid", "direction": "both"})
            ]
            assert told[0] == told[1]
    assert make().direction == "both"


class TestRoots:
    @by_name
    @pytest.mark.parametrize("has_search", [False, True])
    async def test_an_unknown_root_is_an_error_that_names_similar_ids(self, make, has_search):
        roots = ["bread.md", "notes/kesy.md"]
        async with corpus_of() as corpus:
            policy = make(roots=roots) if has_search else without_search(make, roots)
            with pytest.raises(NoLedgerEntry) as caught:
                await run(corpus, policy)
        start = "corpus 'notes' contains no artifact 'notes/kesy.md'; pass roots as ids of artifacts such as "
        assert str(caught.value) == f"{start}'notes/keys.md', 'notes/vault.md'"

    @by_name
    async def test_an_unknown_root_of_a_walk_along_fields_is_an_error(self, make):
        async with corpus_of() as corpus:
            with pytest.raises(NoLedgerEntry, match=r"^corpus 'notes' contains no artifact 'x'; pass roots as ids"):
                await run(corpus, without_search(make, ["x"], edges=[("to", "to")]))

    async def test_a_link_walk_names_similar_ids_too(self):
        async with corpus_of() as corpus:
            with pytest.raises(NoLedgerEntry, match=r"contains no artifact 'Bread.md'; .* such as 'bread.md'"):
                await run(corpus, LinkWalk(roots=["Bread.md"]), "")

    @by_name
    async def test_a_root_without_surfaces_exists(self, make):
        async with corpus_of() as corpus:
            hits, walk = await run(corpus, without_search(make, ["empty.md"]))
        if make not in (Beam, PathCoverage, Least):  # these do not walk through artifacts without a score
            assert walk.summary.routed == 1
            assert "bread.md" in hits

    async def test_a_root_is_checked_without_a_call_if_it_has_a_surface(self):
        async with corpus_of() as corpus:
            small = replace(corpus, store=Without(corpus.store, "ledger", "names", "links", "matching"))
            hits, _ = await run(small, without_search(Eager, ["bread.md"]))
            assert hits[0] == "bread.md"
            with pytest.raises(NoLedgerEntry, match="'nowhere'; pass roots as ids of artifacts"):
                await run(small, without_search(Eager, ["bread.md", "nowhere"]))

    async def test_in_several_corpora_similar_ids_are_those_of_the_named_one(self):
        async with corpus_of("one") as one, corpus_of("two") as two:
            both = FederatedCorpus([one, two])
            for policy in (without_search(Eager, [("two", "bread")]), LinkWalk(roots=[("two", "bread")])):
                with pytest.raises(
                    NoLedgerEntry, match=r"artifact \('two', 'bread'\); .* such as \('two', 'bread.md'\)"
                ):
                    await run(both, policy)

    @pytest.mark.parametrize(
        "policy",
        [
            without_search(Eager, [("two", "bread.md"), ("one", "bread.md")]),
            LinkWalk(roots=[("two", "x"), ("one", "bread.md")]),
        ],
        ids=lambda policy: type(policy).__name__,
    )
    async def test_a_root_in_a_corpus_that_was_lost_is_not_called_unknown(self, policy):
        class Gone(Wrapper):
            async def read(self, *requests):
                raise StoreError("the disk is gone")

        async with corpus_of("one") as one, corpus_of("two") as two:
            hits, walk = await run(FederatedCorpus([one, replace(two, store=Gone(two.store))]), policy)
        assert hits[:1] == ["bread.md"]
        assert [lost.name for lost in walk.summary.lost] == ["two"]


class TestQuery:
    @by_name
    @pytest.mark.parametrize("query", ["", " \n\t"], ids=repr)
    async def test_a_search_for_a_blank_query_is_refused(self, make, query):
        async with corpus_of() as corpus:
            with pytest.raises(ArgumentError) as caught:
                await run(corpus, make(), query)
        assert str(caught.value) == f"query must not be blank, not {query!r}: {make.__name__} searches for it to start"

    @pytest.mark.parametrize(
        "policy", [CollapsedTree(), Eager(seeding="titles"), LinkWalk()], ids=lambda each: str(each)[:9]
    )
    async def test_other_ways_to_start_from_the_query_need_one_too(self, policy):
        async with corpus_of() as corpus:
            with pytest.raises(ArgumentError, match="query must not be blank"):
                await run(corpus, policy, " ")

    async def test_walks_that_do_not_start_from_the_query_need_none(self):
        async with corpus_of() as corpus:
            for policy in (
                LinkWalk(roots=["bread.md"]),
                ReverseDependency(seeds=["empty.md"]),
                *(without_search(make, ["bread.md"]) for make in SEARCHING),
            ):
                hits, _ = await run(corpus, policy, "")
                assert "bread.md" in hits


@pytest.mark.parametrize("name", ["eager", "Beam", "no such policy"])
def test_the_name_of_a_policy_is_no_policy(name):
    with pytest.raises(ArgumentError) as caught:
        traverse("keys", None, policy=name)
    assert (
        str(caught.value) == f"policy must be an object, not the name {name!r}; pass one such as airw.policies.Eager()"
    )
