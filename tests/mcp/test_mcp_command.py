"""`airw mcp`: what it refuses before it begins."""

import sys

import pytest

from airw.cli import main
from tests.support.serve_command import build_notes


@pytest.fixture(autouse=True)
def _notes(tmp_path):
    build_notes(tmp_path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["drafts"], "there is no corpus 'drafts' in "),
        (["--tokens", "none.json"], "--tokens is for a server over HTTP; add --http, or omit it"),
        (["--host", "0.0.0.0"], "--host is for a server over HTTP; add --http, or omit it"),
        (["--port", "8001"], "--port is for a server over HTTP; add --http, or omit it"),
        (["--limit", "speed=9"], "--limit 'speed=9' must be NAME=NUMBER; the names: max_body, "),
        (["notes", "notes"], "two corpora are named 'notes'; pass it once, or a mapping with other names"),
        (["--http", "--host", "0.0.0.0"], "--host '0.0.0.0' lets other machines in; add --tokens FILE"),
        (["--http", "--tokens", "none.json"], "the token file 'none.json' cannot be read"),
        (["--http", "--origin", "kb"], "origins must contain origins such as 'https://kb.example', not 'kb'"),
    ],
)
def test_what_makes_no_sense_is_one_line(options, message, capsys):
    capsys.readouterr()
    assert main(["mcp", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"airw: {message}")
    assert printed.err.count("\n") == 1


def test_one_of_several_corpora_must_be_named(tmp_path, capsys):
    assert main(["build", str(tmp_path / "notes"), "--name", "drafts", "--embedder", "light"]) == 0
    capsys.readouterr()
    assert main(["mcp"]) == 2
    assert capsys.readouterr().err == "airw: no corpus named; choose one of drafts, notes and put its name first\n"


def test_a_missing_package_is_one_line(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp.server.stdio", None)
    monkeypatch.delitem(sys.modules, "airw.mcp.running", raising=False)
    capsys.readouterr()
    assert main(["mcp"]) == 2
    assert capsys.readouterr().err == "airw: mcp needs the package mcp.server.stdio: pip install 'airw[mcp]'\n"
