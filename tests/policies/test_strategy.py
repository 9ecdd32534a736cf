"""Custom strategies: a body walks here as in graph-retriever, and its further guarantees."""

import copy
from dataclasses import dataclass, field
from random import Random

import anyio
import graph_retriever.strategies
import numpy as np
import pytest
from hypothesis import given, settings

from airw import open_corpus, traverse
from airw.errors import ArgumentError, PolicyError
from airw.policies import Eager, Mmr, Node, NodeTracker, Scope, Scored, Strategy
from airw.testing import PolicySuite
from tests.support.drawing import examples
from tests.support.graph_retriever_oracle import (
    QUERY,
    bounds_of,
    compare,
    corpus_of,
    graph_of,
    numbers,
    ranking_of,
    their_bounds,
)
from tests.support.ring import QUERY as RING_QUERY, corpus as ring
from tests.support.strategies import (
    BODIES,
    LINE,
    LINKS,
    Everything,
    KeepsHeap,
    Reorders,
    SelectsOnly,
    ids,
    line_of,
    strategy_class,
    strategy_from,
    walk_of,
)


@pytest.mark.slow
@pytest.mark.parametrize("body", BODIES)
@given(number=numbers())
@settings(max_examples=examples(25))
def test_a_body_walks_random_graphs_as_in_graph_retriever(body, number):
    chance = Random(number)
    graph, bounds = graph_of(chance), bounds_of(chance)
    theirs = strategy_class(body, graph_retriever.strategies.Strategy)(**their_bounds(bounds))
    backend = chance.choice(["asyncio", "asyncio", "trio"])
    anyio.run(compare, graph, strategy_class(body)(**bounds, **graph.ours), theirs, backend=backend)


# --- a walk of a strategy --------------------------------------------------------------------------------------------


