"""The rows of the benchmark of editions run, and its table shows what was measured."""

import gzip
import json
import subprocess

import pytest

from tests.benchmarks.editions.__main__ import find_gap, format_figure, format_row, run
from tests.benchmarks.editions.measuring import ROOT, Comparison, EditionError, compare_program, unpack_edition
from tests.benchmarks.editions.rows import FIRST, IR, NEW, PROGRAMS, Measured, Setting

TINY = 0.001
QUICK = {"ir", "tree", "hub", "wikispeedia"}
BOTH = {NEW: ROOT, FIRST: ROOT}


@pytest.fixture
def pages(tmp_path, monkeypatch):
    """A folder of data sets with a few pages that link to each other."""
    folder = tmp_path / "data" / "wikispeedia"
    folder.mkdir(parents=True)
    made = [{"id": f"p{at}", "text": f"page {at} of keys", "links": [f"p{at * 7 % 20}"]} for at in range(20)]
    with gzip.open(folder / "corpus.jsonl.gz", "wt", encoding="utf-8") as lines:
        lines.writelines(json.dumps(page) + "\n" for page in made)
    (folder / "queries.jsonl").write_text(json.dumps({"text": "keys of page 3"}) + "\n", encoding="utf-8")
    monkeypatch.setenv("AIRW_DATA", str(folder.parent))


@pytest.mark.slow
@pytest.mark.asyncio_only
@pytest.mark.usefixtures("pages")
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in PROGRAMS]
)
async def test_each_row_gives_an_answer_and_the_same_one_again(name, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for new processes
    async with PROGRAMS[name].prepare(Setting(NEW, tmp_path, TINY)) as rows:
        assert len({row.name for row in rows}) == len(rows) > 0
        for row in rows:
            first, again = [await row.run(0) for _ in range(2)]
            if isinstance(first, Measured):
                assert first.figure > 0
                first, again = first.answer, again.answer
            assert first, row.name
            assert first == again, row.name


@pytest.mark.asyncio_only
async def test_the_peer_walks_the_same_nodes(tmp_path):
    answers = {}
    for edition in (NEW, IR):
        async with PROGRAMS["ir"].prepare(Setting(edition, tmp_path, TINY)) as rows:
            answers[edition] = {row.name: await row.run(0) for row in rows}
    assert answers[NEW] == answers[IR]


@pytest.mark.slow
def test_editions_run_in_processes_of_their_own_in_the_same_rounds(tmp_path):
    rows = list(compare_program("ir", {**BOTH, IR: ROOT}, tmp_path, scale=TINY, rounds=2))
    assert len(rows) == 5
    for row in rows:
        assert {edition: len(figures) for edition, figures in row.figures.items()} == {NEW: 2, FIRST: 2, IR: 2}
        differing, turns = row.differing
        assert differing == 0 < turns


@pytest.mark.slow
def test_a_library_from_elsewhere_is_no_edition(tmp_path):
    with pytest.raises(EditionError, match="first edition: airw comes from"):
        list(compare_program("ir", {NEW: ROOT, FIRST: tmp_path}, tmp_path, scale=TINY, rounds=1))


def test_a_clone_without_the_first_edition_is_told_what_to_do(tmp_path):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    with pytest.raises(EditionError, match="git fetch --unshallow"):
        unpack_edition(root=tmp_path)
    assert not (tmp_path / "build").exists()


def test_a_row_shows_the_median_ratio_of_the_rounds():
    # The machine was busy in the last two rounds: each ratio is still one of two editions at the same time.
    figures = {NEW: [0.002, 0.004, 0.02], FIRST: [0.001, 0.002, 0.01]}
    row = Comparison("walk of 64", "s", figures, (0, 9))
    assert row.ratio(NEW, FIRST) == 2
    assert " ".join(format_row(row).split()) == "walk of 64 4.00 ms 2.00 ms 2.00 2.00 to 2.00"


def test_a_row_shows_that_answers_differ_and_what_a_peer_takes():
    row = Comparison("walk of 8", "s", {NEW: [0.3], FIRST: [0.2], IR: [0.1]}, (2, 9))
    line, beside = format_row(row).splitlines()
    assert line.endswith("ANSWERS DIFFER in 2 of 9 turns")
    assert beside.strip() == "ir: 100 ms; new / ir 3.00, first / ir 2.00"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(2.5, "s", "2.50 s"), (0.1, "s", "100 ms"), (0.00042, "s", "420 us"), (51.26, "MB", "51.3 MB")],
)
def test_figures_have_three_digits(value, unit, text):
    assert format_figure(value, unit) == text


def test_rows_without_their_data_set_are_left_out_and_the_table_says_so(monkeypatch, capsys):
    monkeypatch.delenv("AIRW_DATA", raising=False)
    assert find_gap("search") is None
    assert run(["wikispeedia"], BOTH, TINY, 1) == 0
    assert "wikispeedia: left out, AIRW_DATA names no folder with wikispeedia" in capsys.readouterr().out
