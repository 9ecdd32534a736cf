"""Lazy neighbours: the walk is the same, and those that are only counted are not made."""

import time

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.errors import PolicyError
from airw.traversal import traverse
from airw.values import Edge, Limits, SearchHit
from airw.walking import LazyNeighbors, Policy
from tests.support.drawing import examples


class Net(Policy):
    """A graph in a dict of edges by id.

    A node is an id with the edge to it; `offer` is the form in which neighbours are returned.
    """

    def __init__(self, graph, offer, **replaced):
        self.graph, self.offer, self.made = graph, offer, []
        for name, value in replaced.items():
            setattr(self, name, value)

    async def seed(self, state, store):
        return [(0, None)]

    async def score(self, state, nodes, store):
        return [-id % 5 for id, _ in nodes]

    async def expand(self, state, committed, store):
        return [self.offer(self, entry.id) for entry in committed]

    def nodes(self, id, part=slice(None)):
        ends = self.graph.get(id, [])[part]
        self.made += ends
        return [(end, Edge(str(id), str(end), "x")) for end in ends]

    def node_id(self, node):
        return node[0]

    def edge_of(self, node):
        return node[1]

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


def as_list(net, id):
    return net.nodes(id)


def as_lazy(net, id):
    return LazyNeighbors(net.graph.get(id, []), lambda part: net.nodes(id, part))


def as_iterator(net, id):
    return iter(net.nodes(id))


def as_either(net, id):
    return [as_list, as_lazy, as_iterator][id % 3](net, id)


graphs = st.dictionaries(st.integers(0, 12), st.lists(st.integers(0, 15), max_size=6), max_size=13)
limits = st.fixed_dictionaries(
    {},
    optional={
        "max_fanout": st.integers(0, 4),
        "max_edges": st.integers(0, 20),
        "max_frontier": st.integers(1, 6),
        "max_hits": st.integers(0, 6),
    },
)
bounds = st.fixed_dictionaries(
    {
        "limits": limits.map(lambda given: Limits(**given)),
        "max_depth": st.none() | st.integers(0, 3),
        "node_budget": st.integers(0, 12),
    }
)
kinds = st.fixed_dictionaries({"keeps_frontier": st.booleans(), "scores_paths": st.booleans()})


async def events_of(policy, **options):
    walk = traverse("", None, policy=policy, **options)
    events = [event async for event in walk.events()]
    return events[:-1], {**walk.summary.to_dict(), "seconds": 0}


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(graphs, bounds, kinds)
@settings(max_examples=examples(100))
def test_a_walk_is_the_same_for_every_form_of_neighbours(backend, graph, options, kind):
    async def main():
        expected = await events_of(Net(graph, as_list, **kind), **options)
        assert await events_of(Net(graph, as_lazy, **kind), **options) == expected
        mixed, summary = await events_of(Net(graph, as_either, **kind), **options)
        assert mixed == expected[0]
        if not summary["at_least"]:
            assert summary == expected[1]

    anyio.run(main, backend=backend)


async def test_neighbours_beyond_the_limits_are_counted_and_not_made():
    net = Net({0: [1, 2], 1: [3, 4], 2: [4, 0, 5]}, as_lazy)
    _, summary = await events_of(net, max_depth=1, limits=Limits(count_beyond_limits=True))
    assert summary["left_out"] == {"max_depth": 3}
    assert net.made == [1, 2]


@pytest.mark.parametrize("offer", [as_list, as_lazy, as_either])
async def test_a_neighbour_that_two_limits_exclude_is_counted_for_each(offer):
    """The second seed spends the budget.

    The child of the first seed, at the depth cap, is committed before the second seed.
    """

    async def seed(state, store):
        return [(0, None), (9, None)]

    def select(state, frontier):
        return [min(frontier.live.tolist(), key=lambda at: frontier.ids[at])]

    net = Net({0: [1], 1: [5], 9: [6, 7]}, offer, seed=seed, select=select, keeps_frontier=True)
    _, summary = await events_of(net, max_depth=1, node_budget=3, limits=Limits(count_beyond_limits=True))
    assert summary["left_out"] == {"max_depth": 1, "node_budget": 2}


@pytest.mark.parametrize("limits", [{"max_fanout": 2}, {"max_edges": 2}])
async def test_a_neighbour_that_a_limit_excludes_is_not_made(limits):
    net = Net({0: [1, 2, 3, 4]}, as_lazy)
    _, summary = await events_of(net, limits=Limits(**limits))
    assert summary["left_out"] == dict.fromkeys(limits, 2)
    assert net.made == [1, 2]


