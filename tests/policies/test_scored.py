"""Best-first walks by a custom scorer, on real stores and compared with a plain reference."""

import math
from dataclasses import replace
from fractions import Fraction
from itertools import chain

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw import open_corpus, traverse
from airw.errors import ArgumentError, PolicyError
from airw.policies import Scope, Scored
from airw.values import Limits
from airw.walking import NodeCommitted
from tests.support.artifact_corpora import (
    EIGHTHS,
    GROUPS,
    corpus_of,
    cos,
    find_ids,
    graph_of,
    graphs,
    ids,
    item,
    nodes_to_keep,
    reference,
    walk_all,
)
from tests.support.asked import Asked
from tests.support.drawing import examples


def by_rank(node):
    return node.metadata["rank"]


def from_root(**options):
    return Scored(**{"start_k": 0, "roots": ["a"], **options})


# Nearer and nearer along b and d; c is near, but nothing lies behind it.
FORK = {
    "a": item("0.5", to=["b", "c"], rank=3),
    "b": item("0.3", to=["d"], rank=1),
    "c": item("0.2", rank=4),
    "d": item("0.1", to=["e"], rank=5),
    "e": item("0", rank=2),
}


class TestOrder:
    async def test_each_step_expands_the_best_artifact_of_the_whole_frontier(self):
        assert await find_ids(FORK, from_root(per_iteration_limit=1)) == ["a", "c", "b", "d", "e"]
        backwards = from_root(per_iteration_limit=1, scorer=lambda node: -by_rank(node))
        assert await find_ids(FORK, backwards) == ["a", "b", "c", "d", "e"]

    async def test_the_stream_is_in_order_of_commitment_and_the_ranking_by_score(self):
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, from_root(scorer=by_rank, per_iteration_limit=1, select_k=4))
        assert ids(hits) == ["a", "c", "b", "d"]
        assert [(hit.artifact_id, hit.score) for hit in walk.ranking] == [("d", 5), ("c", 4), ("a", 3), ("b", 1)]

    async def test_equals_stream_and_rank_in_order_of_discovery(self):
        items = {"a": item("0", to=["d", "c"]), "b": item("0", to=["e"]), "c": item("0"), "d": item("0"),
                 "e": item("0")}  # fmt: skip
        policy = Scored(start_k=0, roots=["b", "a"], scorer=lambda node: 1, select_k=None)
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy)
        assert ids(hits) == ids(walk.ranking) == ["b", "a", "e", "c", "d"]

    async def test_without_a_scorer_artifacts_score_by_their_cosine(self):
        async with corpus_of(FORK) as corpus:
            hits, _ = await walk_all(corpus, from_root())
        assert {hit.artifact_id: hit.score for hit in hits} == {
            name: pytest.approx(cos(float(each["texts"][0])), abs=1e-6) for name, each in FORK.items()
        }

    async def test_adjacent_k_admits_the_nearest_whatever_their_score(self):
        items = {
            "a": item("0", to=["b", "c", "d"], rank=0),
            "b": item("0.3", rank=3),
            "c": item("0.1", rank=1),
            "d": item("0.2", rank=2),
        }
        assert await find_ids(items, from_root(scorer=by_rank, adjacent_k=2)) == ["a", "d", "c"]

    async def test_a_waiting_artifact_found_on_a_shorter_path_takes_it(self):
        items = {
            "a": item("0", to=["b"]),
            "b": item("0.1", to=["c"]),
            "c": item("0.2", to=["far"]),
            "far": item("0.9"),
            "z": item("0.5", to=["far"]),
        }
        policy = Scored(start_k=0, roots=["a", "z"], per_iteration_limit=1, select_k=None)
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, policy)
        assert [hit.metadata["walk_path"] for hit in hits][-2:] == [["z"], ["z", "far"]]

    async def test_minus_infinity_is_a_valid_score(self):
        scorer = lambda node: -math.inf if node.id == "c" else math.inf if node.id == "e" else 0  # noqa: E731 (one line)
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, from_root(scorer=scorer, select_k=None))
        assert ids(walk.ranking) == ["e", "a", "b", "d", "c"]
        assert hits[0].to_dict()["score"] == 0
        assert walk.ranking[0].to_dict()["score"] is None

    async def test_artifacts_without_surfaces_come_last_and_only_route(self):
        items = {"a": item("0", to=["b", "c"]), "b": item(to=["d"]), "c": item("0.9"), "d": item("0.1")}
        for options in ({}, {"scorer": lambda node: -5.0}):
            async with corpus_of(items) as corpus:
                hits, walk = await walk_all(corpus, from_root(per_iteration_limit=1, **options))
            assert [hit.metadata["walk_path"] for hit in hits] == [["a"], ["a", "c"], ["a", "b", "d"]]
            assert walk.summary.routed == 1


