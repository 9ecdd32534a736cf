"""The walk operator: its generator, arguments, steps, hits and failures."""

import gc
import json
import math
import weakref
from collections import Counter
from contextlib import aclosing
from fractions import Fraction
from itertools import count, repeat

import anyio
import numpy as np
import pytest
import trio

from airw.errors import ArgumentError, PolicyError
from airw.policies import per_node
from airw.testing import run_on_virtual_clock
from airw.traversal import traverse
from airw.values import Edge, Limits, SearchHit
from airw.walking import Policy, Walk, top_k
from tests.support.ids import plain
from tests.support.virtual_time import on_virtual_clock


class Net(Policy):
    """A graph in a dict whose nodes are their ids.

    Keywords replace methods and attributes; calls are counted.
    """

    def __init__(self, edges=None, seeds=("a",), scores=None, routers=(), **replaced):
        self.edges = {id: list(found) if isinstance(found, str) else found for id, found in (edges or {}).items()}
        self.seeds, self.scores, self.routers = list(seeds), scores or {}, routers
        self.calls = Counter()
        for name, value in replaced.items():
            setattr(self, name, value)

    async def seed(self, state, store):
        self.calls["seed"] += 1
        return self.seeds

    async def score(self, state, nodes, store):
        self.calls["score"] += 1
        return [self.scores.get(node, 0.0) for node in nodes]

    async def expand(self, state, committed, store):
        self.calls["expand"] += 1
        return [self.edges.get(entry.id, ()) for entry in committed]

    def node_id(self, node):
        return node

    async def to_hits(self, state, committed, store):
        self.calls["to_hits"] += 1
        return [None if entry.id in self.routers else hit_of(entry) for entry in committed]


def hit_of(entry):
    return SearchHit(str(entry.id), "node", entry.score, f"text of {entry.id}")


def walk_of(policy, **options):
    return traverse("query", None, policy=policy, **options)


async def ids_of(policy, **options):
    """Return the ids that a walk emits, and its summary."""
    walk = walk_of(policy, **options)
    ids = [hit.artifact_id async for hit in walk]
    return ids, walk.summary


async def error_of(policy, kind=PolicyError, **options):
    """Return the error that ends a walk; check that the summary reports it."""
    walk = walk_of(policy, **options)
    with pytest.raises(kind) as caught:
        async for _ in walk:
            pass
    assert walk.summary.stop == "failed"
    assert str(caught.value).count("\n") == 0
    with pytest.raises(StopAsyncIteration):
        await anext(walk)
    return caught.value


TREE = {"a": ["b", "c"], "b": ["d"], "c": ["d", "e"], "e": ["a"]}


# The walk as a generator.


async def test_async_for_yields_each_reachable_node_once():
    ids, summary = await ids_of(Net(TREE))
    assert ids == ["a", "b", "c", "d", "e"]
    assert (summary.stop, summary.committed, summary.steps, summary.edges) == ("exhausted", 5, 3, 6)


async def test_leaving_aclosing_closes_the_walk():
    async with aclosing(walk_of(Net(TREE))) as walk:
        async for hit in walk:
            assert hit.artifact_id == "a"
            break
    assert walk.summary.stop == "closed"
    assert walk.summary.emitted == 1


async def test_leaving_the_walk_as_a_context_closes_it():
    async with walk_of(Net(TREE)) as walk:
        await anext(walk)
        assert walk.summary is None
    assert walk.summary.stop == "closed"


async def test_anext_and_asend_return_the_next_hit():
    walk = walk_of(Net(TREE), node_budget=2)
    assert [(await anext(walk)).artifact_id, (await walk.asend(None)).artifact_id] == ["a", "b"]
    assert await anext(walk, "the end") == "the end"
    with pytest.raises(StopAsyncIteration):
        await walk.asend(None)


async def test_closing_twice_is_harmless_and_ends_the_walk():
    walk = walk_of(Net(TREE))
    await anext(walk)
    await walk.aclose()
    await walk.aclose()
    assert [hit async for hit in walk] == []
    assert walk.summary.stop == "closed"


async def test_closing_before_the_first_hit_runs_nothing():
    policy = Net(TREE)
    walk = walk_of(policy)
    await walk.aclose()
    assert await anext(walk, None) is None
    assert not policy.calls
    assert (walk.summary.stop, walk.summary.seconds) == ("closed", 0.0)


async def test_closing_an_ended_walk_keeps_its_summary():
    async with walk_of(Net()) as walk:
        assert [hit.artifact_id async for hit in walk] == ["a"]
    assert walk.summary.stop == "exhausted"


