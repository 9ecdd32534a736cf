"""The cheapest path, by Dijkstra's search.

If only hops are limited, the search goes from both ends: it then reads few artifacts even in a large graph. With other
limits it goes from the start alone: to report what they left out, it needs the cost of each link from the start.

Costs are in cost units: see `airw.links.costs`. The paper: E. W. Dijkstra, A Note on Two Problems in Connexion with
Graphs, 1959.
"""

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple

from airw._base.concurrency import offload_if
from airw.links._hop_search import HopSearch
from airw.links._path_search import LIMIT_NAMES, MANY, PAGE, HopReader, PathLimits, Step
from airw.links.costs import COST_EPSILON, COST_SCALE, link_cost
from airw.links.paths import LinkPath


@dataclass(slots=True, eq=False)
class _CostSide:
    """The half of a search that begins at one end.

    Args:
        root: The end of the path where this half begins.
        is_backward: True for the half that begins at the end of the path and goes against the steps.
        costs: The lowest known cost between the root and each reached artifact, in cost units.
        last_steps: The last steps of all paths that reach an artifact at that cost.
        queue: The artifacts to expand, cheapest first: a heap of cost, order of discovery and artifact.
    """

    root: Any
    is_backward: bool
    costs: dict[Any, float] = field(default_factory=dict)
    last_steps: dict[Any, list[Step]] = field(default_factory=dict)
    queue: list[tuple[float, int, Any]] = field(default_factory=list)
    _discovery: Any = field(default_factory=count)

    def __post_init__(self) -> None:
        self.reach(self.root, 0, ())

    @property
    def lowest_cost(self) -> float:
        """The cost of the next artifact to expand; it is final."""
        # An artifact that got cheaper is in the heap twice: drop the entry with the old cost.
        while self.queue and self.queue[0][0] > self.costs[self.queue[0][2]]:
            heapq.heappop(self.queue)
        return self.queue[0][0] if self.queue else math.inf

    def reach(self, node: Any, cost: float, last_steps: Sequence[Step]) -> None:
        """Record the last steps of a path unless a cheaper one is known; paths of equal cost stay."""
        known_cost = self.costs.get(node, math.inf)
        if cost < known_cost:
            self.costs[node] = cost
            self.last_steps[node] = []
            heapq.heappush(self.queue, (cost, next(self._discovery), node))
        if cost <= known_cost:
            self.last_steps[node] += last_steps

    def pop_final(self, below: float) -> list[Any]:
        """Remove and return artifacts whose cost is final and less than `below`; at most a page."""
        # Any further path costs at least one link more than the cheapest artifact of the queue. So all artifacts that
        # cost less than that are final together, and one store call reads the links of them all.
        below = min(below, self.lowest_cost + COST_EPSILON)
        nodes: list[Any] = []
        while self.lowest_cost < below and len(nodes) < PAGE:
            nodes.append(heapq.heappop(self.queue)[2])
        return nodes


