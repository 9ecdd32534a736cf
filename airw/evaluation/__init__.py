"""Test cases with known answers, and the calibration of floors.

A floor is the score below which a search should abstain. Calibration compares the best scores of queries with an answer
and of queries without one.
"""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.evaluation.calibration import MinScoreCalibration, calibrate_min_score, load_calibration, separating_floor
    from airw.evaluation.cases import DiscoveryCase, load_cases, save_cases
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "calibration": ["MinScoreCalibration", "calibrate_min_score", "load_calibration", "separating_floor"],
            "cases": ["DiscoveryCase", "load_cases", "save_cases"],
        },
    )

__all__ = [
    "DiscoveryCase",
    "MinScoreCalibration",
    "calibrate_min_score",
    "load_calibration",
    "load_cases",
    "save_cases",
    "separating_floor",
]
