"""What a server said, read without trusting it: items, messages, and how long to wait."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from airw._base.messages import one_line, short_repr
from airw.errors import AirwError


def decode_json(content: bytes, *, of: str, error: type[AirwError]) -> Any:
    """Return the JSON of an answer.

    Raises:
        AirwError: It is none; of the kind `error`, where `of` names who answered.
    """
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as cause:
        raise error(
            f"{of} answered with {_kind(content)}, not JSON: is that the base of the API, such as "
            "'http://localhost:8080/v1'?"
        ) from cause


def order_by_index(
    items: Sequence[dict[str, Any]], count: int, *, noun: str, of: str, error: type[AirwError]
) -> list[dict[str, Any]]:
    """Return the items of an answer in the order of the texts, which each one's `index` tells.

    Raises:
        AirwError: There is not exactly one for each text; of the kind `error`, where `of` names who answered with what.
    """
    given = [item.get("index") for item in items]
    if len(given) != count:
        raise error(f"{of} answered with {len(given)} {noun}s for {count} texts")
    wrong = [index for index in given if type(index) is not int or not 0 <= index < count]
    if wrong:
        raise error(f"{of} answered with a {noun} of index {describe_reply(wrong[0])} for {count} texts")
    index, times = Counter(given).most_common(1)[0]
    if times > 1:
        missing = min({*range(count)}.difference(given))
        raise error(f"{of} answered with {times} {noun}s of index {index}, and none of index {missing}")
    return sorted(items, key=lambda item: item["index"])


def message_of(content: bytes) -> str:
    """Return what a server says went wrong, whatever shape it says it in."""
    try:
        said = _said(json.loads(content))
    except (ValueError, RecursionError):
        page = content.lstrip().startswith(b"<")
        said = _kind(content) if page or not content.strip() else content.decode(errors="replace")
    return " ".join(said.split()) or "no reason given"


def describe_reply(value: Any) -> str:
    """Return what a part of an answer says, on one line: its message where it is an error."""
    return one_line(_said(value)) or type(value).__name__ if isinstance(value, dict) else short_repr(value)


def retry_after(value: str | None, now: datetime) -> float | None:
    """Return the seconds that a `Retry-After` header asks for, as a number or a date; `None` where it does not."""
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
