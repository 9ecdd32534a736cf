"""Walks over several corpora as one graph, compared with walks in a single corpus."""

import json
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import Limits, embedder_from, open_corpus, search, traverse
from airw.discovery import FederatedCorpus
from airw.errors import ArgumentError, EmbedderMismatch, NoLedgerEntry, StoreError
from airw.policies import (
    Beam,
    CollapsedTree,
    Eager,
    LinkWalk,
    PersonalizedPageRank,
    ReverseDependency,
)
from airw.protocols import (
    ArtifactIds,
    Change,
    Edges,
    LinkCounts,
    MaxFanIn,
    Rank,
    RecordsOf,
    Referrers,
    UnresolvedLinks,
    VectorsOf,
    Words,
    ask,
)
from airw.stores import MemoryStore, Wrapper
from airw.testing import PolicySuite, ScriptedStore
from airw.testing.changes import put
from airw.values import Edge, Link, LinkCount, UnresolvedLink
from tests.support.artifact_corpora import EIGHTHS, item, walk_all
from tests.support.discoveries import Without
from tests.support.drawing import examples
from tests.support.federated_walks import (
    POLICIES,
    Nearest,
    keys,
    notes,
    parts_story,
    policy_of,
    story,
)
from tests.support.federations import Federation, part, split_of

OTHER = embedder_from(lambda texts: [[1.0, 0.0] for _ in texts], id="other", dim=2)


# --- a graph in parts ------------------------------------------------------------------------------------------------


async def whole_story(split, policy, store=None, **options):
    """Walk the single corpus of all artifacts, and return its story in the ids of the parts."""
    items = split.graph.items
    async with part(items, store=store) as corpus:
        hits, walk = await walk_all(corpus, policy, split.graph.query, **options)

    def with_pairs(rows):
        return [
            (*head, depth, [split.pair(id) for id in path], parent and split.pair(parent), *rest)
            for *head, depth, path, parent, edge, extra in rows
            for rest in [(edge, extra)]
        ]

    both = [with_pairs(story(each, walk, lambda hit: split.pair(hit.artifact_id))) for each in (hits, walk.ranking)]
    return both, walk.summary.to_dict() | {"seconds": 0}


SOONER = ("PathCoverage",)  # the others are left to the slow part
WALKED = [
    *(pytest.param("asyncio", name, marks=[pytest.mark.slow] * (name not in SOONER)) for name in POLICIES),
    *(
        pytest.param("trio", name, marks=pytest.mark.slow)
        for name in ("Eager", "LinkWalk", "Mmr", "PersonalizedPageRank")
    ),
]


@pytest.mark.parametrize(("backend", "name"), WALKED)
@given(number=st.integers(0, 2**32), budget=st.sampled_from([3, 64]))
@settings(max_examples=examples(10))
def test_a_walk_over_several_corpora_equals_the_walk_in_one(name, backend, number, budget):
    split = split_of(number)

    async def main():
        whole = await whole_story(split, policy_of(name, split.graph.roots), node_budget=budget)
        async with Federation(split.parts) as corpus:
            policy = policy_of(name, split.roots)
            assert await parts_story(corpus, policy, split.graph.query, node_budget=budget) == whole

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", ["Eager", "Eager-fields", "LinkWalk", "PersonalizedPageRank", "ReverseDependency"])
async def test_a_walk_over_several_files_equals_the_walk_in_one_corpus(name, tmp_path):
    for number in range(4):
        split = split_of(number)
        whole = await whole_story(split, policy_of(name, split.graph.roots))
        async with AsyncExitStack() as stack:
            opened = []
            for at, (each, items) in enumerate(split.parts.items()):
                path = tmp_path / f"{number}-{each}.airw"
                corpus = await stack.enter_async_context(part(items, each, path))
                if at:
                    opened.append(corpus)
                else:  # one of them is opened again
                    opened.append(await stack.enter_async_context(open_corpus(path, embedder=EIGHTHS)))
            assert await parts_story(FederatedCorpus(opened), policy_of(name, split.roots), split.graph.query) == whole


