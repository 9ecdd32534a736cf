"""The two policies that `ir` ships walk in airw as in `ir`: same hits, order and metadata.

`ir` is the published package, used as an oracle; both sides have the same artifacts, strategy, embedder and edges, in
memory. Left out, because the two differ on purpose:

- several summaries in one artifact (F27): ours keeps the one that matched, theirs is the first;
- artifacts whose ids differ in case and separators alone, and an artifact that depends on itself in another spelling:
  for theirs these are one library with one set of dependents, for ours a link leads to the one id that it means;
- dependencies on an artifact written with `_` or `.` where its id has `-`: theirs folds both ends of a link as it
  walks, ours resolves links when they are written, by the names that an extractor publishes. A library that the corpus
  does not have is found in any spelling here too, but the largest fan-in counts each spelling for itself;
- edges of other types than `"REF"` written in another case than the id they mean: ours resolves them, theirs does not;
- the order of equal scores below one node: by id here, in the order of the link store in theirs.
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from random import Random

import anyio
import ir
import pytest
from hypothesis import assume, given, settings, strategies as st
from ir.store import CorpusStore

from airw import build, embedder_from, from_mapping, traverse
from airw.links import extractor_from
from airw.policies import CollapsedTree, ReverseDependency
from airw.protocols import Edges, Ledger, ask
from airw.stores import MemoryStore
from airw.values import IndexPlan, Limits, Surface
from tests.support.drawing import examples

NAME = "pkgs"
TEXTS = 300
TOLD = ("walk_depth", "seed", "fan_in", "deps", "parent")


def embed(texts):
    """Embed a number as the unit vector at that many steps of a half turn.

    No two numbers are equally far from x.25.
    """
    angles = [float(text) / TEXTS * math.pi for text in texts]
    return [[math.cos(angle), math.sin(angle)] for angle in angles]


def edges_of(artifact_id, fields):
    """Return the links that `ir` reads from the fields, and links to other corpora.

    `ir` itself never finds the latter.
    """
    edges = ir.default_edge_extractor(artifact_id, fields)
    return {**edges, "REF": [*edges.get("REF", []), *fields.get("abroad", [])]}


@dataclass(frozen=True)
class Surfaces:
    """Decompose a mapping of `fields` and of `surfaces`, `(kind, text)` pairs."""

    id: str = "surfaces"

    def decompose(self, artifact):
        plan = [Surface(artifact.id, kind, text) for kind, text in artifact.raw["surfaces"]]
        return IndexPlan(artifact.raw["fields"], plan)


class TheirSurfaces:
    """The same for `ir`."""

    def decompose(self, artifact_id, raw, metadata=None):
        plan = [ir.Surface(artifact_id, kind, text) for kind, text in raw["surfaces"]]
        return ir.IndexPlan(dict(raw["fields"]), plan)


def their_corpus(items, embedder=embed):
    source = ir.CorpusSource.from_mapping(items, name=NAME, strategy=TheirSurfaces(), embedder=embedder)
    return ir.build(source, store=CorpusStore.memory(), edge_extractor=edges_of)


def our_corpus(items, embedder=None):
    source = from_mapping(
        items,
        name=NAME,
        strategy=Surfaces(),
        embedder=embedder or embedder_from(embed, id="angles", dim=2),
        edge_extractor=extractor_from(edges_of, id="edges"),
    )
    return build(source, store=MemoryStore())


def comparable(hits):
    """Return the fields that a caller compares, without scores."""
    return [
        (
            *(hit.artifact_id, hit.surface_kind, hit.surface_index, hit.text, hit.source),
            {name: hit.metadata[name] for name in TOLD if name in hit.metadata},
        )
        for hit in hits
    ]


async def our_walks(items, walks):
    """Return the ranking and the summary of each walk `(query, policy, options)`."""
    ended = []
    async with our_corpus(items) as corpus:
        for query, policy, options in walks:
            limits = Limits(count_beyond_limits=True)
            async with traverse(query, corpus, policy=policy, limits=limits, **options) as walk:
                count = len([hit async for hit in walk])
            assert count == len(walk.ranking)
            ended.append((walk.ranking, walk.summary))
    return ended


def compare(items, walks, backend="asyncio"):
    """Compare walks `(query, our policy, their policy, options)`; return the number of hits."""
    theirs = their_corpus(items)
    expected = [ir.traverse(query, theirs, policy=policy, k=999, **options) for query, _, policy, options in walks]
    for hits in expected:
        assume(are_apart([hit.score for hit in hits]))
    mine = [(query, policy, options) for query, policy, _, options in walks]
    for hits, (ranking, _) in zip(expected, anyio.run(our_walks, items, mine, backend=backend), strict=True):
        assert comparable(ranking) == comparable(hits)
        assert [hit.score for hit in ranking] == pytest.approx([hit.score for hit in hits], abs=1e-6)
    return sum(map(len, expected))


def are_apart(scores):
    """Return whether scores differ by more than rounding.

    They must also differ from zero, the score of a pure router.
    """
    return all(abs(one - other) > 2e-6 for one, other in pairwise(sorted([0.0, *scores])))


def queries(chance):
    return f"{chance.randrange(TEXTS)}.25"


def limits(chance):
    node_budget = chance.choice([chance.randrange(20), 64, 64])
    return {"max_depth": chance.choice([0, 1, 2, 2, 3, 9]), "node_budget": node_budget}


# --- reverse dependencies -------------------------------------------------------------------------------------------

INSIDE = ["alpha", "beta-lib", "gamma-x", "delta", "eps-ilon-z", "zeta", "eta-2", "theta"]
OUTSIDE = ["numpy", "scikit-learn", "zope-interface"]
ABROAD = [["other", "Meshed"], ["other", "x"], ["more", "x"]]


def spell(chance, name, marks="-_."):
    """Return a library's name in random case, with one separator throughout."""
    case = chance.choice([str.lower, str.lower, str.upper, str.title])
    return case(name.replace("-", chance.choice(marks)))


