"""The cheapest path where nothing but a cap on hops limits it: Dijkstra's search from both ends."""

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from airw._base.concurrency import offload_if
from airw.links._cheapest import CostSearch
from airw.links._search import HopSearch, PathLimits
from airw.links._steps import MANY, PAGE, Step, StepReader
from airw.links.costs import JUST_BELOW_LEAST, PARTS, link_parts, value_of
from airw.links.paths import LinkPath

__all__ = ["TwoSidedCostSearch"]


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
        below = min(below, self.least + JUST_BELOW_LEAST)
        while self.least < below and len(taken) < PAGE:
            taken.append(heapq.heappop(self.waiting)[2])
        return taken


class TwoSidedCostSearch:
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
        return await CostSearch(self._reader, *ends, self._limits).run() if shortest.found else shortest

    async def _go_on(self, side: _Side, other: _Side) -> None:
        taken = await offload_if(len(side.waiting) > MANY, side.take, self._cost - other.least)
        found = await self._reader.read(taken, back=side.back)
        await self._read_values({step.end for steps in found for step in steps})
        await offload_if(sum(map(len, found)) > MANY, self._relax, side, other, found)

    async def _read_values(self, ends: Iterable[Any]) -> None:
        new = [end for end in ends if end not in self._values]
        records = await self._reader.store.records_of(new, limit=1) if new else []
        self._values.update({id: value_of(each[0] if each else None) for id, each in zip(new, records, strict=True)})

    def _relax(self, side: _Side, other: _Side, found: Sequence[Sequence[Step]]) -> None:
        for step in (step for steps in found for step in steps):
            here, there = (step.end, step.start) if side.back else (step.start, step.end)
            cost = side.costs[here] + link_parts(step.edge.type, self._values[step.end])
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
        return LinkPath(
            self._near.root,
            self._far.root,
            self._reader.direction,
            self._limits.max_hops,
            (self._near.root, *(step.end for step in steps)) if steps else (),
            tuple(step.edge for step in steps),
            self._cost / PARTS if steps else None,
            len(self._near.costs.keys() | self._far.costs.keys()),
        )