@pytest.mark.slow
async def test_a_walk_does_not_depend_on_which_corpus_answers_first():
    split = split_of(7)
    async with Federation(split.parts) as corpus:
        members = list(corpus.members.values())
        told = []
        for pauses in ([0.002, 0.001, 0], [0, 0.001, 0.002]):
            pairs = zip(members, pauses, strict=False)
            slow = [replace(each, store=ScriptedStore(each.store, delays=pause)) for each, pause in pairs]
            for limit in (1, 16):
                policy = policy_of("PersonalizedPageRank", split.roots)
                options = {"limits": Limits(max_concurrency=limit)}
                told.append(await parts_story(FederatedCorpus(slow), policy, split.graph.query, **options))
    assert all(each == told[0] for each in told)
    assert len(told[0][0][0]) > 3


# --- what there is only in several -----------------------------------------------------------------------------------


async def test_artifacts_with_the_same_id_in_two_corpora_are_distinct():
    parts = {"a": notes(x=[["b", "x"]], y=[]), "b": notes(x=["y"], y=[])}
    async with Federation(parts) as corpus:
        hits, _ = await walk_all(corpus, LinkWalk(roots=[("a", "x")], direction="out"))
        assert keys(hits) == [("a", "x"), ("b", "x"), ("b", "y")]
        hits, _ = await walk_all(corpus, Eager(start_k=9, select_k=None), "8 0 0 0 0 0 0 0")
        assert keys(hits) == [("a", "x"), ("b", "x"), ("a", "y"), ("b", "y")]


async def test_a_cycle_across_corpora_ends():
    parts = {"a": notes(x=[["b", "x"], ["a", "x"]]), "b": notes(x=[["a", "x"]])}
    async with Federation(parts) as corpus:
        hits, walk = await walk_all(corpus, LinkWalk(roots=[("b", "x")], max_depth=None), node_budget=1000)
    assert keys(hits) == [("b", "x"), ("a", "x")]
    assert walk.summary.stop == "exhausted"
    assert not walk.summary.truncated


async def test_links_to_a_corpus_that_is_not_open_lead_nowhere_and_cost_nothing():
    parts = {"a": notes(x=[["c", "x"], ["b", "none"], ["b", "x"]]), "b": notes(x=[])}
    async with Federation(parts) as corpus:
        _, walk = await walk_all(corpus, LinkWalk(roots=[("a", "x")]))
        assert (walk.summary.edges, walk.summary.committed, walk.summary.routed) == (2, 2, 0)
        assert await ask(corpus.store, Edges([("a", "x")])) == [[Edge(("a", "x"), ("b", "x"), "REF", "derived")]]


async def test_a_single_corpus_still_follows_no_link_to_another():
    items = notes(x=[["b", "x"], ["test", "y"], "z"], y=[], z=[])
    async with part(items) as corpus:
        outwards = {"roots": ["x"], "direction": "out"}
        for policy in (LinkWalk(**outwards), Eager(start_k=0, select_k=None, **outwards)):
            hits, walk = await walk_all(corpus, policy, "8 0 0 0 0 0 0 0")
            assert keys(hits) == [("test", "x"), ("test", "z")]
            assert (walk.summary.edges, walk.summary.routed) == (1, 0)


async def test_hits_and_their_paths_convert_to_strict_json():
    parts = {"a": notes(x=[["b", "y"]]), "b": notes(y=[])}
    async with Federation(parts) as corpus:
        hits, _ = await walk_all(corpus, LinkWalk(roots=[("a", "x")]))
        walk = traverse("", corpus, policy=LinkWalk(roots=[("a", "x")]))
        lines = [event.to_dict() async for event in walk.events()]
    said = json.loads(json.dumps(hits[1].to_dict()))
    assert (said["source"], said["artifact_id"]) == ("b", "y")
    assert said["metadata"]["walk_path"] == [["a", "x"], ["b", "y"]]
    assert said["metadata"]["walk_parent"] == ["a", "x"]
    assert ["b", "y"] in [line.get("target") for line in map(json.loads, map(json.dumps, lines))]


async def test_a_mapping_may_give_corpora_other_names():
    async with part(notes(x=[["two", "y"]]), "same") as one, part(notes(y=[]), "same") as two:
        hits, _ = await walk_all(FederatedCorpus({"one": one, "two": two}), LinkWalk(roots=[("one", "x")]))
        assert keys(hits) == [("one", "x"), ("two", "y")]
        with pytest.raises(ArgumentError, match="two are 'same'"):
            FederatedCorpus([one, two])


