"""The walk operator against harmful policies: endless, invalid and manipulated answers.

Errors during a walk are tested in `test_traversal_errors.py`, the ends of walks in `test_traversal_endings.py`.
"""

import time
import tracemalloc
from dataclasses import fields
from decimal import Decimal
from itertools import chain, count, cycle, repeat

import anyio
import numpy as np
import pytest

from airw.errors import PolicyError
from airw.policies import per_node
from airw.values import Limits
from tests.support.adversaries import (
    CHAIN,
    ENDLESS,
    FORMS,
    STAR,
    Batched,
    OneByOne,
    Sources,
    every_form,
    every_stage,
    failing,
    hit_of,
    leaving_nothing,
    run_walk,
    walk_of,
    without_end,
)

# Endless answers.


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("source", ENDLESS)
@pytest.mark.parametrize("where", ["seeds", "neighbours"])
async def test_a_source_without_end_is_read_one_past_its_cap_at_most_and_closed(form, source, where):
    sources = Sources()
    endless = lambda node=0: sources.make(source, count(node + 1))  # noqa: E731 (either of two)
    policy = form(seeds=endless()) if where == "seeds" else form(endless)
    limits = {"max_frontier": 200, "max_fanout": 20, "count_beyond_limits": False}
    ids, summary = await run_walk(policy, node_budget=100, limits=limits)
    assert len(ids) == 100
    assert (summary.stop, summary.truncated) == ("node_budget", True)
    assert {"seeds": "max_frontier", "neighbours": "max_fanout"}[where] in summary.at_least
    assert sources.most <= {"seeds": 201, "neighbours": 21}[where]
    assert sources.open == 0


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("source", ["generator", "async generator", "async cursor"])
@pytest.mark.parametrize(
    ("limits", "stop"),
    [
        ({"max_fanout": 5}, "node_budget"),
        ({"max_fanout": 0}, "exhausted"),
        ({"max_edges": 37}, "exhausted"),
        ({"max_edges": 0}, "exhausted"),
        ({"max_frontier": 7}, "node_budget"),
        ({"max_hits": 3}, "max_hits"),
        ({"max_depth": 1}, "exhausted"),
        ({"node_budget": 0}, "node_budget"),
    ],
    ids=str,
)
async def test_each_limit_applies_to_endless_neighbours(form, source, limits, stop):
    sources = Sources()
    limits = {"max_fanout": 50} | limits
    bounds = {name: limits.pop(name) for name in ("max_depth", "node_budget") if name in limits}
    ids, summary = await run_walk(form(lambda node: sources.make(source, count(node + 1))), **bounds, limits=limits)
    assert (summary.stop, summary.truncated) == (stop, True)
    assert len(ids) <= min(bounds.get("node_budget", 64), limits.get("max_hits", 64))
    assert summary.edges <= limits.get("max_edges", 100_000)
    assert max(sources.taken, default=0) <= 1 + min(limits["max_fanout"], limits.get("max_edges", 100_000))
    assert sources.open == 0


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("source", ["iterator", "generator", "async generator"])
@pytest.mark.parametrize(
    ("items", "found"),
    [
        (lambda: repeat(0), "0"),
        (lambda: repeat(7), "07"),
        (lambda: cycle([0, 7]), "07"),
        (lambda: cycle([7, 8]), "078"),
    ],
    ids=["the visited one", "one for ever", "the visited one and one", "two in turn"],
)
async def test_the_same_few_neighbours_without_end_are_a_small_graph(form, source, items, found):
    sources = Sources()
    ids, summary = await run_walk(form(lambda node: sources.make(source, items())), limits={"max_fanout": 50})
    assert "".join(ids) == found
    assert summary.stop == "exhausted"
    assert sources.most <= 51
    assert sources.open == 0


