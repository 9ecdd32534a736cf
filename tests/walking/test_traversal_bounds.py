"""The bounds of a walk: limits and how the summary reports them, and the deadline."""

import gc
import math
from collections import Counter
from contextlib import nullcontext
from itertools import chain, count, repeat
from typing import ClassVar

import anyio
import pytest

from airw.errors import PolicyError
from airw.policies import per_node
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from airw.walking import Policy
from tests.support.virtual_time import on_virtual_clock
from tests.support.waiting import PATIENCE, skip_time


class Net(Policy):
    """A graph in a dict whose nodes are their ids; keywords replace methods and attributes."""

    def __init__(self, edges=None, seeds=(0,), routers=(), **replaced):
        self.edges, self.seeds, self.routers, self.expanded = edges or {}, seeds, routers, []
        for name, value in replaced.items():
            setattr(self, name, value)

    async def seed(self, state, store):
        return self.seeds

    async def score(self, state, nodes, store):
        return [0.0] * len(nodes)

    async def expand(self, state, committed, store):
        self.expanded.append([entry.id for entry in committed])
        return [self.edges.get(entry.id, ()) for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        return [None if entry.id in self.routers else hit_of(entry) for entry in committed]


def hit_of(entry):
    return SearchHit(str(entry.id), "node", entry.score, "")


def walk_of(policy, *, limits=None, **options):
    """Start a walk that counts beyond its limits."""
    limits = Limits(**{"count_beyond_limits": True, **(limits or {})})
    return traverse("query", None, policy=policy, limits=limits, **options)


async def ids_of(policy, **options):
    """Return the ids that a walk emits, and its summary."""
    walk = walk_of(policy, **options)
    ids = [int(hit.artifact_id) async for hit in walk]
    return ids, walk.summary


def outcome(summary):
    """Return why a walk ended and what was left out, with lower bounds and unknown counts.

    Check that `truncated` agrees.
    """
    assert summary.truncated == bool(summary.left_out or summary.at_least or summary.unknown)
    return summary.stop, summary.left_out, summary.at_least, summary.unknown


def iterate(items):
    yield from items


async def read_async(items):
    for item in items:
        await anyio.lowlevel.checkpoint()
        yield item


STAR = {0: [1, 2, 3, 4, 5]}
CHAIN = {n: [n + 1] for n in range(9)}


# What each limit left out.


@pytest.mark.parametrize(
    ("edges", "options", "stop", "left_out"),
    [
        (STAR, {}, "exhausted", {}),
        (STAR, {"node_budget": 6}, "node_budget", {}),
        (STAR, {"node_budget": 4}, "node_budget", {"node_budget": 2}),
        (STAR, {"node_budget": 1}, "node_budget", {"node_budget": 5}),
        (STAR, {"node_budget": 0}, "node_budget", {"node_budget": 1}),
        (CHAIN, {"node_budget": 3}, "node_budget", {"node_budget": 1}),
        (CHAIN, {"node_budget": 10}, "node_budget", {}),
        (CHAIN, {"max_depth": 3}, "exhausted", {"max_depth": 1}),
        (CHAIN, {"max_depth": 9}, "exhausted", {}),
        (STAR, {"max_depth": 0}, "exhausted", {"max_depth": 5}),
        (STAR, {"max_depth": 0, "node_budget": 1}, "node_budget", {"max_depth": 5}),
        ({0: [1, 2], 1: [3, 3, 0], 2: [3, 4]}, {"max_depth": 1}, "exhausted", {"max_depth": 2}),
        (STAR, {"limits": {"max_fanout": 5}}, "exhausted", {}),
        (STAR, {"limits": {"max_fanout": 3}}, "exhausted", {"max_fanout": 2}),
        (STAR, {"limits": {"max_fanout": 0}}, "exhausted", {"max_fanout": 5}),
        (STAR, {"limits": {"max_edges": 5}}, "exhausted", {}),
        (STAR, {"limits": {"max_edges": 2}}, "exhausted", {"max_edges": 3}),
        ({0: [1, 2], 1: [3, 4], 2: [5, 6]}, {"limits": {"max_edges": 5}}, "exhausted", {"max_edges": 1}),
        (STAR, {"limits": {"max_fanout": 4, "max_edges": 3}}, "exhausted", {"max_fanout": 1, "max_edges": 1}),
        (STAR, {"limits": {"max_frontier": 5}}, "exhausted", {}),
        (STAR, {"limits": {"max_frontier": 2}}, "exhausted", {"max_frontier": 3}),
        (STAR, {"limits": {"max_hits": 6}}, "max_hits", {}),
        (STAR, {"limits": {"max_hits": 3}}, "max_hits", {"max_hits": 3}),
        (STAR, {"limits": {"max_hits": 1}}, "max_hits", {"max_hits": 5}),
        (STAR, {"limits": {"max_hits": 0}}, "max_hits", {"max_hits": 1}),
        (CHAIN, {"limits": {"max_hits": 4}}, "max_hits", {"max_hits": 1}),
        (CHAIN, {"limits": {"max_hits": 10}}, "max_hits", {}),
        (CHAIN, {"limits": {"max_hits": 4}, "max_depth": 3}, "max_hits", {"max_depth": 1}),
    ],
    ids=str,
)
async def test_the_summary_counts_what_each_limit_left_out(edges, options, stop, left_out):
    """A limit reached exactly is not truncation."""
    _, summary = await ids_of(Net(edges), **options)
    assert outcome(summary) == (stop, left_out, (), ())


@pytest.mark.parametrize("read", [iterate, read_async], ids=["sync", "async"])
@pytest.mark.parametrize(
    ("limits", "left_out"),
    [
        ({"max_fanout": 5}, {}),
        ({"max_fanout": 4}, {"max_fanout": 1}),
        ({"max_fanout": 0}, {"max_fanout": 1}),
        ({"max_edges": 5}, {}),
        ({"max_edges": 2}, {"max_edges": 1}),
    ],
    ids=str,
)
async def test_without_a_length_the_count_is_a_lower_bound(read, limits, left_out):
    _, summary = await ids_of(Net({0: read(range(1, 6))}), limits=limits)
    assert outcome(summary) == ("exhausted", left_out, tuple(left_out), ())


@pytest.mark.parametrize(("cap", "left_out"), [(5, {}), (3, {"max_frontier": 2})])
async def test_seeds_are_read_up_to_max_frontier(cap, left_out):
    assert outcome((await ids_of(Net(seeds=range(5)), limits={"max_frontier": cap}))[1])[1:3] == (left_out, ())
    ids, summary = await ids_of(Net(seeds=iterate(range(5))), limits={"max_frontier": cap})
    assert ids == list(range(cap))
    assert summary.left_out == dict.fromkeys(left_out, 1)
    assert summary.at_least == tuple(left_out)


async def test_entries_known_first_stay_when_the_frontier_is_full():
    ids, _ = await ids_of(Net(STAR), limits={"max_frontier": 2})
    assert ids == [0, 1, 2]


async def test_all_waiting_entries_count_as_left_out_by_the_budget():
    policy = Net(STAR | {1: [6, 7]}, keeps_frontier=True, select=lambda state, frontier: frontier.best_first(1))
    ids, summary = await ids_of(policy, node_budget=3)
    assert ids == [0, 1, 2]
    assert outcome(summary) == ("node_budget", {"node_budget": 5}, (), ())


async def test_max_hits_at_the_end_of_a_step_counts_an_open_frontier_too():
    policy = Net(STAR, keeps_frontier=True, select=lambda state, frontier: frontier.best_first(1))
    _, summary = await ids_of(policy, limits={"max_hits": 2})
    assert outcome(summary) == ("max_hits", {"max_hits": 4}, (), ())


async def test_routers_do_not_count_as_hits_but_as_nodes():
    ids, summary = await ids_of(Net(STAR, routers=[0, 1, 3, 5]), limits={"max_hits": 2})
    assert ids == [2, 4]
    assert (outcome(summary), summary.routed) == (("max_hits", {}, (), ()), 4)


async def test_hits_held_back_in_a_long_step_are_a_lower_bound():
    _, summary = await ids_of(Net({0: range(1, 900)}), limits={"max_hits": 10}, node_budget=1000)
    assert outcome(summary) == ("max_hits", {"max_hits": 503}, ("max_hits",), ())


async def test_max_hits_in_a_step_that_the_budget_cut_is_a_lower_bound():
    _, summary = await ids_of(Net(STAR), limits={"max_hits": 2}, node_budget=4)
    assert outcome(summary) == ("max_hits", {"max_hits": 2}, ("max_hits",), ())


async def test_a_budget_and_max_hits_reached_in_one_step_are_both_reported():
    _, summary = await ids_of(Net(STAR), limits={"max_hits": 4}, node_budget=4)
    assert summary.stop == "max_hits"
    assert summary.left_out["node_budget"] == 2


@pytest.mark.parametrize(
    ("options", "stop", "unknown"),
    [
        ({"max_depth": 3}, "exhausted", ("max_depth",)),
        ({"node_budget": 3}, "node_budget", ("node_budget",)),
        ({"node_budget": 4, "max_depth": 3}, "node_budget", ("max_depth",)),
        ({"max_depth": 30}, "exhausted", ()),
    ],
    ids=str,
)
async def test_by_default_limits_are_not_looked_behind_and_named_as_unknown(options, stop, unknown):
    policy = Net(CHAIN)
    walk = traverse("query", None, policy=policy, **options)
    ids = [int(hit.artifact_id) async for hit in walk]
    assert outcome(walk.summary) == (stop, {}, (), unknown)
    assert walk.summary.truncated is bool(unknown)
    assert list(chain(*policy.expanded)) == (ids[:-1] if unknown else ids)


async def test_the_count_beyond_the_limits_is_one_call_after_the_last_hit():
    policy = Net({0: [1, 2], 1: [3, 4], 2: [4, 5]})
    walk = walk_of(policy, max_depth=1)
    assert [hit.artifact_id async for hit in walk] == ["0", "1", "2"]
    assert policy.expanded == [[0], [1, 2]]
    assert walk.summary.edges == 2, "what was only looked at is not counted as read"


async def test_the_count_beyond_the_limits_obeys_the_same_caps():
    ids, summary = await ids_of(Net({0: count(1)}), max_depth=0, limits={"max_fanout": 7})
    assert ids == [0]
    assert outcome(summary) == ("exhausted", {"max_depth": 7}, ("max_depth",), ())


@pytest.mark.parametrize("end", ["sufficient", "closed", "failed"])
async def test_nothing_is_counted_beyond_the_limits_of_a_walk_that_did_not_end_there(end):
    def stop(state):
        if end == "failed":
            raise OSError
        return end == "sufficient"

    policy = Net(STAR, stop=stop)
    walk = walk_of(policy, max_depth=0)
    await anext(walk)
    if end == "closed":
        await walk.aclose()
    try:
        await anext(walk, None)
    except OSError:
        assert end == "failed"
    assert outcome(walk.summary) == (end, {}, (), ("max_depth",) if end == "sufficient" else ())
    assert policy.expanded == []


@pytest.mark.parametrize(
    ("hits", "max_depth", "unknown"),
    [(1, 0, ("max_depth",)), (1, 1, ()), (3, 1, ("max_depth",)), (3, 2, ()), (3, None, ())],
)
async def test_a_walk_that_had_enough_names_the_depth_cap_that_nodes_are_at(hits, max_depth, unknown):
    _, summary = await ids_of(Net(STAR, stop=lambda state: len(state.results) == hits), max_depth=max_depth)
    assert outcome(summary) == ("sufficient", {}, (), unknown)


async def test_a_walk_that_declines_the_rest_names_the_depth_cap_too():
    policy = Net(STAR, keeps_frontier=True, select=lambda state, frontier: frontier.fresh[:2])
    for max_depth, unknown in ((1, ("max_depth",)), (2, ())):
        ids, summary = await ids_of(policy, max_depth=max_depth)
        assert (ids, outcome(summary)) == ([0, 1, 2], ("sufficient", {}, (), unknown))


@pytest.mark.parametrize("scores_paths", [False, True])
async def test_nodes_that_a_policy_did_not_select_do_not_wait_unless_it_keeps_them(scores_paths):
    edges = {0: [1, 2, 2], 1: [2, 3]}
    for keeps, waiting, left_out in ((False, 0, {"node_budget": 2}), (True, 1 + scores_paths, {"node_budget": 1})):
        seen = []
        policy = Net(
            edges, keeps_frontier=keeps, scores_paths=scores_paths, select=lambda state, frontier: frontier.live[:1],
            stop=lambda state, seen=seen: seen.append(state.depth_of(2)) or False,
        )  # fmt: skip
        walk = walk_of(policy, node_budget=2)
        *_, step, _ = [event async for event in walk.events()]
        assert step.waiting == waiting
        assert seen[-1] == (1 if keeps else None)
        assert walk.summary.left_out == (left_out if not keeps else {"node_budget": waiting})


async def test_the_other_paths_to_a_committed_node_are_not_left_out():
    policy = Net(
        {0: [1, 1, 2]}, keeps_frontier=True, scores_paths=True, select=lambda state, frontier: frontier.live[:1]
    )
    _, summary = await ids_of(policy, node_budget=2)
    assert summary.left_out == {"node_budget": 1}


# The deadline.


async def test_a_deadline_of_zero_runs_nothing():
    async def seed(state, store):
        raise AssertionError

    ids, summary = await ids_of(Net(seed=seed), timeout=0)
    assert (ids, summary.stop, summary.truncated) == ([], "timeout", True)


@pytest.mark.parametrize("seconds", [None, math.inf, 60])
async def test_a_walk_within_its_deadline_runs_to_its_end(seconds):
    ids, summary = await ids_of(Net(CHAIN), timeout=seconds)
    assert (ids, summary.stop) == (list(range(10)), "exhausted")


@pytest.mark.parametrize("what", ["seed", "score", "select", "expand", "to_hits", "stop"])
@on_virtual_clock
async def test_the_deadline_interrupts_a_policy_that_sleeps(what):
    cleaned = []

    async def sleeps(*arguments):
        try:
            await anyio.sleep(60)
        finally:
            cleaned.append(what)

    ids, summary = await ids_of(Net(CHAIN, **{what: sleeps}), timeout=2)
    assert (ids, summary.stop) == ([0] if what in ("expand", "stop") else [], "timeout")
    assert summary.seconds == anyio.current_time() == 2
    assert cleaned == [what]


@on_virtual_clock
async def test_the_deadline_interrupts_an_async_iterable_of_neighbours():
    async def endless():
        while True:
            await anyio.sleep(0.005)
            yield -1

    ids, summary = await ids_of(Net({0: endless()}), timeout=0.02)
    assert (ids, summary.stop) == ([0], "timeout")


@on_virtual_clock
async def test_the_consumers_own_time_counts():
    walk = walk_of(Net(CHAIN), timeout=0.02)
    assert await anext(walk)
    await anyio.sleep(0.03)
    assert await anext(walk, None) is None
    assert walk.summary.stop == "timeout"


@on_virtual_clock
async def test_the_clock_starts_with_the_first_request():
    walk = walk_of(Net(CHAIN), timeout=0.05)
    await anyio.sleep(0.06)
    assert (await anext(walk)).artifact_id == "0"
    await walk.aclose()


async def in_place(state):
    return False


@pytest.mark.parametrize("stop", [lambda state: False, in_place], ids=["sync", "async that does not wait"])
@on_virtual_clock
async def test_a_completed_step_is_yielded_whole_even_when_the_deadline_passes(stop):
    walk = walk_of(Net({0: range(1, 300), 5: [1000]}, stop=stop), timeout=0.03, node_budget=1000)
    ids = []
    async for hit in walk:
        ids.append(int(hit.artifact_id))
        if len(ids) == 5:
            await anyio.sleep(0.05)
    assert ids == list(range(300))
    assert walk.summary.stop == "timeout"


@on_virtual_clock
async def test_a_stop_that_waits_past_the_deadline_ends_the_walk_without_a_warning():
    async def stop(state):
        await anyio.lowlevel.checkpoint()
        return False

    walk = walk_of(Net(STAR, stop=stop), timeout=0.02)
    assert [(await anext(walk)).artifact_id, (await anext(walk)).artifact_id] == ["0", "1"]
    await anyio.sleep(0.03)
    assert await anext(walk, None) is None
    assert walk.summary.stop == "timeout"
    gc.collect()


async def test_sync_code_cannot_be_interrupted_and_its_step_is_yielded():
    def select(state, frontier):
        skip_time(200)
        return frontier.live

    ids, summary = await ids_of(Net(CHAIN, select=select), timeout=100)
    assert (ids, summary.stop) == ([0], "timeout")


@on_virtual_clock
async def test_a_policy_that_swallows_its_cancellation_ends_once_it_returns():

    async def score(state, nodes, store):
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.03)
        return [0.0] * len(nodes)

    ids, summary = await ids_of(Net(CHAIN, score=score), timeout=0.02)
    assert summary.stop == "timeout"
    assert ids in ([], [0]), "it ends with this step or before the next"


