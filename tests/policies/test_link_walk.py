"""Walks along links, by hops and by cost, compared with breadth-first search and Dijkstra."""

import heapq
from collections import Counter
from dataclasses import dataclass, replace
from itertools import count, pairwise
from random import Random

import anyio
import networkx as nx
import pytest
from hypothesis import given, settings, strategies as st

from airw import build, embedder_from, from_mapping, open_corpus, top_k, traverse
from airw._base import concurrency
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, NoLedgerEntry
from airw.links import INVERSES, Inverses
from airw.policies import LinkWalk, Scope, artifact_policy, link_walk
from airw.stores import MemoryStore, Wrapper
from airw.testing import PolicySuite
from airw.values import Edge, Extraction, IndexPlan, Limits, Link, Surface
from airw.views import walk_links
from airw.walking import EdgeFound
from tests.support.asked import Asked, Without, kind_of
from tests.support.drawing import examples

FLAT = embedder_from(lambda texts: [[float("near" in text), 1.0] for text in texts], id="flat", dim=2)


@dataclass(frozen=True)
class Notes:
    """A strategy with two surfaces for most notes, none for those without text.

    The other fields are metadata.
    """

    id: str = "notes"

    def decompose(self, artifact):
        fields = {name: value for name, value in artifact.raw.items() if name not in ("text", "links")}
        texts = [artifact.raw["text"], f"{artifact.raw['text']} again"] if artifact.raw["text"] else []
        return IndexPlan(fields, [Surface(artifact.id, "part", text) for text in texts])


@dataclass(frozen=True)
class Typed:
    """An extractor of links `(type, target)` or `(type, target, origin)`.

    Targets are ids or `(source, id)`.
    """

    id: str = "typed"

    def extract(self, artifact, fields):
        return Extraction([link_of(*link) for link in artifact.raw["links"]], [[artifact.id]])


def link_of(type, target, origin="inline"):
    source, target = (None, target) if isinstance(target, str) else target
    return Link(target, type, origin, target_source=source)


def note(*links, text="text", **fields):
    return {"text": text, "links": list(links), **fields}


def corpus_of(items, store=None):
    source = from_mapping(items, name="test", strategy=Notes(), embedder=FLAT, edge_extractor=Typed())
    return build(source, store=store or MemoryStore())


