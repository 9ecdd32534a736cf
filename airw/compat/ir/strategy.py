"""Strategies with the signature of `ir`: an id, a raw value and metadata."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Final, Protocol, runtime_checkable

from airw import indexing
from airw.compat._missing_names import explain_missing
from airw.compat.ir.base import Artifact, IndexPlan
from airw.errors import ArgumentError
from airw.indexing import identity, strategy_spec
from airw.indexing.synopsis import SynopsisStrategy
from airw.values import IndexPlan as StoredPlan

_MISSING: Any = object()


@runtime_checkable
class IndexingStrategy(Protocol):
    """Splits an artifact into fields to filter by and surfaces to search."""

    def decompose(self, artifact_id: str, raw: Any, metadata: Mapping[str, Any] | None = None) -> Any:
        """Return the plan for one artifact."""
        ...


class _DualStrategy:
    """A strategy of airw that can also be called with the signature of `ir`."""

    __slots__ = ()
    base: ClassVar[Any]

    def decompose(self, artifact_id: Any, raw: Any = _MISSING, metadata: Mapping[str, Any] | None = None) -> Any:
        """Return the plan for an id, a raw value and metadata, or for an `Artifact`."""
        strategy = to_airw_strategy(self)
        if raw is _MISSING:
            return strategy.decompose(artifact_id)
        plan = strategy.decompose(Artifact(artifact_id, raw, dict(metadata or {})))
        return IndexPlan(dict(plan.filter_fields), list(plan.surfaces))


class WholeText(_DualStrategy, indexing.WholeText):
    """Makes one surface of the whole text of an artifact."""

    __slots__ = ()
    base = indexing.WholeText


class Skill(_DualStrategy, indexing.Skill):
    """Makes one surface of the name and the description of a skill."""

    __slots__ = ()
    base = indexing.Skill


class Chunked(_DualStrategy, indexing.Chunked):
    """Makes one surface of each chunk of the text.

    Raises:
        ArgumentError: If `token_model` is given, which airw does not have.
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
        _refuse_token_model(token_model)
        super().__init__(
            chunk_size=chunk_size,
            overlap=overlap,
            text_key=text_key,
            kind=kind,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
        )


class Package(_DualStrategy, indexing.Package):
    """Makes surfaces of the description, the readme and the dependencies of a package.

    Raises:
        ArgumentError: If `token_model` is given, which airw does not have, or `deps_template` is a function.
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
        _refuse_token_model(token_model)
        if callable(deps_template):
            raise ArgumentError("deps_template must be a string that contains {deps}, not a function")
        template = {} if deps_template is None else {"deps_template": deps_template}
        super().__init__(
            chunk_size=chunk_size,
            overlap=overlap,
            embed_deps=embed_deps,
            max_tokens=max_tokens,
            tokenizer=tokenizer,
            **template,
        )


def _refuse_token_model(token_model: str | None) -> None:
    if token_model is not None:
        raise ArgumentError(
            "token_model is not available: pass tokenizer=, a tokenizer of `tokenizers` or `transformers`"
        )


STRATEGY_REGISTRY: dict[str, Any] = {cls.__name__: cls for cls in (WholeText, Chunked, Skill, Package)}
"""The strategies that a registered corpus can use, by name."""


@dataclass(frozen=True, slots=True)
class _IrStrategy:
    """A strategy of airw made of one with the signature of `ir`."""

    strategy: Any
    id: str

    def decompose(self, artifact: Artifact) -> StoredPlan:
        plan = self.strategy.decompose(artifact.id, artifact.raw, dict(artifact.metadata))
        return StoredPlan(dict(plan.filter_fields), list(plan.surfaces))


def to_airw_strategy(strategy: Any) -> Any:
    """Return a strategy for airw; one with the signature of `ir` is wrapped.

    The id of the wrapper depends on all attributes of the strategy (see `identity`).

    Raises:
        ArgumentError: If it contains an object without a stable identity and has no `id`.
    """
    if isinstance(strategy, _DualStrategy):
        shared: Any = strategy
        return strategy.base(**{field.name: getattr(shared, field.name) for field in fields(strategy.base)})
    if strategy is None or isinstance(strategy, SynopsisStrategy) or not callable(getattr(strategy, "decompose", None)):
        return strategy
    parameters = inspect.signature(strategy.decompose).parameters.values()
    required = [
        parameter
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    ]
    # airw calls `decompose(artifact)`, `ir` calls `decompose(artifact_id, raw, …)`.
    return strategy if len(required) < 2 else _IrStrategy(strategy, identity(strategy))


def strategy_to_spec(strategy: Any) -> dict[str, Any]:
    """Return the specification of a strategy: its name and parameters.

    Raises:
        ArgumentError: If JSON cannot describe it.

    Example:
        >>> strategy_to_spec(Skill())
        {'name': 'Skill', 'params': {}}
    """
    spec = strategy_spec(to_airw_strategy(strategy))
    if spec is None:
        raise ArgumentError(
            f"JSON cannot describe the strategy {strategy!r}: pass build a source with this strategy instead"
        )
    return spec


def strategy_from_spec(spec: Mapping[str, Any] | None) -> Any:
    """Return the strategy of a specification, or `None` for `None`.

    Raises:
        ArgumentError: If it is not a valid specification.

    Example:
        >>> strategy = strategy_from_spec({"name": "WholeText", "params": {"kind": "page"}})
        >>> strategy.decompose("a", "text").surfaces[0].kind
        'page'
    """
    if spec is None:
        return None
    strategy = indexing.strategy_from_spec(spec)
    cls = STRATEGY_REGISTRY.get(type(strategy).__name__)
    return strategy if cls is None else cls(**{field.name: getattr(strategy, field.name) for field in fields(cls.base)})


def text_of(raw: Any, text_key: str | None = None) -> str:
    """Return the text of a raw value, without its title.

    Example:
        >>> text_of({"title": "Keys", "text": "Rotate them."})
        'Rotate them.'
    """
    if text_key is None and isinstance(raw, Mapping) and "text" in raw:
        text_key = "text"
    surfaces = WholeText(text_key=text_key).decompose("text", raw).surfaces
    return surfaces[0].text if surfaces else ""


__getattr__: Final = explain_missing(
    __name__,
    {
        "ClaudeTurn": "pass turns as records: CorpusSource.from_records(name=…, fetcher=…)",
        "DFLT_CHUNK_MAX_TOKENS": "use Chunked(chunk_size=…), or Chunked(max_tokens=…, tokenizer=…) for tokens",
    },
)
