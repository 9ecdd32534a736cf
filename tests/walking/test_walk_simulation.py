"""Random walks, compared with a plain simulation of docs/walking.md.

The simulation was written from the documentation and not from the code. It has no tasks.
"""

from collections import Counter
from typing import NamedTuple

import anyio
import pytest

from airw.traversal import traverse
from airw.values import SearchHit
from airw.walking import EdgeFound, LazyNeighbors, NodeCommitted, Policy, StepDone
from tests.support.walk_cases import case_of

QUICK, ALL = 300, 2_300


# The walk of the library.


class Drawn(Policy):
    """The policy of a case."""

    def __init__(self, case):
        self.case, self.keeps_frontier, self.scores_paths = case, case.keeps, case.paths
        self.step = -1

    async def seed(self, state, store):
        return self.case.seeds

    async def score(self, state, nodes, store):
        return [self.case.scores[node] for node in nodes]

    def select(self, state, frontier):
        self.step += 1
        live = frontier.live.tolist()
        waiting = [(frontier.ids[at], frontier.depths[at], float(frontier.scores[at])) for at in live]
        taken, dropped = self.case.choose(self.step, waiting)
        frontier.drop(live[index] for index in dropped)
        return [live[index] for index in taken]

    async def expand(self, state, committed, store):
        return [self.offer(self.case.forms[entry.id], self.case.edges[entry.id]) for entry in committed]

    def offer(self, form, nodes):
        if form == "lazy":
            return LazyNeighbors(nodes, lambda part: nodes[part])
        return {"list": list, "iterator": iter, "async iterator": self.read}[form](nodes)

    async def read(self, nodes):
        for node in nodes:
            await anyio.lowlevel.checkpoint()
            yield node

    def stop(self, state):
        return self.case.enough is not None and len(state.results) >= self.case.enough

    async def to_hits(self, state, committed, store):
        return [
            None if entry.id in self.case.routers else SearchHit(str(entry.id), "node", entry.score, "")
            for entry in committed
        ]


class Outcome(NamedTuple):
    """What one can see of a walk."""

    hits: list
    stop: str
    counts: dict
    left_out: dict
    at_least: tuple
    unknown: tuple


def outcome_of(walk, hits):
    summary = walk.summary
    found = [(int(hit.artifact_id), hit.metadata["walk_depth"], walk.path(hit)) for hit in hits]
    names = ("emitted", "routed", "steps", "edges", "depth")
    counts = {name: getattr(summary, name) for name in names}
    return Outcome(found, summary.stop, counts, summary.left_out, summary.at_least, summary.unknown)


async def walk_hits(case):
    walk = walk_of(case)
    return outcome_of(walk, [hit async for hit in walk])


async def walk_events(case):
    """Walk by events; return the outcome, the edges, and the waiting nodes after each step."""
    walk, hits, edges, waiting = walk_of(case), [], [], []
    async for event in walk.events():
        match event:
            case NodeCommitted(hit=SearchHit() as hit):
                hits.append(hit)
            case EdgeFound(source=source, target=target, known=known):
                edges.append((source, target, known))
            case StepDone(waiting=count):
                waiting.append(count)
    return outcome_of(walk, hits), edges, waiting


def walk_of(case):
    bounds = {"max_depth": case.max_depth, "node_budget": case.node_budget, "limits": case.limits}
    return traverse("query", None, policy=Drawn(case), **bounds)


# The simulation.