class TestWalk:
    async def test_iteration_receives_the_admitted_nodes_of_each_step_nearest_first(self):
        seen = []

        def iteration(self, nodes, tracker):
            seen.append([(node.id, node.depth) for node in nodes])
            tracker.select_and_traverse(nodes)

        await walk_of(strategy_from(iteration))
        assert seen == [[("a", 0)], [("b", 1), ("c", 1)], [("d", 2), ("e", 2)], [("f", 3)]]

    async def test_adjacent_k_limits_the_nodes_that_iteration_receives(self):
        _, hits = await walk_of(strategy_class(Everything)(edges=LINKS, start_k=1, adjacent_k=1, select_k=None))
        assert ids(hits) == "abdf"

    async def test_iteration_receives_no_nodes_if_none_is_new_while_nodes_wait(self):
        seen = []

        def iteration(self, nodes, tracker):
            seen.append(len(nodes))
            self.waiting = [*getattr(self, "waiting", ()), *nodes]
            tracker.select_and_traverse([self.waiting.pop()])

        _, hits = await walk_of(strategy_from(iteration, start_k=3), line_of(a="", b="", c=""))
        assert (seen, ids(hits)) == ([3, 0, 0], "cba")

    async def test_a_node_contains_the_fields_of_its_artifact(self):
        nodes, queries = [], []

        def iteration(self, found, tracker):
            queries.append(self.query_embedding)
            nodes.extend(found)
            tracker.select_and_traverse(found)

        await walk_of(strategy_from(iteration), line_of(a="b", b=""))
        node = nodes[1]
        assert (node.id, node.content, node.depth, node.metadata) == ("b", "b", 1, {"links": [], "weight": 1})
        assert node.embedding == pytest.approx(np.array([1, 0.5]) / np.hypot(1, 0.5), abs=1e-6)
        assert node.similarity_score == pytest.approx(1 / np.hypot(1, 0.5), abs=1e-6)
        assert node.extra_metadata == {"_depth": 1, "_similarity_score": node.similarity_score}
        assert [query.tolist() for query in queries] == [[1, 0], [1, 0]]

    async def test_hits_stream_in_the_order_of_selection_and_the_final_order_is_that_of_finalize_nodes(self):
        walk, hits = await walk_of(strategy_class(Reorders)(edges=LINKS, start_k=1, select_k=None))
        assert (ids(hits), ids(walk.ranking)) == ("abcdef", "abcde")

        def iteration(self, nodes, tracker):
            tracker.select_and_traverse(nodes[::-1])

        walk, hits = await walk_of(strategy_from(iteration))
        assert ids(hits) == ids(walk.ranking) == "acbedf"

    async def test_finalize_nodes_adds_no_hits_and_returns_each_once(self):
        class Adds(strategy_class(Everything)):
            def finalize_nodes(self, selected):
                stranger = Node("stranger", "", 0, 0.0, np.zeros(2, np.float32))
                return (node for node in [stranger, *selected, *selected])

        walk, _ = await walk_of(Adds(edges=LINKS, start_k=1, max_depth=1))
        assert ids(walk.ranking) == "abc"

    async def test_a_node_that_is_traversed_but_not_selected_only_routes(self):
        def iteration(self, nodes, tracker):
            tracker.select([node for node in nodes if node.id in "ef"])
            tracker.traverse(nodes)

        walk, hits = await walk_of(strategy_from(iteration))
        assert (ids(hits), walk.summary.routed, walk.path(hits[-1])) == ("ef", 4, ["a", "b", "d", "f"])

    async def test_a_node_that_is_selected_but_not_traversed_is_not_expanded(self):
        def iteration(self, nodes, tracker):
            tracker.select(nodes)
            tracker.traverse([node for node in nodes if node.id != "b"])

        _, hits = await walk_of(strategy_from(iteration))
        assert ids(hits) == "abce"

    async def test_traversing_no_node_ends_the_walk(self):
        walk, hits = await walk_of(strategy_class(SelectsOnly)(edges=LINKS, start_k=2))
        assert (ids(hits), walk.summary.steps, walk.summary.stop) == ("ab", 1, "exhausted")

    async def test_doing_nothing_ends_the_walk(self):
        walk, hits = await walk_of(strategy_from(lambda self, nodes, tracker: None))
        assert (hits, walk.ranking, walk.summary.stop) == ([], [], "sufficient")

    async def test_a_walk_without_seeds_ends(self):
        walk, hits = await walk_of(strategy_class(Everything)(start_k=0))
        assert (hits, walk.ranking, walk.summary.stop) == ([], [], "exhausted")

    async def test_the_walk_ends_with_the_step_that_has_selected_enough(self):
        walk, hits = await walk_of(strategy_class(Everything)(edges=LINKS, start_k=1, select_k=2))
        assert (ids(hits), ids(walk.ranking), walk.summary.stop) == ("abc", "ab", "sufficient")

    @pytest.mark.parametrize(("most", "expected"), [(0, "a"), (1, "abc"), (2, "abcd"), (None, "abcdef")])
    async def test_max_traverse_limits_the_expanded_nodes(self, most, expected):
        _, hits = await walk_of(strategy_class(Everything)(edges=LINKS, start_k=1, select_k=None, max_traverse=most))
        assert ids(hits) == expected

    @pytest.mark.parametrize(("max_depth", "expected"), [(0, "a"), (1, "abc"), (2, "abcde"), (None, "abcdef")])
    async def test_max_depth_is_the_strategy_s_or_that_of_the_walk(self, max_depth, expected):
        strategy = strategy_class(Everything)(edges=LINKS, start_k=1, select_k=None, max_depth=max_depth)
        assert ids((await walk_of(strategy))[1]) == expected
        other = Strategy.build(strategy, max_depth=3)
        assert ids((await walk_of(other, max_depth=max_depth))[1]) == expected

    async def test_at_the_depth_cap_no_node_is_traversed(self):
        added = []

        def iteration(self, nodes, tracker):
            added.append(tracker.select_and_traverse(nodes))

        walk, hits = await walk_of(strategy_from(iteration), max_depth=1)
        assert (added, ids(hits), walk.summary.stop) == ([1, 0], "abc", "exhausted")

    async def test_select_accepts_a_generator(self):
        def iteration(self, nodes, tracker):
            tracker.select(node for node in nodes)
            tracker.traverse(node for node in nodes)

        assert ids((await walk_of(strategy_from(iteration)))[1]) == "abcdef"

    async def test_a_node_selected_twice_is_one_hit(self):
        def iteration(self, nodes, tracker):
            tracker.select([*nodes, *nodes])
            tracker.traverse(nodes)

        walk, hits = await walk_of(strategy_from(iteration))
        assert ids(hits) == ids(walk.ranking) == "abcdef"

    @pytest.mark.parametrize("first", ["select", "traverse"])
    async def test_the_error_about_a_node_of_an_earlier_step_suggests_a_remedy(self, first):
        """It was selected or traversed in an earlier step."""

        def iteration(self, nodes, tracker):
            kept = getattr(self, "kept", [])
            self.kept = list(nodes)
            tracker.select(kept)
            tracker.traverse(nodes)
            if first == "select":
                tracker.select(nodes)

        with pytest.raises(
            PolicyError, match=r"^Made\.iteration selected or traversed 'a', which does not wait; select"
        ):
            await walk_of(strategy_from(iteration))

    async def test_a_node_that_was_never_shown_is_an_error(self):
        def iteration(self, nodes, tracker):
            tracker.select([Node("stranger", "", 0, 0.0, np.zeros(2, np.float32))])

        with pytest.raises(PolicyError, match="'stranger', which does not wait"):
            await walk_of(strategy_from(iteration))

    async def test_an_error_of_the_strategy_ends_the_walk_unchanged(self):
        def iteration(self, nodes, tracker):
            raise KeyError("own")

        with pytest.raises(KeyError, match="own") as caught:
            await walk_of(strategy_from(iteration))
        assert caught.value.__notes__ == ["raised in Made.select during a walk"]

    async def test_extra_metadata_comes_with_the_hit_below_the_document_s_own_fields(self):
        def iteration(self, nodes, tracker):
            for node in nodes:
                node.extra_metadata |= {"why": node.id, "weight": "extra"}
            tracker.select_and_traverse(nodes)

        fields, vectors = line_of(a="b", b="")
        fields["b"]["_depth"] = "own"
        _, hits = await walk_of(strategy_from(iteration), (fields, vectors))
        told = [{name: hit.metadata[name] for name in ("why", "weight", "_depth", "walk_depth")} for hit in hits]
        assert told == [
            {"why": "a", "weight": 0, "_depth": 0, "walk_depth": 0},
            {"why": "b", "weight": 1, "_depth": "own", "walk_depth": 1},
        ]
        assert [hit.metadata["_similarity_score"] for hit in hits] == [hit.score for hit in hits]

    async def test_changing_metadata_of_a_node_changes_neither_hits_nor_edges(self):
        def iteration(self, nodes, tracker):
            for node in nodes:
                node.metadata.clear()
            tracker.select_and_traverse(nodes)

        _, hits = await walk_of(strategy_from(iteration))
        assert ids(hits) == "abcdef"
        assert hits[0].metadata["links"] == ["b", "c"]

    async def test_a_scope_applies_to_the_nodes_a_strategy_receives_and_returns(self):
        seen = []

        def iteration(self, nodes, tracker):
            seen.extend(node.id for node in nodes)
            tracker.select_and_traverse(nodes)

        light = {"weight": {"$lt": 4}}
        _, hits = await walk_of(strategy_from(iteration, scope=Scope.only(light)))
        assert ("".join(seen), ids(hits)) == ("abcd", "abcd")
        walk, hits = await walk_of(strategy_from(iteration, scope=Scope(keep={"weight": {"$gt": 0, "$lt": 4}})))
        assert (ids(hits), walk.summary.routed) == ("bcd", 3)


