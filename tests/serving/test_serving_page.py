"""The page docs/serving.md: its commands answer as it says, and its limits are true."""

import doctest
import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from airw.cli import main
from airw.serving import ServingLimits
from tests.support.serve_command import run_serve

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```sh\n((?:curl |token=)[^`]*)```\n\n```text\n(.*?)```", re.DOTALL)


def test_the_table_of_limits_has_each_limit_with_its_default():
    rows = re.findall(r"(?m)^\| `(\w+)` \| ([\d.]+) \|", PAGE)
    limits = ServingLimits()
    assert [(name, float(default)) for name, default in rows] == [
        (field.name, float(getattr(limits, field.name))) for field in fields(limits)
    ]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_each_command_of_the_page_answers_as_the_page_says(tmp_path, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(tmp_path / "home"))
    assert main(["build", str(ROOT / "examples/data/eips"), "--embedder", "light"]) == 0
    blocks = BLOCK.findall(PAGE)
    assert len(blocks) == 6
    with run_serve("eips", "--write", "eips") as server:
        for command, expected in blocks:
            here = command.replace("http://127.0.0.1:8000/", server.url)
            done = subprocess.run(here, shell=True, capture_output=True, text=True, check=True)
            printed = f"{done.stdout.strip()}\n"
            assert doctest.OutputChecker().check_output(expected, printed, doctest.ELLIPSIS), printed