@on_virtual_clock
async def test_a_deadline_during_the_count_beyond_the_limits_leaves_it_unknown():
    async def expand(state, committed, store):
        await anyio.sleep(60)

    ids, summary = await ids_of(Net(expand=expand), max_depth=0, timeout=0.02)
    assert ids == [0]
    assert outcome(summary) == ("exhausted", {}, (), ("max_depth",))


# Neighbours are read lazily and closed.


class Counted:
    """An async iterator that counts how many of its class are open."""

    open: ClassVar = Counter()

    def __init__(self, items, *, fails=False):
        self.items, self.fails = iter(items), fails

    def __aiter__(self):
        Counted.open["now"] += 1
        Counted.open["most"] = max(Counted.open["most"], Counted.open["now"])
        return self

    async def __anext__(self):
        await anyio.lowlevel.checkpoint()
        for item in self.items:
            return item
        if self.fails:
            raise OSError("gone")
        raise StopAsyncIteration

    async def aclose(self):
        await anyio.lowlevel.checkpoint()
        Counted.open["now"] -= 1


@pytest.fixture
def open_counts(monkeypatch):
    monkeypatch.setattr(Counted, "open", Counter())
    return Counted.open


async def test_async_neighbours_are_read_concurrently_in_request_order_and_closed(open_counts):
    edges = {0: list(range(1, 41))} | {n: Counted([n * 100, n * 100 + 1]) for n in range(1, 41)}
    walk = walk_of(Net(edges), node_budget=200, max_depth=2, limits={"max_concurrency": 8})
    ids = []
    async for hit in walk:
        ids.append(int(hit.artifact_id))
        assert open_counts["now"] == 0
    assert ids[41:] == [n for i in range(1, 41) for n in (i * 100, i * 100 + 1)]
    assert open_counts["most"] == 8


