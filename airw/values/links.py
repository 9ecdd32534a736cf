"""Links: as artifacts say them, and what they turn out to mean."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

from airw._base.checks import check_choice, check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError


class ArtifactRef(NamedTuple):
    """An artifact where several corpora can meet: the name of its corpus, and its id there.

    It equals that pair, and prints as that pair, which callers may give in its place.

    Example:
        >>> ArtifactRef("notes", "n1"), ArtifactRef("notes", "n1") == ("notes", "n1")
        (('notes', 'n1'), True)
    """

    source: str
    id: str

    def __repr__(self) -> str:
        """Return it as the pair."""
        return repr(tuple(self))


NodeId: TypeAlias = str | ArtifactRef
"""An artifact as its store calls it: within one corpus by its id, in another one and of several by a reference."""

NodeIdLike: TypeAlias = str | tuple[str, str]
"""What callers may give for a node: an id, or a pair of a corpus and an id there."""

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
    """A directed, typed connection between two artifacts; an end in another corpus becomes an `ArtifactRef`."""

    source: NodeId
    target: NodeId
    type: str
    origin: str = "inline"

    def __init__(self, source: NodeIdLike, target: NodeIdLike, type: str, origin: str = "inline") -> None:
        """Set all fields, as the generated method does in nearly twice the time: edges are made by the thousand."""
        if source.__class__ is tuple:
            source = ArtifactRef(*source)
        if target.__class__ is tuple:
            target = ArtifactRef(*target)
        for_source, for_target, for_type, for_origin = _EDGE_SETTERS
        for_source(self, source)
        for_target(self, target)
        for_type(self, type)
        for_origin(self, origin)

    @property
    def leads_out(self) -> bool:
        """Whether it leads from the corpus that stores it into another one."""
        return isinstance(self.target, ArtifactRef) and isinstance(self.source, str)


_EDGE_SETTERS = tuple(getattr(Edge, each.name).__set__ for each in fields(Edge))


def canonical_node_id(target: Any, *, source: str | None) -> ArtifactRef | tuple[None, str]:
    """Return the reference to an edge's end: a pair says its own source, a lone id is of `source`.

    Where there is no source it is `(None, artifact_id)`.

    Raises:
        ArgumentError: It is neither an id nor a pair of a source and an id.

    Example:
        >>> canonical_node_id("anyio", source="packages"), canonical_node_id(["skills", "deploy"], source="packages")
        (('packages', 'anyio'), ('skills', 'deploy'))
    """
    match target:
        case str():
            return (None, target) if source is None else ArtifactRef(source, target)
        case [None, str(artifact_id)]:
            return None, artifact_id
        case [str(own), str(artifact_id)]:
            return ArtifactRef(own, artifact_id)
    raise ArgumentError(f"a node is an artifact's id, or a pair of a source and an id, not {short_repr(target)}")
