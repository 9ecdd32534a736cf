"""The memory of a walk, made once per walk by the policy, and policies with wrong methods."""

from dataclasses import dataclass, field

import pytest

import airw
from airw.errors import PolicyError


@dataclass
class Seen:
    nodes: list = field(default_factory=list)


@dataclass(frozen=True)
class Countdown(airw.Policy[Seen]):
    start: int = 3

    def begin(self, state):
        return Seen()

    async def seed(self, state, store):
        return [self.start]

    async def score(self, state, nodes, store):
        state.memory.nodes += nodes
        return [0.0] * len(nodes)

    async def expand(self, state, committed, store):
        return [[entry.node - 1] if entry.node else [] for entry in committed]

    async def to_hits(self, state, committed, store):
        return [airw.SearchHit(str(entry.node), "number", entry.score, "") for entry in committed]


async def test_each_walk_has_its_own_memory():
    policy = Countdown()
    walks = [airw.traverse("count", None, policy=policy) for _ in range(2)]
    for walk in walks:
        assert len([hit async for hit in walk]) == 4
    memories = [walk._stages.state.memory for walk in walks]
    assert memories == [Seen([3, 2, 1, 0])] * 2
    assert memories[0] is not memories[1]


@pytest.mark.parametrize("ends", ["closed", "timeout"])
async def test_a_walk_that_ends_before_it_begins_has_an_empty_ranking(ends):
    class Ranking(Countdown):
        def rank(self, state, hits):
            return hits[: len(state.memory.nodes)]  # there is no memory yet

    walk = airw.traverse("count", None, policy=Ranking(), timeout=0)
    if ends == "timeout":
        assert [hit async for hit in walk] == []
    await walk.aclose()
    assert (walk.summary.stop, walk.ranking) == (ends, [])


async def test_begin_is_called_once_per_walk_before_seed():
    calls = []

    class Noting(Countdown):
        def begin(self, state):
            calls.append(("begin", state.memory, state.query, state.node_budget))
            return super().begin(state)

        async def seed(self, state, store):
            calls.append(("seed", state.memory))
            return await super().seed(state, store)

    walk = airw.traverse("count", None, policy=Noting(), node_budget=3)
    assert calls == []
    assert len([hit async for hit in walk]) == 3
    assert calls[0] == ("begin", None, "count", 3)
    assert [name for name, *_ in calls] == ["begin", "seed"]


class Structural:
    """A policy that inherits nothing and has no `begin`."""

    max_depth, keeps_frontier, scores_paths = None, False, False

    def __init__(self):
        self.memories = []

    async def seed(self, state, store):
        self.memories.append(state.memory)
        return [1, 2]

    async def score(self, state, nodes, store):
        return [float(node) for node in nodes]

    def select(self, state, frontier):
        return frontier.best_first()

    async def expand(self, state, committed, store):
        return [[] for _ in committed]

    def node_id(self, node):
        return node

    def stop(self, state):
        return False

    async def to_hits(self, state, committed, store):
        return [airw.SearchHit(str(entry.id), "number", entry.score, "") for entry in committed]

    def edge_of(self, node):
        return None

    def rank(self, state, hits):
        return hits


@pytest.mark.parametrize("begin", ["missing", None, 7])
async def test_without_begin_the_memory_is_none(begin):
    policy = Structural()
    if begin != "missing":
        policy.begin = begin  # an attribute with this name that is no method
    assert [hit.artifact_id async for hit in airw.traverse("", None, policy=policy)] == ["2", "1"]
    assert policy.memories == [None]


async def test_a_node_is_its_own_id():
    assert airw.Policy().node_id((1, "a")) == (1, "a")


def plain(name):
    """A policy with one method that lacks `async`."""

    def forgetful(self, state, *arguments):
        return [1]

    return type("Forgetful", (Countdown,), {name: forgetful})()


@pytest.mark.parametrize("name", ["seed", "score", "expand", "to_hits"])
async def test_a_method_that_is_not_async_is_an_error_that_names_it(name):
    walk = airw.traverse("count", None, policy=plain(name))
    with pytest.raises(
        PolicyError, match=rf"^Forgetful\.{name} returned \[1\], which cannot be awaited; write `async def`"
    ):
        _ = [hit async for hit in walk]
    assert walk.summary.stop == "failed"


async def test_an_async_generator_is_refused_as_an_async_method():
    class Yields(Countdown):
        async def seed(self, state, store):
            yield 1

    with pytest.raises(
        PolicyError, match=r"^Yields\.seed returned <async_generator .*, which cannot be awaited; write `async def`"
    ):
        await anext(airw.traverse("count", None, policy=Yields()))


async def test_begin_is_a_plain_function():
    class Waits(Countdown):
        async def begin(self, state):
            return Seen()

    with pytest.raises(PolicyError, match=r"^Waits\.begin must be a plain function, not an `async def`"):
        await anext(airw.traverse("count", None, policy=Waits()))


async def test_an_error_in_begin_names_the_method():
    class Fails(Countdown):
        def begin(self, state):
            raise ValueError("no memory")

    walk = airw.traverse("count", None, policy=Fails())
    with pytest.raises(ValueError, match="no memory") as caught:
        await anext(walk)
    assert caught.value.__notes__ == ["raised in Fails.begin during a walk"]
    assert walk.summary.stop == "failed"