class Simulation:
    """The walk of a case by the rules of docs/walking.md, a rule at a time."""

    def __init__(self, case):
        self.case, self.limits = case, case.limits
        self.committed, self.waiting = {}, []  # paths by node; paths in order of discovery
        self.hits, self.routed, self.steps, self.edges = [], 0, 0, []
        self.read_count, self.at_cap, self.deepest, self.waiting_after = 0, [], 0, []
        self.left_out, self.at_least, self.unknown = Counter(), set(), set()

    def run(self):
        stop, last = self.walk()
        self.count_beyond_limits(stop, last)
        counts = {"emitted": len(self.hits), "routed": self.routed, "steps": self.steps, "edges": self.read_count}
        left_out = {limit: count for limit, count in sorted(self.left_out.items()) if count}
        hits = [(path[-1], len(path) - 1, list(path)) for path in self.hits]
        counts["depth"] = self.deepest
        return Outcome(hits, stop, counts, left_out, tuple(sorted(self.at_least)), tuple(sorted(self.unknown)))

    def walk(self):
        """Return the stop reason, and the nodes of the last step that were not expanded."""
        case = self.case
        room = self.limits.max_frontier
        self.left_out["max_frontier"] += max(0, len(case.seeds) - room)
        self.discover([((), seed) for seed in case.seeds[:room]])
        while True:
            # Score and select. Selecting nothing ends the walk.
            shown = [(path[-1], len(path) - 1, case.scores[path[-1]]) for path in self.waiting]
            taken, dropped = case.choose(self.steps, shown) if shown else ([], [])
            taken = self.first_of_each_node(taken)
            selected = [self.waiting[index] for index in taken]
            remaining = [path for index, path in enumerate(self.waiting) if index not in dropped or index in taken]
            if not selected:
                return "sufficient" if remaining else "exhausted", []
            self.steps += 1
            # Without a kept frontier, nothing waits but what was selected.
            self.waiting = remaining if case.keeps else list(selected)
            stop, last = self.commit(selected[: case.node_budget - len(self.committed)])
            if stop is not None:
                return stop, last
            # Both limits may be reached in one step. The budget then keeps the waiting nodes out.
            has_all_hits, is_spent = len(self.hits) == self.limits.max_hits, len(self.committed) >= case.node_budget
            if has_all_hits or is_spent:
                self.left_out["node_budget" if is_spent else "max_hits"] += len(self.waiting)
                stop = "max_hits" if has_all_hits else "node_budget"
            else:
                self.expand(last)
            self.waiting_after.append(len(self.waiting))
            if stop is not None:
                return stop, last

    def first_of_each_node(self, indexes):
        """Return selected indexes without repeats; of several paths to a node, the first selected."""
        chosen = {}
        for index in indexes[: len(self.waiting)]:  # no more are read than nodes wait
            chosen.setdefault(self.waiting[index][-1], index)
        return list(chosen.values())

    def commit(self, selected):
        """Commit selected paths in order; return a reason to stop, and what was committed."""
        case, done = self.case, []
        for position, path in enumerate(selected):
            is_hit = path[-1] not in case.routers
            if is_hit and len(self.hits) == self.limits.max_hits:
                held_back = [other for other in selected[position:] if other[-1] not in case.routers]
                self.left_out["max_hits"] += len(held_back)
                # More nodes could have become hits: those that the budget cut off, or that were not selected.
                if {other[-1] for other in self.waiting} - {other[-1] for other in selected}:
                    self.at_least.add("max_hits")
                return "max_hits", done
            self.committed[path[-1]] = path
            self.waiting = [other for other in self.waiting if other[-1] != path[-1]]
            self.deepest = max(self.deepest, len(path) - 1)
            done.append(path)
            if is_hit:
                self.hits.append(path)
                if case.enough is not None and len(self.hits) >= case.enough:
                    return "sufficient", done
            else:
                self.routed += 1
        return None, done

    def expand(self, paths):
        """Read the neighbours of nodes below the depth cap."""
        below = [path for path in paths if self.is_below_cap(path)]
        self.at_cap += [path for path in paths if not self.is_below_cap(path)]
        lists, cut = self.read([path[-1] for path in below], self.limits.max_edges - self.read_count)
        self.left_out += cut
        self.at_least |= {limit for limit in cut if self.is_lower_bound(limit, cut)}
        self.read_count += sum(map(len, lists))
        self.discover([(path, node) for path, nodes in zip(below, lists, strict=True) for node in nodes])

    def is_below_cap(self, path):
        return self.case.max_depth is None or len(path) - 1 < self.case.max_depth

    def read(self, nodes, edges_left):
        """Return the neighbours of nodes as far as the limits allow, and the numbers left out."""
        lists, cut, self.uncounted = [], Counter(), set()
        for node in nodes:
            neighbors, fanout = self.case.edges[node], self.limits.max_fanout
            lists.append(neighbors[: min(fanout, edges_left)])
            read = len(lists[-1])
            edges_left -= read
            if self.case.forms[node] in ("list", "lazy"):
                within = min(len(neighbors), fanout)
                cut += Counter(max_fanout=len(neighbors) - within, max_edges=within - read)
            elif read < len(neighbors):
                limit = "max_fanout" if read == fanout else "max_edges"
                cut[limit] += 1
                self.uncounted.add(limit)
        return lists, +cut

    def is_lower_bound(self, limit, cut):
        return cut[limit] > 0 and limit in self.uncounted

    def discover(self, found):
        """Add new nodes to those that wait, while there is room."""
        for path, node in found:
            waiting = [index for index, other in enumerate(self.waiting) if other[-1] == node]
            if path:
                self.edges.append((path[-1], node, node in self.committed or bool(waiting)))
            longer = (*path, node)
            if node in self.committed:
                continue
            if waiting and not self.case.paths:
                # It waits once, with the shortest path so far.
                if len(longer) < len(self.waiting[waiting[0]]):
                    self.waiting[waiting[0]] = longer
            elif len(self.waiting) >= self.limits.max_frontier:
                self.left_out["max_frontier"] += 1
            else:
                self.waiting.append(longer)

    def count_beyond_limits(self, stop, last):
        """Count the new nodes behind the depth cap, and behind a limit that was reached exactly."""
        behind = {"max_depth": [*self.at_cap, *(path for path in last if not self.is_below_cap(path))]}
        if stop in ("node_budget", "max_hits") and not self.left_out[stop]:
            behind[stop] = [path for path in last if self.is_below_cap(path)]
        behind = {limit: paths for limit, paths in behind.items() if paths}
        if stop == "sufficient" or not self.limits.count_beyond_limits:
            self.unknown |= behind.keys()
            return
        nodes = [path[-1] for paths in behind.values() for path in paths]
        lists, cut = self.read(nodes, self.limits.max_edges)
        # A node that was held back or cut off was selected, so it is not new.
        known = {*self.committed, *(path[-1] for path in self.waiting)}
        for limit, paths in behind.items():
            part, lists = lists[: len(paths)], lists[len(paths) :]
            self.left_out[limit] += len({node for nodes in part for node in nodes} - known)
            if cut:
                self.at_least.add(limit)


