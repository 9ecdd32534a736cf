"""Laws of every walk, on random directed graphs."""

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import anyio
import pytest
from hypothesis import given, settings, strategies as st

from airw.policies import per_node
from airw.testing import run_on_virtual_clock
from airw.traversal import traverse
from airw.values import Limits, SearchHit
from airw.walking import EdgeFound, NodeCommitted, Policy
from tests.support.drawing import examples


@dataclass(frozen=True)
class Graph:
    """A directed graph: neighbours (repeats allowed), score and role per node, and seeds."""

    edges: list[list[int]]
    scores: list[int]
    routers: frozenset[int]
    seeds: list[int]


def graph_of(number, *, routers=True):
    """Return the random graph with a number.

    If Hypothesis drew the parts, most graphs would have no walk at all.
    """
    chance = Random(number)
    nodes, degree = range(chance.choice([6, 8, 12, 16])), chance.choice([1, 3, 5, 8])
    return Graph(
        edges=[chance.choices(nodes, k=chance.randint(0, degree)) for _ in nodes],
        scores=chance.choices(range(4), k=len(nodes)),
        routers=frozenset(chance.choices(nodes, k=chance.randint(0, 4) if routers else 0)),
        seeds=chance.choices(nodes, k=chance.choice([0, 1, 2, 3, 4, 4])),
    )


def graphs(**parts):
    return st.integers(0, 2**32).map(lambda number: graph_of(number, **parts))


small = st.integers(0, 12)
bounds = st.fixed_dictionaries(
    {},
    optional={
        "max_depth": st.integers(0, 4), "node_budget": small, "max_fanout": st.integers(0, 6), "max_edges": small,
        "max_frontier": st.integers(1, 6), "max_hits": small,
    },
)  # fmt: skip


class Batched(Policy):
    """Walks a graph; with `width`, it commits that many nodes per step and keeps the others."""

    def __init__(self, graph, *, width=None, enough=None, disorder=None, lazily=False):
        self.graph, self.width, self.enough, self.disorder, self.lazily = graph, width, enough, disorder, lazily
        self.keeps_frontier = width is not None

    async def pause(self):
        for _ in range(self.disorder.randrange(4) if self.disorder else 0):
            await anyio.lowlevel.checkpoint()

    async def seed(self, state, store):
        await self.pause()
        return self.graph.seeds

    async def score(self, state, nodes, store):
        await self.pause()
        return [self.graph.scores[node] for node in nodes]

    def select(self, state, frontier):
        return frontier.best_first(self.width)

    async def expand(self, state, committed, store):
        await self.pause()
        found = [self.graph.edges[entry.id] for entry in committed]
        return [self.lazy(nodes) for nodes in found] if self.lazily else found

    async def lazy(self, nodes):
        for node in nodes:
            await self.pause()
            yield node

    def node_id(self, node):
        return node

    def stop(self, state):
        return self.enough is not None and len(state.results) >= self.enough

    async def to_hits(self, state, committed, store):
        await self.pause()
        return [None if entry.id in self.graph.routers else hit_of(entry.id, entry.score) for entry in committed]


class OneByOne:
    """The same walk, one node at a time."""

    def __init__(self, graph):
        self.graph = graph

    def seed(self, state, store):
        return self.graph.seeds

    def score(self, state, node, store):
        return self.graph.scores[node]

    def select(self, state, scored):
        return sorted(scored, key=lambda triple: -triple[2])

    def expand(self, state, node, store):
        return self.graph.edges[node]

    def node_id(self, node):
        return node

    def stop(self, state):
        return False

    def to_hit(self, state, node, score, depth):
        return None if node in self.graph.routers else hit_of(node, score)


class OneByOneAsync(OneByOne):
    """The same walk with methods that finish in any order."""

    def __init__(self, graph, disorder):
        super().__init__(graph)
        self.disorder = disorder

    async def pause(self):
        for _ in range(self.disorder.randrange(4)):
            await anyio.lowlevel.checkpoint()

    async def score(self, state, node, store):
        await self.pause()
        return super().score(state, node, store)

    async def expand(self, state, node, store):
        await self.pause()
        return super().expand(state, node, store)

    async def to_hit(self, state, node, score, depth):
        await self.pause()
        return super().to_hit(state, node, score, depth)


def hit_of(id, score):
    return SearchHit(str(id), "node", float(score), "")


