"""Slips of a policy: they end a walk with a `PolicyError` that names the mend."""

import gc
import math
import traceback
from contextlib import aclosing
from copy import copy
from itertools import count, repeat

import anyio
import numpy as np
import pytest

from airw.errors import AirwError, ArgumentError, PolicyError
from airw.policies import per_node
from airw.traversal import traverse
from airw.values import Edge, Limits, SearchHit
from airw.walking import LazyNeighbors, Policy

HIT = SearchHit("0", "node", 0.0, "")


class Sound(Policy):
    """A sound policy on a small graph; a subclass breaks one method."""

    keeps_frontier = True
    edges = {0: [1, 2], 1: [3], 2: [3, 4]}  # noqa: RUF012 - never changed

    async def seed(self, state, store):
        return [0]

    async def score(self, state, nodes, store):
        return [1.0] * len(nodes)

    async def expand(self, state, committed, store):
        return [self.edges.get(entry.id, []) for entry in committed]

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.id), "node", entry.score, "") for entry in committed]


class SoundByNode:
    """The same policy, one node at a time."""

    def seed(self, state, store):
        return [0]

    def score(self, state, node, store):
        return 1.0

    def expand(self, state, node, store):
        return Sound.edges.get(node, [])

    def node_id(self, node):
        return node

    def select(self, state, scored):
        return scored

    def stop(self, state):
        return False

    def to_hit(self, state, node, score, depth):
        return SearchHit(str(node), "node", score, "")


class Restless:
    """An object with another hash at each call."""

    hashes = count()

    def __hash__(self):
        return next(self.hashes)


def broken(base, method, replacement):
    """Return a policy whose method is another function."""
    return type("Broken", (base,), {method: replacement})()


async def walk_to_end(policy, *, as_events=False):
    """Run a walk with low limits to its end, and use all that a consumer uses."""
    limits = Limits(max_fanout=50, max_edges=200, max_frontier=100)
    walk = traverse("query", None, policy=policy, node_budget=8, limits=limits)
    with anyio.fail_after(30):
        async with aclosing(walk):
            if as_events:
                async for _ in walk.events():
                    pass
            else:
                async for hit in walk:
                    walk.path(hit)
        return walk.ranking


async def error_of(policy, kind=PolicyError):
    """Return the error of a walk; check that it is one line."""
    with pytest.raises(kind) as caught:
        await walk_to_end(policy)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# The mend for each slip.


async def test_a_plain_seed_is_told_to_be_async():
    message = await error_of(broken(Sound, "seed", lambda self, state, store: [0]))
    assert message == "Broken.seed returned [0], which cannot be awaited; write `async def` and `return`"


@pytest.mark.parametrize("answer", [HIT, None, "hit"], ids=["hit", "None", "text"])
async def test_to_hits_is_told_to_return_a_list(answer):
    async def to_hits(self, state, committed, store):
        return answer

    message = await error_of(broken(Sound, "to_hits", to_hits))
    assert message.startswith("Broken.to_hits returned ")
    assert message.endswith("return a list with one item per committed node (1)")


@pytest.mark.parametrize("score", [None, "high", [1.0]], ids=repr)
async def test_a_hit_is_told_to_have_a_number_as_score(score):
    async def to_hits(self, state, committed, store):
        return [SearchHit("0", "node", score, "")] * len(committed)

    assert "return SearchHit values with a metadata dict and a number as score" in await error_of(
        broken(Sound, "to_hits", to_hits)
    )


