"""The results of an evaluation: a row for each query, and their means."""

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from airw._base.checks import check_count
from airw.errors import ArgumentError
from airw.evaluation.cases import DiscoveryCase
from airw.evaluation.measures import Measure
from airw.evaluation.metering import COST_COLUMNS, Arrival, Cost
from airw.evaluation.tables import format_number, format_table

FailureClass: TypeAlias = Literal[
    "hit_rank_1", "surfaced_low_rank", "retrieval_miss", "abstention_ok", "false_action", "abstention_unscored"
]


@dataclass(frozen=True, slots=True)
class QueryRow:
    """What a system returned for one case, and what it cost.

    Args:
        case: The case.
        ranking: The ids of the artifacts, best first, without duplicates.
        scores: Their scores.
        cost: The cost.
        arrivals: The hits in the order in which they arrived.

    Example:
        >>> row = QueryRow(DiscoveryCase("keys", "a"), ("x", "a"), (0.9, 0.8))
        >>> row.measure(Measure.parse("mrr")), row.classify(), row.top_score
        (0.5, 'surfaced_low_rank', 0.9)
    """

    case: DiscoveryCase
    ranking: tuple[str, ...]
    scores: tuple[float, ...] = ()
    cost: Cost = field(default_factory=Cost)
    arrivals: tuple[Arrival, ...] = field(default=(), repr=False)

    @property
    def top_score(self) -> float | None:
        """Return the score of the first artifact; `None` without one."""
        return self.scores[0] if self.scores else None

    def measure(self, measure: Measure) -> float:
        """Return the value of a measure."""
        return measure(self.ranking, dict.fromkeys(self.case.gold, 1.0))

    def classify(self, k: int = 10, floor: float | None = None) -> FailureClass:
        """Return what became of the case.

        - `hit_rank_1`: the first artifact is an answer.
        - `surfaced_low_rank`: the first answer is at rank 2 to `k`.
        - `retrieval_miss`: no answer is among the first `k`.

        A case without an answer has one of these:

        - `abstention_ok`: nothing was found, or the best score is below the floor.
        - `false_action`: the best score reaches the floor.
        - `abstention_unscored`: there is no floor.
        """
        if not self.case.gold_is_none:
            rank = next((rank for rank, id in enumerate(self.ranking[:k], 1) if id in self.case.gold), None)
            return "retrieval_miss" if rank is None else "hit_rank_1" if rank == 1 else "surfaced_low_rank"
        if floor is None:
            return "abstention_unscored"
        return "false_action" if self.top_score is not None and self.top_score >= floor else "abstention_ok"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The results of one system for a set of cases.

    Cases without an answer count in `failure_classes` only; all means are over the cases with an answer.

    Args:
        label: The name of the system.
        rows: One row per case, in the order of the cases.
        measures: The measures to report.
        corpus_name: The name of the corpus.

    Example:
        >>> rows = [QueryRow(DiscoveryCase("keys", "a"), ("x", "a")), QueryRow(DiscoveryCase("Rome"), ("x",))]
        >>> evaluation = Evaluation("flat", tuple(rows), (Measure("mrr"), Measure("recall", 1)))
        >>> evaluation.means(), evaluation.failure_classes(floor=0.5)
        ({'mrr': 0.5, 'recall@1': 0.0}, {'surfaced_low_rank': 1, 'abstention_ok': 1})
    """

    label: str
    rows: tuple[QueryRow, ...] = field(repr=False)
    measures: tuple[Measure, ...] = (Measure("ndcg", 10),)
    corpus_name: str = ""

    @property
    def gold_rows(self) -> tuple[QueryRow, ...]:
        """Return the rows of the cases with an answer."""
        return tuple(row for row in self.rows if not row.case.gold_is_none)

    @property
    def n_gold(self) -> int:
        """Return the number of cases with an answer."""
        return len(self.gold_rows)

    @property
    def n_abstention(self) -> int:
        """Return the number of cases without an answer."""
        return len(self.rows) - self.n_gold

    def values(self, measure: Measure | str) -> list[float]:
        """Return the value of a measure for each case with an answer, in the order of the cases.

        Raises:
            ArgumentError: If a text is no measure.
        """
        parsed = Measure.parse(measure) if isinstance(measure, str) else measure
        return [row.measure(parsed) for row in self.gold_rows]

    def groups(self) -> list[str]:
        """Return the group of each case with an answer: its `source_id`, or else its query."""
        return [row.case.source_id or row.case.query for row in self.gold_rows]

    def means(self) -> dict[str, float]:
        """Return the mean of each measure; empty if no case has an answer."""
        return {str(each): statistics.fmean(self.values(each)) for each in self.measures if self.n_gold}

    def costs(self) -> dict[str, float | None]:
        """Return the cost of a query: the mean of each count, and the median of each time.

        A median is not moved by a first query that loads a model. All cases count.
        """
        return {name: _typical(name, [getattr(row.cost, name) for row in self.rows]) for name in COST_COLUMNS}

    def failure_classes(self, k: int = 10, floor: float | None = None) -> dict[str, int]:
        """Return how many cases are in each class of `QueryRow.classify`, the largest first.

        Raises:
            ArgumentError: If `k` is not a whole number of at least 1.
        """
        check_count("k", k, least=1)
        return dict(Counter(row.classify(k, floor) for row in self.rows).most_common())

    def abstention_accuracy(self, floor: float) -> float | None:
        """Return the share of cases without an answer whose best score is below a floor.

        It is `None` if all cases have an answer.
        """
        return self.failure_classes(1, floor).get("abstention_ok", 0) / self.n_abstention if self.n_abstention else None

    def per_query(self) -> list[dict[str, Any]]:
        """Return one dict per case: query, gold, ranking, measures and cost."""
        return [
            {
                "query": row.case.query,
                "gold": list(row.case.gold),
                "ranking": list(row.ranking),
                "top_score": row.top_score,
                "class": row.classify(),
                **({} if row.case.gold_is_none else {str(each): row.measure(each) for each in self.measures}),
                **row.cost.to_dict(),
            }
            for row in self.rows
        ]

    def to_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Return the results as JSON values; with `rows`, also those of each query."""
        return {
            "system": self.label,
            "corpus": self.corpus_name,
            "n_gold": self.n_gold,
            "n_abstention": self.n_abstention,
            "measures": self.means(),
            "costs": self.costs(),
            "classes": self.failure_classes(),
            **({"rows": self.per_query()} if rows else {}),
        }

    def __str__(self) -> str:
        classes = ", ".join(f"{name} {count}" for name, count in self.failure_classes().items())
        return (
            f"{self.label}: {self.n_gold} cases with an answer, {self.n_abstention} without\n"
            f"{tabulate_evaluations([self])}\n{classes}"
        )