def requirement_of(chance, name, marks):
    """Return a requirement for a library in a random spelling."""
    rest = chance.choice(["", "", ">=1.2", "[extra]>=1", " ; python_version > '3'", "@git+https://example.org/x"])
    return spell(chance, name, marks) + rest


def package_items(chance, marks="-"):
    """Return packages in random order; one has no surface.

    They and their dependencies have random spellings.
    """
    bases = chance.sample(INSIDE, chance.randint(2, len(INSIDE)))
    ids = {base: spell(chance, base) for base in bases}
    texts = iter(chance.sample(range(TEXTS), 4 * len(bases)))
    bare = chance.choice([None, *bases])
    items = {}
    for base, id in ids.items():
        kinds = [] if base == bare else chance.choices(["document", "chunk", "deps"], k=chance.randint(1, 4))
        inside = [
            requirement_of(chance, each, "-") for each in chance.choices(bases, k=chance.randint(0, 4)) if each != base
        ]
        outside = [requirement_of(chance, each, marks) for each in chance.choices(OUTSIDE, k=chance.randint(0, 2))]
        fields = {"deps": chance.sample(inside + outside, len(inside + outside))}
        if chance.random() < 0.3:
            fields["abroad"] = chance.sample(ABROAD, 2)
        if chance.random() < 0.5:
            fields["parent"] = chance.choice([*ids.values(), "nowhere"])
        items[id] = {"fields": fields, "surfaces": [(kind, str(next(texts))) for kind in kinds]}
    return items


def seeds_for(chance, items, edge_type, marks="-_."):
    """Return random seeds: inside or outside, and pairs of this corpus and of others.

    Spellings are random where they matter.
    """
    names = [*items, "nowhere"]
    if edge_type == "REF":
        bases = [*INSIDE, *OUTSIDE]
        names = [requirement_of(chance, chance.choice(bases), marks) for _ in range(4)] + chance.choices([*items], k=3)
    pairs = [tuple(chance.choice(ABROAD)), (NAME, chance.choice(names))]
    return chance.sample([*names, *pairs], min(chance.randint(1, 6), len(names)))


def dependency_walk(chance, items, *, weigh_fan_in=True):
    """Draw a walk for both sides."""
    edge_type = chance.choice(["REF", "REF", "REF", "PARENT"])
    options = {
        "seeds": seeds_for(chance, items, edge_type),
        "edge_type": edge_type,
        "fan_in_weight": chance.choice([0.0, chance.uniform(0, 2)]) if weigh_fan_in else 0.0,
        "proximity_weight": chance.choice([0.0, chance.uniform(0, 2)]),
    }
    mine, other = ReverseDependency(**options), ir.reverse_dependency_policy(**options)
    return queries(chance), mine, other, limits(chance)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(st.integers(0, 2**32))
@settings(max_examples=examples(40))
def test_dependents_are_found_in_the_same_order_with_the_same_scores(backend, number):
    chance = Random(number)
    items = package_items(chance)
    compare(items, [dependency_walk(chance, items) for _ in range(6)], backend)


@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(max_examples=examples(30))
def test_libraries_outside_may_have_any_separator_if_fan_in_does_not_count(number):
    chance = Random(number)
    items = package_items(chance, marks="-_.")
    compare(items, [dependency_walk(chance, items, weigh_fan_in=False) for _ in range(6)])


