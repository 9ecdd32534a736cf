"""What a typed edge is called when it is walked against its direction."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.values import Direction, Edge, NodeId

__all__ = ["INVERSES", "Inverses"]

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
