"""Walks over a slow store, and other tasks on the same event loop while a walk runs.

Only counts are asserted; whether a time meets its goal depends on how busy the machine is.
"""

import gc
import random
import statistics
import time
from dataclasses import replace

import anyio
import anyio.to_thread
import numpy as np
import pytest

from airw.corpora import build
from airw.embedders import HashingEmbedder
from airw.links import extractor_from
from airw.policies import Eager
from airw.sources import from_mapping
from airw.stores import MemoryStore
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from airw.walking import Policy

BACKENDS = ["asyncio", "trio"]
RUNS = 5

# A store of 10 ms a call.

CALL = 0.010
CALLS, CALLS_TO_FIRST, CALLS_A_STEP = 12, 3, 3


class Slow:
    """Delays each call of a store, and records when it began."""

    def __init__(self, store, seconds):
        self._store, self._seconds, self.calls = store, seconds, []

    def __getattr__(self, name):
        method = getattr(self._store, name)

        async def call(*args, **options):
            self.calls.append(name)
            await anyio.sleep(self._seconds)
            return await method(*args, **options)

        return call


def source(count=2_000, degree=6):
    """Return a source of artifacts of a few words each, linked at random."""
    draw, ids = random.Random(3), [f"n{number:04}" for number in range(count)]
    texts = {id: " ".join(f"w{draw.randrange(500)}" for _ in range(20)) for id in ids}
    links = {id: {"REF": draw.sample(ids, degree)} for id in ids}
    extractor = extractor_from(lambda name, _: links[name], id="links")
    return from_mapping(texts, name="linked", embedder=HashingEmbedder(dim=256), edge_extractor=extractor)


async def slow_walk(corpus, factor):
    """Walk once; return seconds to the first hit and in all, and calls per depth.

    The depth is that of the next hit.
    """
    store = Slow(corpus.store, CALL)
    policy = Eager(select_k=None, start_k=4 * factor, adjacent_k=20 * factor, seeding="dense")
    slow, budget = replace(corpus, store=store), 64 * factor
    start = time.perf_counter()
    first, depths, noted, steps = None, 0, 0, []
    async with traverse("w1 w2 w3", slow, policy=policy, max_depth=3, node_budget=budget) as walk:
        async for hit in walk:
            first = first or time.perf_counter() - start
            if hit.metadata["walk_depth"] == depths:
                steps.append(len(store.calls) - noted)
                depths, noted = depths + 1, len(store.calls)
    seconds = time.perf_counter() - start
    assert walk.summary.emitted == budget
    assert (walk.summary.steps, walk.summary.depth) == (4, 3)
    return first, seconds, [*steps, len(store.calls) - noted]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_store_of_10_ms_a_call(backend):
    async def main():
        async with build(source(), store=MemoryStore()) as corpus:
            return {64 * factor: [await slow_walk(corpus, factor) for _ in range(RUNS)] for factor in (1, 2)}

    print(f"\na store of 10 ms a call, {backend}, depth 3 (goals: 156 ms, first hit 60 ms, 12 calls)")
    print("  nodes   wall: best, median    first hit: best, median    calls a step, look over the edge")
    found = anyio.run(main, backend=backend)
    for nodes, runs in found.items():
        first, wall, steps = [1000 * run[0] for run in runs], [1000 * run[1] for run in runs], runs[0][2]
        shown = " + ".join(map(str, steps))
        print(
            f"  {nodes:5} {min(wall):10.1f} {statistics.median(wall):8.1f} ms {min(first):12.1f}"
            f" {statistics.median(first):8.1f} ms         {shown} = {sum(steps)}"
        )
    counts = [steps for runs in found.values() for _, _, steps in runs]
    assert all(steps == counts[0] for steps in counts)
    assert sum(counts[0]) <= CALLS
    assert max(counts[0]) <= CALLS_A_STEP
    assert counts[0][0] <= CALLS_TO_FIRST


# Other tasks on the same event loop.

SIZE, STAR, DEGREE, DIM = 100_000, 299_000, 10, 64
GOAL = 20  # ms above idle


class Digraph:
    """Unit vectors with random edges.

    One edge per node forms a ring, so that every node can be reached.
    """

    def __init__(self):
        draw = np.random.default_rng(7)
        vectors = draw.standard_normal((SIZE, DIM), dtype=np.float32)
        self.vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        self.query = self.vectors[0] + self.vectors[1]
        edges = draw.integers(0, SIZE, (SIZE, DEGREE))
        ring = draw.permutation(SIZE)
        edges[ring, 0] = np.roll(ring, 1)
        self.edges = edges


class InThread(Policy):
    """A best-first policy whose slow work runs in a thread.

    Gaps on the event loop then come from the operator.
    """

    def __init__(self, graph, seeds):
        self.graph, self.seeds = graph, seeds

    async def seed(self, state, store):
        return self.seeds

    async def score(self, state, nodes, store):
        return await anyio.to_thread.run_sync(lambda: self.graph.vectors[nodes] @ self.graph.query)

    async def expand(self, state, committed, store):
        def neighbours():
            return self.graph.edges[committed.nodes].tolist()

        return await anyio.to_thread.run_sync(neighbours)

    async def to_hits(self, state, committed, store):
        return [SearchHit(str(entry.node), "node", entry.score, "") for entry in committed]


