"""Anytime curves: how much was found after so many reads, or after so much time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from airw._base.checks import check_choice, check_number
from airw.errors import ArgumentError
from airw.evaluation.metering import Arrival
from airw.evaluation.rows import Evaluation, QueryRow

Progress: TypeAlias = Literal["hits", "reads", "ms"]
"""What an anytime curve counts: hits that arrived, records read from the store, or milliseconds."""

_PROGRESS: tuple[Progress, ...] = ("hits", "reads", "ms")
_MOST_POINTS = 51


@dataclass(frozen=True, slots=True)
class AnytimeCurve:
    """The mean recall of a system as hits arrive.

    Args:
        label: The name of the system.
        by: What `at` counts.
        at: The points, ascending.
        recall: The mean recall of the hits that arrived until each point.

    Example:
        >>> AnytimeCurve("beam", "hits", (1.0, 2.0), (0.4, 0.6)).to_dict()["recall"]
        [0.4, 0.6]
    """

    label: str
    by: Progress
    at: tuple[float, ...]
    recall: tuple[float, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"system": self.label, "by": self.by, "at": list(self.at), "recall": list(self.recall)}


def measure_anytime(
    evaluation: Evaluation, *, by: Progress = "reads", at: Sequence[float] | None = None
) -> AnytimeCurve:
    """Return the recall after so many hits, reads or milliseconds, as a mean over queries.

    Hits count when they arrive, whatever their place in the final ranking. So the curve shows what a user gets who
    stops early. A search, whose hits arrive together, is a step.

    Args:
        evaluation: The results of a system.
        by: What to count: `"hits"`, `"reads"` or `"ms"`.
        at: The points; by default up to 51 from 0 to the largest number that occurs.

    Raises:
        ArgumentError: If a value cannot be used.

    Example:
        >>> from airw.evaluation import DiscoveryCase
        >>> arrivals = (Arrival("x", 3, 1.5), Arrival("a", 6, 2.5))
        >>> row = QueryRow(DiscoveryCase("keys", ["a", "b"]), ("a", "x"), arrivals=arrivals)
        >>> measure_anytime(Evaluation("beam", (row,)), by="reads", at=[0, 3, 6]).recall
        (0.0, 0.0, 0.5)
    """
    check_choice("by", by, _PROGRESS)
    rows = evaluation.gold_rows
    pairs = [(place, 1 / len(set(row.case.gold)) / len(rows)) for row in rows for place in _places(row, by)]
    events = np.array(sorted(pairs), np.float64).reshape(-1, 2)
    if at is None:
        last = max(
            (_place(arrival, index, by) for row in rows for index, arrival in enumerate(row.arrivals)), default=0
        )
        points = np.linspace(0, last, _MOST_POINTS) if by == "ms" or last >= _MOST_POINTS else np.arange(last + 1)
    else:
        points = np.array([check_number("a point of at", point, least=0) for point in at], np.float64)
        if np.any(np.diff(points) < 0):
            raise ArgumentError("at must ascend")
    found = np.concatenate([[0.0], np.cumsum(events[:, 1])])[np.searchsorted(events[:, 0], points, side="right")]
    return AnytimeCurve(evaluation.label, by, tuple(map(float, points)), tuple(map(float, found)))


def _places(row: QueryRow, by: Progress) -> list[float]:
    """Return where each answer of a case arrives first."""
    first: dict[str, float] = {}
    for index, arrival in enumerate(row.arrivals):
        if arrival.artifact_id in row.case.gold:
            first.setdefault(arrival.artifact_id, _place(arrival, index, by))
    return list(first.values())


def _place(arrival: Arrival, index: int, by: Progress) -> float:
    return {"hits": index + 1, "reads": arrival.reads, "ms": arrival.ms}[by]
