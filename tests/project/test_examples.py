"""The examples and the demo run as printed."""

import os
import re
import shlex
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from airw.cli import main
from tests.support.postgres import server_dsn

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
LONGEST = {"own_store.py": 121}


@cache
def run_example(name):
    """Run an example, once for all tests of its output."""
    command = [sys.executable, ROOT / "examples" / name]
    environment = {**os.environ, "AIRW_STORE": server_dsn()} if name.startswith("postgres") else None
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=environment)


@pytest.mark.slow  # README.md, which runs in a quick run, contains the first of them
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_runs_and_prints(file):
    done = run_example(file.name)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert len(file.read_text(encoding="utf-8").splitlines()) <= LONGEST.get(file.name, 60)


@pytest.mark.slow
def test_a_store_of_four_methods_is_searched_and_walked():
    done = run_example("own_store.py")
    searched, walked = done.stdout.splitlines()[:3], done.stdout.splitlines()[3:]
    assert all(re.fullmatch(r"\d  eip-\d+\.md", line) for line in searched)
    assert all(re.fullmatch(r"\d  eip-\d+\.md(?: > eip-\d+\.md)*", line) for line in walked)
    assert len(walked) == 5
    assert any(">" in line for line in walked)


@pytest.mark.slow
def test_that_store_passes_the_exam_except_for_its_scores():
    command = [sys.executable, "-m", "airw.testing.exam", "examples/own_store.py:open_store", "--read-only"]
    options = {"capture_output": True, "text": True, "timeout": 280, "cwd": ROOT}
    done = subprocess.run(command, check=False, **options)
    # Its search filters as all stores do, but counts words, and is not BM25.
    assert done.returncode == 1
    assert re.match(r"store: \d\d passed, 1 failed, \d+ left out\n", done.stdout)
    assert re.search(r"failed +Requests for lexical are answered as by a `MemoryStore`", done.stdout)
    assert re.search(r"passed +In a search by words, filters", done.stdout)


@pytest.mark.slow
def test_a_policy_of_under_sixty_lines_passes_the_whole_exam():
    assert len((ROOT / "examples" / "own_policy.py").read_text(encoding="utf-8").splitlines()) < 60
    done = run_example("own_policy.py")
    hits, exam = done.stdout.split("policy: ")
    assert re.fullmatch(r"(?:0\.\d{3}  eip-\d+\.md(?: > eip-\d+\.md)*\n){5}", hits)
    assert exam.startswith("29 passed\n")


@pytest.mark.slow
def test_the_agent_stops_with_enough_hits_or_reports_the_limit_or_deadline():
    """A walk that it left reports no counts. In a hurry it keeps its first hits."""
    done = run_example("agent_loop.py")
    runs = re.findall(r"((?:0\.\d{3}  .*\n)+)stopped: (.*); left out: (.*)\n((?:  kept .*\n)+)", done.stdout)
    hits, ends, left_out, kept = zip(*runs, strict=True)
    assert "".join(f"{a}stopped: {b}; left out: {c}\n{d}" for a, b, c, d in runs) == done.stdout
    assert ends == (
        "closed, every long word of the question is covered",
        "node_budget, not enough yet",
        "timeout, cut off by the deadline",
    )
    assert left_out == ("nothing that was counted", "{'node_budget': 2}", "nothing that was counted")
    assert [each.count("\n") for each in hits] == [6, 3, 1]
    assert all(hits[0].startswith(each) for each in hits)
    assert all(kept[0].startswith(each) for each in kept)
    assert "eip-712.md > eip-2294.md" in kept[0]


@pytest.mark.slow
def test_an_agent_of_mcp_reads_on_until_it_has_enough():
    lines = run_example("mcp_agent.py").stdout.splitlines()
    assert lines[:2] == ["built", "discovered Typed structured data hashing and signing"]
    progress = [line for line in lines if line.startswith("  found ")]
    assert lines[2 : 2 + len(progress)] == progress
    assert progress[-1].endswith(", 6 of at most 6")
    documents, [read] = lines[2 + len(progress) : -1], lines[-1:]
    assert len({each.split(" > ")[-1] for each in documents}) == 6
    assert any(" > " in each for each in documents)
    assert re.fullmatch(r"read 200 of \d+ characters of eip-\d+\.md", read)


def demo_commands():
    recipe = re.search(
        r"^demo: [^\n]*## [^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE
    )
    return [shlex.split(line.replace("$(BIN)/airw", "airw"))[1:] for line in recipe[1].strip().split("\n")]


@pytest.mark.slow
def test_the_demo_walks_to_depth_two_and_prints_why_it_stopped(monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    printed = ""
    for arguments in demo_commands() * 2:
        code, shown = main(arguments), capsys.readouterr()
        # A build that takes long, as on a busy machine, shows how far it is.
        complaints = [line for line in shown.err.splitlines() if not re.search(r"\d%, about .* left$", line)]
        assert (code, complaints) == (0, [])
        printed += shown.out
    walks = re.findall(r"^ *ms  depth .*\n((?: *\d.*\n)+)stopped: (\w+) .*\nleft out: (.+)$", printed, re.MULTILINE)
    assert len(walks) == 2, printed
    for hits, stop, left_out in walks:
        found = re.findall(r"^ *\d+\.\d +(\d+) +-?\d\.\d{4}  (eip-\d+\.md(?: > eip-\d+\.md)*)  ", hits, re.MULTILINE)
        assert {int(depth) for depth, _ in found} >= {0, 1, 2}
        assert all(path.count(">") == int(depth) for depth, path in found)
        assert (stop, bool(left_out)) == ("node_budget", True)
    assert "0 added, 0 updated, 233 unchanged" in printed
