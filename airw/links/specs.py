"""Edge extractors as JSON and back: the settings of a corpus contain its extractor."""

import json
import zlib
from base64 import b85decode, b85encode
from collections.abc import Callable, Mapping
from typing import Any

from airw._base.specs import from_spec, spec_of
from airw.errors import ArgumentError
from airw.links.fields import DependencyLinks
from airw.links.markdown import MarkdownLinks
from airw.links.mentions import MentionFinder, TitleMentions
from airw.protocols import EdgeExtractor


def extractor_spec(extractor: object) -> dict[str, Any] | None:
    """Return an extractor as JSON, or `None` if that is not possible, as for a function.

    `extractor_from_spec` makes an equal extractor from it.

    Example:
        >>> extractor_spec(MarkdownLinks(fields=["links"]))
        {'name': 'MarkdownLinks', 'params': {'fields': ['links'], 'inline_type': 'related'}}
    """
    if not isinstance(extractor, TitleMentions | MentionFinder):
        return spec_of(extractor, _KNOWN)
    inner = extractor_spec(extractor.inner)
    params: dict[str, Any] = {"inner": inner, "type": extractor.type}
    if isinstance(extractor, MentionFinder):
        params["titles"] = _encode_titles(extractor.titles)
    else:
        params["min_chars"] = extractor.min_chars
        params["max_share"] = extractor.max_share
    return None if inner is None else {"name": type(extractor).__name__, "params": params}


def extractor_from_spec(spec: Mapping[str, Any]) -> EdgeExtractor:
    """Return the extractor that a specification describes.

    Args:
        spec: `{"name": …, "params": {…}}`. Missing parameters have their default.

    Raises:
        ArgumentError: If there is no extractor of that name, or `spec` or a parameter is not valid.

    Example:
        >>> extractor_from_spec({"name": "MarkdownLinks"})
        MarkdownLinks(fields=('links', 'requires'), inline_type='related')
    """
    return from_spec(spec, _KNOWN, "edge extractor")


def _title_mentions(**params: Any) -> TitleMentions:
    inner = params.pop("inner", {"name": "MarkdownLinks"})
    return TitleMentions(inner=extractor_from_spec(inner), **params)


def _mention_finder(*, inner: Mapping[str, Any], type: str, titles: str) -> MentionFinder:
    return MentionFinder(extractor_from_spec(inner), type, _decode_titles(titles))


def _encode_titles(titles: Mapping[str, str]) -> str:
    # Settings contain the titles of the whole corpus: compressed, they need about 20 characters each.
    return b85encode(zlib.compress(json.dumps(dict(titles)).encode())).decode()


def _decode_titles(encoded: str) -> dict[str, str]:
    try:
        return dict(json.loads(zlib.decompress(b85decode(encoded))))
    except (ValueError, TypeError, zlib.error) as error:
        raise ArgumentError("the stored titles of MentionFinder cannot be read; build the corpus again") from error


_KNOWN: dict[str, Callable[..., EdgeExtractor]] = {
    "MarkdownLinks": MarkdownLinks,
    "DependencyLinks": DependencyLinks,
    "MentionFinder": _mention_finder,
    "TitleMentions": _title_mentions,
}
