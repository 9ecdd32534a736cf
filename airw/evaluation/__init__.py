"""Cases with known answers, and what they tell of a corpus: from which score on a search is worth answering."""

from typing import TYPE_CHECKING

from airw._base.lazy import lazy_names

if TYPE_CHECKING:
    from airw.evaluation.calibration import calibrate_min_score, load_calibration
    from airw.evaluation.cases import DiscoveryCase, load_cases, save_cases
    from airw.evaluation.floors import MinScoreCalibration, separating_floor
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "calibration": ["calibrate_min_score", "load_calibration"],
            "cases": ["DiscoveryCase", "load_cases", "save_cases"],
            "floors": ["MinScoreCalibration", "separating_floor"],
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