async def walk_all(corpus, policy, query="", **options):
    async with traverse(query, corpus, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return hits, walk


async def find_ids(items, policy, **options):
    async with corpus_of(items) as corpus:
        return [hit.artifact_id for hit in (await walk_all(corpus, policy, **options))[0]]


class Refusing:
    """An embedder that must not be called."""

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        if name in ("embed_query", "embed_documents"):
            raise AssertionError(f"{name} was called")
        return getattr(self._inner, name)


# Types in another order than they are written in, and than the ids.
COUNTED = Limits(count_beyond_limits=True)
TREE = {
    "root": note(("supports", "c"), ("related", "a"), ("derived-from", "b"), ("related", "d")),
    "a": note(("related", "e"), ("related", "root")),
    "b": note(("part-of", "g"), ("related", "f")),
    "c": note(("related", "h")),
    "d": note(),
    "e": note(),
    "f": note(("related", "i")),
    "g": note(),
    "h": note(("related", "root")),
    "i": note(),
}


class TestByHops:
    async def test_it_goes_breadth_first_by_type_then_by_id(self):
        async with corpus_of(TREE) as corpus:
            hits, walk = await walk_all(corpus, LinkWalk(roots=["root"], direction="out"), limits=COUNTED)
        assert [hit.artifact_id for hit in hits] == ["root", "b", "a", "d", "c", "g", "f", "e", "h"]
        assert [hit.score for hit in hits] == [0, -1, -1, -1, -1, -2, -2, -2, -2]
        assert [str(hit.score) for hit in hits][:2] == ["0.0", "-1.0"]
        assert walk.ranking == hits
        assert walk.summary.left_out == {"max_depth": 1}

    async def test_a_hit_is_the_first_surface_and_contains_how_it_was_reached(self):
        items = {"a": note(("requires", "b")), "b": note(text="b", tags=["x"])}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(roots=["a"]))
        assert [(hit.text, hit.surface_index, hit.surface_kind, hit.source) for hit in hits] == [
            ("text", 0, "part", "test"),
            ("b", 0, "part", "test"),
        ]
        assert hits[1].metadata == {
            "tags": ["x"], "walk_depth": 1, "walk_parent": "a", "walk_path": ["a", "b"], "walk_edge": "requires",
            "seed": "a",
        }  # fmt: skip

    @pytest.mark.parametrize(("direction", "expected"), [("out", "bacd"), ("in", "bef"), ("both", "baecdf")])
    async def test_it_follows_links_in_the_given_direction(self, direction, expected):
        items = {
            "a": note(("y", "d")), "b": note(("x", "a"), ("z", "c")), "c": note(), "d": note(),
            "e": note(("y", "b")), "f": note(("w", "e")),
        }  # fmt: skip
        assert await find_ids(items, LinkWalk(roots=["b"], direction=direction)) == list(expected)

    async def test_both_directions_are_the_default(self):
        assert LinkWalk().direction == "both"

    async def test_types_and_exclude_select_links(self):
        options = {"roots": ["root"], "direction": "out"}
        assert await find_ids(TREE, LinkWalk(**options, types=["related"])) == ["root", "a", "d", "e"]
        assert await find_ids(TREE, LinkWalk(**options, exclude=["related"])) == ["root", "b", "c", "g"]
        assert await find_ids(TREE, LinkWalk(**options, types=["related"], exclude=["related"])) == ["root"]
        assert await find_ids(TREE, LinkWalk(**options, types=[])) == ["root"]

    @pytest.mark.parametrize(
        ("origins", "expected"),
        [(None, "abcd"), (["typed"], "ab"), (["inline", "derived"], "acd"), ([], "a")],
    )
    async def test_origins_select_links(self, origins, expected):
        items = {
            "a": note(("x", "b", "typed"), ("x", "c", "inline"), ("x", "d", "derived")),
            "b": note(), "c": note(), "d": note(),
        }  # fmt: skip
        assert await find_ids(items, LinkWalk(roots=["a"], origins=origins)) == list(expected)

    async def test_several_roots_start_in_their_order_without_duplicates(self):
        policy = LinkWalk(roots=["f", "root", "f"], max_depth=0)
        assert await find_ids(TREE, policy) == ["f", "root"]

    async def test_cycles_end_and_each_note_comes_once(self):
        items = {"a": note(("x", "b")), "b": note(("x", "c")), "c": note(("x", "a"), ("x", "c"))}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, LinkWalk(roots=["a"], direction="out"), max_depth=None)
        assert [hit.artifact_id for hit in hits] == ["a", "b", "c"]
        assert (walk.summary.stop, walk.summary.truncated) == ("exhausted", False)

    async def test_a_note_without_text_is_a_router(self):
        items = {"a": note(("x", "b")), "b": note(("x", "c"), text=""), "c": note()}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, LinkWalk(roots=["a"], direction="out"))
            assert [walk.path(hit) for hit in hits] == [["a"], ["a", "b", "c"]]
        assert walk.summary.routed == 1

    async def test_links_to_other_corpora_and_dangling_links_are_not_followed(self):
        items = {"a": note(("x", ("other", "b")), ("x", "nowhere"), ("y", "b")), "b": note()}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, LinkWalk(roots=["a"]))
        assert [(hit.artifact_id, hit.metadata.get("walk_edge")) for hit in hits] == [("a", None), ("b", "y")]
        assert walk.summary.edges == 2  # there, and back

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_an_unknown_root_is_an_error_that_names_it(self, weighted):
        async with corpus_of(TREE) as corpus:
            with pytest.raises(NoLedgerEntry, match=r"'test' contains no artifact 'nowhere'"):
                await top_k(traverse("", corpus, policy=LinkWalk(roots=["root", "nowhere"], weighted=weighted)))

    async def test_without_roots_or_a_search_there_is_nothing_to_walk(self):
        async with corpus_of(TREE) as corpus:
            hits, walk = await walk_all(corpus, LinkWalk(start_k=0))
        assert (hits, walk.summary.stop) == ([], "exhausted")

    async def test_it_starts_from_a_search_only_without_roots(self):
        items = {f"n{at}": note(text="near") for at in range(6)}
        async with corpus_of(items) as corpus:
            searched, _ = await walk_all(corpus, LinkWalk(), "near")
            given, _ = await walk_all(corpus, LinkWalk(roots=["n5"]), "near")
        assert [hit.artifact_id for hit in searched] == ["n0", "n1", "n2", "n3"]
        assert [hit.artifact_id for hit in given] == ["n5"]

    async def test_roots_come_before_hits_of_a_search(self):
        items = {**TREE, "i": note(text="near")}
        policy = LinkWalk(roots=["g"], start_k=1, max_depth=0)
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy, "near")
        assert [(hit.artifact_id, hit.score) for hit in hits] == [("g", 0), ("i", 0)]

    @pytest.mark.parametrize("seeding", ["dense", "lexical", "hybrid", "titles"])
    async def test_hits_of_a_search_have_their_first_surface_too(self, seeding):
        items = {"far": note(), "wanted": note(text="wanted")}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(start_k=5, seeding=seeding), "wanted again near")
        assert ("wanted", 0, "wanted") in [(hit.artifact_id, hit.surface_index, hit.text) for hit in hits]
        assert {hit.surface_index for hit in hits} == {0}


KINDS = {
    "a": note(("x", "b"), ("x", "c"), kind="note"),
    "b": note(("x", "d"), kind="index"),
    "c": note(("x", "e"), kind="draft"),
    "d": note(("x", "f"), kind="note"),
    "e": note(kind="note"),
    "f": note(kind="note"),
}


