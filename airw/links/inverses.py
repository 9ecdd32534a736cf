"""What a typed edge is called when it is walked against its direction, and which are followed, called so."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from airw._base.checks import check_choice
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeId

_MARK = "inverse-"
_BOTH_WAYS = (
    ("part-of", "has-part"),
    ("follows", "precedes"),
    ("supports", "supported-by"),
    ("contradicts", "contradicted-by"),
    ("answers", "answered-by"),
    ("refines", "refined-by"),
    ("derived-from", "derived-to"),
    ("alias-of", "has-alias"),
    ("requires", "required-by"),
    ("mentions", "mentioned-by"),
    ("NEXT", "PREV"),
    ("PARENT", "CHILD"),
    ("related", "related"),
    ("same-as", "same-as"),
)
_STANDARD = {one: other for pair in _BOTH_WAYS for one, other in (pair, pair[::-1])}


@dataclass(frozen=True, slots=True)
class Inverses:
    """Names the inverse of every edge type: A supports B, so B is supported by A.

    A type that is not known has the inverse `"inverse-"` and its name, and the other way round.

    Args:
        names: Inverses by type, over the standard ones; each goes one way, so say both where both should hold.

    Raises:
        ArgumentError: `names` is not a mapping of type to type.

    Example:
        >>> inverses = Inverses({"cites": "cited-by"})
        >>> inverses.of("supports"), inverses.of("cites"), inverses.of("cited-by"), inverses.of("inverse-x")
        ('supported-by', 'cited-by', 'inverse-cited-by', 'x')
        >>> inverses.to("cited-by")
        ('cites', 'inverse-cited-by')
    """

    names: Mapping[str, str] = field(default_factory=dict, hash=False)  # such a mapping has no hash of its own

    def __post_init__(self) -> None:
        """Check the names at birth."""
        if not isinstance(self.names, Mapping) or not all(
            isinstance(name, str) and name for pair in self.names.items() for name in pair
        ):
            raise ArgumentError(f"names must map an edge type to its inverse, not be {short_repr(self.names)}")
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))

    def of(self, type: str) -> str:
        """Give the inverse of a type."""
        known = self.names.get(type) or _STANDARD.get(type)
        return known or (type.removeprefix(_MARK) if type.startswith(_MARK) else _MARK + type)

    def to(self, type: str) -> tuple[str, ...]:
        """Give the types, sorted, whose inverse is this one."""
        candidates = {*self.names, *_STANDARD, _MARK + type, type.removeprefix(_MARK)}
        return tuple(sorted(each for each in candidates if self.of(each) == type))

    def named(self, edge: Edge, here: NodeId) -> str:
        """Give what an edge is called from one of its ends: its type, or the inverse where it begins at the other.

        Example:
            >>> edge = Edge("a", "b", "supports")
            >>> INVERSES.named(edge, "a"), INVERSES.named(edge, "b")
            ('supports', 'supported-by')
        """
        return edge.type if edge.source == here else self.of(edge.type)

    def stored(self, types: Sequence[str], direction: Direction) -> tuple[str, ...]:
        """Give the types, sorted, of stored edges that are called one of these when walked in a direction.

        Example:
            >>> INVERSES.stored(["supported-by"], "in")
            ('inverse-supported-by', 'supports')
        """
        along = types if direction != "in" else ()
        against = (each for type in types for each in self.to(type)) if direction != "out" else ()
        return tuple(sorted({*along, *against}))


INVERSES = Inverses()
"""The standard names: part-of and has-part, supports and supported-by, requires and required-by, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLinks:
    """Which links are followed, in which direction, and what they are called there.

    Args:
        direction: Links are followed `"out"`, `"in"` or `"both"`.
        filter: Which of them count, by what they are called in the direction they are followed.
        inverses: What links are called against their direction; `None` for the type as stored.

    Raises:
        ArgumentError: A field cannot be used.

    Example:
        >>> edge = Edge("a", "b", "supports")
        >>> against = LinkFilter(types=["supported-by"])
        >>> FollowedLinks(filter=against).follows(edge), FollowedLinks(filter=against, direction="out").follows(edge)
        (True, False)
    """

    direction: Direction = "both"
    filter: LinkFilter = field(default_factory=LinkFilter)
    inverses: Inverses | None = INVERSES

    def __post_init__(self) -> None:
        """Check every field at birth."""
        check_choice("direction", self.direction, DIRECTIONS)
        if not isinstance(self.filter, LinkFilter):
            raise ArgumentError(f"filter must be a LinkFilter, not {short_repr(self.filter)}")
        if not (self.inverses is None or isinstance(self.inverses, Inverses)):
            raise ArgumentError(f"inverses must be None or Inverses such as INVERSES, not {short_repr(self.inverses)}")

    def named(self, edge: Edge, here: NodeId) -> str:
        """Return what an edge is called from one of its ends."""
        return edge.type if self.inverses is None else self.inverses.named(edge, here)

    def accepts(self, edge: Edge, here: NodeId) -> bool:
        """Return whether an edge counts where it is followed from one of its ends."""
        name, chosen = self.named(edge, here), self.filter
        return (
            (chosen.types is None or name in chosen.types)
            and name not in chosen.exclude
            and (chosen.origins is None or edge.origin in chosen.origins)
        )

    def follows(self, edge: Edge) -> bool:
        """Return whether an edge is followed from any of its ends."""
        ends = {"out": [edge.source], "in": [edge.target], "both": [edge.source, edge.target]}[self.direction]
        return any(self.accepts(edge, end) for end in ends)

    def options(self) -> dict[str, Any]:
        """Return all fields as the keywords that `walk_links` and `CorpusGraph.path` take."""
        return {"direction": self.direction, **self.filter.options(), "inverses": self.inverses}

    def asked(self) -> dict[str, Any]:
        """Return the keywords that `neighbors` of a store takes: all links that may count in either direction."""
        asked = self.filter.options()
        if self.inverses is not None:
            types = self.filter.types
            asked |= {"types": None if types is None else self.inverses.stored(types, self.direction), "exclude": ()}
        return asked
