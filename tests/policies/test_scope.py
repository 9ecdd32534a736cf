"""The effect of a scope on starting, crossing and returning.

It is tested on three strategies, along links and along shared values.
"""

from dataclasses import replace
from itertools import chain, pairwise

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import Corpus, open_corpus, top_k, traverse
from airw.embedders import HashingEmbedder
from airw.errors import ArgumentError, FilterError
from airw.policies import Beam, Eager, Mmr, PathCoverage, PersonalizedPageRank, Scope, Scored
from airw.protocols import Change
from airw.stores import MemoryStore
from airw.testing.changes import put
from airw.values import Limits
from airw.values.filters import Compare, parse_filter
from tests.support.artifact_corpora import (
    EIGHTHS,
    GROUPS,
    corpus_of,
    graphs,
    ids,
    item,
    nodes_to_keep,
    reference,
    walk_all,
)
from tests.support.asked import Asked
from tests.support.drawing import examples

WAYS = {"links": {"direction": "out"}, "edges": {"edges": [("links.REF", "$id")]}}
every_walk = pytest.mark.parametrize(
    ("make", "way"),
    [pytest.param(make, way, id=f"{make.__name__}-{way}") for make in (Eager, Scored, Mmr) for way in WAYS],
)
START, CROSS, KEEP = ({"start": True}, {"cross": True}, {"keep": True})


def node(text, *to, **fields):
    """Return an artifact that may start, be crossed and be kept, unless the fields forbid it."""
    return item(text, to=to, **{"start": True, "cross": True, "keep": True, **fields})


# Nearer and farther ends behind b, c and d, of which each lacks something, or nothing.
TREE = {
    "a": node("0", "b", "c", "d"),
    "b": node("0.05", "x"),
    "c": node("0.1", "y"),
    "d": node("0.15", "z"),
    "x": node("0.2"),
    "y": node("0.25"),
    "z": node("0.3"),
}


def tree(**lacking):
    """Return the tree, in which the named artifacts lack the given fields."""
    return {name: {**each, **dict.fromkeys(lacking.get(name, ()), False)} for name, each in TREE.items()}


def policy_of(make, way, scope, **options):
    return make(**{"start_k": 0, "roots": ["a"], "select_k": None, "scope": scope, **WAYS[way], **options})


async def walk_tree(make, way, scope, items=TREE, limits=None, **options):
    bounds = {name: options.pop(name) for name in ("max_depth", "node_budget") if name in options}
    async with corpus_of(items) as corpus:
        return await walk_all(corpus, policy_of(make, way, scope, **options), limits=limits, **bounds)


def paths(hits, walk):
    return sorted("".join(walk.path(hit)) for hit in hits)


class TestKeep:
    @every_walk
    async def test_an_artifact_that_may_not_be_kept_only_routes(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(keep=KEEP), tree(a=["keep"], c=["keep"], z=["keep"]))
        assert paths(hits, walk) == ["ab", "abx", "acy", "ad"]
        assert (walk.summary.emitted, walk.summary.routed, walk.summary.stop) == (4, 3, "exhausted")

    @every_walk
    async def test_routers_do_not_count_in_select_k(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(keep=KEEP), tree(a=["keep"], b=["keep"]), select_k=3)
        assert len(hits) == len(walk.ranking) == 3
        assert (walk.summary.routed, walk.summary.stop) == (2, "sufficient")

    @every_walk
    async def test_routers_count_in_the_node_budget_and_in_adjacent_k(self, make, way):
        items = tree(b=["keep"])
        hits, walk = await walk_tree(make, way, Scope(keep=KEEP), items, node_budget=2)
        assert (ids(hits), walk.summary.routed, walk.summary.stop) == (["a"], 1, "node_budget")
        hits, walk = await walk_tree(make, way, Scope(keep=KEEP), items, adjacent_k=1)
        assert paths(hits, walk) == ["a", "abx"]