class TestScope:
    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize(
        ("scope", "expected"),
        [
            (Scope(), "abcdef"),
            (Scope(keep={"kind": "note"}), "adef"),
            (Scope(cross={"kind": {"$ne": "index"}}), "abce"),
            (Scope.only({"kind": {"$ne": "draft"}}), "abdf"),
            (Scope.only({"kind": "note"}), "a"),
            (Scope(start={"kind": "draft"}), ""),
        ],
    )
    async def test_a_scope_selects_notes_to_start_from_cross_and_keep(self, scope, expected, weighted):
        policy = LinkWalk(roots=["a"], direction="out", scope=scope, weighted=weighted, max_depth=None)
        assert await find_ids(KINDS, policy) == list(expected)

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_a_root_that_may_not_start_can_still_be_reached(self, weighted):
        policy = LinkWalk(roots=["a", "b"], scope=Scope(start={"kind": "note"}), weighted=weighted, max_depth=1)
        async with corpus_of(KINDS) as corpus:
            hits, _ = await walk_all(corpus, policy)
        places = [(hit.artifact_id, hit.metadata["walk_depth"], hit.metadata["walk_parent"]) for hit in hits]
        assert places == [("a", 0, None), ("b", 1, "a"), ("c", 1, "a")]

    @pytest.mark.parametrize("weighted", [False, True])
    async def test_notes_neither_crossed_nor_kept_do_not_count_in_the_budget(self, weighted):
        scope = Scope.only({"kind": {"$ne": "index"}})
        policy = LinkWalk(roots=["b", "a"], direction="out", scope=scope, weighted=weighted)
        async with corpus_of(KINDS) as corpus:
            hits, walk = await walk_all(corpus, policy, node_budget=3)
        assert [hit.artifact_id for hit in hits] == ["a", "c", "e"]
        assert walk.summary.routed == 0

    async def test_a_search_finds_seed_k_notes_that_may_start(self):
        items = {"a": note(text="near", kind="draft"), "b": note(kind="note")}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(start_k=1, scope=Scope(start={"kind": "note"})), "near")
        assert [hit.artifact_id for hit in hits] == ["b"]

    async def test_a_scope_applies_to_first_surfaces(self):
        items = {"a": note(text="first", kind="note")}
        policy = LinkWalk(start_k=1, scope=Scope.only({"kind": "note"}))
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy, "near")
        assert [(hit.text, hit.surface_index) for hit in hits] == [("first", 0)]


class TestByCost:
    @pytest.mark.parametrize(
        ("type", "value", "cost"),
        [
            ("related", 50, 1.5),
            ("related", 100, 1.0),
            ("related", 0, 2.0),
            ("supports", 72.5, 1.275),
            ("part-of", 100, 0.5),
            ("has-part", 0, 1.0),
            ("follows", 40, 0.8),
            ("precedes", None, 0.75),
            ("same-as", 50, 0.75),
            ("alias-of", 50, 0.75),
            ("has-alias", 50, 0.75),
            ("related", None, 1.5),
            ("related", True, 1.5),
            ("related", "90", 1.5),
            ("related", 101, 1.5),
            ("related", -1, 1.5),
            ("related", [90], 1.5),
        ],
    )
    async def test_an_edge_costs_by_its_type_and_the_value_of_its_target(self, type, value, cost):
        items = {"a": note((type, "b"), value=7), "b": note(**({} if value is None else {"value": value}))}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(roots=["a"], weighted=True))
        assert [hit.score for hit in hits] == [0, pytest.approx(-cost, abs=1e-12)]

    async def test_a_note_without_text_has_no_value(self):
        items = {"a": note(("x", "b")), "b": note(("x", "c"), text="", value=100), "c": note(value=100)}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(roots=["a"], weighted=True, direction="out"))
        assert [(hit.artifact_id, hit.score) for hit in hits] == [("a", 0), ("c", -2.5)]

    async def test_a_cheap_detour_beats_an_expensive_direct_link(self):
        items = {
            "root": note(("x", "a"), ("part-of", "b")),
            "a": note(value=0),
            "b": note(("part-of", "a"), value=100),
        }
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(roots=["root"], weighted=True, direction="out"))
        paths = [(hit.artifact_id, hit.score, hit.metadata["walk_path"]) for hit in hits]
        assert paths == [
            ("root", 0.0, ["root"]),
            ("b", -0.5, ["root", "b"]),
            ("a", -1.5, ["root", "b", "a"]),
        ]

    @pytest.mark.slow
    async def test_costs_of_whole_values_add_up_without_rounding(self):
        items = {f"{at:02}": note(("x", f"{at + 1:02}"), value=37) for at in range(40)}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, LinkWalk(roots=["00"], weighted=True), max_depth=None)
        assert [hit.score for hit in hits] == [-163 * at / 100 if at else 0.0 for at in range(40)]

    async def test_of_paths_of_equal_cost_the_one_with_fewer_hops_counts(self):
        """The path over b1 and b2 is found first, since b2 is cheaper than c.

        The path over c is shorter.
        """
        items = {
            "a": note(("part-of", "b1"), ("x", "c"), ("x", "z")),
            "b1": note(("part-of", "b2"), value=100),
            "b2": note(("x", "d"), value=60),
            "c": note(("part-of", "d"), value=30),
            "d": note(("x", "e"), value=100),
            "e": note(value=100),
            "z": note(value=90),  # settled together with b2, before c
        }
        policy = LinkWalk(roots=["a"], weighted=True, direction="out", max_depth=3)
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy)
        paths = [(hit.score, " ".join(hit.metadata["walk_path"])) for hit in hits]
        assert paths == [
            (0, "a"), (-0.5, "a b1"), (-1.1, "a z"), (-1.2, "a b1 b2"), (-1.7, "a c"), (-2.2, "a c d"),
            (-3.2, "a c d e"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("value", "max_depth", "depths", "left_out"),
        [
            (50, 2, {"a": 0, "b": 1, "d": 2}, {"max_depth": 1}),  # over b it costs 1.25, at once 1.5
            (100, 2, {"a": 0, "b": 1, "d": 1, "e": 2}, {}),  # both cost 1
            (50, 3, {"a": 0, "b": 1, "d": 2, "e": 3}, {}),
        ],
    )
    async def test_the_depth_cap_counts_hops_of_the_cheapest_path_even_if_another_is_shorter(
        self, value, max_depth, depths, left_out
    ):
        items = {
            "a": note(("part-of", "b"), ("x", "d")),
            "b": note(("part-of", "d"), value=100),
            "d": note(("x", "e"), value=value),
            "e": note(),
        }
        policy = LinkWalk(roots=["a"], weighted=True, direction="out")
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy, max_depth=max_depth, limits=COUNTED)
        assert {hit.artifact_id: hit.metadata["walk_depth"] for hit in hits} == depths
        assert walk.summary.left_out == left_out

    async def test_examples_of_qipu(self):
        """A low value puts a note farther away, and all notes stay reachable.

        Without weights, hops count.
        """
        items = {"a": note(("x", "b"), value=100), "b": note(("x", "c"), value=0), "c": note(value=100)}
        for weighted, scores in ((True, [0, -2, -3]), (False, [0, -1, -2])):
            async with corpus_of(items) as corpus:
                hits, _ = await walk_all(corpus, LinkWalk(roots=["a"], weighted=weighted))
            assert [hit.score for hit in hits] == scores


