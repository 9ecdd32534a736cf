"""The results of searches and walks: rankings, hits, passages."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from numbers import Real
from typing import Any

import numpy as np

from airw._base.arrays import NDArray
from airw._base.json import is_deeper, json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError


@dataclass(frozen=True, slots=True, eq=False)
class Ranking:
    """Records in the order of their scores, as three columns of equal length.

    Args:
        record_ids: The ids of the records, best first; ties by `(artifact_id, surface_index)`.
        artifact_ids: The artifact of each record.
        scores: `(n,) float64`: cosine similarity for vectors, BM25 (positive, higher is better) for text.
        max_score: For BM25, the score that a record full of the query's words would have; words that no record contains
            do not count. `None` if it is not known. It shows how much a BM25 score means.
    """

    record_ids: Sequence[str]
    artifact_ids: Sequence[str]
    scores: NDArray[np.float64]
    max_score: float | None = None

    def __len__(self) -> int:
        """Return the number of ranked records."""
        return len(self.record_ids)

    def first(self, k: int) -> "Ranking":
        """Return the first `k` rows."""
        return Ranking(self.record_ids[:k], self.artifact_ids[:k], self.scores[:k], self.max_score)


_NO_METADATA: Any = object()  # the caller passed no metadata: each hit gets a new dict


@dataclass(frozen=True, slots=True, init=False)
class SearchHit:
    """A record with a score; a higher score is a better match.

    Args:
        artifact_id: The artifact that matched.
        surface_kind: The kind of the surface that matched.
        score: The score. Its scale depends on the search mode, the fusion or the walk policy that computed it.
        text: The text that matched.
        metadata: Filter fields and facts, such as scores and provenance. A fact never replaces a field of the author:
            if the names are equal, it is in the dict `airw_facts`. The receiver of the hit owns this dict and may
            change it.
        source: The corpus that the hit came from, or `None` if that is not known.
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
        metadata: dict[str, Any] = _NO_METADATA,
        source: str | None = None,
        surface_index: int | None = None,
    ) -> None:
        """Set all fields.

        The generated method takes nearly twice the time, and walks create thousands of hits.
        """
        set_id, set_kind, set_score, set_text, set_metadata, set_source, set_index = _SETTERS
        set_id(self, artifact_id)
        set_kind(self, surface_kind)
        set_score(self, score)
        set_text(self, text)
        set_metadata(self, {} if metadata is _NO_METADATA else metadata)
        set_source(self, source)
        set_index(self, surface_index)

    @property
    def key(self) -> tuple[str | None, str]:
        """The identity of the artifact among several corpora: `(source, artifact_id)`."""
        return self.source, self.artifact_id

    @property
    def pointer(self) -> str | None:
        """The location of the artifact's file, or `None`.

        It is the first of `airw_path`, `skill_path` and `path` in the metadata that is not empty.
        """
        return next((value for name in POINTERS if (value := self.metadata.get(name))), None)

    def to_dict(self) -> dict[str, Any]:
        """Return the seven fields as JSON-clean values; a score that is not finite becomes `None`."""
        return {item.name: json_clean(getattr(self, item.name)) for item in fields(self)}


POINTERS = ("airw_path", "skill_path", "path")
"""The fields of metadata that may contain the location of a file, in the order in which they count."""

FACTS = "airw_facts"
"""The field of metadata with the facts whose names are those of fields of the author."""

FACT_NAMES = frozenset(
    {
        *("dense_score", "lexical_score", "lexical_share", "dense_weight", "lexical_weight", "retrieval_score"),
        *("source_score", "source_rank", "fused_sources", "rank_final", "disclosure", "expansion"),
        *("walk_depth", "walk_parent", "walk_path", "walk_edge", "seed", "fan_in", "mmr_score", "redundancy"),
        *("path_added", "path_coverage", "path_cosine", "path_loss", "path_value", "ppr_lower", "ppr_upper", FACTS),
    }
)
"""The names of the facts that searches, walks and discovery write into the metadata of hits."""


