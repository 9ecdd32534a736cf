"""Links: as artifacts say them, and what they turn out to mean."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_choice, check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError

__all__ = [
    "DIRECTIONS",
    "ORIGINS",
    "Direction",
    "Edge",
    "Extraction",
    "Link",
    "LinkCount",
    "LinkFilter",
    "LinkState",
    "NodeId",
    "UnresolvedLink",
    "canonical_node_id",
]

NodeId: TypeAlias = str | tuple[str, str]
Direction: TypeAlias = Literal["out", "in", "both"]
LinkState: TypeAlias = Literal["resolved", "dangling", "ambiguous", "foreign"]

DIRECTIONS: tuple[Direction, ...] = ("out", "in", "both")
"""Along an edge, against it, or either."""

ORIGINS = ("typed", "inline", "derived")
"""Where a link was found: declared in frontmatter, in the text, or in fields."""


@dataclass(frozen=True, slots=True)
class Link:
    """What an artifact says about another, before anyone knows whether that other exists.

    Args:
        target_ref: A name of the target: an id, a path, a title or an alias. See `Extraction.names`.
        type: The relation, such as `"related"`, `"requires"`, `"REF"`.
        origin: `"typed"` (declared in frontmatter), `"inline"` (found in text) or `"derived"` (from fields).
        target_source: The corpus of the target where it is another one; the reference is then its id there.
        file: The file it was found in.
        line: The 1-based line it was found on.
        or_ref: A second name of the target, as in `[[one|other]]`, where only one side may be a name. Each is resolved
            alone. Of two that mean one artifact each, the one in the stronger tier counts, of equals the first; where
            neither does, the link dangles if both dangle, and else is ambiguous. Not asked for in another corpus.
    """

    target_ref: str
    type: str = "related"
    origin: str = "inline"
    target_source: str | None = None
    file: str | None = None
    line: int | None = None
    or_ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFilter:
    """Which links count: of these types, of none of those, of these origins; `None` for all.

    Raises:
        ArgumentError: A parameter cannot be used.
    """

    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        for name in ("types", "exclude", "origins"):
            given = getattr(self, name)
            if given is not None or name == "exclude":
                object.__setattr__(self, name, check_strings(name, given))
        for origin in self.origins or ():
            check_choice("origins", origin, ORIGINS)

    def options(self) -> dict[str, Any]:
        """Return it as the keywords that `neighbors` of a store takes."""
        return {"types": self.types, "exclude": self.exclude, "origins": self.origins}

    def accepts(self, link: "Link | Edge") -> bool:
        """Return whether a link counts."""
        return (
            (self.types is None or link.type in self.types)
            and link.type not in self.exclude
            and (self.origins is None or link.origin in self.origins)
        )


@dataclass(frozen=True, slots=True)
class UnresolvedLink:
    """A stored link that is no edge, as no artifact or more than one carries the name it gives.

    Args:
        source: The artifact that holds it.
        link: The link as it was extracted.
        candidates: The ids, sorted, of the artifacts it may mean; none where it dangles.
    """

    source: NodeId
    link: Link
    candidates: tuple[NodeId, ...] = ()

    @property
    def state(self) -> LinkState:
        """Say whether it dangles or is ambiguous."""
        return "ambiguous" if self.candidates else "dangling"


@dataclass(frozen=True, slots=True, order=True)
class LinkCount:
    """How many links of one type, origin and state a corpus holds."""

    type: str
    origin: str
    state: LinkState
    count: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """What an edge extractor finds in one artifact.

    Args:
        links: Its references to others.
        names: What others may call it, in tiers, strongest first; a reference means the one artifact that carries it in
            the strongest tier where any does. Two artifacts in that tier make the reference ambiguous: no edge.
        problems: What could not be read, one line each.
    """

    links: Sequence[Link] = ()
    names: Sequence[Sequence[str]] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True, init=False)
class Edge:
    """A directed, typed connection between two artifacts; a target in another corpus is `(source, id)`."""

    source: NodeId
    target: NodeId
    type: str
    origin: str = "inline"

    def __init__(self, source: NodeId, target: NodeId, type: str, origin: str = "inline") -> None:
        """Set all fields, as the generated method does in nearly twice the time: edges are made by the thousand."""
        for_source, for_target, for_type, for_origin = _EDGE_SETTERS
        for_source(self, source)
        for_target(self, target)
        for_type(self, type)
        for_origin(self, origin)


_EDGE_SETTERS = tuple(getattr(Edge, each.name).__set__ for each in fields(Edge))


def canonical_node_id(target: Any, *, source: str | None) -> tuple[str | None, str]:
    """Give `(source, artifact_id)` of an edge's end: a pair says its own source, a lone id is of `source`.

    Raises:
        ArgumentError: It is neither an id nor a pair of a source and an id.

    Example:
        >>> canonical_node_id("anyio", source="packages"), canonical_node_id(["skills", "deploy"], source="packages")
        (('packages', 'anyio'), ('skills', 'deploy'))
    """
    match target:
        case str():
            return source, target
        case [str() | None as own, str(artifact_id)]:
            return own, artifact_id
    raise ArgumentError(f"a node is an artifact's id, or a pair of a source and an id, not {short_repr(target)}")
