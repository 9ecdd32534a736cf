"""Links between artifacts: as written, as stored, and as edges that a walk follows."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, TypeAlias

from airw._base.checks import check_choice, check_number, check_strings
from airw._base.messages import short_repr
from airw.errors import ArgumentError


class ArtifactRef(NamedTuple):
    """The identity of an artifact among several corpora: its corpus and its id there.

    It equals the plain pair `(source, id)` and prints like it. Callers may pass such a pair instead.

    Example:
        >>> ArtifactRef("notes", "n1"), ArtifactRef("notes", "n1") == ("notes", "n1")
        (('notes', 'n1'), True)
    """

    source: str
    id: str

    def __repr__(self) -> str:
        """Return the `repr` of the plain pair."""
        return repr(tuple(self))


NodeId: TypeAlias = str | ArtifactRef
"""A node: the plain id of an artifact of the store's own corpus, or an `ArtifactRef` if several corpora can meet."""

NodeIdLike: TypeAlias = str | tuple[str, str]
"""A node as callers may pass it: an id, or a pair of a corpus and an id there."""

Direction: TypeAlias = Literal["out", "in", "both"]
LinkState: TypeAlias = Literal["resolved", "dangling", "ambiguous", "foreign", "file", "outside"]

DIRECTIONS: tuple[Direction, ...] = ("out", "in", "both")
"""The directions of a step: along an edge, against it, or both."""

LEAST_WEIGHT = 0.001
"""The smallest weight of a link."""

_WEIGHT_DECIMALS = 3  # so there are few different weights, and stores need not keep one per edge in memory

ORIGINS = ("typed", "inline", "derived")
"""The places a link can come from: declared in the frontmatter, written in the text, or derived from fields."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link from one artifact to another, before it is resolved: its target may not exist.

    Args:
        target_ref: The reference as written: an id, a path, a title or an alias. See `Extraction.names`.
        type: The relation, such as `"related"`, `"requires"`, `"REF"`.
        origin: `"typed"` (declared in the frontmatter), `"inline"` (written in the text) or `"derived"` (from fields).
        target_source: The corpus of the target, if it is another one. `target_ref` is then the id in that corpus.
        file: The file that contains the link.
        line: The line of the link, counted from 1.
        or_ref: A second reference, as in `[[one|other]]`, if either side may be the name of the target.
            Each reference is resolved alone. If both mean exactly one artifact, the one in the stronger name tier
            counts, and of equal tiers the first. If neither does, the link is dangling if both dangle, otherwise
            ambiguous. Links to another corpus ignore `or_ref`.
        weight: How much the link counts for a walk, from 0.001 to 1. It is rounded to three decimals.

    Raises:
        ArgumentError: If the weight is not a number from 0.001 to 1.

    Example:
        >>> Link("b.md", "shares", "derived", weight=0.85).weight
        0.85
    """

    target_ref: str
    type: str = "related"
    origin: str = "inline"
    target_source: str | None = None
    file: str | None = None
    line: int | None = None
    or_ref: str | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        """Check the weight, and round it."""
        if self.weight != 1:  # nearly all links have this weight
            object.__setattr__(self, "weight", round_weight("weight", self.weight))


