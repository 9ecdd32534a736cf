"""Commands that copy, restore and check corpora."""

import sqlite3
import time
from contextlib import closing

import pytest

from airw.corpora import corpus_path

NOTES = {"keys.md": "Rotate the signing keys. See [vault](vault.md).", "vault.md": "# Vault\n\nWhere secrets rest."}


@pytest.fixture
def corpus(tmp_path, output_of):
    (tmp_path / "notes").mkdir()
    for name, text in NOTES.items():
        (tmp_path / "notes" / name).write_text(text)
    output_of("build", tmp_path / "notes", "--embedder", "light")
    return "notes"


def damage(corpus):
    time.sleep(0.01)  # as file times are only so exact
    with closing(sqlite3.connect(corpus_path(corpus))) as connection, connection:
        connection.execute("UPDATE vector SET sum = sum + 1 WHERE rowid = 1")


def test_a_corpus_is_copied_and_restored(corpus, tmp_path, output_of):
    copy = tmp_path / "copy.airw"
    assert output_of("copy", corpus, copy) == f"copied notes to {copy}\n"
    (tmp_path / "notes" / "bread.md").write_text("# Bread")
    output_of("build", corpus)
    assert "bread.md" in output_of("search", corpus, "bread", "-m", "lexical")
    assert output_of("restore", corpus, copy) == f"restored notes from {copy}: {corpus_path(corpus)}\n"
    assert "bread.md" not in output_of("search", corpus, "bread", "-m", "lexical")


def test_a_copy_replaces_nothing_without_force(corpus, tmp_path, output_of):
    copy = tmp_path / "copy.airw"
    output_of("copy", corpus, copy)
    output_of("copy", corpus, copy, code=2, err=r"airw: '.*copy\.airw' exists; use --force to replace it\n")
    output_of("copy", corpus, copy, "--force")
    output_of("restore", corpus, tmp_path / "no.airw", code=2, err=r"airw: there is no corpus at .*\n")


def test_damage_is_shown_by_info_check_and_the_next_build_says_what_would_do(corpus, output_of):
    assert output_of("info", corpus, "--check") == f"{corpus_path(corpus)} is whole\n"
    damage(corpus)
    told = output_of("info", corpus, "--check", code=1)
    assert told.startswith("damaged: vectors: ")
    advice = "restore a copy with `airw restore CORPUS FILE`, or remove it with `airw rm CORPUS` and build it again"
    output_of("build", corpus, code=2, err=rf"airw: '.*notes\.airw' is damaged .* {advice}\n")
