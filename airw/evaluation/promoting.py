"""Promotion: whether a system beats a search and a reranked search."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.evaluation.bootstrap import Interval, bootstrap_pairs
from airw.evaluation.comparing import check_same_cases
from airw.evaluation.measures import Measure
from airw.evaluation.rows import Evaluation

FEWEST_CASES = 20
"""The fewest cases with an answer that can promote a system: with fewer, an interval is too narrow."""


@dataclass(frozen=True, slots=True)
class Promotion:
    """Whether a system is better than a search and than a reranked search, and why.

    Args:
        label: The name of the system.
        measure: The measure.
        promoted: True if it is better than both, by intervals that exclude zero.
        differences: Its differences, by the label of the other system.
        reasons: One sentence for each other system, and one if there are too few cases.

    Example:
        >>> print(Promotion("walk", "mrr", False, {}, ("too few cases",)))
        walk is not promoted: too few cases
    """

    label: str
    measure: str
    promoted: bool
    differences: Mapping[str, Interval]
    reasons: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {
            "system": self.label,
            "measure": self.measure,
            "promoted": self.promoted,
            "differences": {label: interval.to_dict() for label, interval in self.differences.items()},
            "reasons": list(self.reasons),
        }

    def __str__(self) -> str:
        return f"{self.label} is {'' if self.promoted else 'not '}promoted: {'; '.join(self.reasons)}"


def promote(
    candidate: Evaluation,
    *,
    flat: Evaluation,
    reranked: Evaluation,
    measure: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Promotion:
    """Decide whether a system beats both a search and the same search with a reranker.

    A walk costs more than a search, and so does a reranker. A walk is worth it only if it finds more than both. It must
    be better in the mean, and the interval of each difference must exclude zero. At least 20 cases must have an answer.
    Cases of one document count once.

    This call blocks: use a worker thread in async code.

    Args:
        candidate: The results of the system.
        flat: Those of the search.
        reranked: Those of the search with a reranker.
        measure: The measure that decides; by default the first one of the candidate.
        confidence: The confidence of the intervals. If you try several systems, divide the risk by their number.
        resamples: The draws of each bootstrap; see `bootstrap_pairs`.
        seed: The seed of the draws.

    Raises:
        ArgumentError: If the systems were asked other cases, or the text is no measure.

    Example:
        >>> from airw.evaluation import DiscoveryCase, QueryRow
        >>> cases, measures = [DiscoveryCase(f"q{n}", "a") for n in range(30)], (Measure("mrr"),)
        >>> def rank(label, *ids):
        ...     return Evaluation(label, tuple(QueryRow(case, ids) for case in cases), measures)
        >>> verdict = promote(rank("walk", "a"), flat=rank("flat", "x", "a"), reranked=rank("reranked", "a"))
        >>> verdict.promoted, verdict.reasons[1]
        (False, 'not better than reranked: mrr +0.000 [+0.000, +0.000] over 30 cases, which includes zero')
    """
    check_same_cases([candidate, flat, reranked])
    if flat.label == reranked.label:
        raise ArgumentError(f"flat and reranked need a label each, not both {short_repr(flat.label)}")
    chosen = candidate.measures[0] if measure is None else Measure.parse(measure)
    differences = {
        other.label: bootstrap_pairs(
            candidate.values(chosen),
            other.values(chosen),
            confidence=confidence,
            resamples=resamples,
            seed=seed,
            groups=candidate.groups(),
        )
        for other in (flat, reranked)
    }
    reasons = [_explain(str(chosen), label, interval) for label, interval in differences.items()]
    n = len(set(candidate.groups()))
    is_enough = n >= FEWEST_CASES
    if not is_enough:
        reasons.append(f"{n} cases with an answer are too few, {FEWEST_CASES} are needed")
    is_better = all(interval.low > 0 for interval in differences.values())
    return Promotion(candidate.label, str(chosen), is_better and is_enough, differences, tuple(reasons))


def _explain(measure: str, label: str, interval: Interval) -> str:
    numbers = f"{measure} {interval} over {interval.n} cases"
    if interval.low > 0:
        return f"better than {label}: {numbers}"
    if interval.high < 0:
        return f"worse than {label}: {numbers}"
    return f"not better than {label}: {numbers}, which includes zero"