def keep_fields(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a new hit, in which no fact will replace a field of the author.

    Facts whose names are taken go into a dict of their own, the field `airw_facts`.

    Example:
        >>> metadata = keep_fields({"seed": "wheat"})
        >>> add_facts(metadata, {"seed": "loaf.md", "walk_depth": 1})
        >>> metadata
        {'seed': 'wheat', 'airw_facts': {'seed': 'loaf.md'}, 'walk_depth': 1}
    """
    if not FACT_NAMES.isdisjoint(metadata):
        taken = [name for name in metadata if name in FACT_NAMES]
        metadata[FACTS] = dict.fromkeys(name for name in taken if name != FACTS)
    return metadata


def add_facts(metadata: dict[str, Any], facts: Mapping[str, Any]) -> None:
    """Write facts into the metadata of a hit; fields of the author stay."""
    if FACTS not in metadata:
        metadata.update(facts)
        return
    taken = metadata.get(FACTS)
    taken = dict(taken) if isinstance(taken, dict) else {}  # a copy: another hit may share it
    for name, value in facts.items():
        place = taken if name in taken else metadata
        place[name] = value
    if taken:
        metadata[FACTS] = taken


def with_facts(metadata: Mapping[str, Any], facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the metadata of a hit with more facts."""
    copy = dict(metadata)
    add_facts(copy, facts)
    return copy


def get_fact(metadata: Mapping[str, Any], name: str, default: Any = None) -> Any:
    """Return a fact from the metadata of a hit, and never a field of the author.

    Example:
        >>> get_fact({"seed": "wheat", "airw_facts": {"seed": None}}, "seed", "no seed")
        'no seed'
    """
    taken = metadata.get(FACTS)
    value = taken[name] if isinstance(taken, dict) and name in taken else metadata.get(name)
    return default if value is None else value


def check_hit(hit: SearchHit) -> SearchHit:
    """Return a hit if its fields have the types that they must have.

    The constructor does not check them, because walks create thousands of hits.

    Raises:
        ArgumentError: If it is not a hit, or a field has another type.

    Example:
        >>> check_hit(SearchHit("a.md", "chunk", 0.5, "text")).artifact_id
        'a.md'
    """
    if not isinstance(hit, SearchHit):
        raise ArgumentKindError(f"a hit must be a SearchHit, not {short_repr(hit)}")
    for name, kinds in _KINDS.items():
        value = getattr(hit, name)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise ArgumentKindError(f"{name} of a hit must not be {short_repr(value)}")
    if is_deeper(hit.metadata):
        raise ArgumentError("metadata of a hit must not nest deeper than 100 levels")
    if isinstance(hit.score, int) and abs(hit.score) > sys.float_info.max:
        raise ArgumentError(f"score of a hit must be a finite number, not {short_repr(hit.score)}")
    return hit


_KINDS: Mapping[str, Any] = {
    "artifact_id": str,
    "surface_kind": str,
    "score": Real,
    "text": str,
    "metadata": Mapping,
    "source": str | None,
    "surface_index": int | None,
}

# A frozen dataclass sets its fields with `object.__setattr__`; calling the slots' own setters is faster.
_SETTERS = tuple(getattr(SearchHit, item.name).__set__ for item in fields(SearchHit))


@dataclass(frozen=True, slots=True)
class Passage:
    """A hit whose text is extended by the neighbouring records of its artifact.

    Args:
        artifact_id: The artifact of the hit.
        surface_kind: The kind of the hit's surface.
        score: The score of the hit.
        text: The texts of the records, joined in plan order. Text that chunks share appears once.
        record_ids: The records whose texts were joined, in plan order. Empty if `text` is the hit's text alone.
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
        """Return the seven fields as JSON-clean values."""
        return {item.name: json_clean(getattr(self, item.name)) for item in fields(self)}