@pytest.mark.parametrize("thrown", [(KeyError("k"),), (KeyError,), (KeyError, "k"), (KeyError, KeyError("k"))])
async def test_athrow_closes_and_raises(thrown):
    walk = walk_of(Net(TREE))
    await anext(walk)
    with pytest.raises(KeyError) as caught:
        await walk.athrow(*thrown)
    assert caught.value.args == (() if thrown == (KeyError,) else ("k",))
    assert walk.summary.stop == "closed"
    with pytest.raises(KeyError):
        await walk.athrow(*thrown)


async def test_the_first_hit_is_yielded_after_one_step():
    """Only seed, score and to_hits of one step have run; nothing is expanded yet."""
    policy = Net({n: [n + 1] for n in range(50)}, seeds=[0])
    walk = walk_of(policy)
    assert (await anext(walk)).artifact_id == "0"
    assert policy.calls == {"seed": 1, "score": 1, "to_hits": 1}
    await walk.aclose()


async def test_a_step_costs_one_call_of_each_method_however_many_nodes_it_has():
    policy = Net({0: range(1, 301)} | {n: range(n * 1000, n * 1000 + 2) for n in range(1, 301)}, seeds=[0])
    _, summary = await ids_of(policy, max_depth=2, node_budget=500)
    assert summary.steps == 3
    assert policy.calls == {"seed": 1, "score": 3, "expand": 2, "to_hits": 3}


@on_virtual_clock
async def test_a_cancelled_request_closes_the_walk_and_propagates():
    async def never(state, nodes, store):
        await anyio.sleep(60)

    walk = walk_of(Net(score=never))
    with anyio.move_on_after(0.01) as scope:
        await anext(walk)
    assert scope.cancelled_caught
    assert walk.summary.stop == "closed"
    assert await anext(walk, None) is None


@on_virtual_clock
async def test_a_cancelled_group_inside_a_policy_closes_the_walk():
    async def never(state, nodes, store):
        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(anyio.sleep, 60)

    walk = walk_of(Net(score=never))
    with anyio.move_on_after(0.01) as scope:
        await anext(walk)
    assert scope.cancelled_caught
    assert walk.summary.stop == "closed"


def test_a_cancelled_nursery_of_trio_inside_a_policy_closes_the_walk():
    """Trio raises its cancellation in a group there."""

    async def never(state, nodes, store):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 60)
            nursery.start_soon(trio.sleep, 60)

    async def main():
        walk = walk_of(Net(score=never))
        with trio.move_on_after(0.01) as scope:
            await anext(walk)
        return scope.cancelled_caught, walk.summary.stop

    assert run_on_virtual_clock(main, backend="trio") == (True, "closed")


async def test_closing_from_another_task_ends_the_loop_normally():
    started, finished, seen = anyio.Event(), [], []

    async def slow(state, committed, store):
        started.set()
        try:
            await anyio.sleep(60)
        finally:
            finished.append("cancelled")

    walk = walk_of(Net(expand=slow))

    async def take():
        seen.extend([hit.artifact_id async for hit in walk])
        finished.append("loop ended")

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await started.wait()
        await walk.aclose()
        assert finished[0] == "cancelled"
        assert walk.summary.stop == "closed"
    assert (seen, finished) == (["a"], ["cancelled", "loop ended"])


async def test_closing_from_another_task_waits_for_a_step_that_cannot_be_cancelled():
    started, done = anyio.Event(), []

    async def stubborn(state, nodes, store):
        started.set()
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.03)
        done.append("step")
        return [0.0] * len(nodes)

    policy = Net(TREE, score=stubborn)
    walk = walk_of(policy)

    async def take():
        async for _ in walk:
            pass

    async with anyio.create_task_group() as group:
        group.start_soon(take)
        await started.wait()
        await walk.aclose()
        assert done == ["step"]
        assert walk.summary.stop == "closed"
    assert "expand" not in policy.calls


@on_virtual_clock
async def test_two_tasks_may_not_take_hits_at_once():
    async def slow(state, nodes, store):
        await anyio.sleep(0.03)
        return [0.0] * len(nodes)

    walk = walk_of(Net(score=slow))
    async with anyio.create_task_group() as group:
        group.start_soon(anext, walk)
        await anyio.sleep(0.005)
        with pytest.raises(RuntimeError, match="one task"):
            await anext(walk)
    assert walk.summary is None
    assert await anext(walk, None) is None
    assert walk.summary.stop == "exhausted"