@pytest.mark.parametrize("as_events", [False, True])
@pytest.mark.parametrize("edge", ["links", 3, (0, 1, "links"), [Edge(0, 1, "links")]], ids=str)
async def test_edge_of_is_told_to_return_an_edge(edge, as_events):
    policy = broken(Sound, "edge_of", lambda self, node: edge if node else None)
    with pytest.raises(PolicyError, match=r"^Broken.edge_of returned .*; return an Edge or None\n") as caught:
        await walk_to_end(policy, as_events=as_events)
    assert any("for node 1" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("paths", [False, True])
async def test_node_id_is_told_to_return_an_id_that_stays_the_same(paths):
    policy = broken(Sound, "node_id", lambda self, node: restless[node])
    restless, policy.scores_paths = [Restless() for _ in range(5)], paths
    message = await error_of(policy)
    assert message.startswith("Broken.node_id returned ")
    assert "whose hash has changed since; return an id that stays the same" in message


async def test_an_id_that_changes_its_hash_later_is_found_out_where_it_is_looked_up():
    class Late:
        hash = 1

        def __hash__(self):
            return self.hash

    late = Late()
    walk = traverse("query", None, policy=broken(Sound, "node_id", lambda self, node: node or late))
    hit = await anext(walk)
    late.hash = 2
    with pytest.raises(PolicyError, match="whose hash has changed"):
        walk.path(hit)
    with pytest.raises(PolicyError, match="whose hash has changed"):
        await anext(walk)


@pytest.mark.parametrize("answer", [HIT, None, [None], ["0"], 3], ids=["hit", "None", "[None]", "[text]", "3"])
async def test_rank_is_told_to_return_a_list_of_hits(answer):
    message = await error_of(broken(Sound, "rank", lambda self, state, hits: answer))
    assert message.startswith("Broken.rank returned ")
    assert message.endswith("return a list of hits of the walk")


@pytest.mark.parametrize("number", [np.int64, np.float64])
async def test_numbers_of_numpy_may_be_ids(number):
    async def seed(self, state, store):
        return [number(0)]

    assert len(await walk_to_end(broken(Sound, "seed", seed))) == 5


async def wait(self, *arguments):
    return 0


def yield_one(self, *arguments):
    yield 0


async def yield_one_async(self, *arguments):
    yield 0


@pytest.mark.parametrize("replacement", [wait, yield_one_async], ids=lambda function: function.__name__)
@pytest.mark.parametrize("method", ["node_id", "edge_of", "begin", "rank"])
async def test_a_plain_method_is_told_not_to_wait(method, replacement):
    message = await error_of(broken(Sound, method, replacement))
    assert message == f"Broken.{method} must be a plain function, not an `async def`; write `def` and `return`"
    gc.collect()  # no coroutine is left that was never awaited; a warning would be an error


@pytest.mark.parametrize("method", ["seed", "score", "select", "expand", "node_id", "to_hits", "edge_of", "rank"])
async def test_a_method_with_other_parameters_is_named(method):
    message = await error_of(broken(Sound, method, lambda self: None))
    assert message.startswith(f"Broken.{method} cannot be called, or its answer cannot be used: ")


@pytest.mark.parametrize("method", ["score", "expand", "to_hit"])
async def test_a_method_of_a_per_node_policy_with_other_parameters_is_named(method):
    message = await error_of(per_node(broken(SoundByNode, method, lambda self: None)))
    assert message.startswith(f"Broken.{method} cannot be called, or its answer cannot be used: ")


@pytest.mark.parametrize("name", ["keeps_frontier", "scores_paths"])
@pytest.mark.parametrize("value", [None, 1, "no", lambda self: False], ids=["None", "1", "no", "method"])
async def test_a_switch_of_a_policy_is_a_bool(name, value):
    with pytest.raises(ArgumentError, match=rf"^{name} of the policy Broken must be True or False, not "):
        traverse("query", None, policy=broken(Sound, name, value))


@pytest.mark.parametrize("method", ["node_id", "edge_of"])
async def test_a_method_that_yields_is_named(method):
    message = await error_of(broken(Sound, method, yield_one))
    assert message.startswith(f"Broken.{method} returned <generator object ")


async def test_rank_may_yield_the_hits():
    def rank(self, state, hits):
        yield from hits[:2]

    assert len(await walk_to_end(broken(Sound, "rank", rank))) == 2


# Errors of a policy, whatever they do with notes.


class Stubborn(Exception):
    def add_note(self, note):
        raise OSError("no notes")


@pytest.mark.pairwise
@pytest.mark.parametrize("notes", [None, 5, "note", ("note",), ["note", None]], ids=repr)
@pytest.mark.parametrize("method", ["seed", "score", "expand", "to_hits", "node_id", "edge_of", "stop", "rank"])
async def test_an_error_with_strange_notes_is_raised_unchanged(method, notes):
    mine = ValueError("mine")
    mine.__notes__ = copy(notes)

    def fail(self, *arguments):
        raise mine

    with pytest.raises(ValueError) as caught:  # noqa: PT011 - pytest could not match these notes
        await walk_to_end(broken(Sound, method, fail))
    assert caught.value is mine
    assert any(f"raised in Broken.{method}" in str(note) for note in mine.__notes__)


@pytest.mark.parametrize("method", ["seed", "expand", "node_id", "edge_of"])
async def test_an_error_that_refuses_notes_is_raised_unchanged(method):
    def fail(self, *arguments):
        raise Stubborn

    with pytest.raises(Stubborn):
        await walk_to_end(broken(Sound, method, fail))


# Every method with every kind of answer.

ANSWERS = {
    "None": None, "5": 5, "-1": -1, "NaN": math.nan, "True": True, "1j": 1j, "10**400": 10**400, "text": "text",
    "bytes": b"ab", "object": object(), "[]": [], "[None]": [None], "[0]": [0], "[[0]]": [[0]], "{}": {},
    "{0: 0}": {0: 0}, "{0}": {0}, "(0,)": (0,), "[(0, 1.0)]": [(0, 1.0)], "[{}]": [{}], "range": range(10**9),
    "[range]": [range(10**9)],
    "array(3.0)": np.array(3.0), "2d": np.zeros((2, 2)), "objects": np.array([object()]), "edge": Edge(0, 1, "x"),
    "hit": HIT, "hits": [HIT], "[hit without metadata]": [SearchHit("0", "node", 0.0, "", None)],
    "[hit with a list as id]": [SearchHit([], "node", 0.0, "")],
    "[hit with text as score]": [SearchHit("0", "node", "", "")],
    "[hit of a list]": [SearchHit("0", "node", 0.0, "", {}, [])], "class": SearchHit, "function": repeat,
    "restless": Restless(), "[restless]": [Restless()], "lazy": LazyNeighbors([1], lambda part: [1][part]),
    "[lazy None]": [LazyNeighbors(None, None)], "[lazy short]": [LazyNeighbors([1, 2], lambda part: [1])],
}  # fmt: skip
MADE = {
    "count": count, "repeat": lambda: repeat(0), "[count]": lambda: [count()], "generator": lambda: yield_one(None),
    "[generator]": lambda: [yield_one(None)], "async generator": lambda: yield_one_async(None),
    "[async generator]": lambda: [yield_one_async(None)], "array": lambda: np.zeros(1),
}  # fmt: skip
FORMS = {
    Sound: ("seed", "score", "select", "expand", "node_id", "stop", "to_hits", "edge_of", "rank", "begin"),
    SoundByNode: ("seed", "score", "select", "expand", "node_id", "stop", "to_hit"),
}
AWAITED = ("seed", "score", "expand", "to_hits")


def answering(form, method, make):
    """Return a policy whose method returns what `make` makes."""

    async def answer_later(self, *arguments):
        return make()

    is_awaited = form is Sound and method in AWAITED
    policy = broken(form, method, answer_later if is_awaited else lambda self, *arguments: make())
    return policy if form is Sound else per_node(policy)


@pytest.mark.parametrize(("form", "method"), [(form, method) for form, methods in FORMS.items() for method in methods])
async def test_every_answer_ends_the_walk_soundly_or_in_an_error_of_the_library(form, method):
    makers = MADE | {name: (lambda answer=answer: answer) for name, answer in ANSWERS.items()}
    faults = []
    for name, make in makers.items():
        for as_events in (False, True):
            try:
                await walk_to_end(answering(form, method, make), as_events=as_events)
            except AirwError as error:
                if "\n" in str(error) or len(str(error)) > 600:
                    faults.append((name, str(error)))
            except Exception as error:  # noqa: BLE001 - any other error is a fault
                faults.append((name, traceback.format_exception(error)[-2:]))
    assert faults == []
