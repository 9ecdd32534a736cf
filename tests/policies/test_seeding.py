"""The seeds of walks: hits of a search, names in the query, and given roots."""

import math
import unicodedata
from dataclasses import dataclass, replace
from functools import partial

import pytest

from airw import build, from_mapping, open_corpus, search
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError
from airw.links import MarkdownLinks
from airw.policies import Beam, Eager, LinkWalk, Mmr, PersonalizedPageRank, Scope, Scored
from airw.protocols import Names, Rank
from airw.stores import MemoryStore
from airw.testing import ScriptedStore
from airw.values import Extraction
from airw.values.filters import parse_filter
from tests.support.artifact_corpora import Counting, corpus_of, ids, item, walk_all
from tests.support.asked import Asked

SEARCHES = ["dense", "lexical", "hybrid"]
LIGHT = HashingEmbedder(dim=64)


def seeds_only(**options):
    """Return a policy that commits only the seeds, in their order."""
    return Eager(**{"select_k": None, "max_depth": 0, **options})


async def seeds_of(corpus, query, **options):
    return ids((await walk_all(corpus, seeds_only(**options), query))[0])


# --- searches and roots ----------------------------------------------------------------------------------------------

WORDS = {
    "alpha": item("keys are rotated", kind="x"),
    "beta": item("keys and locks", kind="y"),
    "gamma": item("locks, and who may open them", kind="x"),
    "delta": item("bread is baked", kind="y"),
    "eps": item("keys, keys and keys", kind="y"),
}


def words(store=None):
    return corpus_of(WORDS, store, embedder=LIGHT)


class TestSearches:
    @pytest.mark.parametrize("seeding", SEARCHES)
    @pytest.mark.parametrize("start_k", [1, 2, 5])
    async def test_a_walk_starts_from_the_hits_of_the_search_in_their_order(self, seeding, start_k):
        async with words() as corpus:
            fusion = {"fusion": "rrf"} if seeding == "hybrid" else {}
            expected = await search(corpus, "keys and locks", k=start_k, mode=seeding, **fusion)
            assert await seeds_of(corpus, "keys and locks", seeding=seeding, start_k=start_k) == ids(expected)

    @pytest.mark.parametrize("seeding", SEARCHES)
    async def test_roots_follow_the_hits_in_their_order_without_duplicates(self, seeding):
        async with words() as corpus:
            fusion = {"fusion": "rrf"} if seeding == "hybrid" else {}
            found = ids(await search(corpus, "keys", k=2, mode=seeding, **fusion))
            rest = [name for name in reversed(WORDS) if name not in found]
            roots = [rest[0], found[1], rest[1], rest[0], found[0]]
            assert await seeds_of(corpus, "keys", seeding=seeding, start_k=2, roots=roots) == [*found, *rest[:2]]

    @pytest.mark.parametrize("seeding", [*SEARCHES, "titles"])
    async def test_without_a_search_roots_are_the_only_seeds(self, seeding):
        async with words() as corpus:
            store = Asked(corpus.store)
            counted, roots = replace(corpus, store=store), ("delta", "beta", "delta")
            assert await seeds_of(counted, "alpha", seeding=seeding, start_k=0, roots=roots) == ["delta", "beta"]
            assert await seeds_of(counted, "alpha", seeding=seeding, start_k=0) == []
        assert not {"dense", "lexical", "Names"} & {*store.calls}

    @pytest.mark.parametrize("make", [Eager, Scored, Mmr, Beam, PersonalizedPageRank, LinkWalk])
    async def test_several_ways_each_find_as_many_and_the_first_comes_first(self, make):
        name = "seed_k" if make in (Beam, PersonalizedPageRank) else "start_k"
        wide = {"width": 9} if make is Beam else {}
        async with words() as corpus:
            for ways in [("titles", "hybrid"), ["lexical", "titles"], ("dense", "lexical")]:
                seeds = [await seeds_of(corpus, "keys or delta", seeding=way, start_k=2) for way in ways]
                expected = list(dict.fromkeys([*seeds[0], *seeds[1]]))
                assert await seeds_of(corpus, "keys or delta", seeding=ways, start_k=2) == expected
                policy = make(**{name: 2}, seeding=ways, max_depth=0, **wide)
                hits, _ = await walk_all(corpus, policy, "keys or delta")
                assert {*ids(hits)} == {*expected}

    def test_one_way_in_a_tuple_is_that_way(self):
        assert Eager(seeding=["titles"]) == Eager(seeding="titles")
        assert Eager(seeding=["titles", "dense", "titles"]).seeding == ("titles", "dense")

    @pytest.mark.parametrize("seeding", [(), "names", ("titles", "names"), 3, [None]])
    @pytest.mark.parametrize("make", [Eager, LinkWalk])
    def test_unknown_ways_are_an_error(self, make, seeding):
        with pytest.raises(ArgumentError, match="seeding"):
            make(seeding=seeding)

    async def test_words_of_no_artifact_find_nothing(self):
        async with words() as corpus:
            hits, walk = await walk_all(corpus, seeds_only(seeding="lexical"), "zebra")
            assert (hits, walk.summary.stop, walk.summary.steps) == ([], "exhausted", 0)
            assert await seeds_of(corpus, "zebra", seeding="lexical", roots=["beta"]) == ["beta"]

    @pytest.mark.parametrize(
        ("options", "calls"),
        [
            ({"seeding": "dense"}, ["dense", "Records"]),
            ({"seeding": "lexical"}, ["lexical", "scores", "Records", "Records"]),
            ({"seeding": "hybrid"}, ["lexical", "dense", "Records"]),
            ({"seeding": "titles"}, ["Names", "scores", "Records"]),
            ({"seeding": "dense", "roots": ["delta"]}, ["dense", "scores", "Records", "Records"]),
            ({"seeding": "dense", "scope": Scope(keep={"kind": "y"})}, ["dense", "Records"]),
            (
                {"seeding": "titles", "scope": Scope.only({"kind": "y"})},
                ["Names", "RecordsOf", "scores", "Records"],
            ),
            ({"start_k": 0, "roots": ["beta", "eps"], "seeding": "titles"}, ["scores", "Records"]),
        ],
    )
    async def test_the_first_hit_costs_few_calls(self, options, calls):
        async with words() as corpus:
            store, embedder = Asked(corpus.store), Counting(corpus.embedder)
            hits, _ = await walk_all(
                replace(corpus, store=store, embedder=embedder),
                seeds_only(**{"start_k": 2, **options}, select_k=1),
                "beta keys",
            )
        assert len(hits) == 1
        assert sorted(store.calls) == sorted(calls)
        assert store.calls[-1] == "Records"
        assert embedder.calls.count("embed_query") == 1

    @pytest.mark.parametrize("seeding", [*SEARCHES, "titles"])
    @pytest.mark.parametrize("make", [Eager, Scored, Mmr])
    async def test_every_strategy_has_the_same_seeds(self, make, seeding):
        async with words() as corpus:
            options = {"seeding": seeding, "start_k": 2, "roots": ["gamma"]}
            hits, _ = await walk_all(corpus, make(**options, select_k=None, max_depth=0), "beta or keys")
            assert sorted(ids(hits)) == sorted(await seeds_of(corpus, "beta or keys", **options))