async def test_max_edges_is_charged_in_request_order_when_many_are_read_at_once(open_counts):
    edges = {0: [1, 2, 3, 4]} | {n: Counted(range(n * 100, n * 100 + 10)) for n in (1, 2, 3, 4)}
    ids, summary = await ids_of(Net(edges), max_depth=2, limits={"max_edges": 4 + 15, "count_beyond_limits": False})
    assert ids[5:] == [*range(100, 110), *range(200, 205)]
    assert summary.edges == 19
    assert (summary.left_out, summary.at_least) == ({"max_edges": 3}, ("max_edges",))
    assert open_counts["now"] == 0


@pytest.mark.parametrize("end", ["failure", "deadline", "cap", "close"])
@on_virtual_clock
async def test_async_neighbours_are_closed_for_every_end_of_a_step(open_counts, end):
    async def slow():
        await anyio.sleep(60)
        yield 1

    edges = {0: list(range(1, 9))} | {n: Counted(count(1000 * n)) for n in range(1, 7)}
    edges |= {7: Counted([], fails=end == "failure"), 8: slow() if end in ("deadline", "close") else ()}
    walk = walk_of(Net(edges), timeout=0.05 if end == "deadline" else None, max_depth=2, node_budget=10_000)
    with pytest.raises(OSError, match="gone") if end == "failure" else nullcontext() as caught:
        with anyio.move_on_after(0.05 if end == "close" else math.inf):
            async for _ in walk:
                pass
    assert caught is None or "for node 7" in caught.value.__notes__
    assert open_counts["most"] > 1
    assert open_counts["now"] == 0
    stops = {"failure": "failed", "deadline": "timeout", "cap": "exhausted", "close": "closed"}
    assert walk.summary.stop == stops[end]