def walk(policy, *, backend="asyncio", max_depth=None, node_budget=64, timeout=None, **limits):
    """Return the hits of a walk as plain values, and its summary without the seconds."""

    async def main():
        options = {"max_depth": max_depth, "node_budget": node_budget, "timeout": timeout}
        counted = Limits(**{"count_beyond_limits": True, **limits})
        walk = traverse("query", None, policy=policy, limits=counted, **options)
        hits = [(int(hit.artifact_id), hit.score, hit.metadata) async for hit in walk]
        ranked = [(int(hit.artifact_id), hit.score, hit.metadata) for hit in walk.ranking]
        assert sorted(hits, key=lambda hit: -hit[1]) == ranked
        return hits, {name: value for name, value in walk.summary.to_dict().items() if name != "seconds"}

    return anyio.run(main, backend=backend)


@dataclass
class Reference:
    """The contract of a walk, implemented as simply as possible: lists, no I/O."""

    graph: Graph
    max_depth: int | None = None
    node_budget: int = 64
    max_fanout: int = 1_000
    max_edges: int = 100_000
    max_frontier: int = 100_000
    max_hits: int | None = None
    width: int | None = None
    visited: dict[int, int] = field(default_factory=dict)
    hits: list[int] = field(default_factory=list)
    left_out: Counter = field(default_factory=Counter)
    at_least: set[str] = field(default_factory=set)
    waiting: dict[int, int] = field(default_factory=dict)

    def run(self):
        """Return the emitted ids, the reason of the stop, what was left out, and the lower bounds."""
        self.spend, closed, last, first = self.max_edges, [], [], True
        self.left_out["max_frontier"] = max(0, len(self.graph.seeds) - self.max_frontier)
        found = [(0, node) for node in self.graph.seeds[: self.max_frontier]]
        while True:
            if not first:
                stop = self.limit_at_the_end_of_a_step()
                if stop:
                    break
                found = self.expand([node for node in last if self.is_open(node)], self.left_out)
                closed += [node for node in last if not self.is_open(node)]
                last = []
            self.discover(found)
            if not self.waiting:
                stop = "exhausted"
                break
            first = False
            last, stop = self.commit()
            if stop:
                break
        self.count_beyond_limits(
            stop, closed + [n for n in last if not self.is_open(n)], [n for n in last if self.is_open(n)]
        )
        return self.hits, stop, {limit: n for limit, n in sorted(self.left_out.items()) if n}, sorted(self.at_least)

    def is_open(self, node):
        return self.max_depth is None or self.visited[node] < self.max_depth

    def limit_at_the_end_of_a_step(self):
        full = len(self.visited) >= self.node_budget
        stop = "max_hits" if len(self.hits) == self.max_hits else "node_budget" if full else None
        if stop:
            self.left_out["node_budget" if full else stop] += self.unspent
        return stop

    def expand(self, nodes, left_out):
        found = []
        for node in nodes:
            taken = self.graph.edges[node][: self.max_fanout]
            left_out["max_fanout"] += len(self.graph.edges[node]) - len(taken)
            left_out["max_edges"] += max(0, len(taken) - self.spend)
            taken = taken[: self.spend]
            self.spend -= len(taken)
            found += [(self.visited[node] + 1, neighbour) for neighbour in taken]
        return found

    def discover(self, found):
        if self.width is None:
            self.waiting = {}
        for depth, node in found:
            if node in self.visited:
                continue
            if node in self.waiting:
                self.waiting[node] = min(depth, self.waiting[node])
            elif len(self.waiting) == self.max_frontier:
                self.left_out["max_frontier"] += 1
            else:
                self.waiting[node] = depth

    def commit(self):
        selected = sorted(self.waiting, key=lambda node: -self.graph.scores[node])[: self.width]
        room = self.node_budget - len(self.visited)
        offered = len(self.waiting) if self.width is not None else len(selected)
        self.unspent = offered - len(selected[:room])
        committed = []
        for at, node in enumerate(selected[:room]):
            is_hit = node not in self.graph.routers
            if is_hit and len(self.hits) == self.max_hits:
                self.left_out["max_hits"] = sum(node not in self.graph.routers for node in selected[at:room])
                self.at_least |= {"max_hits"} if self.unspent else set()
                return committed, "max_hits"
            self.visited[node] = self.waiting.pop(node)
            committed.append(node)
            self.hits += [node] * is_hit
        return committed, None

    def count_beyond_limits(self, stop, closed, last):
        if stop == "exhausted" or self.left_out[stop]:
            last = []
        self.spend = self.max_edges
        waiting = self.waiting
        cut = Counter()
        for limit, nodes in (("max_depth", closed), (stop, last)):
            seen = {node for _, node in self.expand(nodes, cut)}
            self.left_out[limit] += len(seen - self.visited.keys() - waiting.keys())
        self.at_least |= {
            limit for limit, nodes in (("max_depth", closed), (stop, last)) if nodes and any(cut.values())
        }


