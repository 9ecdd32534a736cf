"""Comparison: several systems on the same cases, in one table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from airw._base.checks import check_choice
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.evaluation.bootstrap import Interval, bootstrap_pairs
from airw.evaluation.rows import Evaluation, tabulate_evaluations


@dataclass(frozen=True, slots=True)
class Comparison:
    """The results of several systems for the same cases.

    Args:
        evaluations: One per system.
        baseline: The label of the system that the others are compared with.
        differences: The difference of each other system from the baseline, by label and measure.

    Example:
        >>> from airw.evaluation import DiscoveryCase, Measure, QueryRow
        >>> case, measures = DiscoveryCase("keys", "a"), (Measure("mrr"),)
        >>> flat = Evaluation("flat", (QueryRow(case, ("x", "a")),), measures)
        >>> walk = Evaluation("walk", (QueryRow(case, ("a", "x")),), measures)
        >>> compare([flat, walk]).differences["walk"]["mrr"].mean
        0.5
    """

    evaluations: tuple[Evaluation, ...]
    baseline: str
    differences: Mapping[str, Mapping[str, Interval]]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the rows as JSON values."""
        differences = {
            label: {measure: interval.to_dict() for measure, interval in by_measure.items()}
            for label, by_measure in self.differences.items()
        }
        systems = [each.to_dict() for each in self.evaluations]
        return {"baseline": self.baseline, "systems": systems, "differences": differences}

    def __str__(self) -> str:
        first = str(self.evaluations[0].measures[0])
        cells = [self._describe(each.label, first) for each in self.evaluations]
        more = {f"{first} - {self.baseline}": cells} if self.differences else {}
        return tabulate_evaluations(self.evaluations, more=more)

    def _describe(self, label: str, measure: str) -> str:
        return "-" if label == self.baseline else str(self.differences[label][measure])


def compare(
    evaluations: Sequence[Evaluation],
    *,
    baseline: str | None = None,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Compare systems that were asked the same cases, query by query.

    This call blocks: use a worker thread in async code.

    Args:
        evaluations: The results of the systems; their labels must differ.
        baseline: The label of the system to compare with; by default the first.
        confidence: The confidence of the intervals.
        resamples: The draws of each bootstrap; see `bootstrap_pairs`.
        seed: The seed of the draws.

    Raises:
        ArgumentError: If the systems were asked other cases, no case has an answer, or labels or measures do not fit.

    Example:
        >>> from airw.evaluation import DiscoveryCase, Measure, QueryRow
        >>> case, measures = DiscoveryCase("keys", "a"), (Measure("mrr"),)
        >>> flat = Evaluation("flat", (QueryRow(case, ("x", "a")),), measures)
        >>> walk = Evaluation("walk", (QueryRow(case, ("a", "x")),), measures)
        >>> print(compare([flat, walk]).differences["walk"]["mrr"])
        +0.500 [+0.500, +0.500]
    """
    check_same_cases(evaluations)
    labels = [each.label for each in evaluations]
    if len(set(labels)) < len(labels):
        raise ArgumentError(f"each system needs a label of its own, not {', '.join(map(repr, labels))}")
    base = labels[0] if baseline is None else check_choice("baseline", baseline, labels)
    reference = evaluations[labels.index(base)]
    measures = reference.measures
    differences = {
        each.label: {
            str(measure): bootstrap_pairs(
                each.values(measure),
                reference.values(measure),
                confidence=confidence,
                resamples=resamples,
                seed=seed,
            )
            for measure in measures
        }
        for each in evaluations
        if each is not reference
    }
    return Comparison(tuple(evaluations), base, differences)


def check_same_cases(evaluations: Sequence[Evaluation]) -> None:
    """Raise unless all systems were asked the same cases and have the same measures.

    Raises:
        ArgumentError: If they were not, or no case has an answer.
    """
    if not evaluations:
        raise ArgumentError("there must be at least one evaluation to compare")
    first, *others = evaluations
    asked = [(row.case.query, set(row.case.gold)) for row in first.rows]
    for other in others:
        if [(row.case.query, set(row.case.gold)) for row in other.rows] != asked:
            raise ArgumentError(
                f"{short_repr(first.label)} and {short_repr(other.label)} were asked different cases; evaluate all "
                "systems on the same list"
            )
        if other.measures != first.measures:
            raise ArgumentError("all evaluations must have the same measures")
    if not first.n_gold:
        raise ArgumentError("no case has an answer, so there is nothing to compare")
