"""Personalised PageRank by pushing, on real stores and compared with a linear solve.

It is exact in the end and bounded before.
"""

import math
from collections import Counter
from dataclasses import dataclass, fields, replace
from itertools import pairwise

import anyio
import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

# `networkx.pagerank` itself needs scipy, which only the models bring.
from networkx.algorithms.link_analysis.pagerank_alg import _pagerank_python as networkx_pagerank

from airw import build, embedder_from, from_mapping, open_corpus, top_k, traverse
from airw._base import concurrency
from airw.errors import ArgumentError
from airw.policies import PersonalizedPageRank, Scope, pagerank
from airw.protocols import ArtifactIds, Edges, ask
from airw.stores import MemoryStore
from airw.testing import PolicySuite
from airw.values import Extraction, IndexPlan, Limits, Link, SearchHit, Surface
from airw.walking import Policy
from tests.support.asked import Asked
from tests.support.drawing import examples
from tests.support.pagerank_truth import CLOSE, RESTARTS, exact, graphs

# --- corpora --------------------------------------------------------------------------------------------------------


def angle(texts):
    """Embed a text whose last word is a number x as the unit vector at the angle x * pi.

    Cosines can then be computed by hand.
    """
    angles = [float(text.split()[-1]) * math.pi for text in texts]
    return [[math.cos(each), math.sin(each)] for each in angles]


ANGLE = embedder_from(angle, id="angle", dim=2)


@dataclass(frozen=True)
class Whole:
    """A strategy with one surface per artifact, none without a text.

    The other fields are metadata.
    """

    id: str = "whole"

    def decompose(self, artifact):
        text = artifact.raw["text"]
        return IndexPlan(dict(artifact.raw), [] if text is None else [Surface(artifact.id, "document", text)])


@dataclass(frozen=True)
class Given:
    """An extractor of the links and titles that an artifact contains."""

    id: str = "given"

    def extract(self, artifact, fields):
        links = [Link(target, type) for type, targets in artifact.raw["links"].items() for target in targets]
        return Extraction(links, [[artifact.id], artifact.raw["titles"]])


def item(*to, text="0", titles=(), links=None, **fields):
    return {"text": text, "links": {"REF": list(to)} if links is None else links, "titles": list(titles), **fields}


def corpus_of(items, store=None):
    """Build a corpus of items, or of plain lists of link targets, by id."""
    items = {id: each if isinstance(each, dict) else item(*each) for id, each in items.items()}
    source = from_mapping(items, name="test", strategy=Whole(), embedder=ANGLE, edge_extractor=Given())
    return build(source, store=store or MemoryStore())


async def walk_all(corpus, query="0", **options):
    """Return all hits of a walk, and the walk."""
    async with traverse(query, corpus, **{"node_budget": 1_000, **options}) as walk:
        hits = [hit async for hit in walk]
    return hits, walk


def ids_of(hits):
    return [hit.artifact_id for hit in hits]


# --- the truth ------------------------------------------------------------------------------------------------------


def neighbours_in(graph, direction):
    """Return the neighbours of each node along the links, against them, or both."""
    back = {node: [other for other in graph if node in graph[other]] for node in graph}
    ways = {"out": [graph], "in": [back], "both": [graph, back]}[direction]
    return {node: list(dict.fromkeys(end for way in ways for end in way[node])) for node in graph}


def check_ranking(ranking, values, rankable=None, first=0):
    """Check the final places that a ranking claims: exact ones, or among the first."""
    told = ids_of(ranking)
    for place, hit in enumerate(ranking):
        if hit.metadata["rank_final"]:
            here, others = values[hit.artifact_id], rankable or values
            if sum(values[id] > here + CLOSE for id in others) >= first:
                assert all(values[id] >= here - CLOSE for id in told[:place])
                assert all(values[id] <= here + CLOSE for id in others if id not in told[:place])


# --- the policy -----------------------------------------------------------------------------------------------------


def random_graph(seed, *, size=30, edges=60):
    """Return a random directed graph with dangling nodes and an isolated one."""
    graph = nx.gnm_random_graph(size, edges, seed=seed, directed=True)
    return {f"n{node:02}": [f"n{end:02}" for end in graph.successors(node)] for node in graph} | {"lonely": []}


def as_networkx(graph, direction):
    directed = nx.DiGraph([(node, end) for node, ends in graph.items() for end in ends])
    directed.add_nodes_from(graph)
    return {"out": directed, "in": directed.reverse(), "both": directed.to_undirected()}[direction]


