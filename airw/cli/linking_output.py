"""What the commands that follow links print, or write to a file."""

import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airw.cli.link_list import ListedLink, unresolved_dict, unresolved_line
from airw.links import GraphDiagnosis
from airw.values import UnresolvedLink
from airw.views.records import token

__all__ = ["Sink", "checked", "json_document", "link_list", "say"]

_WIDE = re.compile(r"[^\x00-\x7f]")


class Sink:
    """Takes the parts of a document: prints each at once, or keeps them for a file."""

    def __init__(self, file: str | None) -> None:
        """Print, unless there is a file."""
        self._file = file
        self._parts: list[str] = []

    def put(self, text: str) -> None:
        """Take the next part, as it is."""
        if self._file is None:
            say(text)
        else:
            self._parts.append(text)

    def close(self) -> None:
        """Write the file, where there is one, in place of what it held."""
        if self._file is not None:
            Path(self._file).write_text("".join(self._parts), encoding="utf-8", newline="\n")


def say(text: str) -> None:
    """Print text at once, without a newline of its own; where the terminal has not all of its characters, escaped."""
    try:
        text.encode(sys.stdout.encoding or "utf-8", "strict")
    except UnicodeEncodeError:
        text = _WIDE.sub(lambda found: json.dumps(found[0])[1:-1], text)  # what JSON takes, too
    print(text, end="", flush=True)


def json_document(value: Any) -> str:
    """Give a value as JSON on one line."""
    return f"{json.dumps(value, ensure_ascii=False, allow_nan=False)}\n"


def link_list(id: str, direction: str, links: Sequence[ListedLink], form: str) -> None:
    """Print the links of one document."""
    if form == "json":
        say(json_document([link.to_dict() for link in links]))
    elif form == "records":
        header = f"H airw=1 records=1 mode=link.list id={token(id)} direction={direction} truncated=false"
        say("".join(f"{line}\n" for line in (header, *(link.record for link in links))))
    else:
        say("".join(f"{link.text}\n" for link in links) or "no links found\n")


def checked(name: str, found: GraphDiagnosis, unresolved: Sequence[UnresolvedLink] | None, form: str) -> None:
    """Print what a graph is like, and the links that lead nowhere, where they were asked for."""
    if form == "json":
        told = {} if unresolved is None else {"unresolved": [unresolved_dict(each) for each in unresolved]}
        say(json_document({"type": "check", "name": name, **found.to_dict(), **told}))
        return
    say(f"{found}\n")
    for each in unresolved or ():
        say(f"{unresolved_line(each)}\n")
