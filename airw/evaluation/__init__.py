"""Cases with known answers, measures of rankings, costs, comparisons, and floors.

`evaluate` asks a system all cases; `compare` sets several systems side by side. Floors say when to abstain.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.evaluation.calibration import MinScoreCalibration, calibrate_min_score, load_calibration, separating_floor
    from airw.evaluation.cases import DiscoveryCase, load_cases, save_cases, to_qrels
    from airw.evaluation.evaluating import DEFAULT_MEASURES, evaluate, find_missing_gold
    from airw.evaluation.measures import (
        MEASURES,
        Measure,
        all_gold,
        average_precision,
        ndcg,
        parse_measures,
        precision,
        recall,
        reciprocal_rank,
        success,
    )
    from airw.evaluation.metering import COST_COLUMNS, Arrival, Cost, Meter
    from airw.evaluation.rows import Evaluation, QueryRow, tabulate_evaluations
    from airw.evaluation.systems import FlatSearch, PolicyWalk, System
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "calibration": ["MinScoreCalibration", "calibrate_min_score", "load_calibration", "separating_floor"],
            "cases": ["DiscoveryCase", "load_cases", "save_cases", "to_qrels"],
            "evaluating": ["DEFAULT_MEASURES", "evaluate", "find_missing_gold"],
            "measures": [
                "MEASURES",
                "Measure",
                "all_gold",
                "average_precision",
                "ndcg",
                "parse_measures",
                "precision",
                "recall",
                "reciprocal_rank",
                "success",
            ],
            "metering": ["Arrival", "COST_COLUMNS", "Cost", "Meter"],
            "rows": ["Evaluation", "QueryRow", "tabulate_evaluations"],
            "systems": ["FlatSearch", "PolicyWalk", "System"],
        },
    )

__all__ = [
    "COST_COLUMNS",
    "DEFAULT_MEASURES",
    "MEASURES",
    "Arrival",
    "Cost",
    "DiscoveryCase",
    "Evaluation",
    "FlatSearch",
    "Measure",
    "Meter",
    "MinScoreCalibration",
    "PolicyWalk",
    "QueryRow",
    "System",
    "all_gold",
    "average_precision",
    "calibrate_min_score",
    "evaluate",
    "find_missing_gold",
    "load_calibration",
    "load_cases",
    "ndcg",
    "parse_measures",
    "precision",
    "recall",
    "reciprocal_rank",
    "save_cases",
    "separating_floor",
    "success",
    "tabulate_evaluations",
    "to_qrels",
]