async def test_a_walk_dropped_half_way_leaves_nothing():
    """There is no warning, no task, no reference cycle and no open iterator."""
    opened = Counter()

    class Counting:
        def __init__(self, items):
            self.items = iter(items)

        def __aiter__(self):
            opened["now"] += 1
            return self

        async def __anext__(self):
            await anyio.lowlevel.checkpoint()
            for item in self.items:
                return item
            raise StopAsyncIteration

        async def aclose(self):
            opened["now"] -= 1
            opened["closed"] += 1

    async def expand(state, committed, store):
        return [Counting(count(100)) for _ in committed]

    async def half():
        walk = walk_of(Net(expand=expand))
        seen = 0
        async for _ in walk:
            seen += 1
            assert opened["now"] == 0
            if seen == 10:
                break
        return weakref.ref(walk)

    tasks = len(anyio.get_running_tasks())
    gone = await half()
    assert gone() is None
    gc.collect()
    assert opened["closed"] == 1
    assert len(anyio.get_running_tasks()) == tasks


# The arguments.


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"query": 3}, "query must be a string, not 3"),
        ({"query": None}, "query must be a string"),
        ({"store": "notes"}, "open_corpus('notes')"),
        ({"policy": Net}, "Net(...)"),
        ({"policy": None}, "policy must be given to walk None: the default, PathCoverage, walks an open corpus"),
        ({"policy": object()}, "inherit from airw.Policy"),
        ({"policy": Net(rank=None)}, "has no rank"),
        ({"policy": Net(max_depth=-1)}, "max_depth must be"),
        ({"max_depth": -1}, "max_depth must be a whole number of at least 0, not -1"),
        ({"max_depth": 1.5}, "not 1.5"),
        ({"max_depth": True}, "not True"),
        ({"max_depth": "2"}, "not '2'"),
        ({"node_budget": -1}, "node_budget must be"),
        ({"node_budget": None}, "node_budget must be"),
        ({"node_budget": math.inf}, "not inf"),
        ({"timeout": -0.1}, "timeout must be a number of seconds"),
        ({"timeout": math.nan}, "not nan"),
        ({"timeout": "1"}, "not '1'"),
        ({"timeout": True}, "not True"),
        ({"limits": {"max_hits": 3}}, "limits must be a Limits object"),
        ({"limits": Limits}, "limits must be a Limits object"),
    ],
    ids=plain,
)
def test_a_bad_argument_is_one_line_at_the_call(options, says):
    arguments = {"query": "query", "store": None, "policy": Net()} | options
    with pytest.raises(ArgumentError) as caught:
        traverse(arguments.pop("query"), arguments.pop("store"), **arguments)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["max_depth", "keeps_frontier", "scores_paths"])
def test_a_policy_without_an_attribute_is_refused_by_name(name):
    names = ("seed", "score", "select", "expand", "node_id", "stop", "to_hits", "edge_of", "rank")
    attributes = dict.fromkeys(names, print) | {"max_depth": 1, "keeps_frontier": False, "scores_paths": False}
    del attributes[name]
    with pytest.raises(ArgumentError, match=f"has no {name}"):
        walk_of(type("Bare", (), attributes)())


class Countdown:
    """A policy with the methods that `ir` expects."""

    def seed(self, state, store):
        return [3]

    def score(self, state, node, store):
        return float(node)

    def select(self, state, scored):
        return sorted(scored, key=lambda triple: triple[2], reverse=True)

    def expand(self, state, node, store):
        return [node - 1] if node else []

    def node_id(self, node):
        return node

    def stop(self, state):
        return False

    def to_hit(self, state, node, score, depth):
        return SearchHit(str(node), "number", score, "")


def test_the_error_about_a_per_node_policy_suggests_per_node():
    with pytest.raises(ArgumentError, match=r"airw\.policies\.per_node\(policy\)"):
        walk_of(Countdown())


@pytest.mark.parametrize(("given", "says"), [(Countdown, "instance"), (object(), "has no seed"), (None, "has no seed")])
def test_per_node_refuses_other_objects(given, says):
    with pytest.raises(ArgumentError, match=says):
        per_node(given)


async def test_the_policy_receives_the_store_unchanged():
    store, seen = object(), []

    async def seed(state, given):
        seen.append(given)
        return []

    async with traverse("query", store, policy=Net(seed=seed)) as walk:
        assert await anext(walk, None) is None
    assert seen == [store]


# Order, depth, budget, stop.


async def test_a_step_is_committed_best_first_ties_in_order_of_discovery():
    policy = Net({"a": "vwxyz"}, scores={"w": 2.0, "y": 2.0, "x": 1.0, "z": 1.0, "v": math.inf})
    assert (await ids_of(policy))[0] == ["a", "v", "w", "y", "x", "z"]


