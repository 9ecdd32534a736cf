"""No text of a document, a file name or a server can act on the terminal of a reader.

Every command runs in every format over a corpus whose titles, ids, texts, links, tags and paths are hostile.
"""

import json
import os
import re
import sys
from contextlib import suppress

import pytest

from airw.cli import main
from tests.support.embedding_server import EmbeddingServer, alone, status

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x1b[31m\x9b1m\x7f"
BIDI = "\u202egnp.exe\u2066\u200f\u061c\u200b\u2028\u2029\x85"
BAD = f"{ESCAPES}{BIDI}"
ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

NOTES = {
    "a.md": "---\n"
    + "\n".join(
        f"{key}: {json.dumps(value)}"
        for key, value in {
            "title": f"Keys {BAD}\nFORGED title",
            "type": f"kind{ESCAPES}",
            "tags": [f"tag{ESCAPES}", "FORGED\ntag"],
            "aliases": [f"alias {BAD}"],
            "supports": ["b.md", f"nowhere{BAD}"],
        }.items()
    )
    + f"\n---\n# Heading {BAD}\n\nkeys rotate {BAD} [b](b.md) [[no{ESCAPES}where]] [x](no{BIDI}.md)\n",
    "b.md": "---\ntitle: B\n---\nbread keys [a](a.md)\n",
    f"x{ESCAPES}.md": "# keys in an evil file name\n\n[a](a.md) <script>alert(1)</script>\n",
    "x\nFORGED.md": "# keys in a name of two lines\n\n[a](a.md)\n",
    f"x{BIDI}.md": "# keys in a reversed name\n\n[a](a.md)\n",
}
ROWS = [
    {"id": f"row{BAD}", "title": f"Row {BAD}\nFORGED", "text": f"keys of a row {BAD}\rFORGED\nFORGED", "links": ["no"]},
    {"id": "plain", "title": "Plain", "text": "a plain row of keys", f"field{BAD}": f"value{BAD}"},
    {"id": "bad\ud800", "title": "surrogate \udfff", "text": "keys \ud800 cannot be stored"},
]
LIST = ["text", "json", "records"]
PAGES = [*LIST, "dot", "html"]
FORMATS = ["text", "json"]
COMMANDS = {
    "search hostile keys": FORMATS,
    "search hostile keys --all-surfaces -m lexical": FORMATS,
    "search rows keys": FORMATS,
    "traverse hostile keys": FORMATS,
    "traverse rows keys": [*FORMATS, "html"],
    "traverse hostile keys --policy beam --set width=9": [*FORMATS, "html"],
    "discover hostile keys": FORMATS,
    "discover hostile rows keys --disclose body --root {folder} --expand 1": FORMATS,
    "discover rows keys --min-score auto": FORMATS,
    "expand hostile a.md": FORMATS,
    "expand hostile a.md --parent": FORMATS,
    "expand rows {row} --parent": FORMATS,
    "calibrate hostile {cases} -m dense": FORMATS,
    "link tree -c hostile a.md": PAGES,
    "link path -c hostile a.md {file}": PAGES,
    "link path -c hostile a.md b.md": PAGES,
    "link list -c hostile a.md": LIST,
    "link check -c hostile -v": FORMATS,
    "context -c hostile --walk a.md --query keys": LIST,
    "context -c rows --query keys": LIST,
    "info hostile": FORMATS,
    "info rows": FORMATS,
    "coverage hostile -v": FORMATS,
    "maintain rows": FORMATS,
    "ls": [],
    "build hostile -v": [],
    "build rows -v": [],
}
MISTAKES = """
    search no{bad} x
    search hostile x --filter {bad}
    search hostile x --rerank {bad}
    search hostile x --mode {bad}
    search hostile x {bad} {bad}
    search hostile x --{bad}
    {bad}
    expand hostile no{bad}
    expand rows {row} --surface-index 99
    link tree -c hostile no{bad}
    link tree -c hostile x{bad}
    link path -c hostile a.md no{bad}
    link tree -c no{bad} a.md
    link tree -c hostile a.md --type {bad}, --exclude-type {bad},
    link list -c hostile no{bad}
    context -c hostile --note no{bad}
    context -c hostile --query keys --max-tokens 9 --tokenizer {bad}
    calibrate hostile {bad}.jsonl
    info no{bad}
    rm no{bad}
    build {folder}/no{bad}
    build {folder} --name no{bad}
    register x{bad} notes
    register x no{bad}
    register x notes --root . --param {bad}=1
    maintain no{bad}
    coverage no{bad}
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    """Build two corpora of hostile documents; return the folder with them and their sources."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "notes").mkdir()
    for name, text in NOTES.items():
        (folder / "notes" / name).write_text(text, encoding="utf-8")
    unreadable = os.fsencode(folder / "notes") + f"/bad{ESCAPES}".encode() + b"\xff.md"
    with open(unreadable, "wb") as file:  # noqa: PTH123 - a Path cannot have a name that is no UTF-8
        file.write(b"\xff\xfe keys")
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in ROWS), encoding="utf-8")
    cases = [{"query": f"keys {BAD}", "gold": ["a.md"]}, {"query": "zebra", "gold": []}]
    (folder / "cases.jsonl").write_text("".join(f"{json.dumps(case)}\n" for case in cases), encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRW_HOME", str(folder))
        assert main(["build", str(folder / "notes"), "--name", "hostile", "--embedder", "light"]) == 1
        assert main(["build", str(folder / "rows.jsonl"), "--embedder", "light"]) == 1
    return folder


@pytest.fixture
def run_safely(hostile, capsysbinary, monkeypatch):
    """Return a function that runs a command, checks that nothing acts, and returns the output."""
    monkeypatch.setenv("AIRW_HOME", str(hostile))
    monkeypatch.chdir(hostile)
    values = {
        "folder": f"{hostile}/notes",
        "cases": f"{hostile}/cases.jsonl",
        "row": ROWS[0]["id"],
        "file": f"x{ESCAPES}.md",
        "bad": f"{BAD}\nFORGED",
    }

    def run(command, *more):
        words = [word.format(**values) for word in command.split(" ")]
        capsysbinary.readouterr()
        with suppress(SystemExit):  # argparse leaves this way
            main([*words, *more])
        output = capsysbinary.readouterr()
        out, err = output.out.decode(), output.err.decode()
        assert ACTS.findall(out.replace("\r\n", "\n") + err) == []
        assert [line for line in err.splitlines() if not line.startswith("airw: ")] == []
        return out, err

    return run


@pytest.mark.parametrize(
    ("command", "form"), [(command, form) for command, forms in COMMANDS.items() for form in forms or [None]]
)
def test_nothing_that_a_command_prints_acts(run_safely, command, form):
    out, err = run_safely(command, *(["--format", form] if form else []))
    assert "unexpected" not in err
    assert out or "build" in command
    # What is one line stays one line: no title or name can forge a line of its own. Texts have lines of their own.
    if not command.startswith(("expand", "context", "discover hostile rows")) or form not in {"text", "records"}:
        assert not re.search(r"^\W*FORGED", out, re.MULTILINE)
    if form == "json":
        for line in out.splitlines():
            json.loads(line)


@pytest.mark.parametrize("command", [line.strip() for line in MISTAKES.strip().splitlines()])
def test_no_message_acts_and_each_is_one_line(run_safely, command):
    out, err = run_safely(command)
    assert out == ""
    assert len(err.splitlines()) == 1
    assert "unexpected" not in err


def test_json_reads_back_as_what_was_written(run_safely):
    hits = [json.loads(line) for line in run_safely("search rows keys --format json")[0].splitlines()]
    hit = next(hit for hit in hits if hit["artifact_id"] == ROWS[0]["id"])
    assert hit["metadata"]["title"] == ROWS[0]["title"]


def test_what_a_server_answers_cannot_act(run_safely, hostile, monkeypatch):
    alone(monkeypatch)
    with EmbeddingServer(always=status(400, {"error": {"message": f"bad {BAD}\nFORGED key"}})) as server:
        out, err = run_safely(f"build {hostile}/notes --name served --embedder {server.url}#m")
    assert "gnp.exe" in err
    assert len(err.splitlines()) == 1
    assert out == ""


def test_even_a_forgotten_print_or_a_warning_of_a_library_cannot_act(run_safely, monkeypatch, recwarn):
    async def careless(_):
        print(BAD)  # as code that nobody checked would
        print(f"airw: {BAD}", file=sys.stderr)
        return 0

    monkeypatch.setattr("airw.cli.corpora.ls", careless)
    out, err = run_safely("ls")
    assert "gnp.exe" in out
    assert "gnp.exe" in err