SUPPORT = {"a": note(("supports", "b", "typed")), "b": note(("answers", "c")), "c": note()}
Y_FIRST = LinkWalk(roots=["b"], inverses=Inverses({"x": "z"}))


class TestInverses:
    """Names of links that are walked against their direction."""

    @pytest.mark.parametrize("weighted", [False, True])
    @pytest.mark.parametrize("direction", ["in", "both"])
    @pytest.mark.parametrize(
        ("options", "by_inverse", "as_stored"),
        [
            ({"types": ["supported-by"]}, "ba", "b"),
            ({"types": ["supports"]}, "b", "ba"),
            ({"types": ["supports", "supported-by"]}, "ba", "ba"),
            ({"types": ["supported-by"], "exclude": ["supported-by"]}, "b", "b"),
            ({"types": ["supported-by"], "exclude": ["supports"]}, "ba", "b"),
            ({"exclude": ["supported-by", "answers"]}, "b", "ba"),
            ({"exclude": ["supports", "answers"]}, "ba", "b"),
            ({"types": []}, "b", "b"),
        ],
    )
    async def test_types_and_exclude_apply_to_the_inverse_against_the_direction(
        self, options, by_inverse, as_stored, direction, weighted
    ):
        options = {"roots": ["b"], "direction": direction, "weighted": weighted, **options}
        assert await find_ids(SUPPORT, LinkWalk(inverses=INVERSES, **options)) == list(by_inverse)
        assert await find_ids(SUPPORT, LinkWalk(**options)) == list(as_stored)

    @pytest.mark.parametrize("types", [["supports"], ["supported-by"]])
    async def test_along_its_direction_a_link_has_its_stored_type(self, types):
        policy = LinkWalk(roots=["a"], direction="out", types=types, inverses=INVERSES)
        assert await find_ids(SUPPORT, policy) == ["a", "b"][: 1 + (types == ["supports"])]

    async def test_a_custom_inverse_is_compared_too(self):
        inverses = Inverses({"supports": "held-by"})
        policy = LinkWalk(roots=["b"], types=["held-by"], inverses=inverses)
        assert await find_ids(SUPPORT, policy) == ["b", "a"]

    @pytest.mark.parametrize("origin", ["typed", "inline"])
    async def test_the_origin_is_that_of_the_stored_link(self, origin):
        policy = LinkWalk(roots=["b"], direction="in", origins=[origin], inverses=INVERSES)
        assert await find_ids(SUPPORT, policy) == ["b", "a"][: 1 + (origin == "typed")]

    async def test_hits_and_events_contain_the_stored_edge(self):
        policy = LinkWalk(roots=["b"], inverses=INVERSES)
        async with corpus_of(SUPPORT) as corpus:
            hits, _ = await walk_all(corpus, policy)
            events = [event async for event in traverse("", corpus, policy=policy, max_depth=1).events()]
        assert [(hit.artifact_id, hit.metadata.get("walk_edge")) for hit in hits] == [
            ("b", None), ("c", "answers"), ("a", "supports"),
        ]  # fmt: skip
        along, against = Edge("b", "c", "answers"), Edge("a", "b", "supports", "typed")
        assert [event for event in events if isinstance(event, EdgeFound)] == [
            EdgeFound("b", "c", "answers", known=False, edge=along),
            EdgeFound("b", "a", "supports", known=False, edge=against),
        ]

    async def test_neighbours_come_by_name_then_by_id_out_before_in(self):
        """Stored, `answers` would come first, and links of one type would come together."""
        items = {
            "m": note(("supported-by", "c"), ("related", "b"), ("supported-by", "a")),
            "a": note(("supports", "m")),
            "b": note(("supports", "m"), ("related", "m")),
            "c": note(("answers", "m")),
            "d": note(("answered-by", "m")),
        }
        async with corpus_of(items) as corpus:
            walk = traverse("", corpus, policy=LinkWalk(roots=["m"], inverses=INVERSES), max_depth=1)
            edges = [event.edge async for event in walk.events() if isinstance(event, EdgeFound)]
        assert [(INVERSES.name_of(edge, "m"), edge.source, edge.target) for edge in edges] == [
            ("answered-by", "c", "m"), ("answers", "d", "m"), ("related", "m", "b"), ("related", "b", "m"),
            ("supported-by", "m", "a"), ("supported-by", "a", "m"), ("supported-by", "b", "m"),
            ("supported-by", "m", "c"),
        ]  # fmt: skip

    async def test_a_fan_out_cap_admits_the_first_by_name(self):
        policy = LinkWalk(roots=["b"], inverses=INVERSES)
        async with corpus_of({"a": note(("x", "b")), "b": note(("y", "c")), "c": note()}) as corpus:
            for given, first in ((policy, "a"), (replace(policy, inverses=None), "a"), (Y_FIRST, "c")):
                hits, walk = await walk_all(corpus, given, limits=Limits(max_fanout=1), max_depth=1)
                assert [hit.artifact_id for hit in hits] == ["b", first]
                assert walk.summary.left_out == {"max_fanout": 1}

    @pytest.mark.parametrize(
        ("types", "left_out"), [(["supported-by"], {"max_depth": 1}), (["supports"], {}), (["x"], {})]
    )
    async def test_the_count_beyond_the_depth_cap_uses_the_same_names(self, types, left_out):
        async with corpus_of(SUPPORT) as corpus:
            policy = LinkWalk(roots=["b"], inverses=INVERSES, types=types)
            _, walk = await walk_all(corpus, policy, max_depth=0, limits=COUNTED)
        assert walk.summary.left_out == left_out

    async def test_a_link_back_to_the_parent_does_not_count_as_left_out(self):
        async with corpus_of({"a": note(("supports", "b")), "b": note()}) as corpus:
            _, walk = await walk_all(corpus, LinkWalk(roots=["a"], inverses=INVERSES), max_depth=1, limits=COUNTED)
        assert not walk.summary.truncated

    async def test_costs_are_those_of_the_stored_links(self):
        items = {"a": note(("part-of", "b")), "b": note()}
        policy = LinkWalk(roots=["b"], weighted=True, inverses=Inverses({"part-of": "holds"}))
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy)
        assert [hit.score for hit in hits] == [0, -0.75]

    async def test_neighbours_in_several_corpora_come_in_their_order(self):
        parts = {
            "zoo": {"m": note(("x", ("art", "b")), ("x", "c")), "c": note()},
            "art": {"b": note(), "d": note(("inverse-x", ("zoo", "m"))), "a": note(("y", ("zoo", "m")))},
        }
        async with corpus_of(parts["zoo"]) as zoo, corpus_of(parts["art"]) as art:
            both = FederatedCorpus({"zoo": replace(zoo, name="zoo"), "art": replace(art, name="art")})
            hits, _ = await walk_all(both, LinkWalk(roots=[("zoo", "m")], inverses=INVERSES))
        assert [hit.key for hit in hits[1:]] == [("art", "a"), ("zoo", "c"), ("art", "b"), ("art", "d")]


