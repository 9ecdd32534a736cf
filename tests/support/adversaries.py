"""Policies that misbehave at one stage of a walk, and endless sources that count items.

The policies come in three forms: whole steps, one node at a time, and one node at a time with async methods.
"""

import inspect
import threading
from collections import Counter
from contextlib import asynccontextmanager
from itertools import chain, count

import anyio
import pytest

from airw.policies import per_node
from airw.traversal import traverse
from airw.values import Edge, Limits, SearchHit
from airw.walking import Policy

STAR = {0: [1, 2, 3, 4, 5]}
CHAIN = {n: [n + 1] for n in range(9)}
PATIENCE = 60  # seconds until a walk counts as hanging; long enough for a busy machine


class Graph:
    """A graph in a dict or a function that calls `do(state)` at the stage named `at`.

    Stages are the methods of a policy, and the reading of the two lazy answers: "read seeds" and "read neighbours". An
    awaitable that `do` returns is awaited.
    """

    max_depth = None

    def __init__(self, edges=None, seeds=(0,), *, at=None, do=None, **replaced):
        self.neighbors = edges if callable(edges) else lambda node: (edges or {}).get(node, ())
        self.seeds, self.at, self.do, self.state = seeds, at, do, None
        self.calls = Counter()
        for name, value in replaced.items():
            setattr(self, name, value)

    def reach(self, stage, state, answer):
        """Call `do` if this is its stage, then return the answer or an awaitable of it."""
        self.calls[stage] += 1
        self.state = self.state if state is None else state
        done = self.do(self.state) if stage == self.at else None
        return self._after(done, answer) if inspect.isawaitable(done) else answer

    async def _after(self, done, answer):
        await done
        return answer

    def lazily(self, stage, items):
        """Return the items unchanged, or an iterator over them if `do` belongs to their reading."""
        return self._one_by_one(stage, items) if stage == self.at else items

    async def _one_by_one(self, stage, items):
        await settle(self.reach(stage, None, None))
        for item in items:
            yield item

    def node_id(self, node):
        return self.reach("node_id", None, node)

    def stop(self, state):
        return self.reach("stop", state, False)  # noqa: FBT003 (the answer)


class Batched(Graph, Policy):
    """A policy that handles whole steps."""

    async def seed(self, state, store):
        return await settle(self.reach("seed", state, self.lazily("read seeds", self.seeds)))

    async def score(self, state, nodes, store):
        return await settle(self.reach("score", state, [0.0] * len(nodes)))

    def select(self, state, frontier):
        return self.reach("select", state, frontier.best_first())

    async def expand(self, state, committed, store):
        found = [self.lazily("read neighbours", self.neighbors(entry.node)) for entry in committed]
        return await settle(self.reach("expand", state, found))

    def edge_of(self, node):
        return self.reach("edge_of", None, Edge("x", str(node), "REF"))

    async def to_hits(self, state, committed, store):
        return await settle(self.reach("to_hits", state, [hit_of(entry.id, entry.score) for entry in committed]))

    def rank(self, state, hits):
        return self.reach("rank", state, hits)


class OneByOne(Graph):
    """A policy that handles one node at a time."""

    def seed(self, state, store):
        return self.reach("seed", state, self.lazily("read seeds", self.seeds))

    def score(self, state, node, store):
        return self.reach("score", state, 0.0)

    def select(self, state, scored):
        return self.reach("select", state, scored)

    def expand(self, state, node, store):
        return self.reach("expand", state, self.lazily("read neighbours", self.neighbors(node)))

    def to_hit(self, state, node, score, depth):
        return self.reach("to_hits", state, hit_of(node, score))


class Concurrent(OneByOne):
    """A policy that handles one node at a time with async methods, which run concurrently."""

    async def score(self, state, node, store):
        return await settle(super().score(state, node, store))

    async def expand(self, state, node, store):
        return await settle(super().expand(state, node, store))

    async def to_hit(self, state, node, score, depth):
        return await settle(super().to_hit(state, node, score, depth))


def one_by_one(*arguments, **options):
    return per_node(OneByOne(*arguments, **options))


def concurrent(*arguments, **options):
    return per_node(Concurrent(*arguments, **options))


FORMS = {"batched": Batched, "per node": one_by_one, "per node, async": concurrent}
STAGES = ["seed", "read seeds", "node_id", "score", "select", "to_hits", "edge_of", "stop", "expand", "read neighbours"]


def stages(forms, names):
    """Return a parametrization over all forms with all of their stages."""
    return pytest.mark.parametrize(
        ("form", "stage"),
        [
            pytest.param(FORMS[form], stage, id=f"{form}-{stage}")
            for form in forms
            for stage in names
            if stage != "edge_of" or form == "batched"
        ],
    )


every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
every_stage = stages(FORMS, STAGES)