def test_the_random_walks_have_enough_hits_to_compare():
    """If most were empty, the laws above would prove little."""
    hits, depths, seeds = 0, set(), set()
    for number in range(40):
        chance = Random(number)
        items = package_items(chance)
        corpus = their_corpus(items)
        for query, _, policy, options in [dependency_walk(chance, items) for _ in range(6)]:
            found = ir.traverse(query, corpus, policy=policy, k=999, **options)
            hits += len(found)
            depths |= {hit.metadata["walk_depth"] for hit in found}
            seeds |= {type(hit.metadata.get("seed")) for hit in found}
    assert hits > 500
    assert depths >= {0, 1, 2, 3}
    assert seeds == {str, tuple, type(None)}


# --- the collapsed tree ---------------------------------------------------------------------------------------------

SUMMARIES = ["description", "synopsis", "capability", "document"]
PARTS = ["chunk", "readme_chunk", "part", "title"]


def tree_items(chance):
    """Return artifacts with at most one summary each, at any position among their parts."""
    ids = [f"n{at:02}" for at in range(chance.randint(3, 14))]
    chance.shuffle(ids)
    texts = iter(chance.sample(range(TEXTS), 6 * len(ids)))
    items = {}
    for id in ids:
        kinds = chance.choices(SUMMARIES, k=chance.random() < 0.8) + chance.choices(PARTS, k=chance.randint(0, 5))
        fields = {"parent": chance.choice(ids)}
        items[id] = {
            "fields": fields,
            "surfaces": [(kind, str(next(texts))) for kind in chance.sample(kinds, len(kinds))],
        }
    return items


def tree_walk(chance):
    """Draw a walk for both sides; sometimes a kind is both a summary and a part."""
    options = {"seed_k": chance.choice([0, 1, 2, 3, 5, 10])}
    if chance.random() < 0.4:
        options["summary_kinds"] = chance.sample(SUMMARIES, chance.randint(0, 4))
    if chance.random() < 0.4:
        options["leaf_kinds"] = chance.sample([*PARTS, *SUMMARIES[:1]], chance.randint(0, 4))
    return queries(chance), CollapsedTree(**options), ir.collapsed_tree_policy(**options), limits(chance)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(st.integers(0, 2**32))
@settings(max_examples=examples(40))
def test_summaries_route_to_the_same_parts_in_the_same_order_with_the_same_scores(backend, number):
    chance = Random(number)
    compare(tree_items(chance), [tree_walk(chance) for _ in range(6)], backend)


def test_the_random_trees_have_enough_hits_to_compare():
    found = []
    for chance in map(Random, range(60)):
        corpus = their_corpus(tree_items(chance))
        query, _, policy, options = tree_walk(chance)
        found += ir.traverse(query, corpus, policy=policy, k=999, **options)
    assert len(found) > 150
    assert {hit.metadata["walk_depth"] for hit in found} == {0, 1}


# --- what is better here --------------------------------------------------------------------------------------------


def artifact(*surfaces, **fields):
    return {"surfaces": list(surfaces), "fields": fields}


def both_walks(items, query, mine, other, **options):
    """Return their hits, then ours, and our summary."""
    theirs = ir.traverse(query, their_corpus(items), policy=other, k=999, **options)
    [(ranking, summary)] = anyio.run(our_walks, items, [(query, mine, options)])
    return theirs, ranking, summary


@pytest.mark.parametrize(("budget", "count", "left"), [(5, 0, 5), (10, 0, 10), (11, 1, 9), (15, 5, 5)])
def test_a_budget_spent_on_routers_leads_to_the_same_hits_and_airw_reports_it(budget, count, left):
    """F26."""
    items = {f"n{at:02}": artifact(("description", str(at)), ("chunk", str(50 + at))) for at in range(12)}
    policies = CollapsedTree(seed_k=10), ir.collapsed_tree_policy(seed_k=10)
    theirs, ours, summary = both_walks(items, "0.25", *policies, node_budget=budget)
    assert comparable(ours) == comparable(theirs)
    assert len(ours) == count
    routed = min(budget, 10)
    assert (summary.stop, summary.emitted, summary.routed) == ("node_budget", count, routed)
    assert summary.left_out == {"node_budget": left}
    assert summary.truncated


def test_of_several_summaries_airw_keeps_the_matching_one_and_ir_the_first():
    """F27: only the description matches.

    It is the hit here, and its score orders the walk.
    """
    items = {
        "keys": artifact(("synopsis", "200"), ("description", "0")),
        "cake": artifact(("synopsis", "60")),
    }
    theirs, ours, _ = both_walks(items, "0", CollapsedTree(), ir.collapsed_tree_policy())
    assert [(hit.artifact_id, hit.surface_kind, hit.score) for hit in ours] == [
        ("keys", "description", pytest.approx(1.0)),
        ("cake", "synopsis", pytest.approx(math.cos(0.2 * math.pi))),
    ]
    assert [(hit.artifact_id, hit.surface_kind) for hit in theirs] == [("cake", "synopsis"), ("keys", "synopsis")]


