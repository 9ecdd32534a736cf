"""The part of a text that matches a query, for one line of output."""

import re
from bisect import bisect_left
from collections import Counter

_WORD = re.compile(r"\w+")
_LONGEST_TEXT = 20_000  # characters to look at; a surface is rarely longer
_SHORTEST_STEM = 4


def find_snippet(text: str, query: str, *, width: int = 160) -> str:
    """Return the part of a text with most words of the query, on one line.

    Words with the same stem match, as a search finds "rotated" for "rotation". If no word matches, as in a search by
    meaning, it is the beginning of the text.

    Args:
        text: The text.
        query: The query.
        width: The length in characters at most, with the marks where the text goes on.

    Example:
        >>> find_snippet("Keys are long. We rotate all signing keys monthly.", "rotate signing keys", width=32)
        '… We rotate all signing keys …'
    """
    text = " ".join(text[:_LONGEST_TEXT].split())
    if len(text) <= width:
        return text
    spans = [match.span() for match in _WORD.finditer(text)]
    start = _best_start(text, spans, {word.casefold() for word in _WORD.findall(query)}, width - 4)
    return _cut(text, start, width)


def _best_start(text: str, spans: list[tuple[int, int]], wanted: set[str], width: int) -> int:
    """Return where the window begins that has most words of the query."""
    matches = [(start, end, word) for start, end in spans if (word := _match(text[start:end].casefold(), wanted))]
    best, best_start, best_end, first = (0, 0), 0, 0, 0
    inside: Counter[str] = Counter()
    for start, end, word in matches:
        inside[word] += 1
        while end - matches[first][0] > width and matches[first][0] < start:
            inside[matches[first][2]] -= 1
            first += 1
        value = (sum(count > 0 for count in inside.values()), inside.total())
        if value > best:
            best, best_start, best_end = value, matches[first][0], end
    # A few words before the match make it readable, if there is room for them.
    place = bisect_left(spans, (best_start, 0))
    before = [start for start, _ in spans[max(0, place - 3) : place] if best_end - start <= width]
    return before[0] if before else best_start


def _match(word: str, wanted: set[str]) -> str | None:
    if word in wanted:
        return word
    return next((each for each in wanted if _share_stem(word, each)), None)


def _share_stem(one: str, other: str) -> bool:
    shorter, longer = sorted((one, other), key=len)
    stem = max(_SHORTEST_STEM, len(shorter) - 2)
    return len(longer) - len(shorter) <= _SHORTEST_STEM and longer[:stem] == shorter[:stem]


def _cut(text: str, start: int, width: int) -> str:
    """Cut a text to whole words from `start` on, with marks where it goes on."""
    before = "… " if start else ""
    rest = text[start:]
    if len(before) + len(rest) <= width:
        return before + rest
    part = rest[: width - len(before) - 2]
    return f"{before}{part.rpartition(' ')[0] or part} …"