ONLY = {"kind": "y"}


class TestStartFilter:
    @pytest.mark.parametrize("seeding", SEARCHES)
    async def test_the_scope_is_part_of_the_search_so_that_start_k_are_found(self, seeding):
        async with words() as corpus:
            expected = ids(await search(corpus, "keys locks", k=2, mode=seeding, filter=ONLY))
            store = ScriptedStore(corpus.store)
            options = {"seeding": seeding, "start_k": 2, "scope": Scope(start=ONLY)}
            assert await seeds_of(replace(corpus, store=store), "keys locks", **options) == expected
        assert len(expected) == 2
        asked = [each.filter for each in store.log if isinstance(each, Rank) and each.among is None]
        assert asked == [parse_filter(ONLY)] * (2 if seeding == "hybrid" else 1)

    @pytest.mark.parametrize("make", [Eager, Scored, partial(Scored, scorer=lambda node: node.similarity_score), Mmr])
    async def test_an_artifact_starts_with_the_surface_that_the_search_found_even_if_another_is_nearer(self, make):
        """The seed must be part 1, the farther surface of b and the nearer one of c."""
        items = {
            "a": item(("0.1", {"part": 2})),
            "b": item(("0.2", {"part": 2}), ("0.4", {"part": 1})),
            "c": item(("0.3", {"part": 1}), ("0.5", {"part": 2})),
        }
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, make(scope=Scope(start={"part": 1})))
        assert [(hit.artifact_id, hit.text) for hit in hits] == [("c", "0.3"), ("b", "0.4")]
        assert [hit.score for hit in hits] == pytest.approx([math.cos(x * math.pi) for x in (0.3, 0.4)], abs=1e-6)

    async def test_the_scope_applies_to_roots_and_names_too(self):
        async with words() as corpus:
            scope = Scope(start=ONLY)
            assert await seeds_of(corpus, "keys", start_k=0, roots=[*WORDS], scope=scope) == ["beta", "delta", "eps"]
            assert await seeds_of(corpus, "alpha, beta", seeding="titles", scope=scope) == ["beta"]

    async def test_names_outside_the_scope_do_not_count_in_start_k(self):
        async with words() as corpus:
            options = {"seeding": "titles", "scope": Scope(start=ONLY), "start_k": 1}
            assert await seeds_of(corpus, "alpha, beta", **options) == ["beta"]


