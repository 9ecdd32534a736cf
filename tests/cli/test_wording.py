"""Messages of the command line speak of commands, options and documents, not of Python."""

import ast
import re
import shutil
from pathlib import Path

import pytest

import airw
from airw.cli import main
from airw.cli.wording import describe_error, translate
from airw.errors import NoLedgerEntry, StoreCorrupt

QUOTED = re.compile(r"'[^']*'|`[^`]*`")
IN_PYTHON = re.compile(
    r"\b[a-z]+_[a-z_]+\b|\w\(|\bNone\b|\bTrue\b|\bcallable\b|=\.\.\.|\b[A-Z]\w+(Error|Busy|Found)\b|Errno|\{\w+:"
)

MISTAKES = """
    search nowhere x
    search notes x -k -1
    search notes x --filter [1]
    search notes x --rerank oracle
    search ../notes x
    traverse notes x --max-depth -1
    traverse notes x --node-budget -1
    traverse notes x --timeout -1
    traverse notes x --start -1
    traverse notes x --start -1 --policy collapsed-tree
    discover notes x --rel 2
    discover notes x --max-k 0
    discover notes x --strategy abs_threshold
    discover notes x --source-timeout -1
    discover notes x --expand -1
    discover notes notes x
    discover notes other x --min-score 0.3
    discover notes other x --strategy abs_threshold --min-score auto
    traverse notes x --policy link-walk
    traverse notes x --policy reverse-dependency
    traverse notes x --policy beam --set width=0
    traverse notes x --policy beam --set scope={"keep":1}
    traverse notes x --policy beam --set seeding=deep
    traverse notes x --policy eager --set edges=x
    traverse notes x --policy link-walk --set roots=bread.md --set weighted=3
    traverse notes x --policy personalized-page-rank --set restart=2
    search notes x --filter {"$exists":1}
    search notes x --embedder http://nowhere
    expand notes nowhere
    expand notes bread.md --window -1
    calibrate notes nowhere.jsonl
    calibrate notes cases.jsonl --sensitivity-weight 2
    link tree bread.md --max-hops -1 -c notes
    link tree bread.md --timeout -1 -c notes
    link tree bread.md --format records --max-chars 5 -c notes
    link tree bread.md --format dot --output /no/such/folder/file -c notes
    link path bread.md vault.md --max-fanout -1 -c notes
    context --note bread.md --max-tokens 1 -c notes
    context --note bread.md --max-chars 0 -c notes
    register x notes
    register x nokind
    register x records
    register x notes --root . --every-hours 0
    register x notes --root . --reindex-on interval
    register x notes --root . --window 25:00-
    register x notes --root . --strategy {"name":"Chunked","params":{"size":3}}
    register x notes --root . --embedder http://nowhere
    maintain nowhere
    coverage nowhere
    info nowhere
    rm nowhere
    build . --name a/b
"""


@pytest.fixture(scope="module")
def both_corpora(tmp_path_factory):
    """Build two corpora with two notes each, `notes` and `other`, and return their home."""
    base = tmp_path_factory.mktemp("wording")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(base / "home"))
        for name in ("notes", "other"):
            folder = base / name
            folder.mkdir()
            (folder / "bread.md").write_text("# Bread\n\nFlour.\n", encoding="utf-8")
            (folder / "vault.md").write_text("# Vault\n\nKeys.\n", encoding="utf-8")
            assert main(["build", str(folder), "--embedder", "light"]) == 0
    return base / "home"


@pytest.fixture
def corpora(both_corpora, home, capsys):
    """Copy the two corpora into the home of this test."""
    shutil.copytree(both_corpora, home)
    capsys.readouterr()