async def test_a_federation_does_not_close_its_corpora():
    async with part(notes(x=[]), "a") as corpus:
        hits, _ = await walk_all(FederatedCorpus([corpus]), LinkWalk(roots=[("a", "x")]))
        assert keys(hits) == [("a", "x")]
        assert await ask(corpus.store, ArtifactIds()) == ["x"]


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ([], "at least one"),
        ({}, "at least one"),
        ("notes", "must be a list of open corpora"),
        (["notes"], "as `build`, `open_corpus` or"),
        ({"notes": None}, "as `build`, `open_corpus` or"),
    ],
)
def test_a_value_that_is_no_list_of_open_corpora_is_refused(corpora, message):
    with pytest.raises(ArgumentError, match=message):
        FederatedCorpus(corpora)


async def test_invalid_names_are_refused():
    async with part(notes(x=[]), "a") as corpus:
        for name in ("", "a/b", 3, None):
            with pytest.raises(ArgumentError, match="names without"):
                FederatedCorpus({name: corpus})
        with pytest.raises(ArgumentError, match="pass its corpora instead"):
            FederatedCorpus([FederatedCorpus([corpus])])


# --- roots and seeds -------------------------------------------------------------------------------------------------

ROOTED = [
    lambda roots: LinkWalk(roots=roots),
    lambda roots: Eager(roots=roots, start_k=0, select_k=None),
    lambda roots: PersonalizedPageRank(roots=roots, seed_k=0),
    lambda roots: Beam(roots=roots, seed_k=0),
]


@pytest.mark.parametrize("policy", ROOTED)
async def test_a_root_without_its_corpus_is_refused_if_there_are_several(policy):
    async with Federation({"a": notes(x=[]), "b": notes(x=[])}) as corpus:
        for root in ("x", ("c", "x")):
            with pytest.raises(NoLedgerEntry, match=r"pass roots as \(source, id\) pairs, the source one of 'a', 'b'"):
                await walk_all(corpus, policy([root]), "8 0 0 0 0 0 0 0")


@pytest.mark.parametrize("policy", ROOTED)
async def test_a_single_corpus_accepts_pairs_with_its_own_name_and_refuses_others(policy):
    async with part(notes(x=[]), "a") as corpus:
        hits, _ = await walk_all(corpus, policy([["a", "x"], "x"]), "8 0 0 0 0 0 0 0")
        assert [(hit.artifact_id, hit.metadata["walk_path"]) for hit in hits] == [("x", ["x"])]
        with pytest.raises(NoLedgerEntry, match=r"contains no artifact \('b', 'x'\); pass roots as ids in it"):
            await walk_all(corpus, policy([("b", "x")]), "8 0 0 0 0 0 0 0")


async def test_a_link_walk_refuses_a_root_that_is_missing_from_its_corpus():
    async with Federation({"a": notes(x=[]), "b": notes(x=[])}) as corpus:
        with pytest.raises(NoLedgerEntry, match=r"'a \+ b' contains no artifact \('b', 'none'\)"):
            await walk_all(corpus, LinkWalk(roots=[("b", "none")]))


@pytest.mark.parametrize(
    ("roots", "message"), [("x", "one is"), (3, "a list of ids"), ([3], "roots must be"), ([("a", 3)], "roots must be")]
)
def test_roots_are_ids_or_pairs(roots, message):
    for policy in (LinkWalk, Eager, Nearest):
        with pytest.raises(ArgumentError, match=message):
            policy(roots=roots)


async def test_dependents_of_a_library_are_found_across_corpora():
    parts = {
        "apps": notes(site=["flask"], tool=[["libs", "flask"]], bot=["numpy"]),
        "libs": notes(flask=["numpy", ["apps", "site"]]),
    }
    async with Federation(parts) as corpus:

        async def dependents(*seeds):
            hits, _ = await walk_all(corpus, ReverseDependency(seeds=seeds), "8 0 0 0 0 0 0 0")
            return {hit.key: hit.metadata.get("seed") for hit in hits}

        flask, numpy = ("libs", "flask"), "numpy"
        # No artifact of `apps` has the id "flask"; there it is not the same node as the one in `libs`.
        assert await dependents("Flask>=2") == {flask: None, ("apps", "tool"): flask}
        assert await dependents(("libs", "FLASK")) == {flask: None, ("apps", "tool"): flask}
        assert await dependents(numpy) == {("apps", "bot"): numpy, flask: numpy, ("apps", "tool"): numpy}
        assert await dependents(("pypi", "numpy")) == {}
        assert await dependents(("apps", "site")) == {
            ("apps", "site"): None,
            flask: ("apps", "site"),
            ("apps", "tool"): ("apps", "site"),
        }


