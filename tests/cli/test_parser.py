"""The parser lists commands and choices without importing them.

These tests compare them with the real ones.
"""

import inspect
from importlib import import_module
from typing import get_args, get_type_hints

import pytest

from airw.cli import main
from airw.corpora import Maintenance
from airw.discovery import LEVELS, STRATEGIES
from airw.reranking import RERANK_TEXTS
from airw.retrieval import MODES, Fusion
from airw.values import DIRECTIONS
from airw.views.bundled import FORMS
from tests.support.commands import COMMANDS


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_function_that_runs_it(name):
    module, _, function = COMMANDS[name].get_default("run").partition(".")
    assert inspect.iscoroutinefunction(getattr(import_module(f"airw.cli.{module}"), function))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")
    with pytest.raises(SystemExit) as leaving:
        main([*name.split(), "--help"])
    told = capsys.readouterr().out
    assert leaving.value.code == 0
    assert told.startswith(f"usage: airw {name}")
    assert max(map(len, told.splitlines())) <= 120


def choices(name, option):
    return next(action.choices for action in COMMANDS[name]._actions if option in action.option_strings)


@pytest.mark.parametrize(
    ("option", "real"),
    [
        ("--mode", MODES),
        ("--direction", DIRECTIONS),
        ("--fusion", get_args(Fusion)),
        ("--strategy", STRATEGIES),
        ("--disclose", LEVELS),
        ("--rerank-text", RERANK_TEXTS),
        ("--reindex-on", get_args(get_type_hints(Maintenance)["reindex"])),
    ],
)
def test_choices_are_those_of_the_library(option, real):
    takers = [name for name, command in COMMANDS.items() if option in command._option_string_actions]
    offered = [set(given) for name in takers if (given := choices(name, option))]
    assert offered
    assert offered == [set(real)] * len(offered)


def test_context_offers_every_form_of_a_bundle():
    assert choices("context", "--format") == FORMS
