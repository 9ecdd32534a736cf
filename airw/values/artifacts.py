"""Artifacts on their way from a source to a store: their plans, surfaces and records."""

import hashlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import repeat
from typing import Any

from airw._base.arrays import Floats
from airw._base.json import deep_copy
from airw._base.messages import short_repr
from airw.errors import ArgumentKindError
from airw.values.hits import SearchHit, keep_fields
from airw.values.links import Extraction


@dataclass(frozen=True, slots=True)
class Artifact:
    """An item of a corpus as its source returns it, before a strategy splits it into surfaces.

    Args:
        id: Any non-empty string that is unique within the source.
        raw: The content for the strategy: a string, a mapping of fields, or any type the strategy documents.
        metadata: Further fields, such as `path`. Strategies copy them into the filter fields.

    Example:
        >>> Artifact("a.md", "# Hello", {"path": "notes/a.md"}).id
        'a.md'
    """

    id: str
    raw: Any
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemProblem:
    """A problem with one item of a source, which a build reports or raises as an error.

    Args:
        item: The artifact's id, or the file's path if there is no id.
        reason: One line: the problem and what would solve it.
        lost: True if the item cannot be indexed; False if it is indexed without the faulty part.
    """

    item: str
    reason: str
    lost: bool = True


@dataclass(frozen=True, slots=True)
class Surface:
    """A text of an artifact that is to be indexed.

    Args:
        artifact_id: The artifact that the text belongs to.
        kind: The kind of text: `"document"`, `"chunk"`, `"description"`, …
        text: The text to embed and to index.
        granularity: `"document"`, `"chunk"` or `"field"`.
        metadata: Fields of this surface alone. On its record they override the artifact's filter fields.
        context: A text that the embedder reads before `text`, such as the beginning of the document for a chunk from
            its middle. It is not stored, and no word finds it. The metadata of the record have a hash of it as
            `airw_context`, by which a build notices another context.
    """

    artifact_id: str
    kind: str
    text: str
    granularity: str = "document"
    metadata: Mapping[str, Any] = field(default_factory=dict)
    context: str = ""


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """The filter fields and the surfaces that a strategy makes from one artifact.

    Args:
        filter_fields: The fields that filters can use.
        surfaces: The surfaces to index, in order.
        problems: Problems that may be temporary, one line each. The artifact is indexed without the missing part, and
            the next build asks the strategy for a new plan.
    """

    filter_fields: Mapping[str, Any] = field(default_factory=dict)
    surfaces: Sequence[Surface] = ()
    problems: Sequence[str] = ()


_NO_METADATA: Any = object()  # the caller passed no metadata: each record gets a new dict


@dataclass(frozen=True, slots=True, init=False)
class Record:
    """A surface as stored: one row of the index, without its vector.

    Args:
        id: The result of `Record.make_id(artifact_id, surface_kind, surface_index)`. It is stable: readers use the
            stored id and never compute it again.
        artifact_id: The artifact that the record belongs to.
        surface_kind: The kind of the surface.
        surface_index: The position among all surfaces of the artifact, of every kind.
        text: The text of the surface.
        metadata: The artifact's filter fields, overridden by the surface's own metadata.

    Raises:
        ArgumentError: If `metadata` is not a mapping. Other libraries pass the vector in this place.
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
        metadata: Mapping[str, Any] = _NO_METADATA,
    ) -> None:
        """Set all fields, faster than the generated method: builds create thousands of records."""
        if metadata is _NO_METADATA:
            metadata = {}
        elif type(metadata) is not dict and not isinstance(metadata, Mapping):
            raise ArgumentKindError(
                f"Record.metadata must be a mapping, not {short_repr(metadata)}; pass vectors to the store"
            )
        set_id, set_artifact_id, set_kind, set_index, set_text, set_metadata = _SETTERS
        set_id(self, id)
        set_artifact_id(self, artifact_id)
        set_kind(self, surface_kind)
        set_index(self, surface_index)
        set_text(self, text)
        set_metadata(self, metadata)

    def as_hit(self, score: float, source: str | None) -> "SearchHit":
        """Return the record as a new hit, whose metadata is a copy that the receiver may change."""
        return SearchHit(
            artifact_id=self.artifact_id,
            surface_kind=self.surface_kind,
            score=score,
            text=self.text,
            metadata=keep_fields({key: deep_copy(value) for key, value in self.metadata.items()}),
            source=source,
            surface_index=self.surface_index,
        )

    @staticmethod
    def make_id(artifact_id: str, surface_kind: str, surface_index: int) -> str:
        """Return the record id of a surface: 24 hex digits of SHA-256 over its three parts.

        Each part is prefixed with its length, so that no separator inside a part makes two ids equal.

        Example:
            >>> Record.make_id("a.md", "chunk", 0)
            'b86931bf364215e1e93dd62a'
        """
        index = str(surface_index)
        joined = f"{len(artifact_id)}:{artifact_id}{len(surface_kind)}:{surface_kind}{len(index)}:{index}"
        # Unpaired surrogates get an id too: the store rejects them later, with an error that names the artifact.
        return hashlib.sha256(joined.encode(errors="surrogatepass")).hexdigest()[:24]


# A frozen dataclass sets its fields with `object.__setattr__`; calling the slots' own setters is faster.
_SETTERS = tuple(getattr(Record, item.name).__set__ for item in fields(Record))


def make_records(count: int, columns: Iterable[Iterable[Any]]) -> list[Record]:
    """Return records from one column per field, in the order of the fields.

    It takes a third of the time of one call per record. Metadata must be dicts.

    Example:
        >>> [record] = make_records(1, [["1"], ["a.md"], ["chunk"], [0], ["text"], [{}]])
        >>> record.artifact_id, record.text
        ('a.md', 'text')
    """
    records = list(map(Record.__new__, repeat(Record, count)))
    for set_field, column in zip(_SETTERS, columns, strict=True):
        deque(map(set_field, records, column), maxlen=0)  # a loop in C
    return records


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """The state in which an artifact was last indexed.

    A build compares it with the source and the settings. If nothing differs, the build skips the artifact.

    Args:
        artifact_id: The artifact.
        version: The change signal of its content, from the source.
        embedder_id: The embedder that computed its vectors.
        strategy_id: The strategy that made its surfaces.
        extractor_id: The extractor that extracted its links; `""` if there was none.
        source: The name of the source it came from.
        record_ids: The ids of its records, in plan order.
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
    """All that a store writes for one artifact, in one transaction.

    Args:
        entry: The ledger entry; `entry.record_ids` are the ids of `records`.
        records: The records, in plan order.
        vectors: `(len(records), dim) float32`; each row is a unit vector or zero.
        extraction: The links of the artifact and the names that others may use for it.
    """

    entry: LedgerEntry
    records: Sequence[Record]
    vectors: Floats
    extraction: Extraction = field(default_factory=Extraction)
