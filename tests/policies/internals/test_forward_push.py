"""Forward push: exact in the end, and bounded before, compared with a linear solve."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.policies._forward_push import ROUNDING, Bounds, ForwardPush, has_final_rank, is_among_first
from tests.support.drawing import examples
from tests.support.pagerank_truth import CLOSE, RESTARTS, exact, exact_from_each, graphs


@st.composite
def some_seeds(draw, graph):
    picked = draw(st.lists(st.sampled_from(sorted(graph)), unique=True, min_size=1, max_size=3))
    return {node: draw(st.sampled_from([1.0, 0.05, 3.0])) for node in picked}


class Exploring:
    """A push over a graph in memory, by name."""

    def __init__(self, graph, seeds, restart):
        self.graph, self.book = graph, {node: at for at, node in enumerate(seeds)}
        self.push, self.explored = ForwardPush.start(list(seeds.values()), restart), set()

    def explore(self, names):
        for name in names:
            assert name not in self.explored
        self.explored.update(names)
        found = [[self.book.setdefault(end, len(self.book)) for end in self.graph[name]] for name in names]
        self.push = self.push.explore([self.book[name] for name in names], found, len(self.book)).push_roughly()

    def waiting(self):
        return [name for name in self.book if name not in self.explored]

    def by_name(self, column):
        return {name: float(column[at]) for name, at in self.book.items()}


@st.composite
def explorings(draw, *, loops=True):
    """Draw pushes over a part of a graph, in any order and with any number of nodes per step."""
    graph = draw(graphs(loops=loops))
    seeds, restart = draw(some_seeds(graph)), draw(RESTARTS)
    exploring = Exploring(graph, seeds, restart)
    for width in draw(st.lists(st.integers(1, 3), max_size=6)):
        waiting = exploring.waiting()
        if waiting:
            exploring.explore(draw(st.permutations(waiting))[:width])
    return exploring, seeds, restart


class TestPush:
    @given(explorings())
    def test_settled_and_residual_mass_add_up_to_the_exact_values(self, drawn):
        exploring, seeds, restart = drawn
        nodes, from_each = list(exploring.graph), exact_from_each(exploring.graph, seeds, restart)
        for push in (exploring.push, exploring.push.push_fully()):
            estimate, residual = exploring.by_name(push.estimate), exploring.by_name(push.residual)
            found = np.array([estimate.get(node, 0) for node in nodes])
            left = np.array([residual.get(node, 0) for node in nodes])
            assert found.sum() + left.sum() == pytest.approx(1, abs=CLOSE)
            assert left.min() >= 0
            assert found + left @ from_each == pytest.approx(
                list(exact(exploring.graph, seeds, restart).values()), abs=CLOSE
            )

    @settings(max_examples=examples(300))
    @given(st.booleans().flatmap(lambda loops: st.tuples(st.just(loops), explorings(loops=loops))))
    def test_exact_values_lie_within_the_bounds_and_below_the_bound_of_unseen_nodes(self, drawn):
        loops, (exploring, seeds, restart) = drawn
        values = exact(exploring.graph, seeds, restart)
        for push in (exploring.push, exploring.push.push_fully()):
            bounds = push.bounds(may_loop=loops)
            lower, upper = exploring.by_name(bounds.lower), exploring.by_name(bounds.upper)
            for node, value in values.items():
                assert lower.get(node, 0) - CLOSE <= value <= upper.get(node, bounds.unseen) + CLOSE

    @given(explorings())
    def test_after_a_full_push_explored_nodes_have_no_residual(self, drawn):
        push = drawn[0].push.push_fully()
        assert push.residual[push.explored].sum() < ROUNDING

    @given(graphs().flatmap(lambda graph: st.tuples(st.just(graph), some_seeds(graph))), RESTARTS)
    def test_it_is_exact_once_all_is_explored(self, drawn, restart):
        graph, seeds = drawn
        exploring = Exploring(graph, seeds, restart)
        while exploring.waiting():
            exploring.explore(exploring.waiting()[:2])
        values, found = exact(graph, seeds, restart), exploring.by_name(exploring.push.push_fully().estimate)
        assert {node: found.get(node, 0) for node in graph} == pytest.approx(values, abs=CLOSE)

    def test_upper_bounds_are_reached_by_the_worst_unexplored_graph(self):
        pair, restart = {"a": ["b"], "b": ["a"]}, 0.3
        alone, looped, both = {"a": []}, {"a": ["a"]}, {"a": [], "b": ["a"]}
        for graph, seeds, loops in [
            (alone, {"a": 1}, False),
            (looped, {"a": 1}, True),
            (both, {"a": 1, "b": 1}, False),
        ]:
            exploring = Exploring(graph, seeds, restart)
            upper = exploring.by_name(exploring.push.bounds(may_loop=loops).upper)
            assert upper["a"] == pytest.approx(exact(graph, seeds, restart)["a"])
        exploring, values = Exploring(pair, {"a": 1}, restart), exact(pair, {"a": 1}, restart)
        assert exploring.push.bounds(may_loop=False).unseen == pytest.approx(values["b"])
        exploring.explore(["a"])
        upper = exploring.by_name(exploring.push.push_fully().bounds(may_loop=False).upper)
        assert upper == pytest.approx({"a": values["a"], "b": values["b"]})

    def test_a_seed_that_may_turn_out_to_dangle_has_the_wider_bound(self):
        exploring = Exploring({"a": []}, {"a": 1}, 0.3)
        assert exploring.push.bounds(may_loop=False).upper == pytest.approx([1])
        exploring.explore(["a"])
        assert exploring.push.push_fully().bounds(may_loop=False).lower == pytest.approx([1])

    def test_exploring_changes_no_earlier_push(self):
        exploring = Exploring({"a": ["b"], "b": []}, {"a": 1}, 0.5)
        first = exploring.push
        exploring.explore(["a"])
        exploring.push.push_fully()
        assert (first.residual.tolist(), first.estimate.tolist(), first.targets.tolist()) == ([1], [0], [])

    def test_a_tiny_restart_ends_too_and_its_residual_is_in_the_bounds(self):
        graph = {"a": ["b"], "b": ["a", "c"], "c": ["a"]}
        exploring = Exploring(graph, {"a": 1}, 1e-6)
        exploring.explore(["a"])
        exploring.explore(["b"])
        exploring.explore(["c"])
        bounds, values = exploring.push.push_fully().bounds(may_loop=False), exact(graph, {"a": 1}, 1e-6)
        for node, at in exploring.book.items():
            assert bounds.lower[at] - CLOSE <= values[node] <= bounds.upper[at] + CLOSE


class TestFinal:
    def final_ranks(self, lower, upper, *, order, unseen=0.0, rivals=()):
        bounds = Bounds(np.array(lower), np.array(upper), unseen)
        is_rival = np.zeros(len(lower), np.bool_)
        is_rival[list(rivals)] = True
        return has_final_rank(bounds, np.array(order), is_rival).tolist()

    def test_a_rank_is_final_if_no_node_can_pass_it_in_either_direction(self):
        assert self.final_ranks([0.5, 0.2, 0.1], [0.6, 0.3, 0.2], order=[0, 1, 2]) == [True, True, True]
        assert self.final_ranks([0.5, 0.2, 0.1], [0.6, 0.3, 0.21], order=[0, 1, 2]) == [True, False, False]

    def test_a_rank_behind_a_node_that_may_fall_is_not_final(self):
        assert self.final_ranks([0.1, 0.3, 0.2], [0.6, 0.3, 0.2], order=[0, 1, 2]) == [False, False, False]

    def test_a_node_that_may_rise_from_far_behind_counts_too(self):
        assert self.final_ranks([0.5, 0.1, 0.05], [0.6, 0.15, 0.55], order=[0, 1, 2]) == [False, False, False]

    def test_rivals_and_unseen_nodes_may_come_between(self):
        assert self.final_ranks([0.5, 0.2, 0.0], [0.6, 0.3, 0.4], order=[0, 1], rivals=[2]) == [True, False]
        assert self.final_ranks([0.5, 0.2], [0.6, 0.3], order=[0, 1], unseen=0.4) == [True, False]

    def test_a_node_is_known_to_be_among_the_first_before_its_rank_is_final(self):
        bounds = Bounds(np.array([0.4, 0.3, 0.2]), np.array([0.5, 0.5, 0.3]), 0.25)
        is_rival = np.array([False, False, True])

        def first(count, order):
            return is_among_first(bounds, np.array(order), is_rival, count).tolist()

        assert first(1, [0, 1]) == [False, False]
        assert first(2, [0, 1]) == [True, True]
        assert first(0, [0, 1]) == [False, False]
        assert is_among_first(bounds, np.array([2]), np.array([True, True, False]), 3).tolist() == [False]  # the unseen

    def test_equals_are_final_in_any_order(self):
        assert self.final_ranks([0.5, 0.5], [0.5, 0.5], order=[1, 0], unseen=0.5) == [True, True]
