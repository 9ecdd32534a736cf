"""What an embeddings server said, read without trusting it: vectors, messages, and how long to wait."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from airw._vectors import unit_rows
from airw.errors import EmbedderError
from airw.values import Floats

_LONGEST_MESSAGE = 300


def rows_of(content: bytes, count: int, *, of: str) -> Floats:
    """Give the vectors of an answer as `(count, dim) float32` unit rows, in the order of the texts.

    Raises:
        EmbedderError: It is not an answer, or not one usable vector for each text. `of` names who answered.
    """
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EmbedderError(
            f"{of} answered with {_kind(content)}, not JSON: is that the base of the API, such as "
            "'http://localhost:8080/v1'?"
        ) from error
    items = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise EmbedderError(f"{of} answered with JSON that holds no list of vectors as 'data': {_shown(answer)}")
    _check_indices([item.get("index") for item in items], count, of=of)
    ordered = sorted(items, key=lambda item: item["index"])
    rows = unit_rows([item.get("embedding") for item in ordered], count=count, of=of)
    if not rows.shape[1]:
        raise EmbedderError(f"{of} answered with empty vectors")
    return rows


def message_of(content: bytes) -> str:
    """Give what a server says went wrong, whatever shape it says it in."""
    try:
        said = _said(json.loads(content))
    except (ValueError, RecursionError):
        page = content.lstrip().startswith(b"<")
        said = _kind(content) if page or not content.strip() else content.decode(errors="replace")
    return " ".join(said.split()) or "no reason given"


def cut(text: str) -> str:
    """Give a message at a length that an error can carry."""
    return text if len(text) <= _LONGEST_MESSAGE else f"{text[: _LONGEST_MESSAGE - 1]}…"


def retry_after(value: str | None, now: datetime) -> float | None:
    """Give the seconds that a `Retry-After` header asks for, as a number or a date; `None` where it does not."""
    from email.utils import parsedate_to_datetime

    given = (value or "").strip()
    if given.isascii() and given.isdigit():
        return float(given)
    try:
        date = parsedate_to_datetime(given)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


def _check_indices(given: list[Any], count: int, *, of: str) -> None:
    """Make sure that there is exactly one vector for each text."""
    if len(given) != count:
        raise EmbedderError(f"{of} answered with {len(given)} vectors for {count} texts")
    wrong = [index for index in given if type(index) is not int or not 0 <= index < count]
    if wrong:
        raise EmbedderError(f"{of} answered with a vector of index {_shown(wrong[0])} for {count} texts")
    index, times = Counter(given).most_common(1)[0]
    if times > 1:
        missing = min({*range(count)}.difference(given))
        raise EmbedderError(f"{of} answered with {times} vectors of index {index}, and none of index {missing}")


def _said(value: Any) -> str:
    """Find the message inside an error of OpenAI's shape, or of the shapes that other servers use."""
    if isinstance(value, list):
        return _said(value[0]) if value else ""
    if isinstance(value, dict):
        return next((_said(value[key]) for key in ("message", "error", "detail", "msg") if value.get(key)), "")
    return value if isinstance(value, str) else ""


def _kind(content: bytes) -> str:
    start = content.lstrip()[:1]
    if not start:
        return "nothing"
    return {b"<": "an HTML page", b"{": "half an answer", b"[": "half an answer"}.get(start, "plain text")


def _shown(value: Any) -> str:
    return cut(" ".join(_said(value).split()) or type(value).__name__) if isinstance(value, dict) else cut(repr(value))
