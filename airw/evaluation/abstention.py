"""Abstention: how well a signal separates queries with an answer from those without.

A signal is a number for a query: the higher, the surer an answer. A system answers if the signal reaches a threshold.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from airw._base.arrays import NDArray
from airw._base.checks import check_count, check_number
from airw.errors import ArgumentError
from airw.evaluation.rows import Evaluation, QueryRow
from airw.evaluation.tables import format_number

Signal: TypeAlias = Callable[[QueryRow], float]
"""Returns how sure a system is of its answer to a query."""


def top_score(row: QueryRow) -> float:
    """Return the score of the first artifact, or minus infinity if nothing was found.

    Example:
        >>> from airw.evaluation import DiscoveryCase
        >>> top_score(QueryRow(DiscoveryCase("keys"), ("a", "b"), (0.9, 0.5)))
        0.9
    """
    return row.scores[0] if row.scores else -math.inf


def score_margin(row: QueryRow) -> float:
    """Return how far the best score is above the second one, or minus infinity without hits.

    Example:
        >>> from airw.evaluation import DiscoveryCase
        >>> score_margin(QueryRow(DiscoveryCase("keys"), ("a", "b"), (0.9, 0.5)))
        0.4
    """
    return row.scores[0] - (row.scores[1] if len(row.scores) > 1 else 0.0) if row.scores else -math.inf


def area_under_roc(positives: Iterable[float], negatives: Iterable[float]) -> float:
    """Return the probability that a positive scores above a negative; ties count half.

    1 is a perfect separation, 0.5 none. NaN counts as minus infinity.

    Raises:
        ArgumentError: If there is no positive, or no negative.

    Example:
        >>> area_under_roc([0.9, 0.4], [0.4, 0.1])
        0.875
    """
    high, low = _to_array(positives), np.sort(_to_array(negatives))
    if not len(high) or not len(low):
        raise ArgumentError("there must be at least one positive and one negative")
    below = np.searchsorted(low, high, side="left") + np.searchsorted(low, high, side="right")
    return float(below.sum() / (2 * len(high) * len(low)))


def _to_array(scores: Iterable[float]) -> NDArray[np.float64]:
    return np.nan_to_num(np.array(list(scores), np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)


@dataclass(frozen=True, slots=True)
class RiskCurve:
    """The risk of answering at each threshold of a signal.

    Args:
        thresholds: The thresholds, descending.
        coverage: The share of the queries that are answered at each threshold.
        risk: The share of wrong answers among those.

    Example:
        >>> curve = measure_risk([0.9, 0.8, 0.1], [True, False, True])
        >>> curve.coverage[0], curve.risk[0], round(curve.area, 3)
        (0.3333333333333333, 0.0, 0.278)
    """

    thresholds: tuple[float, ...]
    coverage: tuple[float, ...]
    risk: tuple[float, ...]

    @property
    def area(self) -> float:
        """Return the mean risk over all coverages; 0 is best."""
        steps = np.diff(np.array([0.0, *self.coverage]))
        return float(np.dot(steps, np.array(self.risk)))

    def coverage_at(self, risk: float) -> float:
        """Return the largest coverage whose risk is at most this.

        Raises:
            ArgumentError: If the risk is not from 0 to 1.
        """
        most = check_number("risk", risk, least=0, most=1)
        pairs = zip(self.coverage, self.risk, strict=True)
        return max((coverage for coverage, at_it in pairs if at_it <= most), default=0.0)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the area as JSON values; a threshold of minus infinity is `None`."""
        thresholds = [value if math.isfinite(value) else None for value in self.thresholds]
        return {
            "thresholds": thresholds,
            "coverage": list(self.coverage),
            "risk": list(self.risk),
            "area": self.area,
        }


