"""Pictures of evaluations, drawn with matplotlib (the extra `plot`)."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from airw.errors import ArgumentError, SourceError
from airw.evaluation.abstention import measure_abstention
from airw.evaluation.anytime import measure_anytime
from airw.evaluation.rows import Evaluation
from airw.evaluation.sweeping import SelectionSweep


def plot_evaluations(evaluations: Sequence[Evaluation], file: str | os.PathLike[str]) -> None:
    """Draw anytime curves and risk-coverage curves of several systems.

    This call blocks: use a worker thread in async code.

    Args:
        evaluations: The results of the systems.
        file: The picture; its suffix decides the format, such as `.svg` or `.png`.

    Raises:
        ArgumentError: If matplotlib is not installed, or does not know the format.
        SourceError: If the file cannot be written.
    """

    def draw(axes: Sequence[Any]) -> None:
        for evaluation in evaluations:
            for axis, by in zip(axes, ("reads", "ms"), strict=False):
                curve = measure_anytime(evaluation, by=by)  # type: ignore[arg-type] # both are names of a progress
                axis.step(curve.at, curve.recall, where="post", label=evaluation.label)
            risk = measure_abstention(evaluation).curve if evaluation.rows else None
            if risk is not None:
                axes[2].plot(risk.coverage, risk.risk, label=evaluation.label)
        _name_axes(axes[0], "records read", "recall of what arrived")
        _name_axes(axes[1], "milliseconds", "recall of what arrived")
        _name_axes(axes[2], "share answered", "share of wrong answers")

    _save(file, 3, draw)


def plot_sweep(sweep: SelectionSweep, file: str | os.PathLike[str]) -> None:
    """Draw the precision and the recall of each setting of a sweep.

    This call blocks: use a worker thread in async code.

    Args:
        sweep: The sweep.
        file: The picture; its suffix decides the format, such as `.svg` or `.png`.

    Raises:
        ArgumentError: If matplotlib is not installed, or does not know the format.
        SourceError: If the file cannot be written.
    """

    def draw(axes: Sequence[Any]) -> None:
        for points, style, label in ((sweep.points, "o", "settings"), (sweep.frontier(), "-", "none is better")):
            pairs = [(point.report.selection_recall, point.report.selection_precision) for point in points]
            known = [pair for pair in pairs if None not in pair]
            if known:
                axes[0].plot(*zip(*known, strict=True), style, label=label)
        _name_axes(axes[0], "recall", "precision")

    _save(file, 1, draw)


def _name_axes(axis: Any, x: str, y: str) -> None:
    axis.set(xlabel=x, ylabel=y, ylim=(-0.02, 1.02))
    if axis.get_legend_handles_labels()[0]:
        axis.legend()


def _save(file: str | os.PathLike[str], count: int, draw: Callable[[Sequence[Any]], None]) -> None:
    """Draw a row of axes and write the picture."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ArgumentError("pictures need matplotlib: pip install 'airw[plot]'") from error
    # A figure without pyplot keeps no state between calls, and needs no screen.
    figure = Figure(figsize=(5 * count, 4), layout="constrained")
    draw([figure.add_subplot(1, count, place) for place in range(1, count + 1)])
    try:
        figure.savefig(Path(file))
    except ValueError as error:
        raise ArgumentError(f"cannot draw {str(file)!r}: {error}") from error
    except OSError as error:
        raise SourceError(f"cannot write {str(file)!r}: {error}") from error
