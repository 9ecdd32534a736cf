"""Synopses that a model writes."""

from collections.abc import Callable, Sequence
from typing import Any

from airw import indexing
from airw.compat._missing import missing
from airw.compat._sync import Synced, unsynced
from airw.compat.ir.base import Artifact
from airw.compat.ir.strategy import plain
from airw.errors import ArgumentError
from airw.indexing import ThinDescription
from airw.indexing.synopsis import SynopsisStrategy

Synthesizer = Callable[[Artifact], str]
ALWAYS = "always"
SYNOPSIS_KIND = "synopsis"
DFLT_THIN_DESCRIPTION_CHARS = 40


def with_synopsis(
    strategy: Any,
    *,
    synthesize: Synthesizer | None = None,
    synthesizer_id: str | None = None,
    synopsis_kind: str = SYNOPSIS_KIND,
    when: Any = ALWAYS,
    when_id: str | None = None,
) -> SynopsisStrategy:
    """Put a synopsis of each artifact before what another strategy makes of it; see `airw.indexing.with_synopsis`.

    Raises:
        ArgumentError: A parameter cannot be used, or a function has no stable identity and none is given.
        ChatUnavailable: There is neither a synthesizer nor a model.
    """
    if isinstance(when, str) and when != ALWAYS:
        raise ArgumentError(f"when must be {ALWAYS!r} or a function of an artifact, not {when!r}")
    return indexing.with_synopsis(
        plain(strategy),
        synthesize=unsynced(synthesize),
        synthesizer_id=synthesizer_id,
        synopsis_kind=synopsis_kind,
        when=None if isinstance(when, str) else when,
        when_id=when_id,
    )


def make_llm_synthesizer(
    *,
    summarize: Callable[[str], str] | None = None,
    prompt: str | None = None,
    model: Any = None,
    synthesizer_id: str | None = None,
    text_key: str | None = None,
    text_fields: Sequence[str] | None = None,
) -> Synced:
    """Return a synthesizer that asks a model; see `airw.indexing.make_llm_synthesizer`.

    Raises:
        ChatUnavailable: There is neither a function nor a model.

    Example:
        >>> make_llm_synthesizer(summarize=lambda text: text[:6])(Artifact("a", "Rotate the keys."))
        'Rotate'
    """
    made = indexing.make_llm_synthesizer(
        summarize=summarize,
        prompt=prompt,
        model=model,
        synthesizer_id=synthesizer_id,
        text_key=text_key,
        text_fields=text_fields,
    )
    return Synced(made)


def make_thin_description_predicate(
    *, min_chars: int = DFLT_THIN_DESCRIPTION_CHARS, field: str = "description"
) -> ThinDescription:
    """Return what says which artifacts say little of themselves.

    Example:
        >>> make_thin_description_predicate(min_chars=10)(Artifact("a", {"description": "Parses dates."}))
        False
    """
    return ThinDescription(min_chars=min_chars, field=field)


thin_description_predicate = ThinDescription()
"""True of an artifact whose `description` is shorter than 40 characters: `with_synopsis(..., when=...)`."""

__getattr__ = missing(
    __name__,
    {
        "SYNOPSIS_PROMPT": "write make_llm_synthesizer(prompt=…)",
        "TOPICAL_SYNOPSIS_PROMPT": "write make_llm_synthesizer(prompt=…)",
    },
)
