"""Which edges a bundle tells, and with which of its notes; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from airw._base.checks import check_choice
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.links import INVERSES, Inverses
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeId
from airw.views.bundled import NoteLink

__all__ = ["Between", "EdgeChoice"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeChoice:
    """Which of the stored edges between the notes of a bundle are told: those that such a walk could follow.

    Args:
        direction: Which way the walk follows them.
        types: The types it follows, as an edge is called in that direction; `None` for all.
        exclude: The types it does not follow.
        origins: The origins of the edges it follows; `None` for all.
        inverses: What edges are called against their direction; `None`: as they are stored.

    Raises:
        ArgumentError: A field cannot be used.

    Example:
        >>> edge = Edge("a", "b", "supports")
        >>> EdgeChoice(types=["supported-by"]).keeps(edge)
        True
        >>> EdgeChoice(types=["supported-by"], direction="out").keeps(edge)
        False
    """

    direction: Direction = "both"
    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None
    inverses: Inverses | None = INVERSES

    def __post_init__(self) -> None:
        """Check every field at birth."""
        check_choice("direction", self.direction, DIRECTIONS)
        chosen = LinkFilter(types=self.types, exclude=self.exclude, origins=self.origins)
        for name, value in chosen.options().items():
            object.__setattr__(self, name, value)
        if not (self.inverses is None or isinstance(self.inverses, Inverses)):
            raise ArgumentError(f"inverses must be None or Inverses such as INVERSES, not {short_repr(self.inverses)}")

    def keeps(self, edge: Edge) -> bool:
        """Say whether an edge is told."""
        ends = {"out": [edge.source], "in": [edge.target], "both": [edge.source, edge.target]}[self.direction]
        return any(self.takes(self.named(edge, end)) for end in ends)

    def takes(self, name: str) -> bool:
        """Say whether edges of that name are followed."""
        return (self.types is None or name in self.types) and name not in self.exclude

    def named(self, edge: Edge, here: NodeId) -> str:
        """Give what an edge is called from one of its ends."""
        return edge.type if self.inverses is None else self.inverses.named(edge, here)


class Between:
    """The stored edges between the notes that are in."""

    def __init__(self, choice: EdgeChoice) -> None:
        """Begin without any."""
        self._choice = choice
        self._in: set[NodeId] = set()
        self._waiting: dict[NodeId, list[Edge]] = {}

    def told_with(self, id: NodeId, out: Sequence[Edge]) -> tuple[NoteLink, ...]:
        """Give those between a note, whose own edges lead out to others, and the notes that are in."""
        edges = [*(edge for edge in out if edge.target in self._in), *self._waiting.get(id, ())]
        return tuple(NoteLink(edge, self._choice.named(edge, id)) for edge in edges if self._choice.keeps(edge))

    def admit(self, id: NodeId, out: Sequence[Edge]) -> None:
        """Note that a note is in."""
        self._in.add(id)
        for edge in out:
            self._waiting.setdefault(edge.target, []).append(edge)
