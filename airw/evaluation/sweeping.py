"""Sweeps: a grid of settings of a selection, measured on one pass of searches."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

from airw._base.checks import check_choice
from airw._base.concurrency import in_thread
from airw.corpora import CorpusLike
from airw.discovery import Strategy
from airw.errors import ArgumentError
from airw.evaluation.cases import DiscoveryCase
from airw.evaluation.selection import SelectionReport, find_candidates, score_selection, tabulate_selections
from airw.retrieval import Mode

SWEEP_MEASURES = (
    "selection_f1",
    "selection_precision",
    "selection_recall",
    "conditional_commit_rate",
    "abstention_accuracy",
    "mean_selected_size",
)
"""What a sweep can be optimized for. Of `mean_selected_size` less is better, of the others more."""


@dataclass(frozen=True, slots=True)
class SelectionGridPoint:
    """One setting of a selection, and its report.

    Args:
        max_k: Select at most this many hits.
        rel: The ratio to the first score that a hit must reach.
        min_score: The floor.
        report: The report.

    Example:
        >>> from airw.evaluation import score_selection
        >>> SelectionGridPoint(3, 0.9, None, score_selection([])).params
        {'max_k': 3, 'rel': 0.9, 'min_score': None}
    """

    max_k: int
    rel: float
    min_score: float | None
    report: SelectionReport

    @property
    def params(self) -> dict[str, Any]:
        """Return the settings by name."""
        return {"max_k": self.max_k, "rel": self.rel, "min_score": self.min_score}

    def worth(self, measure: str) -> float:
        """Return a number that is larger for a better value, and minus infinity without one."""
        value = getattr(self.report, measure)
        if value is None:
            return -math.inf
        return -float(value) if measure == "mean_selected_size" else float(value)

    def to_dict(self) -> dict[str, Any]:
        """Return the settings and the report as JSON values."""
        return {**self.params, "report": self.report.to_dict()}

    def __str__(self) -> str:
        floor = "" if self.min_score is None else f" min_score={self.min_score:g}"
        return f"max_k={self.max_k} rel={self.rel:g}{floor}"


def _rank_key(point: SelectionGridPoint, measure: str, sign: int = 1) -> tuple[float, float, int, float]:
    """Return a key that is smaller for a better setting."""
    worth, size = point.worth(measure), -point.worth("mean_selected_size")
    return (-sign * worth if math.isfinite(worth) else math.inf, size, point.max_k, -point.rel)


@dataclass(frozen=True, slots=True)
class SelectionSweep:
    """The reports of a grid of settings.

    Args:
        points: One per setting, in the order of the grid.
        objective: The measure to optimize.
        strategy: The rule of all settings.
        mode: The mode of the searches.
        k: The number of candidates.

    Example:
        >>> from airw.evaluation import score_selection
        >>> point = SelectionGridPoint(3, 0.9, None, score_selection([]))
        >>> str(SelectionSweep((point,), "selection_f1", "conservative", "hybrid", 10).best())
        'max_k=3 rel=0.9'
    """

    points: tuple[SelectionGridPoint, ...]
    objective: str
    strategy: str
    mode: str
    k: int

    def best(self, measure: str | None = None, *, minimize: bool | None = None) -> SelectionGridPoint:
        """Return the best setting.

        Among equals the smaller selection wins, then the smaller `max_k`, then the larger `rel`.

        Args:
            measure: The measure; by default the objective.
            minimize: Whether less is better; by default only of `mean_selected_size`.

        Raises:
            ArgumentError: If the sweep is empty, or the measure is unknown.
        """
        if not self.points:
            raise ArgumentError("a sweep without settings has no best one")
        name = self.objective if measure is None else check_choice("measure", measure, SWEEP_MEASURES)
        sign = -1 if minimize is not None and minimize != (name == "mean_selected_size") else 1
        return min(self.points, key=lambda point: _rank_key(point, name, sign))

    def frontier(self, *, x: str = "selection_recall", y: str = "selection_precision") -> list[SelectionGridPoint]:
        """Return the settings that no other one beats without losing in one of two measures.

        They are in the order of `x`, the worst first.

        Raises:
            ArgumentError: If a measure is unknown.
        """
        for name in (x, y):
            check_choice("a measure", name, SWEEP_MEASURES)
        places = [(point.worth(x), point.worth(y)) for point in self.points]
        front = [
            (place[0], point)
            for place, point in zip(places, self.points, strict=True)
            if not any(a >= place[0] and b >= place[1] and (a, b) != place for a, b in places)
        ]
        return [point for _, point in sorted(front, key=lambda pair: pair[0])]

    def table(self, *, sort_by: str | None = None) -> str:
        """Return a table with a row per setting, the best first.

        Raises:
            ArgumentError: If the measure is unknown.
        """
        name = self.objective if sort_by is None else check_choice("sort_by", sort_by, SWEEP_MEASURES)
        ranked = sorted(self.points, key=lambda point: _rank_key(point, name))
        return tabulate_selections({str(point): point.report for point in ranked}, "setting")

    def to_dict(self) -> dict[str, Any]:
        """Return the grid and the best setting as JSON values."""
        return {
            "objective": self.objective,
            "strategy": self.strategy,
            "mode": self.mode,
            "k": self.k,
            "best": self.best().to_dict() if self.points else None,
            "points": [point.to_dict() for point in self.points],
        }

    def __str__(self) -> str:
        return f"{self.table()}\nbest {self.objective}: {self.best()}"


async def sweep_selection(
    corpus: CorpusLike,
    cases: Iterable[DiscoveryCase],
    *,
    strategy: Strategy = "conservative",
    mode: Mode = "hybrid",
    k: int = 10,
    max_k_grid: Sequence[int] = (1, 2, 3, 5, 8),
    rel_grid: Sequence[float] = (0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    min_score_grid: Sequence[float | None] = (None,),
    gap_ratio: float = 0.5,
    objective: str = "selection_f1",
    **search_options: Any,
) -> SelectionSweep:
    """Measure a grid of settings of a selection; each case is searched for once.

    Args:
        corpus: An open corpus, which stays open, or a name or path, which is opened and closed again.
        cases: The cases.
        strategy: The rule of all settings.
        mode: The mode of the searches.
        k: The number of candidates.
        max_k_grid: The values of `max_k`.
        rel_grid: The values of `rel`.
        min_score_grid: The floors; `None` for none.
        gap_ratio: The gap ratio of all settings.
        objective: The measure to optimize, one of `SWEEP_MEASURES`.
        **search_options: Further options of `airw.search`.

    Raises:
        ArgumentError: If a value cannot be used.
        CorpusNotFound: If there is no corpus of that name or at that path.

    Example:
        >>> import anyio
        >>> from airw.corpora import build
        >>> from airw.sources import from_mapping
        >>> from airw.stores import MemoryStore
        >>> async def main():
        ...     texts = {"a": "rotate the signing keys", "b": "keep the keys"}
        ...     async with build(from_mapping(texts, name="notes"), store=MemoryStore(), embedder="light") as corpus:
        ...         return await sweep_selection(corpus, [DiscoveryCase("signing keys", "a")], mode="lexical")
        >>> sweep = anyio.run(main)
        >>> len(sweep.points), str(sweep.best())
        (30, 'max_k=1 rel=0.9')
    """
    check_choice("objective", objective, SWEEP_MEASURES)
    candidates = await find_candidates(corpus, cases, mode=mode, k=k, **search_options)
    points = []
    for max_k, rel, min_score in product(max_k_grid, rel_grid, min_score_grid):
        score = partial(score_selection, strategy=strategy, max_k=max_k, rel=rel, gap_ratio=gap_ratio)
        report = await in_thread(partial(score, candidates, min_score=min_score))
        points.append(SelectionGridPoint(max_k, rel, min_score, replace(report, mode=mode, k=k)))
    return SelectionSweep(tuple(points), objective, strategy, mode, k)
