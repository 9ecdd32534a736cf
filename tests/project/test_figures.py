"""Pages that explain or compare have figures of the pages that a command prints."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("benchmarks.md", "benchmarks_servers.md", "quality.md")
PRINTED = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in SOURCES)


def rows_of(text: str) -> list[str]:
    """Return the rows of tables that contain a figure."""
    return re.findall(r"(?m)^\|.*\d\.\d.*\|$", text)


@pytest.mark.parametrize("page", ["comparison.md", "fusion.md", "graphs.md"])
def test_each_row_of_figures_stands_on_a_page_that_a_command_prints(page):
    rows = rows_of((ROOT / "docs" / page).read_text(encoding="utf-8"))
    assert rows
    assert set(rows) <= set(PRINTED.splitlines())


def test_each_figure_of_the_comparison_on_the_front_page_is_printed():
    rows = rows_of((ROOT / "README.md").read_text(encoding="utf-8"))
    figures = [figure for row in rows for figure in re.findall(r"\d+\.\d+", row)]
    assert len(figures) >= 6
    assert [figure for figure in figures if not re.search(rf"(?<![\d.]){re.escape(figure)}(?!\d)", PRINTED)] == []