# --- against references ----------------------------------------------------------------------------------------------

CLOSE = {"part-of", "has-part", "follows", "precedes", "same-as", "alias-of", "has-alias"}
TYPES = ("follows", "part-of", "related", "supports")


@dataclass(frozen=True)
class Graph:
    items: dict
    roots: list

    def edges(self, id, direction):
        """Return the other ends of links and their types, by type, then by id, without duplicates."""
        out = {link for link in self.items[id]["links"] if link[1] != id}
        back = {(kind, other) for other, each in self.items.items() for kind, end in each["links"]
                if end == id != other}  # fmt: skip
        return sorted((out if direction != "in" else set()) | (back if direction != "out" else set()))

    def cost(self, kind, end):
        """Return the cost in hundredths, as a whole number or half of one."""
        value = self.items[end].get("value", 50) if self.items[end]["text"] else 50
        return (0.5 if kind in CLOSE else 1) * (200 - value)

    def texts(self, ids):
        return [id for id in ids if self.items[id]["text"]]


def graph_of(number):
    chance = Random(number)
    ids = [f"n{at:02}" for at in range(chance.choice([4, 8, 12, 20]))]
    chance.shuffle(ids)
    degree, values = chance.choice([1, 2, 4]), chance.choice([[100], [50, 100], range(101)])
    items = {
        id: note(
            *{(chance.choice(TYPES), chance.choice(ids)) for _ in range(chance.randint(0, degree))},
            text="" if chance.random() < 0.1 else id,
            **({} if chance.random() < 0.2 else {"value": chance.choice(values)}),
        )
        for id in ids
    }
    return Graph(items, chance.sample(ids, chance.choice([1, 1, 2, 3])))


graphs = st.integers(0, 2**32).map(graph_of)
directions = st.sampled_from(["out", "in", "both"])
some_types = st.lists(st.sampled_from([*TYPES, "precedes", "has-part", "supported-by"]), max_size=4)
backends = pytest.mark.parametrize("backend", ["asyncio", "trio"])


def breadth_first(graph, direction, max_depth):
    """Return ids in order of discovery, with their depths and parents."""
    seen = dict.fromkeys(graph.roots, (0, None))
    queue = list(seen)
    for id in queue:
        depth, _ = seen[id]
        for _, end in graph.edges(id, direction) if depth != max_depth else []:
            if end not in seen:
                seen[end] = depth + 1, id
                queue.append(end)
    return {id: seen[id] for id in queue}


def dijkstra(graph, direction, max_depth):
    """Return ids with costs, depths and parents, by cost, hops and order of discovery."""
    ticket, settled = count(), {}
    heap = [(0, 0, next(ticket), root, None) for root in graph.roots]
    heapq.heapify(heap)
    while heap:
        cost, depth, _, id, parent = heapq.heappop(heap)
        if id in settled:
            continue
        settled[id] = cost, depth, parent
        for kind, end in graph.edges(id, direction) if depth != max_depth else []:
            heapq.heappush(heap, (cost + graph.cost(kind, end), depth + 1, next(ticket), end, id))
    return settled


