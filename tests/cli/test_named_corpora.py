"""Commands take the corpus first, and an embedder that wins over the one of the file."""

import sqlite3
from contextlib import closing

import pytest

from airw.cli import main

NOTES = {
    "index.md": "# Index\n\n[keys](keys.md)\n",
    "keys.md": "# Signing keys\n\nRotate the signing keys.\n",
    "site1.md": "---\ntitle: site1\n---\nA note with the title of a corpus. [keys](keys.md)\n",
}


@pytest.fixture(scope="module")
def home_of_sites(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sites")
    for name, text in NOTES.items():
        (folder / "notes").mkdir(exist_ok=True)
        (folder / "notes" / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(folder))
        for name in ("site1", "site2"):
            assert main(["build", str(folder / "notes"), "--name", name, "--embedder", "light"]) == 0
    # The file of the second corpus names an embedder that is nowhere, as a file of a stranger may.
    with closing(sqlite3.connect(folder / "corpora" / "site2.airw")) as raw, raw:
        names = ('"embedder": "light"', '"embedder": "http://127.0.0.1:9/v1#m"')
        raw.execute("UPDATE setting SET value = replace(value, ?, ?) WHERE kind = 'config'", names)
    return folder


@pytest.fixture(autouse=True)
def sites(home_of_sites, monkeypatch):
    monkeypatch.setenv("AIRW_HOME", str(home_of_sites))


@pytest.mark.parametrize("words", [["site1", "index.md"], ["-c", "site1", "index.md"], ["SITE1", "Index"]])
def test_link_commands_take_the_corpus_first(words, output_of):
    assert output_of("link", "tree", *words, "--max-hops", "1").startswith("index.md  Index\n")
    assert "keys.md" in output_of("link", "list", *words)
    assert "1 hop" in output_of("link", "path", *words, "keys.md")
    assert "keys.md" in output_of("link", "tree", *words, "keys.md")


def test_check_and_context_do_too(output_of, objects):
    [diagnosis] = objects("link", "check", "site1")
    assert diagnosis["name"] == "site1"
    assert "# keys.md" in output_of("context", "site1", "--note", "keys.md")


def test_an_option_makes_a_word_that_is_a_corpus_a_document(output_of):
    assert output_of("link", "tree", "-c", "site1", "site1", "--max-hops", "1").startswith("site1.md  site1\n")


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["link", "tree", "site1"], "'site1' is a corpus, so a document is missing; if a document is meant,"),
        (["link", "list", "site1"], "'site1' is a corpus, so a document is missing"),
        (["link", "path", "site1", "keys.md"], "'site1' is a corpus, so one of two documents is missing"),
        (["link", "tree", "index.md"], "no corpus named; choose one of site1, site2 and put its name first"),
        (["search", "site1"], "'site1' is a corpus, so the second word is missing: QUERY"),
        (["traverse", "site1"], "'site1' is a corpus, so the second word is missing: QUERY"),
        (["discover", "site1"], "'site1' is a corpus, so the second word is missing: QUERY"),
        (["expand", "site1"], "'site1' is a corpus, so the second word is missing: ARTIFACT_ID"),
        (["calibrate", "site1"], "'site1' is a corpus, so the second word is missing: CASES.jsonl"),
        (["context", "site1"], "'site1' names only the corpus"),
    ],
)
def test_what_is_missing_is_named(argv, said, error):
    assert said in error(*argv)


@pytest.mark.parametrize(
    "argv",
    [
        ["search", "site2", "signing keys", "-m", "dense"],
        ["traverse", "site2", "signing keys", "--set", "seeding=dense"],
        ["discover", "site2", "signing keys", "-m", "dense"],
        ["discover", "site1", "site2", "signing keys", "-m", "dense"],
        ["context", "site2", "--query", "signing keys", "-m", "dense"],
    ],
)
def test_the_embedder_of_the_command_line_wins(argv, output_of, capsys):
    assert "keys.md" in output_of(*argv, "--embedder", "light")
    if "site1" not in argv:
        assert main(argv) == 2
        assert "--embedder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["search", "traverse", "discover", "context", "calibrate", "build", "register"])
def test_an_empty_embedder_is_an_error(command, error):
    assert "--embedder: must name an embedder" in error(command, "x", "y", "--embedder", "")
