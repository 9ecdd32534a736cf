"""The file of the tokens: who may read it, and messages that never contain a token."""

import json
import os

import pytest

from airw.errors import ArgumentError
from airw.serving import read_tokens

SECRET = "correct-horse-battery"


@pytest.fixture
def write(tmp_path):
    def write_file(content, mode=0o600):
        file = tmp_path / "tokens.json"
        file.touch()
        file.chmod(mode)
        file.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return file

    return write_file


def test_tokens_are_read_from_a_file_and_the_environment(write, monkeypatch):
    monkeypatch.setenv("ADA_TOKEN", SECRET)
    [ada, bob] = read_tokens(write([{"value": "$ADA_TOKEN", "label": "ada"}, {"value": "b" * 16, "write": ["notes"]}]))
    assert (ada.value, ada.label, list(ada.read)) == (SECRET, "ada", ["*"])
    assert (bob.value, list(bob.write)) == ("b" * 16, ["notes"])


@pytest.mark.skipif(os.name != "posix", reason="the mode of a file is POSIX")
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620])
def test_a_file_that_others_may_read_is_refused(write, mode):
    with pytest.raises(ArgumentError, match=r"may be read by others; run: chmod 600 .*tokens\.json"):
        read_tokens(write([{"value": SECRET}], mode))


@pytest.mark.parametrize(
    "content",
    [
        "",
        f'["{SECRET}"',
        f'"{SECRET}"',
        "[]",
        {"value": SECRET},
        [SECRET],
        [{"value": SECRET, "rights": []}],
        [{"label": SECRET}],
        [{"value": f"{SECRET} "}],
        [{"value": SECRET, "read": "notes"}],
        [{"value": SECRET[:8]}],
        [{"value": "$NO_SUCH_TOKEN"}],
        [{"value": 10**30}],
        [{"value": None}],
        [{"value": SECRET, "read": [1]}],
        [{"value": SECRET, "label": 1}],
        "[" * 100_000,
    ],
    ids=lambda content: str(content)[:30],
)
def test_what_is_no_list_of_tokens_is_refused_in_one_line_without_the_token(write, content):
    with pytest.raises(ArgumentError) as caught:
        read_tokens(write(content))
    message = str(caught.value)
    assert "\n" not in message
    assert SECRET[:8] not in message
    assert "the token file" in message
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__


def test_a_file_that_is_missing_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match=r"the token file .*none\.json' cannot be read: "):
        read_tokens(tmp_path / "none.json")