class Star(InThread):
    """Links the first node to 299,000 others."""

    async def score(self, state, nodes, store):
        return np.zeros(len(nodes))

    async def expand(self, state, committed, store):
        return [range(1, 0 if entry.depth else STAR) for entry in committed]


class ByPaths(InThread):
    """Gives each path to a node a position of its own."""

    scores_paths = True


class Narrow(InThread):
    """Commits the 64 best of the frontier and keeps the others."""

    keeps_frontier = True

    async def select(self, state, frontier):
        def best():
            scores = frontier.scores[frontier.live]
            width = min(64, len(scores))
            top = np.argpartition(-scores, width - 1)[:width]
            return frontier.live[top[np.argsort(-scores[top], kind="stable")]]

        return await anyio.to_thread.run_sync(best)


class Ticker:
    """Sleeps 1 ms repeatedly.

    It records the longest gap and the longest garbage collection, in ms.
    """

    async def __aenter__(self):
        self.gap = self.pause = 0.0
        gc.callbacks.append(self._collect)
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._tasks.start_soon(self._tick)
        await anyio.sleep(0.01)
        return self

    async def __aexit__(self, *error):
        await anyio.sleep(0.005)  # an open gap is recorded when it ends
        gc.callbacks.remove(self._collect)
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(*error)

    async def _tick(self):
        last = time.perf_counter()
        while True:
            await anyio.sleep(0.001)
            now = time.perf_counter()
            self.gap, last = max(self.gap, 1000 * (now - last)), now

    def _collect(self, phase, info):
        if phase == "start":
            self._start = time.perf_counter()
        else:
            self.pause = max(self.pause, 1000 * (time.perf_counter() - self._start))


async def gaps(walk, wanted):
    """Return the seconds of a walk, its longest gap, the longest idle gap, and collections.

    The idle gap is measured over equal time.
    """
    start = time.perf_counter()
    async with Ticker() as busy, walk:
        hits = [hit async for hit in walk]
    seconds = time.perf_counter() - start
    assert len(hits) == wanted
    async with Ticker() as idle:
        await anyio.sleep(seconds)
    return seconds, busy.gap, idle.gap, busy.pause


@pytest.fixture(scope="module")
def digraph():
    """A graph frozen for the garbage collector, so that only the walks are measured."""
    graph = Digraph()
    gc.collect()
    gc.freeze()
    yield graph
    gc.unfreeze()


CASES = {
    "one step of 20,000 hits": (InThread, 20_000, 20_000, 0),
    "10,000 nodes of 100,000, from 10 seeds": (InThread, 10, 10_000, None),
    "100,000 nodes from 10 seeds, all committed": (InThread, 10, SIZE, None),
    "100,000 nodes from 10 seeds, by paths": (ByPaths, 10, SIZE, None),
    "2,000 nodes, 64 a step, of 100,000 that wait": (Narrow, SIZE, 2_000, None),
    "one step of 100,000 seeds, all committed": (InThread, SIZE, SIZE, 0),
    "one step of 299,000 nodes, all committed": (Star, 1, STAR, None),
    "one step of 100,000 seeds, 64 committed": (InThread, SIZE, 64, 0),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_gaps_of_a_ticker(results, digraph, backend):
    print(f"\nlongest gap of a 1 ms ticker, {backend}, ms: best, median of {RUNS} (goal: {GOAL} above idle);")
    print("collecting: the longest of the garbage collections meanwhile, which are in the gaps")
    print(f"  {'':46}{'seconds':>8}{'idle':>14}{'walking':>16}{'above idle':>16}{'collecting':>16}")
    for name, (kind, seeds, budget, depth) in CASES.items():
        policy = kind(digraph, list(range(seeds)))

        async def once(policy=policy, budget=budget, depth=depth):
            limits = Limits(max_edges=SIZE * DEGREE, max_fanout=STAR, max_frontier=SIZE * DEGREE)
            walk = traverse("query", None, policy=policy, max_depth=depth, node_budget=budget, limits=limits)
            return await gaps(walk, budget)

        runs = [anyio.run(once, backend=backend) for _ in range(RUNS)]
        seconds, busy, idle, pauses = zip(*runs, strict=True)
        above = [one - other for one, other in zip(busy, idle, strict=True)]
        columns = "".join(f"{min(each):8.1f}{statistics.median(each):8.1f}" for each in (idle, busy, above, pauses))
        missed = "" if statistics.median(above) <= GOAL else "  missed"
        question = "How long does a walk delay other tasks?"
        results.amount(
            question, f"{name}, {backend}", [max(0.0, gap) for gap in above], goal=GOAL, unit="ms above idle"
        )
        print(f"  {name:46}{min(seconds):8.2f}{columns}{missed}")
