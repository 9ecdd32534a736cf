"""Strategies, which `ir` calls with an id, a raw value and metadata."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, runtime_checkable

from airw import indexing
from airw.compat._missing import missing
from airw.compat.ir.base import Artifact, IndexPlan
from airw.errors import ArgumentError
from airw.indexing import identity, strategy_spec
from airw.indexing.synopsis import SynopsisStrategy
from airw.values import IndexPlan as StoredPlan

_NOT_GIVEN: Any = object()


@runtime_checkable
class IndexingStrategy(Protocol):
    """Decomposes an artifact into fields to filter on and surfaces to search."""

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any] | None = None) -> Any:
        """Return the plan for one artifact."""
        ...


class _Both:
    """A strategy of airw that can be called as `ir` calls its own, too."""

    __slots__ = ()
    base: ClassVar[Any]

    def decompose(self, artifact_id: Any, raw: Any = _NOT_GIVEN, metadata: Mapping[str, Any] | None = None) -> Any:
        """Return the plan for an id, a raw value and metadata, or for an artifact."""
        made = plain(self)
        if raw is _NOT_GIVEN:
            return made.decompose(artifact_id)
        plan = made.decompose(Artifact(artifact_id, raw, dict(metadata or {})))
        return IndexPlan(dict(plan.filter_fields), list(plan.surfaces))


class WholeText(_Both, indexing.WholeText):
    """Make one surface of an artifact's whole text."""

    __slots__ = ()
    base = indexing.WholeText


class Skill(_Both, indexing.Skill):
    """Make one surface of the name and the description of a skill."""

    __slots__ = ()
    base = indexing.Skill


class Chunked(_Both, indexing.Chunked):
    """Make a surface of each chunk of the text.

    Raises:
        ArgumentError: `token_model` is given, which airw has not.
    """

    __slots__ = ()
    base = indexing.Chunked

    def __init__(
        self,
        *,
        chunk_size: int = 1200,
        overlap: int = 200,
        text_key: str | None = None,
        kind: str = "chunk",
        max_tokens: int | None = None,
        token_model: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        _refuse_model(token_model)
        super().__init__(
            chunk_size=chunk_size,
            overlap=overlap,
            text_key=text_key,
            kind=kind,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
        )


class Package(_Both, indexing.Package):
    """Make surfaces of the description and the readme of a package, and of what it depends on.

    Raises:
        ArgumentError: `token_model` is given, which airw has not, or `deps_template` is a function.
    """

    __slots__ = ()
    base = indexing.Package

    def __init__(
        self,
        *,
        chunk_size: int = 1500,
        overlap: int = 200,
        embed_deps: bool = False,
        deps_template: Any = None,
        max_tokens: int | None = None,
        token_model: str | None = None,
        tokenizer: Any = None,
    ) -> None:
        _refuse_model(token_model)
        if callable(deps_template):
            raise ArgumentError("deps_template is a function of ir: write a text with {deps} in it instead")
        given = {} if deps_template is None else {"deps_template": deps_template}
        super().__init__(
            chunk_size=chunk_size,
            overlap=overlap,
            embed_deps=embed_deps,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            **given,
        )


def _refuse_model(token_model: str | None) -> None:
    if token_model is not None:
        raise ArgumentError("token_model is of ir: give tokenizer=, a tokenizer of `tokenizers` or `transformers`")


STRATEGY_REGISTRY: dict[str, Any] = {each.__name__: each for each in (WholeText, Chunked, Skill, Package)}
"""The strategies that a registered corpus can name."""


@dataclass(frozen=True, slots=True)
class _FromOldForm:
    """A strategy that is called as `ir` calls it, as one of airw."""

    strategy: Any
    id: str

    def decompose(self, artifact: Artifact) -> StoredPlan:
        plan = self.strategy.decompose(artifact.id, artifact.raw, dict(artifact.metadata))
        return StoredPlan(dict(plan.filter_fields), list(plan.surfaces))


def plain(strategy: Any) -> Any:
    """Return a strategy as airw takes it: one that is called as `ir` does is wrapped, and named by all it holds.

    Raises:
        ArgumentError: It holds something without a stable identity, and has no `id`.
    """
    if isinstance(strategy, _Both):
        shared: Any = strategy
        return strategy.base(**{each.name: getattr(shared, each.name) for each in fields(strategy.base)})
    if strategy is None or isinstance(strategy, SynopsisStrategy) or not callable(getattr(strategy, "decompose", None)):
        return strategy
    takes = inspect.signature(strategy.decompose).parameters.values()
    needed = [each for each in takes if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD]
    return strategy if len(needed) < 2 else _FromOldForm(strategy, identity(strategy))


def strategy_to_spec(strategy: Any) -> dict[str, Any]:
    """Return the name and the parameters of a strategy.

    Raises:
        ArgumentError: JSON cannot say it.

    Example:
        >>> strategy_to_spec(Skill())
        {'name': 'Skill', 'params': {}}
    """
    spec = strategy_spec(plain(strategy))
    if spec is None:
        raise ArgumentError(f"JSON cannot say {strategy!r}: give build a source with this strategy instead")
    return spec


def strategy_from_spec(spec: Mapping[str, Any] | None) -> Any:
    """Return the strategy that a name and parameters say; `None` where there is nothing to say.

    Raises:
        ArgumentError: It is no specification.

    Example:
        >>> strategy = strategy_from_spec({"name": "WholeText", "params": {"kind": "page"}})
        >>> strategy.decompose("a", "text").surfaces[0].kind
        'page'
    """
    if spec is None:
        return None
    made = indexing.strategy_from_spec(spec)
    kind = STRATEGY_REGISTRY.get(type(made).__name__)
    return made if kind is None else kind(**{each.name: getattr(made, each.name) for each in fields(kind.base)})


def text_of(raw: Any, text_key: str | None = None) -> str:
    """Return the text of a raw value, as `WholeText` reads it.

    Example:
        >>> text_of({"title": "Keys", "text": "Rotate them."})
        'Rotate them.'
    """
    surfaces = WholeText(text_key=text_key).decompose("text", raw).surfaces
    return surfaces[0].text if surfaces else ""


__getattr__ = missing(
    __name__,
    {
        "ClaudeTurn": "give turns as records: CorpusSource.from_records(name=…, fetcher=…)",
        "DFLT_CHUNK_MAX_TOKENS": "chunks are cut by characters, or by tokens with Chunked(max_tokens=…, tokenizer=…)",
    },
)