async def test_a_node_found_twice_is_scored_and_committed_once():
    scored = []

    async def score(state, nodes, store):
        scored.extend(nodes)
        return [0.0] * len(nodes)

    ids, _ = await ids_of(Net({"a": "bcb", "b": "aabc", "c": "ab"}, seeds="aa", score=score))
    assert ids == scored == ["a", "b", "c"]


CHAIN = {n: [n + 1] for n in range(9)}


@pytest.mark.parametrize(
    ("own", "given", "deepest"), [(None, {}, 9), (2, {}, 2), (2, {"max_depth": None}, 9), (2, {"max_depth": 0}, 0),
                                  (None, {"max_depth": 3}, 3), (0, {"max_depth": 4}, 4)],
)  # fmt: skip
async def test_the_depth_cap_of_the_caller_overrides_that_of_the_policy(own, given, deepest):
    ids, summary = await ids_of(Net(CHAIN, seeds=[0], max_depth=own), **given)
    assert ids == [str(n) for n in range(deepest + 1)]
    assert summary.depth == deepest


@pytest.mark.parametrize("budget", [0, 1, 4, 10])
async def test_at_most_node_budget_nodes_are_committed_routers_included(budget):
    ids, summary = await ids_of(Net(CHAIN, seeds=[0], routers=[0, 2]), node_budget=budget)
    assert ids == [str(n) for n in range(budget) if n not in (0, 2)]
    assert (summary.committed, summary.emitted) == (budget, len(ids))
    assert summary.stop == "node_budget"


def waits(answer):
    async def stop(state):
        await anyio.lowlevel.checkpoint()
        return answer(state)

    return stop


@pytest.mark.parametrize("wrap", [lambda answer: answer, waits], ids=["sync", "async"])
async def test_stop_is_asked_after_each_hit_and_ends_the_walk(wrap):
    seen = []

    def stop(state):
        seen.append(len(state.results))
        return np.bool_(len(state.results) == 3)

    ids, summary = await ids_of(Net(TREE, routers=["b"], stop=wrap(stop)))
    assert ids == ["a", "c", "d"]
    assert seen == [1, 2, 3]
    assert (summary.stop, summary.truncated) == ("sufficient", False)


@pytest.mark.parametrize("answer", [None, 1, "yes"])
@pytest.mark.parametrize("wrap", [lambda answer: answer, waits], ids=["sync", "async"])
async def test_stop_must_return_a_bool(answer, wrap):
    error = await error_of(Net(TREE, stop=wrap(lambda state: answer)))
    assert f"Net.stop returned {answer!r}; return True or False" in str(error)


async def test_stop_wins_over_other_ends():
    _, summary = await ids_of(Net(stop=lambda state: True), node_budget=1, limits=Limits(max_hits=1))
    assert summary.stop == "sufficient"


async def test_selecting_nothing_while_entries_wait_is_sufficient():
    ids, summary = await ids_of(Net(TREE, select=lambda state, frontier: []))
    assert (ids, summary.stop) == ([], "sufficient")
    assert (await ids_of(Net(seeds=[])))[1].stop == "exhausted"


async def test_routers_are_walked_through_but_not_yielded():
    walk = walk_of(Net(TREE, routers=["a", "c"]))
    hits = {hit.artifact_id: hit async for hit in walk}
    assert list(hits) == ["b", "d", "e"]
    assert walk.path(hits["e"]) == ["a", "c", "e"]
    assert (walk.summary.emitted, walk.summary.routed) == (3, 2)


async def test_a_walk_of_routers_only_ends():
    ids, summary = await ids_of(Net(CHAIN, seeds=[0], routers=range(10)))
    assert (ids, summary.stop, summary.routed) == ([], "exhausted", 10)


async def test_a_long_step_is_materialised_in_slices_of_512_as_hits_are_taken():
    sizes = []

    async def to_hits(state, committed, store):
        sizes.append(len(committed))
        return [hit_of(entry) for entry in committed]

    walk = walk_of(Net({"a": range(1000)}, seeds=["a"], to_hits=to_hits), node_budget=2000)
    ids = []
    async for hit in walk:
        ids.append(hit.artifact_id)
        assert sizes == {1: [1], 513: [1, 512], 514: [1, 512, 488]}.get(len(ids), sizes)
    assert ids == ["a", *map(str, range(1000))]
    assert sizes == [1, 512, 488]


# Answers of select.


async def test_select_determines_the_order_of_commitment():
    policy = Net({"a": "bcd"}, select=lambda state, frontier: [int(at) for at in frontier.live[::-1]])
    assert (await ids_of(policy))[0] == ["a", "d", "c", "b"]


