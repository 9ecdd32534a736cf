"""Cases with known answers, measures of rankings, costs, comparisons, and floors.

`evaluate` asks a system all cases; `compare` sets several systems side by side. Floors say when to abstain.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.evaluation.abstention import (
        AbstentionReport,
        RiskCurve,
        area_under_roc,
        measure_abstention,
        measure_risk,
        score_margin,
        top_score,
    )
    from airw.evaluation.anytime import AnytimeCurve, measure_anytime
    from airw.evaluation.bootstrap import Interval, bootstrap_pairs
    from airw.evaluation.calibration import MinScoreCalibration, calibrate_min_score, load_calibration, separating_floor
    from airw.evaluation.cases import DiscoveryCase, load_cases, save_cases, to_qrels
    from airw.evaluation.comparing import Comparison, compare
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
    from airw.evaluation.promoting import Promotion, promote
    from airw.evaluation.rows import Evaluation, QueryRow, tabulate_evaluations
    from airw.evaluation.systems import FlatSearch, PolicyWalk, System
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "abstention": [
                "AbstentionReport",
                "RiskCurve",
                "area_under_roc",
                "measure_abstention",
                "measure_risk",
                "score_margin",
                "top_score",
            ],
            "anytime": ["AnytimeCurve", "measure_anytime"],
            "bootstrap": ["Interval", "bootstrap_pairs"],
            "calibration": ["MinScoreCalibration", "calibrate_min_score", "load_calibration", "separating_floor"],
            "cases": ["DiscoveryCase", "load_cases", "save_cases", "to_qrels"],
            "comparing": ["Comparison", "compare"],
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
            "promoting": ["Promotion", "promote"],
            "rows": ["Evaluation", "QueryRow", "tabulate_evaluations"],
            "systems": ["FlatSearch", "PolicyWalk", "System"],
        },
    )

__all__ = [
    "COST_COLUMNS",
    "DEFAULT_MEASURES",
    "MEASURES",
    "AbstentionReport",
    "AnytimeCurve",
    "Arrival",
    "Comparison",
    "Cost",
    "DiscoveryCase",
    "Evaluation",
    "FlatSearch",
    "Interval",
    "Measure",
    "Meter",
    "MinScoreCalibration",
    "PolicyWalk",
    "Promotion",
    "QueryRow",
    "RiskCurve",
    "System",
    "all_gold",
    "area_under_roc",
    "average_precision",
    "bootstrap_pairs",
    "calibrate_min_score",
    "compare",
    "evaluate",
    "find_missing_gold",
    "load_calibration",
    "load_cases",
    "measure_abstention",
    "measure_anytime",
    "measure_risk",
    "ndcg",
    "parse_measures",
    "precision",
    "promote",
    "recall",
    "reciprocal_rank",
    "save_cases",
    "score_margin",
    "separating_floor",
    "success",
    "tabulate_evaluations",
    "to_qrels",
    "top_score",
]