# --- names -----------------------------------------------------------------------------------------------------------

NOTES = {
    "places/n1.md": "---\ntitle: New York\naliases: [NYC, the Big Apple]\n---\nA city.",
    "places/n2.md": "---\ntitle: York\n---\nAn older city.",
    "n3.md": "---\ntitle: New York Marathon\nid: run-26\n---\nA race.",
    "n4.md": "---\ntitle: Café Müller\n---\nA piece.",
    "n5.md": "---\ntitle: Straße\n---\nA street.",
    "n6.md": "---\ntitle: O'Brien's Law\n---\nA saying.",
    "n7.md": "---\ntitle: TCP/IP\n---\nA protocol.",
    "n8.md": "# Part 2: The Return\n\nA heading is a title too.",
    "n9.md": "---\ntitle: Go\n---\nA game.",
    "eip-165.md": "---\neip: 165\ntitle: Interface Detection\n---\nA proposal.",
    "twin/m1.md": "---\ntitle: The Twins\n---\nOne.",
    "twin/m2.md": "---\ntitle: The Twins\n---\nAnother.",
    "twin/m3.md": "---\naliases: the twins\ntitle: Else\n---\nAnd one by an alias.",
}


def notes(store=None):
    source = from_mapping(NOTES, name="notes", embedder=LIGHT, edge_extractor=MarkdownLinks())
    return build(source, store=MemoryStore() if store is None else store)


TWINS = ["twin/m1.md", "twin/m2.md", "twin/m3.md"]
ASKED = [
    ("is New York old?", ["places/n1.md"]),
    ("places/n2.md", ["places/n2.md"]),
    ("see places/n2", ["places/n2.md"]),
    ("NYC", ["places/n1.md"]),
    ("in the big apple today", ["places/n1.md"]),
    ("run-26", ["n3.md"]),
    ("EIP-165 says", ["eip-165.md"]),
    ("165", ["eip-165.md"]),
    ("part 2: the return", ["n8.md"]),
    ("YORK or york", ["places/n2.md"]),
    ("cafe muller", []),
    ("CAFÉ MÜLLER", ["n4.md"]),
    ("strasse", ["n5.md"]),
    ("o'brien's law", ["n6.md"]),
    ("TCP/IP, tcp/ip", ["n7.md"]),
    ("  new\n york\t", ["places/n1.md"]),
    ("(York)", ["places/n2.md"]),
    ('"York"?!', ["places/n2.md"]),
    ("Yorkshire, newyork", []),
    ("a game of go", []),
    ("the twins", TWINS),
    ("...?!", []),
]


