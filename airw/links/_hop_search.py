"""The shortest path by hops.

The search is breadth-first from both ends: the two halves together read far fewer links than one search of full length.
Artifacts are numbers here, and a whole step is a few arrays: names and edges are made for the path alone.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from airw._base.arrays import NDArray, reserve
from airw._base.concurrency import offload_if
from airw.links._path_search import LIMIT_NAMES, PAGE, HopReader, PathLimits, Step
from airw.links.columns import LinkColumnReader, LinkColumns, NumberedEdges, Numbers, returns_columns
from airw.links.paths import LinkPath

_MANY = 1 << 15  # links; processing more takes long enough for a worker thread


@dataclass(slots=True, eq=False)
class _HopSide:
    """The half of a search that begins at one end.

    Args:
        root: The end of the path where this half begins.
        is_backward: True for the half that begins at the end of the path and goes against the steps.
        marks: By artifact, its distance from the root in hops, plus 1; 0 if it was not reached.
        count: The number of reached artifacts.
        levels: For each distance, all steps between its artifacts and those one hop farther from the root.
        frontier: The artifacts at the greatest distance, which are not yet expanded.
    """

    root: int
    is_backward: bool
    marks: NDArray[np.int32] = field(default_factory=lambda: np.zeros(1, np.int32))
    count: int = 1
    levels: list[LinkColumns] = field(default_factory=list)
    frontier: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.frontier = np.array([self.root], np.int64)

    def make_room(self, size: int) -> None:
        """Make room for the marks of so many artifacts; before the first call there are none."""
        if size > len(self.marks):
            self.marks = reserve(self.marks, size)
            self.marks[self.root] = 1

    @property
    def hops(self) -> int:
        return len(self.levels)

    def pages(self) -> Iterable[Numbers]:
        return (self.frontier[start : start + PAGE] for start in range(0, len(self.frontier), PAGE))

    def select_unreached(self, nodes: Numbers) -> Numbers:
        """Return those of the artifacts that this side has not reached, with repetitions."""
        unreached: Numbers = nodes[self.marks[nodes] == 0]
        return unreached


class _PathStep(NamedTuple):
    """A step of a shortest path.

    `end` is the artifact that it leads to, and `position` that of its link among `links`.
    """

    end: int
    links: LinkColumns
    position: int


@dataclass(slots=True, eq=False)
class _Expansion:
    """The results of expanding one frontier; each list has an array per page.

    Args:
        steps: The steps that lead to the next distance.
        frontier: The artifacts at the next distance that only this side has reached.
        meeting: The artifacts at the next distance that the other side has reached, too, in order of discovery.
        over_max_nodes: The new artifacts that `max_nodes` did not admit.
        over_max_edges: The ends of the links that `max_edges` left out.
        over_max_fanout: The ends of the links that `max_fanout` left out.
    """

    steps: list[LinkColumns] = field(default_factory=list)
    frontier: list[Numbers] = field(default_factory=list)
    meeting: list[Numbers] = field(default_factory=list)
    over_max_nodes: list[Numbers] = field(default_factory=list)
    over_max_edges: list[Numbers] = field(default_factory=list)
    over_max_fanout: list[Numbers] = field(default_factory=list)


class HopSearch:
    """A search for the shortest path by hops between two different artifacts.

    Without limits, each side has reached every artifact up to its distance. So every shortest path goes through one of
    the first artifacts that both sides reach. With a limit, the two sides may read different links: the first path is
    then returned although it need not be the shortest. To look for a shorter one would need the links that the limit
    forbids to read. `left_out` is not empty in this case.
    """

    def __init__(self, reader: HopReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._ends: tuple[Any, Any] = start, end
        store = reader.store
        source = store if returns_columns(store) else NumberedEdges(store)
        self._links = LinkColumnReader(source, reader.links, reader.node_key)
        self._edges = 0
        self._places = np.zeros(1, np.int64)  # by artifact: see `_select_first`
        self._over_max_nodes: list[Numbers] = []
        self._left_out: dict[str, int] = {}
        self._at_least: dict[str, None] = {}

    async def run(self) -> LinkPath:
        """Search for the path: one store call per level, or per 1,000 artifacts of a larger level.

        If `max_hops` ends the search, more calls count what lies beyond; `max_edges` does not limit them.
        """
        first, last = (await self._links.source.artifact_numbers(self._ends)).tolist()
        if min(first, last) < 0:  # an artifact that the store has never had
            return self._reader.to_path(self._ends, None, max_hops=self._limits.max_hops, cost=None, visited=2)
        self._from_start, self._from_end = _HopSide(first, is_backward=False), _HopSide(last, is_backward=True)
        # Once `max_edges` has left out a link to a new artifact, no further link can be followed.
        while len(self._from_start.frontier) and len(self._from_end.frontier) and "max_edges" not in self._left_out:
            # Expand the smaller frontier: the many neighbours of a hub are then often never expanded.
            side, other = self._from_start, self._from_end
            if len(other.frontier) < len(side.frontier):
                side, other = other, side
            # One more level would make the path longer than `max_hops`: count what lies beyond, and stop.
            if side.hops + other.hops == self._limits.max_hops:
                await self._count_beyond_max_hops(side, other)
                break
            meeting, met = await self._expand(side, other)
            if met:
                count = sum(len(level.ends) for level in (*side.levels, *other.levels))
                return await offload_if(count > _MANY, self._trace_path, meeting, met)
        return self._to_result(None)

    async def _read(self, page: Numbers, side: _HopSide) -> LinkColumns:
        steps, _ = await self._links.read(page, is_backward=side.is_backward)
        # Numbers may be new to the store: make room for the highest.
        size = len(self._links.nodes)
        self._places = reserve(self._places, size)
        for each in (self._from_start, self._from_end):
            each.make_room(size)
        return steps

    async def _expand(self, side: _HopSide, other: _HopSide) -> tuple[Numbers, int]:
        """Advance one side by one hop.

        Returns:
            The artifacts where it meets the other side on a shortest path, and the number of all where it meets it.
        """
        level = _Expansion()
        for page in side.pages():
            # A link to a new artifact was left out, so no link of a further page can be followed: the count is a lower
            # bound.
            if any(len(side.select_unreached(ends)) for ends in level.over_max_edges):
                self._at_least["max_edges"] = None
                break
            steps = await self._read(page, side)
            await offload_if(len(steps.ends) > _MANY, self._add_steps, side, other, level, steps)
        side.levels.append(LinkColumns.join(level.steps))
        side.frontier = np.concatenate(level.frontier)
        meeting = np.concatenate(level.meeting)
        # If the sides meet, do not count what this level left out. If it hides a shorter path, an earlier level also
        # left out a link of that path, and was counted.
        if not len(meeting):
            self._count_left_out(side, level)
            return meeting, 0
        # Limits can hide artifacts from one side, so meeting points may be on paths of different lengths.
        lengths = side.marks[meeting] + other.marks[meeting]
        return meeting[lengths == lengths.min()], len(meeting)

    def _add_steps(self, side: _HopSide, other: _HopSide, level: _Expansion, steps: LinkColumns) -> None:
        limits = self._limits
        # `max_fanout` cuts the steps of one artifact, then `max_edges` cuts those of the whole search.
        if limits.max_fanout is not None:
            is_within = np.arange(len(steps.ends)) - steps.find_rows() < limits.max_fanout
            level.over_max_fanout.append(steps.ends[~is_within])
            steps = steps.select(is_within)
        if limits.max_edges is not None:
            room = limits.max_edges - self._edges
            level.over_max_edges.append(steps.ends[room:])
            steps = steps.select(slice(room))
            self._edges += len(steps.ends)
        new = self._select_first(side.select_unreached(steps.ends))
        is_meeting = other.marks[new] > 0
        if limits.max_nodes is not None:
            # Artifacts where the sides meet count twice. That is harmless: the search ends with this level.
            is_admitted = is_meeting | (np.arange(len(new)) < limits.max_nodes - side.count - other.count)
            level.over_max_nodes.append(new[~is_admitted])
            new, is_meeting = new[is_admitted], is_meeting[is_admitted]
        side.marks[new] = side.hops + 2
        side.count += len(new)
        level.meeting.append(new[is_meeting])
        level.frontier.append(new[~is_meeting])
        # Keep every step to the next distance, not only the first: `_trace_path` decides among all of them.
        level.steps.append(steps.select(side.marks[steps.ends] == side.hops + 2))

    def _select_first(self, nodes: Numbers) -> Numbers:
        """Return each of the artifacts once, in order of discovery."""
        # Written backwards, the place of each artifact is its first one in the end. This is faster than sorting.
        places = np.arange(len(nodes))
        self._places[nodes[::-1]] = places[::-1]
        first: Numbers = nodes[self._places[nodes] == places]
        return first

    def _count_left_out(self, side: _HopSide, level: _Expansion) -> None:
        """Count what limits left out of a level, except artifacts that were reached otherwise.

        `max_nodes` counts artifacts; `max_edges` and `max_fanout` count links.
        """
        self._over_max_nodes += level.over_max_nodes
        for limit, parts in (("max_edges", level.over_max_edges), ("max_fanout", level.over_max_fanout)):
            if count := sum(len(side.select_unreached(ends)) for ends in parts):
                self._left_out[limit] = self._left_out.get(limit, 0) + count

    async def _count_beyond_max_hops(self, *sides: _HopSide) -> None:
        # A side without new neighbours has reached all it can: there is no path. Else report those of the smaller
        # frontier.
        counts = [await self._count_new_neighbors(side) for side in sides]
        if all(counts):
            self._left_out["max_hops"] = counts[0]

    async def _count_new_neighbors(self, side: _HopSide) -> int:
        """Count the new neighbours of the first page of the frontier that has any."""
        for number, page in enumerate(side.pages(), 1):
            steps = await self._read(page, side)
            new = await offload_if(len(steps.ends) > _MANY, self._select_first, side.select_unreached(steps.ends))
            if len(new):
                if number * PAGE < len(side.frontier):
                    self._at_least["max_hops"] = None
                return len(new)
        return 0

    def _trace_path(self, meeting: Numbers, met: int) -> LinkPath:
        """Return the shortest path through these artifacts whose steps are first in order."""
        # From the meeting points back to both roots: keep only the steps that lie on a shortest path.
        choices: dict[int, list[_PathStep]] = {}
        for side in (self._from_start, self._from_end):
            on_path = np.zeros(len(self._links.nodes), np.bool_)
            on_path[meeting] = True
            for level in reversed(side.levels):
                links = level.select(on_path[level.ends])
                on_path[links.owners] = True
                starts, ends = (links.ends, links.owners) if side.is_backward else (links.owners, links.ends)
                for position, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
                    choices.setdefault(start, []).append(_PathStep(end, links, position))
        # Every choice among these steps leads to the end, so taking the first step each time gives the first path.
        path, node = list[Step](), self._from_start.root
        while node != self._from_end.root:
            steps = [(choice.end, self._make_step(node, choice)) for choice in choices[node]]
            node, step = min(steps, key=lambda choice: self._reader.sort_key(choice[1])) if len(steps) > 1 else steps[0]
            path.append(step)
        return self._to_result(path, met)

    def _make_step(self, start: int, choice: _PathStep) -> Step:
        [edge] = self._links.make_edges(choice.links, np.array([choice.position]))
        return Step(self._links.nodes[start], self._links.nodes[choice.end], edge)

    def _to_result(self, steps: Sequence[Step] | None, met: int = 0) -> LinkPath:
        """Return the result; the sides have met at `met` artifacts."""
        if any(map(len, self._over_max_nodes)):
            self._left_out["max_nodes"] = len(np.unique(np.concatenate(self._over_max_nodes)))
        return self._reader.to_path(
            self._ends,
            steps,
            max_hops=self._limits.max_hops,
            cost=None if steps is None else float(len(steps)),
            visited=self._from_start.count + self._from_end.count - met,
            left_out={name: self._left_out[name] for name in LIMIT_NAMES if name in self._left_out},
            at_least=tuple(name for name in LIMIT_NAMES if name in self._at_least and name in self._left_out),
        )
