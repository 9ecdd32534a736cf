"""A walk read as events: their content and order, and how reading ends."""

import gc
import json
import weakref
from contextlib import aclosing

import anyio
import numpy as np
import pytest

from airw.errors import PolicyError
from airw.traversal import traverse
from airw.values import Edge, Limits, SearchHit
from airw.walking import EdgeFound, NodeCommitted, Policy, StepDone, WalkEnded, prefetch
from tests.support.virtual_time import on_virtual_clock
from tests.support.waiting import PATIENCE


class Net(Policy):
    """A graph in a dict; keywords replace methods.

    A node is a name and the edge on which it was reached.
    """

    def __init__(self, edges, seeds="a", routers="", **replaced):
        self.edges, self.seeds, self.routers = edges, seeds, routers
        for name, value in replaced.items():
            setattr(self, name, value)

    async def seed(self, state, store):
        return [(id, None) for id in self.seeds]

    async def score(self, state, nodes, store):
        return [-float(ord(id[0])) for id, _ in nodes]

    async def expand(self, state, committed, store):
        return [[(end, Edge(entry.id, end, "REF")) for end in self.edges.get(entry.id, ())] for entry in committed]

    def node_id(self, node):
        return node[0]

    def edge_of(self, node):
        return node[1]

    async def to_hits(self, state, committed, store):
        return [None if e.id in self.routers else SearchHit(e.id, "node", e.score, "") for e in committed]


TREE = {"a": "bc", "b": "ad", "c": "d"}


def walk_of(policy, **options):
    return traverse("query", None, policy=policy, **options)


def summarize(event):
    """Return an event in short."""
    match event:
        case NodeCommitted():
            return event.id if event.hit else f"({event.id})"
        case EdgeFound():
            return f"{event.source}{'=' if event.known else '-'}{event.target}"
        case StepDone():
            return event.step
        case WalkEnded():
            return event.summary.stop


async def story(policy, **options):
    return [summarize(event) async for event in walk_of(policy, **options).events()]


async def test_each_step_yields_its_nodes_then_its_edges_then_step_done_and_the_end_is_last():
    """Known edges lead to committed or waiting nodes, `a` and the second `d` here."""
    steps = ["a", "a-b", "a-c", 1, "b", "c", "b=a", "b-d", "c=d", 2, "d", 3, "exhausted"]
    assert await story(Net(TREE)) == steps


@pytest.mark.parametrize("scores_paths", [False, True])
async def test_an_edge_to_a_node_that_still_waits_is_known(scores_paths):
    kinds = {"keeps_frontier": True, "scores_paths": scores_paths}
    policy = Net({"a": "bc", "b": "cdd"}, select=lambda state, frontier: frontier.live[:1], **kinds)
    steps = ["a", "a-b", "a-c", 1, "b", "b=c", "b-d", "b=d", 2, "c", 3, "d", 4, "exhausted"]
    assert await story(policy) == steps


async def test_routers_are_committed_without_a_hit():
    assert await story(Net(TREE, routers="ac"), max_depth=1) == ["(a)", "a-b", "a-c", 1, "b", "(c)", 2, "exhausted"]


async def test_events_contain_the_facts_of_the_walk():
    walk = walk_of(Net({"a": "b"}, routers="a"))
    events = [event async for event in walk.events()]
    [hit] = walk.ranking
    assert events == [
        NodeCommitted("a", 0, -97.0, None, None),
        EdgeFound("a", "b", "REF", known=False, edge=Edge("a", "b", "REF")),
        StepDone(step=1, committed=1, edges=1, waiting=1),
        NodeCommitted("b", 1, -98.0, "a", hit),
        StepDone(step=2, committed=2, edges=1, waiting=0),
        WalkEnded(walk.summary),
    ]
    assert events[3].hit is hit
    assert hit.metadata["walk_path"] == walk.path(hit) == ["a", "b"]


async def test_every_event_is_one_line_of_clean_json():
    policy = Net({"a": "b"}, routers="a", score=infinite)
    lines = [json.dumps(event.to_dict(), allow_nan=False) async for event in walk_of(policy).events()]
    parsed = [json.loads(line) for line in lines]
    assert [line["type"] for line in parsed] == ["router", "edge", "progress", "hit", "progress", "summary"]
    assert parsed[0] == {"type": "router", "id": "a", "depth": 0, "parent": None, "score": None}
    assert parsed[1] == {
        "type": "edge", "source": "a", "target": "b", "edge_type": "REF", "origin": "inline", "known": False
    }  # fmt: skip
    assert parsed[2] == {"type": "progress", "step": 1, "committed": 1, "edges": 1, "waiting": 1}
    assert parsed[3]["artifact_id"] == parsed[3]["id"] == "b"
    assert parsed[5]["stop"] == "exhausted"


async def infinite(state, nodes, store):
    return [-np.inf for _ in nodes]


