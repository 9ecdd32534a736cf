"""Cases with known answers, and floors."""

from collections.abc import Iterable, Sequence
from typing import Any

from airw import evaluation
from airw.compat._missing import missing
from airw.compat._sync import run
from airw.compat.ir.index import opened
from airw.compat.ir.retrieve import tuned
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
    """Find the score from which on a search is worth answering; see `airw.evaluation.calibrate_min_score`.

    Raises:
        ArgumentError: A parameter's value cannot be used, or the floor cannot be kept.
    """
    how = {"sensitivity_weight": sensitivity_weight, "floor_grid": floor_grid, "persist": persist}
    options: Any = {"mode": mode, "k": k, "surfaces": surfaces, **how, **tuned(corpus, search_kw)}
    return run(evaluation.calibrate_min_score, opened(corpus), cases, **options)


def load_calibration(corpus: Any, mode: str, **search_kw: Any) -> MinScoreCalibration | None:
    """Return the calibration that a corpus keeps for a mode; `None` where there is none."""
    options: Any = tuned(corpus, search_kw)
    return run(evaluation.load_calibration, opened(corpus), mode, **options)


__getattr__ = missing(__name__, {"*": "airw.evaluation has cases and floors, and measures nothing else yet"})
