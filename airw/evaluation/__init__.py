"""Cases with known answers, measures of rankings, costs, comparisons, and floors.

`evaluate` asks a system all cases; `compare` sets several systems side by side. Floors say when to abstain.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.evaluation.abstention import (
        AbstentionReport as AbstentionReport,
        RiskCurve as RiskCurve,
        area_under_roc as area_under_roc,
        measure_abstention as measure_abstention,
        measure_risk as measure_risk,
        score_margin as score_margin,
        top_score as top_score,
    )
    from airw.evaluation.anytime import AnytimeCurve as AnytimeCurve, measure_anytime as measure_anytime
    from airw.evaluation.bootstrap import Interval as Interval, bootstrap_pairs as bootstrap_pairs
    from airw.evaluation.calibration import (
        MinScoreCalibration as MinScoreCalibration,
        calibrate_min_score as calibrate_min_score,
        load_calibration as load_calibration,
        separating_floor as separating_floor,
    )
    from airw.evaluation.cases import (
        DiscoveryCase as DiscoveryCase,
        load_cases as load_cases,
        read_case_meta as read_case_meta,
        save_cases as save_cases,
        to_qrels as to_qrels,
    )
    from airw.evaluation.comparing import Comparison as Comparison, compare as compare
    from airw.evaluation.datasets import (
        DataSet as DataSet,
        list_data_sets as list_data_sets,
        load_data_set as load_data_set,
    )
    from airw.evaluation.distractors import (
        DISTRACTOR_SIZES as DISTRACTOR_SIZES,
        measure_distractors as measure_distractors,
    )
    from airw.evaluation.evaluating import (
        DEFAULT_MEASURES as DEFAULT_MEASURES,
        evaluate as evaluate,
        find_missing_gold as find_missing_gold,
    )
    from airw.evaluation.evidence import EvidenceSignal as EvidenceSignal, measure_evidence as measure_evidence
    from airw.evaluation.generating import (
        ABSTENTION_PROMPT as ABSTENTION_PROMPT,
        NAME_PLACEHOLDER as NAME_PLACEHOLDER,
        QUERY_PROMPT as QUERY_PROMPT,
        GeneratedCases as GeneratedCases,
        contains_name as contains_name,
        describe_artifact as describe_artifact,
        generate_abstention_cases as generate_abstention_cases,
        generate_case_set as generate_case_set,
        generate_cases as generate_cases,
        make_abstention_writer as make_abstention_writer,
        make_query_writer as make_query_writer,
        mask_name as mask_name,
        sign_corpus as sign_corpus,
    )
    from airw.evaluation.measures import (
        MEASURES as MEASURES,
        Measure as Measure,
        all_gold as all_gold,
        average_precision as average_precision,
        ndcg as ndcg,
        parse_measures as parse_measures,
        precision as precision,
        recall as recall,
        reciprocal_rank as reciprocal_rank,
        success as success,
    )
    from airw.evaluation.metering import COST_COLUMNS as COST_COLUMNS, Arrival as Arrival, Cost as Cost, Meter as Meter
    from airw.evaluation.promoting import Promotion as Promotion, promote as promote
    from airw.evaluation.rows import (
        Evaluation as Evaluation,
        QueryRow as QueryRow,
        tabulate_evaluations as tabulate_evaluations,
    )
    from airw.evaluation.selection import (
        Candidates as Candidates,
        SelectionReport as SelectionReport,
        evaluate_selection as evaluate_selection,
        find_candidates as find_candidates,
        score_selection as score_selection,
        tabulate_selections as tabulate_selections,
    )
    from airw.evaluation.sweeping import (
        SWEEP_MEASURES as SWEEP_MEASURES,
        SelectionGridPoint as SelectionGridPoint,
        SelectionSweep as SelectionSweep,
        sweep_selection as sweep_selection,
    )
    from airw.evaluation.systems import FlatSearch as FlatSearch, PolicyWalk as PolicyWalk, System as System
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
