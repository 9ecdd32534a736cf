"""Boosts: functions that add to the score of a hit, by its metadata."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from airw._base.checks import check_count, check_strings
from airw._base.messages import short_repr
from airw._base.requirements import requirement_name
from airw.errors import ArgumentError
from airw.values import SearchHit


def dependency_evidence_boost(
    relevant_libs: Iterable[str], *, weight: float, saturate: int = 1, deps_field: str = "deps"
) -> Callable[[SearchHit], float]:
    """Make a `boost` for artifacts that depend on relevant libraries.

    The boost adds `weight * min(n, saturate) / saturate` to the score of a hit. `n` is the number of different
    libraries among `relevant_libs` that the hit's artifact requires. Requirements are evidence that prose is not: a
    description can mention a library that the artifact does not use.

    Args:
        relevant_libs: The relevant libraries; names are compared as PEP 503 normalizes them.
        weight: The largest addition, on the scale of the search: a cosine is about 0.5, an RRF score about 0.03. A
            negative weight lowers scores.
        saturate: The number of libraries that earns the whole weight.
        deps_field: The metadata field with the requirements, a list or a single one. Versions, extras and markers in
            them are ignored.

    Raises:
        ArgumentKindError: If `relevant_libs` is a single string, or contains something else than strings.
        ArgumentError: If `weight` is not a finite number, `saturate` is not a positive whole number, or `deps_field` is
            not a name.

    Example:
        >>> boost = dependency_evidence_boost({"networkx"}, weight=0.1)
        >>> boost(SearchHit("paths", "document", 0.4, "", {"deps": ["NetworkX>=3", "anyio"]}))
        0.1
        >>> boost(SearchHit("tasks", "document", 0.5, "", {"deps": ["anyio"]}))
        0.0
    """
    if isinstance(weight, bool) or not isinstance(weight, Real) or not math.isfinite(weight):
        raise ArgumentError(f"weight must be a finite number, not {short_repr(weight)}")
    if not isinstance(deps_field, str) or not deps_field:
        raise ArgumentError(f"deps_field must be the name of a metadata field, not {short_repr(deps_field)}")
    libraries = frozenset(map(requirement_name, check_strings("relevant_libs", relevant_libs))) - {""}
    return _DependencyEvidence(libraries, float(weight), check_count("saturate", saturate, least=1), deps_field)


@dataclass(frozen=True, slots=True)
class _DependencyEvidence:
    libraries: frozenset[str]
    weight: float
    saturate: int
    deps_field: str

    def __call__(self, hit: SearchHit) -> float:
        count = len(self.libraries & _parse_requirements(hit.metadata.get(self.deps_field)))
        return self.weight * min(count, self.saturate) / self.saturate


def _parse_requirements(deps: Any) -> set[str]:
    """Return the names of the required libraries; entries that are no strings are skipped."""
    entries = deps if isinstance(deps, Iterable) and not isinstance(deps, str | Mapping) else [deps]
    return {requirement_name(entry) for entry in entries if isinstance(entry, str)}