async def test_an_id_as_seed_means_all_artifacts_with_that_id():
    parts = {"a": notes(lib=[], use=["lib"]), "b": notes(lib=[], use=[["a", "lib"]])}
    async with Federation(parts) as corpus:
        hits, _ = await walk_all(corpus, ReverseDependency(seeds=["lib"], max_depth=0), "8 0 0 0 0 0 0 0")
        assert [(hit.key, hit.metadata["fan_in"]) for hit in hits] == [(("a", "lib"), 2), (("b", "lib"), 0)]
        assert await ask(corpus.store, MaxFanIn()) == 2
        assert await ask(corpus.members["a"].store, MaxFanIn()) == 1


async def test_unresolved_links_are_reported_as_pairs_by_corpus():
    parts = {"b": notes(y=["no", ["a", "x"]]), "a": notes(z=["no"], x=["none", ["b", "gone"]])}
    lost = [
        UnresolvedLink(pair, Link(ref, "REF", "derived"))
        for pair, ref in ((("b", "y"), "no"), (("a", "x"), "none"), (("a", "z"), "no"))
    ]
    async with Federation(parts) as corpus:
        assert await ask(corpus.store, UnresolvedLinks()) == lost
        assert await ask(corpus.store, UnresolvedLinks(limit=2)) == lost[:2]
        assert await ask(corpus.store, UnresolvedLinks([("a", "z"), "x", ("none", "x"), ("b", "y")])) == [
            lost[0],
            lost[2],
        ]
        assert await ask(corpus.store, UnresolvedLinks([])) == []
        assert await ask(corpus.store, LinkCounts()) == [
            LinkCount("REF", "derived", "dangling", 3),
            LinkCount("REF", "derived", "foreign", 2),
        ]


async def test_the_candidates_of_an_ambiguous_link_are_pairs_too():
    async with Federation({"b": {}, "a": notes(x=[])}) as corpus:
        store = corpus.members["a"].store
        await store.apply(Change([put("x", links=[Link("T")]), *(put(name, names=[[], ["T"]]) for name in "yz")]))
        [found] = await ask(corpus.store, UnresolvedLinks())
    assert found == UnresolvedLink(("a", "x"), Link("T"), (("a", "y"), ("a", "z")))


async def test_seeds_of_several_corpora_come_in_the_order_of_the_corpora():
    async with Federation({"b": notes(lib=[]), "a": notes(lib=[], other=[])}) as corpus:
        seeds = [("a", "other"), ("a", "lib"), ("b", "lib")]
        hits, _ = await walk_all(corpus, ReverseDependency(seeds=seeds), "8 0 0 0 0 0 0 0")
    assert keys(hits) == [("b", "lib"), ("a", "lib"), ("a", "other")]


async def test_artifacts_that_the_query_names_are_seeds_in_every_corpus():
    parts = {"a": notes(keys=[], alpha=[]), "b": notes(keys=[], beta=[])}
    async with Federation(parts, embedder=OTHER) as corpus:
        hits, _ = await walk_all(corpus, LinkWalk(seeding="titles"), "the keys of beta")
        assert keys(hits) == [("a", "keys"), ("b", "keys"), ("b", "beta")]


# --- search ----------------------------------------------------------------------------------------------------------


async def test_a_dense_search_ranks_all_corpora_together_and_a_lexical_one_too_if_stores_count_words():
    near, far = "8 0 0 0 0 0 0 0", "0 8 0 0 0 0 0 0"
    parts = {"b": {"x": item(far), "y": item(near)}, "a": {"z": item(near), "w": item(far)}}
    async with Federation(parts) as corpus:
        hits = await search(corpus, near, mode="dense", k=3)
        assert [(hit.key, hit.score) for hit in hits] == [(("b", "y"), 1), (("a", "z"), 1), (("a", "w"), 0)]
        lexical = await search(corpus, "8", mode="lexical", k=3)
        assert keys(lexical) == [("a", "w"), ("b", "x"), ("b", "y")]
        assert await ask(corpus.store, Rank(["", "none"], 3)) != []
        assert len(await search(corpus, near, mode="hybrid")) == 4


