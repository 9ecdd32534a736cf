"""The steps that lead on from artifacts, or to them, along links: what the searches for a path read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from airw._base.checks import check_choice
from airw._base.concurrency import offload_if
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links.inverses import Inverses
from airw.protocols import GraphStore
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter

PAGE = 1_000
"""Artifacts asked about in one call: with ten links each, some milliseconds of work."""

MANY = 500  # links, looked at in about a millisecond
_REVERSE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}


class Step(NamedTuple):
    """A link as a path takes it: from one artifact to another, by an edge as it is stored."""

    start: Any
    end: Any
    edge: Edge


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReader:
    """Reads steps that a path may take; what each parameter means is what it means in `LinkWalk`.

    Args:
        store: What holds the links.
        direction: Which way links are followed.
        filter: Which links count, by what they are called when they are followed.
        inverses: What links are called against their direction; `None` for as they are stored.
        places: The places of corpora, by name, which order the artifacts of several.

    Raises:
        ArgumentError: A parameter cannot be used.
    """

    store: GraphStore
    direction: Direction = "both"
    filter: LinkFilter = field(default_factory=LinkFilter)
    inverses: Inverses | None = None
    places: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_choice("direction", self.direction, DIRECTIONS)
        if self.inverses is not None and not isinstance(self.inverses, Inverses):
            raise ArgumentError(f"inverses must be an Inverses or None, not {short_repr(self.inverses)}")

    async def read(self, ids: Sequence[Any], *, back: bool = False) -> list[list[Step]]:
        """Give the steps from each artifact, or back from each one to where they begin; one store call.

        In order of what the link is called, then of the artifact at the other end.
        """
        direction = _REVERSE[self.direction] if back else self.direction
        edges = await self.store.neighbors(ids, direction=direction, **self._asked())
        return await offload_if(sum(map(len, edges)) > MANY, self._all_steps, ids, edges, back)

    def _asked(self) -> dict[str, Any]:
        """Give the filter as the store is asked: all links that count in either direction, where that matters."""
        asked = self.filter.options()
        if self.inverses is not None:
            types = self.filter.types
            asked |= {"types": None if types is None else self.inverses.stored(types, self.direction), "exclude": ()}
        return asked

    def _all_steps(self, ids: Sequence[Any], edges: Sequence[Sequence[Edge]], *back: bool) -> list[list[Step]]:
        return [self._steps(id, each, back=all(back)) for id, each in zip(ids, edges, strict=True)]

    def _steps(self, id: Any, edges: Sequence[Edge], *, back: bool) -> list[Step]:
        """Give the steps of one artifact; what is of another corpus, where one alone is searched, is no place to go."""
        ends = [(edge.target if edge.source == id else edge.source, edge) for edge in edges]
        steps = [
            Step(other, id, edge) if back else Step(id, other, edge) for other, edge in ends if type(other) is type(id)
        ]
        if self.inverses is None:  # already chosen and ordered by the store
            return steps
        return sorted(filter(self._counts, steps), key=lambda step: self._order(step, step.start if back else step.end))

    def _counts(self, step: Step) -> bool:
        name, types = self._name(step), self.filter.types
        return (types is None or name in types) and name not in self.filter.exclude

    def _name(self, step: Step) -> str:
        return step.edge.type if self.inverses is None else self.inverses.named(step.edge, step.start)

    def key(self, step: Step) -> tuple[Any, ...]:
        """Give what orders steps from one artifact: name, end, along before against, origin."""
        return self._order(step, step.end)

    def _order(self, step: Step, other: Any) -> tuple[Any, ...]:
        place = other if isinstance(other, str) else (self.places.get(other[0], len(self.places)), *other)
        return self._name(step), place, step.edge.source != step.start, step.edge.origin