async def test_without_an_edge_from_the_policy_the_event_has_neither_edge_nor_type():
    walk = walk_of(Net({"a": "b"}, edge_of=lambda node: None))
    [event] = [event async for event in walk.events() if isinstance(event, EdgeFound)]
    assert event == EdgeFound("a", "b", None, known=False, edge=None)
    assert event.to_dict() == {
        "type": "edge", "source": "a", "target": "b", "edge_type": None, "origin": None, "known": False
    }  # fmt: skip


async def test_the_event_of_a_link_walked_backwards_contains_the_stored_edge():
    stored = Edge("b", "a", "REF", "typed")
    walk = walk_of(Net({"a": "b"}, edge_of=lambda node: stored))
    [event] = [event async for event in walk.events() if isinstance(event, EdgeFound)]
    assert (event.source, event.target, event.edge) == ("a", "b", stored)
    assert event.to_dict()["origin"] == "typed"


@pytest.mark.parametrize(
    ("options", "ends"),
    [
        ({"node_budget": 2}, ["b", 2, "node_budget"]),
        ({"limits": Limits(max_hits=2)}, ["b", "max_hits"]),
        ({"limits": Limits(max_hits=1)}, ["a", 1, "max_hits"]),
        ({"node_budget": 0}, ["node_budget"]),
        ({"timeout": 0}, ["timeout"]),
        ({"max_depth": 0}, ["a", 1, "exhausted"]),
    ],
)
async def test_a_limit_ends_the_events_like_the_hits_and_the_count_beyond_it_adds_no_event(options, ends):
    """A step whose hits `max_hits` cut off is not done."""
    assert (await story(Net(TREE), **options))[-len(ends) :] == ends
    assert not any("-" in str(each) for each in (await story(Net(TREE), **options))[-len(ends) :])


async def test_edges_refused_by_a_full_frontier_are_events_and_not_known():
    seen = await story(Net({"a": "bcb", "b": "c"}), limits=Limits(max_frontier=1))
    assert seen == ["a", "a-b", "a-c", "a=b", 1, "b", "b-c", 2, "c", 3, "exhausted"]
    assert "a-c" in await story(Net({"a": "bcc"}), limits=Limits(max_frontier=1))
    assert "a=c" not in await story(Net({"a": "bcc"}), limits=Limits(max_frontier=1))


async def test_stop_is_called_after_each_hit_when_the_next_event_is_requested():
    asked = []

    def stop(state):
        asked.append([hit.artifact_id for hit in state.results])
        return len(asked) == 2

    walk = walk_of(Net(TREE, routers="b", stop=stop))
    async with aclosing(walk.events()) as events:
        assert summarize(await anext(events)) == "a"
        assert asked == []
        assert [summarize(event) async for event in events] == ["a-b", "a-c", 1, "(b)", "c", "sufficient"]
    assert asked == [["a"], ["a", "c"]]


async def test_a_failing_policy_raises_in_place_of_the_next_event():
    def fails(node):
        if node[0] == "c":
            raise LookupError("mine")
        return node[1]

    walk = walk_of(Net(TREE, edge_of=fails))
    events = walk.events()
    assert [summarize(await anext(events)) for _ in range(2)] == ["a", "a-b"]
    with pytest.raises(LookupError, match="mine") as caught:
        await anext(events)
    assert walk.summary.stop == "failed"
    assert "raised in Net.edge_of during a walk" in caught.value.__notes__[0]


@pytest.mark.parametrize("form", ["hits", "events"])
async def test_what_comes_before_an_error_of_stop_is_delivered(form):
    def stop(state):
        if len(state.results) == 3:
            raise LookupError("mine")
        return False

    walk = walk_of(Net({}, seeds="abcde", stop=stop))
    stream = walk if form == "hits" else walk.events()
    items = [await anext(stream) for _ in range(3)]
    hits = items if form == "hits" else [event.hit for event in items]
    assert [hit.artifact_id for hit in hits] == ["a", "b", "c"]
    with pytest.raises(LookupError, match="mine"):
        await anext(stream)
    assert (walk.summary.stop, walk.summary.emitted) == ("failed", 3)


@pytest.mark.parametrize("form", ["hits", "events"])
async def test_a_stop_that_is_awaited_ends_the_walk(form):
    async def stop(state):
        return len(state.results) == 2

    walk = walk_of(Net({}, seeds="abcde", stop=stop))
    found = [item async for item in (walk if form == "hits" else walk.events())]
    assert len([item for item in found if not isinstance(item, WalkEnded)]) == 2
    assert walk.summary.stop == "sufficient"


async def test_a_stray_stop_iteration_is_a_policy_error():
    def stray(node):
        raise StopIteration

    with pytest.raises(PolicyError, match="edge_of raised StopIteration"):
        await story(Net(TREE, edge_of=stray, to_hits=routers_only))


async def routers_only(state, committed, store):
    return [None for _ in committed]


async def test_a_walk_is_read_as_hits_or_as_events_and_a_refusal_changes_nothing():
    walk = walk_of(Net(TREE))
    events = walk.events()
    for _ in range(3):
        with pytest.raises(RuntimeError, match="read as events"):
            await anext(walk)
        with pytest.raises(RuntimeError, match="being read already"):
            walk.events()
        assert summarize(await anext(events))
    assert [summarize(event) async for event in events][-1] == "exhausted"
    taken = walk_of(Net(TREE))
    assert (await anext(taken)).artifact_id == "a"
    with pytest.raises(RuntimeError, match="being read already"):
        taken.events()
    assert [hit.artifact_id async for hit in taken] == ["b", "c", "d"]


