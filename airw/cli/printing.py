"""Prints text so that no control character in it acts on the terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import Any, TextIO, cast

from airw._base.messages import escape_controls


class EscapingStream:
    """A text stream that writes control characters as escapes, and keeps line ends and tabs.

    What the encoding of the stream lacks is escaped, too. The escapes are those of JSON, so JSON stays the same JSON.

    Args:
        beneath: The stream to write to.
    """

    def __init__(self, beneath: TextIO) -> None:
        self.beneath = beneath

    def write(self, text: str) -> int:
        """Write a text, escaped, and return its length."""
        self.beneath.write(_encodable(escape_controls(text, multiline=True), self.beneath.encoding or "utf-8"))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        """Return anything else from the stream beneath, such as `flush` or `isatty`."""
        return getattr(self.beneath, name)


def _encodable(text: str, encoding: str) -> str:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        import json

        # Only what the encoding lacks: a text may hold much that it has.
        return "".join(char if _is_encodable(char, encoding) else json.dumps(char)[1:-1] for char in text)
    return text


def _is_encodable(character: str, encoding: str) -> bool:
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


@contextmanager
def escape_output() -> Iterator[None]:
    """Escape whatever anyone prints meanwhile, on stdout and stderr."""
    out, err = (cast("TextIO", EscapingStream(stream)) for stream in (sys.stdout, sys.stderr))
    with redirect_stdout(out), redirect_stderr(err):
        yield


def print_line(text: str = "") -> None:
    """Print one line at once; a line end inside it is escaped, too."""
    write(f"{escape_controls(text)}\n")


def print_note(text: str) -> None:
    """Print one line on stderr, after the name of the program."""
    sys.stderr.write(escape_controls(f"airw: {text}") + "\n")
    sys.stderr.flush()


def write(text: str) -> None:
    """Print text of any number of lines at once, without adding a newline."""
    sys.stdout.write(text)
    sys.stdout.flush()