class TestHowMany:
    async def test_a_step_takes_as_many_as_are_still_to_be_selected(self):
        items = {"a": item("0.1", to=["c"]), "b": item("0.2"), "c": item("0"), "d": item("0.3")}
        policy = Scored(start_k=0, roots=["a", "b", "d"], select_k=2)
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, policy)
        assert ids(hits) == ["a", "b"]
        assert (walk.summary.stop, walk.summary.steps, walk.summary.edges) == ("sufficient", 1, 0)

    async def test_per_iteration_limit_takes_fewer(self):
        items = {"a": item("0.1", to=["c"]), "b": item("0.2"), "c": item("0"), "d": item("0.3")}
        policy = Scored(start_k=0, roots=["a", "b", "d"], select_k=3, per_iteration_limit=1)
        assert await find_ids(items, policy) == ["a", "c", "b"]
        assert await find_ids(items, replace(policy, per_iteration_limit=2)) == ["a", "b", "c"]

    async def test_artifacts_at_the_depth_cap_are_committed_with_the_others(self):
        items = {
            "a": item("0", to=["x", "y", "z"]),
            "b": item("0.25"),
            "x": item("0.1"),
            "y": item("0.2"),
            "z": item("0.3"),
        }
        policy = Scored(start_k=0, roots=["a", "b"], per_iteration_limit=1, select_k=None)
        async with corpus_of(items) as corpus:
            _, capped = await walk_all(corpus, policy, max_depth=1)
            _, free = await walk_all(corpus, policy)
        # x and y come before b, the one that may have something behind it; z comes after it.
        assert [len(step) for step in await steps_of(items, policy, max_depth=1)] == [1, 3, 1]
        assert ids(capped.ranking) == ids(free.ranking) == ["a", "x", "y", "b", "z"]
        assert (capped.summary.steps, free.summary.steps) == (3, 5)

    async def test_a_step_beyond_select_k_is_in_the_stream_and_cut_in_the_ranking(self):
        items = {"a": item("0.5", to=["x", "y", "z"]), "x": item("0.1"), "y": item("0.2"), "z": item("0.3")}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, from_root(select_k=2), max_depth=1)
        assert ids(hits) == ["a", "x", "y", "z"]
        assert ids(walk.ranking) == ["x", "y"]
        assert walk.summary.stop == "sufficient"
        assert walk.summary.left_out == {}

    async def test_select_k_none_runs_to_the_limits_of_the_walk(self):
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, from_root(select_k=None, per_iteration_limit=1), node_budget=3)
            assert (len(hits), walk.summary.stop) == (3, "node_budget")
            hits, walk = await walk_all(corpus, from_root(select_k=None, per_iteration_limit=1))
        assert (len(hits), walk.summary.stop) == (5, "exhausted")

    async def test_select_k_of_nothing_selects_nothing(self):
        asked = []
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, Scored(select_k=0, scorer=asked.append))
        assert (hits, asked, walk.summary.stop) == ([], [], "sufficient")

    async def test_max_traverse_limits_the_expanded_but_not_the_committed_artifacts(self):
        async with corpus_of(FORK) as corpus:
            hits, walk = await walk_all(corpus, from_root(max_traverse=2, per_iteration_limit=1))
        assert ids(hits) == ["a", "c", "b"]  # c is gone on from, though nothing lies behind it
        assert walk.summary.stop == "exhausted"

    async def test_a_walk_is_sufficient_even_if_its_last_step_contains_a_router(self):
        items = {"a": item("0", kind="x"), "b": item("0.1", kind="y"), "c": item("0.2", kind="x")}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, Scored(select_k=1, scope=Scope(keep={"kind": "x"})), max_depth=0)
        assert ids(hits) == ["a", "c"]
        assert walk.summary.stop == "sufficient"


