"""Edge extractors as JSON and back: the settings of a corpus contain its extractor."""

import json
import re
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from airw._base.specs import from_spec, spec_of
from airw.errors import ArgumentError
from airw.links.fields import DependencyLinks
from airw.links.markdown import MarkdownLinks
from airw.links.mentions import MentionFinder, TitleMentions
from airw.links.shared_names import SharedNameFinder, SharedNames
from airw.protocols import EdgeExtractor

_MAX_JSON = 1 << 25  # bytes of titles as JSON: about 400,000 notes; a few kilobytes in a file could unpack to more
_MAX_COUNT = 1_000_000  # titles or names
# One object whose values are texts: nothing nests, so that reading it takes little more memory than its size.
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT_JSON = re.compile(rb"\{(?:%b: %b(?:, |(?=\})))*+\}" % (_TEXT, _TEXT))


def extractor_spec(extractor: object) -> dict[str, Any] | None:
    """Return an extractor as JSON, or `None` if that is not possible.

    It is not possible for a function, an extractor within too many others, or more than 32 MB of titles or names.

    `extractor_from_spec` makes an equal extractor from it.

    Example:
        >>> spec = extractor_spec(MarkdownLinks(fields=["links"]))
        >>> spec["name"], spec["params"]["fields"]
        ('MarkdownLinks', ['links'])
    """
    if not isinstance(extractor, SharedNames | SharedNameFinder):
        return _mentions_spec(extractor)
    params: dict[str, Any] = {"inner": _mentions_spec(extractor.inner), "type": extractor.type}
    if isinstance(extractor, SharedNames):
        params["rare"] = extractor.rare
    else:
        params["names"] = _encode_notes(extractor.names)
    return _make_spec(extractor, {**params, "weight": extractor.weight})


def _mentions_spec(extractor: object) -> dict[str, Any] | None:
    """Return the specification of an extractor that `SharedNames` may contain."""
    if not isinstance(extractor, TitleMentions | MentionFinder):
        return spec_of(extractor, _INNER)
    params: dict[str, Any] = {"inner": spec_of(extractor.inner, _INNER), "type": extractor.type}
    if isinstance(extractor, MentionFinder):
        params["titles"] = _encode_notes(extractor.titles)
    else:
        params["min_chars"] = extractor.min_chars
        params["max_share"] = extractor.max_share
        params["shared"] = extractor.shared
    return _make_spec(extractor, {**params, "cased": extractor.cased})


def _make_spec(extractor: object, params: dict[str, Any]) -> dict[str, Any] | None:
    return None if None in params.values() else {"name": type(extractor).__name__, "params": params}


def extractor_from_spec(spec: Mapping[str, Any]) -> EdgeExtractor:
    """Return the extractor that a specification describes.

    Args:
        spec: `{"name": …, "params": {…}}`. Missing parameters have their default.

    Raises:
        ArgumentError: If there is no extractor of that name, or `spec` or a parameter is not valid. A specification
            comes from a file, so it may be a stranger's: titles are read up to 32 MB.

    Example:
        >>> extractor_from_spec({"name": "MarkdownLinks"}) == MarkdownLinks()
        True
    """
    return from_spec(spec, _KNOWN, "edge extractor")


def _title_mentions(**params: Any) -> TitleMentions:
    inner = params.pop("inner", {"name": "MarkdownLinks"})
    return TitleMentions(inner=_inner_from_spec(inner), **params)


def _mention_finder(*, inner: Mapping[str, Any], type: str, titles: str, cased: bool = False) -> MentionFinder:
    return MentionFinder(_inner_from_spec(inner), type, _decode_notes(titles, "titles of MentionFinder"), cased)


def _make_shared_names(**params: Any) -> SharedNames:
    inner = params.pop("inner", {"name": "MarkdownLinks"})
    return SharedNames(inner=from_spec(inner, _MENTIONS, "inner edge extractor"), **params)


def _make_name_finder(*, inner: Mapping[str, Any], type: str, weight: float, names: str) -> SharedNameFinder:
    known = _decode_notes(names, "names of SharedNameFinder")
    return SharedNameFinder(from_spec(inner, _MENTIONS, "inner edge extractor"), type, weight, known)


def _inner_from_spec(spec: Mapping[str, Any]) -> EdgeExtractor:
    # Of one level only: a stranger's specification could nest deeper than Python's stack.
    return from_spec(spec, _INNER, "inner edge extractor")


def _encode_notes(notes_by_name: Mapping[str, Sequence[str]]) -> str | None:
    """Return titles or names in about 20 characters each; `None` if too many."""
    text = json.dumps({name: "\0".join(notes) for name, notes in notes_by_name.items()}).encode()  # ids have no NUL
    is_short = len(text) <= _MAX_JSON and len(notes_by_name) <= _MAX_COUNT
    return b85encode(zlib.compress(text)).decode() if is_short else None


def _decode_notes(encoded: str, label: str) -> dict[str, list[str]]:
    try:
        joined: dict[str, str] = json.loads(_decompress(b85decode(encoded[: _MAX_JSON + 1])))
        return {name: notes.split("\0") if notes else [] for name, notes in joined.items()}
    except (ValueError, TypeError, zlib.error) as error:
        raise ArgumentError(f"the stored {label} cannot be read; build the corpus again") from error


def _decompress(packed: bytes) -> bytes:
    """Return the JSON of titles or names.

    Raises:
        ValueError: If it is too large, incomplete, or no mapping of texts to texts.
    """
    unpacking = zlib.decompressobj()
    text = unpacking.decompress(packed, _MAX_JSON)
    if not unpacking.eof:
        raise ValueError("they are too large or incomplete")
    if not _FLAT_JSON.fullmatch(text) or text.count(b'": "') > _MAX_COUNT:
        raise ValueError("they are too many, or no mapping of texts to texts")
    return text


_INNER: dict[str, Callable[..., EdgeExtractor]] = {
    "MarkdownLinks": MarkdownLinks,
    "DependencyLinks": DependencyLinks,
}
_MENTIONS: dict[str, Callable[..., EdgeExtractor]] = {
    **_INNER,
    "MentionFinder": _mention_finder,
    "TitleMentions": _title_mentions,
}
_KNOWN: dict[str, Callable[..., EdgeExtractor]] = {
    **_MENTIONS,
    "SharedNameFinder": _make_name_finder,
    "SharedNames": _make_shared_names,
}
