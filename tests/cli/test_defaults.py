"""The command line has the defaults of the library.

It passes on only what was given, and help shows the rest."""

import argparse
import inspect
import re

import pytest

from airw.cli import main
from airw.cli.library_defaults import default_text, read_default
from tests.support.commands import COMMANDS

OWN_DEFAULTS = {
    "airw expand": {"surface_index": 0},
    "airw mcp": {"host": "127.0.0.1", "port": 8000},
    "airw serve": {"host": "127.0.0.1", "port": 8000, "workers": 1},
}
"""What only the command line has; the library has no default for it."""

PARAMETERS = [
    (name, action)
    for name, command in COMMANDS.items()
    for action in command._actions
    if getattr(action, "place", None) is not None
]


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_a_default_that_the_library_could_have(name):
    command = COMMANDS[name]
    own = OWN_DEFAULTS.get(command.prog, {}) | {"format": "text"}
    for action in command._actions:
        if not isinstance(action, argparse._HelpAction):
            assert action.default in (None, False) or action.default == own.get(action.dest, []), action.dest


@pytest.mark.parametrize(
    ("name", "action"), [pytest.param(*each, id=f"{each[0]} {each[1].option_strings[-1]}") for each in PARAMETERS]
)
def test_help_shows_the_default_of_the_library(name, action, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    with pytest.raises(SystemExit):
        main([*name.split(), "--help"])
    told = " ".join(capsys.readouterr().out.split())
    option = re.search(rf"{action.option_strings[-1]}\b.*?(?= -[-a-zA-Z]|$)", told.partition("options:")[2])[0]
    value = read_default(action.place)
    assert f"default: {default_text(action.place)}" in told if value not in (None, ...) else "default:" not in option


def test_the_same_options_are_given_to_the_library_and_no_others(monkeypatch, home):
    """Without options, the function has its defaults, but reads operators."""
    from airw import discovery

    given = {}

    def record(corpus, query, **options):
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr(discovery, "discover_stream", record)
    (home / "corpora").mkdir(parents=True)
    (home / "corpora" / "notes.airw").touch()
    assert main(["discover", "notes", "keys"]) == 130
    signature = inspect.signature(discovery.discover).parameters
    others = {name: value for name, value in given.items() if value not in (signature[name].default, [], None)}
    assert others == {"operators": True}