@pytest.mark.parametrize(
    "select",
    [
        lambda state, frontier: frontier.live[::-1],
        lambda state, frontier: iter(frontier.live.tolist()[::-1]),
        lambda state, frontier: tuple(frontier.fresh)[::-1],
        waits(lambda state: None),
    ],
    ids=["array", "iterator", "range of fresh", "awaitable"],
)
async def test_select_may_return_any_iterable_of_positions(select):
    async def select_later(state, frontier):
        return frontier.live[::-1]

    policy = Net({"a": "bcd"}, select=select_later if select.__name__ == "stop" else select)
    assert (await ids_of(policy))[0] == ["a", "d", "c", "b"]


async def test_entries_not_selected_are_dropped_or_wait():
    def first(state, frontier):
        return frontier.best_first(1)

    edges, scores = {"a": "bc", "b": "d"}, {"b": 2.0, "c": 1.0}
    assert (await ids_of(Net(edges, scores=scores, select=first)))[0] == ["a", "b", "d"]
    kept = Net(edges, scores=scores, select=first, keeps_frontier=True)
    assert (await ids_of(kept))[0] == ["a", "b", "c", "d"]


async def test_repeats_from_select_are_skipped():
    def select(state, frontier):
        return [at for at in frontier.live for _ in range(2)]

    ids, summary = await ids_of(Net({"a": "bcde"}, select=select))
    assert ids == ["a", "b", "c"], "as many positions are read as wait: b b c c"
    assert summary.committed == 3


@pytest.mark.parametrize("bad", [-1, 99, 10**30, 0.0, "0", None, True, np.bool_(True), [0], np.array([0])], ids=plain)  # noqa: FBT003
async def test_the_error_about_an_invalid_position_names_it(bad):
    error = await error_of(Net(TREE, select=lambda state, frontier: [bad]))
    assert "Net.select" in str(error)
    assert "position" in str(error)


async def test_a_position_committed_before_is_no_longer_live():
    error = await error_of(Net(TREE, keeps_frontier=True, select=lambda state, frontier: [0]))
    assert "position 0, where no node waits" in str(error)


@pytest.mark.parametrize("bad", [None, 3, np.array(0), np.array([[0]]), np.array([True]), np.array([0.0])], ids=plain)
async def test_a_selection_without_positions_is_a_policy_error(bad):
    error = await error_of(Net(TREE, select=lambda state, frontier: bad))
    assert str(error).startswith("Net.select ")
    assert "position" in str(error)
    assert "raised in Net.select during a walk" in error.__notes__


async def test_a_type_error_inside_a_select_generator_arrives_as_itself():
    def select(state, frontier):
        yield 0
        raise TypeError("mine")

    policy = Net(seeds="abc", select=select)
    error = await error_of(policy, TypeError)
    assert (str(error), error.__notes__) == ("mine", ["raised in Net.select during a walk"])


async def test_positions_are_columns_and_cannot_be_written():
    seen = []

    def select(state, frontier):
        seen.append((list(frontier.ids), list(frontier.depths), frontier.scores.tolist(), frontier.live.tolist()))
        assert frontier.nodes[:] == list(frontier.ids)
        with pytest.raises(ValueError):  # noqa: PT011 - in the words of numpy
            frontier.scores[0] = 9.0
        with pytest.raises(TypeError):
            frontier.depths[0] = 9
        return frontier.live

    await ids_of(Net({"a": "bc"}, scores={"c": 5.0}, select=select))
    assert seen == [(["a"], [0], [0.0], [0]), (["a", "b", "c"], [0, 1, 1], [0.0, 0.0, 5.0], [1, 2])]


# Scores.


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        ([0.0, math.nan], "Net.score returned NaN for node 'b'"),
        (np.array([0.0, np.nan], np.float32), "Net.score returned NaN for node 'b'"),
        ([0.0, None], "'b'"),
        ([0.0], "2 numbers"),
        ([0.0] * 3, "2 numbers"),
        ([[0.0], [0.0]], "2 numbers"),
        (1.0, "2 numbers"),
        (None, "Net.score"),
        (["1.5", "2"], "Net.score returned scores that are not numbers"),
        ([0.0, "x"], "Net.score returned scores that are not numbers"),
        ([1j, 0.0], "Net.score returned scores that are not numbers"),
        (np.array([1j, 0.0]), "Net.score returned scores that are not numbers"),
        (count(), "Net.score"),
        ([[0.0], 0.0], "Net.score returned scores that are not numbers"),
    ],
    ids=plain,
)
async def test_unusable_scores_name_the_policy_and_the_node(scores, says):
    async def score(state, nodes, store):
        return scores

    assert says in str(await error_of(Net(seeds="ab", score=score)))


