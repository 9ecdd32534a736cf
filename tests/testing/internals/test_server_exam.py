"""The exam as a program, for a server that anyone has."""

import subprocess
import sys

import anyio
import pytest

from airw.protocols import ArtifactIds
from airw.stores import PostgresStore
from airw.testing._server_exam import main
from tests.support.postgres import get_server, server_dsn


def schemas():
    rows = anyio.run(get_server().fetch, "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'airw%'")
    return {row["nspname"] for row in rows}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["postgresql://ada:s3cret@db.example/kb"], "write 'postgresql://ada:$PASSWORD@db.example/kb'"),
        (["postgresql://127.0.0.1:1/kb"], "postgresql://127.0.0.1:1/kb cannot be reached"),
        (["notes.airw"], "must be an address"),
        ([], ": ADDRESS"),
        (["postgresql://ada:s3cret@db/kb", "--read-only"], "--read-only is for a store in FILE.py"),
        (["postgresql://db/kb", "--promises", "closing"], "--promises is for a store in FILE.py"),
    ],
)
def test_what_cannot_be_examined_is_an_error_of_one_line(words, message, capsys):
    try:
        code = main(words)
    except SystemExit as error:
        code = error.code
    output = capsys.readouterr()
    assert code == 2
    assert output.out == ""
    assert message in output.err
    assert output.err.count("\n") == 1
    assert "s3cret" not in output.err


@pytest.mark.slow
def test_every_walk_on_a_server_is_that_in_memory_and_no_schema_is_left(capsys):
    before = schemas()
    assert main([server_dsn(), "--only", "walk_of"]) == 0
    assert "walks: 9 passed\n" in capsys.readouterr().out
    assert schemas() == before


@pytest.mark.slow
def test_cases_of_stores_run_and_a_failure_is_an_exit_code(capsys, monkeypatch):
    before = schemas()
    assert main([server_dsn(), "--only", "ledger"]) == 0
    told = capsys.readouterr().out
    assert "0 passed" not in told.partition("\n")[0]

    read = PostgresStore.read

    async def forget(self, *requests):
        answers = zip(requests, await read(self, *requests), strict=True)
        return [["none"] if isinstance(request, ArtifactIds) else answer for request, answer in answers]

    monkeypatch.setattr(PostgresStore, "read", forget)
    assert main([server_dsn(), "--only", "artifact"]) == 1
    assert "failed" in capsys.readouterr().out
    assert schemas() == before


@pytest.mark.slow
def test_the_module_is_a_program():
    run = [sys.executable, "-W", "error", "-m", "airw.testing.exam"]
    shown = subprocess.run([*run, "--help"], capture_output=True, text=True, check=True)
    assert "--read-only" in shown.stdout
    light = "import sys, airw.testing.exam; print([name for name in sys.modules if 'pg' in name or 'postgres' in name])"
    loaded = subprocess.run([sys.executable, "-c", light], capture_output=True, text=True, check=True)
    assert loaded.stdout == "[]\n"