async def compare(numbers):
    for number in numbers:
        case = case_of(number)
        simulation = Simulation(case)
        expected = simulation.run()
        assert await walk_hits(case) == expected, case
        assert await walk_events(case) == (expected, simulation.edges, simulation.waiting_after), case


@pytest.mark.parametrize(("backend", "start"), [("asyncio", 0), ("trio", 1)])
def test_some_walks_equal_their_simulation(backend, start):
    anyio.run(compare, range(start, QUICK, 2), backend=backend)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "start"), [("asyncio", 0), ("trio", 1)])
def test_two_thousand_walks_equal_their_simulation(backend, start):
    anyio.run(compare, range(QUICK + start, ALL, 2), backend=backend)


def test_the_simulated_walks_reach_every_limit_and_end():
    """Otherwise the comparison would say little."""
    outcomes = [Simulation(case_of(number)).run() for number in range(QUICK)]
    assert {outcome.stop for outcome in outcomes} == {"sufficient", "max_hits", "node_budget", "exhausted"}
    limits = {"max_depth", "node_budget", "max_hits", "max_fanout", "max_edges", "max_frontier"}
    assert {limit for outcome in outcomes for limit in outcome.left_out} == limits
    assert {limit for outcome in outcomes for limit in outcome.unknown} == {"max_depth", "node_budget", "max_hits"}
