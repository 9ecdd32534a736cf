"""The paired bootstrap: how sure a difference between two systems is."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from airw._base.checks import check_count, check_number
from airw.errors import ArgumentError

_MOST_NUMBERS = 1 << 20  # drawn at once


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean difference and the interval that contains the true one with some confidence.

    Args:
        mean: The mean difference.
        low: The lower end.
        high: The upper end.
        n: The number of differences.
        confidence: The share of such intervals that contain the true difference.

    Example:
        >>> interval = Interval(0.05, 0.01, 0.09, 200)
        >>> print(interval, interval.excludes_zero)
        +0.050 [+0.010, +0.090] True
    """

    mean: float
    low: float
    high: float
    n: int
    confidence: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Return whether the two systems differ: zero is not in the interval."""
        return self.low > 0 or self.high < 0

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"mean": self.mean, "low": self.low, "high": self.high, "n": self.n, "confidence": self.confidence}

    def __str__(self) -> str:
        return f"{self.mean:+.3f} [{self.low:+.3f}, {self.high:+.3f}]"


def bootstrap_pairs(
    ours: Sequence[float],
    theirs: Sequence[float],
    *,
    confidence: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    groups: Sequence[Hashable] | None = None,
) -> Interval:
    """Return the mean of `ours - theirs` with its interval by the paired bootstrap.

    Both lists hold a value for each query, in the same order. Queries are drawn again with replacement, as many as
    there are, and the mean difference of each draw is kept. The interval lies between two quantiles of these means
    (Efron and Tibshirani, "An introduction to the bootstrap", 1993). The same seed gives the same interval.

    Args:
        ours: The values of one system.
        theirs: The values of the other one.
        confidence: The confidence, above 0 and below 1.
        resamples: The number of draws.
        seed: The seed of the draws.
        groups: The group of each query. Queries of one group depend on each other, such as several that were written
            from one document, and are drawn together. By default each query is a group.

    Raises:
        ArgumentError: If the lists are empty or of different length, or another value cannot be used.

    Example:
        >>> interval = bootstrap_pairs([1.0, 0.5, 1.0, 1.0], [0.5, 0.5, 0.5, 1.0])
        >>> interval.mean, interval.low, interval.high
        (0.25, 0.0, 0.5)
    """
    if len(ours) != len(theirs) or not len(ours):
        raise ArgumentError(
            f"ours and theirs must have a value for each query, at least one, not {len(ours)} and {len(theirs)}"
        )
    check_number("confidence", confidence, least=0, most=1)
    check_count("resamples", resamples, least=1)
    differences = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    numbers: dict[Hashable, int] = {}
    named = range(len(differences)) if groups is None else groups
    group_of = [numbers.setdefault(group, len(numbers)) for group in named]
    sums, counts = np.bincount(group_of, differences), np.bincount(group_of)
    generator, n = np.random.default_rng(seed), len(sums)
    rows = max(1, _MOST_NUMBERS // n)
    sizes = [min(rows, resamples - done) for done in range(0, resamples, rows)]
    draws = (generator.integers(0, n, (size, n)) for size in sizes)
    means = np.concatenate([sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1) for drawn in draws])
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(differences.mean()), float(low), float(high), n, confidence)