async def walk_by_id(corpus, policy, **options):
    hits, walk = await walk_all(corpus, policy, node_budget=100, **options)
    assert walk.ranking == hits
    return {
        hit.artifact_id: (-hit.score, hit.metadata["walk_depth"], hit.metadata["walk_parent"]) for hit in hits
    }, walk


@pytest.mark.slow
@backends
@given(graphs, directions, st.none() | st.integers(0, 4))
@settings(max_examples=examples(50))
def test_by_hops_it_is_breadth_first_search(backend, graph, direction, max_depth):
    policy = LinkWalk(roots=graph.roots, direction=direction)

    async def main():
        expected = breadth_first(graph, direction, max_depth)
        async with corpus_of(graph.items) as corpus:
            hits, walk = await walk_by_id(corpus, policy, max_depth=max_depth)
            assert list(hits.items()) == [
                (id, (depth, depth, parent)) for id, (depth, parent) in expected.items() if graph.texts([id])
            ]
            assert walk.summary.committed == len(expected)
            if max_depth:
                shorter, _ = await walk_by_id(corpus, policy, max_depth=max_depth - 1)
                assert list(shorter) == [id for id in hits if expected[id][0] < max_depth]
                assert list(hits)[: len(shorter)] == list(shorter)

    anyio.run(main, backend=backend)


@pytest.mark.slow
@backends
@given(graphs, directions, st.none() | st.integers(0, 4), st.integers(0, 10))
@settings(max_examples=examples(75))
def test_by_cost_it_commits_notes_in_the_order_of_dijkstra(backend, graph, direction, max_depth, budget):
    policy = LinkWalk(roots=graph.roots, direction=direction, weighted=True)

    async def main():
        expected = dijkstra(graph, direction, max_depth)
        async with corpus_of(graph.items) as corpus:
            hits, walk = await walk_by_id(corpus, policy, max_depth=max_depth)
            assert list(hits.items()) == [
                (id, (cost / 100, depth, parent)) for id, (cost, depth, parent) in expected.items() if graph.texts([id])
            ]
            assert walk.summary.committed == len(expected)
            assert walk.summary.steps <= 2 * max((cost for cost, _, _ in expected.values()), default=0) / 100 + 1
            fewer, _ = await walk_all(corpus, policy, max_depth=max_depth, node_budget=budget)
            assert [hit.artifact_id for hit in fewer] == graph.texts(list(expected)[:budget])

    anyio.run(main, backend=backend)


@pytest.mark.slow
@backends
@given(
    graphs,
    directions,
    st.fixed_dictionaries(
        {
            "types": st.sampled_from([None, ["x", "supported-by"]]),
            "exclude": st.sampled_from([(), ["supports"]]),
            "inverses": st.sampled_from([None, INVERSES]),
        }
    ),
    st.tuples(st.integers(0, 3), st.integers(1, 12), st.integers(1, 4), st.integers(0, 20), st.integers(1, 9)),
)
@settings(max_examples=examples(30))
def test_a_store_without_columns_gives_the_same_walk(backend, graph, direction, chosen, bounds):
    max_depth, budget, fanout, edges, frontier = bounds
    limits = Limits(max_fanout=fanout, max_edges=edges, max_frontier=frontier)
    options = {"direction": direction, **chosen}

    async def main():
        async with corpus_of(graph.items) as corpus:
            walks = []
            for store in (corpus.store, Wrapper(corpus.store)):
                form = replace(corpus, store=store)
                policy = LinkWalk(roots=graph.roots, **options)
                hits, walk = await walk_all(form, policy, max_depth=max_depth, node_budget=budget, limits=limits)
                again = traverse("", form, policy=policy, max_depth=max_depth, node_budget=budget, limits=limits)
                once = walk_links(form, graph.roots, max_hops=max_depth, max_fanout=fanout, **options)
                events = [[event.to_dict() async for event in each.events()] for each in (again, once)]
                for ended in events:
                    ended[-1].pop("seconds")
                summary = {**walk.summary.to_dict(), "seconds": 0}
                walks.append(([hit.to_dict() for hit in hits], [hit.key for hit in walk.ranking], summary, events))
            assert walks[0] == walks[1]

    if graph.roots:
        anyio.run(main, backend=backend)


@pytest.mark.slow
@given(graphs, directions)
@settings(max_examples=examples(50))
def test_without_a_cap_costs_are_the_shortest_distances_of_networkx(graph, direction):
    weights = nx.DiGraph()
    weights.add_nodes_from(graph.items)
    for id in graph.items:
        for kind, end in graph.edges(id, direction):
            cost = graph.cost(kind, end)
            weights.add_edge(id, end, weight=min(cost, weights.get_edge_data(id, end, {"weight": cost})["weight"]))
    distances = nx.multi_source_dijkstra_path_length(weights, set(graph.roots))

    async def main():
        async with corpus_of(graph.items) as corpus:
            hits, _ = await walk_all(
                corpus, LinkWalk(roots=graph.roots, direction=direction, weighted=True), max_depth=None
            )
            assert {hit.artifact_id: -100 * hit.score for hit in hits} == pytest.approx(
                {id: distance for id, distance in distances.items() if graph.texts([id])}
            )
            for hit in hits:
                path = hit.metadata["walk_path"]
                assert sum(weights.edges[pair]["weight"] for pair in pairwise(path)) == pytest.approx(-100 * hit.score)

    anyio.run(main)


