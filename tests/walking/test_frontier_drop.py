"""`Frontier.drop`: a dropped entry leaves the frontier and may be discovered again."""

from itertools import count, cycle, repeat
from random import Random

import anyio
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import PolicyError
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from airw.walking import EdgeFound, Policy
from tests.support.drawing import examples


class Dropping(Policy):
    """Walks a graph of letters; `decide(ids)` returns the waiting ids to commit and to drop.

    `seen` records the frontier at each step, `state` is the last state.
    """

    max_depth = None

    def __init__(self, edges, decide, *, seeds="a", keeps=True, paths=False):
        self.edges, self.decide, self.seeds = edges, decide, seeds
        self.keeps_frontier, self.scores_paths = keeps, paths
        self.seen, self.scored, self.state = [], [], None

    async def seed(self, state, store):
        self.state = state
        return [*self.seeds]

    async def score(self, state, nodes, store):
        self.scored += nodes
        return [-ord(node) for node in nodes]

    def select(self, state, frontier):
        waiting = [frontier.ids[at] for at in frontier.live.tolist()]
        self.seen.append("".join(waiting))
        taken, dropped = self.decide(self.seen[-1])
        frontier.drop(self.positions(frontier, dropped))
        return self.positions(frontier, taken)

    def positions(self, frontier, names):
        return [at for name in names for at in frontier.live.tolist() if frontier.ids[at] == name]

    async def expand(self, state, committed, store):
        return [[*self.edges.get(entry.id, "")] for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [SearchHit(entry.id, "document", entry.score, entry.id) for entry in committed]


async def walk_paths(policy, **options):
    """Return the paths of the hits, and the summary."""
    async with traverse("", None, policy=policy, **options) as walk:
        hits = [hit async for hit in walk]
    return ["".join(walk.path(hit)) for hit in hits], walk.summary


def first(waiting):
    """Commit the first, drop nothing."""
    return waiting[0], ""


def first_alone(waiting):
    """Commit the first, drop the others."""
    return waiting[0], waiting[1:]


class TestWaiting:
    async def test_a_dropped_entry_leaves_the_frontier(self):
        policy = Dropping({"a": "bcd", "b": "e"}, lambda ids: (ids[0], "c"))
        found, summary = await walk_paths(policy)
        assert policy.seen == ["a", "bcd", "de", "e"]
        assert found == ["a", "ab", "ad", "abe"]
        assert (summary.stop, summary.left_out) == ("exhausted", {})

    async def test_dropping_nothing_changes_nothing(self):
        policy = Dropping({"a": "bcd"}, first)
        await walk_paths(policy)
        assert policy.seen == ["a", "bcd", "cd", "d"]

    async def test_a_dropped_entry_counts_as_not_visited(self):
        policy = Dropping({"a": "bc"}, first_alone)
        await walk_paths(policy)
        assert (policy.state.depth_of("b"), policy.state.parent_of("b")) == (1, "a")
        assert (policy.state.depth_of("c"), policy.state.parent_of("c")) == (None, None)

    async def test_a_dropped_entry_that_is_found_again_is_a_new_discovery(self):
        policy = Dropping({"a": "bc", "b": "d", "d": "c", "c": "e"}, first_alone)
        found, summary = await walk_paths(policy)
        assert policy.seen == ["a", "bc", "d", "c", "e"]
        assert policy.scored == [*"abcdce"]
        assert found == ["a", "ab", "abd", "abdc", "abdce"]
        assert summary.stop == "exhausted"

    async def test_a_dropped_entry_that_is_found_again_has_its_new_depth_and_parent(self):
        """First f is two steps away, behind b; then one step, behind z."""
        edges = {"a": "b", "b": "df", "z": "f"}
        policy = Dropping(edges, lambda ids: (min(ids), "f" if ids == "zdf" else ""), seeds="az")
        found, _ = await walk_paths(policy)
        assert policy.seen == ["az", "zb", "zdf", "z", "f"]
        assert found == ["a", "ab", "abd", "z", "zf"]
        assert (policy.state.depth_of("f"), policy.state.parent_of("f")) == (1, "z")

    async def test_an_entry_that_is_dropped_at_every_discovery_does_not_prolong_a_walk(self):
        policy = Dropping({"a": "bc", "b": "ac", "c": "ab"}, lambda ids: (ids.replace("c", "")[:1], "c"))
        found, summary = await walk_paths(policy, node_budget=1_000)
        assert (found, summary.stop) == (["a", "ab"], "exhausted")

    async def test_a_committed_node_that_is_found_again_is_not_entered(self):
        policy = Dropping({"a": "bc", "b": "ac", "c": "ab"}, first_alone)
        found, _ = await walk_paths(policy)
        assert found == ["a", "ab", "abc"]
        assert policy.scored == [*"abcc"]

    async def test_an_entry_both_selected_and_dropped_is_committed(self):
        policy = Dropping({"a": "bcd"}, lambda ids: (ids[0], ids))
        assert (await walk_paths(policy))[0] == ["a", "ab"]
        assert policy.seen == ["a", "bcd"]

    async def test_an_entry_selected_beyond_the_budget_and_dropped_counts_as_selected(self):
        found, summary = await walk_paths(Dropping({"a": "bcd"}, lambda ids: (ids[:2], ids)), node_budget=2)
        assert found == ["a", "ab"]
        assert summary.left_out == {"node_budget": 1}

    async def test_all_entries_may_be_dropped_without_selecting_any(self):
        found, summary = await walk_paths(Dropping({"a": "bcd"}, lambda ids: ("a", "") if ids == "a" else ("", ids)))
        assert (found, summary.stop, summary.left_out) == (["a"], "exhausted", {})

    async def test_a_walk_that_selects_nothing_while_entries_wait_is_sufficient(self):
        _, summary = await walk_paths(Dropping({"a": "bcd"}, lambda ids: ("a", "") if ids == "a" else ("", "bd")))
        assert (summary.stop, summary.steps) == ("sufficient", 1)

    async def test_seeds_may_be_dropped(self):
        policy = Dropping({"a": "b"}, lambda ids: ("", ids), seeds="abc")
        found, summary = await walk_paths(policy)
        assert (found, summary.stop, summary.steps, policy.seen) == ([], "exhausted", 0, ["abc"])


class TestCounts:
    async def test_dropped_entries_do_not_count_as_left_out_by_the_budget(self):
        for decide, left in ((first, 3), (first_alone, 0), (lambda ids: (ids[0], "c"), 2)):
            _, summary = await walk_paths(Dropping({"a": "bcde"}, decide), node_budget=2)
            assert summary.stop == "node_budget"
            assert summary.left_out.get("node_budget", 0) == left

    async def test_a_dropped_entry_makes_room_in_the_frontier(self):
        edges = {"a": "bcd", "b": "efg"}
        policy = Dropping(edges, lambda ids: (ids[0], ""))
        _, summary = await walk_paths(policy, limits=Limits(max_frontier=3))
        assert policy.seen == ["a", "bcd", "cde", "de", "e"]
        assert summary.left_out == {"max_frontier": 2}
        policy = Dropping(edges, lambda ids: (ids[0], "d"))
        _, summary = await walk_paths(policy, limits=Limits(max_frontier=3))
        assert policy.seen == ["a", "bcd", "cef", "ef", "f"]
        assert summary.left_out == {"max_frontier": 1}

    async def test_beyond_the_depth_cap_a_dropped_entry_counts_as_not_visited(self):
        """The count beyond the limits finds c, which is dropped, and d."""
        edges = {"a": "bc", "b": "cd"}
        for decide, left in ((first_alone, 2), (lambda ids: (ids, ""), 1)):
            _, summary = await walk_paths(Dropping(edges, decide), max_depth=1, limits=Limits(count_beyond_limits=True))
            assert (summary.stop, summary.left_out) == ("exhausted", {"max_depth": left})

    async def test_events_mark_an_entry_as_known_only_while_it_waits(self):
        for decide, known in ((first, True), (first_alone, False)):
            walk = traverse("", None, policy=Dropping({"a": "bc", "b": "c"}, decide))
            edges = [event async for event in walk.events() if isinstance(event, EdgeFound)]
            assert [(edge.source, edge.target, edge.known) for edge in edges] == [
                ("a", "b", False), ("a", "c", False), ("b", "c", known),
            ]  # fmt: skip


class TestWithoutKeeping:
    """Unselected entries are dropped at the next step anyway; until then they wait."""

    async def test_dropping_unselected_entries_does_not_change_the_walk(self):
        edges = {"a": "bcd", "b": "ce", "c": "f"}
        told = [await walk_paths(Dropping(edges, decide, keeps=False)) for decide in (first, first_alone)]
        assert told[0][0] == told[1][0] == ["a", "ab", "abc", "abcf"]

    async def test_a_walk_that_selects_nothing_is_exhausted_if_all_was_dropped(self):
        for dropped, stop in (("bc", "exhausted"), ("b", "sufficient"), ("", "sufficient")):
            decide = lambda ids, dropped=dropped: ("a", "") if ids == "a" else ("", dropped)  # noqa: E731 (one line)
            _, summary = await walk_paths(Dropping({"a": "bc"}, decide, keeps=False))
            assert summary.stop == stop

    async def test_an_entry_both_selected_and_dropped_is_committed(self):
        policy = Dropping({"a": "bcd"}, lambda ids: (ids[:2], ids), keeps=False)
        assert (await walk_paths(policy))[0] == ["a", "ab", "ac"]

    async def test_only_selected_entries_count_as_left_out_by_the_budget(self):
        policy = Dropping({"a": "bcde"}, lambda ids: (ids[:3], ids[3:]), keeps=False)
        _, summary = await walk_paths(policy, node_budget=2)
        assert summary.left_out == {"node_budget": 2}


class TestPaths:
    """If every path to an id is an entry of its own, each is dropped by itself."""

    EDGES = {"a": "bc", "b": "d", "c": "de"}  # noqa: RUF012 - never changed

    def policy(self, taken, dropped, **options):
        """Commit and drop entries by their numbers: a 0, b 1, c 2, d by b 3, d by c 4, e 5."""

        class Numbered(Dropping):
            def select(self, state, frontier):
                self.seen.append(frontier.live.tolist())
                step = len(self.seen) - 1
                frontier.drop(dropped[step] if step < len(dropped) else [])
                return taken[step] if step < len(taken) else []

        return Numbered(self.EDGES, None, paths=True, **options)

    async def test_the_other_path_still_waits(self):
        policy = self.policy([[0], [1, 2], [4]], [[], [], [3]])
        found, summary = await walk_paths(policy)
        assert policy.seen == [[0], [1, 2], [3, 4, 5], [5]]
        assert found == ["a", "ab", "ac", "acd"]
        assert summary.stop == "sufficient"

    async def test_a_path_may_be_dropped_while_another_path_to_the_same_id_is_selected(self):
        policy = self.policy([[0], [1, 2], [3]], [[], [], [4, 5]])
        found, summary = await walk_paths(policy)
        assert found == ["a", "ab", "ac", "abd"]
        assert (summary.stop, summary.left_out) == ("exhausted", {})

    async def test_an_id_whose_paths_are_all_dropped_may_be_discovered_again(self):
        self_again = {"a": "bc", "b": "d", "c": "de", "e": "d"}
        policy = self.policy([[0], [1, 2], [5], [6]], [[], [], [4, 3], []])
        policy.edges = self_again
        found, _ = await walk_paths(policy)
        assert policy.seen == [[0], [1, 2], [3, 4, 5], [6]]
        assert found[-1] == "aced"

    async def test_each_path_counts_while_it_waits_and_not_once_dropped(self):
        for dropped, left in (([], 3), ([3], 2), ([3, 4], 1), ([3, 4, 5], 0)):
            policy = self.policy([[0], [1], [2]], [[], [], dropped])
            policy.edges = {"a": "bc", "b": "ded", "c": ""}
            _, summary = await walk_paths(policy, node_budget=3)
            assert summary.left_out.get("node_budget", 0) == left

    async def test_without_keeping_paths_are_dropped_one_by_one_within_a_step(self):
        policy = self.policy([[0], [1, 2], []], [[], [], [3, 4, 5]], keeps=False)
        assert (await walk_paths(policy))[1].stop == "exhausted"
        policy = self.policy([[0], [1, 2], []], [[], [], [3, 5]], keeps=False)
        assert (await walk_paths(policy))[1].stop == "sufficient"


class TestPositions:
    class Raw(Dropping):
        """Drops the given positions at its second step, when 1, 2 and 3 wait and 0 is committed."""

        def __init__(self, dropped, **options):
            super().__init__({"a": "bcd"}, None, **options)
            self.dropped = dropped

        def select(self, state, frontier):
            self.seen.append(frontier.live.tolist())
            if len(self.seen) == 2:
                frontier.drop(self.dropped)
            return frontier.live[:1]

    @pytest.mark.parametrize("keeps", [False, True])
    @pytest.mark.parametrize("position", [0, -1, 4, 10**9, np.int64(0)])
    async def test_an_empty_frontier_has_nothing_to_drop(self, position, keeps):
        with pytest.raises(PolicyError, match=f"position {position}, where no node waits"):
            await walk_paths(self.Raw([2, position], keeps=keeps))

    @pytest.mark.parametrize("position", [None, 1.0, "1", True, [1]])
    async def test_dropping_a_value_that_is_no_position_is_an_error(self, position):
        with pytest.raises(PolicyError, match="as a position; positions are whole numbers"):
            await walk_paths(self.Raw([position]))

    async def test_dropping_an_entry_twice_is_an_error(self):
        class Again(Dropping):
            def select(self, state, frontier):
                frontier.drop([2] if len(state.visited) in (1, 2) else [])
                return frontier.live[:1]

        with pytest.raises(PolicyError, match="position 2, where no node waits"):
            await walk_paths(Again({"a": "bcd"}, None))

    @pytest.mark.parametrize(
        "made", [list, tuple, iter, np.array, dict.fromkeys, lambda at: [*at, *at], lambda at: map(np.int32, at)]
    )
    async def test_drop_accepts_any_iterable_of_whole_numbers_with_repeats(self, made):
        policy = self.Raw(made([3, 2]))
        await walk_paths(policy)
        assert policy.seen == [[0], [1, 2, 3]]

    @pytest.mark.parametrize("keeps", [False, True])
    @pytest.mark.parametrize(
        ("endless", "seen"), [(lambda: repeat(3), [[0], [1, 2, 3], [2]]), (lambda: cycle([2, 3]), [[0], [1, 2, 3]])]
    )
    async def test_an_endless_iterable_of_positions_is_read_only_as_far_as_nodes_wait(self, endless, seen, keeps):
        policy = self.Raw(endless(), keeps=keeps)
        with anyio.fail_after(30):
            await walk_paths(policy)
        assert policy.seen == (seen if keeps else seen[:2])

    @pytest.mark.parametrize("keeps", [False, True])
    async def test_a_huge_range_is_read_only_as_far_as_nodes_wait(self, keeps):
        policy = self.Raw(range(1, 10**12), keeps=keeps)
        with anyio.fail_after(30):
            await walk_paths(policy)
        assert policy.seen == [[0], [1, 2, 3]]

    @pytest.mark.parametrize("keeps", [False, True])
    async def test_endless_numbers_that_are_no_positions_are_an_error(self, keeps):
        with anyio.fail_after(30), pytest.raises(PolicyError, match="position 0, where no node waits"):
            await walk_paths(self.Raw(count(), keeps=keeps))

    @pytest.mark.parametrize("dropped", [None, 3, "12", b"12", np.array(2)], ids=str)
    async def test_dropping_something_else_than_a_list_is_an_error(self, dropped):
        with pytest.raises(PolicyError, match=r"^frontier\.drop takes a list of positions, not"):
            await walk_paths(self.Raw(dropped))

    async def test_drop_may_be_called_several_times_and_while_the_selection_is_read(self):
        class Lazily(Dropping):
            async def select(self, state, frontier):
                self.seen.append(frontier.live.tolist())
                await anyio.lowlevel.checkpoint()
                return self.lazily(frontier)

            def lazily(self, frontier):
                for at in frontier.live.tolist()[1:]:
                    frontier.drop([at])
                yield frontier.live[0]

        policy = Lazily({"a": "bcd", "b": "e"}, None)
        assert (await walk_paths(policy))[0] == ["a", "ab", "abe"]
        assert policy.seen == [[0], [1, 2, 3], [4]]


# --- against a model -------------------------------------------------------------------------------------------------


def chooser(number):
    """Return a function that commits and drops at random; both may name the same entry."""
    chance = Random(number)

    def decide(waiting):
        return [*(chance.sample(waiting, chance.randint(0, len(waiting))) for _ in range(2))] if waiting else ("", "")

    return decide


def simulate(edges, seeds, decide, *, keeps, most):
    """Return the committed paths, the waiting ids at each step, and how many wait in the end."""
    waiting, committed, seen = {}, {}, []
    behind = [("", seed) for seed in seeds]
    while True:
        for path, name in behind:
            longer = path + name
            if name not in committed and (name not in waiting or (keeps and len(longer) < len(waiting[name]))):
                waiting[name] = longer
        seen.append([*waiting])
        if not waiting:
            return [*committed.values()], seen[:-1], 0
        taken, dropped = decide([*waiting])
        step = {name: waiting.pop(name) for name in taken}
        waiting = {name: path for name, path in waiting.items() if name not in dropped}
        left = len(waiting)
        committed |= step
        if not step or len(committed) >= most:
            return [*committed.values()], seen, left
        waiting = waiting if keeps else {}
        behind = [(path, name) for path in step.values() for name in edges[path[-1]]]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("keeps", [False, True])
@given(st.integers(0, 2**32), st.integers(0, 2**32))
@settings(max_examples=examples(150))
def test_walks_are_those_of_a_simple_model(keeps, backend, graph, choices):
    chance, names = Random(graph), "abcdefghij"
    edges = {name: chance.choices(names, k=chance.randint(0, 5)) for name in names}
    seeds = chance.choices(names, k=3)
    expected, seen, left = simulate(edges, seeds, chooser(choices), keeps=keeps, most=len(names))
    decide = chooser(choices)
    policy = Dropping(edges, lambda ids: decide([*ids]), seeds=seeds, keeps=keeps)
    found, summary = anyio.run(lambda: walk_paths(policy), backend=backend)
    assert found == expected
    assert policy.seen == ["".join(step) for step in seen]
    assert summary.stop == ("sufficient" if left else "exhausted")
    assert summary.left_out == {}