@given(graphs(), bounds, st.none() | st.integers(1, 3))
@settings(max_examples=examples(600))
def test_hits_stop_and_counts_equal_those_of_a_simple_reference(graph, given_bounds, width):
    """Every limit applies alone and with others, to both kinds of frontier."""
    hits, summary = walk(Batched(graph, width=width), **given_bounds)
    told = [id for id, _, _ in hits], summary["stop"], summary["left_out"], summary["at_least"]
    assert told == Reference(graph, width=width, **given_bounds).run()
    assert summary["unknown"] == []
    assert summary["truncated"] == bool(summary["left_out"] or summary["at_least"])


@given(graphs(), bounds, st.none() | st.integers(1, 3))
@settings(max_examples=examples(100))
def test_every_hit_is_reachable_emitted_once_and_within_depth_and_budget(graph, given_bounds, width):
    hits, summary = walk(Batched(graph, width=width), **given_bounds)
    ids = [id for id, _, _ in hits]
    assert len(set(ids)) == len(ids) == summary["emitted"]
    assert summary["committed"] == summary["emitted"] + summary["routed"] <= given_bounds.get("node_budget", 64)
    assert len(ids) <= given_bounds.get("max_hits", len(ids))
    for id, score, metadata in hits:
        path = metadata["walk_path"]
        assert path[0] in graph.seeds
        assert path[-1] == id
        assert all(after in graph.edges[before] for before, after in pairwise(path))
        assert metadata["walk_depth"] == len(path) - 1 <= summary["depth"]
        assert metadata["walk_parent"] == (path[-2] if len(path) > 1 else None)
        assert score == graph.scores[id]
    assert summary["depth"] <= given_bounds.get("max_depth", 64)


@given(graphs())
@settings(max_examples=examples(50))
def test_an_unbounded_walk_emits_exactly_the_reachable_nodes(graph):
    hits, summary = walk(Batched(graph))
    reachable, todo = set(), list(graph.seeds)
    while todo:
        node = todo.pop()
        if node not in reachable:
            reachable.add(node)
            todo += graph.edges[node]
    assert {id for id, _, _ in hits} == reachable - graph.routers
    assert (summary["stop"], summary["truncated"]) == ("exhausted", False)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(graphs(), bounds, st.integers(0, 2**32), st.sampled_from([1, 2, 16]))
@settings(max_examples=examples(40))
def test_the_order_of_concurrent_answers_changes_nothing(backend, graph, given_bounds, chance, width):
    expected = walk(Batched(graph, lazily=True), **given_bounds)
    shuffled = Batched(graph, lazily=True, disorder=Random(chance))
    assert walk(shuffled, backend=backend, max_concurrency=width, **given_bounds) == expected
    sized = walk(Batched(graph, disorder=Random(chance)), backend=backend, **given_bounds)
    assert sized[0] == expected[0]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(graphs(), bounds, st.integers(0, 2**32), st.sampled_from([1, 2, 16]))
@settings(max_examples=examples(40))
def test_a_per_node_policy_walks_like_a_batched_one(backend, graph, given_bounds, chance, width):
    """The exception is `max_frontier`, which counts each path to a node there."""
    given_bounds = {name: value for name, value in given_bounds.items() if name != "max_frontier"}
    expected = walk(Batched(graph), **given_bounds)
    assert walk(per_node(OneByOne(graph)), **given_bounds) == expected
    shuffled = per_node(OneByOneAsync(graph, Random(chance)))
    assert walk(shuffled, backend=backend, max_concurrency=width, **given_bounds) == expected


@given(graphs(routers=False), st.none() | st.integers(0, 4), st.integers(1, 15))
@settings(max_examples=examples(80))
def test_a_walk_with_max_hits_is_the_start_of_the_walk_without(graph, max_depth, first):
    hits, _ = walk(Batched(graph), max_depth=max_depth)
    assert walk(Batched(graph, enough=first), max_depth=max_depth)[0] == hits[:first]
    assert walk(Batched(graph), max_depth=max_depth, max_hits=first)[0] == hits[:first]
    assert walk(Batched(graph), max_depth=max_depth, node_budget=first)[0] == hits[:first]