@pytest.mark.parametrize("scores", [[1, 2], (1.5, np.float32(2)), np.array([1, 2], np.int8), [Fraction(1, 2), 1.0]])
async def test_any_real_numbers_do_for_scores(scores):
    async def score(state, nodes, store):
        return scores

    assert (await ids_of(Net(seeds="ab", score=score)))[0] == ["b", "a"]


async def test_infinite_scores_are_allowed_and_null_in_json():
    walk = walk_of(Net(seeds="abc", scores={"a": -math.inf, "b": math.inf}))
    hits = [hit async for hit in walk]
    assert [hit.score for hit in hits] == [math.inf, 0.0, -math.inf]
    assert [json.loads(json.dumps(hit.to_dict()))["score"] for hit in hits] == [None, 0.0, None]


# Failure.


STAGES = ["seed", "score", "select", "expand", "node_id", "stop", "to_hits", "edge_of"]


@pytest.mark.pairwise
@pytest.mark.parametrize("what", STAGES)
@pytest.mark.parametrize("kind", [KeyError, RuntimeError, TypeError, TimeoutError, StopIteration, StopAsyncIteration])
async def test_an_error_of_a_policy_ends_the_walk_as_itself_with_a_note(what, kind):
    def fails(*arguments):
        raise kind("mine")

    async def fails_async(*arguments):
        raise kind("mine")

    is_async = what in ("seed", "score", "expand", "to_hits")
    policy = Net(TREE, **{what: fails_async if is_async else fails})
    if issubclass(kind, StopIteration | StopAsyncIteration):
        error = await error_of(policy)
        assert str(error) == f"Net.{what} raised {kind.__name__}; return instead"
        assert error.__cause__ is not None
    else:
        error = await error_of(policy, kind)
        assert error.args == ("mine",)
        assert any(f"Net.{what}" in note for note in error.__notes__)


async def test_hits_before_a_failure_stay_valid_and_the_ranking_can_be_asked():
    async def expand(state, committed, store):
        raise OSError("disk")

    walk = walk_of(Net(expand=expand))
    assert (await anext(walk)).artifact_id == "a"
    with pytest.raises(OSError, match="disk"):
        await anext(walk)
    assert (walk.summary.stop, walk.summary.emitted) == ("failed", 1)
    assert [hit.artifact_id for hit in walk.ranking] == ["a"]


@pytest.mark.parametrize("what", ["node_id", "edge_of"])
async def test_an_error_about_one_node_names_the_node(what):
    def fails(node):
        if node == "c":
            raise KeyError(node)
        return node if what == "node_id" else None

    error = await error_of(Net(TREE, **{what: fails}), KeyError)
    assert any("'c'" in note for note in error.__notes__)


@pytest.mark.parametrize("lazily", ["sync", "async"])
async def test_an_error_while_neighbours_are_read_names_the_node(lazily):
    def some():
        yield "x"
        raise OSError("gone")

    async def some_async():
        yield "x"
        raise OSError("gone")

    read = some if lazily == "sync" else some_async
    error = await error_of(Net({"a": "bc", "c": read()}), OSError)
    assert any("Net.expand" in note for note in error.__notes__)
    assert any("'c'" in note for note in error.__notes__)


@pytest.mark.parametrize("method", ["score", "expand", "to_hit"])
@pytest.mark.parametrize("limit", [1, 16])
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_an_error_of_a_per_node_policy_names_the_node(method, limit, form):
    def check(*arguments):
        if arguments[1] == 1:
            raise OSError("gone")
        return getattr(Countdown(), method)(*arguments)

    async def check_async(*arguments):
        return check(*arguments)

    policy = Countdown()
    setattr(policy, method, check if form == "sync" else check_async)
    error = await error_of(per_node(policy), OSError, max_depth=3, limits=Limits(max_concurrency=limit))
    assert any(note.endswith("for node 1") for note in error.__notes__)


@pytest.mark.parametrize("answer", [None, 3, [], [None] * 2, repeat(None)], ids=plain)
@pytest.mark.parametrize("what", ["to_hits", "expand"])
async def test_to_hits_and_expand_must_return_one_answer_per_node(what, answer):
    async def gives(state, committed, store):
        return answer

    error = await error_of(Net(TREE, **{what: gives}))
    assert str(error).startswith(f"Net.{what} returned ")
    assert str(error).endswith("; return a list with one item per committed node (1)")


