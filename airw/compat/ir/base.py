"""The nouns of `ir`."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from airw._base.arrays import Floats
from airw._base.messages import short_repr
from airw.compat._missing import missing
from airw.errors import ArgumentKindError
from airw.retrieval import tag_source as tag_source
from airw.values import Artifact as Artifact
from airw.values import Record as StoredRecord
from airw.values import SearchHit as SearchHit
from airw.values import Surface as Surface

POINTER_KEYS = ("skill_path", "path")
"""The metadata that say where an artifact's own file is, the first that is set."""


@dataclass(slots=True)
class IndexPlan:
    """A strategy's answer for one artifact, to be changed by those who wrap a strategy."""

    filter_fields: dict[str, Any] = field(default_factory=dict)
    surfaces: list[Surface] = field(default_factory=list)


@dataclass(frozen=True, slots=True, eq=False)
class Record:
    """One stored surface with its vector.

    Raises:
        ArgumentError: The metadata is no mapping, or the vector is one: the sixth argument is the vector.
    """

    id: str
    artifact_id: str
    surface_kind: str
    surface_index: int
    text: str
    vector: Floats
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse metadata in the place of the vector, and the other way round."""
        if isinstance(self.vector, Mapping) or not isinstance(self.metadata, Mapping):
            raise ArgumentKindError(
                "a Record of ir is (id, artifact_id, surface_kind, surface_index, text, vector, metadata), "
                f"not {short_repr(self.vector)} and {short_repr(self.metadata)} in the last two places"
            )

    @staticmethod
    def make_id(artifact_id: str, surface_kind: str, surface_index: int) -> str:
        """Return the id under which airw stores a surface; it is another one than that of `ir`."""
        return StoredRecord.make_id(artifact_id, surface_kind, surface_index)


def ledger_key(artifact_id: str) -> str:
    """Return the key of an artifact's entry in the ledger.

    Example:
        >>> len(ledger_key("a.md"))
        24
    """
    return hashlib.sha256(artifact_id.encode(errors="surrogatepass")).hexdigest()[:24]


def best_per_artifact(hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Return the best hit of each artifact of each source, the best first.

    Example:
        >>> scores = [("a", 0.2), ("b", 0.4), ("a", 0.6)]
        >>> hits = [SearchHit(id, "chunk", score, "") for id, score in scores]
        >>> [(hit.artifact_id, hit.score) for hit in best_per_artifact(hits)]
        [('a', 0.6), ('b', 0.4)]
    """
    best: dict[tuple[str | None, str], SearchHit] = {}
    for hit in hits:
        known = best.setdefault(hit.key, hit)
        if hit.score > known.score:
            best[hit.key] = hit
    return sorted(best.values(), key=lambda hit: -hit.score)


__getattr__ = missing(
    __name__,
    {
        "storage_key": "airw.values.Record.make_id(artifact_id, surface_kind, surface_index) makes the ids of records",
    },
)
