"""What searches and walks give."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.json import json_clean


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