class TestReuse:
    STRATEGY = strategy_class(KeepsHeap)(edges=LINKS, start_k=2, select_k=4)

    async def test_successive_walks_are_equal_and_leave_the_strategy_unchanged(self):
        strategy, before = self.STRATEGY, copy.deepcopy(self.STRATEGY)
        first, again = [ids((await walk_of(strategy))[1]) for _ in range(2)]
        assert first == again == "bdfa"
        assert strategy == before
        assert (strategy.heap, strategy.query_embedding) == ([], None)

    async def test_concurrent_walks_equal_a_walk_alone(self):
        found = {}

        async def run(at, corpus):
            await anyio.lowlevel.checkpoint()
            found[at] = ids(await ranking_of(QUERY, corpus, self.STRATEGY))

        async with corpus_of(*LINE) as corpus, anyio.create_task_group() as group:
            for at in range(8):
                group.start_soon(run, at, corpus)
        assert found == dict.fromkeys(range(8), "bdfa")
        assert self.STRATEGY.heap == []

    async def test_walks_that_take_turns_equal_a_walk_alone(self):
        async with corpus_of(*LINE) as corpus:
            walks = [traverse(QUERY, corpus, policy=self.STRATEGY) for _ in range(3)]
            turns = [[(await anext(walk)).artifact_id for walk in walks] for _ in range(4)]
            for walk in walks:
                await walk.aclose()
        assert turns == [[id] * 3 for id in "bdfa"]