async def test_an_endless_answer_of_expand_or_to_hits_is_an_error_and_not_read_further():
    async def expand(state, committed, store):
        return without_end(repeat(()))

    async def to_hits(state, committed, store):
        return without_end(repeat(hit_of(0)))

    async def in_turns(state, committed, store):
        return Sources().make("async generator", repeat(()))

    for what, method in [("expand", expand), ("to_hits", to_hits), ("expand", in_turns), ("to_hits", in_turns)]:
        error, _ = await failing(Batched(STAR, **{what: method}))
        assert isinstance(error, PolicyError)
        assert f"Batched.{what} returned " in str(error)
        assert "return a list with one item per committed node (1)" in str(error)


class Claims:
    """A sequence that claims a length and yields items without end."""

    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return 0.0

    def __iter__(self):
        return without_end(count(100))


class LyingList(list):
    """A list with endless items behind each slice of it."""

    def __getitem__(self, index):
        return without_end(count(100)) if isinstance(index, slice) else super().__getitem__(index)

    def __iter__(self):
        return without_end(count(100))


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("offered", [Claims(10**12), Claims(3), LyingList([1, 2, 3])], ids=["huge", "three", "list"])
async def test_a_collection_that_lies_about_its_length_is_read_up_to_the_cap(form, offered):
    ids, summary = await run_walk(form({0: offered}), node_budget=500, limits={"max_fanout": 300})
    assert len(ids) <= 301
    assert summary.stop == "exhausted"


@pytest.mark.parametrize(
    "scores",
    [
        lambda: (0.0 for _ in range(6)),
        without_end,
        lambda: Sources().make("async generator", repeat(0.0)),
        lambda: range(1_000_000),
        lambda: [0.0] * 3_000_000,
        lambda: Claims(1_000_000),
    ],
    ids=["generator", "without end", "async", "range", "list", "sequence"],
)
async def test_a_wrong_number_of_scores_is_refused_before_they_are_copied(scores):
    answer = scores()

    async def score(state, nodes, store):
        return answer

    tracemalloc.start()
    try:
        error, ids = await failing(Batched(seeds=range(6), score=score))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert isinstance(error, PolicyError)
    assert "Batched.score returned" in str(error)
    assert ids == []
    assert peak < 5_000_000


async def test_a_ranking_without_end_is_an_error():
    walk = walk_of(Batched(STAR, rank=lambda state, hits: without_end(cycle(hits))))
    assert len([hit async for hit in walk]) == 6
    with pytest.raises(PolicyError, match="rank returned a hit that the walk did not yield"):
        _ = walk.ranking


# Selections.


BAD_POSITIONS = {
    "strings": lambda live: map(str, live),
    "one string for ever": lambda live: without_end(repeat("0")),
    "a word": lambda live: "abc",
    "bytes beyond": lambda live: b"\xff",
    "a negative": lambda live: [-1],
    "the position before": lambda live: [int(live[0]) - 1],
    "far beyond": lambda live: [10**9],
    "beyond any index": lambda live: [10**40],
    "far beyond, of numpy": lambda live: np.array([10**9]),
    "unsigned": lambda live: np.array([2**64 - 1], np.uint64),
    "numbers with a point": lambda live: live.astype(float),
    "objects": lambda live: np.array([object()]),
    "not a number": lambda live: [float("nan")],
    "pairs": lambda live: [(at, 0.0) for at in live],
    "every number": lambda live: without_end(count(1)),
    "an async generator": lambda live: Sources().make("async generator", live),
    "a function": lambda live: lambda: live,
}


@pytest.mark.pairwise
@pytest.mark.parametrize("picked", BAD_POSITIONS.values(), ids=BAD_POSITIONS)
@pytest.mark.parametrize("wait", [False, True], ids=["at once", "awaited"])
async def test_selecting_anything_but_live_positions_is_a_policy_error(picked, wait):
    async def later(state, frontier):
        await anyio.lowlevel.checkpoint()
        return picked(frontier.live)

    select = later if wait else lambda state, frontier: picked(frontier.live)
    error, ids = await failing(Batched(seeds=range(3), select=select))
    assert isinstance(error, PolicyError)
    assert "select" in str(error)
    assert "position" in str(error)
    assert str(error).count("\n") == 0
    assert ids == []