class TestCross:
    @every_walk
    async def test_an_artifact_that_may_not_be_crossed_is_a_hit_without_neighbours(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(cross=CROSS), tree(b=["cross"], d=["cross"]))
        assert paths(hits, walk) == ["a", "ab", "ac", "acy", "ad"]
        assert walk.summary.stop == "exhausted"

    @every_walk
    async def test_its_neighbours_can_be_reached_by_another_path(self, make, way):
        items = {**tree(b=["cross"]), "c": node("0.1", "x", "y")}
        hits, walk = await walk_tree(make, way, Scope(cross=CROSS), items)
        assert "acx" in paths(hits, walk)

    @every_walk
    async def test_a_walk_whose_seed_may_not_be_crossed_ends_there(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(cross=CROSS), tree(a=["cross"]))
        assert (ids(hits), walk.summary.edges, walk.summary.stop) == (["a"], 0, "exhausted")

    @every_walk
    async def test_links_of_an_artifact_that_may_not_be_crossed_are_not_read(self, make, way):
        async with corpus_of(tree(a=["cross"])) as corpus:
            store = Asked(corpus.store)
            await walk_all(replace(corpus, store=store), policy_of(make, way, Scope(cross=CROSS)))
        assert not {"Edges", "Matching"} & {*store.calls}

    @every_walk
    async def test_it_does_not_count_in_max_traverse(self, make, way):
        """b is committed first.

        Then a, and c or d, whichever is chosen first, are expanded.
        """
        hits, walk = await walk_tree(make, way, Scope(cross=CROSS), tree(b=["cross"]), max_traverse=2, roots=["b", "a"])
        assert paths(hits, walk) in (["a", "ac", "acy", "ad", "b"], ["a", "ac", "ad", "adz", "b"])


class TestStart:
    @every_walk
    async def test_roots_that_may_not_start_are_skipped(self, make, way):
        hits, walk = await walk_tree(
            make, way, Scope(start=START), tree(a=["start"], x=["start"]), roots=["x", "a", "d"]
        )
        assert paths(hits, walk) == ["d", "dz"]
        assert walk.summary.committed == 2

    @every_walk
    async def test_skipped_roots_may_be_found_later(self, make, way):
        hits, walk = await walk_tree(
            make, way, Scope(start=START), tree(x=["start"], b=["start"]), roots=["x", "b", "a"]
        )
        assert paths(hits, walk) == ["a", "ab", "abx", "ac", "acy", "ad", "adz"]

    @every_walk
    async def test_a_search_for_seeds_finds_artifacts_that_may_start(self, make, way):
        options = {"roots": (), "start_k": 2, "max_depth": 0}
        hits, _ = await walk_tree(make, way, Scope(start=START), tree(a=["start"], c=["start"]), **options)
        assert ids(hits) == ["b", "d"]

    @every_walk
    async def test_a_walk_in_which_nothing_may_start_is_empty(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(start={"start": "never"}), start_k=3)
        assert (hits, walk.summary.committed, walk.summary.stop) == ([], 0, "exhausted")


class TestSkipped:
    """An artifact that may be neither crossed nor kept is treated as missing."""

    SCOPE = Scope(cross=CROSS, keep=KEEP)

    @every_walk
    async def test_it_is_not_committed_and_its_neighbours_are_not_found(self, make, way):
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(b=["cross", "keep"]))
        assert paths(hits, walk) == ["a", "ac", "acy", "ad", "adz"]
        assert (walk.summary.committed, walk.summary.routed, walk.summary.left_out) == (5, 0, {})
        assert walk.summary.stop == "exhausted"

    @every_walk
    async def test_it_does_not_count_in_adjacent_k(self, make, way):
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(b=["cross", "keep"]), adjacent_k=1)
        assert paths(hits, walk) == ["a", "ac", "acy"]

    @every_walk
    async def test_it_does_not_count_in_the_node_budget(self, make, way):
        hits, walk = await walk_tree(
            make,
            way,
            self.SCOPE,
            tree(b=["cross", "keep"]),
            node_budget=3,
            adjacent_k=2,
        )
        assert len(hits) == walk.summary.committed == 3
        assert "b" not in ids(hits)

    @every_walk
    async def test_it_does_not_count_in_select_k(self, make, way):
        hits, walk = await walk_tree(
            make, way, self.SCOPE, tree(b=["cross", "keep"], y=["cross", "keep"]), select_k=3, adjacent_k=1
        )
        assert paths(hits, walk) == ["a", "ac"]
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(b=["cross", "keep"]), select_k=3)
        assert (len(hits), walk.summary.routed, walk.summary.stop) == (3, 0, "sufficient")

    @every_walk
    async def test_it_is_skipped_as_a_root_too(self, make, way):
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(a=["cross", "keep"]), roots=["a", "c"])
        assert paths(hits, walk) == ["c", "cy"]

    @every_walk
    async def test_it_does_not_count_in_start_k(self, make, way):
        items = tree(a=["cross", "keep"], b=["cross", "keep"])
        hits, _ = await walk_tree(make, way, self.SCOPE, items, roots=(), start_k=2, max_depth=0)
        assert ids(hits) == ["c", "d"]

    @every_walk
    async def test_a_walk_with_only_skipped_artifacts_left_is_exhausted(self, make, way):
        shut = ["cross", "keep"]
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(b=shut, c=shut, d=shut))
        assert (ids(hits), walk.summary.stop, walk.summary.left_out) == (["a"], "exhausted", {})
        assert walk.summary.edges == 3

    @every_walk
    async def test_it_is_skipped_again_if_it_is_found_again(self, make, way):
        items = {**tree(x=["cross", "keep"]), "c": node("0.1", "x", "y"), "y": node("0.25", "x")}
        hits, walk = await walk_tree(make, way, self.SCOPE, items)
        assert paths(hits, walk) == ["a", "ab", "ac", "acy", "ad", "adz"]
        assert walk.summary.stop == "exhausted"

    @every_walk
    async def test_an_artifact_may_be_kept_but_not_crossed_and_the_other_way_round(self, make, way):
        hits, walk = await walk_tree(make, way, self.SCOPE, tree(b=["cross"], c=["keep"], d=["cross", "keep"]))
        assert paths(hits, walk) == ["a", "ab", "acy"]
        assert walk.summary.routed == 1