async def steps_of(items, policy, **options):
    """Return the ids that each step commits."""
    steps = []

    class Noted(Scored):
        async def select(self, state, frontier):
            chosen = await super().select(state, frontier)
            steps.append([frontier.ids[at] for at in chosen])
            return chosen

    options_of_policy = {name: getattr(policy, name) for name in policy.__dataclass_fields__}
    async with corpus_of(items) as corpus:
        await walk_all(corpus, Noted(**options_of_policy), **options)
    return [step for step in steps if step]


class TestScorer:
    async def test_a_scorer_sees_the_best_surface_of_an_artifact(self):
        seen = {}
        items = {"a": item("0.5", "0.25", to=["b"], rank=7), "b": item("0.1", rank=[1])}
        async with corpus_of(items) as corpus:
            await walk_all(corpus, from_root(scorer=lambda node: seen.setdefault(node.id, node).depth))
        node = seen["a"]
        assert (node.content, node.depth, node.metadata) == ("0.25", 0, {"links": {"REF": ["b"]}, "rank": 7})
        assert node.similarity_score == pytest.approx(cos(0.25), abs=1e-6)
        assert node.embedding.tolist() == pytest.approx([math.cos(math.pi / 4), math.sin(math.pi / 4)], abs=1e-6)
        assert (seen["b"].depth, seen["b"].content) == (1, "0.1")

    async def test_each_artifact_is_scored_once_and_in_order_of_discovery(self):
        seen = []
        await find_ids(FORK, from_root(scorer=lambda node: seen.append(node.id) or 0.0, per_iteration_limit=1))
        assert seen == ["a", "b", "c", "d", "e"]

    async def test_an_artifact_is_not_scored_until_it_is_admitted(self):
        seen = []
        items = {"a": item("0", to=["b", "c"]), "b": item("0.1", to=["c"]), "c": item("0.2")}
        policy = from_root(scorer=lambda node: seen.append((node.id, node.depth)) or 0.0, adjacent_k=1)
        assert await find_ids(items, policy) == ["a", "b", "c"]
        assert seen == [("a", 0), ("b", 1), ("c", 2)]

    @pytest.mark.parametrize("score", [3, np.float32(0.5), np.int64(7), Fraction(1, 2), -0.0])
    async def test_a_score_may_be_any_real_number_and_is_a_float_in_hits(self, score):
        async with corpus_of(FORK) as corpus:
            hits, _ = await walk_all(corpus, from_root(scorer=lambda node: score))
        assert {(hit.score, type(hit.score)) for hit in hits} == {(float(score), float)}

    async def test_events_contain_its_scores_too(self):
        async with corpus_of(FORK) as corpus:
            walk = traverse("0", corpus, policy=from_root(scorer=by_rank))
            told = {
                event.id: (event.score, event.hit.score)
                async for event in walk.events()
                if isinstance(event, NodeCommitted)
            }
        assert told == {name: (each["rank"], each["rank"]) for name, each in FORK.items()}

    async def test_async_scorers_run_concurrently_up_to_the_limit(self):
        running, most = [], []

        async def scorer(node):
            running.append(node.id)
            most.append(len(running))
            await anyio.sleep(0.001 * (int(node.id, 36) % 3))
            running.remove(node.id)
            return by_rank(node)

        names = "bcdefghij"
        items = {name: item("0.1", rank=(at * 4) % 9) for at, name in enumerate(names)}
        items["a"] = item("0", to=list(names), rank=9)
        policy = from_root(adjacent_k=None, select_k=None)
        async with corpus_of(items) as corpus:
            expected, _ = await walk_all(corpus, replace(policy, scorer=by_rank))
            hits, _ = await walk_all(corpus, replace(policy, scorer=scorer), limits=Limits(max_concurrency=3))
            assert max(most) == 3
            alone, _ = await walk_all(corpus, replace(policy, scorer=scorer), limits=Limits(max_concurrency=1))
        assert [(hit.artifact_id, hit.score) for hit in hits] == [(hit.artifact_id, hit.score) for hit in expected]
        assert [hit.to_dict() for hit in alone] == [hit.to_dict() for hit in hits]

    async def test_a_plain_function_may_answer_with_an_awaitable(self):
        async def later(node):
            await anyio.lowlevel.checkpoint()
            return by_rank(node)

        async with corpus_of(FORK) as corpus:
            hits, _ = await walk_all(corpus, from_root(scorer=lambda node: later(node)))  # noqa: PLW0108 - not a coroutine function
        assert {hit.artifact_id: hit.score for hit in hits} == {name: each["rank"] for name, each in FORK.items()}

    async def test_nan_is_a_policy_error_that_names_the_artifact(self):
        async with corpus_of(FORK) as corpus:
            with pytest.raises(PolicyError, match="scorer returned nan for 'c'; return a number"):
                await walk_all(corpus, from_root(scorer=lambda node: math.nan if node.id == "c" else 1))

    @pytest.mark.parametrize("answer", ["5", "high", 1j, None, True, [1.0], np.array([1.0]), np.float32("nan")])
    async def test_a_score_that_is_no_number_is_a_policy_error(self, answer):
        async with corpus_of(FORK) as corpus:
            with pytest.raises(PolicyError, match=r"scorer returned .* for 'a'; return a number"):
                await walk_all(corpus, from_root(scorer=lambda node: answer))

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_its_errors_end_the_walk_unchanged(self, is_async):
        error = KeyError("year")

        def scorer(node):
            if node.id == "d":
                raise error
            return 1.0

        async def late(node):
            return scorer(node)

        hits = []
        async with corpus_of(FORK) as corpus:
            walk_of = walk_into(hits, corpus, from_root(scorer=late if is_async else scorer))
            with pytest.raises(KeyError) as raised:
                await walk_of
        assert raised.value is error
        assert error.__notes__ == ["for node 'd'", "raised in Scored.select during a walk"]
        assert ids(hits) == ["a", "b", "c"]

    async def test_a_scorer_that_changes_a_node_changes_no_hit(self):
        def scorer(node):
            node.metadata.clear()
            node.content = node.id = "spoiled"
            return 1.0

        async with corpus_of(FORK) as corpus:
            hits, _ = await walk_all(corpus, from_root(scorer=scorer))
        assert [(hit.artifact_id, hit.text, hit.metadata["rank"]) for hit in hits[:2]] == [
            ("a", "0.5", 3),
            ("b", "0.3", 1),
        ]

    async def test_scoring_costs_one_call_a_step_and_the_hits_then_none(self):
        async with corpus_of(FORK) as corpus:
            store = Asked(corpus.store)
            counted, policy = (
                replace(corpus, store=store),
                Scored(start_k=1, select_k=2, scorer=by_rank, seeding="dense"),
            )
            await walk_all(counted, replace(policy, scope=Scope(keep={"rank": {"$ne": 9}})), "0.5")
            step = ["Edges", "VectorsOf", "scores", "Records"]
            assert store.reads == [["dense"], ["VectorsOf", "scores", "Records", "Records", *step]]
            store.reads.clear()
            await walk_all(counted, replace(policy, scorer=None), "0.5")
            assert store.reads == [["dense"], ["Records", "Edges", "scores", "Records"]]