async def test_the_lexical_rankings_of_stores_that_cannot_count_words_are_fused_by_rank():
    near, far = "8 0 0 0 0 0 0 0", "0 8 0 0 0 0 0 0"
    parts = {"b": {"x": item(far), "y": item(near)}, "a": {"z": item(near), "w": item(far)}}
    async with Federation(parts) as both:
        without = replace(both.members["a"], store=Without(both.members["a"].store, "words"))
        corpus = FederatedCorpus(both.members | {"a": without})
        lexical = await search(corpus, "8", mode="lexical", k=3)
        assert keys(lexical) == [("b", "x"), ("a", "w"), ("b", "y")]
        assert [hit.score for hit in lexical] == [1 / 61, 1 / 61, 1 / 62]


async def test_words_of_several_formulas_cannot_be_added_up_so_none_counts():
    async with part(notes(x=[]), "a", MemoryStore(language=None)) as one, part(notes(y=[]), "b") as two:
        counts = await ask(FederatedCorpus([one, two]).store, Words(["8"]))
        assert counts.frequencies == {}
        hits = await search(FederatedCorpus([one, two]), "8", mode="lexical")
        assert [(hit.key, hit.score) for hit in hits] == [(("a", "x"), 1 / 61), (("b", "y"), 1 / 61)]


async def test_a_federation_can_do_what_each_of_its_stores_can_but_searches_and_links_need_only_one():
    async with Federation({"a": notes(x=["y"], y=[]), "b": notes(x=[])}) as corpus:
        one, two = corpus.members.values()
        some = replace(two, store=Without(two.store, "dense", "edges", "links", "vectors", "writing"))
        store = FederatedCorpus([one, some]).store
        assert {"dense", "edges", "links", "records"} <= {*store.capabilities}
        assert not {"vectors", "writing", "settings"} & {*store.capabilities}
        ranking = (await ask(store, Rank(np.eye(1, 8, dtype=np.float32), 3)))[0]
        assert ranking.artifact_ids == [("a", "x"), ("a", "y")]
        assert await ask(store, Edges([("a", "x"), ("b", "x")])) == [
            [Edge(("a", "x"), ("a", "y"), "REF", "derived")],
            [],
        ]
        assert await ask(store, LinkCounts()) == [LinkCount("REF", "derived", "resolved", 1)]
        assert await ask(store, UnresolvedLinks()) == []
        assert await ask(store, UnresolvedLinks([("b", "x")])) == []
        with pytest.raises(ArgumentError, match="VectorsOf needs a store with the capability 'vectors'"):
            await ask(store, VectorsOf([("a", "x")]))
        with pytest.raises(ArgumentError, match="write to one of them"):
            await store.apply(Change(removals=["x"]))


async def test_summaries_of_all_corpora_route_to_their_parts():
    near, far = "8 0 0 0 0 0 0 0", "0 8 0 0 0 0 0 0"
    parts = {"a": {"x": item(near, far)}, "b": {"x": item(far, near, near)}}
    async with Federation(parts) as corpus:
        tree = CollapsedTree(summary_kinds=["chunk"], leaf_kinds=["none"])
        hits, _ = await walk_all(corpus, tree, near)
        assert [(hit.key, hit.surface_index) for hit in hits] == [(("a", "x"), 0), (("b", "x"), 1)]


async def test_a_walk_with_roots_works_with_different_embedders():
    async with part(notes(x=[["b", "y"]]), "a") as one, part(notes(y=[]), "b", embedder=OTHER) as two:
        corpus = FederatedCorpus([one, two])
        hits, _ = await walk_all(corpus, LinkWalk(roots=[("a", "x")]))
        assert keys(hits) == [("a", "x"), ("b", "y")]
        for policy in (LinkWalk(), Eager(start_k=0, roots=[("a", "x")]), CollapsedTree()):
            with pytest.raises(EmbedderMismatch, match="different embedders, 'eighths', 'other'"):
                await walk_all(corpus, policy)
        with pytest.raises(EmbedderMismatch, match="2 and 8 wide"):
            await ask(corpus.store, VectorsOf([("a", "x"), ("b", "y")]))


# --- calls and failures ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Edges, RecordsOf, Referrers])
async def test_a_corpus_that_fails_may_end_the_walk_with_its_error_and_a_note(kind):
    parts = {"a": notes(x=[["b", "y"]]), "b": notes(y=[["a", "x"]])}
    async with Federation(parts) as corpus:
        one, two = corpus.members.values()
        store = ScriptedStore(two.store, failures={kind: StoreError("the disk is gone")})
        broken = FederatedCorpus([one, replace(two, store=store)], on_error="raise")
        with pytest.raises(StoreError, match="the disk is gone") as caught:
            await walk_all(broken, LinkWalk(roots=[("a", "x")]))
    assert any("from corpus 'b'" in note for note in caught.value.__notes__)