def with_inverses(graph, direction, inverses):
    """Return the notes with only the links that are walked along.

    A link that is walked against its direction is written in reverse.
    """
    links = {id: list(item["links"]) if direction != "in" else [] for id, item in graph.items.items()}
    for id, item in graph.items.items():
        for kind, end in item["links"] if direction != "out" else []:
            links[end].append((inverses.of(kind), id))
    return {id: {**item, "links": links[id]} for id, item in graph.items.items()}


@pytest.mark.slow
@backends
@given(
    graphs,
    directions,
    st.sampled_from([INVERSES, Inverses({"related": "follows", "supports": "follows"})]),
    st.fixed_dictionaries({"types": st.none() | some_types, "exclude": some_types}),
)
@settings(max_examples=examples(40))
def test_a_walk_with_inverses_equals_a_walk_along_reversed_links(backend, graph, direction, inverses, chosen):
    options = {"roots": graph.roots, "weighted": inverses == INVERSES, **chosen}

    async def main():
        async with corpus_of(with_inverses(graph, direction, inverses)) as corpus:
            expected, along = await walk_by_id(corpus, LinkWalk(direction="out", **options))
        async with corpus_of(graph.items) as corpus:
            hits, walk = await walk_by_id(corpus, LinkWalk(direction=direction, inverses=inverses, **options))
        assert list(hits.items()) == list(expected.items())
        assert walk.summary.left_out == along.summary.left_out

    anyio.run(main, backend=backend)


# --- what a walk costs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scope", [Scope(), Scope(cross={"kind": {"$ne": "x"}})])
async def test_without_a_search_nothing_is_embedded_and_no_vector_is_read(weighted, scope):
    async with corpus_of(TREE) as corpus:
        policy = LinkWalk(roots=["root"], weighted=weighted, scope=scope)
        refusing = replace(
            corpus, store=Without(corpus.store, "dense", "scores", "vectors"), embedder=Refusing(corpus.embedder)
        )
        assert (await walk_by_id(refusing, policy))[0] == (await walk_by_id(corpus, policy))[0]


def layers_of(width):
    """Return a root, two layers of `width` notes each, and a last note.

    Each note links to all of the next layer.
    """
    layers = [["a"], *[[f"{layer}{at:03}" for at in range(width)] for layer in "bc"], ["d"]]
    return {
        id: note(*[("x", end) for end in behind], kind=id[0])
        for layer, behind in zip(layers, [*layers[1:], []], strict=True)
        for id in layer
    }


@pytest.mark.parametrize("width", [3, 30])
@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({}, ["RecordsOf"]),
        ({"weighted": True}, ["RecordsOf"]),
        ({"inverses": INVERSES, "types": ["x"]}, ["RecordsOf"]),
        ({"scope": Scope(keep={"kind": {"$ne": "x"}})}, ["RecordsOf"]),
        ({"scope": Scope.only({"kind": {"$ne": "x"}}), "weighted": True}, ["RecordsOf"]),
        ({"roots": [], "start_k": 1, "seeding": "dense"}, ["dense", "RecordsOf"]),
        ({"roots": [], "start_k": 1, "seeding": "lexical"}, ["lexical", "RecordsOf"]),
    ],
)
async def test_a_step_of_any_width_costs_two_store_calls(width, options, start):
    items = layers_of(width)
    items["a"]["text"] = "near the very start"
    async with corpus_of(items) as corpus:
        store = Asked(corpus.store)
        policy = LinkWalk(**{"roots": ["a"], "direction": "out", **options})
        hits, walk = await walk_all(replace(corpus, store=store), policy, "near start", node_budget=500)
    assert len(hits) == 1 + 2 * width
    assert store.calls[: len(start)] == start
    assert {*store.calls[len(start) :]} <= {"Edges", "RecordsOf"}
    assert len(store.reads) <= len(start) + 2
    assert walk.summary.unknown == ("max_depth",)


async def test_by_cost_each_note_is_looked_up_once_for_any_number_of_paths():
    asked = []

    class Noting(Wrapper):
        async def read(self, *requests):
            answers = await super().read(*requests)
            rows = zip(requests, answers, strict=True)
            asked.extend(len(answer) for each, answer in rows if kind_of(each) == "RecordsOf")
            return answers

    async with corpus_of(layers_of(5)) as corpus:
        await walk_all(
            replace(corpus, store=Noting(corpus.store)), LinkWalk(roots=["a"], weighted=True, direction="out")
        )
    assert asked == [1, 5, 5]


@pytest.mark.slow
async def test_hits_are_read_in_slices_when_they_are_needed():
    """The first hit is yielded before a layer of a thousand is read: at most 512 at a time."""
    items = {f"{at:04}": note() for at in range(600)}
    items["hub"] = note(*[("x", id) for id in items])
    async with corpus_of(items) as corpus:
        store = Asked(corpus.store)
        async with traverse("", replace(corpus, store=store), policy=LinkWalk(roots=["hub"]), node_budget=601) as walk:
            ids = [(await anext(walk)).artifact_id for _ in range(513)]
            assert store.reads == [["RecordsOf", "Edges", "RecordsOf"], ["RecordsOf"]]
            ids += [hit.artifact_id async for hit in walk]
    assert ids == ["hub", *sorted(items)[:-1]]


