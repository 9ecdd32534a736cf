"""Maximal marginal relevance, on real stores and compared with a plain reference."""

from dataclasses import replace
from itertools import chain

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw import open_corpus
from airw.errors import ArgumentError
from airw.policies import Mmr, Scope, strategies
from airw.values import Limits
from tests.support.artifact_corpora import (
    EIGHTHS,
    GROUPS,
    corpus_of,
    cos,
    dot,
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

# The query is at 0: a, b and c are near and alike, d is farther, on the other side.
FAN = {"a": item("0.1"), "b": item("0.12"), "c": item("0.13"), "d": item("-0.3")}


def reasons(hits):
    """Return the ids of the hits with the scores by which they were chosen."""
    return [(hit.artifact_id, hit.metadata["mmr_score"], hit.metadata["redundancy"]) for hit in hits]


def about(number):
    return pytest.approx(number, abs=1e-6)


class TestChoice:
    async def test_each_choice_weighs_similarity_to_the_query_against_similarity_to_earlier_choices(self):
        async with corpus_of(FAN) as corpus:
            hits, walk = await walk_all(corpus, Mmr(select_k=3, lambda_mult=0.5))
        assert reasons(hits) == [
            ("a", about(0.5 * cos(0.1)), 0.0),
            ("d", about(0.5 * cos(0.3) - 0.5 * cos(0.4)), about(cos(0.4))),
            ("b", about(0.5 * cos(0.12) - 0.5 * cos(0.02)), about(cos(0.02))),
        ]
        assert [hit.score for hit in hits] == [about(cos(x)) for x in (0.1, -0.3, 0.12)]
        assert walk.ranking == hits
        assert walk.summary.stop == "sufficient"

    async def test_a_lambda_of_one_is_similarity_alone(self):
        assert await find_ids(FAN, Mmr(lambda_mult=1)) == ["a", "b", "c", "d"]
        assert await find_ids(FAN, Mmr(lambda_mult=1.0, select_k=2)) == ["a", "b"]

    async def test_a_lambda_of_zero_is_dissimilarity_alone_and_the_first_choice_is_the_first_found(self):
        items = {**FAN, "e": item("1")}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, Mmr(lambda_mult=0, start_k=5))
        assert reasons(hits)[:2] == [("a", 0.0, 0.0), ("e", 0.0, 0.0)]
        assert ids(hits) == ["a", "e", "d", "c", "b"]

    async def test_of_equals_the_first_discovered_is_chosen(self):
        items = {"a": item("0.25", to=["d", "c"]), "b": item("-0.25", to=["e"]), **dict.fromkeys("cde", item("0.25"))}
        assert await find_ids(items, Mmr(start_k=0, roots=["b", "a"], select_k=None)) == ["b", "a", "e", "c", "d"]

    async def test_neighbours_of_a_choice_are_admitted_before_the_next_choice(self):
        items = {"a": item("0.1", to=["x"]), "b": item("0.12"), "x": item("-0.2")}
        assert await find_ids(items, Mmr(start_k=2)) == ["a", "x", "b"]

    async def test_an_artifact_that_is_not_admitted_is_not_chosen_until_it_is_found_again(self):
        items = {
            "a": item("0", to=["b", "c"]),
            "b": item("0.1", to=["d"]),
            "c": item("0.4"),
            "d": item("0.2", to=["c"]),
        }
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, Mmr(start_k=0, roots=["a"], adjacent_k=1))
        assert ids(hits) == ["a", "b", "d", "c"]
        assert walk.path(hits[-1]) == ["a", "b", "d", "c"]

    async def test_a_waiting_artifact_found_on_a_shorter_path_takes_it(self):
        items = {
            "a": item("0", to=["b"]),
            "b": item("0", to=["c"]),
            "c": item("0.9"),
            "z": item("0.3", to=["c"]),
        }
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, Mmr(start_k=0, roots=["a", "z"], lambda_mult=1))
        assert [walk.path(hit) for hit in hits] == [["a"], ["a", "b"], ["z"], ["z", "c"]]

    async def test_of_an_artifact_with_several_surfaces_the_best_one_is_compared(self):
        """Its other surface equals the first choice and would make it redundant."""
        items = {"a": item("0"), "b": item("0", "0.2"), "c": item("0.3")}
        async with corpus_of(items) as corpus:
            hits, _ = await walk_all(corpus, Mmr(lambda_mult=0.5), "-0.5")
            assert [hit.text for hit in hits] == ["0", "0", "0.3"]
            hits, _ = await walk_all(corpus, Mmr(lambda_mult=0), "0.5")
        assert reasons(hits)[1:] == [
            ("a", about(-cos(0.3)), about(cos(0.3))),
            ("b", about(-cos(0.1)), about(cos(0.1))),
        ]