# --- what a strategy tells what to do --------------------------------------------------------------------------------


def node(id="a", depth=0):
    return Node(id, id, depth, 0.5, np.ones(2, np.float32))


class TestTracker:
    def test_num_remaining_counts_down_to_zero_and_no_further(self):
        tracker = NodeTracker(2, None)
        counts = [tracker.num_remaining]
        for id in "abc":
            tracker.select([node(id)])
            counts.append(tracker.num_remaining)
        assert counts == [2, 1, 0, 0]

    def test_without_select_k_num_remaining_never_reaches_zero(self):
        tracker = NodeTracker(None, None)
        tracker.select([node(str(at)) for at in range(100)])
        assert tracker.num_remaining > 10**9

    def test_select_keeps_the_order_and_writes_metadata(self):
        tracker = NodeTracker(5, None)
        tracker.select(node(id, depth) for depth, id in enumerate("ba"))
        assert [each.id for each in tracker.selected] == ["b", "a"]
        assert tracker.selected[1].extra_metadata == {"_depth": 1, "_similarity_score": 0.5}
        assert tracker.to_traverse == {}

    def test_traverse_accepts_each_node_once_per_walk_and_returns_their_number(self):
        tracker = NodeTracker(5, None)
        assert tracker.traverse(node(id) for id in "ab") == 2
        tracker.to_traverse.clear()
        assert tracker.traverse([node("b"), node("c"), node("c")]) == 1
        assert list(tracker.to_traverse) == ["c"]
        assert tracker.selected == []

    def test_traverse_refuses_nodes_at_the_depth_cap_until_they_are_found_nearer(self):
        tracker = NodeTracker(5, 2)
        assert tracker.traverse([node("a", 1), node("b", 2), node("c", 3)]) == 1
        assert tracker.traverse([node("b", 1)]) == 1

    def test_select_and_traverse_accepts_a_generator(self):
        tracker = NodeTracker(5, 1)
        assert tracker.select_and_traverse(iter([node("a"), node("b", 1)])) == 1
        assert [each.id for each in tracker.selected] == ["a", "b"]
        assert list(tracker.to_traverse) == ["a"]