def test_routers_are_committed_by_the_matching_summary_also_with_a_small_budget():
    """F27: a budget must not cut off an artifact whose second summary matches exactly."""
    items = {
        "keys": artifact(("synopsis", "200"), ("description", "0")),
        "cake": artifact(("synopsis", "60")),
    }
    theirs, ours, _ = both_walks(items, "0", CollapsedTree(), ir.collapsed_tree_policy(), node_budget=1)
    assert [[hit.artifact_id for hit in hits] for hits in (theirs, ours)] == [["cake"], ["keys"]]


def test_links_of_any_spelling_lead_to_artifacts_in_walks_and_stores():
    """F28: in `ir` the neighbour is the link's text, which its graph cannot look up."""
    items = {
        "PyYAML": artifact(("document", "10")),
        "app": artifact(("document", "20"), deps=["pyyaml>=6"]),
        "tool": artifact(("document", "30"), deps=["APP"]),
    }
    graph = ir.CorpusGraph(their_corpus(items))
    [neighbor] = graph.neighbors("app")
    with pytest.raises(KeyError, match="no ledger entry for artifact 'pyyaml'"):
        graph[neighbor]

    async def ours():
        async with our_corpus(items) as corpus:
            [[edge]] = await ask(corpus.store, Edges(["app"]))
            walk = traverse("0", corpus, policy=ReverseDependency(seeds=["pyyaml"]))
            paths = [walk.path(hit) async for hit in walk]
            met = {id for path in paths for id in path}
            return edge.target, paths, await ask(corpus.store, Ledger(sorted(met)))

    target, paths, entries = anyio.run(ours)
    assert target == "PyYAML"
    assert paths == [["PyYAML"], ["PyYAML", "app"], ["PyYAML", "app", "tool"]]
    assert [entry.artifact_id for entry in entries] == ["PyYAML", "app", "tool"]


def test_artifacts_with_similar_spellings_have_their_own_dependents():
    """A link resolves to one id; in `ir` both artifacts have the dependents of both."""
    items = {
        "my-lib": artifact(("document", "10")),
        "My_Lib": artifact(("document", "20")),
        "app": artifact(("document", "30"), deps=["my-lib"]),
        "tool": artifact(("document", "40"), deps=["my_lib"]),
    }
    options = {"seeds": ["my-lib"]}
    policies = ReverseDependency(**options), ir.reverse_dependency_policy(**options)
    theirs, ours, _ = both_walks(items, "0", *policies)
    assert [hit.artifact_id for hit in theirs] == ["my-lib", "app", "tool"]
    assert [hit.artifact_id for hit in ours] == ["my-lib", "app"]


# --- why there is a collapsed tree ----------------------------------------------------------------------------------

QUERY = "how to rotate the signing keys of the gateway"
GUIDES = {
    "gold": artifact(
        ("description", "rotate the signing keys of the gateway"),
        ("chunk", "run this job twice, then restart both workers and read their log"),
    ),
    "second": artifact(
        ("description", "rotate the log files of the gateway"),
        ("chunk", "old files are packed at midnight and removed after a week"),
    ),
    **{
        f"trap{at:02}": artifact(
            ("description", f"recipe {at}: bread with seeds"),
            ("chunk", f"how to rotate the loaves: signing off, the keys of the gateway to {thing} are flour and salt"),
        )
        for at, thing in enumerate(
            ["rye", "oats", "wheat", "corn", "rice", "spelt", "barley", "millet", "maize", "teff"]
        )
    },
}


async def test_a_collapsed_tree_finds_what_flat_search_ranks_low():
    """The summary of the gold document matches.

    Its part alone ranks below the parts of traps, which share the words.
    """
    async with our_corpus(GUIDES, embedder="light") as corpus:
        flat = await corpus.search(QUERY, surfaces=["chunk"], k=10)
        everything = await corpus.search(QUERY, per_artifact=False, k=10)
        walk = traverse(QUERY, corpus, policy=CollapsedTree(seed_k=2))
        hits = [hit async for hit in walk]
    assert all(hit.artifact_id.startswith("trap") for hit in flat)
    assert ("gold", "chunk") not in [(hit.artifact_id, hit.surface_kind) for hit in everything]
    assert [(hit.artifact_id, hit.surface_kind) for hit in walk.ranking[:1]] == [("gold", "chunk")]
    assert {hit.artifact_id for hit in hits} == {"gold", "second"}


def test_the_collapsed_tree_of_ir_finds_it_too():
    corpus = their_corpus(GUIDES, embedder="light")
    flat = ir.search(corpus, QUERY, surfaces=["chunk"], k=10)
    routed = ir.traverse(QUERY, corpus, policy=ir.collapsed_tree_policy(seed_k=2))
    assert all(hit.artifact_id.startswith("trap") for hit in flat)
    assert [hit.artifact_id for hit in routed] == ["gold", "second"]