@pytest.mark.parametrize("kind", ["generator", "async generator", "cursor"])
async def test_iterators_cut_off_by_a_cap_are_closed_within_the_step(kind):
    closed = []

    class Cursor:
        def __iter__(self):
            return self

        def __next__(self):
            return 1

        def close(self):
            closed.append(kind)

    def endless():
        try:
            yield from count(1)
        finally:
            closed.append(kind)

    async def endless_async():
        try:
            for n in count(1):
                yield n
        finally:
            await anyio.lowlevel.checkpoint()
            closed.append(kind)

    made = {"generator": endless, "async generator": endless_async, "cursor": Cursor}[kind]()
    walk = walk_of(Net({0: made}), limits={"max_fanout": 3})
    await anext(walk)
    await anext(walk)
    assert closed == [kind]
    await walk.aclose()


class Understated:
    """A collection whose length is less than its number of items."""

    def __len__(self):
        return 1

    def __iter__(self):
        return iter(range(1, 6))


async def test_a_collection_that_understates_its_length_leaves_no_negative_count():
    _, summary = await ids_of(Net({0: Understated()}))
    assert outcome(summary) == ("exhausted", {}, (), ())


# Harmful policies.


@pytest.mark.parametrize(
    "endless", [count, lambda: read_async(count()), lambda: repeat(7)], ids=["sync", "async", "one"]
)
async def test_infinite_seeds_end(endless):
    ids, summary = await ids_of(Net(seeds=endless()), node_budget=5, limits={"max_frontier": 5_000})
    assert len(ids) in (1, 5)
    assert "max_frontier" in summary.at_least


