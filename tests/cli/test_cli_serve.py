"""`airw serve`: what it refuses, and a real server from its start to its end."""

import re
import signal
import socket
import sys

import httpx
import pytest

from airw.cli import main
from airw.cli.serving import is_loopback
from tests.support.serve_command import build_notes, run_serve


@pytest.fixture
def notes(tmp_path):
    return build_notes(tmp_path)


@pytest.fixture
def token_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ADA_TOKEN", "correct-horse-battery")
    file = tmp_path / "tokens.json"
    file.touch(mode=0o600)
    file.write_text('[{"value": "$ADA_TOKEN", "label": "ada", "read": ["notes"]}]', encoding="utf-8")
    return file


def test_a_server_for_other_machines_needs_tokens(notes, output_of):
    output_of("serve", "notes", "--host", "0.0.0.0", code=2, err=r"airw: --host '0.0.0.0' lets other machines in; .*\n")


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False)],
)
def test_only_this_machine_reaches_a_loopback_address(host, expected):
    assert is_loopback(host) == expected
    assert not is_loopback(f"{host}.example")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--write", "drafts"], "there is no corpus 'drafts' to give rights to; served: notes"),
        (["--rerank", "bm25"], r".*'cross-encoder'.*, not 'bm25'"),
        (["--limit", "max_k"], r"--limit 'max_k' must set a whole number of at least 1"),
        (["--limit", "max_k=0"], r"--limit 'max_k=0' must set a whole number of at least 1"),
        (["--limit", "max_wait=nan"], r"--limit 'max_wait=nan' must set a number of seconds above 0"),
        (["--limit", "k=1"], r"--limit 'k=1' must be NAME=NUMBER; the names: max_body, .*"),
        (["--tokens", "none.json"], "the token file 'none.json' cannot be read: .*"),
        (["--port", "70000"], r".*--port: must be at most 65535, not '70000'; see `airw serve --help`"),
    ],
)
def test_options_that_make_no_sense_are_one_line(options, message, notes, output_of, capsys):
    try:
        code = main(["serve", "notes", *options])
    except SystemExit as leaving:
        code = leaving.code
    assert code == 2
    assert re.fullmatch(f"airw: {message}\n", capsys.readouterr().err)


def test_a_corpus_that_is_missing_is_one_line(notes, output_of):
    output_of("serve", "drafts", code=2, err=r"airw: there is no corpus 'drafts' in .*; known: notes; .*\n")


def test_a_port_that_is_in_use_is_one_line(notes, output_of):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"airw: cannot listen at 127.0.0.1 port {port}: .*\n"
        output_of("serve", "notes", "--port", port, code=2, err=message)


def test_a_token_file_says_who_may_write(notes, token_file, output_of):
    output_of(
        "serve", "--tokens", token_file, "--write", "notes", code=2, err=r".*the token file says who may write.*\n"
    )
    output_of("serve", "--tokens", token_file, "--no-tokens", code=2, err=r".*--tokens or --no-tokens, not both\n")


def test_a_missing_package_is_one_line(notes, output_of, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "airw.serving.running", raising=False)
    monkeypatch.delattr("airw.serving.running", raising=False)
    output_of("serve", code=2, err=r"airw: serve needs the package uvicorn: pip install 'airw\[serve\]'\n")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_server_answers_until_it_is_told_to_stop(number, notes):
    with run_serve("notes") as server:
        answer = httpx.post(f"{server.url}search", json={"corpus": "notes", "query": "signing keys"})
        assert [hit["artifact_id"] for hit in answer.json()["hits"]] == ["keys.md"]
        unknown = {"corpus": "notes", "query": "signing keys", "filter": {"a word of a client": 1}}
        assert httpx.post(f"{server.url}search", json=unknown).json()["hits"] == []
        server.process.send_signal(number)
        assert server.process.wait(10) == 0
    assert "a word of a client" not in "".join(server.lines)


@pytest.mark.slow
def test_a_server_with_tokens_answers_their_bearers_only(notes, token_file):
    with run_serve("notes", "--tokens", token_file) as server:
        body = {"corpus": "notes", "query": "signing keys"}
        assert httpx.post(f"{server.url}search", json=body).status_code == 401
        bearer = {"Authorization": "Bearer correct-horse-battery"}
        assert httpx.post(f"{server.url}search", json=body, headers=bearer).status_code == 200