@pytest.mark.parametrize("ends", [[0, 1, 2, 4], [1, 2, 3, 5, 1, 2, 3, 1, 2, 6]])
@pytest.mark.parametrize("kind", [{}, {"keeps_frontier": True}])
async def test_a_neighbour_that_the_walk_has_reached_is_not_made_unless_others_are_around(ends, kind):
    net = Net({0: [1, 2, 3], 1: ends, 2: [1, 2, 3]}, as_lazy, **kind)
    hits = [hit.artifact_id async for hit in traverse("", None, policy=net, max_depth=2)]
    assert sorted(hits) == sorted({str(id) for id in [0, 1, 2, 3, *ends]})
    *_, last = net.made[3:]
    assert last == max(ends)  # and nothing for the links of 2, all of which were known
    assert len(net.made) <= 3 + len(ends)


def lie(part):
    return [(1, None)]


def fail(part):
    raise LookupError("mine")


def stray(part):
    raise StopIteration


@pytest.mark.parametrize("limits", [{}, {"max_fanout": 2}])
@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lie, PolicyError, r"make returned 1 nodes; return one node per id \([23]\)"),
        (fail, LookupError, "mine"),
        (stray, PolicyError, "Net.expand raised StopIteration"),
    ],
)
async def test_an_error_while_a_neighbour_is_made_names_the_stage_and_the_node(make, kind, message, limits):
    net = Net({}, lambda *_: LazyNeighbors([1, 2, 3], make))
    with pytest.raises(kind, match=message) as caught:
        await events_of(net, limits=Limits(**limits))
    said = "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    assert "Net.expand" in said
    if make is not stray:
        assert "for node (0, None)" in said


async def test_unhashable_ids_are_an_error():
    net = Net({}, lambda *_: LazyNeighbors([[1]], lambda part: [(1, None)][part]))
    with pytest.raises(PolicyError, match=r"node_id returned \[1\] .*; return something hashable"):
        await events_of(net, max_depth=0, limits=Limits(count_beyond_limits=True))


@pytest.mark.parametrize("offer", [as_list, as_lazy, as_iterator])
async def test_other_tasks_run_while_very_many_neighbours_become_known(offer):
    turns, seen = 0, []

    async def take_turns():
        nonlocal turns
        while True:
            turns += 1
            await anyio.lowlevel.checkpoint()

    class Slow(int):
        """An id of which every thousandth is looked up as long as a checkpoint waits for."""

        is_new = True

        def __hash__(self):
            if self % 1_000 == 1 and self.is_new:
                self.is_new = False
                time.sleep(0.006)
                seen.append(turns)
            return hash(int(self))

    net = Net({0: [*map(Slow, range(1, 20_001))]}, offer)
    many = dict.fromkeys(["max_fanout", "max_edges", "max_frontier"], 30_000)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take_turns)
        await events_of(net, node_budget=2, limits=Limits(**many))
        tasks.cancel_scope.cancel()
    at_first = seen[:20]
    assert max(map(at_first.count, at_first)) <= 5
    assert len({*at_first}) >= 4


def test_lazy_neighbours_are_a_sequence():
    neighbors = LazyNeighbors("abc", lambda part: list("ABC"[part]))
    assert (len(neighbors), list(neighbors), neighbors[1:], neighbors[:0]) == (3, ["A", "B", "C"], ["B", "C"], [])


@pytest.mark.parametrize(("places", "made"), [([], ""), ([1, 2, 4], "bcde"), ([0, 9, 25], "ajz")])
def test_neighbours_far_from_each_other_are_made_alone(places, made):
    calls = []

    def make(part):
        calls.append(letters[part])
        return list(letters[part].upper())

    letters = "abcdefghijklmnopqrstuvwxyz"
    assert LazyNeighbors(letters, make).take(places) == [letters[place].upper() for place in places]
    assert "".join(calls) == made


def test_some_of_lazy_neighbours_are_lazy():
    picked = LazyNeighbors("abcdef", lambda part: list("ABCDEF"[part])).pick([1, 3, 4])
    assert (picked.ids, picked[1:], picked.take([0, 2])) == (["b", "d", "e"], ["D", "E"], ["B", "E"])
