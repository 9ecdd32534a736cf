"""The cheapest path: Dijkstra's search (A Note on Two Problems in Connexion with Graphs, 1959).

It goes from both ends where nothing but the number of hops is limited, as it then looks at few artifacts even in a
large graph; under other limits from the start alone.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from airw._base.concurrency import offload_if
from airw.links._path_search import LIMITS, MANY, PAGE, HopSearch, PathLimits, Step, StepReader
from airw.links.costs import COST_EPSILON, COST_SCALE, link_cost
from airw.links.paths import LinkPath


@dataclass(slots=True, eq=False)
class _Side:
    """What was reached from one end: what the way costs, in parts, and the last steps of all ways that cost that."""

    root: Any
    back: bool
    costs: dict[Any, float] = field(default_factory=dict)
    steps: dict[Any, list[Step]] = field(default_factory=dict)
    waiting: list[tuple[float, int, Any]] = field(default_factory=list)
    made: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.reach(self.root, 0, ())

    @property
    def least(self) -> float:
        """What the cheapest way costs that was not gone on with; it is final."""
        while self.waiting and self.waiting[0][0] > self.costs[self.waiting[0][2]]:
            heapq.heappop(self.waiting)  # a cheaper way was found since
        return self.waiting[0][0] if self.waiting else math.inf

    def reach(self, node: Any, cost: float, last: Sequence[Step]) -> None:
        """Note a way, where none that is known costs less."""
        known = self.costs.get(node, math.inf)
        if cost < known:
            self.costs[node], self.steps[node] = cost, []
            heapq.heappush(self.waiting, (cost, next(self.made), node))
        if cost <= known:
            self.steps[node] += last

    def take(self, below: float) -> list[Any]:
        """Take what no cheaper way can lead to any more and is cheaper than `below`, a page at most."""
        taken: list[Any] = []
        below = min(below, self.least + COST_EPSILON)
        while self.least < below and len(taken) < PAGE:
            taken.append(heapq.heappop(self.waiting)[2])
        return taken


class CostSearch:
    """One search for a path, between two artifacts of the graph that are not the same.

    It ends when no two ways, one from either end, can add up to less than the cheapest path known. Every step of every
    path that costs as little was then seen: else it would lie between two ways that are not gone on with, and cost
    more.
    """

    def __init__(self, reader: StepReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._near, self._far = _Side(start, back=False), _Side(end, back=True)
        self._values: dict[Any, float] = {}
        self._cost = math.inf

    async def run(self) -> LinkPath:
        """Search; two store calls a round.

        Where the cheapest path is too long, search again for one that is not.
        """
        while self._near.least + self._far.least < self._cost:
            side, other = self._near, self._far
            if len(other.waiting) < len(side.waiting):
                side, other = other, side
            await self._go_on(side, other)
        steps = await offload_if(len(self._near.costs) + len(self._far.costs) > MANY, self._path)
        most, ends = self._limits.max_hops, (self._near.root, self._far.root)
        if most is None or len(steps) <= most:
            return self._result(steps)
        shortest = await HopSearch(self._reader, *ends, self._limits).run()
        return await LimitedCostSearch(self._reader, *ends, self._limits).run() if shortest.found else shortest

    async def _go_on(self, side: _Side, other: _Side) -> None:
        taken = await offload_if(len(side.waiting) > MANY, side.take, self._cost - other.least)
        found = await self._reader.read(taken, back=side.back)
        await self._reader.read_values(self._values, found)
        await offload_if(sum(map(len, found)) > MANY, self._relax, side, other, found)

    def _relax(self, side: _Side, other: _Side, found: Sequence[Sequence[Step]]) -> None:
        for step in (step for steps in found for step in steps):
            here, there = (step.end, step.start) if side.back else (step.start, step.end)
            cost = side.costs[here] + link_cost(step.edge.type, self._values[step.end])
            side.reach(there, cost, [step])
            self._cost = min(self._cost, cost + other.costs.get(there, math.inf))

    def _path(self) -> list[Step]:
        """Give the first of the cheapest paths of fewest hops; no steps where there is none."""
        onward = self._cheapest_steps() if self._cost < math.inf else {}
        hops, level = {self._far.root: 0}, [self._far.root]
        before: dict[Any, list[Any]] = {}
        for steps in onward.values():
            for step in steps:
                before.setdefault(step.end, []).append(step.start)
        for node in level:
            for start in before.get(node, ()):
                if start not in hops:
                    hops[start] = hops[node] + 1
                    level.append(start)
        path: list[Step] = []
        at = self._near.root
        while at in onward:
            path.append(min((step for step in onward[at] if hops[step.end] == hops[at] - 1), key=self._reader.key))
            at = path[-1].end
        return path

    def _cheapest_steps(self) -> dict[Any, list[Step]]:
        """Give, by where they begin, all steps of the cheapest paths, which meet where both costs add up to theirs."""
        met = [
            node
            for node, cost in self._near.costs.items()
            if math.isclose(cost + self._far.costs.get(node, math.inf), self._cost, rel_tol=1e-12)
        ]
        onward: dict[Any, dict[Step, None]] = {}
        for side in (self._near, self._far):
            known, waiting = set(met), list(met)
            while waiting:
                for step in side.steps[waiting.pop()]:
                    onward.setdefault(step.start, {})[step] = None
                    next_ = step.end if side.back else step.start
                    if next_ not in known:
                        known.add(next_)
                        waiting.append(next_)
        return {start: list(steps) for start, steps in onward.items()}

    def _result(self, steps: Sequence[Step]) -> LinkPath:
        return self._reader.path(
            (self._near.root, self._far.root),
            steps or None,
            max_hops=self._limits.max_hops,
            cost=self._cost / COST_SCALE if steps else None,
            visited=len(self._near.costs.keys() | self._far.costs.keys()),
        )


class _Way(NamedTuple):
    """All ways of one number of hops to an artifact that cost the same, in parts."""

    cost: float
    hops: int
    order: int
    node: Any


class LimitedCostSearch:
    """One search for a path, between two artifacts of the graph that are not the same.

    Under a cap on hops a dearer way of fewer hops counts beside a cheaper one, so that the path is the cheapest of all
    that are short enough.
    """

    def __init__(self, reader: StepReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._start, self._end = start, end
        self._waiting = [_Way(0, 0, 0, start)]
        self._costs: dict[tuple[Any, int], float] = {(start, 0): 0}
        self._last_steps: dict[tuple[Any, int], list[Step]] = {}
        self._settled: dict[Any, _Way] = {}  # the cheapest way, then the one of fewest hops
        self._cheapest: dict[Any, float] = {start: 0, end: math.inf}
        self._values: dict[Any, float] = {}
        self._edges = self._made = 0
        self._kept_out: list[tuple[str, Any, float]] = []
        self._is_spent = False

    async def run(self) -> LinkPath:
        """Search; two store calls for all artifacts that no cheaper way can lead to any more."""
        while self._waiting and not self._is_over:
            ways = await offload_if(len(self._waiting) > MANY, self._settle)
            for at in range(0, len(ways), PAGE):
                if self._is_over:
                    break
                await self._expand(ways[at : at + PAGE])
        return await offload_if(len(self._kept_out) + len(self._costs) > MANY, self._result)

    @property
    def _is_over(self) -> bool:
        """Whether the end was reached, or cannot be any more, as a link to what is not known was not read."""
        return self._end in self._settled or (self._is_spent and self._cheapest[self._end] == math.inf)

    def _settle(self) -> list[_Way]:
        """Take the ways that are final, in order of cost, hops and discovery; none after the end."""
        ways: list[_Way] = []
        below = self._waiting[0].cost + COST_EPSILON
        while self._waiting and self._waiting[0].cost < below and self._end not in self._settled:
            way = heapq.heappop(self._waiting)
            if self._costs[way.node, way.hops] == way.cost and not self._is_settled(way.node, way.hops):
                self._settled[way.node] = way
                ways.append(way)
        return ways

    def _is_settled(self, node: Any, hops: int) -> bool:
        settled = self._settled.get(node)
        return settled is not None and (self._limits.max_hops is None or settled.hops <= hops)

    async def _expand(self, ways: Sequence[_Way]) -> None:
        found = await self._reader.read([way.node for way in ways])
        await self._reader.read_values(self._values, found)
        await offload_if(sum(map(len, found)) > MANY, self._relax, ways, found)

    def _relax(self, ways: Sequence[_Way], found: Sequence[Sequence[Step]]) -> None:
        limits = self._limits
        for way, steps in zip(ways, found, strict=True):
            kept = steps[: limits.max_fanout]
            room = len(kept) if limits.max_edges is None else min(len(kept), limits.max_edges - self._edges)
            self._keep_out("max_fanout", way, steps[len(kept) :])
            self._keep_out("max_edges", way, kept[room:])
            self._is_spent = self._is_spent or any(self._is_unknown(step.end) for step in kept[room:])
            self._edges += room
            for step in kept[:room]:
                self._reach(way, step)

    def _reach(self, way: _Way, step: Step) -> None:
        """Note a way that goes one step on, where it is none that costs more than another."""
        node, hops = step.end, way.hops + 1
        if self._is_settled(node, hops):
            return
        limits = self._limits
        if way.hops == limits.max_hops:
            self._keep_out("max_hops", way, [step])
        elif limits.max_nodes is not None and node not in self._cheapest and len(self._cheapest) >= limits.max_nodes:
            self._keep_out("max_nodes", way, [step])
        else:
            self._note(node, hops, self._cost(way, step), step)

    def _note(self, node: Any, hops: int, cost: float, step: Step) -> None:
        known = self._costs.get((node, hops), math.inf)
        if cost < known:
            self._costs[node, hops] = cost
            self._last_steps[node, hops] = []
            self._made += 1
            heapq.heappush(self._waiting, _Way(cost, hops, self._made, node))
            self._cheapest[node] = min(cost, self._cheapest.get(node, math.inf))
        if cost <= known:
            self._last_steps[node, hops].append(step)

    def _is_unknown(self, node: Any) -> bool:
        return self._cheapest.get(node, math.inf) == math.inf

    def _cost(self, way: _Way, step: Step) -> float:
        return way.cost + link_cost(step.edge.type, self._values[step.end])

    def _keep_out(self, limit: str, way: _Way, steps: Sequence[Step]) -> None:
        self._kept_out += [(limit, step.end, self._cost(way, step)) for step in steps]

    def _path(self) -> Iterator[Step]:
        """Give the steps of the first of the cheapest paths of fewest hops."""
        hops = self._settled[self._end].hops
        onward: dict[tuple[Any, int], list[Step]] = {}
        known = {self._end: None}
        for left in range(hops, 0, -1):
            steps = [step for node in known for step in self._last_steps[node, left]]
            for step in steps:
                onward.setdefault((step.start, left - 1), []).append(step)
            known = dict.fromkeys(step.start for step in steps)
        at = self._start
        for done in range(hops):
            step = min(onward[at, done], key=self._reader.key)
            yield step
            at = step.end

    def _result(self) -> LinkPath:
        steps = list(self._path()) if self._end in self._settled else None
        cost = math.inf if steps is None else self._settled[self._end].cost
        left_out = self._left_out(cost)
        return self._reader.path(
            (self._start, self._end),
            steps,
            max_hops=self._limits.max_hops,
            cost=None if steps is None else cost / COST_SCALE,
            visited=len(self._cheapest),
            left_out=left_out,
            at_least=("max_edges",) if "max_edges" in left_out and steps is None else (),
        )

    def _left_out(self, most: float) -> dict[str, int]:
        """Count what limits kept out: links, or artifacts, on a way that is cheaper than any known."""
        kept = [
            (limit, node)
            for limit, node, cost in self._kept_out
            if cost < min(most, self._cheapest.get(node, math.inf))
        ]
        counts = {
            "max_hops": len({node for limit, node in kept if limit == "max_hops"}),
            "max_nodes": len({node for limit, node in kept if limit == "max_nodes"}),
            **{name: sum(limit == name for limit, _ in kept) for name in ("max_edges", "max_fanout")},
        }
        return {name: counts[name] for name in LIMITS if counts[name]}
