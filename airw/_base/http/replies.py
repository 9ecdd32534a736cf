"""Reading the answers of servers, which are not trusted."""

import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from airw._base.messages import escape_controls, one_line, short_repr
from airw.errors import AirwError


def decode_json(content: bytes, *, of: str, error: type[AirwError]) -> Any:
    """Return the JSON of an answer.

    Args:
        content: The body of the answer.
        of: The name of the server in error messages.
        error: The type of the error.

    Raises:
        AirwError: If the body is not JSON; of type `error`.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as cause:
        raise error(
            f"{of} answered with {_describe_content(content)}, not JSON; check that url is the base of the API, "
            "such as 'http://localhost:8080/v1'"
        ) from cause


def read_items(
    content: bytes, count: int, *, key: str, noun: str, of: str, error: type[AirwError], is_ordered: bool
) -> list[dict[str, Any]]:
    """Return the items of an answer in JSON, sorted by `index`, the position of their text.

    An item without an index has the index 0, which JSON of protobuf leaves out, if no other item has it.

    Args:
        content: The body of the answer: a list of items, or an object that has it under `key`.
        count: The number of texts in the request.
        key: The name of the list.
        noun: The name of an item in error messages.
        of: The name of the server in error messages.
        error: The type of the error.
        is_ordered: Whether items that all lack an index are in the order of the texts; otherwise that is an error.

    Raises:
        AirwError: If there is not exactly one item for each text; of type `error`.
    """
    answer = decode_json(content, of=of, error=error)
    items = answer.get(key) if isinstance(answer, dict) else answer
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise error(f"{of} answered with JSON without a list of {noun}s as {key!r}: {describe_reply(answer)}")
    indexes: list[Any] = [item.get("index") for item in items]
    if len(indexes) != count:
        raise error(f"{of} answered with {len(indexes)} {noun}s for {count} texts")
    if is_ordered and indexes.count(None) == count:
        return items
    if indexes.count(None) == 1 and 0 not in indexes:
        indexes[indexes.index(None)] = 0
    wrong = [index for index in indexes if type(index) is not int or not 0 <= index < count]
    if wrong:
        raise error(f"{of} answered with a {noun} of index {describe_reply(wrong[0])} for {count} texts")
    index, times = Counter(indexes).most_common(1)[0]
    if times > 1:
        missing = min({*range(count)}.difference(indexes))
        raise error(f"{of} answered with {times} {noun}s of index {index}, and none of index {missing}")
    return [items[place] for place in sorted(range(count), key=indexes.__getitem__)]


def message_of(content: bytes) -> str:
    """Return the message of an error answer, in JSON of several shapes or in plain text."""
    try:
        message = _find_message(json.loads(content))
    except (ValueError, RecursionError):
        is_page = content.lstrip().startswith(b"<")
        message = _describe_content(content) if is_page or not content.strip() else content.decode(errors="replace")
    return escape_controls(" ".join(message.split())) or "no reason given"


def describe_reply(value: Any) -> str:
    """Return a part of an answer on one line for a message: its error text if it has one."""
    if isinstance(value, dict):
        return one_line(_find_message(value)) or type(value).__name__
    return short_repr(value)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds in a `Retry-After` header, a number or a date, or `None`."""
    from email.utils import parsedate_to_datetime

    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    aware = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (aware - now).total_seconds())


def _find_message(value: Any) -> str:
    """Return the message in an error as OpenAI or other servers shape it, else `""`."""
    if isinstance(value, list):
        return _find_message(value[0]) if value else ""
    if isinstance(value, dict):
        return next((_find_message(value[key]) for key in ("message", "error", "detail", "msg") if value.get(key)), "")
    return value if isinstance(value, str) else ""


def _describe_content(content: bytes) -> str:
    start = content.lstrip()[:1]
    if not start:
        return "nothing"
    return {b"<": "an HTML page", b"{": "half an answer", b"[": "half an answer"}.get(start, "plain text")
