"""Synopses: a summary of each artifact, written by a model, as a surface of its own to route by."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from airw._base.concurrency import called
from airw._base.messages import short_repr
from airw.errors import AirwError, ArgumentError, ArgumentKindError
from airw.indexing._identity import identity
from airw.indexing._text import check_kind
from airw.indexing.synthesis import LlmSynthesizer, check_name, make_llm_synthesizer
from airw.protocols import IndexingStrategy, MaybeAwaitable, Synthesizer
from airw.values import Artifact, IndexPlan, Surface

__all__ = ["SynopsisStrategy", "with_synopsis"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SynopsisStrategy:
    """A strategy that puts a synopsis before the surfaces of another one; `with_synopsis` makes it."""

    strategy: IndexingStrategy
    synthesize: Synthesizer
    synthesizer_id: str
    synopsis_kind: str
    when: Callable[[Artifact], MaybeAwaitable[bool]] | None
    when_id: str | None

    @property
    def id(self) -> str:
        """Name the strategy within, the synthesizer, the kind and the gate."""
        made = f"synthesizer={self.synthesizer_id!r}, kind={self.synopsis_kind!r}, when={self.when_id!r}"
        return f"with_synopsis({self.strategy.id}, {made})"

    async def decompose(self, artifact: Artifact) -> IndexPlan:
        """Give the plan for one artifact; where the synthesizer failed without a synopsis, and with a problem.

        Raises:
            SourceError: The raw value is not of a kind that the strategy within reads.
            Exception: Whatever that strategy or the gate raises.
        """
        plan = await called(self.strategy.decompose, artifact)
        if self.when is not None and not await called(self.when, artifact):
            return plan
        try:
            synopsis = _checked(await called(self.synthesize, artifact))
        except Exception as error:  # noqa: BLE001 - whatever a model's client raises: the artifact is indexed without
            return replace(plan, problems=[*plan.problems, f"no synopsis: {_told(error)}"])
        if not synopsis:
            return plan
        by = {"synthesizer_id": self.synthesizer_id}
        return replace(
            plan, surfaces=[Surface(artifact.id, self.synopsis_kind, synopsis, "document", by), *plan.surfaces]
        )


def with_synopsis(
    strategy: IndexingStrategy,
    *,
    synthesize: Synthesizer | None = None,
    synthesizer_id: str | None = None,
    synopsis_kind: str = "synopsis",
    when: Callable[[Artifact], MaybeAwaitable[bool]] | None = None,
    when_id: str | None = None,
) -> SynopsisStrategy:
    """Put a synopsis of each artifact, which a walk can route by, before what another strategy makes of it.

    The synopsis is the first surface, of granularity `document`, with the metadata `synthesizer_id`; a blank one makes
    no surface. Only artifacts that are new or changed are summed up; all of them where the strategy within, the
    synthesizer, the kind or the gate has another id. Where the synthesizer raises or gives no string, the artifact is
    indexed without a synopsis, the report of the build says so, and the next build asks for it again.

    Args:
        strategy: Makes everything else; sync or async.
        synthesize: Gives the synopsis of an artifact; sync, then it is called in a worker thread, or async. Left out,
            `make_llm_synthesizer()`, which asks the model that `AIRW_CHAT` names.
        synthesizer_id: Names the synthesizer and its settings. Left out, its own `id` or `synthesizer_id`, else what
            `identity` makes of it.
        synopsis_kind: The kind of the surface.
        when: The gate: says which artifacts are summed up, such as `thin_description_predicate`; the synthesizer is not
            called for any other. Left out, all are.
        when_id: Names the gate and its settings. Left out, its own `id` or `when_id`, else what `identity` makes of it.

    Raises:
        ArgumentError: A parameter cannot be used, or a function has no stable identity and none is given.
        ChatUnavailable: There is neither a synthesizer nor a model.

    Example:
        >>> import anyio
        >>> from airw.indexing.whole import WholeText
        >>> strategy = with_synopsis(WholeText(), synthesize=lambda artifact: f"About {artifact.id}.")
        >>> plan = anyio.run(strategy.decompose, Artifact("keys", "Rotate them yearly."))
        >>> [(surface.kind, surface.text) for surface in plan.surfaces]
        [('synopsis', 'About keys.'), ('document', 'Rotate them yearly.')]
    """
    if isinstance(strategy, type) or not callable(getattr(strategy, "decompose", None)):
        raise ArgumentKindError(
            f"strategy must have an id and a method decompose, as Chunked() has, not {short_repr(strategy)}"
        )
    if not isinstance(getattr(strategy, "id", None), str) or not strategy.id:
        raise ArgumentError(f"a strategy needs an `id` that names it and its settings; {short_repr(strategy)} has none")
    check_kind(synopsis_kind)
    if when is None and when_id is not None:
        raise ArgumentError("when_id names a gate: pass when= as well")
    made: Synthesizer = make_llm_synthesizer() if synthesize is None else synthesize
    if isinstance(made, LlmSynthesizer):
        made = made.reading_as(_innermost(strategy))
    return SynopsisStrategy(
        strategy=strategy,
        synthesize=made,
        synthesizer_id=_named("synthesize", made, "synthesizer_id", synthesizer_id),
        synopsis_kind=synopsis_kind,
        when=when,
        when_id=None if when is None else _named("when", when, "when_id", when_id),
    )


def _innermost(strategy: IndexingStrategy) -> IndexingStrategy:
    return _innermost(strategy.strategy) if isinstance(strategy, SynopsisStrategy) else strategy


def _named(what: str, function: object, attribute: str, given: str | None) -> str:
    """Give the name of a function: the one given, else its own, else one made of what it does."""
    if not callable(function):
        raise ArgumentKindError(f"{what} must be a function of an artifact, not {short_repr(function)}")
    check_name(attribute, given)
    if given is not None:
        return given
    try:
        own = getattr(function, "id", None) or getattr(function, attribute, None)
        return own if isinstance(own, str) and own else identity(function)
    except ArgumentError as error:
        raise ArgumentError(f"pass {attribute}=, a text that names {what} and its settings: {error}") from error


def _checked(synopsis: object) -> str:
    """Give a synopsis without white space around it, where it is text that can be stored."""
    if not isinstance(synopsis, str):
        raise ArgumentKindError(f"a synthesizer must give a string, not {short_repr(synopsis)}")
    try:
        synopsis.encode()
    except UnicodeEncodeError as error:
        raise ArgumentError(f"it holds half a character (a lone surrogate) at position {error.start}") from error
    return synopsis.strip()


def _told(error: Exception) -> str:
    """Give what went wrong on one line."""
    said = str(error) if isinstance(error, AirwError) else f"{type(error).__name__}: {error}"
    return " ".join(said.split())