class TestTitles:
    @pytest.mark.parametrize(("query", "found"), ASKED)
    async def test_a_walk_starts_from_the_names_in_the_query(self, query, found):
        async with notes() as corpus:
            assert await seeds_of(corpus, query, seeding="titles", start_k=9) == found

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ("the New York Marathon", ["n3.md"]),
            ("New York Marathon in New York", ["n3.md", "places/n1.md"]),
            ("in York, or New York", ["places/n1.md", "places/n2.md"]),
            ("York, TCP/IP, New York, NYC", ["places/n1.md", "places/n2.md", "n7.md"]),
            ("Marathon, New York", ["places/n1.md"]),
            ("York New York Marathon", ["n3.md", "places/n2.md"]),
        ],
    )
    async def test_of_overlapping_names_the_longest_counts_and_longer_ones_come_first(self, query, found):
        async with notes() as corpus:
            assert await seeds_of(corpus, query, seeding="titles", start_k=9) == found

    async def test_accents_may_be_written_in_either_way(self):
        async with notes() as corpus:
            query = unicodedata.normalize("NFD", "the café Müller piece")
            assert query != unicodedata.normalize("NFC", query)
            assert await seeds_of(corpus, query, seeding="titles") == ["n4.md"]

    @pytest.mark.parametrize("title", [unicodedata.normalize("NFD", "Café"), "हिन्दी", "ภาษาที่"])
    async def test_a_name_may_end_with_a_punctuation_mark(self, title):
        source = from_mapping({"n1.md": f"# {title}"}, name="one", embedder=LIGHT, edge_extractor=MarkdownLinks())
        async with build(source, store=MemoryStore()) as corpus:
            assert await seeds_of(corpus, f"what is {title}?", seeding="titles") == ["n1.md"]

    async def test_an_ambiguous_name_seeds_all_its_artifacts_up_to_start_k(self):
        async with notes() as corpus:
            assert await seeds_of(corpus, "The twins and York", seeding="titles", start_k=9) == [*TWINS, "places/n2.md"]
            assert await seeds_of(corpus, "the twins and York", seeding="titles", start_k=2) == TWINS[:2]

    async def test_names_of_any_extractor_count_in_the_strongest_tier_that_has_one(self):
        @dataclass(frozen=True)
        class Names:
            id: str = "names"

            def extract(self, artifact, fields):
                return Extraction(names=fields["names"])

        items = {
            "a1": item("0", names=[["first"], ["shared", "low tier"]]),
            "a2": item("0", names=[["second", "shared"]]),
            "a3": item("0", names=[[], [], ["low tier"]]),
        }
        async with corpus_of(items, embedder=LIGHT, links=Names()) as corpus:
            assert await seeds_of(corpus, "first", seeding="titles") == ["a1"]
            assert await seeds_of(corpus, "shared", seeding="titles") == ["a2"]
            assert await seeds_of(corpus, "the low tier", seeding="titles") == ["a1"]

    async def test_an_exactly_written_name_is_preferred_to_its_folded_form(self):
        items = {"Lisp": item("a dialect"), "lisp": item("a way of speaking")}
        async with corpus_of(items, embedder=LIGHT) as corpus:
            assert await seeds_of(corpus, "Lisp", seeding="titles") == ["Lisp"]
            assert await seeds_of(corpus, "LISP", seeding="titles") == ["lisp"]
        async with corpus_of({"Café": item("a place"), "café": item("a drink")}, embedder=LIGHT) as corpus:
            for query in (unicodedata.normalize(form, "one Café") for form in ("NFC", "NFD")):
                assert await seeds_of(corpus, query, seeding="titles") == ["Café"]

    async def test_names_are_looked_up_in_one_call_for_any_query(self):
        async with notes() as corpus:
            store = ScriptedStore(corpus.store)
            query = " ".join(["New York"] * 200)
            hits, _ = await walk_all(replace(corpus, store=store), seeds_only(seeding="titles", select_k=None), query)
        assert ids(hits) == ["places/n1.md"]
        assert store.calls[Names] == 1

    async def test_roots_follow_the_named_artifacts(self):
        async with notes() as corpus:
            found = await seeds_of(
                corpus, "York", seeding="titles", start_k=1, roots=["n9.md", "places/n2.md", "n4.md"]
            )
        assert found == ["places/n2.md", "n9.md", "n4.md"]

    async def test_the_walk_continues_along_links(self):
        linked = {**NOTES, "n9.md": "---\ntitle: Board games\n---\nLike [[New York]] and [chess](n5.md)."}
        source = from_mapping(linked, name="notes", embedder=LIGHT, edge_extractor=MarkdownLinks())
        async with build(source, store=MemoryStore()) as corpus:
            hits, walk = await walk_all(corpus, Eager(seeding="titles", select_k=None), "board games")
        assert ids(hits)[0] == "n9.md"
        assert sorted(ids(hits)[1:]) == ["n5.md", "places/n1.md"]
        assert walk.summary.stop == "exhausted"


@pytest.mark.slow
@pytest.mark.asyncio_only
async def test_seeds_from_a_file_equal_those_in_memory(tmp_path):
    path = tmp_path / "notes.airw"
    async with notes(path), words(tmp_path / "words.airw"):
        pass
    async with open_corpus(path, embedder=LIGHT) as filed, notes() as corpus:
        for query, found in ASKED:
            assert await seeds_of(filed, query, seeding="titles", start_k=9) == found
            assert await seeds_of(corpus, query, seeding="hybrid") == await seeds_of(filed, query, seeding="hybrid")
    async with open_corpus(tmp_path / "words.airw", embedder=LIGHT) as filed, words() as corpus:
        for seeding in SEARCHES:
            options = {
                "seeding": seeding,
                "scope": Scope(start={"kind": "y"}),
                "start_k": 2,
                "roots": ["alpha", "delta"],
            }
            assert await seeds_of(filed, "keys", **options) == await seeds_of(corpus, "keys", **options)
