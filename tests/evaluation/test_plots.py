"""Pictures of evaluations."""

import sys

import pytest

from airw.errors import ArgumentError, SourceError
from airw.evaluation import FlatSearch, PolicyWalk, evaluate, plot_evaluations, plot_sweep, sweep_selection
from airw.policies import Beam
from tests.support.evaluation_corpus import CASES, small_corpus


@pytest.mark.slow
async def test_a_picture_shows_each_system(tmp_path):
    pytest.importorskip("matplotlib")
    async with small_corpus() as corpus:
        found = [await evaluate(corpus, CASES, system) for system in (FlatSearch(), PolicyWalk(Beam(), "beam"))]
        sweep = await sweep_selection(corpus, CASES)
    plot_evaluations(found, tmp_path / "curves.svg")
    plot_sweep(sweep, tmp_path / "sweep.png")
    assert (tmp_path / "curves.svg").read_text(encoding="utf-8").count("<!-- beam -->") == 3
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ArgumentError, match="cannot draw"):
        plot_sweep(sweep, tmp_path / "sweep.nonsense")
    with pytest.raises(SourceError, match="cannot write"):
        plot_sweep(sweep, tmp_path / "no" / "sweep.png")


def test_without_the_library_the_error_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ArgumentError, match=r"pip install 'airw\[plot\]'"):
        plot_evaluations([], tmp_path / "curves.svg")