@pytest.mark.parametrize("offered", [3, "bc", b"bc", None, {"a": 1}.get], ids=plain)
async def test_neighbours_must_be_an_iterable_of_nodes(offered):
    async def expand(state, committed, store):
        return [offered]

    assert "iterable or async iterable of nodes" in str(await error_of(Net(expand=expand)))


async def test_an_unhashable_node_id_is_named():
    assert "node_id returned ['a'] for node 'a'; return something hashable" in str(
        await error_of(Net(node_id=lambda node: [node]))
    )


@pytest.mark.parametrize("hit", ["a", 3, SearchHit("a", "node", 0.0, "", metadata=None)], ids=plain)
async def test_the_error_about_an_invalid_hit_names_it(hit):
    async def to_hits(state, committed, store):
        return [hit]

    assert "SearchHit values with a metadata dict" in str(await error_of(Net(to_hits=to_hits)))


# Metadata of hits and of walks.


async def test_hits_contain_how_they_were_reached():
    edges = {"a": ["b"], "b": ["c"]}
    walk = walk_of(Net(edges, edge_of=lambda node: Edge("x", "y", "REF") if node == "c" else None))
    a, b, c = [hit.metadata async for hit in walk]
    assert a == {"walk_depth": 0, "walk_parent": None, "walk_path": ["a"]}
    assert b == {"walk_depth": 1, "walk_parent": "a", "walk_path": ["a", "b"], "seed": "a"}
    assert c == {"walk_depth": 2, "walk_parent": "b", "walk_path": ["a", "b", "c"], "seed": "a", "walk_edge": "REF"}


async def test_a_policys_own_seed_stays():
    async def to_hits(state, committed, store):
        return [SearchHit(entry.id, "node", 0.0, "", {"seed": "mine"}) for entry in committed]

    assert [hit.metadata["seed"] async for hit in walk_of(Net({"a": "b"}, to_hits=to_hits))] == ["mine", "mine"]


async def test_the_seed_is_the_artifact_of_the_ancestor_at_depth_0():
    async def to_hits(state, committed, store):
        return [SearchHit(entry.id.upper(), "node", 0.0, "") for entry in committed]

    walk = walk_of(Net({"a": "b", "b": "c", "x": "y"}, seeds="ax", to_hits=to_hits))
    seeds = {hit.artifact_id: hit.metadata.get("seed") async for hit in walk}
    assert seeds == {"A": None, "X": None, "B": "A", "C": "A", "Y": "X"}


async def test_hits_contain_paths_up_to_depth_64_and_walk_path_returns_all():
    walk = walk_of(Net({n: [n + 1] for n in range(70)}, seeds=[0]), node_budget=70)
    hits = [hit async for hit in walk]
    assert hits[64].metadata["walk_path"] == list(range(65))
    assert "walk_path" not in hits[65].metadata
    assert walk.path(hits[69]) == list(range(70))


async def test_tuple_ids_are_lists_in_json():
    walk = walk_of(Net({("s", "a"): [("s", "b")]}, seeds=[("s", "a")]))
    metadata = [hit.to_dict()["metadata"] async for hit in walk][1]
    assert (metadata["walk_parent"], metadata["walk_path"]) == (["s", "a"], [["s", "a"], ["s", "b"]])


async def test_two_nodes_with_the_same_surface_have_paths_of_their_own():
    async def to_hits(state, committed, store):
        return [SearchHit("same", "chunk", 0.0, entry.id) for entry in committed]

    walk = walk_of(Net({"a": "bc"}, to_hits=to_hits))
    assert [walk.path(hit) async for hit in walk] == [["a"], ["a", "b"], ["a", "c"]]
    assert len(walk.ranking) == 3


async def test_the_path_of_a_foreign_hit_is_an_argument_error():
    walk = walk_of(Net())
    with pytest.raises(ArgumentError, match="'z' is not of this walk"):
        walk.path(SearchHit("z", "node", 0.0, ""))


async def test_a_waiting_entry_found_on_a_shorter_path_takes_its_depth_parent_and_edge():
    """x is found at depth 3, waits, and is found again at depth 2."""
    edges = {"s": "ab", "a": "c", "c": ["far"], "b": ["near"]}
    order = ["s", "a", "c", "b", "x"]

    def select(state, frontier):
        waiting = {frontier.ids[at]: at for at in frontier.live}
        return [waiting[next(id for id in order if id in waiting)]]

    policy = Net(
        edges, seeds="s", select=select, keeps_frontier=True,
        node_id=lambda node: "x" if node in ("far", "near") else node,
        edge_of=lambda node: Edge("p", "x", node),
    )  # fmt: skip
    hits = {hit.artifact_id: hit.metadata async for hit in walk_of(policy)}
    assert list(hits) == order
    assert (hits["x"]["walk_depth"], hits["x"]["walk_parent"], hits["x"]["walk_edge"]) == (2, "b", "near")