@pytest.mark.pairwise
@pytest.mark.parametrize(
    "picked",
    [
        lambda live: without_end(repeat(int(live[0]))),
        lambda live: without_end(chain(live.tolist(), repeat(int(live[0])))),
        lambda live: [int(live[0])] * 1_000_000,
        lambda live: np.full(1_000, live[0]),
        lambda live: repeat(live[0]),
    ],
    ids=["for ever", "all, then for ever", "a million times", "an array", "of numpy, for ever"],
)
@pytest.mark.parametrize("wait", [False, True], ids=["at once", "awaited"])
@pytest.mark.parametrize("keeps", [False, True], ids=["drops", "keeps"])
async def test_an_endlessly_repeated_position_counts_once(picked, wait, keeps):
    async def later(state, frontier):
        await anyio.lowlevel.checkpoint()
        return picked(frontier.live)

    select = later if wait else lambda state, frontier: picked(frontier.live)
    ids, summary = await run_walk(Batched(CHAIN, select=select, keeps_frontier=keeps))
    assert ids == [str(n) for n in range(10)]
    assert summary.stop == "exhausted"


async def test_a_generator_of_positions_is_closed_within_the_step():
    open_now = []

    def select(state, frontier):
        open_now.append(1)
        try:
            yield from repeat(int(frontier.live[0]))
        finally:
            open_now.pop()

    async with leaving_nothing(), walk_of(Batched(CHAIN, select=select)) as walk:
        async for _ in walk:
            assert not open_now


async def test_a_policy_that_makes_scores_writable_changes_only_its_own_copy():
    """The frontier's scores are read-only; whoever unlocks them harms only himself."""

    def select(state, frontier):
        picked = frontier.best_first()
        try:
            frontier.scores.setflags(write=True)
            frontier.scores[:] = 99.0
        except ValueError:
            pass
        return picked

    async with leaving_nothing(), walk_of(Batched(STAR, select=select)) as walk:
        assert [hit.score async for hit in walk] == [0.0] * 6


async def test_a_policy_that_overwrites_live_positions_changes_only_its_own_copy():
    def select(state, frontier):
        picked = frontier.best_first()
        frontier.live[:] = 0
        frontier.nodes[:].clear()
        frontier.ids[:].clear()
        return picked

    assert (await run_walk(Batched(CHAIN, select=select)))[0] == [str(n) for n in range(10)]


