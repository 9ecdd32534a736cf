"""Cases with known answers, and what they tell of a corpus: from which score on a search is worth answering."""

from airw.evaluation.calibration import calibrate_min_score, load_calibration
from airw.evaluation.cases import DiscoveryCase, load_cases, save_cases
from airw.evaluation.floors import MinScoreCalibration, separating_floor

__all__ = [
    "DiscoveryCase",
    "MinScoreCalibration",
    "calibrate_min_score",
    "load_calibration",
    "load_cases",
    "save_cases",
    "separating_floor",
]