async def test_a_policy_that_scores_paths_sees_one_entry_per_path():
    seen = []

    def select(state, frontier):
        seen.append([frontier.nodes[at] for at in frontier.live])
        return frontier.best_first()

    policy = Net(
        {"a": "bc", "b": [("d", 1)], "c": [("d", 2)]}, scores={("d", 2): 1.0}, scores_paths=True, select=select,
        node_id=lambda node: node[0],
    )  # fmt: skip
    hits = [hit async for hit in walk_of(policy)]
    assert seen[2] == [("d", 1), ("d", 2)]
    assert [(hit.artifact_id, hit.metadata["walk_parent"], hit.score) for hit in hits][3:] == [("d", "c", 1.0)]


async def test_the_state_contains_visited_nodes_with_depths_and_parents():
    seen = []

    async def expand(state, committed, store):
        seen.append((state.query, state.node_budget, state.max_depth, set(state.visited), len(state.results)))
        seen.append((state.depth_of("a"), state.parent_of("a"), state.depth_of("c"), state.parent_of("c")))
        return [TREE.get(entry.id, ()) for entry in committed]

    await ids_of(Net(expand=expand), node_budget=3)
    assert seen == [("query", 3, None, {"a"}, 1), (0, None, None, None)]


# The ranking.


async def test_the_ranking_is_available_once_the_walk_has_ended():
    walk = walk_of(Net({"a": "bc"}, scores={"c": 2.0, "b": 1.0}))
    assert walk.ranking is None
    await anext(walk)
    assert (walk.ranking, walk.summary) == (None, None)
    assert [hit.artifact_id async for hit in walk] == ["c", "b"]
    assert [hit.artifact_id for hit in walk.ranking] == ["c", "b", "a"]


async def test_a_ranking_may_omit_and_replace_hits():
    def rank(state, hits):
        return [SearchHit(hit.artifact_id, hit.surface_kind, 7.0, "new") for hit in hits[:0:-1]]

    walk = walk_of(Net({"a": "bc"}, rank=rank))
    assert [hit.artifact_id async for hit in walk] == ["a", "b", "c"]
    assert [(hit.artifact_id, hit.score) for hit in walk.ranking] == [("c", 7.0), ("b", 7.0)]


@pytest.mark.parametrize(
    "rank",
    [
        lambda state, hits: [*hits, SearchHit("z", "node", 0.0, "")],
        lambda state, hits: [*hits[:1], SearchHit("z", "node", 0.0, "")],
        lambda state, hits: [hits[0], hits[0]],
        lambda state, hits: repeat(hits[0]),
    ],
    ids=["another", "in place of one", "one twice", "one for ever"],
)
async def test_a_ranking_that_adds_hits_is_a_policy_error(rank):
    walk = walk_of(Net({"a": "bc"}, rank=rank))
    assert len([hit async for hit in walk]) == 3
    with pytest.raises(PolicyError, match=r"Net\.rank returned a hit that the walk did not yield"):
        _ = walk.ranking


async def test_top_k_returns_the_start_of_the_ranking():
    policy = Net({"a": "bcd"}, scores={"d": 3.0, "b": 2.0})
    assert [hit.artifact_id for hit in await top_k(walk_of(policy), 2)] == ["d", "b"]
    assert [hit.artifact_id for hit in await top_k(walk_of(policy))] == ["d", "b", "a", "c"]
    assert await top_k(walk_of(policy), k=0) == []


async def test_top_k_checks_its_arguments_before_it_walks():
    policy = Net()
    walk = walk_of(policy)
    with pytest.raises(ArgumentError, match="k must be"):
        await top_k(walk, k=-1)
    with pytest.raises(ArgumentError, match=r"airw\.traverse"):
        await top_k([1, 2])
    assert not policy.calls
    assert isinstance(walk, Walk)


async def test_the_summary_is_valid_json():
    _, summary = await ids_of(Net(TREE), node_budget=1, limits=Limits(count_beyond_limits=True))
    told = json.loads(json.dumps(summary.to_dict()))
    assert told.pop("seconds") >= 0
    assert told == {
        "stop": "node_budget", "committed": 1, "emitted": 1, "routed": 0, "steps": 1, "edges": 0, "depth": 0,
        "left_out": {"node_budget": 2}, "at_least": [], "unknown": [], "lost": [], "improved": 0, "truncated": True,
    }  # fmt: skip