BAD_TRIPLES = {
    "strings": lambda scored: ["no", "triple"],
    "three letters for ever": lambda scored: without_end(repeat("abc")),
    "two letters for ever": lambda scored: without_end(repeat("ab")),
    "nodes alone": lambda scored: [node for node, _, _ in scored],
    "pairs": lambda scored: [triple[:2] for triple in scored],
    "nothing for ever": lambda scored: without_end(repeat(None)),
    "a node that was not offered": lambda scored: [(99, 0, 0.0)],
    "ever new nodes": lambda scored: without_end((n, 0, 0.0) for n in count(99)),
    "no list": lambda scored: 3,
    "none": lambda scored: None,
    "an async generator": lambda scored: Sources().make("async generator", scored),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("picked", BAD_TRIPLES.values(), ids=BAD_TRIPLES)
@pytest.mark.parametrize("wait", [False, True], ids=["at once", "awaited"])
async def test_a_per_node_policy_that_selects_other_triples_than_offered_is_a_policy_error(picked, wait):
    async def later(state, scored):
        await anyio.lowlevel.checkpoint()
        return picked(scored)

    select = later if wait else lambda state, scored: picked(scored)
    error, ids = await failing(per_node(OneByOne(STAR, select=select)))
    assert isinstance(error, PolicyError)
    assert "select" in str(error)
    assert ids == []


@pytest.mark.parametrize("triple", [(0, 0, 0.0), (0, -5, 9.0)], ids=["as committed", "rewritten"])
async def test_a_per_node_policy_that_selects_a_visited_node_endlessly_ends(triple):
    """A visited node may be returned, as in `ir`. No more triples are read than wait."""

    def select(state, scored):
        return scored if not state.results else without_end(repeat(triple))

    ids, summary = await run_walk(per_node(OneByOne(STAR, select=select)))
    assert ids == ["0"]
    assert summary.stop == "sufficient"


@pytest.mark.parametrize(
    "lie",
    [
        lambda scored: without_end(repeat(scored[0])),
        lambda scored: without_end(cycle(scored)),
        lambda scored: [(node, -5, 9.0) for node, _, _ in scored],
        lambda scored: [(node, 10**9, float("nan")) for node, _, _ in scored],
        lambda scored: [(node, None, "x") for node, _, _ in scored],
        lambda scored: [(node, [], {}) for node, _, _ in scored],
    ],
    ids=["one for ever", "all for ever", "negative depth", "huge depth", "no depth", "unhashable"],
)
async def test_a_per_node_selection_cannot_invent_depths_scores_or_hits(lie):
    async with leaving_nothing():
        walk = walk_of(per_node(OneByOne(CHAIN, select=lambda state, scored: lie(scored))), max_depth=3)
        hits = [hit async for hit in walk]
    assert [(hit.artifact_id, hit.metadata["walk_depth"], hit.score) for hit in hits] == [
        ("0", 0, 0.0), ("1", 1, 0.0), ("2", 2, 0.0), ("3", 3, 0.0),
    ]  # fmt: skip


# Scores.


BAD_SCORES = {
    "nan": float("nan"), "nan of numpy": np.float32("nan"), "decimal nan": Decimal("NaN"),
    "signalling nan": Decimal("sNaN"), "too large": 10**400, "none": None, "text": "1.5", "bytes": b"1",
    "complex": 1j, "list": [0.0], "empty": (), "object": object(), "date": np.datetime64("2026-11-21"),
    "duration": np.timedelta64(1), "type": float,
}  # fmt: skip


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("score", BAD_SCORES.values(), ids=BAD_SCORES)
async def test_a_score_that_is_no_number_is_a_policy_error(form, score):
    async def score_all(state, nodes, store):
        return [score if node == 3 else 0.0 for node in nodes]

    async def each(state, node, store):
        return score if node == 3 else 0.0

    policy = form(STAR, score=score_all if form is Batched else each)
    error, ids = await failing(policy)
    assert isinstance(error, PolicyError)
    assert "score" in str(error)
    assert str(error).count("\n") == 0
    assert ids == ["0"]


@pytest.mark.parametrize("form", ["batched", "per node"])
async def test_an_error_while_a_score_is_converted_names_the_stage(form):
    class Number:
        def __float__(self):
            raise KeyError("mine")

    async def score_all(state, nodes, store):
        return [Number() for _ in nodes]

    policy = Batched(score=score_all) if form == "batched" else per_node(OneByOne(score=lambda *_: Number()))
    error, _ = await failing(policy)
    assert isinstance(error, KeyError)
    assert any(".score" in note for note in error.__notes__)


@pytest.mark.pairwise
@every_form
@pytest.mark.parametrize("keeps", [False, True], ids=["drops", "keeps"])
@pytest.mark.parametrize(
    ("scores", "order"),
    [
        ([-np.inf] * 5, "12345"),
        ([np.inf] * 5, "12345"),
        ([-np.inf, 0.0, np.inf, 0.0, np.inf], "35241"),
        ([-0.0, 0.0, -1e308, 1e308, 5e-324], "45123"),
    ],
    ids=["-inf", "inf", "mixed", "extremes"],
)
async def test_infinite_and_extreme_scores_have_an_order(form, keeps, scores, order):
    async def score_all(state, nodes, store):
        return [scores[node - 1] if node else 0.0 for node in nodes]

    async def each(state, node, store):
        return scores[node - 1] if node else 0.0

    policy = form(STAR, score=score_all if form is Batched else each)
    if form is Batched:
        policy.keeps_frontier = keeps
    else:
        policy.policy.select = lambda state, scored: sorted(scored, key=lambda triple: -triple[2])
    ids, summary = await run_walk(policy)
    assert "".join(ids) == "0" + order
    assert summary.stop == "exhausted"


# A policy that clears or rewrites its arguments.


def delete_all(state):
    for field in fields(state):
        delattr(state, field.name)


def rewrite_all(state):
    for field in fields(state):
        setattr(state, field.name, None)


def lift_the_limits(state):
    state.max_depth, state.node_budget, state.limits = None, 10**9, Limits(max_fanout=10**9, max_hits=None)
    state.visited, state.results = set(), []


def clear_all(state):
    state.visited.clear()
    state.results.clear()
    state.cache.clear()


def fill_all(state):
    state.visited.update(range(1_000))
    state.results.extend([None] * 1_000)


@pytest.mark.pairwise
@every_stage
@pytest.mark.parametrize("harm", [delete_all, rewrite_all, lift_the_limits, clear_all, fill_all])
async def test_a_policy_that_rewrites_its_state_at_any_stage_changes_nothing(form, harm, stage):
    edges = {n: [(n * 2) % 50, (n * 2 + 1) % 50, n] for n in range(50)}
    options = {"max_depth": 4, "node_budget": 20, "limits": {"max_fanout": 2, "max_hits": 18}}
    expected = await run_walk(form(edges, seeds=[1]), **options)
    harmed = set()

    def do(state):
        if id(state) not in harmed or harm is not delete_all:  # a field cannot be deleted twice
            harmed.add(id(state))
            harm(state)

    ids, summary = await run_walk(form(edges, seeds=[1], at=stage, do=do), **options)
    assert ids == expected[0]
    assert (summary.stop, summary.left_out) == (expected[1].stop, expected[1].left_out)
    assert harmed


async def test_a_per_node_policy_cannot_widen_its_concurrency():
    now, most = 0, 0

    class Wide(OneByOne):
        async def score(self, state, node, store):
            nonlocal now, most
            state.limits = Limits(max_concurrency=1_000)
            now, most = now + 1, max(most, now + 1)
            await anyio.sleep(0.001)
            now -= 1
            return 0.0

    await run_walk(per_node(Wide({0: range(1, 50)})), limits={"max_concurrency": 2})
    assert most == 2


@pytest.mark.pairwise
@pytest.mark.parametrize("harm", [list.clear, list.reverse, list.pop, lambda items: items.append(len(items) + 1)])
@pytest.mark.parametrize("where", ["seeds", "neighbours"])
async def test_a_list_that_changes_while_node_ids_are_read_counts_as_it_was_passed(harm, where):
    kept = list(range(1, 901))

    def node_id(node):
        if node and kept:
            harm(kept)
        return node

    policy = Batched(seeds=kept, node_id=node_id) if where == "seeds" else Batched({0: kept}, node_id=node_id)
    ids, _ = await run_walk(policy, node_budget=1_000)
    assert ids[-900:] == [str(n) for n in range(1, 901)]


# Size.


HUB = 1_000_000
HUBS = {
    "list": lambda numbers: numbers,
    "tuple": tuple,
    "range": lambda numbers: range(1, HUB + 1),
    "array": lambda numbers: np.arange(1, HUB + 1),
    "generator": iter,
    "async generator": lambda numbers: Sources(fuse=2_000).make("hasty async generator", numbers),
    "set": lambda numbers: dict.fromkeys(numbers).keys(),
}


@pytest.fixture(scope="module")
def numbers():
    return list(range(1, HUB + 1))


async def measure(make):
    """Return ids, summary, processor seconds of a walk, and peak memory of another in MB."""
    policy = make()
    started = time.process_time()
    ids, summary = await run_walk(policy)
    seconds = time.process_time() - started
    policy = make()
    tracemalloc.start()
    try:
        await run_walk(policy)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()
    print(f"{seconds:.3f} s, {peak:.1f} MB")
    return ids, summary, seconds, peak


@pytest.mark.slow
@pytest.mark.pairwise
@pytest.mark.parametrize("form", [Batched, FORMS["per node"]], ids=["batched", "per node"])
@pytest.mark.parametrize("hub", HUBS.values(), ids=HUBS)
async def test_a_hub_of_a_million_costs_only_the_part_that_is_read(form, hub, numbers):
    """The default limits apply. Memory of the policy itself does not count."""

    def make():
        offered = hub(numbers)
        return form(lambda node: offered if node == 0 else ())

    ids, summary, seconds, peak = await measure(make)
    assert ids == [str(n) for n in range(64)]
    assert summary.edges == 1_000
    assert summary.left_out["max_fanout"] == (HUB - 1_000 if summary.at_least == () else 1)
    assert seconds < 1
    assert peak < 60


@pytest.mark.slow
@pytest.mark.parametrize("hub", [HUBS["list"], HUBS["generator"]], ids=["list", "generator"])
async def test_a_million_seeds_cost_only_the_part_that_is_read(hub, numbers):
    ids, summary, seconds, peak = await measure(lambda: Batched(seeds=hub(numbers)))
    assert ids == [str(n) for n in range(1, 65)]
    assert summary.left_out["max_frontier"] == (HUB - 100_000 if summary.at_least == () else 1)
    assert seconds < 5
    assert peak < 60


async def test_no_more_positions_are_read_than_entries_wait():
    offered = range(HUB)
    ids, _, seconds, peak = await measure(lambda: Batched(seeds=[0, 1], select=lambda state, frontier: offered))
    assert ids == ["0", "1"]
    assert seconds < 5
    assert peak < 60


async def iterate_async(items):
    for item in items:
        yield item


@pytest.mark.slow
async def test_a_long_chain_is_walked_to_its_end():
    """There is no recursion, whether neighbours are lists, generators or async iterables."""
    size, kinds = 20_000, [iter, iterate_async, *[list] * 98]
    policy = Batched(lambda node: kinds[node % 100]([node + 1] if node + 1 < size else []))
    with anyio.fail_after(250):
        walk = walk_of(policy, node_budget=size)
        async for hit in walk:
            last = hit
    assert (walk.summary.emitted, walk.summary.steps, walk.summary.depth) == (size, size, size - 1)
    assert (walk.summary.stop, walk.summary.truncated) == ("node_budget", False)
    assert walk.path(last) == list(range(size))
    assert last.metadata["seed"] == "0"


@pytest.mark.slow
async def test_a_chain_is_walked_to_its_end_one_node_at_a_time():
    policy = per_node(OneByOne(lambda node: [node + 1] if node + 1 < 2_000 else []))
    walk = walk_of(policy, node_budget=10_000)
    ids = [hit.artifact_id async for hit in walk]
    assert (len(ids), walk.summary.stop, walk.summary.depth) == (2_000, "exhausted", 1_999)


@pytest.mark.slow
@every_form
async def test_a_chain_of_routers_is_walked_to_its_end(form):
    async def to_hits(state, committed, store):
        return [None] * len(committed)

    async def to_hit(state, node, score, depth):
        return None

    policy = form(lambda node: [node + 1], **({"to_hits": to_hits} if form is Batched else {"to_hit": to_hit}))
    ids, summary = await run_walk(policy, node_budget=1_000)
    assert (ids, summary.routed, summary.stop) == ([], 1_000, "node_budget")