class TestOnAFullBudget:
    @pytest.mark.parametrize("direction", ["out", "in", "both"])
    @pytest.mark.parametrize("seed", [1, 2, 3])
    async def test_it_is_the_pagerank_of_networkx(self, direction, seed):
        graph, roots = random_graph(seed), ["n03", "n07", "lonely"]
        policy = PersonalizedPageRank(seed_k=0, roots=roots, direction=direction, restart=0.15)
        async with corpus_of(graph) as corpus:
            hits, walk = await walk_all(corpus, policy=policy)
        expected = networkx_pagerank(
            as_networkx(graph, direction), 0.85, dict.fromkeys(roots, 1), max_iter=1_000, tol=1e-14
        )
        assert {hit.artifact_id for hit in hits} == {node for node, value in expected.items() if value > 1e-12}
        for hit in walk.ranking:
            value = expected[hit.artifact_id]
            assert hit.score == pytest.approx(value, abs=1e-9)
            assert hit.metadata["ppr_lower"] == pytest.approx(value, abs=1e-9)
            assert hit.metadata["ppr_upper"] == pytest.approx(value, abs=1e-9)
        assert all(hit.metadata["rank_final"] for hit in walk.ranking)
        assert walk.summary.stop == "exhausted"

    async def test_an_artifact_may_be_its_own_neighbour_by_its_fields(self):
        graph = {"a": ["a", "b"], "b": ["c", "b"], "c": [], "d": ["a"]}
        items = {id: item(mentions=[*ends, "nowhere"]) for id, ends in graph.items()}
        policy = PersonalizedPageRank(seed_k=0, roots=["a", "d"], edges=[("mentions", "$id")], restart=0.2)
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy=policy)
        expected = networkx_pagerank(as_networkx(graph, "out"), 0.8, {"a": 1, "d": 1}, max_iter=1_000, tol=1e-14)
        assert {hit.artifact_id: hit.score for hit in walk.ranking} == pytest.approx(expected, abs=1e-9)
        assert all(hit.metadata["rank_final"] for hit in walk.ranking)
        assert sorted(ids_of(hits)) == ["a", "b", "c", "d"]

    async def test_several_links_between_a_pair_are_one_edge(self):
        items = {"a": item(links={"x": ["b"], "y": ["b", "c"]}), "b": item("a"), "c": item()}
        policy = PersonalizedPageRank(seed_k=0, roots=["a"])
        async with corpus_of(items) as corpus:
            _, walk = await walk_all(corpus, policy=policy)
        found = {hit.artifact_id: hit.score for hit in walk.ranking}
        assert found == pytest.approx(exact({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, {"a": 1}, 0.5), abs=CLOSE)

    @pytest.mark.parametrize("restart", [0.1, 0.3, 0.45, 0.7])
    async def test_equals_of_different_rounding_keep_the_order_in_which_they_were_committed(self, restart):
        half = {"x": ["p", "q", "r"], "p": ["q"], "q": ["x"], "r": []}
        twin = {"y": ["s", "t", "u"], "s": ["t"], "t": ["y"], "u": []}
        policy = PersonalizedPageRank(seed_k=0, roots=["x", "y"], direction="out", restart=restart, width=1)
        async with corpus_of(half | twin) as corpus:
            hits, walk = await walk_all(corpus, policy=policy)
        assert ids_of(hits) == ["x", "y", "p", "q", "r", "s", "t", "u"]
        assert ids_of(walk.ranking) == ["x", "y", "q", "t", "p", "r", "s", "u"]

    async def test_equals_keep_the_order_in_which_they_were_committed(self):
        star = {"hub": ["e", "d", "c", "b", "a"], **{leaf: [] for leaf in "abcde"}}
        policy = PersonalizedPageRank(seed_k=0, roots=["e", "c", "hub"], width=2)
        async with corpus_of(star) as corpus:
            hits, walk = await walk_all(corpus, policy=policy)
        assert ids_of(hits) == ["e", "c", "hub", "a", "b", "d"]
        assert ids_of(walk.ranking) == ["hub", "e", "c", "a", "b", "d"]

    async def test_cycles_end(self):
        ring = {f"{at}": [f"{(at + 1) % 7}", f"{(at + 3) % 7}"] for at in range(7)}
        async with corpus_of(ring) as corpus:
            hits, walk = await walk_all(corpus, policy=PersonalizedPageRank(seed_k=1))
        assert sorted(ids_of(hits)) == sorted(ring)
        assert walk.summary.stop == "exhausted"


@dataclass(frozen=True)
class ClosedForm(Policy):
    """Reads the whole graph and solves it, as a policy that expands nothing."""

    roots: tuple
    restart: float

    async def seed(self, state, store):
        ids = await ask(store.store, ArtifactIds())
        edges = await ask(store.store, Edges(ids))
        graph = {id: [edge.target for edge in found] for id, found in zip(ids, edges, strict=True)}
        state.cache["values"] = exact(graph, dict.fromkeys(self.roots, 1), self.restart)
        return [id for id in ids if state.cache["values"][id] > 0]

    async def score(self, state, nodes, store):
        return [state.cache["values"][node] for node in nodes]

    async def expand(self, state, committed, store):
        return [[] for _ in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(entry.id, "document", entry.score, "") for entry in committed]


async def test_the_closed_form_is_a_policy_that_expands_nothing_and_ranks_the_same():
    graph, roots = random_graph(5), ("n03", "n07")
    async with corpus_of(graph) as corpus:
        solved, _ = await walk_all(corpus, policy=ClosedForm(roots, 0.3))
        _, walk = await walk_all(
            corpus, policy=PersonalizedPageRank(seed_k=0, roots=roots, restart=0.3, direction="out")
        )
    assert min(one.score - other.score for one, other in pairwise(solved)) > 1e-6, "choose a graph without ties"
    assert ids_of(walk.ranking) == ids_of(solved)
    assert [hit.score for hit in walk.ranking] == pytest.approx([hit.score for hit in solved], abs=CLOSE)


@dataclass(frozen=True)
class Trial:
    """A walk that may be cut short in many ways, and the graph of its values."""

    items: dict
    graph: dict
    policy: PersonalizedPageRank
    options: dict


@st.composite
def trials(draw):
    by_fields = draw(st.booleans())
    graph = draw(graphs(size=12, loops=by_fields))
    roots = draw(st.lists(st.sampled_from(sorted(graph)), unique=True, min_size=1, max_size=3))
    tags = {node: draw(st.sampled_from([[], ["x"], ["y", "x"]])) for node in graph}
    is_open = {node: draw(st.sampled_from([True, True, True, False])) for node in graph}
    items = {
        node: item(*ends, mentions=[*ends, "nowhere"], tags=tags[node], open=is_open[node])
        for node, ends in graph.items()
    }
    direction = draw(st.sampled_from(["out", "in", "both"]))
    policy = PersonalizedPageRank(
        seed_k=0,
        roots=roots,
        restart=draw(RESTARTS),
        width=draw(st.integers(1, 4)),
        certify_k=draw(st.integers(0, 3)),
        degree_exponent=draw(st.sampled_from([0.0, 0.0, 0.5, 1.0])),
        edges=draw(st.sampled_from([[("mentions", "$id")], [("mentions", "$id"), ("tags", "tags")]]))
        if by_fields
        else None,
        direction="both" if by_fields else direction,
        scope=draw(st.sampled_from([Scope(), Scope(), Scope(cross={"open": True}), Scope(keep={"open": True})])),
    )
    if by_fields:
        seen = {
            node: [
                end
                for end in graph
                if end in ends or (len(policy.edges) == 2 and end != node and {*tags[node]} & {*tags[end]})
            ]
            for node, ends in graph.items()
        }
    else:
        seen = neighbours_in(graph, direction)
    options = {
        "node_budget": draw(st.integers(1, 14)),
        "max_depth": draw(st.sampled_from([None, None, 0, 1, 2])),
        "limits": Limits(count_beyond_limits=draw(st.booleans()), max_hits=draw(st.sampled_from([None, None, 2]))),
    }
    return Trial(items, seen, policy, options)


@pytest.mark.slow
@settings(max_examples=examples(75))
@given(trials())
def test_exact_values_lie_within_the_bounds_of_every_walk_that_is_cut_short(trial):
    async def main():
        async with corpus_of(trial.items) as corpus:
            return (await walk_all(corpus, policy=trial.policy, **trial.options))[1]

    policy, ranking = trial.policy, anyio.run(main).ranking
    values = exact(trial.graph, dict.fromkeys(policy.roots, 1), policy.restart)
    for hit in ranking:
        value = values[hit.artifact_id]
        assert hit.metadata["ppr_lower"] - CLOSE <= value <= hit.metadata["ppr_upper"] + CLOSE
    divided = {id: value / max(len(trial.graph[id]), 1) ** policy.degree_exponent for id, value in values.items()}
    rankable = {id for id, each in trial.items.items() if policy.scope.keep is None or each["open"]}
    check_ranking(ranking, divided, rankable, policy.certify_k)
    assert all(one.score >= other.score - 2 * pagerank.ROUNDING for one, other in pairwise(ranking))


def iterate(graph, seeds, restart):
    """Return the value of each node of a large undirected graph, by iteration.

    Nodes are numbers from 0.
    """
    ends, spread = np.array([*graph.edges, *((end, node) for node, end in graph.edges)]).T, dict(graph.degree)
    start, rate = np.zeros(len(graph)), (1 - restart) / np.array([spread[node] for node in range(len(graph))])
    start[list(seeds)] = np.array(list(seeds.values())) / sum(seeds.values())
    values = start
    for _ in range(math.ceil(math.log(1e-15, 1 - restart))):
        values = restart * start + np.bincount(ends[1], (rate * values)[ends[0]], len(graph))
    return values


@pytest.mark.slow
def test_in_a_large_graph_the_first_place_is_final_within_200_explorations():
    """Of five seeds one weighs twice as much.

    Of equals it is known so soon only which are among the first ten.
    """
    graph, chance = nx.barabasi_albert_graph(3_000, 3, seed=7), np.random.default_rng(0)
    items = {f"n{node}": item(*(f"n{end}" for end in graph[node]), text=f"{chance.uniform():.4f}") for node in graph}

    async def main():
        async with corpus_of(items) as corpus:
            for root in chance.choice(3_000, 4, replace=False).tolist():
                policy = PersonalizedPageRank(seed_k=4, search_weight=0.5, roots=[f"n{root}"], certify_k=0)
                hits, walk = await walk_all(corpus, f"{chance.uniform():.2f}", policy=policy, node_budget=200)
                seeds = {int(hit.artifact_id[1:]): hit.score for hit in hits if hit.metadata["walk_depth"] == 0}
                values = iterate(graph, seeds, 0.5)
                assert sorted(seeds.values()) == pytest.approx([1 / 12] * 4 + [1 / 6])
                assert ids_of(walk.ranking)[0] == f"n{root}"
                assert walk.ranking[0].metadata["rank_final"]
                assert not walk.ranking[-1].metadata["rank_final"]
                check_ranking(walk.ranking, {f"n{node}": value for node, value in enumerate(values.tolist())})

    anyio.run(main)


@pytest.mark.slow
def test_in_a_large_graph_equal_seeds_are_among_the_first_ten_within_200_explorations():
    graph, chance = nx.barabasi_albert_graph(3_000, 3, seed=8), np.random.default_rng(1)
    items = {f"n{node}": item(*(f"n{end}" for end in graph[node]), text="0") for node in graph}

    async def main():
        async with corpus_of(items) as corpus:
            for _ in range(5):
                seeds = chance.choice(3_000, 5, replace=False).tolist()
                policy = PersonalizedPageRank(seed_k=0, roots=[f"n{seed}" for seed in seeds])
                _, walk = await walk_all(corpus, "0", policy=policy, node_budget=200)
                values = iterate(graph, dict.fromkeys(seeds, 1), 0.5)
                assert walk.ranking[0].metadata["rank_final"]
                assert not walk.ranking[-1].metadata["rank_final"]
                check_ranking(walk.ranking, {f"n{node}": value for node, value in enumerate(values.tolist())}, first=10)

    anyio.run(main)


GRAPH = {"a": ["b", "c"], "b": ["d"], "c": ["d", "a", "e"], "d": ["f"], "e": [], "f": ["g"], "g": ["a"]}


class TestTheStream:
    async def test_each_step_commits_the_largest_residuals_with_the_lower_bound_as_score(self):
        async with corpus_of(GRAPH) as corpus:
            policy = PersonalizedPageRank(seed_k=0, roots=["a"], direction="out", width=1)
            hits, _ = await walk_all(corpus, policy=policy, node_budget=4)
        # a gives half of its mass to b and c, c a third of half of that to d, a and e; that of b is pushed on to d
        assert [(hit.artifact_id, hit.score) for hit in hits] == [
            ("a", 0.5),
            ("b", 0.125),
            ("c", 0.125),
            ("d", pytest.approx(0.5 * (0.125 + 0.125 / 3), rel=0.2)),
        ]

    async def test_a_later_node_with_a_larger_residual_is_committed_first(self):
        graph = {"a": ["b", "c", "d"], "b": [], "c": [], "d": [], "y": ["z"], "z": []}
        policy = PersonalizedPageRank(seed_k=0, roots=["a", "y"], direction="out", width=1)
        async with corpus_of(graph) as corpus:
            hits, _ = await walk_all(corpus, policy=policy)
        assert ids_of(hits) == ["a", "y", "z", "b", "c", "d"]

    @pytest.mark.slow
    async def test_a_smaller_budget_commits_the_first_nodes(self):
        async with corpus_of(random_graph(1)) as corpus:
            policy = PersonalizedPageRank(seed_k=0, roots=["n03", "n07"], width=3)
            whole, _ = await walk_all(corpus, policy=policy)
            assert len(whole) > 20
            for budget in range(len(whole)):
                cut, _ = await walk_all(corpus, policy=policy, node_budget=budget)
                assert [hit.to_dict() for hit in cut] == [hit.to_dict() for hit in whole[:budget]]

    async def test_the_lower_bound_at_commitment_is_never_above_the_last_estimate(self):
        async with corpus_of(random_graph(2)) as corpus:
            hits, walk = await walk_all(corpus, policy=PersonalizedPageRank(seed_k=0, roots=["n03"]), node_budget=15)
        last = {hit.artifact_id: hit for hit in walk.ranking}
        for hit in hits:
            assert hit.score <= last[hit.artifact_id].score + CLOSE
            assert last[hit.artifact_id].score == last[hit.artifact_id].metadata["ppr_lower"]

    async def test_a_walk_in_worker_threads_is_the_same(self, monkeypatch):
        async with corpus_of(random_graph(3)) as corpus:
            policy = PersonalizedPageRank(seed_k=0, roots=["n03"])
            expected, _ = await walk_all(corpus, policy=policy)
            used = []

            async def in_thread(function, *arguments, **options):
                used.append(function)
                return await anyio.to_thread.run_sync(function, *arguments, **options)

            monkeypatch.setattr(concurrency, "in_thread", in_thread)
            monkeypatch.setattr(pagerank, "_OFFLOAD_ABOVE", 0)
            found, _ = await walk_all(corpus, policy=policy)
        assert used
        assert [hit.to_dict() for hit in found] == [hit.to_dict() for hit in expected]

    async def test_the_count_beyond_the_limits_makes_the_ranking_exact(self):
        policy = PersonalizedPageRank(seed_k=0, roots=["a"])
        async with corpus_of(GRAPH) as corpus:
            gaps = []
            for count_beyond_limits in (True, False):
                limits = Limits(count_beyond_limits=count_beyond_limits)
                _, walk = await walk_all(corpus, policy=policy, node_budget=len(GRAPH), limits=limits)
                gaps.append(max(hit.metadata["ppr_upper"] - hit.metadata["ppr_lower"] for hit in walk.ranking))
        assert gaps[0] < CLOSE < gaps[1]


class TestTheRanking:
    async def test_a_second_request_for_the_ranking_returns_the_same_and_changes_nothing(self):
        policy = PersonalizedPageRank(seed_k=0, roots=["a"], width=2)
        async with corpus_of(GRAPH) as corpus, traverse("0", corpus, policy=policy, node_budget=4) as walk:
            hits = [hit async for hit in walk]
            told = [hit.to_dict() for hit in hits]
            state = walk._stages.state
            before = {each.name: id(getattr(state.memory, each.name)) for each in fields(state.memory)}
            residual = state.memory.push.residual.tolist()
            first, again = policy.rank(state, hits), policy.rank(state, tuple(hits))
        assert first == again == walk.ranking
        assert {each.name: id(getattr(state.memory, each.name)) for each in fields(state.memory)} == before
        assert state.memory.push.residual.tolist() == residual
        assert [hit.to_dict() for hit in hits] == told
        assert not any(one.metadata is other.metadata for one in first for other in [*hits, *again])

    async def test_the_path_of_a_ranked_hit_is_known(self):
        async with corpus_of(GRAPH) as corpus:
            _, walk = await walk_all(corpus, policy=PersonalizedPageRank(seed_k=0, roots=["a"], direction="out"))
        paths = {hit.artifact_id: walk.path(hit) for hit in walk.ranking}
        assert paths["f"] == ["a", "b", "d", "f"]

    async def test_its_metadata_are_plain_numbers(self):
        async with corpus_of(GRAPH) as corpus:
            best = (await top_k(traverse("0", corpus, policy=PersonalizedPageRank(seed_k=1)), k=1))[0]
        assert {type(best.metadata[name]) for name in ("ppr_lower", "ppr_upper")} == {float}
        assert best.metadata["rank_final"] is True
        assert type(best.score) is float

    async def test_hubs_sink_with_the_degree_exponent_and_the_walk_does_not_change(self):
        star = {"hub": ["a", "b", "c", "d"], "a": ["b"], "b": [], "c": [], "d": []}
        values, spread = exact(neighbours_in(star, "both"), {"a": 1}, 0.5), {"hub": 4, "a": 2, "b": 2, "c": 1, "d": 1}
        plain = PersonalizedPageRank(seed_k=0, roots=["a"])
        async with corpus_of(star) as corpus:
            hits, one = await walk_all(corpus, policy=plain)
            same, other = await walk_all(corpus, policy=replace(plain, degree_exponent=1.0))
        assert [hit.to_dict() for hit in same] == [hit.to_dict() for hit in hits]
        assert ids_of(one.ranking)[:3] == ["a", "b", "hub"] or ids_of(one.ranking)[:3] == ["a", "hub", "b"]
        divided = {id: values[id] / spread[id] for id in star}
        assert {hit.artifact_id: hit.score for hit in other.ranking} == pytest.approx(divided, abs=CLOSE)
        assert ids_of(other.ranking).index("hub") > ids_of(other.ranking).index("b")
        assert all(hit.metadata["rank_final"] for hit in other.ranking)
        assert all(hit.metadata["ppr_lower"] == pytest.approx(values[hit.artifact_id]) for hit in other.ranking)

    async def test_a_node_that_was_not_explored_may_have_any_number_of_neighbours(self):
        star = {"a": ["hub"], "hub": ["b", "c", "d", "e", "f"], **{leaf: [] for leaf in "bcdef"}}
        finals = []
        for exponent in (0.0, 1.0):
            policy = PersonalizedPageRank(seed_k=0, roots=["a"], degree_exponent=exponent, max_depth=1)
            async with corpus_of(star) as corpus:
                _, walk = await walk_all(corpus, policy=policy)
            finals.append([(hit.artifact_id, hit.metadata["rank_final"]) for hit in walk.ranking])
        assert finals == [[("a", True), ("hub", True)], [("a", True), ("hub", False)]]

    async def test_a_discovered_node_that_is_not_committed_may_come_between(self):
        policy = PersonalizedPageRank(seed_k=0, roots=["a", "b"], restart=0.9, certify_k=1)
        async with corpus_of({"a": [], "b": []}) as corpus:
            _, walk = await walk_all(corpus, policy=policy, node_budget=1)
            _, whole = await walk_all(corpus, policy=policy)
        assert [(hit.artifact_id, hit.metadata["rank_final"]) for hit in walk.ranking] == [("a", False)]
        assert [hit.metadata["rank_final"] for hit in whole.ranking] == [True, True]

    async def test_routers_are_not_in_the_ranking(self):
        """They have more mass than the nodes behind them, but are not to be returned."""
        items = {"a": item("b", text=None), "b": item("c"), "c": item(final=False), "d": item()}
        policy = PersonalizedPageRank(
            seed_k=0, roots=["a"], direction="out", scope=Scope(keep={"final": {"$ne": False}})
        )
        async with corpus_of(items) as corpus:
            _, walk = await walk_all(corpus, policy=policy)
        assert walk.summary.routed == 2
        assert [(hit.artifact_id, hit.metadata["rank_final"]) for hit in walk.ranking] == [("b", True)]

    async def test_a_walk_without_hits_has_an_empty_ranking(self):
        async with corpus_of(GRAPH) as corpus:
            for options in ({"node_budget": 0}, {"policy": PersonalizedPageRank(seed_k=0)}):
                _, walk = await walk_all(corpus, **{"policy": PersonalizedPageRank(), **options})
                assert walk.ranking == []


# --- where it starts ------------------------------------------------------------------------------------------------


async def masses(items, query="0", **options):
    """Return the mass of each seed.

    The score of a node committed first is its mass times the restart.
    """
    policy = PersonalizedPageRank(**{"width": 100, "seeding": "dense", **options})
    async with corpus_of(items) as corpus:
        hits, _ = await walk_all(corpus, query, policy=policy, max_depth=0)
    return {hit.artifact_id: pytest.approx(hit.score / policy.restart) for hit in hits}


PAGES = {
    "near": item(text="0.1", titles=["Pad"]),
    "mid": item("near", "Far", text="0.3", titles=["Pad"]),
    "far": item(text="0.5", titles=["Far"]),
    "off": item("mid", "Far", text="0.9"),
}


class TestSeeds:
    async def test_search_hits_and_roots_have_the_same_mass(self):
        assert await masses(PAGES, seed_k=2, roots=["off"]) == {"near": 1 / 3, "mid": 1 / 3, "off": 1 / 3}

    async def test_a_root_that_is_a_search_hit_has_the_mass_of_both(self):
        assert await masses(PAGES, seed_k=2, roots=["near", "near"]) == {"near": 2 / 3, "mid": 1 / 3}

    async def test_search_hits_can_have_less_mass_than_roots_or_none(self):
        assert await masses(PAGES, seed_k=1, search_weight=0.25, roots=["off"]) == {"near": 0.2, "off": 0.8}
        assert await masses(PAGES, search_weight=0, roots=["off"]) == {"off": 1}

    async def test_scores_are_scaled_from_the_lowest_to_the_highest_hit(self):
        low, mid, high = (math.cos(x * math.pi) for x in (0.5, 0.3, 0.1))
        share = (mid - low) / (high - low)
        found = await masses(PAGES, seed_k=3, weighting="score")
        assert found == {"near": 1 / (1 + share), "mid": share / (1 + share)}

    async def test_equal_scores_have_the_same_mass(self):
        items = {"a": item(text="0.2"), "b": item(text="0.2")}
        assert await masses(items, weighting="score") == {"a": 0.5, "b": 0.5}

    async def test_scores_determine_mass_in_a_lexical_search_too(self):
        items = {"a": item(text="pad 0.1"), "b": item(text="pad pad 0.2"), "c": item(text="pad pad pad 0.4")}
        low, mid, high = (math.cos(x * math.pi) for x in (0.4, 0.2, 0.1))
        share = (mid - low) / (high - low)
        found = await masses(items, "pad 0", seeding="lexical", weighting="score")
        assert found == {"a": 1 / (1 + share), "b": share / (1 + share)}

    async def test_rare_names_with_few_referrers_have_more_mass(self):
        """Two artifacts have the name pad, one of them has one referrer; far has two."""
        found = await masses(PAGES, "Pad or Far 0", seed_k=0, title_weight=1)
        weights = {"near": 1 / 2, "mid": 1 / 2, "far": 1 / 2}
        assert found == {id: weight / 1.5 for id, weight in weights.items()}
        found = await masses({**PAGES, "more": item("mid")}, "Pad or Far 0", seed_k=0, title_weight=3, roots=["off"])
        weights = {"near": 3 / 2, "mid": 3 / 4, "far": 3 / 2, "off": 1}
        assert found == {id: weight / sum(weights.values()) for id, weight in weights.items()}

    async def test_hippo_rag_2_is_a_configuration(self):
        """Passages have little mass by scaled score, phrases full mass by their rarity."""
        low, mid, high = (math.cos(x * math.pi) for x in (0.5, 0.3, 0.1))
        weights = {"near": 0.05, "mid": 0.05 * (mid - low) / (high - low), "far": 1 / 2}
        found = await masses(PAGES, "Far 0", seed_k=3, weighting="score", search_weight=0.05, title_weight=1)
        assert found == {id: weight / sum(weights.values()) for id, weight in weights.items()}

    async def test_an_artifact_that_may_not_start_has_no_mass_but_can_be_reached(self):
        scope = Scope(start={"text": {"$ne": "0.3"}})
        options = {"seed_k": 1, "roots": ["mid", "off"], "scope": scope}
        assert await masses(PAGES, **options) == {"near": 0.5, "off": 0.5}
        async with corpus_of(PAGES) as corpus:
            hits, walk = await walk_all(corpus, policy=PersonalizedPageRank(**options))
        assert "mid" in ids_of(hits)
        assert walk.summary.stop == "exhausted"

    async def test_an_artifact_that_a_scope_skips_has_no_mass(self):
        scope = Scope(cross={"text": "0.1"}, keep={"text": "0.1"})
        assert await masses(PAGES, seed_k=2, roots=["off"], scope=scope) == {"near": 1}

    async def test_an_artifact_that_a_scope_skips_is_not_explored(self):
        policy = PersonalizedPageRank(seed_k=1, scope=Scope.only({"text": {"$ne": "0.3"}}))
        async with corpus_of(PAGES) as corpus:
            hits, walk = await walk_all(corpus, policy=policy)
        assert (ids_of(hits), walk.summary.routed) == (["near"], 0)

    async def test_a_walk_without_mass_is_empty(self):
        async with corpus_of(PAGES) as corpus:
            policy = PersonalizedPageRank(search_weight=0, title_weight=1)
            hits, walk = await walk_all(corpus, "nobody 0", policy=policy)
        assert (hits, walk.summary.stop) == ([], "exhausted")


# --- manners --------------------------------------------------------------------------------------------------------


def ring(store=None):
    """Build artifacts in a ring with many cycles and fields for edges; some have no surface."""
    items = {
        f"{at:02}": item(
            *(f"{(at + step) % 14:02}" for step in (1, 3, 5)),
            text=None if at == 9 else f"{at / 14:.3f}",
            tags=[at % 3, at % 5],
            open=at != 4,
            mentions=[f"{at:02}", f"{(at + 2) % 14:02}", "nowhere"],
        )
        for at in range(14)
    }
    return corpus_of(items, store)


SUITES = {
    "links": PersonalizedPageRank(width=2, seed_k=2),
    "fields": PersonalizedPageRank(width=3, seed_k=2, edges=[("tags", "tags"), ("mentions", "$id")]),
    "scope": PersonalizedPageRank(seed_k=3, seeding="hybrid", direction="out", scope=Scope(keep={"open": True})),
    "scope-and-fields": PersonalizedPageRank(
        width=2, seed_k=2, roots=("03",), edges=[("tags", "tags")], scope=Scope(start={"open": True})
    ),
    "names": PersonalizedPageRank(width=2, weighting="score", search_weight=0.05, title_weight=1),
}


@pytest.mark.slow
@pytest.mark.parametrize("policy", SUITES.values(), ids=SUITES)
async def test_it_passes_the_exam_of_policies(policy):
    report = await PolicySuite(lambda: replace(policy), ring, "03 0").run()
    assert report.passed, str(report)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("policy", [SUITES["links"], SUITES["scope-and-fields"]], ids=["links", "scope-and-fields"])
async def test_it_passes_the_exam_of_policies_over_a_file(policy, tmp_path):
    async with ring(tmp_path / "ring.airw"):
        pass
    suite = PolicySuite(lambda: replace(policy), lambda: open_corpus(tmp_path / "ring.airw", embedder=ANGLE), "03 0")
    report = await suite.run()
    assert report.passed, str(report)


@pytest.mark.parametrize(
    ("options", "calls"),
    [
        ({}, {"Edges": 2, "scores": 2, "Records": 2}),
        ({"scope": Scope(keep={"open": True})}, {"Edges": 2, "scores": 3, "Records": 3}),
        ({"edges": [("to", "$id"), ("name", "to")]}, {"Matching": 2, "scores": 2, "Records": 3}),
    ],
    ids=["links", "scope", "fields"],
)
async def test_a_step_of_any_size_takes_three_store_calls(options, calls):
    names = [f"n{at:03}" for at in range(200)]
    wide = {name: item(open=True, name=name, to=[]) for name in names}
    wide["hub"] = item(*names, open=True, name="hub", to=names)
    async with corpus_of(wide) as corpus:
        store = Asked(corpus.store)
        policy = PersonalizedPageRank(seed_k=0, roots=["hub"], width=500, **options)
        hits, _ = await walk_all(replace(corpus, store=store), policy=policy)
    assert len(hits) == 201
    assert Counter(store.calls) == calls


async def test_only_committed_artifacts_are_compared_with_the_query():
    names = [f"n{at}" for at in range(30)]
    async with corpus_of({"hub": names} | {name: [] for name in names}) as corpus:
        hits, walk = await walk_all(
            corpus, policy=PersonalizedPageRank(seed_k=0, roots=["hub"], width=3), node_budget=7
        )
    assert sorted(walk._stages.state.memory.best_surfaces) == sorted(ids_of(hits))


def test_bad_parameters_are_refused_when_it_is_created():
    for options in (
        {"restart": 0},
        {"restart": 1.0},
        {"restart": "0.5"},
        {"restart": True},
        {"seed_k": -1},
        {"width": 0},
        {"degree_exponent": -1},
        {"search_weight": math.nan},
        {"title_weight": math.inf},
        {"weighting": "random"},
        {"direction": "sideways"},
    ):
        with pytest.raises(ArgumentError, match=next(iter(options))):
            PersonalizedPageRank(**options)


@pytest.mark.parametrize("policy", [PersonalizedPageRank(), PersonalizedPageRank(seed_k=0, roots=["a"])])
async def test_a_store_that_is_no_open_corpus_is_refused(policy):
    async with MemoryStore() as store:
        with pytest.raises(ArgumentError, match="expected an open corpus"):
            await top_k(traverse("0", store, policy=policy))