class CostSearch:
    """A search for the cheapest path between two different artifacts, from both ends.

    The search stops when the lowest costs of both queues together reach the cost of the best path. A cheaper path would
    have to cross a step between artifacts that neither side has expanded, and so would cost more than that sum. For the
    same reason, all steps of all paths of that cost have been read by then.
    """

    def __init__(self, reader: HopReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._from_start = _CostSide(start, is_backward=False)
        self._from_end = _CostSide(end, is_backward=True)
        self._values: dict[Any, float] = {}
        self._best_cost = math.inf

    async def run(self) -> LinkPath:
        """Search the path; two store calls per round."""
        while self._from_start.lowest_cost + self._from_end.lowest_cost < self._best_cost:
            # Expand the side with the shorter queue: the many neighbours of a hub are then often never expanded.
            side, other = self._from_start, self._from_end
            if len(other.queue) < len(side.queue):
                side, other = other, side
            await self._expand(side, other)
        is_long = len(self._from_start.costs) + len(self._from_end.costs) > MANY
        steps = await offload_if(is_long, self._trace_path)
        max_hops = self._limits.max_hops
        if max_hops is None or len(steps) <= max_hops:
            return self._to_result(steps)
        # The cheapest path has too many hops. The search by hops decides cheaply whether any path is short enough;
        # only then is the slower search worth its time, which weighs cost against hops.
        ends = self._from_start.root, self._from_end.root
        shortest = await HopSearch(self._reader, *ends, self._limits).run()
        return await LimitedCostSearch(self._reader, *ends, self._limits).run() if shortest.found else shortest

    async def _expand(self, side: _CostSide, other: _CostSide) -> None:
        # An artifact that costs more can be on no better path: the other half costs at least `other.lowest_cost`.
        nodes = await offload_if(len(side.queue) > MANY, side.pop_final, self._best_cost - other.lowest_cost)
        groups = await self._reader.read(nodes, is_backward=side.is_backward)
        await self._reader.read_values(self._values, groups)
        await offload_if(sum(map(len, groups)) > MANY, self._relax, side, other, groups)

    def _relax(self, side: _CostSide, other: _CostSide, groups: Sequence[Sequence[Step]]) -> None:
        for step in (step for steps in groups for step in steps):
            inner, outer = (step.end, step.start) if side.is_backward else (step.start, step.end)
            cost = side.costs[inner] + link_cost(step.edge.type, self._values[step.end])
            side.reach(outer, cost, [step])
            self._best_cost = min(self._best_cost, cost + other.costs.get(outer, math.inf))

    def _trace_path(self) -> list[Step]:
        """Return the first of the cheapest paths with the fewest hops; empty if there is none."""
        next_steps = self._cheapest_steps() if self._best_cost < math.inf else {}
        # Breadth-first from the end: the hops from each artifact to the end, along cheapest paths.
        previous: dict[Any, list[Any]] = {}
        for steps in next_steps.values():
            for step in steps:
                previous.setdefault(step.end, []).append(step.start)
        hops, queue = {self._from_end.root: 0}, [self._from_end.root]
        for node in queue:
            for start in previous.get(node, ()):
                if start not in hops:
                    hops[start] = hops[node] + 1
                    queue.append(start)
        # From the start, take the first step of those that come one hop nearer.
        path: list[Step] = []
        node = self._from_start.root
        while node in next_steps:
            nearer = (step for step in next_steps[node] if hops[step.end] == hops[node] - 1)
            path.append(min(nearer, key=self._reader.sort_key))
            node = path[-1].end
        return path

    def _cheapest_steps(self) -> dict[Any, list[Step]]:
        """Return all steps of all cheapest paths, by the artifact where they begin."""
        # The two sides meet on a cheapest path where their costs add up to the best cost.
        meeting = [
            node
            for node, cost in self._from_start.costs.items()
            if math.isclose(cost + self._from_end.costs.get(node, math.inf), self._best_cost, rel_tol=1e-12)
        ]
        # From there, follow the last steps back to both roots.
        next_steps: dict[Any, dict[Step, None]] = {}
        for side in (self._from_start, self._from_end):
            visited, stack = set(meeting), list(meeting)
            while stack:
                for step in side.last_steps[stack.pop()]:
                    next_steps.setdefault(step.start, {})[step] = None
                    inner = step.end if side.is_backward else step.start
                    if inner not in visited:
                        visited.add(inner)
                        stack.append(inner)
        return {start: list(steps) for start, steps in next_steps.items()}

    def _to_result(self, steps: Sequence[Step]) -> LinkPath:
        return self._reader.to_path(
            (self._from_start.root, self._from_end.root),
            steps or None,
            max_hops=self._limits.max_hops,
            cost=self._best_cost / COST_SCALE if steps else None,
            visited=len(self._from_start.costs.keys() | self._from_end.costs.keys()),
        )


class _Label(NamedTuple):
    """The cheapest paths to an artifact with a given number of hops.

    Labels sort by cost, then by hops, then by discovery.
    """

    cost: float
    hops: int
    discovery: int
    node: Any


class LimitedCostSearch:
    """A search for the cheapest path under limits, from the start alone; the ends differ.

    With a cap on hops, an expensive path of few hops can be continued where a cheaper one is already too long. So each
    artifact has one label per number of hops, as in label-setting algorithms for constrained shortest paths.
    """

    def __init__(self, reader: HopReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._start, self._end = start, end
        self._queue = [_Label(0, 0, 0, start)]
        self._costs: dict[tuple[Any, int], float] = {(start, 0): 0}  # by artifact and hops
        self._last_steps: dict[tuple[Any, int], list[Step]] = {}
        self._settled: dict[Any, _Label] = {}  # per artifact, the final label of fewest hops so far
        self._lowest_cost: dict[Any, float] = {start: 0, end: math.inf}
        self._values: dict[Any, float] = {}
        self._edges = self._label_count = 0
        self._refused: list[tuple[str, Any, float]] = []  # the limit, the artifact, and the cost of reaching it
        self._has_missed_nodes = False  # `max_edges` left a link to an unreached artifact unread

    async def run(self) -> LinkPath:
        """Search the path; two store calls per round of artifacts whose cost is final."""
        while self._queue and not self._is_over:
            labels = await offload_if(len(self._queue) > MANY, self._settle)
            for start in range(0, len(labels), PAGE):
                if self._is_over:
                    break
                await self._expand(labels[start : start + PAGE])
        return await offload_if(len(self._refused) + len(self._costs) > MANY, self._to_result)

    @property
    def _is_over(self) -> bool:
        """True if the end is reached, or if `max_edges` is used up and no path to it was read."""
        return self._end in self._settled or (self._has_missed_nodes and self._is_unreached(self._end))

    def _settle(self) -> list[_Label]:
        """Remove and return the final labels, in their order; none after that of the end."""
        labels: list[_Label] = []
        # Any further label costs at least one link more than the cheapest one of the queue: all below are final.
        below = self._queue[0].cost + COST_EPSILON
        while self._queue and self._queue[0].cost < below and self._end not in self._settled:
            label = heapq.heappop(self._queue)
            is_current = self._costs[label.node, label.hops] == label.cost  # a label that got cheaper is there twice
            if is_current and not self._is_dominated(label.node, label.hops):
                self._settled[label.node] = label
                labels.append(label)
        return labels

    def _is_dominated(self, node: Any, hops: int) -> bool:
        """Return whether a settled label of the artifact makes a new one useless."""
        # A settled label never costs more. It is worse only if it has more hops and hops are limited.
        settled = self._settled.get(node)
        return settled is not None and (self._limits.max_hops is None or settled.hops <= hops)

    async def _expand(self, labels: Sequence[_Label]) -> None:
        groups = await self._reader.read([label.node for label in labels])
        await self._reader.read_values(self._values, groups)
        await offload_if(sum(map(len, groups)) > MANY, self._relax, labels, groups)

    def _relax(self, labels: Sequence[_Label], groups: Sequence[Sequence[Step]]) -> None:
        limits = self._limits
        for label, steps in zip(labels, groups, strict=True):
            # `max_fanout` cuts the steps of one artifact, then `max_edges` cuts those of the whole search.
            allowed = steps[: limits.max_fanout]
            budget = len(allowed) if limits.max_edges is None else min(len(allowed), limits.max_edges - self._edges)
            unread = allowed[budget:]
            self._refuse("max_fanout", label, steps[len(allowed) :])
            self._refuse("max_edges", label, unread)
            self._has_missed_nodes = self._has_missed_nodes or any(self._is_unreached(step.end) for step in unread)
            self._edges += budget
            for step in allowed[:budget]:
                self._reach(label, step)

    def _reach(self, label: _Label, step: Step) -> None:
        """Extend the paths of a label by a step, unless a limit or a better label forbids it."""
        node, hops = step.end, label.hops + 1
        if self._is_dominated(node, hops):
            return
        max_hops, max_nodes = self._limits.max_hops, self._limits.max_nodes
        if label.hops == max_hops:
            self._refuse("max_hops", label, [step])
        elif max_nodes is not None and node not in self._lowest_cost and len(self._lowest_cost) >= max_nodes:
            self._refuse("max_nodes", label, [step])
        else:
            self._add_label(node, hops, self._cost_after(label, step), step)

    def _add_label(self, node: Any, hops: int, cost: float, step: Step) -> None:
        known_cost = self._costs.get((node, hops), math.inf)
        if cost < known_cost:
            self._costs[node, hops] = cost
            self._last_steps[node, hops] = []
            self._label_count += 1
            heapq.heappush(self._queue, _Label(cost, hops, self._label_count, node))
            self._lowest_cost[node] = min(cost, self._lowest_cost.get(node, math.inf))
        if cost <= known_cost:
            self._last_steps[node, hops].append(step)

    def _is_unreached(self, node: Any) -> bool:
        return self._lowest_cost.get(node, math.inf) == math.inf

    def _cost_after(self, label: _Label, step: Step) -> float:
        return label.cost + link_cost(step.edge.type, self._values[step.end])

    def _refuse(self, limit: str, label: _Label, steps: Sequence[Step]) -> None:
        self._refused += [(limit, step.end, self._cost_after(label, step)) for step in steps]

    def _trace_path(self) -> Iterator[Step]:
        """Yield the steps of the first of the cheapest paths with the fewest hops."""
        # From the end back to the start, hop by hop: keep only the steps that lie on such a path.
        hops = self._settled[self._end].hops
        next_steps: dict[tuple[Any, int], list[Step]] = {}
        nodes = {self._end: None}
        for hop in range(hops, 0, -1):
            steps = [step for node in nodes for step in self._last_steps[node, hop]]
            for step in steps:
                next_steps.setdefault((step.start, hop - 1), []).append(step)
            nodes = dict.fromkeys(step.start for step in steps)
        # Every choice among these steps leads to the end, so taking the first step each time gives the first path.
        node = self._start
        for hop in range(hops):
            step = min(next_steps[node, hop], key=self._reader.sort_key)
            yield step
            node = step.end

    def _to_result(self) -> LinkPath:
        steps = list(self._trace_path()) if self._end in self._settled else None
        cost = math.inf if steps is None else self._settled[self._end].cost
        left_out = self._count_left_out(cost)
        return self._reader.to_path(
            (self._start, self._end),
            steps,
            max_hops=self._limits.max_hops,
            cost=None if steps is None else cost / COST_SCALE,
            visited=len(self._lowest_cost),
            left_out=left_out,
            at_least=("max_edges",) if "max_edges" in left_out and steps is None else (),
        )

    def _count_left_out(self, path_cost: float) -> dict[str, int]:
        """Count the links or artifacts left out that could have been on a cheaper path."""
        relevant = [
            (limit, node)
            for limit, node, cost in self._refused
            if cost < min(path_cost, self._lowest_cost.get(node, math.inf))
        ]
        counts = {
            "max_hops": len({node for limit, node in relevant if limit == "max_hops"}),
            "max_nodes": len({node for limit, node in relevant if limit == "max_nodes"}),
            **{name: sum(limit == name for limit, _ in relevant) for name in ("max_edges", "max_fanout")},
        }
        return {name: counts[name] for name in LIMIT_NAMES if counts[name]}
