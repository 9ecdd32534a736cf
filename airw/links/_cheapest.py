"""The cheapest path: Dijkstra's search (A Note on Two Problems in Connexion with Graphs, 1959) under limits."""

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from airw._base.concurrency import offload_if
from airw.links._search import LIMITS, PathLimits
from airw.links._steps import MANY, PAGE, Step, StepReader
from airw.links.costs import JUST_BELOW_LEAST, PARTS, link_parts, value_of
from airw.links.paths import LinkPath

__all__ = ["CostSearch"]


class _Way(NamedTuple):
    """All ways of one number of hops to an artifact that cost the same, in parts."""

    cost: float
    hops: int
    order: int
    node: Any


class CostSearch:
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
        below = self._waiting[0].cost + JUST_BELOW_LEAST
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
        ends = dict.fromkeys(step.end for steps in found for step in steps if step.end not in self._values)
        new = list(ends)
        records = await self._reader.store.records_of(new, limit=1) if new else []
        self._values.update({id: value_of(each[0] if each else None) for id, each in zip(new, records, strict=True)})
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
        return way.cost + link_parts(step.edge.type, self._values[step.end])

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
        return LinkPath(
            self._start,
            self._end,
            self._reader.direction,
            self._limits.max_hops,
            () if steps is None else (self._start, *(step.end for step in steps)),
            tuple(step.edge for step in steps or ()),
            None if steps is None else cost / PARTS,
            len(self._cheapest),
            left_out,
            ("max_edges",) if "max_edges" in left_out and steps is None else (),
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
