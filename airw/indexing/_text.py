"""The text of an artifact, and where to cut it."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from airw.errors import ArgumentError, SourceError
from airw.limits import check_count
from airw.values import Artifact, Surface, json_clean

_INK = re.compile(r"\S")
_WORD_START = re.compile(r"(?<=\s)\S")
# Where to cut, best first: blank lines, line ends, sentence ends, any white space.
_CUTS = tuple(map(re.compile, (r"\n[ \t\r]*\n", r"\n", r"[.!?…][\"'”’)\]]*\s|[。！？](?=.)", r"\s")))  # noqa: RUF001


def check_kind(kind: object, text_key: object = None) -> None:
    """Check a surface kind and a text key at birth."""
    if not isinstance(kind, str) or not kind:
        raise ArgumentError(f"kind must be a non-empty string, not {kind!r}")
    if text_key is not None and (not isinstance(text_key, str) or not text_key):
        raise ArgumentError(f"text_key must be a non-empty string or None, not {text_key!r}")


def check_window(chunk_size: object, overlap: object) -> None:
    """Check a chunk size and an overlap at birth."""
    size = check_count("chunk_size", chunk_size, least=1)
    if check_count("overlap", overlap) >= size:
        raise ArgumentError(f"overlap must be smaller than chunk_size ({chunk_size}), not {overlap}")


def text_of(artifact: Artifact, text_key: str | None = None) -> str:
    r"""Give an artifact's text: a string itself, UTF-8 bytes decoded, or what a mapping holds.

    Of a mapping: the field `text_key` where one is given (missing is blank), else its `text`, else its string values,
    one a line.

    Raises:
        SourceError: The raw value holds no text.

    Example:
        >>> text_of(Artifact("a", {"title": "T", "year": 1, "body": "B"}))
        'T\nB'
    """
    raw = artifact.raw
    if isinstance(raw, str):
        return raw
    if isinstance(raw, bytes):
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise SourceError(f"{artifact.id!r} holds bytes that are not UTF-8 at offset {error.start}") from error
    if isinstance(raw, Mapping):
        return _field_text(artifact.id, raw, text_key)
    wanted = "a string, UTF-8 bytes or a mapping of fields"
    raise SourceError(f"{artifact.id!r} is of type {type(raw).__name__}; the strategy reads {wanted}")


def _field_text(artifact_id: str, raw: Mapping[Any, Any], text_key: str | None) -> str:
    if text_key is None and "text" not in raw:
        return "\n".join(value for value in raw.values() if isinstance(value, str))
    key = text_key or "text"
    value = raw.get(key)
    if value is not None and not isinstance(value, str):
        raise SourceError(f"the field {key!r} of {artifact_id!r} must hold a string, not {type(value).__name__}")
    return value or ""


def clean_fields(artifact: Artifact) -> dict[str, Any]:
    """Give an artifact's metadata as filter fields that JSON can say."""
    fields: dict[str, Any] = json_clean(artifact.metadata)
    return fields


def chunk_surfaces(
    artifact_id: str, text: str, kind: str, *, chunk_size: int, overlap: int, begin: int = 0
) -> list[Surface]:
    """Make the chunk surfaces of `text[begin:]`, with their offsets in the whole `text`."""
    cuts = list(spans(text, chunk_size=chunk_size, overlap=overlap, begin=begin))
    return [
        Surface(
            artifact_id,
            kind,
            text[start:end],
            "chunk",
            {"chunk_index": index, "n_chunks": len(cuts), "start": start, "end": end},
        )
        for index, (start, end) in enumerate(cuts)
    ]


def spans(text: str, *, chunk_size: int, overlap: int, begin: int = 0) -> Iterator[tuple[int, int]]:
    """Yield `(start, end)` of chunks that hold every character of `text[begin:]` that is not white space.

    A chunk neither starts nor ends with white space and is at most `chunk_size` long; it starts at most `overlap`
    before its predecessor's end, after its start, and ends after its end.

    Example:
        >>> list(spans("one two three four", chunk_size=9, overlap=4))
        [(0, 7), (4, 13), (14, 18)]
    """
    last = begin + len(text[begin:].rstrip())
    start = fresh = _next_ink(text, begin, last)  # `fresh`: the first character that no chunk holds yet
    while fresh < last:
        end = last if last - start <= chunk_size else _cut(text, start, fresh, chunk_size, overlap)
        end = start + len(text[start:end].rstrip())
        yield start, end
        fresh = _next_ink(text, end, last)
        start = _overlapped(text, max(end - overlap, start + 1), end, fresh, chunk_size)


def _next_ink(text: str, position: int, last: int) -> int:
    found = _INK.search(text, position, last)
    return found.start() if found else last


def _cut(text: str, start: int, fresh: int, chunk_size: int, overlap: int) -> int:
    """Find the best cut in the second half of the window, past `fresh` and past the overlap."""
    low = max(start + max(chunk_size // 2, overlap + 1), fresh + 1)
    high = start + chunk_size
    for pattern in _CUTS:
        # One character more: white space right behind the window makes its last word a whole one.
        if ends := [found.end() for found in pattern.finditer(text, low, high + 1)]:
            return min(ends[-1], high)
    return high


def _overlapped(text: str, low: int, end: int, fresh: int, chunk_size: int) -> int:
    """Start the next chunk at the first word in `[low, end)`, leaving room for something fresh."""
    low = max(low, fresh + 1 - chunk_size)
    if low >= end:
        return fresh
    found = _WORD_START.search(text, low, end)
    if found:
        return found.start()
    return low if fresh == end else fresh  # half a word only where the cut itself went through it