async def walk_into(hits, corpus, policy):
    """Walk, and append the hits that come before an error."""
    async with traverse("0", corpus, policy=policy) as walk:
        async for hit in walk:
            hits.append(hit)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"scorer": 3}, "scorer must be a function of a node or None, not 3"),
        ({"per_iteration_limit": 0}, "per_iteration_limit must be a whole number of at least 1, not 0"),
        ({"per_iteration_limit": True}, "per_iteration_limit"),
        ({"select_k": -1}, "select_k"),
        ({"max_traverse": 1.5}, "max_traverse"),
    ],
)
def test_bad_parameters_are_refused_when_it_is_created(options, told):
    with pytest.raises(ArgumentError, match=told):
        Scored(**options)


# --- against a reference ---------------------------------------------------------------------------------------------


def best_first(graph, score, scope, max_depth, *, select_k, per_iteration_limit):
    """Return the `choose` of a reference walk, which takes the best nodes.

    A step ends once it has enough nodes that may have neighbours.
    """

    def choose(pool, committed):
        room = len(pool) if select_k is None else select_k - len(nodes_to_keep(graph, committed, scope))
        room, chosen = min(room, per_iteration_limit or room), []
        for each in sorted(pool, key=lambda each: -score(each.id)):
            if room > 0:
                chosen.append(each)
            room -= each.depth != max_depth
        return chosen

    return choose