def measure_risk(signals: Sequence[float], is_right: Sequence[bool]) -> RiskCurve:
    """Return the risk-coverage curve of a signal.

    At each threshold, the queries whose signal reaches it are answered. Risk is the share of wrong ones among them
    (El-Yaniv and Wiener, "On the foundations of noise-free selective classification", JMLR 2010).

    Args:
        signals: The signal of each query.
        is_right: Whether answering it would be right.

    Raises:
        ArgumentError: If the lists are empty or of different length.

    Example:
        >>> measure_risk([0.9, 0.8, 0.8], [True, False, True]).risk
        (0.0, 0.3333333333333333)
    """
    if len(signals) != len(is_right) or not signals:
        raise ArgumentError(
            f"signals and is_right must have an entry for each query, not {len(signals)} and {len(is_right)}"
        )
    values = _to_array(signals)
    order = np.argsort(-values, kind="stable")
    wrong = np.cumsum(~np.array(is_right, bool)[order])
    # Queries with one signal are answered together, so only the last of them is a point.
    values = values[order]
    ends = np.flatnonzero(np.append(values[1:] != values[:-1], True))
    answered = ends + 1
    return RiskCurve(
        tuple(map(float, values[ends])),
        tuple(map(float, answered / len(values))),
        tuple(map(float, wrong[ends] / answered)),
    )


@dataclass(frozen=True, slots=True)
class AbstentionReport:
    """How well a signal tells when to abstain.

    Args:
        auc: The probability that a query with an answer has a higher signal than one without. It is `None` if all cases
            are of one kind.
        curve: The risk-coverage curve.
        n_gold: The number of cases with an answer.
        n_abstention: The number of cases without one.

    Example:
        >>> print(AbstentionReport(0.75, measure_risk([0.9, 0.1], [True, False]), 1, 1))
        AUC 0.750 (1 cases with an answer, 1 without); mean risk 0.250; coverage at risk 0.1: 0.500
    """

    auc: float | None
    curve: RiskCurve
    n_gold: int
    n_abstention: int

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        counts = {"n_gold": self.n_gold, "n_abstention": self.n_abstention}
        return {"auc": self.auc, **counts, "curve": self.curve.to_dict()}

    def __str__(self) -> str:
        return (
            f"AUC {format_number(self.auc)} ({self.n_gold} cases with an answer, {self.n_abstention} without); "
            f"mean risk {self.curve.area:.3f}; coverage at risk 0.1: {self.curve.coverage_at(0.1):.3f}"
        )


def measure_abstention(evaluation: Evaluation, *, signal: Signal = top_score, k: int = 1) -> AbstentionReport:
    """Measure how well a signal tells which queries to answer.

    An answer is right if an artifact of the gold is among the first `k`. So a query without an answer is always
    answered wrongly. At the last threshold, minus infinity, queries count as answered for which nothing was found.

    Args:
        evaluation: The results of a system for cases of both kinds.
        signal: The signal, such as `top_score` or `score_margin`.
        k: The number of artifacts of an answer.

    Raises:
        ArgumentError: If there is no case, or `k` is not a whole number of at least 1.

    Example:
        >>> from airw.evaluation import DiscoveryCase
        >>> rows = (
        ...     QueryRow(DiscoveryCase("keys", "a"), ("a",), (0.9,)),
        ...     QueryRow(DiscoveryCase("Rome"), ("a",), (0.2,)),
        ... )
        >>> report = measure_abstention(Evaluation("flat", rows))
        >>> report.auc, report.curve.coverage_at(0)
        (1.0, 0.5)
    """
    check_count("k", k, least=1)
    rows = evaluation.rows
    signals = [signal(row) for row in rows]
    curve = measure_risk(signals, [not set(row.case.gold).isdisjoint(row.ranking[:k]) for row in rows])
    has_answer = [not row.case.gold_is_none for row in rows]
    with_answer = [value for value, has in zip(signals, has_answer, strict=True) if has]
    without = [value for value, has in zip(signals, has_answer, strict=True) if not has]
    auc = area_under_roc(with_answer, without) if with_answer and without else None
    return AbstentionReport(auc, curve, len(with_answer), len(without))