def round_weight(name: str, weight: object) -> float:
    """Return the weight of a link with three decimals.

    Raises:
        ArgumentError: If it is not a number from 0.001 to 1.
    """
    return round(check_number(name, weight, least=LEAST_WEIGHT, most=1), _WEIGHT_DECIMALS)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkFilter:
    """A choice of links by their types and origins.

    Args:
        types: The types to accept; `None` accepts all.
        exclude: The types to reject, even if `types` contains them.
        origins: The origins to accept; `None` accepts all.

    Raises:
        ArgumentError: If a parameter is not a list of strings, or an origin does not exist.
    """

    types: Sequence[str] | None = None
    exclude: Sequence[str] = ()
    origins: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check all parameters, and store their values as tuples."""
        for name in ("types", "exclude", "origins"):
            value = getattr(self, name)
            if value is not None or name == "exclude":
                object.__setattr__(self, name, check_strings(name, value))
        for origin in self.origins or ():
            check_choice("origins", origin, ORIGINS)

    def options(self) -> dict[str, Any]:
        """Return the filter as keyword arguments for `Store.neighbors`."""
        return {"types": self.types, "exclude": self.exclude, "origins": self.origins}

    def accepts(self, link: "Link | Edge") -> bool:
        """Return whether the filter accepts a link or an edge."""
        return (
            (self.types is None or link.type in self.types)
            and link.type not in self.exclude
            and (self.origins is None or link.origin in self.origins)
        )


@dataclass(frozen=True, slots=True)
class UnresolvedLink:
    """A stored link without an edge: its reference means no artifact, or more than one.

    Args:
        source: The artifact that contains the link.
        link: The link as it was extracted.
        candidates: The ids of the artifacts that the reference may mean, sorted; empty if it means none.
        is_file: Whether the reference leads to a file or a folder that is no artifact.
    """

    source: NodeId
    link: Link
    candidates: tuple[NodeId, ...] = ()
    is_file: bool = False

    @property
    def state(self) -> LinkState:
        """The state of the link.

        `"ambiguous"`: it has candidates. `"file"`: it leads to a file or a folder. `"outside"`: it leads out of the
        folder of the notes. `"dangling"`: it leads to nothing.
        """
        if self.candidates:
            return "ambiguous"
        if self.is_file:
            return "file"
        return "outside" if self.link.target_ref.startswith("../") else "dangling"


@dataclass(frozen=True, slots=True, order=True)
class LinkCount:
    """The number of links in a corpus that share a type, an origin and a state."""

    type: str
    origin: str
    state: LinkState
    count: int


@dataclass(frozen=True, slots=True)
class Extraction:
    """The links and the names that an extractor reads from one artifact.

    Args:
        links: The references to other artifacts.
        names: The names by which others may refer to this artifact, in name tiers, strongest tier first.
            A reference is looked up in the strongest tier in which any artifact has that name. If exactly one
            artifact has it there, the reference means that artifact. If several have it, the link is ambiguous.
        problems: The parts that could not be read, one line each.
        fold_case: True if all names also count in any case, as `fold_name` compares them. They then are one more tier,
            weaker than all others.
    """

    links: Sequence[Link] = ()
    names: Sequence[Sequence[str]] = ()
    problems: Sequence[str] = ()
    fold_case: bool = False


def fold_name(name: str) -> str:
    """Return a name without differences of case and composition.

    Stores compare references with the names of artifacts in this form, if nothing has the name as written.

    Example:
        >>> fold_name("CAFE\N{COMBINING ACUTE ACCENT}/Keys.md")
        'café/keys.md'
    """
    if name.isascii():
        return name.lower()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


@dataclass(frozen=True, slots=True, init=False)
class Edge:
    """A link with a resolved target: a directed, typed connection between two artifacts.

    Args:
        source: The artifact at the start. A pair of a corpus and an id becomes an `ArtifactRef`.
        target: The artifact at the end; a pair becomes an `ArtifactRef`, too.
        type: The relation, such as `"related"`.
        origin: One of `ORIGINS`.
        weight: How much the edge counts for a walk, at most 1. Of several links with the same ends, type
            and origin, it is the largest weight.
    """

    source: NodeId
    target: NodeId
    type: str
    origin: str = "inline"
    weight: float = 1.0

    def __init__(
        self, source: NodeIdLike, target: NodeIdLike, type: str, origin: str = "inline", weight: float = 1.0
    ) -> None:
        """Set all fields.

        The generated method takes nearly twice the time, and walks create thousands of edges.
        """
        if source.__class__ is tuple:
            source = ArtifactRef(*source)
        if target.__class__ is tuple:
            target = ArtifactRef(*target)
        _set_source(self, source)
        _set_target(self, target)
        _set_type(self, type)
        _set_origin(self, origin)
        _set_weight(self, weight)

    def __repr__(self) -> str:
        """Return the fields, without a weight of 1."""
        weight = "" if self.weight == 1 else f", weight={self.weight!r}"
        ends = f"source={self.source!r}, target={self.target!r}"
        return f"Edge({ends}, type={self.type!r}, origin={self.origin!r}{weight})"

    @property
    def leads_out(self) -> bool:
        """True if the edge leads from the corpus that stores it to another corpus."""
        return isinstance(self.target, ArtifactRef) and isinstance(self.source, str)


# A frozen dataclass sets its fields with `object.__setattr__`; calling the slots' own setters is faster.
_set_source, _set_target, _set_type, _set_origin, _set_weight = (
    getattr(Edge, item.name).__set__ for item in fields(Edge)
)


def canonical_node_id(target: Any, *, source: str | None) -> ArtifactRef | tuple[None, str]:
    """Return a node as an `ArtifactRef`: a pair has its own source, a plain id gets `source`.

    If there is no source, the result is the pair `(None, artifact_id)`.

    Raises:
        ArgumentError: If `target` is neither an id nor a pair of a source and an id.

    Example:
        >>> canonical_node_id("anyio", source="packages"), canonical_node_id(["skills", "deploy"], source="packages")
        (('packages', 'anyio'), ('skills', 'deploy'))
    """
    match target:
        case str():
            return (None, target) if source is None else ArtifactRef(source, target)
        case [None, str(artifact_id)]:
            return None, artifact_id
        case [str(target_source), str(artifact_id)]:
            return ArtifactRef(target_source, artifact_id)
    raise ArgumentError(f"a node must be an id or a pair of a source and an id, not {short_repr(target)}")