class TestTogether:
    @every_walk
    async def test_only_applies_one_filter_to_the_whole_walk(self, make, way):
        items = {**TREE, "c": node("0.1", "y", keep=False), "z": node("0.3", keep=False), "e": node("0.01", keep=False)}
        hits, walk = await walk_tree(make, way, Scope.only(KEEP), items, start_k=1, roots=["e", "a"])
        assert paths(hits, walk) == ["a", "ab", "abx", "ad"]
        assert walk.summary.routed == 0

    def test_only_sets_all_three_filters(self):
        parsed = parse_filter(KEEP)
        assert (
            Scope.only(KEEP)
            == Scope(start=KEEP, cross=parsed, keep=KEEP)
            == Scope(start=parsed, cross=parsed, keep=parsed)
        )

    @every_walk
    async def test_each_filter_applies_by_itself(self, make, way):
        scope = Scope(start={"kind": "hub"}, cross={"kind": {"$in": ["hub", "list"]}}, keep={"kind": "note"})
        items = {
            "h": item("0.3", to=["l", "n"], kind="hub"),
            "l": item("0.2", to=["m"], kind="list"),
            "m": item("0.1", to=["o"], kind="note"),
            "n": item("0.1", to=["l"], kind="note"),
            "o": item("0", kind="note"),
        }
        hits, walk = await walk_tree(make, way, scope, items, roots=["o", "h", "n"])
        assert paths(hits, walk) == ["hlm", "hn"]

    @every_walk
    async def test_filters_apply_to_the_surface_by_which_an_artifact_scores(self, make, way):
        items = {
            "a": item("0", to=["b", "c"]),
            "b": item(("0.1", {"lang": "en"}), ("0.2", {"lang": "de"})),
            "c": item(("0.2", {"lang": "en"}), ("0.1", {"lang": "de"})),
        }
        scope = Scope(keep={"lang": {"$ne": "de"}}, cross={"lang": {"$ne": "de"}})
        hits, _ = await walk_tree(make, way, scope, items)
        assert [(hit.artifact_id, hit.text) for hit in hits] == [("a", "0"), ("b", "0.1")]

    @pytest.mark.parametrize("make", [Eager, Scored, Mmr])
    async def test_an_artifact_without_surfaces_has_no_fields_to_filter(self, make):
        items = {"a": node("0", "b"), "b": item(to=["c"], kind="x"), "c": node("0.1")}
        for cross, found in (
            ({"kind": {"$ne": "y"}}, ["a", "c"]),
            ({"kind": {"$exists": False}}, ["a", "c"]),
            (KEEP, ["a"]),
        ):
            hits, walk = await walk_tree(make, "links", Scope(cross=cross, keep=KEEP), items)
            assert ids(hits) == found
        hits, walk = await walk_tree(make, "links", Scope(cross={"kind": "x"}, keep=KEEP), items, roots=["b"])
        assert (hits, walk.summary.committed) == ([], 0)

    @every_walk
    async def test_a_scope_costs_no_call_but_for_links_that_may_not_be_crossed(self, make, way):
        async with corpus_of(TREE) as corpus:
            calls = []
            for scope in (Scope(), Scope(cross=CROSS, keep=KEEP)):
                store = Asked(corpus.store)
                await walk_all(
                    replace(corpus, store=store), policy_of(make, way, scope, start_k=2, roots=(), seeding="dense")
                )
                calls.append(len(store.reads))
        # Links are read once it is known which artifacts may be crossed.
        assert calls[1] <= calls[0] + 2


