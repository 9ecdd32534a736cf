"""What may be added to a hit's score for what its metadata say."""

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
    """Make a `boost` that adds to the score of what depends on libraries that matter.

    It gives `weight * min(n, saturate) / saturate`, where `n` counts the different libraries among `relevant_libs` that
    a hit's artifact requires. A structural signal: prose can claim what a list of requirements does not bear out.

    Args:
        relevant_libs: The libraries that matter, in any spelling that PEP 503 takes for the same.
        weight: What is added at most, on the scale of the search: a cosine is about 0.5, an RRF mass about 0.03. Below
            0 it takes away.
        saturate: How many of the libraries earn the whole weight.
        deps_field: The metadata field that holds the requirements: a list of them, or one; versions, extras and markers
            are left aside.

    Raises:
        ArgumentKindError: `relevant_libs` is one string, or holds something else.
        ArgumentError: `weight` is not a finite number, `saturate` is not a whole number of at least 1, or `deps_field`
            is no name.

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
        found = len(self.libraries & _required(hit.metadata.get(self.deps_field)))
        return self.weight * min(found, self.saturate) / self.saturate


def _required(deps: Any) -> set[str]:
    """Return the names that a field's value requires; what is no requirement names nothing."""
    entries = deps if isinstance(deps, Iterable) and not isinstance(deps, str | Mapping) else [deps]
    return {requirement_name(entry) for entry in entries if isinstance(entry, str)}
