"""An item of a corpus, from what a source gives of it to what a store keeps."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from airw._base.arrays import Floats
from airw._base.json import deep_copy
from airw._base.messages import short_repr
from airw.errors import ArgumentKindError
from airw.values.hits import SearchHit
from airw.values.links import Extraction


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


_NEW: Any = object()  # metadata not given: a dict of the record's own


@dataclass(frozen=True, slots=True, init=False)
class Record:
    """One stored surface: a row of the index, without its vector.

    Args:
        id: `Record.make_id(artifact_id, surface_kind, surface_index)`; stable, never derived again by readers.
        artifact_id: The artifact it belongs to.
        surface_kind: The surface's kind.
        surface_index: Its position among all surfaces of the artifact, whatever their kinds.
        text: The surface's text.
        metadata: Filter fields, overlaid by the surface's own metadata.

    Raises:
        ArgumentError: `metadata` is no mapping, such as a vector, which other libraries have in its place.
    """

    id: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __init__(  # noqa: PLR0917 - the fields, in their order
        self,
        id: str,
        artifact_id: str,
        surface_kind: str,
        surface_index: int,
        text: str,
        metadata: Mapping[str, Any] = _NEW,
    ) -> None:
        """Set all fields, faster than the generated method: records are made by the thousand."""
        if metadata is _NEW:
            metadata = {}
        elif type(metadata) is not dict and not isinstance(metadata, Mapping):
            raise ArgumentKindError(
                f"a record's metadata is a mapping, not {short_repr(metadata)}; its vector is kept by the store"
            )
        for_id, for_artifact, for_kind, for_index, for_text, for_metadata = _SETTERS
        for_id(self, id)
        for_artifact(self, artifact_id)
        for_kind(self, surface_kind)
        for_index(self, surface_index)
        for_text(self, text)
        for_metadata(self, metadata)

    def as_hit(self, score: float, source: str | None) -> "SearchHit":
        """Give the record as a fresh hit; its metadata is a copy that the receiver owns."""
        return SearchHit(
            artifact_id=self.artifact_id,
            surface_kind=self.surface_kind,
            score=score,
            text=self.text,
            metadata={key: deep_copy(value) for key, value in self.metadata.items()},
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


_SETTERS = tuple(getattr(Record, each.name).__set__ for each in fields(Record))


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
