"""Shipped strategies as JSON and back, so that settings can say how a corpus is made."""

from collections.abc import Callable, Mapping
from typing import Any

from airw._base.specs import from_spec, spec_of
from airw.errors import ChatUnavailable
from airw.indexing.chunked import Chunked
from airw.indexing.notes import Notes
from airw.indexing.package import Package
from airw.indexing.skill import Skill
from airw.indexing.synopsis import SynopsisStrategy, ThinDescription, with_synopsis
from airw.indexing.whole import WholeText
from airw.protocols import IndexingStrategy

_GATES = {"ThinDescription": ThinDescription}


def strategy_spec(strategy: object) -> dict[str, Any] | None:
    """Return what `strategy_from_spec` makes an equal strategy of; `None` where JSON cannot say it.

    It can say the shipped strategies, unless they hold a tokenizer; one with synopses where the model that writes them
    is the one that `AIRW_CHAT` names, asked with the prompt that is used unless another is given.

    Example:
        >>> strategy_spec(WholeText(kind="page"))
        {'name': 'WholeText', 'params': {'text_key': None, 'kind': 'page'}}
    """
    return _synopsis_spec(strategy) if isinstance(strategy, SynopsisStrategy) else spec_of(strategy, _KNOWN)


def strategy_from_spec(spec: Mapping[str, Any]) -> IndexingStrategy:
    """Make the strategy that a specification says: `{"name": …, "params": {…}}`; parameters left out are the default.

    Raises:
        ArgumentError: It is no specification, its name is not known, or its parameters cannot be used.
        ChatUnavailable: It is one with synopses, and `AIRW_CHAT` names no model.

    Example:
        >>> strategy_from_spec({"name": "WholeText", "params": {"kind": "page"}})
        WholeText(text_key=None, kind='page')
    """
    return from_spec(spec, _KNOWN, "strategy")


def _synopsis_spec(strategy: SynopsisStrategy) -> dict[str, Any] | None:
    within, when = strategy_spec(strategy.strategy), spec_of(strategy.when, _GATES)
    spec = {
        "name": "with_synopsis",
        "params": {"strategy": within, "synopsis_kind": strategy.synopsis_kind, "when": when},
    }
    try:
        return spec if within and strategy_from_spec(spec).id == strategy.id else None
    except ChatUnavailable:
        return None


def _with_synopsis(
    *, strategy: Mapping[str, Any], synopsis_kind: str = "synopsis", when: Mapping[str, Any] | None = None
) -> IndexingStrategy:
    gate = None if when is None else from_spec(when, _GATES, "gate")
    return with_synopsis(strategy_from_spec(strategy), synopsis_kind=synopsis_kind, when=gate)


_KNOWN: dict[str, Callable[..., IndexingStrategy]] = {
    "WholeText": WholeText,
    "Chunked": Chunked,
    "Notes": Notes,
    "Skill": Skill,
    "Package": Package,
    "with_synopsis": _with_synopsis,
}
