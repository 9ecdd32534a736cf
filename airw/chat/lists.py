"""A list, as a language model writes it."""

import json
import re

__all__ = ["bare", "lines_of"]

_FENCE = re.compile(r"```[\w-]*|~~~[\w-]*")
_MARKER = re.compile(r"(?:[-*+•–]|\(?\d{1,3}[.)])\s+")  # noqa: RUF001
_QUOTES = {'"': '"', "'": "'", "`": "`", "“": "”", "„": "“", "«": "»", "**": "**"}


def lines_of(answer: str) -> list[str]:
    r"""Give the items of a list, one a line or a JSON list of strings, as they stand, without blank ones and fences.

    A first line that ends with a colon only announces the others.

    Example:
        >>> lines_of("Here you are:\n```\n- keys\n2. 'key rotation'\n```")
        ['- keys', "2. 'key rotation'"]
        >>> lines_of('["keys", "key rotation"]')
        ['keys', 'key rotation']
    """
    lines = [line.strip() for line in answer.splitlines()]
    lines = [line for line in lines if line and not _FENCE.fullmatch(line)]
    if lines and lines[0].endswith(":") and len(lines) > 1:
        del lines[0]
    items = _decoded("\n".join(lines))
    return lines if items is None else [item.strip() for item in items if item.strip()]


def bare(line: str) -> str:
    """Give an item of a list without its number or bullet, and without quotes around it.

    Example:
        >>> bare("1. “key rotation”"), bare("- `keys.md`"), bare("3.5 mm jack")
        ('key rotation', 'keys.md', '3.5 mm jack')
    """
    item = _MARKER.sub("", line, count=1) if _MARKER.match(line) else line
    for opening, closing in _QUOTES.items():
        inner = item.removeprefix(opening).removesuffix(closing)
        if len(inner) == len(item) - len(opening) - len(closing) and closing not in inner:
            return inner.strip()
    return item.strip()


def _decoded(text: str) -> list[str] | None:
    """Give the strings of a JSON list; `None` where it is none."""
    try:
        items = json.loads(text) if text.startswith("[") else None
    except (ValueError, RecursionError):
        return None
    return items if isinstance(items, list) and all(isinstance(item, str) for item in items) else None
