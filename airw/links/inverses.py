"""Inverses of edge types, and filters that go by them.

An edge is stored once, in one direction. Followed against that direction it has the name of the inverse type: A
`supports` B, so from B to A the same edge is `supported-by`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from airw._base.checks import check_choice, check_kind
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import EdgeRow, Edges
from airw.values import DIRECTIONS, Direction, Edge, LinkFilter, NodeId, NodeIdLike

_REVERSE: Mapping[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
_PREFIX = "inverse-"
_PAIRS = (
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
    ("shares", "shares"),
)
_STANDARD = {type: inverse for pair in _PAIRS for type, inverse in (pair, pair[::-1])}


@dataclass(frozen=True, slots=True)
class Inverses:
    """The inverse of every edge type: A supports B, so B is supported by A.

    The inverse of a type without an entry is `"inverse-"` plus the type. The inverse of such a name is the type again.

    Args:
        names: Inverses by type; they override the standard ones. An entry counts in one direction only: to get both
            directions, pass two entries.

    Raises:
        ArgumentError: If `names` is not a mapping of types to types.

    Example:
        >>> inverses = Inverses({"cites": "cited-by"})
        >>> inverses.of("supports"), inverses.of("cites"), inverses.of("cited-by"), inverses.of("inverse-x")
        ('supported-by', 'cited-by', 'inverse-cited-by', 'x')
        >>> inverses.to("cited-by")
        ('cites', 'inverse-cited-by')
    """

    names: Mapping[str, str] = field(default_factory=dict, hash=False)  # a mapping cannot be hashed

    def __post_init__(self) -> None:
        """Check the names, and copy them so that later changes by the caller have no effect."""
        if not isinstance(self.names, Mapping) or not all(
            isinstance(name, str) and name for pair in self.names.items() for name in pair
        ):
            raise ArgumentError(f"names must be a mapping of edge types to inverses, not {short_repr(self.names)}")
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))

    def of(self, type: str) -> str:
        """Return the inverse of a type."""
        inverse = self.names.get(type) or _STANDARD.get(type)
        return inverse or (type.removeprefix(_PREFIX) if type.startswith(_PREFIX) else _PREFIX + type)

    def to(self, type: str) -> tuple[str, ...]:
        """Return all types that have this inverse, sorted."""
        candidates = {*self.names, *_STANDARD, _PREFIX + type, type.removeprefix(_PREFIX)}
        return tuple(sorted(candidate for candidate in candidates if self.of(candidate) == type))

    def name_of(self, edge: Edge, here: NodeId) -> str:
        """Return the name of an edge seen from one of its ends: its type, or the inverse type.

        From the source it is the type, from the target the inverse.

        Example:
            >>> edge = Edge("a", "b", "supports")
            >>> INVERSES.name_of(edge, "a"), INVERSES.name_of(edge, "b")
            ('supports', 'supported-by')
        """
        return edge.type if edge.source == here else self.of(edge.type)

    def to_stored_types(self, types: Sequence[str], direction: Direction) -> tuple[str, ...]:
        """Return the stored types that have one of these names in a direction, sorted.

        Stores know no inverses: this translates the names that a caller filters by into types to read.

        Example:
            >>> INVERSES.to_stored_types(["supported-by"], "in")
            ('inverse-supported-by', 'supports')
        """
        along = types if direction != "in" else ()
        against = (stored for type in types for stored in self.to(type)) if direction != "out" else ()
        return tuple(sorted({*along, *against}))


INVERSES = Inverses()
"""The standard inverses: part-of and has-part, supports and supported-by, requires and required-by, and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowedLinks:
    """A choice of links to follow, and the direction in which to follow them.

    Args:
        direction: `"out"`, `"in"` or `"both"`.
        filter: The links to accept. It compares the names that links have in the direction they are followed.
        inverses: The names of links against their direction; `None` uses the stored type in both directions.

    Raises:
        ArgumentError: If a field has a wrong type, or the direction does not exist.

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
        """Check all fields."""
        check_choice("direction", self.direction, DIRECTIONS)
        check_kind("filter", self.filter, LinkFilter, "be a LinkFilter", error=ArgumentError)
        if not (self.inverses is None or isinstance(self.inverses, Inverses)):
            raise ArgumentError(f"inverses must be None or Inverses, not {short_repr(self.inverses)}; try INVERSES")

    def name_of(self, edge: Edge, here: NodeId) -> str:
        """Return the name of an edge seen from one of its ends."""
        return edge.type if self.inverses is None else self.inverses.name_of(edge, here)

    def name_of_type(self, type: str, *, is_against: bool) -> str:
        """Return the name of a link of this type, followed against its direction or along it."""
        return self.inverses.of(type) if is_against and self.inverses is not None else type

    def accepts(self, edge: Edge, here: NodeId) -> bool:
        """Return whether the filter accepts an edge that is followed from one of its ends."""
        return self.accepts_name(self.name_of(edge, here), edge.origin)

    def accepts_name(self, name: str, origin: str) -> bool:
        """Return whether the filter accepts a link that has this name where it is followed."""
        return (
            (self.filter.types is None or name in self.filter.types)
            and name not in self.filter.exclude
            and (self.filter.origins is None or origin in self.filter.origins)
        )

    def arrange(self, row: EdgeRow, key: Callable[[Any], Any], *, is_backward: bool = False) -> EdgeRow:
        """Return the edges of an artifact that are followed, in the order of their names.

        These are the names that they have where they are followed. Equal names are ordered by the other end, then out
        before in, then by origin.

        Args:
            row: The edges, as a store orders them.
            key: A function that returns what artifacts are sorted by.
            is_backward: Whether the edges lead to the artifact, and not on from it.
        """
        names = {
            label: self.name_of_type(label.type, is_against=label.is_incoming != is_backward)
            for label in dict.fromkeys(row.labels)
        }
        followed = {label for label, name in names.items() if self.accepts_name(name, label.origin)}
        row = row if len(followed) == len(names) else row.select(followed.__contains__)
        if all(label.type == names[label] for label in followed):  # the store has ordered them
            return row

        def order(place: int) -> Any:
            label = row.labels[place]
            return names[label], key(row.ends[place]), label.is_incoming != is_backward, label.origin, label.type

        return row.pick(sorted(range(len(row)), key=order))

    def follows(self, edge: Edge) -> bool:
        """Return whether an edge is followed from at least one of its ends."""
        ends = {"out": [edge.source], "in": [edge.target], "both": [edge.source, edge.target]}[self.direction]
        return any(self.accepts(edge, end) for end in ends)

    def options(self) -> dict[str, Any]:
        """Return all fields as keyword arguments for `walk_links` and `CorpusGraph.path`."""
        return {"direction": self.direction, **self.filter.options(), "inverses": self.inverses}

    def ask(self, ids: Sequence[NodeIdLike], *, is_backward: bool = False) -> Edges:
        """Return the request that reads all links to be followed.

        With inverses, a link can be accepted in one direction and rejected in the other. A store does not know that,
        so it reads too many links: check each one with `accepts`.

        Args:
            ids: The artifacts.
            is_backward: Whether to read the links that lead to them.
        """
        read, direction = self.filter, self.direction
        if self.inverses is not None:
            types = None if read.types is None else self.inverses.to_stored_types(read.types, direction)
            read = LinkFilter(types=types, origins=read.origins)
        return Edges(ids, _REVERSE[direction] if is_backward else direction, read)