class TestRedundancy:
    async def test_redundancy_with_the_first_choice_is_never_negative_for_earlier_artifacts(self):
        async with corpus_of({"a": item("0"), "b": item("0.9")}) as corpus:
            hits, _ = await walk_all(corpus, Mmr())
        assert reasons(hits) == [("a", about(0.5), 0.0), ("b", about(0.5 * cos(0.9)), 0.0)]

    async def test_redundancy_may_be_negative_for_artifacts_admitted_later(self):
        async with corpus_of({"a": item("0", to=["b"]), "b": item("0.9")}) as corpus:
            hits, _ = await walk_all(corpus, Mmr(start_k=1))
        assert reasons(hits)[1:] == [("b", about(0.5 * cos(0.9) - 0.5 * cos(0.9)), about(cos(0.9)))]

    async def test_routers_count_as_choices(self):
        items = {"a": item("0.1", kind="x"), "b": item("0.1", kind="y"), "c": item("-0.3", kind="x")}
        async with corpus_of(items) as corpus:
            hits, walk = await walk_all(corpus, Mmr(scope=Scope(keep={"kind": "x"}), start_k=0, roots=["b", "a", "c"]))
        assert ids(hits) == ["c", "a"]
        assert [hit.metadata["redundancy"] for hit in hits] == [about(cos(0.4)), about(1)]
        assert (walk.summary.routed, walk.summary.stop) == (1, "exhausted")


class TestEnd:
    async def test_nothing_is_chosen_below_min_mmr_score(self):
        async with corpus_of(FAN) as corpus:
            hits, walk = await walk_all(corpus, Mmr(lambda_mult=1, min_mmr_score=0.9))
        assert ids(hits) == ["a", "b", "c"]
        assert (walk.summary.stop, walk.summary.left_out) == ("sufficient", {})

    async def test_an_artifact_exactly_at_min_mmr_score_is_chosen(self):
        assert await find_ids({"a": item("0"), "b": item("0.3")}, Mmr(min_mmr_score=0.5)) == ["a"]

    async def test_a_start_below_min_mmr_score_ends_the_walk_before_it_begins(self):
        async with corpus_of(FAN) as corpus:
            hits, walk = await walk_all(corpus, Mmr(min_mmr_score=1.1))
        assert (hits, walk.summary.stop, walk.summary.steps) == ([], "sufficient", 0)

    async def test_select_k_none_runs_to_the_limits_of_the_walk(self):
        async with corpus_of(FAN) as corpus:
            hits, walk = await walk_all(corpus, Mmr(select_k=None))
            assert (len(hits), walk.summary.stop) == (4, "exhausted")
            hits, walk = await walk_all(corpus, Mmr(select_k=None), node_budget=2)
            assert (len(hits), walk.summary.stop, walk.summary.left_out) == (2, "node_budget", {"node_budget": 2})
            hits, walk = await walk_all(corpus, Mmr(select_k=None), limits=Limits(max_hits=3))
        assert (len(hits), walk.summary.stop) == (3, "max_hits")

    async def test_select_k_of_nothing_selects_nothing(self):
        async with corpus_of(FAN) as corpus:
            hits, walk = await walk_all(corpus, Mmr(select_k=0))
        assert (hits, walk.summary.stop) == ([], "sufficient")

    async def test_max_traverse_limits_the_expanded_artifacts(self):
        items = {"a": item("0", to=["b"]), "b": item("0.1", to=["c"]), "c": item("0.2")}
        assert await find_ids(items, Mmr(start_k=1, max_traverse=1)) == ["a", "b"]
        assert await find_ids(items, Mmr(start_k=1, max_traverse=0)) == ["a"]