class TestBuild:
    BASE = Eager(select_k=6, start_k=5, adjacent_k=9, max_depth=2)

    def test_without_options_it_returns_the_base(self):
        assert Strategy.build(self.BASE) == self.BASE

    def test_an_option_replaces_only_its_parameter(self):
        expected = Eager(select_k=7, start_k=5, adjacent_k=9, max_depth=2)
        assert Strategy.build(self.BASE, select_k=7) == Strategy.build(self.BASE, k=7) == expected

    @pytest.mark.parametrize("kind", [Eager, Scored, Mmr, strategy_class(Everything)])
    def test_an_option_may_be_the_default_value(self, kind):
        assert Strategy.build(kind(select_k=10), select_k=5).select_k == 5
        assert Strategy.build(kind(select_k=10), k=5).select_k == 5

    def test_another_strategy_replaces_the_base_and_receives_the_other_options(self):
        assert Strategy.build(self.BASE, strategy=Mmr(select_k=3)) == Mmr(select_k=3)
        assert Strategy.build(None, strategy=Mmr(), k=9, lambda_mult=0.2) == Mmr(select_k=9, lambda_mult=0.2)

    def test_another_strategy_is_applied_before_the_other_options(self):
        with pytest.raises(ValueError, match="strategy must come before the other options"):
            Strategy.build(self.BASE, k=7, strategy=Mmr())

    @pytest.mark.parametrize("strategy", [{"select_k": 7}, None, Eager, "eager", NodeTracker(1, 1)])
    def test_an_object_that_is_no_policy_is_refused(self, strategy):
        with pytest.raises(ArgumentError, match=r"strategy must be a policy such as Eager\(\), not"):
            Strategy.build(self.BASE, strategy=strategy)
        with pytest.raises(ValueError, match=r"strategy must be a policy such as Eager\(\), not"):
            Strategy.build(strategy)

    @pytest.mark.parametrize("options", [{"invalid": 4}, {"lambda_mult": 0.3}, {"per_iteration_limit": 2}])
    def test_an_unknown_option_is_a_type_error(self, options):
        with pytest.raises(TypeError, match=next(iter(options))):
            Strategy.build(self.BASE, **options)

    def test_an_invalid_value_is_refused(self):
        with pytest.raises(ArgumentError, match="select_k"):
            Strategy.build(self.BASE, k=-1)

    def test_the_base_stays_unchanged(self):
        base = strategy_class(KeepsHeap)(select_k=10)
        Strategy.build(base, select_k=7)
        assert base == strategy_class(KeepsHeap)(select_k=10)

    def test_a_strategy_without_iteration_cannot_be_created(self):
        with pytest.raises(TypeError, match="iteration"):
            Strategy()


# --- the exam --------------------------------------------------------------------------------------------------------


@dataclass(kw_only=True)
class OddFirst:
    """Expands all nodes and selects odd numbers at once.

    It selects waiting even numbers if there are no new nodes.
    """

    even: list = field(default_factory=list)

    def iteration(self, nodes, tracker):
        odd = [node for node in nodes if node.metadata["number"] % 2]
        self.even += [node for node in nodes if node.metadata["number"] % 2 == 0]
        tracker.select_and_traverse(odd or [self.even.pop() for _ in self.even[:2]])

    def finalize_nodes(self, selected):
        return sorted(selected, key=lambda node: node.similarity_score, reverse=True)


@dataclass(kw_only=True)
class OddRoutes:
    def iteration(self, nodes, tracker):
        tracker.select([node for node in nodes if node.metadata["number"] % 2 == 0])
        tracker.traverse(nodes)


EXAMINED = {
    "eager": lambda: strategy_class(Everything)(select_k=9, start_k=2, adjacent_k=3),
    "heap": lambda: strategy_class(OddFirst)(select_k=None, start_k=3, edges=[("number", "number"), ("tags", "tags")]),
    "heap-links": lambda: strategy_class(OddFirst)(select_k=10, start_k=2, direction="both", roots=["03", "09"]),
    "routers": lambda: strategy_class(OddRoutes)(select_k=None, start_k=2, max_depth=4),
}
NOT_FROZEN = "a_policy_is_a_frozen_value_that_equals_and_prints_like_its_copy"
SUITES = {name: PolicySuite(make, ring, RING_QUERY) for name, make in EXAMINED.items()}


@pytest.mark.parametrize(
    ("suite", "case"),
    [
        pytest.param(suite, case, id=f"{name}-{case}", marks=() if name == "heap" else pytest.mark.slow)
        for name, suite in SUITES.items()
        for case in suite.cases
        if case.name != NOT_FROZEN
    ],
)
async def test_a_strategy_passes_the_exam_except_for_being_frozen(suite, case):
    await suite.check(case)


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.parametrize("name", EXAMINED)
async def test_a_strategy_passes_the_exam_over_a_file(name, tmp_path):
    path = tmp_path / "ring.airw"
    async with ring(path):
        pass
    report = await PolicySuite(EXAMINED[name], lambda: open_corpus(path), RING_QUERY).run()
    assert [outcome.name for outcome in report.failed] == [NOT_FROZEN], str(report)
