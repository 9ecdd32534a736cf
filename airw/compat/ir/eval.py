"""Cases with expected answers, and the calibration of floors."""

from collections.abc import Iterable, Sequence
from typing import Any

from airw import evaluation
from airw.compat._missing_names import explain_missing
from airw.compat._sync import run
from airw.compat.ir.index import to_airw
from airw.compat.ir.retrieve import to_airw_options
from airw.evaluation import DiscoveryCase as DiscoveryCase
from airw.evaluation import MinScoreCalibration as MinScoreCalibration
from airw.evaluation import load_cases as load_cases
from airw.evaluation import save_cases as save_cases

DFLT_MODE = "hybrid"
DFLT_CALIB_SENSITIVITY_WEIGHT = 0.5


def calibrate_min_score(
    corpus: Any,
    cases: Sequence[DiscoveryCase],
    *,
    mode: str = DFLT_MODE,
    k: int = 10,
    surfaces: Iterable[str] | None = None,
    sensitivity_weight: float = DFLT_CALIB_SENSITIVITY_WEIGHT,
    floor_grid: Sequence[float] | None = None,
    persist: bool = False,
    **search_kw: Any,
) -> MinScoreCalibration:
    """Return the best floor for searches; see `airw.evaluation.calibrate_min_score`.

    Raises:
        ArgumentError: If a parameter is not valid, or the floor cannot be stored.
    """
    settings = {"sensitivity_weight": sensitivity_weight, "floor_grid": floor_grid, "persist": persist}
    options: Any = {"mode": mode, "k": k, "surfaces": surfaces, **settings, **to_airw_options(corpus, search_kw)}
    return run(evaluation.calibrate_min_score, to_airw(corpus), cases, **options)


def load_calibration(corpus: Any, mode: str, **search_kw: Any) -> MinScoreCalibration | None:
    """Return the stored calibration of a mode, or `None` if there is none."""
    options: Any = to_airw_options(corpus, search_kw)
    return run(evaluation.load_calibration, to_airw(corpus), mode, **options)


__getattr__ = explain_missing(__name__, {"*": "airw.evaluation has cases and floors only"})
