"""The exam of a store in a file, as a program."""

import os
import re
import subprocess
import sys

import pytest

from airw.testing import _server_exam as exam


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("own_store", "FILE.py:FUNCTION"),
        ("no.py:open_store", "no.py cannot be run"),
        ("empty.py:no", "no function no"),
        ("leaves.py:open_store", "leaves.py cannot be run: SystemExit: 0"),
    ],
)
def test_a_store_that_cannot_be_examined_is_an_error_of_one_line(target, named, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "leaves.py").write_text("import sys\ndef open_store(folder): ...\nsys.exit(0)\n")
    assert exam.main([target]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1


STORE = """
from contextlib import nullcontext
from beside_the_store import read

class Store:
    async def get_records(self, ids):
        return read(ids)

class Leaving:
    async def get_records(self, ids):
        raise SystemExit(0)

def open_store(folder, artifacts):
    import beside_the_store  # later than the file itself
    records = {record.id: record for own in artifacts for record in own.records}
    read.__globals__["records"] = records
    return nullcontext(Store())

def leave(folder, artifacts):
    raise SystemExit(0)

def leave_later(folder, artifacts):
    return nullcontext(Leaving())
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "beside_the_store.py").write_text("def read(ids): return [records.get(id) for id in ids]\n")
    (tmp_path / "store.py").write_text(STORE)
    return f"{tmp_path / 'store.py'}:open_store"


def test_a_store_imports_what_is_beside_it_and_capabilities_may_have_spaces(store, capsys):
    before = list(sys.path)
    assert exam.main([store, "--read-only", "--capabilities", "get_records, records_of", "--only", "get_records"]) == 0
    assert re.match(r"store: [1-9]\d* passed", capsys.readouterr().out)
    assert sys.path == before


def test_a_store_that_ends_the_program_has_failed(store, capsys):
    leaving = store.replace("open_store", "leave")
    assert exam.main([leaving, "--read-only", "--capabilities", "get_records"]) == 1
    assert "expected no error, got SystemExit(0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "nosuchcase"], "no case was run"),
        (["--capabilities", "get_records", "--only", "neighbors"], "no case was run"),
    ],
)
def test_what_would_examine_nothing_or_be_ignored_is_an_error(store, options, message, capsys):
    try:
        code = exam.main([store, "--read-only", *options])
    except SystemExit as error:
        code = error.code
    output = capsys.readouterr()
    assert (code, output.out) == (2, "")
    assert message in output.err
    assert output.err.count("\n") == 1


def run_exam(store, **options):
    command = [sys.executable, "-m", "airw.testing.exam", store, "--read-only", "--capabilities", "get_records"]
    return subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False, timeout=120, **options)


@pytest.mark.slow
def test_a_store_that_ends_the_event_loop_is_no_success(store):
    assert run_exam(store.replace("open_store", "leave_later"), stdout=subprocess.PIPE).returncode in (1, 2)


@pytest.mark.slow
def test_a_reader_who_has_enough_is_no_failure(store):
    reader, writer = os.pipe()
    os.close(reader)
    done = run_exam(store, stdout=writer)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, "")