@pytest.mark.parametrize(
    "endless", [count, lambda n: read_async(count(n)), repeat], ids=["sync", "async", "one for ever"]
)
async def test_infinite_neighbours_end(endless):
    class Edges(dict):
        def get(self, id, default):
            return endless(id + 1)

    policy = Net()
    policy.edges = Edges()
    ids, summary = await ids_of(policy, max_depth=3, node_budget=200)
    assert len(ids) in (4, 200)
    assert "max_fanout" in summary.at_least


async def test_a_chain_of_fresh_ids_ends_at_the_budget():
    async def expand(state, committed, store):
        return [[object()] for _ in committed]

    walk = walk_of(Net(expand=expand), node_budget=50)
    assert len([hit async for hit in walk]) == 50


@pytest.mark.parametrize(
    "select",
    [
        lambda state, frontier: repeat(int(frontier.live[0])),
        lambda state, frontier: chain(frontier.live, repeat(int(frontier.live[0]))),
    ],
    ids=["one for ever", "all, then one for ever"],
)
async def test_an_infinite_selection_ends(select):
    ids, summary = await ids_of(Net(CHAIN, select=select))
    assert (ids, summary.stop) == (list(range(10)), "exhausted")


async def test_an_infinite_selection_of_other_things_is_an_error():
    with pytest.raises(PolicyError, match="no node waits"):
        await ids_of(Net(CHAIN, select=lambda state, frontier: count()))