@given(graphs(), st.integers(1, 15))
@settings(max_examples=examples(40))
def test_with_routers_max_hits_and_stop_end_at_the_same_hit(graph, first):
    hits, _ = walk(Batched(graph))
    assert walk(Batched(graph, enough=first))[0] == walk(Batched(graph), max_hits=first)[0] == hits[:first]


class Sleeping(Batched):
    """Takes one second of the virtual clock per call."""

    async def pause(self):
        await anyio.sleep(1)


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@given(graphs(), st.integers(0, 30), st.sampled_from([0, 0.25, 1, 1.5]))
@settings(max_examples=examples(60))
def test_a_walk_with_a_timeout_yields_the_same_hits_up_to_then(backend, graph, seconds, thinking):
    """Time of the consumer counts.

    No deadline takes back the hits of a complete step.
    """

    async def main(deadline):
        walk = traverse("query", None, policy=Sleeping(graph), timeout=deadline)
        start, hits, made = anyio.current_time(), [], []
        while True:
            asked = anyio.current_time() - start
            hit = await anext(walk, None)
            if hit is None:
                return hits, made, walk.summary
            now = anyio.current_time() - start
            made.append(made[-1] if now == asked and hits else now)  # ready with the hit before, or made by a step
            hits.append((hit.artifact_id, hit.score, hit.metadata))
            await anyio.sleep(thinking)

    timeout = seconds + 0.4321  # no call and no work of the consumer ends at this time
    hits, made, whole = run_on_virtual_clock(main, None, backend=backend)
    cut, _, summary = run_on_virtual_clock(main, timeout, backend=backend)
    assert cut == [hit for hit, at in zip(hits, made, strict=True) if at < timeout]
    assert summary.stop == "timeout" or (cut, summary) == (hits, whole)


@given(graphs(), bounds)
@settings(max_examples=examples(40))
def test_the_count_beyond_the_limits_changes_only_the_counts(graph, given_bounds):
    """Without the count, a limit is unknown if the count would have been positive."""
    hits, looked = walk(Batched(graph), **given_bounds)
    same, blind = walk(Batched(graph), count_beyond_limits=False, **given_bounds)
    assert same == hits
    assert blind["truncated"] >= looked["truncated"]
    for limit in set(looked["left_out"]) - set(blind["left_out"]):
        assert limit in blind["unknown"]


@given(graphs(), bounds, st.none() | st.integers(1, 3))
@settings(max_examples=examples(100))
def test_events_describe_the_same_walk_as_hits(graph, given_bounds, width):
    """Hits and summary are equal, and every neighbour read is an edge.

    Parents are committed before their children.
    """
    hits, summary = walk(Batched(graph, width=width), **given_bounds)
    events = events_of(Batched(graph, width=width), **given_bounds)
    committed = [event for event in events if isinstance(event, NodeCommitted)]
    assert [int(event.hit.artifact_id) for event in committed if event.hit] == [id for id, _, _ in hits]
    assert events[-1].summary.to_dict() | {"seconds": 0} == summary | {"seconds": 0}
    assert sum(isinstance(event, EdgeFound) for event in events) == summary["edges"]
    known = set()
    for event in events:
        match event:
            case NodeCommitted(id=id, parent=parent):
                assert parent is None or parent in known
                known.add(id)
            case EdgeFound(source=source, target=target):
                assert source in known
                assert target in graph.edges[source]


@given(graphs(), st.integers(0, 2) | st.none())
@settings(max_examples=examples(100))
def test_an_edge_is_known_when_its_target_was_seen_before(graph, width):
    """No waiting entry is dropped: each is committed or waits on."""
    seen = set(graph.seeds)
    for event in events_of(Batched(graph, width=width)):
        if isinstance(event, EdgeFound):
            assert event.known == (event.target in seen)
            seen.add(event.target)


def events_of(policy, *, max_depth=None, node_budget=64, **limits):
    async def main():
        counted = Limits(**{"count_beyond_limits": True, **limits})
        options = {"max_depth": max_depth, "node_budget": node_budget, "limits": counted}
        return [event async for event in traverse("query", None, policy=policy, **options).events()]

    return anyio.run(main)
