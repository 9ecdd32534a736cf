"""Graded cases: how relevant each artifact is to a theme, in five levels."""

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Self

from airw._base.json import json_clean
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.evaluation._case_files import read_rows, write_rows

RELEVANCE_LEVELS = ("none", "tangential", "uses-tools", "strong", "core")
"""The levels of relevance, the weakest first."""

LEVEL_GAINS: Mapping[str, float] = MappingProxyType(
    {"none": 0.0, "tangential": 0.0, "uses-tools": 1.0, "strong": 2.0, "core": 3.0}
)
"""The gain of each level in nDCG."""

_KINDS: Mapping[str, type | tuple[type, ...]] = {
    "labels": str,
    "evidence": str,
    "observed": (int, float),
    "is_distractor": bool,
    "metadata": object,
}


@dataclass(frozen=True, slots=True)
class GradedCase:
    """An artifact, and its level of relevance to each theme.

    A theme is asked with a query of its own, its *probe*. Probes are in the first line of a file, under `probes`.

    Args:
        artifact_id: The artifact.
        labels: The level of each theme, one of `RELEVANCE_LEVELS`.
        evidence: Why, by theme.
        observed: The score that some ranking gave the artifact, by theme.
        thin_description: Whether the artifact has almost no description.
        is_distractor: Whether it is a distractor, by theme; this overrides `observed`.
        metadata: Any other data.

    Example:
        >>> case = GradedCase("numpy", {"arrays": "core"})
        >>> case.level("arrays"), case.gain("arrays"), case.level("bread")
        ('core', 3.0, 'none')
    """

    artifact_id: str
    labels: Mapping[str, str] = field(default_factory=dict)
    evidence: Mapping[str, str] = field(default_factory=dict)
    observed: Mapping[str, float] = field(default_factory=dict)
    thin_description: bool = False
    is_distractor: Mapping[str, bool] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def level(self, theme: str) -> str:
        """Return the level for a theme; `"none"` without a label."""
        return self.labels.get(theme, "none")

    def gain(self, theme: str, *, gains: Mapping[str, float] = LEVEL_GAINS) -> float:
        """Return the gain for a theme; a level that `gains` lacks has 0."""
        return float(gains.get(self.level(theme), 0.0))

    def to_dict(self) -> dict[str, Any]:
        """Return the case as JSON values, without empty fields."""
        values = {item.name: json_clean(getattr(self, item.name)) for item in fields(self)}
        return {name: value for name, value in values.items() if value or name in ("artifact_id", "labels")}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Make a case from the values of `to_dict`; unknown fields are ignored.

        Raises:
            ArgumentError: If there is no artifact id, or a level is unknown.
        """
        if not isinstance(values, Mapping) or not isinstance(values.get("artifact_id"), str):
            raise ArgumentError(f"a graded case must be an object with an artifact_id, not {short_repr(values)}")
        for name, kind in _KINDS.items():
            entries = values.get(name)
            if entries is None:
                continue
            if not isinstance(entries, Mapping) or not all(isinstance(entry, kind) for entry in entries.values()):
                raise ArgumentError(f"{name} must be an object with an entry for each theme, not {short_repr(entries)}")
        for theme, level in (values.get("labels") or {}).items():
            if level not in RELEVANCE_LEVELS:
                raise ArgumentError(
                    f"the level of {short_repr(theme)} must be one of {', '.join(RELEVANCE_LEVELS)}, "
                    f"not {short_repr(level)}"
                )
        known = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in values.items() if name in known and value is not None})


def save_graded_cases(
    cases: Iterable[GradedCase], path: str | os.PathLike[str], *, meta: Mapping[str, Any] | None = None
) -> None:
    """Write graded cases to a JSON Lines file, and replace the file's content.

    This call blocks: use a worker thread in async code.

    Args:
        cases: The cases.
        path: The file; missing folders are made.
        meta: Data about the cases, such as `{"probes": {"arrays": "arrays of numbers"}}`, written as the first line.

    Raises:
        SourceError: If the file cannot be written.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = f"{folder}/cases.jsonl"
        ...     save_graded_cases([GradedCase("numpy", {"arrays": "core"})], file, meta={"probes": {}})
        ...     load_graded_cases(file)[0].labels, read_case_meta(file)
        ({'arrays': 'core'}, {'probes': {}})
    """
    write_rows((case.to_dict() for case in cases), path, meta)


def load_graded_cases(path: str | os.PathLike[str]) -> list[GradedCase]:
    """Read the graded cases of a JSON Lines file, in the order of its lines.

    This call blocks: use a worker thread in async code.

    Raises:
        ArgumentError: If a line is not a graded case; the message names file and line.
        SourceError: If the file cannot be read.
    """
    return read_rows(path, GradedCase.from_dict)[1]


def read_case_meta(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the data in the first line of a file of cases; empty if there is none.

    This call blocks: use a worker thread in async code.

    Raises:
        SourceError: If the file cannot be read.
    """
    return read_rows(path, lambda _: None)[0]


def count_levels(cases: Iterable[GradedCase], theme: str) -> dict[str, int]:
    """Return how many artifacts have each level for a theme.

    Example:
        >>> count_levels([GradedCase("numpy", {"arrays": "core"})], "arrays")["core"]
        1
    """
    counts = Counter(case.level(theme) for case in cases)
    return {level: counts[level] for level in RELEVANCE_LEVELS}


def to_graded_qrels(
    cases: Sequence[GradedCase],
    theme: str,
    *,
    probe: str | None = None,
    gains: Mapping[str, float] = LEVEL_GAINS,
    query_id: str | None = None,
) -> tuple[dict[str, str], dict[str, dict[str, float]]]:
    """Return the query of a theme and the gains of its artifacts, each by the query id.

    Args:
        cases: The graded cases.
        theme: The theme.
        probe: The query; by default the name of the theme.
        gains: The gain of each level. Artifacts without a gain are left out.
        query_id: The query id; by default `theme:` and the theme.

    Example:
        >>> to_graded_qrels([GradedCase("numpy", {"arrays": "core"}), GradedCase("attrs")], "arrays")
        ({'theme:arrays': 'arrays'}, {'theme:arrays': {'numpy': 3.0}})
    """
    id = query_id or f"theme:{theme}"
    found = {case.artifact_id: case.gain(theme, gains=gains) for case in cases}
    return {id: probe or theme}, {id: {artifact: gain for artifact, gain in found.items() if gain > 0}}