class TestHonesty:
    @every_walk
    async def test_a_walk_with_select_k_of_zero_is_sufficient_at_once(self, make, way):
        hits, walk = await walk_tree(make, way, Scope(), select_k=0)
        assert (hits, walk.summary.committed, walk.summary.stop) == ([], 0, "sufficient")

    @every_walk
    async def test_the_count_beyond_the_depth_cap_does_not_cross_what_may_not_be_crossed(self, make, way):
        hits, walk = await walk_tree(
            make, way, Scope(cross=CROSS), tree(b=["cross"]), max_depth=1, limits=Limits(count_beyond_limits=True)
        )
        assert len(hits) == 4
        assert (walk.summary.stop, walk.summary.left_out) == ("exhausted", {"max_depth": 2})

    @every_walk
    async def test_the_count_beyond_the_budget_does_not_cross_it_either(self, make, way):
        _, walk = await walk_tree(
            make,
            way,
            Scope(cross=CROSS),
            tree(b=["cross"]),
            node_budget=4,
            adjacent_k=3,
            limits=Limits(count_beyond_limits=True),
        )
        assert (walk.summary.committed, walk.summary.stop) == (4, "node_budget")
        assert walk.summary.left_out["node_budget"] in (
            (1, 2) if make is Mmr else (2,)
        )  # Mmr chooses among near equals

    @every_walk
    async def test_without_the_count_beyond_the_limits_the_counts_are_unknown(self, make, way):
        _, walk = await walk_tree(make, way, Scope(keep=KEEP), max_depth=1)
        assert (walk.summary.unknown, walk.summary.left_out) == (("max_depth",), {})


@pytest.mark.parametrize("name", ["start", "cross", "keep"])
@pytest.mark.parametrize("filter", [{"$near": 1}, {"year": {"$above": 3}}, {"year": {}}, "year", {3: 4}])
def test_a_malformed_filter_is_refused_when_the_scope_is_created(name, filter):
    with pytest.raises(FilterError):
        Scope(**{name: filter})
    with pytest.raises(FilterError):
        Scope.only(filter)


@pytest.mark.parametrize("make", [Eager, Scored, Mmr])
@pytest.mark.parametrize("scope", [{"keep": {"lang": "en"}}, None, Compare("lang", "$eq", "en")])
def test_an_object_that_is_no_scope_is_refused_when_the_policy_is_created(make, scope):
    with pytest.raises(ArgumentError, match=r"scope must be a Scope, not .*; for one filter pass Scope\.only"):
        make(scope=scope)


def test_a_scope_is_a_value_with_parsed_filters():
    assert Scope(keep={"a": 1}) == Scope(keep=parse_filter({"a": 1})) != Scope(cross={"a": 1})
    assert Scope(start={}, cross=None, keep={}) == Scope()
    assert Eager(scope=Scope(keep={"a": 1})) == Eager(scope=Scope(keep={"a": 1})) != Eager()


# --- laws ------------------------------------------------------------------------------------------------------------

scopes = st.dictionaries(st.sampled_from(["start", "cross", "keep"]), st.sampled_from(GROUPS))
numbers = st.fixed_dictionaries(
    {
        "start_k": st.integers(0, 3),
        "select_k": st.none() | st.integers(1, 10),
        "adjacent_k": st.none() | st.integers(0, 4),
    }
)
depths = st.none() | st.integers(0, 3)
edges = st.none() | st.sampled_from([[("tags", "tags")], [("rank", "group"), ("tags", "tags")], [("links.x", "$id")]])
every_backend = pytest.mark.parametrize("backend", ["asyncio", "trio"])


async def walk_as_dicts(corpus, policy, query, **options):
    hits, walk = await walk_all(corpus, policy, query, **options)
    summary = walk.summary.to_dict() | {"seconds": None}
    return [hit.to_dict() for hit in hits], [hit.to_dict() for hit in walk.ranking], summary


@pytest.mark.slow
@every_backend
@pytest.mark.parametrize("make", [Eager, Scored, Mmr])
@given(data=st.data())
@settings(max_examples=examples(30))
def test_every_path_obeys_the_three_filters(make, backend, data):
    graph, scope, max_depth = data.draw(graphs()), data.draw(scopes), data.draw(depths)
    policy = make(roots=graph.roots, scope=Scope(**scope), edges=data.draw(edges), **data.draw(numbers))

    async def main():
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            hits, walk = await walk_all(corpus, policy, graph.query, max_depth=max_depth)
        walks = [walk.path(hit) for hit in hits]
        assert all(graph.passes(scope, "keep", path[-1]) for path in walks)
        assert all(graph.passes(scope, "cross", name) for path in walks for name, _ in pairwise(path))
        assert all(graph.passes(scope, "start", path[0]) for path in walks)
        assert walk.summary.stop in ("exhausted", "sufficient")
        assert {*walk.summary.left_out} <= {"max_depth"}

    anyio.run(main, backend=backend)