BARE = {"a": item("0", to=["b"]), "b": item(to=["c"]), "c": item("0.6"), "d": item("0.7")}


class TestArtifactsWithoutSurfaces:
    @pytest.mark.parametrize("weight", [0, 0.5, 1])
    async def test_artifacts_without_surfaces_are_chosen_last_and_only_route(self, weight):
        async with corpus_of(BARE) as corpus:
            hits, walk = await walk_all(corpus, Mmr(start_k=0, roots=["a", "d"], lambda_mult=weight))
        assert [walk.path(hit) for hit in hits] == [["a"], ["d"], ["a", "b", "c"]]
        assert (walk.summary.routed, walk.summary.stop) == (1, "exhausted")

    async def test_artifacts_without_surfaces_are_below_any_min_mmr_score(self):
        assert await find_ids(BARE, Mmr(start_k=2, min_mmr_score=-100.0)) == ["a", "c"]


class TestCost:
    async def test_a_step_costs_one_store_call(self):
        items = {
            "a": item("0", to=["b", "c"]),
            "b": item("0.2", to=["d", "e"]),
            **{name: item("0.4") for name in "cde"},
        }
        async with corpus_of(items) as corpus:
            store = Asked(corpus.store)
            await walk_all(replace(corpus, store=store), Mmr(start_k=1, select_k=3, seeding="dense"))
        start = ["VectorsOf", "scores", "Records", "Records", "Edges", "VectorsOf"]
        assert store.reads == [["dense"], start, ["Records", "Edges", "VectorsOf"], ["Records"]]

    async def test_artifacts_at_the_depth_cap_are_chosen_in_one_step(self):
        async with corpus_of(FAN) as corpus:
            capped, walk = await walk_all(corpus, Mmr(), max_depth=0)
            free, stepwise = await walk_all(corpus, Mmr())
        assert reasons(capped) == reasons(free)
        assert (walk.summary.steps, stepwise.summary.steps) == (1, 4)

    async def test_many_choices_at_the_depth_cap_are_made_in_order_too(self):
        items = {f"n{at:02}": item(f"{at / 200}") for at in range(90)}
        async with corpus_of(items) as corpus:
            capped, walk = await walk_all(corpus, Mmr(start_k=90, select_k=80), max_depth=0, node_budget=90)
            free, _ = await walk_all(corpus, Mmr(start_k=90, select_k=80), node_budget=90)
        assert reasons(capped) == reasons(free)
        assert walk.summary.steps == 2  # of 64 choices at most

    @pytest.mark.slow
    async def test_a_large_pool_is_compared_in_a_thread_with_the_same_outcome(self, monkeypatch):
        unpatched, threads, told = strategies.offload_if, [], []

        async def offload_if(is_long, function, *arguments):
            threads.extend([function] * is_long)
            return await unpatched(is_long, function, *arguments)

        monkeypatch.setattr(strategies, "offload_if", offload_if)
        policy = Mmr(select_k=None, adjacent_k=None)
        for many in (strategies._OFFLOAD_NUMBERS_ABOVE, 1):
            monkeypatch.setattr(strategies, "_OFFLOAD_NUMBERS_ABOVE", many)
            assert not threads
            for number in range(8):
                graph = graph_of(number)
                async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
                    hits, walk = await walk_all(corpus, policy, graph.query, max_depth=number)
                told.append((reasons(hits), walk.summary.left_out))
        assert told[:8] == told[8:]
        assert len(threads) > 40


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"lambda_mult": 1.1}, "lambda_mult must be a number from 0 to 1, not 1.1"),
        ({"lambda_mult": -0.1}, "lambda_mult"),
        ({"lambda_mult": float("nan")}, "lambda_mult"),
        ({"lambda_mult": True}, "lambda_mult"),
        ({"lambda_mult": "0.5"}, "lambda_mult"),
        ({"min_mmr_score": float("nan")}, "min_mmr_score must be a number from -inf to inf, not nan"),
        ({"min_mmr_score": None}, "min_mmr_score"),
        ({"adjacent_k": -1}, "adjacent_k"),
    ],
)
def test_bad_parameters_are_refused_when_it_is_created(options, told):
    with pytest.raises(ArgumentError, match=told):
        Mmr(**options)


