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
from airw.stores import MemoryStore, OwnStore
from beside_the_store import read

class Store(OwnStore):
    capabilities = ("records",)

    async def records(self, request):
        return read(request.ids)

    async def records_of(self, request):
        chosen = [[own for own in records.values() if own.artifact_id == id] for id in request.artifact_ids]
        kinds = request.kinds
        chosen = [[own for own in each if kinds is None or own.surface_kind in kinds] for each in chosen]
        known = {own.artifact_id for own in records.values()} | empty
        return [own[:request.limit] if id in known else None for id, own in zip(request.artifact_ids, chosen)]

class Leaving(Store):
    async def records(self, request):
        raise SystemExit(0)

def open_store(folder, artifacts):
    import beside_the_store  # later than the file itself
    global records, empty
    records = {record.id: record for own in artifacts for record in own.records}
    empty = {own.entry.artifact_id for own in artifacts}
    read.__globals__["records"] = records
    return nullcontext(Store())

def open_memory(folder, *artifacts):
    return MemoryStore()

def leave(folder, artifacts):
    raise SystemExit(0)

def leave_later(folder, artifacts):
    return nullcontext(Leaving())

from airw import adapt
from airw.testing.changes import put_document, vector_of

pages = {"rota": "one two", "vault": "three"}
adapted = adapt(get=lambda ids: [pages.get(id) for id in ids], neighbors=lambda ids: [[] for _ in ids]).store
content = [put_document(name, text, vector_of(text, 512)) for name, text in pages.items()]
wrong = [put_document("rota", "four", vector_of("four", 512))]
names = [*pages]

def open_adapted(folder):
    return nullcontext(adapted)

def open_dict(folder, artifacts):
    return nullcontext({})
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    (tmp_path / "beside_the_store.py").write_text("def read(ids): return [records.get(id) for id in ids]\n")
    (tmp_path / "store.py").write_text(STORE)
    return f"{tmp_path / 'store.py'}:open_store"


def test_a_store_imports_what_is_beside_it(store, capsys):
    before = list(sys.path)
    assert exam.main([store, "--read-only", "--only", "records"]) == 0
    assert re.match(r"store: [1-9]\d* passed", capsys.readouterr().out)
    assert sys.path == before


def test_what_a_store_promises_besides_its_capabilities_may_have_spaces(store, capsys):
    store = store.replace("open_store", "open_memory")
    assert exam.main([store, "--promises", "closing, runs", "--only", "closes_again"]) == 0
    assert exam.main([store, "--promises", "secrecy"]) == 2
    assert "'secrecy'" in capsys.readouterr().err


def test_a_store_that_has_its_own_content_is_examined_with_it(store, capsys):
    store = store.replace("open_store", "open_adapted")
    assert exam.main([store, "--content", "content", "--only", "records"]) == 0
    assert re.match(r"store: [1-9]\d* passed\n", capsys.readouterr().out)
    assert exam.main([store, "--content", "wrong", "--only", "records"]) == 1
    output = capsys.readouterr().out
    assert "text='four'" in output
    assert "got Record(id='rota'" in output


@pytest.mark.parametrize("name", ["names", "pages", "nothing"])
def test_content_is_a_list_of_artifacts(store, name, capsys):
    assert exam.main([store.replace("open_store", "open_adapted"), "--content", name]) == 2
    assert f"{name} of " in (error := capsys.readouterr().err)
    assert "must be a list of ArtifactChange, not " in error
    assert error.count("\n") == 1


def test_a_store_that_ends_the_program_has_failed(store, capsys):
    assert exam.main([store.replace("open_store", "leave_later"), "--read-only"]) == 1
    assert "expected no error, got SystemExit(0)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "nosuchcase"], "no case was run"),
        (["--only", "edges"], "no case was run"),
        (["--content", "content"], "pass one of them"),
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


@pytest.mark.parametrize(
    ("function", "options", "message"),
    [
        ("open_memory", ["--read-only"], "--read-only is for stores without the capability 'writing'"),
        ("open_dict", ["--read-only"], "dict is not a store"),
        ("leave", ["--read-only"], "SystemExit: 0"),
    ],
)
def test_a_function_that_opens_no_such_store_is_an_error(store, function, options, message, capsys):
    assert exam.main([store.replace("open_store", function), *options]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def run_exam(store, **options):
    command = [sys.executable, "-m", "airw.testing.exam", store, "--read-only"]
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
