"""Tokens in a file: how the operator hands them to `airw serve`."""

import json
import os
import stat
from dataclasses import fields
from pathlib import Path
from typing import Any

from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.serving.access import Token

_LONGEST = 1_000_000  # bytes


def read_tokens(path: str | os.PathLike[str]) -> list[Token]:
    """Return the tokens in a file: a JSON list of objects with the fields of `Token`.

    A value such as `"$ADA_TOKEN"` is that of the environment variable. No message contains a value.

    Args:
        path: The file. On POSIX systems, nobody but its owner may read or change it.

    Raises:
        ArgumentError: If others may read it, it is not such a list, or a token in it cannot be used.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     file = Path(folder, "tokens.json")
        ...     file.touch(mode=0o600)
        ...     _ = file.write_text('[{"value": "correct-horse-battery", "label": "ada", "read": ["notes"]}]')
        ...     read_tokens(file)
        [Token(label='ada', read=['notes'], write=[])]
    """
    file = Path(path)
    entries = _parse(file, _read(file))
    if not isinstance(entries, list) or not entries:
        raise ArgumentError(f"{_name(file)} must contain a JSON list of tokens, at least one")
    return [_token(file, number, entry) for number, entry in enumerate(entries, 1)]


def _read(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            # The mode of what is open: a path may name another file the next time.
            status = os.fstat(opened.fileno())
            if os.name == "posix" and stat.S_IMODE(status.st_mode) & 0o077:
                raise ArgumentError(f"{_name(file)} may be read by others; run: chmod 600 {file}")
            content = opened.read(_LONGEST + 1)
    except OSError as error:
        raise ArgumentError(f"{_name(file)} cannot be read: {error.strerror}") from error
    if len(content) > _LONGEST:
        raise ArgumentError(f"{_name(file)} must have at most {_LONGEST:,} bytes")
    return content


def _parse(file: Path, content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        # The message of the parser may contain what is in the file, and so would the error that caused this one.
        raise ArgumentError(f"{_name(file)} must contain a JSON list of tokens; it is not JSON") from None


def _token(file: Path, number: int, entry: Any) -> Token:
    at = f"token {number} in {_name(file)}"
    known = [field.name for field in fields(Token)]
    if not isinstance(entry, dict) or not entry.keys() <= set(known) or "value" not in entry:
        raise ArgumentError(f"{at} must be an object with value, and perhaps {', '.join(known[1:])}")
    value = entry["value"]
    if isinstance(value, str) and value.startswith("$"):
        value = os.environ.get(value[1:])
        if value is None:
            raise ArgumentError(f"{at} is {short_repr(entry['value'])}, and there is no such environment variable")
    try:
        return Token(**{**entry, "value": value})
    except ArgumentError as error:
        raise ArgumentError(f"{at}: {error}") from None


def _name(file: Path) -> str:
    return f"the token file {str(file)!r}"