async def settle(answer):
    """Return an answer, awaited if it is awaitable."""
    return await answer if inspect.isawaitable(answer) else answer


def hit_of(id, score=0.0):
    return SearchHit(str(id), "node", score, "")


def walk_of(policy, *, limits=None, max_depth=None, **options):
    limits = Limits(**{"count_beyond_limits": True, **(limits or {})})
    return traverse("query", None, policy=policy, limits=limits, max_depth=max_depth, **options)


async def run_walk(policy, **options):
    """Run a walk to its end without leftovers; return the ids of its hits and its summary."""
    async with leaving_nothing():
        walk = walk_of(policy, **options)
        ids = [hit.artifact_id async for hit in walk]
    return ids, walk.summary


async def failing(policy, **options):
    """Run a walk that fails without leftovers; return the error and the ids before it."""
    ids, error = [], None
    async with leaving_nothing():
        walk = walk_of(policy, **options)
        try:
            async for hit in walk:
                ids.append(hit.artifact_id)  # noqa: PERF401 (the loop ends with an error)
        except BaseException as raised:  # noqa: BLE001 (policies raise any error)
            error = raised
        assert error is not None, f"the walk ended without an error: {walk.summary.stop}"
        assert walk.summary is not None
        assert await anext(walk, None) is None
    return error, ids


@asynccontextmanager
async def leaving_nothing():
    """Check that a block ends within `PATIENCE` and leaves no new task and no new thread."""
    before = running()
    with anyio.fail_after(PATIENCE):
        yield
    for turn in range(60_000):  # a task disappears one turn after its end, a thread some time after
        if running() <= before:
            break
        await anyio.sleep(0.001 * (turn > 10))
    assert running() <= before


def running():
    """Return all running tasks and threads, except the worker threads of event loops."""
    pooled = ("AnyIO worker thread", "Trio thread")
    threads = {thread for thread in threading.enumerate() if not thread.name.startswith(pooled)}
    return {task.id for task in anyio.get_running_tasks()} | threads


class Sources:
    """Makes sources of several forms; counts the items read from each, and the open sources.

    A source raises an error after `fuse` items, so that a test ends even if the walk reads without end.
    """

    def __init__(self, fuse=5_000):
        self.fuse, self.open, self.taken = fuse, 0, []

    @property
    def most(self):
        """The largest number of items read from one source."""
        return max(self.taken)

    def make(self, form, items):
        """Make a source of one of the forms in `ENDLESS`."""
        return getattr(self, form.replace(" ", "_"))(self._count_items(items))

    def _count_items(self, items):
        number = len(self.taken)
        self.taken.append(0)
        for item in items:
            self.taken[number] += 1
            assert self.taken[number] <= self.fuse, "read without end"
            yield item

    def iterator(self, items):
        return chain(items)

    def iterable(self, items):
        return type("Iterable", (), {"__iter__": lambda _: items})()

    def generator(self, items):
        self.open += 1
        try:
            yield from items
        finally:
            self.open -= 1

    def cursor(self, items):
        return Cursor(self, items)

    async def async_generator(self, items):
        self.open += 1
        try:
            for number, item in enumerate(items):
                if number % 10 == 0:
                    await anyio.lowlevel.checkpoint()
                yield item
        finally:
            await anyio.lowlevel.checkpoint()
            self.open -= 1

    async def hasty_async_generator(self, items):
        """Yield without a checkpoint."""
        for item in items:
            yield item

    def async_iterator(self, items):
        return AsyncIterator(items)

    def async_cursor(self, items):
        return AsyncCursor(self, items)


ENDLESS = [
    "iterator", "iterable", "generator", "cursor",
    "async generator", "hasty async generator", "async iterator", "async cursor",
]  # fmt: skip


class Cursor:
    """An iterator that counts as open from its first use until it is closed."""

    def __init__(self, sources, items):
        self.sources, self.items, self.is_open = sources, items, False

    def __iter__(self):
        self.sources.open += not self.is_open
        self.is_open = True
        return self

    def __next__(self):
        return next(self.items)

    def close(self):
        self.sources.open -= self.is_open
        self.is_open = False


class AsyncIterator:
    """An async iterator that cannot be closed."""

    def __init__(self, items):
        self.items = items

    def __aiter__(self):
        return self

    async def __anext__(self):
        for item in self.items:
            return item
        raise StopAsyncIteration


class AsyncCursor(AsyncIterator):
    """An async iterator that counts as open until `aclose`, which has a checkpoint."""

    def __init__(self, sources, items):
        super().__init__(items)
        self.sources = sources

    def __aiter__(self):
        self.sources.open += 1
        return self

    async def aclose(self):
        await anyio.lowlevel.checkpoint()
        self.sources.open -= 1


def without_end(items=None, *, fuse=5_000):
    """Return an iterator over whole numbers, or the items, that fails after `fuse` items."""
    return Sources(fuse).make("iterator", count() if items is None else items)
