"""The exam of a store in a file, as a program."""

import pytest

from airw.testing import _server_exam as exam


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("own_store", "FILE.py:FUNCTION"),
        ("no.py:open_store", "no.py cannot be run"),
        ("empty.py:no", "no function no"),
    ],
)
def test_a_store_that_cannot_be_examined_is_an_error_of_one_line(target, named, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.py").write_text("")
    assert exam.main([target]) == 2
    error = capsys.readouterr().err
    assert named in error
    assert error.count("\n") == 1
