"""There is one version: `pyproject.toml` names it, and all else says the same."""

import re
import tomllib
from datetime import date
from importlib.metadata import version
from pathlib import Path

import pytest

import airw
from airw.cli import main

ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<day>\S+))?$", re.MULTILINE)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
NOTES = (ROOT / "docs" / "release_notes.md").read_text(encoding="utf-8")


def test_the_project_the_changelog_the_notes_and_the_command_line_name_one_version(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    newest = next(entry["version"] for entry in ENTRY.finditer(CHANGELOG) if entry["day"])
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == f"airw {PROJECT['version']}\n"
    assert newest == airw.__version__ == version("airw") == PROJECT["version"]
    assert f"# airw {PROJECT['version']}" in NOTES


def test_the_changelog_lists_what_is_unreleased_then_the_versions_the_newest_first():
    unreleased, *released = ENTRY.finditer(CHANGELOG)
    assert (unreleased["version"], unreleased["day"]) == ("Unreleased", None)
    days = [date.fromisoformat(entry["day"]) for entry in released]
    assert days == sorted(days, reverse=True)


def test_the_notes_name_every_extra():
    assert [extra for extra in PROJECT["optional-dependencies"] if f"`{extra}`" not in NOTES] == []
