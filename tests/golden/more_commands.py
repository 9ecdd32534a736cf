"""The command line: corpora, links, evaluation, options, texts, and whole processes.

A row is a command as it is typed; `tests/golden/commands.py` has those that find.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx

from tests.support.chat_server import ChatServer
from tests.support.dozen import prepare_library, write_library
from tests.support.plain_answers import (
    brief,
    json_row,
    parse_lines,
    plain,
    prepare_terminal,
    run_command,
    steady,
    wrong_row,
)
from tests.support.serve_command import run_serve

PARTS = ("corpora", "evaluating", "links", "options", "processes", "texts", "wrong")
WAYS = ("here",)
QUICK = ()

ROOT = Path(__file__).parents[2]
KEYS = '"rotate signing keys"'
JSON = " --format json"

# Each command works on what those before it have left. `write` and `delete` are no commands: they change a file.
CORPORA = """
ls
build notes --embedder light
build notes
write notes/new.md
coverage notes --format json
maintain --dry-run --format json
maintain --format json
coverage notes --format json
delete notes/new.md
coverage notes --format json
build notes --no-prune
build notes
info notes --format json
info notes --check
build manuals.jsonl --embedder light --language none
info manuals --format json
ls
register shelf notes --root notes --embedder light --strategy Chunked --every-hours 6
info shelf --format json
coverage shelf --format json
build shelf
search shelf vault -k 2 --format json
register lines jsonl --root manuals.jsonl --param text_key=text --window 22:00-06:00
info lines --format json
ls
rm lines
register files files --root notes --pattern '\\.md$' --reindex-on manual --embedder light
maintain files --format json
maintain --dry-run --format json
copy notes copy.airw
copy notes copy.airw
copy notes copy.airw --force
search copy.airw vault -k 1 --format json
restore second copy.airw
search second vault -k 1 --format json
restore third nothing.airw
write notes/latin.md
build notes -v
delete notes/latin.md
build notes --force
rm second
rm second
rm shelf
ls
completion bash
completion zsh
completion fish
""".strip().splitlines()
FILES = {"notes/new.md": b"# New\n\nA new note about the vault.\n", "notes/latin.md": b"caf\xe9"}

EVALUATING = [
    "calibrate notes cases.jsonl",
    "calibrate notes cases.jsonl -m lexical --sensitivity-weight 0.8",
    "calibrate notes cases.jsonl --save",
    f"discover notes {KEYS} --min-score auto",
    "info notes",
    "eval notes cases.jsonl",
    "eval notes cases.jsonl --rows -m lexical",
    "eval notes cases.jsonl --policy 'beam width=4' --measures recall@5,mrr@10",
    "eval notes cases.jsonl --policy eager --node-budget 3 --fill",
    "compare notes cases.jsonl --policy beam --measures recall@5",
    "compare notes cases.jsonl --policy beam --policy eager --measures ndcg@10",
    "eval-select notes cases.jsonl",
    "eval-select notes cases.jsonl --strategy top_k --max-k 2",
    "eval-select notes cases.jsonl --min-score 0.17",
    "sweep-select notes cases.jsonl",
    "sweep-select notes cases.jsonl -o selection_recall -m lexical",
]

LINKS = [
    "link tree -c notes index.md -d out --max-hops 1",
    "link tree -c notes keys.md -d in",
    "link tree -c notes keys.md --type supports",
    "link tree -c notes keys.md --type holds --inverse part-of=holds",
    "link tree -c notes keys.md --exclude-type related --no-inverses",
    "link tree -c notes keys.md --inline-only --max-hops 1",
    "link tree -c notes index.md --max-nodes 2",
    "link tree -c notes index.md --max-edges 1",
    "link tree -c notes index.md --max-fanout 1",
    "link tree -c notes index.md --timeout 0",
    "link tree -c notes lone.md food/soup.md -d out",
    "link tree -c notes 'turning keys' --max-hops 1",
    "link path -c notes index.md food/soup.md",
    "link path -c notes index.md vault.md -d out",
    "link path -c notes index.md vault.md --weighted",
    "link path -c notes index.md lone.md",
    "link path -c notes index.md vault.md --max-hops 1 -d out",
    "link list -c notes keys.md",
    "link list -c notes wallets.md -d out",
    "link check notes -v",
    "link check notes --strict",
    "context -c notes --note keys.md --note lone.md",
    "context -c notes --walk index.md --max-hops 1 -d out",
    "context -c notes --query 'flour and salt' -k 2",
]

TEXTS = [
    "--help",
    "ls",
    "build notes",
    "info notes",
    "coverage notes -v",
    f"search notes {KEYS} -k 3",
    "search notes zzz -m lexical",
    f"traverse notes {KEYS} --node-budget 4",
    f"discover notes {KEYS}",
    "discover notes zzz -m lexical",
    f"discover notes {KEYS} --max-k 1 --disclose body --root notes",
    "expand notes keys.md",
    "link tree -c notes index.md",
    "link path -c notes index.md food/soup.md",
    "link list -c notes keys.md",
    "link check notes -v",
    "context -c notes --walk keys.md --max-hops 1 -d out",
    "context -c notes --note keys.md --format records",
    "eval-select notes cases.jsonl",
    "search nots keys",
]

COMMANDS = """
build register maintain coverage ls info copy restore rm search traverse discover expand calibrate eval compare
eval-select sweep-select eval-gen link:tree link:path link:list link:check context serve mcp completion
"""

WRONG = [
    ("build", "SOURCE"),
    ("build nowhere/", "nowhere"),
    ("build nothing", "nothing"),
    ("build empty/ --embedder light", "empty"),
    ("build cases.txt", "cases.txt"),
    ("build notes --embedder ''", "--embedder"),
    ("build notes --language de", "--language"),
    ("build notes --name ../x --embedder light", "../x"),
    ("build notes --store nowhere", "nowhere"),
    ("build empty --name notes", "empty"),
    ("register x", "KIND"),
    ("register x notez --root .", "notez"),
    ("register x notes", "--root"),
    ("register x notes --root . --param depth=3", "depth"),
    ("register x notes --root . --param pattern", "--param"),
    ("register x notes --root . --pattern '('", "--pattern"),
    ("register x notes --root . --strategy Nope", "Nope"),
    ("register x notes --root . --window 25:00-", "--window"),
    ("register x notes --root . --every-hours 0", "--every-hours"),
    ("register x notes --root . --reindex-on never", "--reindex-on"),
    ("register x records --param fetcher=os:listdir", "AIRW_FETCHERS"),
    ("maintain nots", "nots"),
    ("coverage nots", "nots"),
    ("info nots", "nots"),
    ("info notes -c manuals", "notes"),
    ("info", "notes"),
    ("copy notes", "TARGET"),
    ("copy nots copy.airw", "nots"),
    ("restore notes nothing.airw", "nothing.airw"),
    ("rm", "CORPUS"),
    ("rm nots", "nots"),
    ("rm ./notes", "./notes"),
    ("ls notes", "notes"),
    ("calibrate notes nothing.jsonl", "nothing.jsonl"),
    ("calibrate notes cases.jsonl --sensitivity-weight 2", "--sensitivity-weight"),
    ("eval notes", "CASES.jsonl"),
    ("eval notes nothing.jsonl", "nothing.jsonl"),
    ("eval notes manuals.jsonl", "query"),
    ("eval notes cases.jsonl --policy nope", "--policy"),
    ("eval notes cases.jsonl --policy 'beam width'", "--set"),
    ("eval notes cases.jsonl --measures f1", "f1"),
    ("eval notes cases.jsonl --node-budget 0", "--node-budget"),
    ("compare notes cases.jsonl --policy beam --policy beam", "--policy"),
    ("compare notes cases.jsonl --policy beam --promote", "--rerank"),
    ("eval-select notes cases.jsonl --strategy best", "--strategy"),
    ("sweep-select notes cases.jsonl -o speed", "--objective"),
    ("eval-gen notes made.jsonl", "AIRW_CHAT"),
    ("eval-gen notes cases.jsonl --model http://127.0.0.1:9/v1#m", "cases.jsonl"),
    ("search notes keys --rerank bm25", "bm25"),
    ("search 'postgresql://ada:secret@db/kb' keys", "password"),
    ("serve nots", "nots"),
    ("serve notes --host 0.0.0.0", "--host"),
    ("serve notes --port 70000", "--port"),
    ("serve notes --limit max_k=0", "--limit"),
    ("serve notes --limit k=1", "--limit"),
    ("serve notes --write drafts", "drafts"),
    ("serve notes --tokens none.json", "none.json"),
    ("serve notes --tokens none.json --no-tokens", "--no-tokens"),
    ("serve notes --rerank bm25", "bm25"),
    ("mcp nots", "nots"),
    ("mcp notes --port 8001", "--port"),
    ("mcp notes --http --host 0.0.0.0", "--host"),
    ("completion powershell", "powershell"),
]

PROCESSES = [
    "--version",
    "ls",
    f"search notes {KEYS} -k 2 --format json",
    f"discover notes {KEYS} --format json",
    f"traverse notes {KEYS} --node-budget 4 --format json",
    "link tree -c notes keys.md --max-hops 1 --format json",
    "search nots keys",
    "search notes keys --kk 3",
]


def record(part, way, folder):
    return globals()[f"record_{part}"](folder)


def record_corpora(folder):
    """Return the rows of commands that change corpora, each with its place in the order."""
    prepare_terminal()
    write_library(folder)
    rows = {}
    for at, line in enumerate(CORPORA):
        action, _, name = line.partition(" ")
        if action == "write":
            (folder / name).write_bytes(FILES[name])
        elif action == "delete":
            (folder / name).unlink()
        else:
            rows[f"{at:02} {line}"] = json_row(line, folder) if line.endswith(JSON) else counts_row(line, folder)
    return rows


def counts_row(line, folder):
    """Return the exit code of a command without JSON, its numbers, and its lines."""
    code, out, err = run_command(line)
    counts = re.findall(r"\b\d+ [a-z]+\b", steady(out, folder)) if line.startswith(("build", "ls")) else []
    return {"exit": code, "counts": counts, "out": len(out.splitlines()), "err": len(err.splitlines())}


def record_evaluating(folder):
    prepare_library(folder)
    rows = {line: json_row(line + JSON, folder) for line in EVALUATING}
    with ChatServer(lambda prompt: "one\ntwo" if "hidden" in prompt else "three") as server:
        line = f"eval-gen notes made.jsonl -k 1 --model {server.spec} --max-artifacts 2"
        rows["eval-gen notes made.jsonl -k 1 --max-artifacts 2"] = json_row(line + JSON, folder)
    rows["made.jsonl of eval-gen"] = [plain(each, folder) for each in parse_lines((folder / "made.jsonl").read_text())]
    return rows


def record_links(folder):
    prepare_library(folder)
    return {line: json_row(line + JSON, folder) for line in LINKS}


def record_texts(folder):
    prepare_library(folder)
    return {line: text_row(run_command(line), folder) for line in TEXTS}


def text_row(ended, folder):
    code, out, err = ended
    return {"exit": code, "out": steady(out, folder).splitlines(), "err": steady(err, folder).splitlines()}


def record_options(folder):
    """Return the options that the help of each command lists, with choices and defaults."""
    prepare_terminal()
    rows = {}
    for name in COMMANDS.split():
        command = name.replace(":", " ")
        code, out, _ = run_command(f"{command} --help")
        _, _, options = out.partition("\noptions:\n")
        blocks = re.split(r"\n  (?=-)", options.partition("\n\n")[0])
        rows[command] = {"exit": code, **dict(map(option_of, blocks))}
    return rows


def option_of(block):
    """Return the names of an option, and its choices and default."""
    head, words = re.split(r" {2,}|\n", block.strip(), maxsplit=1)[0], " ".join(block.split())
    names = " ".join(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", head))
    choices = re.search(r"\{([^}]*)\}", head)
    default = re.search(r"[;:(] ?default:? (\S+)$", words)
    return names, [found[1] if found else None for found in (choices, default)]


def record_wrong(folder):
    prepare_library(folder)
    (folder / "empty").mkdir()
    (folder / "cases.txt").write_text("no cases", encoding="utf-8")
    return {line: wrong_row(line, culprit) for line, culprit in WRONG}


def record_processes(folder):
    """Return the rows of commands that are processes of their own, as a shell starts them."""
    prepare_library(folder)
    rows = {}
    for line in PROCESSES:
        ended = run_process(line)
        objects = line.endswith(JSON) and brief(parse_lines(ended[1]), folder)
        rows[line] = (
            {"exit": ended[0], "out": objects, "err": len(ended[2].splitlines())}
            if objects
            else text_row(ended, folder)
        )
    rows["--version"]["out"] = [re.sub(r"\d+(\.\w+)+", "VERSION", each) for each in rows["--version"]["out"]]
    reading = f"search notes {KEYS} | head -n 1"
    rows[reading] = text_row(run_process(f"search notes {KEYS}", tail="| head -n 1"), folder)
    with run_serve("notes") as server:
        answer = httpx.post(f"{server.url}search", json={"corpus": "notes", "query": "rotate signing keys", "k": 1})
        rows["serve notes: POST /search"] = [answer.status_code, [hit["artifact_id"] for hit in answer.json()["hits"]]]
        server.process.terminate()
        rows["serve notes: ended by a signal"] = server.process.wait(60)
    return rows


def run_process(line, tail=""):
    """Run a command by a shell; return its exit code, its output and its notes."""
    command = shlex.join([sys.executable, "-m", "airw", *shlex.split(line)])
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(
        ["bash", "-o", "pipefail", "-c", f"{command} {tail}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        env=environment,
        timeout=600,
        check=False,
    )
    return ended.returncode, ended.stdout, ended.stderr