@pytest.mark.slow
@every_backend
@given(data=st.data())
@settings(max_examples=examples(50))
def test_breadth_first_walks_are_those_of_a_simple_reference(backend, data):
    graph, scope, counts, max_depth = data.draw(graphs()), data.draw(scopes), data.draw(numbers), data.draw(depths)

    def choose(pool, committed):
        return sorted(pool, key=lambda each: -graph.cosine(each.id)) if committed else pool[:]

    steps = reference(graph, choose, max_depth=max_depth, scope=scope, **counts)
    expected = nodes_to_keep(graph, chain.from_iterable(steps), scope)[: counts["select_k"]]
    policy = Eager(roots=graph.roots, scope=Scope(**scope), direction="out", seeding="dense", **counts)

    async def main():
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            hits, walk = await walk_all(corpus, policy, graph.query, max_depth=max_depth)
        assert [walk.path(hit) for hit in hits] == [each.path for each in expected]
        if walk.summary.stop == "exhausted":
            assert walk.summary.committed == sum(map(len, steps))

    anyio.run(main, backend=backend)


@pytest.mark.slow
@every_backend
@pytest.mark.parametrize("make", [Eager, Scored, Mmr])
@given(data=st.data())
@settings(max_examples=examples(20))
def test_a_scope_that_all_artifacts_pass_changes_nothing(make, backend, data):
    graph, max_depth = data.draw(graphs()), data.draw(depths)
    policy = make(roots=graph.roots, edges=data.draw(edges), **data.draw(numbers))
    filters = data.draw(st.sets(st.sampled_from(["start", "cross", "keep"]), min_size=1))
    all_of_them = Scope(**{name: {"group": {"$ne": 99}} for name in filters})

    async def main():
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            for options in ({}, {"node_budget": 5}):
                expected = await walk_as_dicts(corpus, policy, graph.query, max_depth=max_depth, **options)
                scoped = replace(policy, scope=all_of_them)
                assert await walk_as_dicts(corpus, scoped, graph.query, max_depth=max_depth, **options) == expected

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.asyncio_only
@every_walk
async def test_a_walk_of_a_file_equals_one_in_memory(make, way, tmp_path):
    items = tree(b=["cross"], c=["keep"], d=["cross", "keep"], x=["start"])
    path = tmp_path / "tree.airw"
    async with corpus_of(items, path):
        pass
    async with corpus_of(items) as corpus, open_corpus(path, embedder=corpus.embedder) as filed:
        for filters in (
            {"start": START},
            {"cross": CROSS},
            {"keep": KEEP},
            {"start": START, "cross": CROSS, "keep": KEEP},
        ):
            policy = policy_of(make, way, Scope(**filters), start_k=2, roots=["x", "a"])
            assert await walk_as_dicts(filed, policy, "0") == await walk_as_dicts(corpus, policy, "0")


@pytest.mark.parametrize("make", [Beam, Eager, Mmr, PathCoverage, PersonalizedPageRank, Scored])
async def test_a_hit_shows_only_a_surface_that_the_scope_keeps(make):
    """The search finds the document by its words, in a surface that may not be shown."""
    embedder = HashingEmbedder(dim=8)
    query = await embedder.embed_query("rotate vault")
    near, far = (query * 0.9 + 0.1).tolist(), (-query).tolist()
    change = put("doc", "public words", "secret: rotate vault", vectors=[near, far], dim=8)
    levels = zip(change.records, ("public", "secret"), strict=True)
    change = replace(change, records=[replace(record, metadata={"level": level}) for record, level in levels])
    others = [put(f"z{n}", "words", metadata={"level": "public"}, vectors=[query.tolist()], dim=8) for n in range(3)]
    async with MemoryStore() as store:
        await store.apply(Change([change, *others]))
        corpus = Corpus("own", store, embedder)
        hits = await top_k(traverse("rotate vault", corpus, policy=make(scope=Scope(keep={"level": "public"}))))
    assert len(hits) == 4
    assert {hit.metadata["level"] for hit in hits} == {"public"}
    assert not any("secret" in hit.text for hit in hits)
