"""The shortest path by hops, and the parts that all path searches share.

The search is breadth-first from both ends: the two halves together read far fewer links than one search of full length.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple

from airw._base.checks import check_count
from airw._base.concurrency import offload_if
from airw.links.costs import artifact_value
from airw.links.inverses import FollowedLinks
from airw.links.paths import LinkPath
from airw.protocols import GraphStore
from airw.values import Direction, Edge

PAGE = 1_000
"""The most artifacts in one store call: it keeps each call short."""

MANY = 500  # links; processing more takes long enough for a worker thread
_REVERSE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class Step(NamedTuple):
    """A step of a path from one artifact to another, with the stored edge between them."""

    start: Any
    end: Any
    edge: Edge


@dataclass(frozen=True, slots=True)
class StepReader:
    """Reads the steps that a path may take, and the values of artifacts for their costs.

    Args:
        store: The store to read links from.
        links: The links to follow, and their names in each direction.
        corpus_positions: The position of each corpus, by name. It orders the artifacts of several corpora.
    """

    store: GraphStore
    links: FollowedLinks
    corpus_positions: Mapping[str, int]

    async def read(self, ids: Sequence[Any], *, is_backward: bool = False) -> list[list[Step]]:
        """Return the steps that leave each artifact or, if `is_backward`, arrive at it.

        It makes one store call.

        The steps of an artifact are ordered by the name of the link, then by the artifact at the other end.
        """
        direction = _REVERSE[self.links.direction] if is_backward else self.links.direction
        edges = await self.store.neighbors(ids, direction=direction, **self.links.store_options())
        to_steps = partial(self._to_steps, is_backward=is_backward)
        return await offload_if(sum(map(len, edges)) > MANY, to_steps, ids, edges)

    async def read_values(self, values: dict[Any, float], steps: Iterable[Iterable[Step]]) -> None:
        """Add the missing values of the artifacts that steps lead to; at most one store call."""
        missing = [end for end in dict.fromkeys(step.end for group in steps for step in group) if end not in values]
        records = await self.store.records_of(missing, limit=1) if missing else []
        for id, first in zip(missing, records, strict=True):
            values[id] = artifact_value(first[0] if first else None)

    def _to_steps(self, ids: Sequence[Any], edges: Sequence[Sequence[Edge]], *, is_backward: bool) -> list[list[Step]]:
        return [self._steps_of(id, group, is_backward=is_backward) for id, group in zip(ids, edges, strict=True)]

    def _steps_of(self, id: Any, edges: Sequence[Edge], *, is_backward: bool) -> list[Step]:
        ends = [(edge.target if edge.source == id else edge.source, edge) for edge in edges]
        # In a search within one corpus, ids are strings and the artifacts of other corpora are pairs: skip the pairs.
        steps = [
            Step(other, id, edge) if is_backward else Step(id, other, edge)
            for other, edge in ends
            if type(other) is type(id)
        ]
        # Without inverses, links have the same name in both directions: the store has filtered and ordered them
        # already.
        if self.links.inverses is None:
            return steps
        accepted = [step for step in steps if self.links.accepts(step.edge, step.start)]
        return sorted(accepted, key=lambda step: self._order_key(step, step.start if is_backward else step.end))

    def sort_key(self, step: Step) -> tuple[Any, ...]:
        """Return the sort key of a step from an artifact: name, end, out before in, origin."""
        return self._order_key(step, step.end)

    def _order_key(self, step: Step, other: Any) -> tuple[Any, ...]:
        positions = self.corpus_positions
        other_key = other if isinstance(other, str) else (positions.get(other[0], len(positions)), *other)
        name = self.links.name_of(step.edge, step.start)
        return name, other_key, step.edge.source != step.start, step.edge.origin

    def to_path(
        self,
        ends: tuple[Any, Any],
        steps: Sequence[Step] | None,
        *,
        max_hops: int | None,
        cost: float | None,
        visited: int,
        left_out: Mapping[str, int] = MappingProxyType({}),
        at_least: tuple[str, ...] = (),
    ) -> LinkPath:
        """Return the path of these steps; `None` means that the search found no path."""
        nodes = () if steps is None else (ends[0], *(step.end for step in steps))
        edges = tuple(step.edge for step in steps or ())
        return LinkPath(*ends, self.links.direction, max_hops, nodes, edges, cost, visited, dict(left_out), at_least)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLimits:
    """The limits of a path search; `None` means no limit.

    Args:
        max_hops: The most links on the path.
        max_nodes: The most artifacts to reach; both ends count.
        max_edges: The most links to follow; more may be read from the store.
        max_fanout: The most links to follow from one artifact.

    Raises:
        ArgumentError: If a limit is not a whole number in its range.
    """

    max_hops: int | None = 10
    max_nodes: int | None = None
    max_edges: int | None = None
    max_fanout: int | None = None

    @property
    def only_max_hops(self) -> bool:
        """True if there is no limit except that on hops."""
        return self.max_nodes is None and self.max_edges is None and self.max_fanout is None

    def __post_init__(self) -> None:
        """Check all limits; `max_nodes` is at least 2, because both ends count."""
        for limit in fields(self):
            if (value := getattr(self, limit.name)) is not None:
                check_count(limit.name, value, least=2 if limit.name == "max_nodes" else 0)


LIMIT_NAMES = tuple(limit.name for limit in fields(PathLimits))


@dataclass(slots=True, eq=False)
class _HopSide:
    """The half of a search that begins at one end.

    Args:
        root: The end of the path where this half begins.
        is_backward: True for the half that begins at the end of the path and goes against the steps.
        depths: The distance of each reached artifact from the root, in hops.
        levels: For each distance, all steps between its artifacts and those one hop farther from the root.
        frontier: The artifacts at the greatest distance, which are not yet expanded.
    """

    root: Any
    is_backward: bool
    depths: dict[Any, int] = field(default_factory=dict)
    levels: list[list[Step]] = field(default_factory=list)
    frontier: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.depths[self.root] = 0
        self.frontier.append(self.root)

    @property
    def hops(self) -> int:
        return len(self.levels)

    def pages(self) -> Iterable[Sequence[Any]]:
        return (self.frontier[start : start + PAGE] for start in range(0, len(self.frontier), PAGE))

    def outer_end(self, step: Step) -> Any:
        """Return the end of a step that is farther from the root."""
        return step.start if self.is_backward else step.end

    def inner_end(self, step: Step) -> Any:
        """Return the end of a step that is nearer to the root."""
        return step.end if self.is_backward else step.start


@dataclass(slots=True, eq=False)
class _Expansion:
    """The results of expanding one frontier.

    Args:
        steps: All steps that lead to the next distance.
        frontier: The artifacts at the next distance that only this side has reached.
        meeting: The artifacts at the next distance that the other side has reached, too, in order of discovery.
        over_max_nodes: The new artifacts that `max_nodes` did not admit.
        over_max_edges: The ends of the links that `max_edges` left out.
        over_max_fanout: The ends of the links that `max_fanout` left out.
    """

    steps: list[Step] = field(default_factory=list)
    frontier: list[Any] = field(default_factory=list)
    meeting: dict[Any, None] = field(default_factory=dict)
    over_max_nodes: set[Any] = field(default_factory=set)
    over_max_edges: list[Any] = field(default_factory=list)
    over_max_fanout: list[Any] = field(default_factory=list)


class HopSearch:
    """A search for the shortest path by hops between two different artifacts.

    Without limits, each side has reached every artifact up to its distance. So every shortest path goes through one of
    the first artifacts that both sides reach. With a limit, the two sides may read different links: the first path is
    then returned although it need not be the shortest. To look for a shorter one would need the links that the limit
    forbids to read. `left_out` is not empty in this case.
    """

    def __init__(self, reader: StepReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._from_start = _HopSide(start, is_backward=False)
        self._from_end = _HopSide(end, is_backward=True)
        self._edges = 0
        self._over_max_nodes: set[Any] = set()
        self._left_out: dict[str, int] = {}
        self._at_least: dict[str, None] = {}

    async def run(self) -> LinkPath:
        """Search for the path: one store call per level, or per 1,000 artifacts of a larger level.

        If `max_hops` ends the search, more calls count what lies beyond; `max_edges` does not limit them.
        """
        # Once `max_edges` has left out a link to a new artifact, no further link can be followed.
        while self._from_start.frontier and self._from_end.frontier and "max_edges" not in self._left_out:
            # Expand the smaller frontier: the many neighbours of a hub are then often never expanded.
            side, other = self._from_start, self._from_end
            if len(other.frontier) < len(side.frontier):
                side, other = other, side
            # One more level would make the path longer than `max_hops`: count what lies beyond, and stop.
            if side.hops + other.hops == self._limits.max_hops:
                await self._count_beyond_max_hops(side, other)
                break
            if meeting := await self._expand(side, other):
                count = sum(map(len, chain(side.levels, other.levels)))
                steps = await offload_if(count > MANY, self._trace_path, meeting)
                return self._to_result(steps)
        return self._to_result(None)

    async def _expand(self, side: _HopSide, other: _HopSide) -> Sequence[Any]:
        """Advance one side by one hop. Return the artifacts where it meets the other side, if any."""
        level = _Expansion()
        for page in side.pages():
            # A link to a new artifact was left out, so no link of a further page can be followed: the count is a lower
            # bound.
            if level.over_max_edges and any(end not in side.depths for end in level.over_max_edges):
                self._at_least["max_edges"] = None
                break
            steps = await self._reader.read(page, is_backward=side.is_backward)
            await offload_if(sum(map(len, steps)) > MANY, self._add_steps, side, other, level, steps)
        side.levels.append(level.steps)
        side.frontier = level.frontier
        # If the sides meet, do not count what this level left out. If it hides a shorter path, an earlier level also
        # left out a link of that path, and was counted.
        if not level.meeting:
            is_long = len(level.over_max_edges) + len(level.over_max_fanout) > MANY
            await offload_if(is_long, self._count_left_out, side, level)
            return ()
        # Limits can hide artifacts from one side, so meeting points may be on paths of different lengths.
        lengths = {node: side.depths[node] + other.depths[node] for node in level.meeting}
        return [node for node in lengths if lengths[node] == min(lengths.values())]

    def _add_steps(self, side: _HopSide, other: _HopSide, level: _Expansion, groups: Sequence[Sequence[Step]]) -> None:
        limits, depth = self._limits, side.hops + 1
        for steps in groups:
            # `max_fanout` cuts the steps of one artifact, then `max_edges` cuts those of the whole search.
            if limits.max_fanout is not None:
                level.over_max_fanout += map(side.outer_end, steps[limits.max_fanout :])
            allowed = steps[: limits.max_fanout]
            n_followed = len(allowed) if limits.max_edges is None else min(len(allowed), limits.max_edges - self._edges)
            level.over_max_edges += map(side.outer_end, allowed[n_followed:])
            self._edges += n_followed
            for step in allowed[:n_followed]:
                end = side.outer_end(step)
                if end not in side.depths:
                    self._visit(side, other, level, end)
                # Keep every step to the next distance, not only the first: `_trace_path` decides among all of them.
                if side.depths.get(end) == depth:
                    level.steps.append(step)

    def _visit(self, side: _HopSide, other: _HopSide, level: _Expansion, node: Any) -> None:
        if node in other.depths:
            level.meeting[node] = None
        elif self._limits.max_nodes is None or self._node_count < self._limits.max_nodes:
            level.frontier.append(node)
        else:
            level.over_max_nodes.add(node)
            return
        side.depths[node] = side.hops + 1

    @property
    def _node_count(self) -> int:
        # Artifacts where the sides meet count twice. That is harmless: the search ends with this level.
        return len(self._from_start.depths) + len(self._from_end.depths)

    def _count_left_out(self, side: _HopSide, level: _Expansion) -> None:
        """Count what limits left out of a level, except artifacts that were reached otherwise.

        `max_nodes` counts artifacts; `max_edges` and `max_fanout` count links.
        """
        self._over_max_nodes |= level.over_max_nodes
        for limit, ends in (("max_edges", level.over_max_edges), ("max_fanout", level.over_max_fanout)):
            if count := sum(end not in side.depths for end in ends):
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
            steps = await self._reader.read(page, is_backward=side.is_backward)
            if count := await offload_if(sum(map(len, steps)) > MANY, _count_unvisited, side, steps):
                if number * PAGE < len(side.frontier):
                    self._at_least["max_hops"] = None
                return count
        return 0

    def _trace_path(self, meeting: Sequence[Any]) -> list[Step]:
        """Return the shortest path through these artifacts that is first by `sort_key`."""
        # From the meeting points back to both roots: keep only the steps that lie on a shortest path.
        next_steps: dict[Any, list[Step]] = {}
        for side in (self._from_start, self._from_end):
            on_path = set(meeting)
            for level in reversed(side.levels):
                for step in level:
                    if side.outer_end(step) in on_path:
                        on_path.add(side.inner_end(step))
                        next_steps.setdefault(step.start, []).append(step)
        # Every choice among these steps leads to the end, so taking the first step each time gives the first path.
        steps: list[Step] = []
        node = self._from_start.root
        while node != self._from_end.root:
            steps.append(min(next_steps[node], key=self._reader.sort_key))
            node = steps[-1].end
        return steps

    def _to_result(self, steps: Sequence[Step] | None) -> LinkPath:
        if self._over_max_nodes:
            self._left_out["max_nodes"] = len(self._over_max_nodes)
        return self._reader.to_path(
            (self._from_start.root, self._from_end.root),
            steps,
            max_hops=self._limits.max_hops,
            cost=None if steps is None else float(len(steps)),
            visited=len(self._from_start.depths.keys() | self._from_end.depths.keys()),
            left_out={name: self._left_out[name] for name in LIMIT_NAMES if name in self._left_out},
            at_least=tuple(name for name in LIMIT_NAMES if name in self._at_least and name in self._left_out),
        )


def _count_unvisited(side: _HopSide, groups: Iterable[Iterable[Step]]) -> int:
    return len({end for steps in groups for end in map(side.outer_end, steps)} - side.depths.keys())