async def test_a_hit_that_is_ready_cannot_be_taken_past_the_events():
    walk = walk_of(Net(TREE))
    seen = []
    async for event in walk.events():
        seen.append(summarize(event))
        with pytest.raises(RuntimeError, match="read as events"):
            await anext(walk)
    assert seen == await story(Net(TREE))


@pytest.mark.parametrize("how", ["events", "walk", "athrow"])
async def test_closing_ends_the_events_without_a_summary_among_them(how):
    walk = walk_of(Net(TREE))
    events = walk.events()
    assert summarize(await anext(events)) == "a"
    if how == "athrow":
        with pytest.raises(LookupError):
            await events.athrow(LookupError("thrown"))
    else:
        await (events if how == "events" else walk).aclose()
    assert [event async for event in events] == []
    assert (walk.summary.stop, walk.summary.emitted) == ("closed", 1)


async def test_closing_from_another_task_ends_the_reader_normally():
    asleep = anyio.Event()

    async def sleeps(state, committed, store):
        asleep.set()
        await anyio.sleep_forever()

    walk = walk_of(Net(TREE, expand=sleeps))
    seen = []

    async def read():
        seen.extend([summarize(event) async for event in walk.events()])

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await asleep.wait()
            await walk.aclose()
    assert seen == ["a"]
    assert walk.summary.stop == "closed"


@on_virtual_clock
async def test_a_deadline_ends_the_events_with_their_summary():
    async def sleeps(state, committed, store):
        await anyio.sleep_forever()

    assert await story(Net(TREE, expand=sleeps), timeout=0.01) == ["a", "timeout"]


async def test_two_tasks_may_not_take_events_at_once():
    async def sleeps(state, store):
        await anyio.sleep_forever()

    events = walk_of(Net(TREE, seed=sleeps)).events()
    async with anyio.create_task_group() as group:
        group.start_soon(anext, events)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="prefetch"):
            await anext(events)
        group.cancel_scope.cancel()


async def test_events_can_be_prefetched():
    async with prefetch(walk_of(Net(TREE)).events()) as events:
        assert [summarize(event) async for event in events][-1] == "exhausted"


async def test_asend_returns_the_next_event():
    assert summarize(await walk_of(Net(TREE)).events().asend(None)) == "a"


async def test_reading_hits_creates_no_edge_events():
    """The policy returns the edge of each hit, not of each neighbour."""
    asked = []
    policy = Net({"a": "bcdefgh"}, edge_of=lambda node: asked.append(node[0]))
    assert [hit.artifact_id async for hit in walk_of(policy, node_budget=2)] == ["a", "b"]
    assert sorted(asked) == ["a", "b"]


async def test_other_tasks_run_at_least_every_hundred_events():
    """Nothing has to be waited for, since all edges are read."""
    policy = Net({}, expand=thousands)
    runs = 0

    async def ticks():
        nonlocal runs
        while True:
            runs += 1
            await anyio.lowlevel.checkpoint()

    streak = longest = last = total = 0
    async with anyio.create_task_group() as group:
        group.start_soon(ticks)
        async for _ in walk_of(policy, node_budget=2).events():
            total += 1
            streak, last = streak + 1 if runs == last else 1, runs
            longest = max(longest, streak)
        group.cancel_scope.cancel()
    assert total > 900
    assert longest <= 200  # trio runs either of two waiting tasks first


async def thousands(state, committed, store):
    return [[(str(number), None) for number in range(900)] for _ in committed]


@pytest.mark.parametrize("stop", [None, lambda state: len(state.results) == 150], ids=["no stop", "stop"])
async def test_batches_have_the_events_in_their_order(stop):
    def walk():
        replaced = {} if stop is None else {"stop": stop}
        return walk_of(Net({}, expand=thousands, routers="37", **replaced), node_budget=400)

    events = [event async for event in walk().events()]
    async with aclosing(walk().events()) as stream:
        batches = []
        while batch := await stream.read_batch():
            batches.append(batch)
    in_batches = [event for batch in batches for event in batch]
    assert [event.to_dict() for event in in_batches[:-1]] == [event.to_dict() for event in events[:-1]]
    assert in_batches[-1].summary.stop == events[-1].summary.stop
    assert max(map(len, batches)) <= 100
    assert len(batches) < len(events) / 10 or stop is not None


@pytest.mark.parametrize("kind", [NodeCommitted, EdgeFound, StepDone])
async def test_events_that_are_dropped_free_their_walk_at_once(kind):
    policy = Net({}, expand=thousands)
    gone, events = weakref.ref(policy), walk_of(policy, node_budget=4).events()
    gc.disable()
    try:
        while not isinstance(await anext(events), kind):
            pass
        del policy, events
        assert gone() is None
    finally:
        gc.enable()