@pytest.mark.parametrize("method", ["seed", "score", "select", "expand", "stop", "to_hits", "node_id"])
async def test_a_policy_that_rewrites_its_state_changes_nothing(method):
    """It can deceive only itself."""
    states = []

    def harm(state):
        state.query, state.max_depth, state.node_budget, state.limits = "", None, 10**9, Limits(max_fanout=10**6)
        state.visited.clear()
        state.results.clear()
        state.cache.clear()
        state.visited, state.results, state.cache = {1}, [None], {}

    policy = Net({n: [(n * 2) % 50, (n * 2 + 1) % 50, n] for n in range(50)})
    expected = await ids_of(policy, max_depth=4, node_budget=20, limits={"max_fanout": 2})
    good = getattr(policy, method)

    def bad(*arguments):
        states.extend(arguments[:1] if method != "node_id" else [])
        for state in states[-1:]:
            harm(state)
        return good(*arguments)

    setattr(policy, method, bad)
    ids, summary = await ids_of(policy, max_depth=4, node_budget=20, limits={"max_fanout": 2})
    assert ids == expected[0]
    assert outcome(summary) == outcome(expected[1])


@pytest.mark.parametrize("method", ["score", "expand", "to_hits"])
async def test_a_policy_that_empties_its_arguments_changes_nothing(method):
    policy = Net(STAR)
    good = getattr(policy, method)

    async def bad(state, items, store):
        answer = await good(state, list(items), store)
        if isinstance(items, list):
            items.clear()
        return answer

    setattr(policy, method, bad)
    assert (await ids_of(policy))[0] == list(range(6))


