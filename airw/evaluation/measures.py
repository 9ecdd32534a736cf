"""Measures of a ranking against the answers of its query: recall, nDCG, MRR and others.

All are pure functions. They get a ranking, best first and without duplicates, and the grades of artifacts. A grade
above 0 means that the artifact answers the query; an artifact without a grade does not. Each returns a number from 0 to
1, and 0 if no artifact has a grade above 0. A negative `k` is an `ArgumentError`.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self, TypeAlias, TypeVar

from airw._base.checks import check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError

T = TypeVar("T")
Grades: TypeAlias = Mapping[str, float]
"""The grade of each artifact that was judged."""


def recall(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return the share of the answers that are among the first `k` artifacts.

    Example:
        >>> recall(["a", "x", "b"], {"a": 1, "b": 1}, 2)
        0.5
    """
    answers = _answers(grades)
    return _count(ranking, answers, k) / len(answers) if answers else 0.0


def precision(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return the share of answers among the first `k` places.

    A ranking with fewer than `k` artifacts is divided by `k` all the same.

    Example:
        >>> precision(["a", "x"], {"a": 1}, 4)
        0.25
    """
    places = len(ranking) if k is None else k
    return _count(ranking, _answers(grades), k) / places if places else 0.0


def success(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return 1 if an answer is among the first `k` artifacts, else 0.

    Example:
        >>> success(["x", "a"], {"a": 1, "b": 1}, 1), success(["x", "a"], {"a": 1, "b": 1}, 2)
        (0.0, 1.0)
    """
    return float(_count(ranking, _answers(grades), k) > 0)


def all_gold(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return 1 if all answers are among the first `k` artifacts, else 0.

    A question that needs several passages can be answered only then.

    Example:
        >>> all_gold(["a", "x", "b"], {"a": 1, "b": 1}, 2), all_gold(["a", "x", "b"], {"a": 1, "b": 1}, 3)
        (0.0, 1.0)
    """
    answers = _answers(grades)
    return float(bool(answers) and _count(ranking, answers, k) == len(answers))


def reciprocal_rank(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return 1 divided by the rank of the first answer, or 0 if none is among the first `k`.

    Its mean over queries is MRR.

    Example:
        >>> reciprocal_rank(["x", "a"], {"a": 1})
        0.5
    """
    answers = _answers(grades)
    return next((1 / rank for rank, id in enumerate(_first(ranking, k), 1) if id in answers), 0.0)


def average_precision(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return the mean, over all answers, of the precision at the rank of each.

    An answer that is not among the first `k` counts 0. The mean over queries is MAP.

    Example:
        >>> round(average_precision(["a", "x", "b"], {"a": 1, "b": 1}), 4)
        0.8333
    """
    answers = _answers(grades)
    ranks = [rank for rank, id in enumerate(_first(ranking, k), 1) if id in answers]
    return sum(found / rank for found, rank in enumerate(ranks, 1)) / len(answers) if answers else 0.0


def ndcg(ranking: Sequence[str], grades: Grades, k: int | None = None) -> float:
    """Return the normalized discounted cumulative gain of the first `k` artifacts.

    The gain of an artifact is its grade, divided by the logarithm to base 2 of its rank plus 1. The sum is divided by
    that of the best possible ranking (Järvelin and Kekäläinen, "Cumulated gain-based evaluation", TOIS 2002).

    Example:
        >>> round(ndcg(["x", "a"], {"a": 1.0}, 10), 4)
        0.6309
    """
    best = _discount(sorted((grade for grade in grades.values() if grade > 0), reverse=True), k)
    return _discount((max(grades.get(id, 0.0), 0.0) for id in ranking), k) / best if best else 0.0


def _answers(grades: Grades) -> set[str]:
    return {id for id, grade in grades.items() if grade > 0}


def _first(items: Iterable[T], k: int | None) -> Iterator[T]:
    """Return an iterator over the first `k` items, or over all."""
    return islice(items, None if k is None else check_count("k", k))


def _count(ranking: Sequence[str], answers: set[str], k: int | None) -> int:
    return sum(id in answers for id in _first(ranking, k))


def _discount(gains: Iterable[float], k: int | None) -> float:
    return math.fsum(gain / math.log2(rank + 1) for rank, gain in enumerate(_first(gains, k), 1))


MEASURES: Mapping[str, Callable[[Sequence[str], Grades, int | None], float]] = {
    "ndcg": ndcg,
    "recall": recall,
    "precision": precision,
    "mrr": reciprocal_rank,
    "map": average_precision,
    "success": success,
    "all_gold": all_gold,
}
"""The measures by name, as in `"recall@5"`."""

_NAME = re.compile(r"([a-z0-9_]+)(?:@([0-9]+))?")


@dataclass(frozen=True, slots=True)
class Measure:
    """A measure and how many of the first artifacts it looks at.

    Args:
        name: A name of `MEASURES`.
        k: The number of artifacts; `None` for the whole ranking.

    Raises:
        ArgumentError: If the name is unknown, or `k` is not a whole number of at least 1.

    Example:
        >>> measure = Measure.parse("recall@2")
        >>> str(measure), measure(["a", "x", "b"], {"a": 1, "b": 1})
        ('recall@2', 0.5)
    """

    name: str
    k: int | None = None

    def __post_init__(self) -> None:
        """Check name and number."""
        if self.name not in MEASURES:
            raise ArgumentError(f"a measure must be one of {', '.join(MEASURES)}, not {short_repr(self.name)}")
        if self.k is not None:
            check_count(f"k of {self.name}", self.k, least=1)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the measure of a text such as `"ndcg@10"` or `"mrr"`.

        Raises:
            ArgumentError: If the text is no measure.
        """
        match = _NAME.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise ArgumentError(f"a measure is written as in 'recall@5' or 'mrr', not {short_repr(text)}")
        return cls(match[1], None if match[2] is None else int(match[2]))

    def __call__(self, ranking: Sequence[str], grades: Grades) -> float:
        """Return the value of a ranking."""
        return MEASURES[self.name](ranking, grades, self.k)

    def __str__(self) -> str:
        return self.name if self.k is None else f"{self.name}@{self.k}"


def parse_measures(texts: Iterable[str]) -> tuple[Measure, ...]:
    """Return the measures of several texts, without duplicates.

    Raises:
        ArgumentError: If a text is no measure, or there is none.

    Example:
        >>> [str(measure) for measure in parse_measures(["ndcg@10", "mrr", "mrr"])]
        ['ndcg@10', 'mrr']
    """
    names = [texts] if isinstance(texts, str) else list(texts)
    if not names:
        raise ArgumentError("measures must name at least one measure, such as 'ndcg@10'")
    return tuple(dict.fromkeys(map(Measure.parse, names)))
