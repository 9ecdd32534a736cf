"""Strategies as JSON and back, so that the settings of a corpus can name its strategy."""

from collections.abc import Callable, Mapping
from typing import Any

from airw._base.specs import from_spec, spec_of
from airw.errors import ChatUnavailable
from airw.indexing.chunked import Chunked
from airw.indexing.notes import Notes
from airw.indexing.package import Package
from airw.indexing.skill import Skill
from airw.indexing.synopsis import SynopsisStrategy, ThinDescription, with_synopsis
from airw.indexing.whole import FittedText, WholeText
from airw.protocols import IndexingStrategy

_GATES = {"ThinDescription": ThinDescription}


def strategy_spec(strategy: object) -> dict[str, Any] | None:
    """Return the JSON specification of a strategy, or `None` if JSON cannot describe it.

    `strategy_from_spec` makes an equal strategy from the specification. The strategies of this package can be described
    unless they have a tokenizer. A strategy with synopses can be described if the model that writes them is the one
    that `AIRW_CHAT` names, with the default prompt.

    Example:
        >>> strategy_spec(WholeText(kind="page"))
        {'name': 'WholeText', 'params': {'text_key': None, 'kind': 'page'}}
    """
    return _synopsis_spec(strategy) if isinstance(strategy, SynopsisStrategy) else spec_of(strategy, _MAKERS)


def strategy_from_spec(spec: Mapping[str, Any]) -> IndexingStrategy:
    """Make a strategy from its specification `{"name": …, "params": {…}}`.

    Parameters left out have their defaults.

    Raises:
        ArgumentError: If it is not a specification, has an unknown name, or has parameters that are not valid.
        ChatUnavailable: If the strategy writes synopses and `AIRW_CHAT` names no model.

    Example:
        >>> strategy_from_spec({"name": "WholeText", "params": {"kind": "page"}})
        WholeText(text_key=None, kind='page')
    """
    return from_spec(spec, _MAKERS, "strategy")


def _synopsis_spec(strategy: SynopsisStrategy) -> dict[str, Any] | None:
    inner = strategy_spec(strategy.strategy)
    gate = spec_of(strategy.when, _GATES)
    spec = {
        "name": "with_synopsis",
        "params": {"strategy": inner, "synopsis_kind": strategy.synopsis_kind, "when": gate},
    }
    # The specification leaves the model, the prompt and other gates out. An equal id shows that they are the defaults.
    try:
        return spec if inner and strategy_from_spec(spec).id == strategy.id else None
    except ChatUnavailable:
        return None


def _with_synopsis(
    *, strategy: Mapping[str, Any], synopsis_kind: str = "synopsis", when: Mapping[str, Any] | None = None
) -> IndexingStrategy:
    gate = None if when is None else from_spec(when, _GATES, "gate")
    return with_synopsis(strategy_from_spec(strategy), synopsis_kind=synopsis_kind, when=gate)


_MAKERS: dict[str, Callable[..., IndexingStrategy]] = {
    "WholeText": WholeText,
    "FittedText": FittedText,
    "Chunked": Chunked,
    "Notes": Notes,
    "Skill": Skill,
    "Package": Package,
    "with_synopsis": _with_synopsis,
}
