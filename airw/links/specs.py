"""Shipped edge extractors as JSON and back, so that settings can say how links are found."""

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
    """Give what `extractor_from_spec` makes an equal extractor of; `None` where JSON cannot say it: a function, say.

    Example:
        >>> extractor_spec(MarkdownLinks(fields=["links"]))
        {'name': 'MarkdownLinks', 'params': {'fields': ['links'], 'inline_type': 'related'}}
    """
    if not isinstance(extractor, TitleMentions | MentionFinder):
        return spec_of(extractor, _KNOWN)
    inner = extractor_spec(extractor.inner)
    own: dict[str, Any] = (
        {"titles": _packed(extractor.titles)}
        if isinstance(extractor, MentionFinder)
        else {
            "min_chars": extractor.min_chars,
            "max_share": extractor.max_share,
        }
    )
    params = {"inner": inner, "type": extractor.type, **own}
    return None if inner is None else {"name": type(extractor).__name__, "params": params}


def extractor_from_spec(spec: Mapping[str, Any]) -> EdgeExtractor:
    """Make the extractor that a specification says: `{"name": …, "params": {…}}`; parameters left out are the default.

    Raises:
        ArgumentError: It is no specification, its name is not known, or its parameters cannot be used.

    Example:
        >>> extractor_from_spec({"name": "MarkdownLinks"})
        MarkdownLinks(fields=('links', 'requires'), inline_type='related')
    """
    return from_spec(spec, _KNOWN, "edge extractor")


def _title_mentions(**params: Any) -> TitleMentions:
    inner = params.pop("inner", {"name": "MarkdownLinks"})
    return TitleMentions(inner=extractor_from_spec(inner), **params)


def _mention_finder(*, inner: Mapping[str, Any], type: str, titles: str) -> MentionFinder:
    return MentionFinder(extractor_from_spec(inner), type, _unpacked(titles))


def _packed(titles: Mapping[str, str]) -> str:
    """Give titles as a text of about 20 characters each, which settings hold without being read."""
    return b85encode(zlib.compress(json.dumps(dict(titles)).encode())).decode()


def _unpacked(packed: str) -> dict[str, str]:
    try:
        return dict(json.loads(zlib.decompress(b85decode(packed))))
    except (ValueError, TypeError, zlib.error) as error:
        raise ArgumentError("the titles of this MentionFinder cannot be read: build the corpus again") from error


_KNOWN: dict[str, Callable[..., EdgeExtractor]] = {
    "MarkdownLinks": MarkdownLinks,
    "DependencyLinks": DependencyLinks,
    "MentionFinder": _mention_finder,
    "TitleMentions": _title_mentions,
}
