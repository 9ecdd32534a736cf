"""The parts that all path searches share: steps, their order, and limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
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
class HopReader:
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
        name = self.links.name_of(step.edge, step.start)
        return name, self.node_key(other), step.edge.source != step.start, step.edge.origin

    def node_key(self, node: Any) -> Any:
        """Return what artifacts are sorted by: their ids; in several corpora, the corpus first."""
        positions = self.corpus_positions
        return node if isinstance(node, str) else (positions.get(node[0], len(positions)), *node)

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