# --- against a reference ---------------------------------------------------------------------------------------------


def marginal(graph, weight, least, why):
    """Return the `choose` of a reference walk, which takes the best node if it is good enough.

    Of equals, it takes the first. `why` records its score and redundancy.
    """

    def choose(pool, committed):
        rated = []
        for each in pool:
            likeness = [dot(graph.vector(each.id), graph.vector(other.id)) for other in committed]
            redundancy = max(likeness if each.late else [0.0, *likeness])
            score = (
                weight * graph.cosine(each.id) - (1 - weight) * redundancy if graph.items[each.id]["texts"] else -1e9
            )
            rated.append((score, redundancy, each))
        score, redundancy, best = max(rated, key=lambda rating: rating[0], default=(0, 0, None))
        if best is None or score < least:
            return []
        why[best.id] = (score, redundancy)
        return [best]

    return choose


numbers = st.fixed_dictionaries(
    {
        "start_k": st.integers(0, 3),
        "select_k": st.none() | st.integers(1, 10),
        "adjacent_k": st.none() | st.integers(0, 4),
        "max_traverse": st.none() | st.integers(0, 8),
    }
)
scopes = st.dictionaries(st.sampled_from(["start", "cross", "keep"]), st.sampled_from(GROUPS))
weights = st.sampled_from([0, 0.125, 0.25, 0.5, 0.5, 0.75, 1])  # all exact
leasts = st.none() | st.sampled_from([-0.5, -0.125, 0, 0.25])
depths = st.none() | st.integers(0, 3)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(data=st.data())
@settings(max_examples=examples(75))
def test_choices_scores_and_order_equal_those_of_a_simple_reference(backend, data):
    graph, counts, scope = data.draw(graphs()), data.draw(numbers), data.draw(scopes)
    weight, least, max_depth, why = data.draw(weights), data.draw(leasts), data.draw(depths), {}
    choose = marginal(graph, weight, -1e99 if least is None else least, why)
    chosen = list(chain.from_iterable(reference(graph, choose, max_depth=max_depth, scope=scope, **counts)))
    policy = Mmr(
        lambda_mult=weight, roots=graph.roots, scope=Scope(**scope), seeding="dense", direction="out", **counts
    )
    if least is not None:
        policy = replace(policy, min_mmr_score=least)

    async def main():
        async with corpus_of(graph.items, embedder=EIGHTHS) as corpus:
            hits, walk = await walk_all(corpus, policy, graph.query, max_depth=max_depth)
        assert [walk.path(hit) for hit in hits] == [each.path for each in nodes_to_keep(graph, chosen, scope)]
        assert reasons(hits) == [(each.id, *why[each.id]) for each in nodes_to_keep(graph, chosen, scope)]
        assert walk.summary.committed == len(chosen)
        assert walk.ranking == hits

    anyio.run(main, backend=backend)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("policy", [Mmr(select_k=None), Mmr(edges=[("tags", "tags")], lambda_mult=0.25)])
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