async def test_a_per_node_selection_cannot_invent_depth_or_score():
    class Liar:
        def seed(self, state, store):
            return [0]

        def score(self, state, node, store):
            return 0.5

        def select(self, state, scored):
            return [(node, -5, 9.0) for node, _, _ in scored]

        def expand(self, state, node, store):
            return [node + 1]

        def node_id(self, node):
            return node

        def to_hit(self, state, node, score, depth):
            return SearchHit(str(node), "node", score, "", {"depth": depth})

    walk = walk_of(per_node(Liar()), max_depth=2)
    hits = [hit async for hit in walk]
    assert [(hit.metadata["depth"], hit.metadata["walk_depth"], hit.score) for hit in hits] == [
        (0, 0, 0.5), (1, 1, 0.5), (2, 2, 0.5),
    ]  # fmt: skip


@pytest.mark.parametrize("hub", [lambda n: (i for i in range(1, n)), lambda n: range(1, n)], ids=["generator", "range"])
async def test_a_hub_of_three_million_neighbours_is_read_up_to_the_fan_out(hub):
    with anyio.fail_after(PATIENCE):
        ids, summary = await ids_of(Net({0: hub(3_000_001)}), max_depth=1)
    assert ids == list(range(64))
    exact = summary.at_least == ()
    assert summary.left_out["max_fanout"] == (3_000_000 - 1_000 if exact else 1)
    assert summary.edges == 1_000


@pytest.mark.slow
async def test_other_tasks_run_while_a_large_frontier_is_walked():
    """A hundred thousand seeds never block the event loop for long."""
    ticks = []

    async def tick():
        while True:
            ticks.append(await anyio.lowlevel.checkpoint())

    async with anyio.create_task_group() as group:
        group.start_soon(tick)
        ids, _ = await ids_of(Net(seeds=range(100_000)), node_budget=2_000)
        group.cancel_scope.cancel()
    assert len(ids) == 2_000
    assert len(ticks) >= 5, "it passes a checkpoint at least between the stages of a step"


async def test_other_tasks_run_at_least_every_hundred_hits():
    turns = []

    async def take_turns():
        while True:
            turns.append(len(turns))
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(take_turns)
        ids, _ = await ids_of(Net(seeds=range(2_000)), node_budget=2_000)
        group.cancel_scope.cancel()
    assert len(ids) == 2_000
    assert len(turns) >= 20
