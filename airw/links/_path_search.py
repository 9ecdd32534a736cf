"""The shortest path by hops: breadth-first search from both ends; and what every search for a path reads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
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
"""Artifacts asked about in one call: with ten links each, some milliseconds of work."""

MANY = 500  # links, looked at in about a millisecond
_REVERSE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class Step(NamedTuple):
    """A link as a path takes it: from one artifact to another, by an edge as it is stored."""

    start: Any
    end: Any
    edge: Edge


@dataclass(frozen=True, slots=True)
class StepReader:
    """Reads steps that a path may take.

    Args:
        store: What holds the links.
        links: Which of them are followed, and what they are called.
        places: The places of corpora, by name, which order the artifacts of several.
    """

    store: GraphStore
    links: FollowedLinks
    places: Mapping[str, int]

    async def read(self, ids: Sequence[Any], *, back: bool = False) -> list[list[Step]]:
        """Return the steps from each artifact, or back from each one to where they begin; one store call.

        In order of what the link is called, then of the artifact at the other end.
        """
        direction = _REVERSE[self.links.direction] if back else self.links.direction
        edges = await self.store.neighbors(ids, direction=direction, **self.links.asked())
        return await offload_if(sum(map(len, edges)) > MANY, self._all_steps, ids, edges, back)

    async def read_values(self, known: dict[Any, float], found: Iterable[Iterable[Step]]) -> None:
        """Add the values of the artifacts that steps lead to; one store call where some are not known yet."""
        new = [end for end in dict.fromkeys(step.end for steps in found for step in steps) if end not in known]
        records = await self.store.records_of(new, limit=1) if new else []
        known.update({id: artifact_value(each[0] if each else None) for id, each in zip(new, records, strict=True)})

    def _all_steps(self, ids: Sequence[Any], edges: Sequence[Sequence[Edge]], *back: bool) -> list[list[Step]]:
        return [self._steps(id, each, back=all(back)) for id, each in zip(ids, edges, strict=True)]

    def _steps(self, id: Any, edges: Sequence[Edge], *, back: bool) -> list[Step]:
        """Return the steps of one artifact; where one corpus is searched, what is of another is no place to go."""
        ends = [(edge.target if edge.source == id else edge.source, edge) for edge in edges]
        steps = [
            Step(other, id, edge) if back else Step(id, other, edge) for other, edge in ends if type(other) is type(id)
        ]
        if self.links.inverses is None:  # already chosen and ordered by the store
            return steps
        counting = [step for step in steps if self.links.accepts(step.edge, step.start)]
        return sorted(counting, key=lambda step: self._order(step, step.start if back else step.end))

    def key(self, step: Step) -> tuple[Any, ...]:
        """Return what orders steps from one artifact: name, end, along before against, origin."""
        return self._order(step, step.end)

    def _order(self, step: Step, other: Any) -> tuple[Any, ...]:
        place = other if isinstance(other, str) else (self.places.get(other[0], len(self.places)), *other)
        return self.links.named(step.edge, step.start), place, step.edge.source != step.start, step.edge.origin

    def path(
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
        """Return the path of these steps; without steps, that none was found."""
        nodes = () if steps is None else (ends[0], *(step.end for step in steps))
        edges = tuple(step.edge for step in steps or ())
        return LinkPath(*ends, self.links.direction, max_hops, nodes, edges, cost, visited, dict(left_out), at_least)


@dataclass(frozen=True, slots=True, kw_only=True)
class PathLimits:
    """How far a search for a path may go; `None` for no limit.

    Raises:
        ArgumentError: A limit is no whole number, or too small to mean anything.
    """

    max_hops: int | None = 10
    max_nodes: int | None = None
    max_edges: int | None = None
    max_fanout: int | None = None

    @property
    def are_loose(self) -> bool:
        """Whether nothing but the number of hops is limited."""
        return self.max_nodes is None and self.max_edges is None and self.max_fanout is None

    def __post_init__(self) -> None:
        """Check every limit at birth; both ends count as artifacts reached."""
        for each in fields(self):
            if (value := getattr(self, each.name)) is not None:
                check_count(each.name, value, least=2 if each.name == "max_nodes" else 0)


@dataclass(slots=True, eq=False)
class _Side:
    """What was reached from one end: the distances, and all steps from one distance to the next."""

    root: Any
    back: bool
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
        return (self.frontier[at : at + PAGE] for at in range(0, len(self.frontier), PAGE))

    def far_end(self, step: Step) -> Any:
        """Give the end of a step that lies farther from the root."""
        return step.start if self.back else step.end


@dataclass(slots=True, eq=False)
class _Level:
    """What was seen from a frontier: the next one, where it met the other side, and what limits kept out."""

    steps: list[Step] = field(default_factory=list)
    frontier: list[Any] = field(default_factory=list)
    met: dict[Any, None] = field(default_factory=dict)
    refused: set[Any] = field(default_factory=set)
    unread: list[Any] = field(default_factory=list)
    beyond: list[Any] = field(default_factory=list)


class HopSearch:
    """One search for a path, between two artifacts of the graph that are not the same.

    Where both sides know all that is within their distances, what the next level of one has in common with the last of
    the other are the artifacts in the middle of all shortest paths. What a limit kept out of the level that meets
    cannot have made the path shorter, and is not told.
    """

    def __init__(self, reader: StepReader, start: Any, end: Any, limits: PathLimits) -> None:
        self._reader, self._limits = reader, limits
        self._near, self._far = _Side(start, back=False), _Side(end, back=True)
        self._edges = 0
        self._refused: set[Any] = set()
        self._left_out: dict[str, int] = {}
        self._at_least: dict[str, None] = {}

    async def run(self) -> LinkPath:
        """Search; one store call a level, or one for each 1,000 artifacts of it."""
        while self._near.frontier and self._far.frontier and "max_edges" not in self._left_out:
            side, other = self._near, self._far
            if len(other.frontier) < len(side.frontier):
                side, other = other, side
            if side.hops + other.hops == self._limits.max_hops:
                await self._look_over(side, other)
                break
            if met := await self._advance(side, other):
                steps = await offload_if(sum(map(len, chain(side.levels, other.levels))) > MANY, self._path, met)
                return self._result(steps)
        return self._result(None)

    async def _advance(self, side: _Side, other: _Side) -> Sequence[Any]:
        """Go one hop on from one side; give where it met the other one."""
        level = _Level()
        for page in side.pages():
            if level.unread and any(end not in side.depths for end in level.unread):
                self._at_least["max_edges"] = None
                break
            steps = await self._reader.read(page, back=side.back)
            await offload_if(sum(map(len, steps)) > MANY, self._admit, side, other, level, steps)
        side.levels.append(level.steps)
        side.frontier = level.frontier
        if not level.met:
            await offload_if(len(level.unread) + len(level.beyond) > MANY, self._tell, side, level)
            return ()
        total = {node: side.depths[node] + other.depths[node] for node in level.met}
        return [node for node in total if total[node] == min(total.values())]

    def _admit(self, side: _Side, other: _Side, level: _Level, found: Sequence[Sequence[Step]]) -> None:
        limits, depth = self._limits, side.hops + 1
        for steps in found:
            level.beyond += map(side.far_end, [] if limits.max_fanout is None else steps[limits.max_fanout :])
            kept = steps[: limits.max_fanout]
            room = len(kept) if limits.max_edges is None else min(len(kept), limits.max_edges - self._edges)
            level.unread += map(side.far_end, kept[room:])
            self._edges += room
            for step in kept[:room]:
                end = side.far_end(step)
                if end not in side.depths:
                    self._meet_or_reach(side, other, level, end)
                if side.depths.get(end) == depth:
                    level.steps.append(step)

    def _meet_or_reach(self, side: _Side, other: _Side, level: _Level, end: Any) -> None:
        if end in other.depths:
            level.met[end] = None
        elif self._limits.max_nodes is None or self._reached < self._limits.max_nodes:
            level.frontier.append(end)
        else:
            level.refused.add(end)
            return
        side.depths[end] = side.hops + 1

    @property
    def _reached(self) -> int:
        return len(self._near.depths) + len(self._far.depths)  # each once, as long as they have not met

    def _tell(self, side: _Side, level: _Level) -> None:
        """Count what limits kept out of a level; what was reached all the same was not kept out."""
        self._refused |= level.refused
        for limit, ends in (("max_edges", level.unread), ("max_fanout", level.beyond)):
            if count := sum(end not in side.depths for end in ends):
                self._left_out[limit] = self._left_out.get(limit, 0) + count

    async def _look_over(self, *sides: _Side) -> None:
        """Count what lies behind the cap on hops; nothing, where either side has reached all it can."""
        first = [await self._behind(side) for side in sides]
        if all(first):
            self._left_out["max_hops"] = first[0]

    async def _behind(self, side: _Side) -> int:
        """Count the artifacts, unknown so far, that the first page of a frontier with any leads to."""
        for at, page in enumerate(side.pages(), 1):
            found = await self._reader.read(page, back=side.back)
            if count := await offload_if(sum(map(len, found)) > MANY, _count_unknown, side, found):
                if at * PAGE < len(side.frontier):
                    self._at_least["max_hops"] = None
                return count
        return 0

    def _path(self, met: Sequence[Any]) -> list[Step]:
        """Give the first of the shortest paths through these artifacts."""
        onward: dict[Any, list[Step]] = {}
        for side in (self._near, self._far):
            known = set(met)
            for level in reversed(side.levels):
                for step in level:
                    if side.far_end(step) in known:
                        known.add(step.end if side.back else step.start)
                        onward.setdefault(step.start, []).append(step)
        steps: list[Step] = []
        at = self._near.root
        while at != self._far.root:
            steps.append(min(onward[at], key=self._reader.key))
            at = steps[-1].end
        return steps

    def _result(self, steps: Sequence[Step] | None) -> LinkPath:
        if self._refused:
            self._left_out["max_nodes"] = len(self._refused)
        return self._reader.path(
            (self._near.root, self._far.root),
            steps,
            max_hops=self._limits.max_hops,
            cost=None if steps is None else float(len(steps)),
            visited=len(self._near.depths.keys() | self._far.depths.keys()),
            left_out={name: self._left_out[name] for name in LIMITS if name in self._left_out},
            at_least=tuple(name for name in LIMITS if name in self._at_least and name in self._left_out),
        )


def _count_unknown(side: _Side, found: Iterable[Iterable[Step]]) -> int:
    return len({end for steps in found for end in map(side.far_end, steps)} - side.depths.keys())


LIMITS = tuple(each.name for each in fields(PathLimits))