def _typical(column: str, values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return statistics.median(known) if column.endswith("_ms") else statistics.fmean(known)


def tabulate_evaluations(
    evaluations: Sequence[Evaluation], *, more: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> str:
    """Return a table with a row per system: its mean measures, then the cost of a query.

    Args:
        evaluations: The results of the systems.
        more: Further columns after the measures: the cell of each system, by the header of the column.

    Example:
        >>> row = QueryRow(DiscoveryCase("keys", "a"), ("x", "a"), cost=Cost(3, 2, 2, 0, 1.0, 1.0))
        >>> print(tabulate_evaluations([Evaluation("flat", (row,), (Measure("mrr"),))]))
        system    mrr  calls  nodes  texts  cosines  first ms  last ms
        flat    0.500    3.0    2.0    2.0      0.0       1.0      1.0

    Raises:
        ArgumentError: If the evaluations have different measures.
    """
    names = list(map(str, evaluations[0].measures)) if evaluations else []
    if any(list(map(str, each.measures)) != names for each in evaluations):
        raise ArgumentError("the evaluations of one table must have the same measures")
    costs = [name.replace("_", " ") for name in COST_COLUMNS]
    rows = [
        [*_measure_cells(each, names), *(cells[index] for cells in more.values()), *_cost_cells(each)]
        for index, each in enumerate(evaluations)
    ]
    return format_table(["system", *names, *more, *costs], rows)


def _measure_cells(evaluation: Evaluation, names: Sequence[str]) -> list[str]:
    means = evaluation.means()
    return [evaluation.label, *(format_number(means.get(name)) for name in names)]


def _cost_cells(evaluation: Evaluation) -> list[str]:
    costs = evaluation.costs()
    return [format_number(costs[name], 1) for name in COST_COLUMNS]
