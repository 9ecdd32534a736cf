"""Commands run in this process."""

import json
import re

import pytest

from airw.cli import main


@pytest.fixture
def printed(capsys):
    """Run a command that must end with a code, and return what it printed."""

    def run(*argv, code=0, err=""):
        assert main(list(map(str, argv))) == code
        told = capsys.readouterr()
        assert re.fullmatch(err, told.err), told.err
        return told.out

    return run


@pytest.fixture
def objects(printed):
    """The same in JSON; return the objects."""

    def run(*argv, **options):
        return [json.loads(line) for line in printed(*argv, "--format", "json", **options).splitlines()]

    return run
