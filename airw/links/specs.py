"""Shipped edge extractors as JSON and back, so that settings can say how links are found."""

from collections.abc import Mapping
from typing import Any

from airw._specs import from_spec, spec_of
from airw.links.markdown import MarkdownLinks
from airw.protocols import EdgeExtractor

_KNOWN: dict[str, type[EdgeExtractor]] = {"MarkdownLinks": MarkdownLinks}


def extractor_spec(extractor: object) -> dict[str, Any] | None:
    """Give what `extractor_from_spec` makes an equal extractor of; `None` where JSON cannot say it: a function, say.

    Example:
        >>> extractor_spec(MarkdownLinks(fields=["links"]))
        {'name': 'MarkdownLinks', 'params': {'fields': ['links'], 'inline_type': 'related'}}
    """
    return spec_of(extractor, _KNOWN)


def extractor_from_spec(spec: Mapping[str, Any]) -> EdgeExtractor:
    """Make the extractor that a specification says: `{"name": …, "params": {…}}`; parameters left out are the default.

    Raises:
        ArgumentError: It is no specification, its name is not known, or its parameters cannot be used.

    Example:
        >>> extractor_from_spec({"name": "MarkdownLinks"})
        MarkdownLinks(fields=('links', 'requires'), inline_type='related')
    """
    return from_spec(spec, _KNOWN, "edge extractor")