def make_layers(width):
    """Return two corpora with two layers of `width` artifacts, linked within and across.

    A third corpus has links to both.
    """

    def layer(name, other):
        below = [f"c{at}" for at in range(width)]
        links = {f"b{at}": [*below, *([other, each] for each in below)] for at in range(width)}
        top = {"a": [*links, *([other, each] for each in links)]}
        return notes(**top, **links, **{each: [] for each in below})

    return {"one": layer("one", "two"), "two": layer("two", "one"), "three": notes(x=[["one", "b0"], ["two", "c0"]])}


@pytest.mark.slow
@pytest.mark.parametrize("direction", ["out", "both"])
async def test_the_calls_of_a_step_do_not_grow_with_its_artifacts(direction):
    counted = []
    for width in (2, 8):
        async with Federation(make_layers(width)) as corpus:
            members = [replace(each, store=ScriptedStore(each.store)) for each in corpus.members.values()]
            policy = Eager(start_k=0, roots=[("one", "a")], select_k=None, adjacent_k=None, direction=direction)
            _, walk = await walk_all(FederatedCorpus(members), policy, "8 0 0 0 0 0 0 0", node_budget=1000)
            counted.append([(each.store.reads, each.store.calls) for each in members])
            steps = walk.summary.steps
    assert counted[0] == counted[1]
    for reads, calls in counted[1]:
        assert reads <= 4 * steps
        assert calls[Referrers] <= (0 if direction == "out" else steps)
        assert calls[Edges] <= steps * (1 if direction == "out" else 2)


async def test_corpora_are_searched_concurrently():
    class Meeting(Wrapper):
        """A store that answers after all stores have been asked."""

        async def read(self, *requests):
            arrived.append(self)
            if len(arrived) == 3:
                all_here.set()
            await all_here.wait()
            return await super().read(*requests)

    async with Federation({name: notes(x=[]) for name in "abc"}) as corpus:
        arrived, all_here = [], anyio.Event()
        members = [replace(each, store=Meeting(each.store)) for each in corpus.members.values()]
        with anyio.fail_after(60):
            hits, _ = await walk_all(FederatedCorpus(members), Eager(), "8 0 0 0 0 0 0 0")
    assert keys(hits) == [("a", "x"), ("b", "x"), ("c", "x")]


@dataclass(frozen=True)
class View:
    """Several corpora in the form that the exam needs: it replaces their stores by its own."""

    name: str
    members: object
    store: object
    embedder: object


@asynccontextmanager
async def ring():
    """Open two corpora with artifacts in a ring, and with shortcuts."""

    def half(name, other, start):
        items = {}
        for at in range(start, 14, 2):
            ends = [(at + step) % 14 for step in (1, 2, 5)]
            links = [f"{end:02}" if end % 2 == start else [other, f"{end:02}"] for end in ends]
            items[f"{at:02}"] = item(EIGHTH_TEXTS[at % 4], to=links, rank=at % 5, kind="ab"[at % 2])
        return items

    async with Federation({"even": half("even", "odd", 0), "odd": half("odd", "even", 1)}) as corpus:
        yield View(corpus.name, corpus.members, corpus.store, corpus.embedder)


EIGHTH_TEXTS = ["8 0 0 0 0 0 0 0", "4 4 4 4 0 0 0 0", "0 8 0 0 0 0 0 0", "-8 0 0 0 0 0 0 0"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Eager(select_k=12, direction="both"),
        lambda: LinkWalk(roots=[("even", "00")], max_depth=3),
        lambda: PersonalizedPageRank(seed_k=2),
    ],
)
async def test_policies_pass_the_exam_over_several_corpora(make):
    report = await PolicySuite(make, ring, EIGHTH_TEXTS[0]).run()
    assert report.passed, str(report)


async def test_a_corpus_without_nodes_in_a_step_is_not_called():
    async with Federation({"a": notes(x=["y"], y=[]), "b": notes(x=[])}) as corpus:
        one, two = corpus.members.values()
        counting = replace(two, store=ScriptedStore(two.store))
        policy = LinkWalk(roots=[("a", "x")], direction="out")
        hits, _ = await walk_all(FederatedCorpus([one, counting]), policy)
    assert keys(hits) == [("a", "x"), ("a", "y")]
    assert counting.store.reads == 0