@pytest.mark.parametrize("weighted", [False, True])
async def test_many_steps_are_processed_in_a_thread_with_the_same_outcome(weighted, monkeypatch):
    policy = LinkWalk(roots=["root"], weighted=weighted, scope=Scope(keep={"kind": {"$ne": "x"}}))
    async with corpus_of(TREE) as corpus:
        expected, _ = await walk_by_id(corpus, policy)
        calls = Counter()

        async def count_call(function, *arguments):
            calls[function.__name__] += 1
            return await in_thread(function, *arguments)

        in_thread = concurrency.in_thread
        monkeypatch.setattr(link_walk, "_OFFLOAD_ABOVE", 0)
        monkeypatch.setattr(artifact_policy, "_OFFLOAD_ABOVE", 0)
        monkeypatch.setattr(concurrency, "in_thread", count_call)
        assert (await walk_by_id(corpus, policy))[0] == expected
    assert set(calls) == {"value", "_positions_to_commit"}


async def test_neighbours_that_are_only_counted_are_not_made(monkeypatch):
    ends = []

    def record_ends(row, cost, part):
        ends.extend(row.ends[part])
        return make_steps(row, cost, part)

    make_steps = link_walk._make_steps
    monkeypatch.setattr(link_walk, "_make_steps", record_ends)
    async with corpus_of(TREE) as corpus:
        plain = replace(corpus, store=Wrapper(corpus.store))
        _, walk = await walk_all(plain, LinkWalk(roots=["root"], direction="out"), max_depth=0, limits=COUNTED)
    assert (ends, walk.summary.left_out) == ([], {"max_depth": 4})


async def test_a_small_frontier_keeps_the_first_paths():
    async with corpus_of(TREE) as corpus:
        hits, walk = await walk_all(corpus, LinkWalk(roots=["root"], direction="out"), limits=Limits(max_frontier=2))
    assert [hit.artifact_id for hit in hits] == ["root", "b", "a", "g", "f"]
    assert walk.summary.left_out["max_frontier"] == 3


# --- what it is ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"roots": "a"}, {"roots": None}, {"roots": [1]}, {"types": "x"}, {"types": [None]}, {"exclude": None},
        {"exclude": "x"}, {"origins": "typed"}, {"origins": ["guessed"]}, {"direction": "sideways"},
        {"inverses": {"x": "y"}}, {"seeding": "psychic"}, {"start_k": -1}, {"start_k": 1.5}, {"max_depth": 1.5},
        {"weighted": 1}, {"scope": {"kind": "note"}},
    ],
)  # fmt: skip
def test_bad_parameters_are_refused_when_it_is_created(options):
    with pytest.raises(ArgumentError, match=next(iter(options))):
        LinkWalk(**options)


def test_paths_are_kept_and_compared_only_by_cost():
    for weighted in (False, True):
        policy = LinkWalk(weighted=weighted)
        assert (policy.keeps_frontier, policy.scores_paths) == (weighted, weighted)


def test_changing_a_list_passed_to_it_does_not_change_it():
    roots = ["a"]
    names = {"x": "y"}
    policy = LinkWalk(roots=roots, types=["x"], origins=["typed"], inverses=Inverses(names))
    roots.append("b")
    names.clear()
    assert policy == LinkWalk(roots=("a",), types=("x",), origins=("typed",), inverses=Inverses({"x": "y"}))
    assert hash(policy) == hash(replace(policy))
    assert policy.max_depth == 2


@pytest.mark.parametrize("policy", [LinkWalk(), LinkWalk(roots=["a"])])
async def test_an_object_that_is_no_open_corpus_is_refused(policy):
    async with MemoryStore() as store:
        with pytest.raises(ArgumentError, match="expected an open corpus"):
            await top_k(traverse("", store, policy=policy))


def ring(store=None):
    """Build notes in a ring with many cycles; one of them has no text."""
    items = {
        f"{at:02}": note(
            *[(TYPES[(at + step) % 4], f"{(at + step) % 14:02}") for step in (1, 3, 5)],
            text="" if at == 9 else f"{'near' if at % 3 else 'far'} {at}",
            value=(at * 37) % 101,
            tags=[at % 4, {"deep": [at]}],
        )
        for at in range(14)
    }
    return corpus_of(items, store)


EXAMINED = {
    "hops": lambda: LinkWalk(roots=["00", "09"], direction="out"),
    "search": lambda: LinkWalk(roots=["05"], start_k=2, seeding="hybrid", exclude=["related"]),
    "cost": lambda: LinkWalk(roots=["00"], weighted=True, max_depth=None),
    "inverses": lambda: LinkWalk(roots=["00"], inverses=INVERSES, exclude=["supported-by"]),
    "scope": lambda: LinkWalk(
        roots=["03", "09"], weighted=True, scope=Scope(cross={"value": {"$lt": 90}}, keep={"tags": {"$ne": []}})
    ),
}
SUITES = {name: PolicySuite(make, ring, "near") for name, make in EXAMINED.items()}


@pytest.mark.parametrize(
    ("suite", "case"),
    [
        pytest.param(suite, case, id=f"{name}-{case}", marks=() if name == "hops" else pytest.mark.slow)
        for name, suite in SUITES.items()
        for case in suite.cases
    ],
)
async def test_it_passes_the_exam(suite, case):
    await suite.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", EXAMINED)
async def test_it_passes_the_exam_over_a_file(name, tmp_path):
    path = tmp_path / "ring.airw"
    async with ring(path):
        pass
    opened = lambda: open_corpus(path, embedder=FLAT)  # noqa: E731 (one line)
    report = await PolicySuite(EXAMINED[name], opened, "near").run()
    assert report.passed, str(report)