@pytest.mark.parametrize("command", [line.strip() for line in MISTAKES.strip().splitlines()])
@pytest.mark.usefixtures("corpora")
def test_no_message_speaks_of_python(error, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cases.jsonl").write_text('{"query": "x", "gold": []}\n', encoding="utf-8")
    assert not IN_PYTHON.search(QUOTED.sub("", error(*command.split())))


@pytest.mark.parametrize(
    ("message", "translated"),
    [
        ("max_hops must be 1", "--max-hops must be 1"),
        ("a filter must be a mapping", "--filter must be a mapping"),
        ("k must be 1", "-k must be 1"),
        ("the filter of k words is 'k must'", "the filter of k words is 'k must'"),
        ("'max_hops' and `max_hops` and max_hops", "'max_hops' and `max_hops` and --max-hops"),
        ("timeout must be seconds, or None, not -1", "--timeout must be seconds, not -1"),
        ("timeout must be a number of seconds or None, not -1", "--timeout must be a number of seconds, not -1"),
        (
            "nothing is calibrated: call calibrate_min_score(…)",
            "nothing is calibrated: run `airw calibrate CASES.jsonl --save`",
        ),
        ("two are 'a': pass {name: corpus}", "two are 'a'; search each corpus once"),
        ("no 'a'; register('a', kind, ...) does that", "no 'a'; `airw register NAME KIND` does that"),
        ("reindex='manual' with every_hours=None", "--reindex-on 'manual' with no --every-hours"),
        ("such as ('22:00', '06:00')", "such as 22:00-06:00"),
        ("must be two times, not ('10:00',)", "must be two times, not 10:00"),
        ("cannot be registered; pass your own to build(…)", "cannot be registered"),
        ("build with force=True to remove them all", "build with --force to remove them all"),
        ("cannot be read (OSError: [Errno 2] no file)", "cannot be read (no file)"),
    ],
)
def test_parameters_are_translated_to_options_and_functions_to_commands(message, translated):
    assert translate(message) == translated


def test_an_error_is_described_in_one_line():
    assert (
        describe_error(NoLedgerEntry("corpus 'a' contains\nno artifact 'b'")) == "corpus 'a' contains no document 'b'"
    )
    assert describe_error(StoreCorrupt("it is damaged")) == "it is damaged"
    assert describe_error(FileNotFoundError(2, "No such file or directory", "a")) == "No such file or directory: 'a'"
    assert describe_error(ValueError("odd")) == "unexpected error: ValueError: odd"


PROGRAMS_ONLY = (
    "another with as_retriever",
    "artifact_ids()",
    "(ids), with a list",
    "() before the first request",
    "complete() of a chat model",
    "create others with retrievers()",
    "from_mapping({}, name=...)",
    "from_notes(folder) or",
    "got an unexpected keyword argument",
    "inside its block: async with",
    "must be an instance, not the class",
    "must see all documents first",
    "needs a corpus or a store",
    "needs a store with",
    "one filter pass Scope.only",
    "or await RemoteCorpus.open",
    "pass the token as token=",
    "pass it to open_corpus",
    "per_node(policy)",
    "read one document alone",
    "search(corpus, query), discover(corpus, query)",
    "then select(hits,",
    "adapt needs a function:",
    "to airw.adapt",
)
"""Parts of messages with calls that no command can cause: they name objects, or methods of a program."""


def messages():
    """Yield the strings of the library that could be messages, with `x` for each value."""
    folder = Path(airw.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        if path.relative_to(folder).parts[0] in ("cli", "testing"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
        parts |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
        for node in ast.walk(tree):
            if id(node) in parts:
                continue
            if isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.slow
def test_no_message_that_a_command_can_cause_calls_a_function():
    is_code = re.compile(r"\n|[A-Z]{4,}|\?\)|^\W|airw_\w+\(|json_each|substr|^\w+ (=|IN) |coalesce\(|strpos\(|jsonb_")
    calls = re.compile(r"\b[a-z]\w*\(|=\.\.\.")
    told = [translate(text) for text in messages() if len(text.split()) > 3 and not is_code.search(text)]
    assert len(told) > 500
    told = [text for text in told if calls.search(QUOTED.sub("", text))]
    assert [text for text in told if not any(part in text for part in PROGRAMS_ONLY)] == []
