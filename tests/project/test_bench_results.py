"""Rows are kept with their machine; a worsened row is reported; tables are printed."""

import json

import pytest

from tests.benchmarks.results import Results, load, load_machine, main, run_in_turn

QUESTION = "How fast is a walk?"
WORK = "walk, 10,000 nodes"


def measure(path, *, airw=(2.0, 2.2, 2.1), peer=(1.0, 1.0, 1.0), work=WORK, goal=3.5):
    Results(path).compare(QUESTION, work, {"airw": airw, "numpy": peer}, {"numpy": goal})
    return path


def compare(capsys, old, new) -> tuple[int, list[str]]:
    capsys.readouterr()
    status = main(["compare", str(old), str(new)])
    return status, capsys.readouterr().out.splitlines()


@pytest.fixture
def old(tmp_path):
    return measure(tmp_path / "old.json")


@pytest.fixture
def new(tmp_path):
    return tmp_path / "new.json"


def test_a_worsened_row_is_reported_and_is_the_exit_code(old, new, capsys):
    status, lines = compare(capsys, old, measure(new, airw=[4.0, 4.1, 4.2]))
    assert status == 1
    assert lines == [f"WORSE    {QUESTION} | {WORK} | numpy: 2 -> 4 (goal 3.5, missed)"]


def test_noise_within_the_old_rounds_is_no_regression(tmp_path, new, capsys):
    noisy = measure(tmp_path / "noisy.json", airw=[2.0, 2.9, 2.1])
    status, lines = compare(capsys, noisy, measure(new, airw=[2.8, 2.9, 3.0]))
    assert status == 0
    assert lines == [f"same     {QUESTION} | {WORK} | numpy: 2 -> 2.8"]


def test_a_small_change_is_no_regression(old, new, capsys):
    assert compare(capsys, old, measure(new, airw=[2.25, 2.3, 2.3]))[0] == 0


def test_what_is_better_new_or_missing_is_shown(old, new, capsys):
    measure(old, work="gone")
    measure(new, airw=[1.0, 1.1, 1.2])
    status, lines = compare(capsys, old, measure(new, work="added"))
    assert status == 0
    assert [line.split()[0] for line in lines] == ["better", "new", "missing"]


def test_an_amount_that_grew_is_a_regression(old, new, capsys):
    for path, rounds in ((old, [10, 11]), (new, [15, 16])):
        Results(path).amount("How much memory?", "searches", rounds, goal=12, unit="MB")
    status, lines = compare(capsys, old, new)
    assert status == 1
    assert lines[0] == "WORSE    How much memory? | searches: 10 -> 15 (goal 12, missed)"


def test_another_machine_is_named(old, new, capsys):
    content = json.loads(measure(new).read_text())
    content["machine"]["numpy"] = "0.1"
    new.write_text(json.dumps(content))
    status, lines = compare(capsys, old, new)
    assert status == 0
    assert lines[0] == f"machine  numpy: {load_machine(old)['numpy']} -> 0.1"


def test_a_later_run_replaces_the_rows_that_it_measured(old):
    measure(old, work="other")
    measure(old, airw=[3.0, 3.3, 3.6])
    assert [(row.work, row.value, row.low, row.high) for row in load(old)] == [
        (WORK, 3.0, 3.0, 3.6),
        ("other", 2.0, 2.0, 2.2),
    ]


def test_the_machine_is_kept_with_the_rows(old):
    assert {"system", "processor", "cores", "python", "sqlite", "numpy"} <= load_machine(old).keys()
    (row,) = load(old)
    assert row.date.count("-") == 2
    assert row.airw == 2.0
    assert row.unit == "ms"


def test_tables_are_printed_with_missed_goals(old, capsys):
    measure(old, work="walk, 64 nodes", airw=[4.0, 4.0, 4.0])
    Results(old).amount("How much memory?", "searches", [1234.5], goal=None, unit="MB")
    capsys.readouterr()
    assert main(["tables", str(old)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "",
        f"## {QUESTION}",
        "",
        "| work | peer | airw | the peer | airw / peer | all rounds | goal |",
        "|---|---|---|---|---|---|---|",
        "| walk, 10,000 nodes | numpy | 2 ms | 1 ms | 2 x | 2 to 2.2 | 3.5 |",
        "| walk, 64 nodes | numpy | 4 ms | 1 ms | 4 x | 4 to 4 | 3.5, missed |",
        "",
        "## How much memory?",
        "",
        "| work | peer | airw | the peer | airw / peer | all rounds | goal |",
        "|---|---|---|---|---|---|---|",
        "| searches |  | 1,234 MB |  |  | 1,234 to 1,234 |  |",
    ]


def test_ways_run_in_turn_and_may_measure_themselves():
    calls = []
    ways = {"airw": lambda: calls.append("airw"), "numpy": lambda: calls.append("numpy") or 0.5}
    figures = run_in_turn(ways, rounds=2)
    assert calls == ["airw", "numpy"] * 2
    assert figures["numpy"] == [500, 500]
    assert len(figures["airw"]) == 2