numbers = st.fixed_dictionaries(
    {
        "start_k": st.integers(0, 3),
        "select_k": st.none() | st.integers(1, 8),
        "adjacent_k": st.none() | st.integers(0, 4),
        "max_traverse": st.none() | st.integers(0, 8),
    }
)
scopes = st.dictionaries(st.sampled_from(["start", "cross", "keep"]), st.sampled_from(GROUPS))
limits = st.none() | st.integers(1, 3)
depths = st.none() | st.integers(0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.slow)])
@pytest.mark.parametrize("scorer", [None, by_rank])
@given(data=st.data())
@settings(max_examples=examples(50))
def test_walks_are_those_of_a_simple_reference(backend, scorer, data):
    graph, counts, scope = data.draw(graphs()), data.draw(numbers), data.draw(scopes)
    limit, max_depth = data.draw(limits), data.draw(depths)

    def score(name):
        each = graph.items[name]
        return graph.cosine(name) if scorer is None else each["rank"] if each["texts"] else -math.inf

    choose = best_first(graph, score, scope, max_depth, select_k=counts["select_k"], per_iteration_limit=limit)
    steps = reference(graph, choose, max_depth=max_depth, scope=scope, **counts)
    expected = [(each.path, score(each.id)) for each in nodes_to_keep(graph, chain.from_iterable(steps), scope)]
    options = {"direction": "out", "seeding": "dense", "per_iteration_limit": limit, "scorer": scorer, **counts}
    policy = Scored(roots=graph.roots, scope=Scope(**scope), **options)

    async def main():
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            hits, walk = await walk_all(corpus, policy, graph.query, max_depth=max_depth)
        assert [(walk.path(hit), hit.score) for hit in hits] == expected
        ranked = sorted(expected, key=lambda pair: -pair[1])[: counts["select_k"]]
        assert [(walk.path(hit), hit.score) for hit in walk.ranking] == ranked
        if walk.summary.stop == "exhausted":  # else the routers behind the last hit are left
            assert walk.summary.committed == sum(map(len, steps))

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("policy", [Scored(scorer=by_rank, select_k=None), Scored(edges=[("rank", "rank")])])
async def test_a_walk_of_a_file_equals_one_in_memory(policy, tmp_path):
    for number in range(5):
        graph = graph_of(number)
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            expected, _ = await walk_all(corpus, policy, graph.query)
        path = tmp_path / f"{number}.airw"
        async with corpus_of(graph.items, path, embedder=EIGHTHS):
            pass
        async with open_corpus(path, embedder=EIGHTHS) as corpus:
            hits, _ = await walk_all(corpus, policy, graph.query)
        assert [hit.to_dict() for hit in hits] == [hit.to_dict() for hit in expected]
