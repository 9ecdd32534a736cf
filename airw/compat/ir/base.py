"""The data classes of `ir`."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from airw._base.arrays import Floats
from airw._base.messages import short_repr
from airw.compat._missing_names import explain_missing
from airw.errors import ArgumentKindError
from airw.retrieval import tag_source as tag_source
from airw.values import Artifact as Artifact
from airw.values import Record as StoredRecord
from airw.values import SearchHit as SearchHit
from airw.values import Surface as Surface

POINTER_KEYS = ("skill_path", "path")
"""Metadata fields with the path of an artifact's file; the first one that is set counts."""


@dataclass(slots=True)
class IndexPlan:
    """The plan of a strategy for one artifact, which a wrapping strategy may change."""

    filter_fields: dict[str, Any] = field(default_factory=dict)
    surfaces: list[Surface] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """A stored surface with its vector.

    Raises:
        ArgumentError: If the metadata are not a mapping or the vector is one. The sixth argument is the vector.
    """

    id: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    text: str
    vector: Floats
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that vector and metadata are not exchanged."""
        if isinstance(self.vector, Mapping) or not isinstance(self.metadata, Mapping):
            raise ArgumentKindError(
                "a Record of ir is (id, artifact_id, surface_kind, surface_index, text, vector, metadata), "
                f"not {short_repr(self.vector)} and {short_repr(self.metadata)} in the last two places"
            )

    @staticmethod
    def make_id(artifact_id: str, surface_kind: str, surface_index: int) -> str:
        """Return the id of a surface in stores of airw; it differs from the id of `ir`."""
        return StoredRecord.make_id(artifact_id, surface_kind, surface_index)


def ledger_key(artifact_id: str) -> str:
    """Return the key of an artifact's entry in the ledger.

    Example:
        >>> len(ledger_key("a.md"))
        24
    """
    return hashlib.sha256(artifact_id.encode(errors="surrogatepass")).hexdigest()[:24]


def best_per_artifact(hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Return the best hit of each artifact of each source, best first.

    Example:
        >>> scores = [("a", 0.2), ("b", 0.4), ("a", 0.6)]
        >>> hits = [SearchHit(id, "chunk", score, "") for id, score in scores]
        >>> [(hit.artifact_id, hit.score) for hit in best_per_artifact(hits)]
        [('a', 0.6), ('b', 0.4)]
    """
    best: dict[tuple[str | None, str], SearchHit] = {}
    for hit in hits:
        best_so_far = best.setdefault(hit.key, hit)
        if hit.score > best_so_far.score:
            best[hit.key] = hit
    return sorted(best.values(), key=lambda hit: -hit.score)


__getattr__: Final = explain_missing(
    __name__,
    {
        "storage_key": "call airw.values.Record.make_id(artifact_id, surface_kind, surface_index)",
    },
)
