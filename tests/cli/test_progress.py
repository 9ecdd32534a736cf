"""The progress of builds: counts and time left from the first second, lines in a pipe."""

import subprocess
import sys

import pytest

from airw.cli.progress import Estimate, ProgressLines, format_seconds
from airw.corpora import BuildProgress


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def test_counts_are_known_before_the_first_document_is_written():
    estimate = Estimate(Clock())
    assert estimate.describe(BuildProgress(total=1594)) == "0 of 1,594 documents read, 0%"
    assert estimate.describe(BuildProgress(read=256, total=1594)) == "256 of 1,594 documents read, 0%"


def test_the_time_left_follows_from_the_share_that_is_done():
    clock = Clock()
    estimate = Estimate(clock)
    estimate.describe(BuildProgress(total=1000))
    clock.now += 10
    told = estimate.describe(BuildProgress(read=200, embedded=100, total=1000))
    assert told == "100 of 1,000 documents, 100 of them new or changed, 10%, about 1:30 min left"


def test_reading_twice_and_finishing_are_told_and_do_not_count_for_the_time():
    clock = Clock()
    estimate = Estimate(clock)
    survey = estimate.describe(BuildProgress(read=10, total=40, stage="survey"))
    assert survey == "reading links: 10 of 40 documents"
    clock.now += 1000
    estimate.describe(BuildProgress(total=40))
    clock.now += 2
    told = estimate.describe(BuildProgress(read=40, unchanged=20, total=40))
    assert told == "20 of 40 documents, 0 of them new or changed, 50%, about 0:02 min left"
    assert estimate.describe(BuildProgress(added=40, total=40, stage="finish")) == (
        "finishing: 40 documents, 40 of them written"
    )


def test_without_a_total_only_counts_are_shown():
    clock = Clock()
    estimate = Estimate(clock)
    estimate.describe(BuildProgress(read=5))
    clock.now += 60
    assert estimate.describe(BuildProgress(read=9, embedded=5)) == "5 documents, 5 of them new or changed"


def test_lines_come_after_two_seconds_and_then_ever_more_seldom(capsys):
    clock = Clock()
    lines = ProgressLines(clock)
    seen = []
    for second in range(101):
        clock.now = 100.0 + second
        lines.show("notes", BuildProgress(read=second, embedded=second, total=1000))
        if told := capsys.readouterr().err:
            seen.append((second, told))
    assert [second for second, _ in seen] == [2, 7, 17, 47, 77]
    assert seen[1][1] == ("airw: notes: 7 of 1,000 documents, 7 of them new or changed, 1%, about 16:33 min left\n")


def test_a_short_build_in_a_pipe_prints_no_line(capsys):
    lines = ProgressLines()
    for number in range(50):
        lines.show("notes", BuildProgress(read=number, embedded=number, total=50))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00 min"), (59.6, "1:00 min"), (3599, "59:59 min"), (3600, "1:00 h")]
)
def test_durations(seconds, text):
    assert format_seconds(seconds) == text


@pytest.mark.slow
def test_a_terminal_shows_counts_and_time_left_and_no_bar_of_another_library(tmp_path):
    for number in range(400):
        (tmp_path / f"{number:04}.md").write_text(f"# Note {number}\n\nabout {number}\n", encoding="utf-8")
    command = f"'{sys.executable}' -m airw build '{tmp_path}' --embedder light --name many"
    spawn = "import pty, sys; sys.exit(pty.spawn(['bash', '-c', sys.argv[1]]))"
    done = subprocess.run(
        [sys.executable, "-c", spawn, command], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True
    )
    assert " of 400 documents" in done.stdout.decode()
    assert "%" in done.stdout.decode()


def test_smaller_problems_are_counted_with_an_example(tmp_path, output_of):
    (tmp_path / "a.md").write_text("[own](a.md) [too]({{ url }})\n", encoding="utf-8")
    told = output_of("build", tmp_path, "--name", "notes", "--embedder", "light")
    assert "2 smaller problems, whose documents are in the corpus all the same, such as a.md: the link" in told
    assert told.rstrip().endswith("; --verbose lists them")
