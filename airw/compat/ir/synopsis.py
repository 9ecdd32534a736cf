"""Synopses written by a model."""

from collections.abc import Callable, Sequence
from typing import Any, Final

from airw import indexing
from airw.compat._missing_names import explain_missing
from airw.compat._sync import SyncFunction, to_async
from airw.compat.ir.base import Artifact
from airw.compat.ir.strategy import to_airw_strategy
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
    """Return a strategy that adds a synopsis; see `airw.indexing.with_synopsis`.

    Raises:
        ArgumentError: If a parameter is not valid, or a function has neither a stable identity nor a name.
        ChatUnavailable: If there is neither a synthesizer nor a model.
    """
    if isinstance(when, str) and when != ALWAYS:
        raise ArgumentError(f"when must be {ALWAYS!r} or a function of an artifact, not {when!r}")
    return indexing.with_synopsis(
        to_airw_strategy(strategy),
        synthesize=to_async(synthesize),
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
) -> SyncFunction:
    """Return a synthesizer that calls a model; see `airw.indexing.make_llm_synthesizer`.

    Raises:
        ChatUnavailable: If there is neither a function nor a model.

    Example:
        >>> make_llm_synthesizer(summarize=lambda text: text[:6])(Artifact("a", "Rotate the keys."))
        'Rotate'
    """
    synthesizer = indexing.make_llm_synthesizer(
        summarize=summarize,
        prompt=prompt,
        model=model,
        synthesizer_id=synthesizer_id,
        text_key=text_key,
        text_fields=text_fields,
    )
    return SyncFunction(synthesizer)


def make_thin_description_predicate(
    *, min_chars: int = DFLT_THIN_DESCRIPTION_CHARS, field: str = "description"
) -> ThinDescription:
    """Return a predicate that is true for artifacts with a short description.

    Example:
        >>> make_thin_description_predicate(min_chars=10)(Artifact("a", {"description": "Parses dates."}))
        False
    """
    return ThinDescription(min_chars=min_chars, field=field)


thin_description_predicate: Final = ThinDescription()
"""A predicate for `with_synopsis(…, when=…)`: true if a `description` is below 40 characters."""

__getattr__: Final = explain_missing(
    __name__,
    {
        "SYNOPSIS_PROMPT": "call make_llm_synthesizer(prompt=…)",
        "TOPICAL_SYNOPSIS_PROMPT": "call make_llm_synthesizer(prompt=…)",
    },
)
