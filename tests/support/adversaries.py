"""Policies that do harm at one stage of a walk, sources that never end and count themselves, and what walks must leave.

One graph policy has three forms: whole steps at once, one node at a time, and one node at a time concurrently.
"""

import inspect
import threading
from collections import Counter
from contextlib import asynccontextmanager
from itertools import chain, count

import anyio
import pytest

from airw.policies import per_node
from airw.values import Edge, Limits, SearchHit
from airw.walking import Policy, traverse

STAR = {0: [1, 2, 3, 4, 5]}
CHAIN = {n: [n + 1] for n in range(9)}
PATIENCE = 60  # seconds until what does not end counts as hanging, on a busy machine too


class Graph:
    """A graph in a dict, or in a function; `do(state)` is called, and awaited, when the stage named `at` is reached.

    Stages are the methods of a policy, and the reading of the two things that are read lazily: "read seeds", "read
    neighbours".
    """

    max_depth = None

    def __init__(self, edges=None, seeds=(0,), *, at=None, do=None, **replaced):
        self.neighbors = edges if callable(edges) else lambda node: (edges or {}).get(node, ())
        self.seeds, self.at, self.do, self.state = seeds, at, do, None
        self.calls = Counter()
        for name, value in replaced.items():
            setattr(self, name, value)

    def reach(self, stage, state, answer):
        """Give the answer of a stage after the harm is done, or an awaitable of it."""
        self.calls[stage] += 1
        self.state = self.state if state is None else state
        done = self.do(self.state) if stage == self.at else None
        return self._after(done, answer) if inspect.isawaitable(done) else answer

    async def _after(self, done, answer):
        await done
        return answer

    def lazily(self, stage, items):
        """Give the items as they are, or one by one where their reading is the stage of the harm."""
        return self._one_by_one(stage, items) if stage == self.at else items

    async def _one_by_one(self, stage, items):
        await settled(self.reach(stage, None, None))
        for item in items:
            yield item

    def node_id(self, node):
        return self.reach("node_id", None, node)

    def stop(self, state):
        return self.reach("stop", state, False)  # noqa: FBT003 (the answer)


class Batched(Graph, Policy):
    """The graph as a policy of whole steps."""

    async def seed(self, state, store):
        return await settled(self.reach("seed", state, self.lazily("read seeds", self.seeds)))

    async def score(self, state, nodes, store):
        return await settled(self.reach("score", state, [0.0] * len(nodes)))

    def select(self, state, frontier):
        return self.reach("select", state, frontier.best_first())

    async def expand(self, state, committed, store):
        found = [self.lazily("read neighbours", self.neighbors(entry.node)) for entry in committed]
        return await settled(self.reach("expand", state, found))

    def edge_of(self, node):
        return self.reach("edge_of", None, Edge("x", str(node), "REF"))

    async def to_hits(self, state, committed, store):
        return await settled(self.reach("to_hits", state, [hit_of(entry.id, entry.score) for entry in committed]))

    def rank(self, state, hits):
        return self.reach("rank", state, hits)


class OneByOne(Graph):
    """The graph as a policy of one node at a time."""

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
    """The same with async methods, which run side by side."""

    async def score(self, state, node, store):
        return await settled(super().score(state, node, store))

    async def expand(self, state, node, store):
        return await settled(super().expand(state, node, store))

    async def to_hit(self, state, node, score, depth):
        return await settled(super().to_hit(state, node, score, depth))


def one_by_one(*arguments, **options):
    return per_node(OneByOne(*arguments, **options))


def concurrent(*arguments, **options):
    return per_node(Concurrent(*arguments, **options))


FORMS = {"batched": Batched, "per node": one_by_one, "per node, async": concurrent}
STAGES = ["seed", "read seeds", "node_id", "score", "select", "to_hits", "edge_of", "stop", "expand", "read neighbours"]


def stages(forms, names):
    """Each form with each stage that it has."""
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


async def settled(answer):
    return await answer if inspect.isawaitable(answer) else answer


def hit_of(id, score=0.0):
    return SearchHit(str(id), "node", score, "")


def walk_of(policy, *, limits=None, max_depth=None, **options):
    return traverse("query", None, policy=policy, limits=Limits(**limits or {}), max_depth=max_depth, **options)


async def walked(policy, **options):
    """Run a walk to its end; give the ids it emitted and its summary. It leaves nothing."""
    async with leaving_nothing():
        walk = walk_of(policy, **options)
        ids = [hit.artifact_id async for hit in walk]
    return ids, walk.summary


async def failing(policy, **options):
    """Run a walk to its failure; give the error, and the ids emitted before. It leaves nothing and stays ended."""
    ids, error = [], None
    async with leaving_nothing():
        walk = walk_of(policy, **options)
        try:
            async for hit in walk:
                ids.append(hit.artifact_id)  # noqa: PERF401 (it ends by an error)
        except BaseException as raised:  # noqa: BLE001 (whatever a policy raises)
            error = raised
        assert error is not None, f"it ended by {walk.summary.stop}"
        assert walk.summary is not None
        assert await anext(walk, None) is None
    return error, ids


@asynccontextmanager
async def leaving_nothing():
    """Let a block run for a while at most, and leave neither a task nor a thread that was not there before."""
    before = running()
    with anyio.fail_after(PATIENCE):
        yield
    for turn in range(5_000):  # a task that has ended needs a turn to be gone, a thread some time
        if running() <= before:
            break
        await anyio.sleep(0.001 * (turn > 10))
    assert running() <= before


def running():
    """The tasks and threads there are, but for the idle threads that event loops keep for a while."""
    pooled = ("AnyIO worker thread", "Trio thread")
    threads = {thread for thread in threading.enumerate() if not thread.name.startswith(pooled)}
    return {task.id for task in anyio.get_running_tasks()} | threads


class Sources:
    """Makes sources of several forms; counts what was taken from each, and how many that can be closed are open.

    One that is drained fails the walk, so that a test ends where an operator would not.
    """

    def __init__(self, fuse=5_000):
        self.fuse, self.open, self.taken = fuse, 0, []

    @property
    def most(self):
        """The number of items taken from the source that most were taken from."""
        return max(self.taken)

    def make(self, form, items):
        """Make a source of a form: one of `ENDLESS`."""
        return getattr(self, form.replace(" ", "_"))(self._counted(items))

    def _counted(self, items):
        which = len(self.taken)
        self.taken.append(0)
        for item in items:
            self.taken[which] += 1
            assert self.taken[which] <= self.fuse, "read without end"
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
            for at, item in enumerate(items):
                if at % 10 == 0:
                    await anyio.lowlevel.checkpoint()
                yield item
        finally:
            await anyio.lowlevel.checkpoint()
            self.open -= 1

    async def hasty_async_generator(self, items):
        """It never waits."""
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
    """An iterator that is open from its first use until it is closed."""

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
    """An async iterator that is open from its first use until it is closed, which takes a turn."""

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
    """Give whole numbers, or the items, and fail when more than `fuse` are taken."""
    return Sources(fuse).make("iterator", count() if items is None else items)
