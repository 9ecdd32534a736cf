"""Fixtures that run commands in this process."""

import json
import re

import pytest

from airw.cli import main


@pytest.fixture
def output_of(capsys):
    """Return a function that runs a command, checks its exit code and returns its output."""

    def run(*argv, code=0, err=""):
        assert main(list(map(str, argv))) == code
        output = capsys.readouterr()
        assert re.fullmatch(err, output.err), output.err
        return output.out

    return run


@pytest.fixture
def objects(output_of):
    """Return a function that runs a command in JSON and returns the objects it printed."""

    def run(*argv, **options):
        return [json.loads(line) for line in output_of(*argv, "--format", "json", **options).splitlines()]

    return run
