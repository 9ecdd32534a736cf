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
    from airw.evaluation.cases import DiscoveryCase, load_cases, read_case_meta, save_cases, to_qrels
    from airw.evaluation.comparing import Comparison, compare
    from airw.evaluation.datasets import DataSet, list_data_sets, load_data_set
    from airw.evaluation.distractors import DISTRACTOR_SIZES, measure_distractors
    from airw.evaluation.evaluating import DEFAULT_MEASURES, evaluate, find_missing_gold
    from airw.evaluation.evidence import EvidenceSignal, measure_evidence
    from airw.evaluation.generating import (
        ABSTENTION_PROMPT,
        NAME_PLACEHOLDER,
        QUERY_PROMPT,
        GeneratedCases,
        contains_name,
        describe_artifact,
        generate_abstention_cases,
        generate_case_set,
        generate_cases,
        make_abstention_writer,
        make_query_writer,
        mask_name,
        sign_corpus,
    )
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
    from airw.evaluation.selection import (
        Candidates,
        SelectionReport,
        evaluate_selection,
        find_candidates,
        score_selection,
        tabulate_selections,
    )
    from airw.evaluation.sweeping import SWEEP_MEASURES, SelectionGridPoint, SelectionSweep, sweep_selection
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
            "cases": ["DiscoveryCase", "load_cases", "read_case_meta", "save_cases", "to_qrels"],
            "comparing": ["Comparison", "compare"],
            "datasets": ["DataSet", "list_data_sets", "load_data_set"],
            "distractors": ["DISTRACTOR_SIZES", "measure_distractors"],
            "evaluating": ["DEFAULT_MEASURES", "evaluate", "find_missing_gold"],
            "evidence": ["EvidenceSignal", "measure_evidence"],
            "generating": [
                "ABSTENTION_PROMPT",
                "GeneratedCases",
                "NAME_PLACEHOLDER",
                "QUERY_PROMPT",
                "contains_name",
                "describe_artifact",
                "generate_abstention_cases",
                "generate_case_set",
                "generate_cases",
                "make_abstention_writer",
                "make_query_writer",
                "mask_name",
                "sign_corpus",
            ],
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
            "selection": [
                "Candidates",
                "SelectionReport",
                "evaluate_selection",
                "find_candidates",
                "score_selection",
                "tabulate_selections",
            ],
            "sweeping": ["SWEEP_MEASURES", "SelectionGridPoint", "SelectionSweep", "sweep_selection"],
            "systems": ["FlatSearch", "PolicyWalk", "System"],
        },
    )

__all__ = [
    "ABSTENTION_PROMPT",
    "COST_COLUMNS",
    "DEFAULT_MEASURES",
    "DISTRACTOR_SIZES",
    "MEASURES",
    "NAME_PLACEHOLDER",
    "QUERY_PROMPT",
    "SWEEP_MEASURES",
    "AbstentionReport",
    "AnytimeCurve",
    "Arrival",
    "Candidates",
    "Comparison",
    "Cost",
    "DataSet",
    "DiscoveryCase",
    "Evaluation",
    "EvidenceSignal",
    "FlatSearch",
    "GeneratedCases",
    "Interval",
    "Measure",
    "Meter",
    "MinScoreCalibration",
    "PolicyWalk",
    "Promotion",
    "QueryRow",
    "RiskCurve",
    "SelectionGridPoint",
    "SelectionReport",
    "SelectionSweep",
    "System",
    "all_gold",
    "area_under_roc",
    "average_precision",
    "bootstrap_pairs",
    "calibrate_min_score",
    "compare",
    "contains_name",
    "describe_artifact",
    "evaluate",
    "evaluate_selection",
    "find_candidates",
    "find_missing_gold",
    "generate_abstention_cases",
    "generate_case_set",
    "generate_cases",
    "list_data_sets",
    "load_calibration",
    "load_cases",
    "load_data_set",
    "make_abstention_writer",
    "make_query_writer",
    "mask_name",
    "measure_abstention",
    "measure_anytime",
    "measure_distractors",
    "measure_evidence",
    "measure_risk",
    "ndcg",
    "parse_measures",
    "precision",
    "promote",
    "read_case_meta",
    "recall",
    "reciprocal_rank",
    "save_cases",
    "score_margin",
    "score_selection",
    "separating_floor",
    "sign_corpus",
    "success",
    "sweep_selection",
    "tabulate_evaluations",
    "tabulate_selections",
    "to_qrels",
    "top_score",
]
