"""Answers without what differs from run to run, short enough to be written down."""

import base64
import io
import json
import os
import re
import shlex
from contextlib import redirect_stderr, redirect_stdout

import numpy as np

from airw.cli import main

LONGEST = 60
VARYING = {
    "airw",
    "address",
    "bytes",
    "calls",
    "cosines",
    "elapsed_ms",
    "first_ms",
    "last_ms",
    "last",
    "maintained",
    "seconds",
    "version",
}
SENTENCES = {"detail", "description", "error", "explanation", "message", "reason"}
BRIEF = [
    "type",
    "rank",
    "source",
    "action",
    "corpus",
    "system",
    "direction",
    "artifact_id",
    "id",
    "record_id",
    "from",
    "to",
    "target",
    "hop",
    "depth",
    "parent",
    "name",
    "ref",
    "state",
    "score",
    "count",
    "query",
    "max_k",
    "rel",
    "min_score",
    "value",
    "level",
]


def plain(value, folder, *, whole=True):
    """Return a JSON value without what varies, and of long texts the beginning.

    Of a list of more than two objects, the first is whole, and of the others are the values that tell them apart. A
    sentence that explains something is only said to be there. Of arrays, the first numbers are left.
    """
    if isinstance(value, dict):
        if isinstance(value.get("base64"), str):
            return np.frombuffer(base64.b64decode(value["base64"]), value["dtype"])[:8].tolist()
        if not whole and (names := [key for key in BRIEF if value.get(key) is not None]):
            return [plain(value[key], folder) for key in names]
        return {key: plain_field(key, each, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [plain(each, folder, whole=len(value) <= 2 or at == 0) for at, each in enumerate(value)]
    return short(value.replace(str(folder), "FOLDER")) if isinstance(value, str) else value


def plain_field(name, value, folder):
    """Return the value of a field, or a fixed word if it varies or is a sentence."""
    if name in VARYING and value is not None and not isinstance(value, dict):
        return "*"
    if name in SENTENCES and isinstance(value, str) and " " in value:
        return "a sentence"
    return plain(value, folder)


def short(text):
    return text if len(text) <= LONGEST else f"{text[:40]}… ({len(text)})"


def brief(objects, folder):
    """Return the objects of a stream: the first of each type whole, the others brief."""
    seen, found = set(), []
    for each in objects:
        kind = each.get("type") if isinstance(each, dict) else None
        found.append(plain(each, folder, whole=kind is None or kind not in seen))
        seen.add(kind)
    return found


def json_row(line, folder):
    """Return the exit code of a command, its JSON objects, and its number of notes."""
    code, out, err = run_command(line)
    objects = parse_lines(out) if out else []
    return {"exit": code, "out": brief(order_progress(objects), folder), "err": len(err.splitlines())}


def order_progress(objects):
    """Return objects with the answers of corpora first, by name, as they come in any order."""
    answers = [each for each in objects if isinstance(each, dict) and each.get("type") == "progress"]
    rest = [each for each in objects if each not in answers]
    answers = [{"source": each["source"], "report": each["report"], "hits": each["hits"][:3]} for each in answers]
    return [*sorted(answers, key=lambda each: each["source"]), *rest]


def wrong_row(line, culprit):
    """Return the exit code of a wrong command, and the culprit if its one line names it."""
    code, out, err = run_command(line)
    return {"exit": code, "out": len(out), "err": len(err.splitlines()), "names": find_name(culprit, err)}


def find_name(word, message):
    """Return a word if a message has it as a whole word, else None."""
    return word if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", message) else None


def parse_lines(text):
    """Return the JSON values of an output: one a line, else the whole as one."""
    try:
        return [json.loads(line) for line in text.splitlines()]
    except ValueError:
        return [json.loads(text)]


def steady(text, folder):
    """Return a text of a command without folders, times and sizes."""
    text = text.replace(str(folder), "FOLDER")
    text = re.sub(r" +[\d.]+ m?s\b", " TIME", text)
    text = re.sub(r"(?m)^ +\d+\.\d(?=  )", "TIME", text)
    return re.sub(r"[\d.]+ MB\b", "SIZE", text)


def prepare_terminal(width=100):
    """Set a terminal of fixed width without colours, and no settings of the developer."""
    for name in ("CHAT", "CORPUS", "FETCHERS", "MODEL_DIR", "PROJECTS", "ALLOWED_ORIGINS", "ALLOWED_FOLDERS"):
        os.environ.pop(f"AIRW_{name}", None)
    os.environ |= {"COLUMNS": str(width), "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}


def run_command(line):
    """Run a command of `airw` in this process; return its exit code, its output and its notes."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(shlex.split(line))
        except SystemExit as stop:
            code = stop.code or 0
    return code, out.getvalue(), err.getvalue()
