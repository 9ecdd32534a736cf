"""The nouns: frozen, slotted values without I/O.

An `Artifact` is one item of a corpus. A strategy decomposes it into an `IndexPlan` of `Surface`s, and each surface is
stored as a `Record`. A `Link` is what an artifact says about another one; resolved, it is an `Edge`. A `SearchHit` is a
result. Vectors never sit inside these values: they travel as one `(n, dim)` array beside a list of ids.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np

from airw._json import copied, json_clean
from airw.errors import ArgumentError, shown

__all__ = [
    "DIRECTIONS",
    "Artifact",
    "ArtifactChange",
    "Direction",
    "Edge",
    "Extraction",
    "Floats",
    "IndexPlan",
    "ItemProblem",
    "LedgerEntry",
    "Link",
    "LinkCount",
    "LinkState",
    "NDArray",
    "NodeId",
    "Passage",
    "Ranking",
    "Record",
    "SearchHit",
    "Surface",
    "UnresolvedLink",
    "canonical_node_id",
    "json_clean",
]

Scalar = TypeVar("Scalar", bound=np.generic)
# As in `numpy.typing`, which takes longer to import than numpy's arrays do.
NDArray: TypeAlias = np.ndarray[Any, np.dtype[Scalar]]
Floats: TypeAlias = NDArray[np.float32]
NodeId: TypeAlias = str | tuple[str, str]
Direction: TypeAlias = Literal["out", "in", "both"]
LinkState: TypeAlias = Literal["resolved", "dangling", "ambiguous", "foreign"]

DIRECTIONS: tuple[Direction, ...] = ("out", "in", "both")
"""Along an edge, against it, or either."""


@dataclass(frozen=True, slots=True)
class Artifact:
    """One item of a corpus before it is decomposed.

    Args:
        id: Unique within its source; any non-empty string.
        raw: What the strategy reads: a string, a mapping of fields, or whatever the strategy documents.
        metadata: Fields known about it, such as `path`; strategies copy them into the filter fields.

    Example:
        >>> Artifact("a.md", "# Hello", {"path": "notes/a.md"}).id
        'a.md'
    """

    id: str
    raw: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """What is wrong with one item of a source, as a value that a build can raise or report.

    Args:
        item: The artifact's id, or the file's path where there is no id.
        reason: One line: what was found, and what would do.
        lost: True when the item could not be indexed; False when it was, with a part left out.
    """

    item: str
    reason: str
    lost: bool = True


@dataclass(frozen=True, slots=True)
class Surface:
    """One searchable text of an artifact.

    Args:
        artifact_id: The artifact it belongs to.
        kind: What it is: `"document"`, `"chunk"`, `"description"`, …
        text: What is embedded and indexed.
        granularity: `"document"`, `"chunk"` or `"field"`.
        metadata: Overlays the artifact's filter fields on the stored record.
    """

    artifact_id: str
    kind: str
    text: str
    granularity: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """A strategy's answer for one artifact.

    Args:
        filter_fields: The fields to filter on.
        surfaces: The surfaces to search, in order.
        problems: What is missing for now, one line each: the artifact is indexed without it, and the next build asks
            for its plan again.
    """

    filter_fields: Mapping[str, Any] = field(default_factory=dict)
    surfaces: Sequence[Surface] = ()
    problems: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One stored surface: a row of the index, without its vector.

    Args:
        id: `Record.make_id(artifact_id, surface_kind, surface_index)`; stable, never derived again by readers.
        artifact_id: The artifact it belongs to.
        surface_kind: The surface's kind.
        surface_index: Its position among all surfaces of the artifact, whatever their kinds.
        text: The surface's text.
        metadata: Filter fields, overlaid by the surface's own metadata.
    """

    id: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def as_hit(self, score: float, source: str | None) -> "SearchHit":
        """Give the record as a fresh hit; its metadata is a copy that the receiver owns."""
        return SearchHit(
            artifact_id=self.artifact_id,
            surface_kind=self.surface_kind,
            score=score,
            text=self.text,
            metadata={key: copied(value) for key, value in self.metadata.items()},
            source=source,
            surface_index=self.surface_index,
        )

    @staticmethod
    def make_id(artifact_id: str, surface_kind: str, surface_index: int) -> str:
        """Make the id of one surface: 24 hex digits of SHA-256 over the length-prefixed parts.

        Example:
            >>> Record.make_id("a.md", "chunk", 0)
            'b86931bf364215e1e93dd62a'
        """
        parts = (artifact_id, surface_kind, str(surface_index))
        joined = "".join(f"{len(part)}:{part}" for part in parts)
        # Lone surrogates get an id too: it is the store's part to refuse them, with an error that names the artifact.
        return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()[:24]


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
            neither does, the link dangles if both dangle, and else is ambiguous.
    """

    target_ref: str
    type: str = "related"
    origin: str = "inline"
    target_source: str | None = None
    file: str | None = None
    line: int | None = None
    or_ref: str | None = None


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
    candidates: tuple[str, ...] = ()

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


@dataclass(frozen=True, slots=True)
class Edge:
    """A directed, typed connection between two artifacts; a target in another corpus is `(source, id)`."""

    source: NodeId
    target: NodeId
    type: str
    origin: str = "inline"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What a corpus knows about one indexed artifact; equal stamps mean there is nothing to do.

    Args:
        artifact_id: The artifact.
        version: The source's change signal for its content.
        embedder_id: Model and weights its vectors came from.
        strategy_id: The strategy that decomposed it.
        extractor_id: The extractor that found its links; `""` without one.
        source: The name of the source it came from.
        record_ids: Its records, in plan order.
    """

    artifact_id: str
    version: str
    embedder_id: str
    strategy_id: str
    extractor_id: str = ""
    source: str = ""
    record_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ArtifactChange:
    """Everything a store holds of one artifact, written as a whole.

    Args:
        entry: Its ledger entry; `entry.record_ids` are the ids of `records`.
        records: Its records, in plan order.
        vectors: `(len(records), dim) float32`, unit rows or zero rows.
        extraction: Its links and names.
    """

    entry: LedgerEntry
    records: Sequence[Record]
    vectors: Floats
    extraction: Extraction = field(default_factory=Extraction)


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Records in rank order, as three aligned columns.

    Args:
        record_ids: Best first; ties by `(artifact_id, surface_index)`.
        artifact_ids: The artifact of each.
        scores: `(n,) float64`: cosine for vectors, BM25 (positive, higher is better) for text.
    """

    record_ids: Sequence[str]
    artifact_ids: Sequence[str]
    scores: NDArray[np.float64]

    def __len__(self) -> int:
        """Count the ranked records."""
        return len(self.record_ids)


_NEW: Any = object()  # metadata not given: a dict of the hit's own


@dataclass(frozen=True, slots=True, init=False)
class SearchHit:
    """A scored record; higher is closer.

    Args:
        artifact_id: The artifact found.
        surface_kind: The kind of the surface that matched.
        score: On the scale of what made it: a search mode, a fusion or a walk policy.
        text: The text that matched.
        metadata: Filter fields and provenance. The dict belongs to whoever received the hit.
        source: The corpus it came from, where known.
        surface_index: The position of the surface in its artifact.

    Example:
        >>> hit = SearchHit("a.md", "chunk", 0.5, "text", {"path": "/notes/a.md"}, source="notes")
        >>> hit.key, hit.pointer
        (('notes', 'a.md'), '/notes/a.md')
    """

    artifact_id: str
    surface_kind: str
    score: float
    text: str
    metadata: dict[str, Any] = field(default_factory=dict)
    source: str | None = None
    surface_index: int | None = None

    def __init__(  # noqa: PLR0917 - the fields, in their order
        self,
        artifact_id: str,
        surface_kind: str,
        score: float,
        text: str,
        metadata: dict[str, Any] = _NEW,
        source: str | None = None,
        surface_index: int | None = None,
    ) -> None:
        """Set all fields, as the generated method does in nearly twice the time: hits are made by the thousand."""
        for_id, for_kind, for_score, for_text, for_metadata, for_source, for_index = _SETTERS
        for_id(self, artifact_id)
        for_kind(self, surface_kind)
        for_score(self, score)
        for_text(self, text)
        for_metadata(self, {} if metadata is _NEW else metadata)
        for_source(self, source)
        for_index(self, surface_index)

    @property
    def key(self) -> tuple[str | None, str]:
        """The identity across corpora: `(source, artifact_id)`."""
        return self.source, self.artifact_id

    @property
    def pointer(self) -> str | None:
        """Where the artifact's own file is: the first of `skill_path` and `path` in the metadata that is set."""
        return self.metadata.get("skill_path") or self.metadata.get("path") or None

    def to_dict(self) -> dict[str, Any]:
        """Give the seven fields as JSON-clean values; a score that is not finite becomes `None`."""
        return {each.name: json_clean(getattr(self, each.name)) for each in fields(self)}


_SETTERS = tuple(getattr(SearchHit, each.name).__set__ for each in fields(SearchHit))


@dataclass(frozen=True, slots=True)
class Passage:
    """A hit with its neighbourhood: the identity and the score of the hit, and the text around it.

    Args:
        artifact_id: The artifact of the hit.
        surface_kind: The kind of the hit's surface.
        score: The score of the hit.
        text: The neighbourhood, in plan order, what chunks share said once.
        record_ids: The records it was put together from, in plan order; none where it is the hit's own text.
        source: The corpus of the hit.
        surface_index: The position of the hit's surface in its artifact.
    """

    artifact_id: str
    surface_kind: str
    score: float
    text: str
    record_ids: tuple[str, ...] = ()
    source: str | None = None
    surface_index: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Give the seven fields as JSON-clean values."""
        return {each.name: json_clean(getattr(self, each.name)) for each in fields(self)}


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
    raise ArgumentError(f"a node is an artifact's id, or a pair of a source and an id, not {shown(target)}")
