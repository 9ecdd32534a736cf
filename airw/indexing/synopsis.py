"""Synopses: a summary of each artifact, written by a model, as a surface of its own to route by."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airw._base.checks import check_count, check_strings, find_text_fault
from airw._base.concurrency import call_user_function
from airw._base.messages import error_text, one_line, short_repr
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt
from airw.errors import AirwError, ArgumentError, ArgumentKindError
from airw.indexing._identity import identity
from airw.indexing._reading import check_kind, check_name, text_field, text_of
from airw.indexing.package import Package
from airw.indexing.skill import Skill
from airw.protocols import IndexingStrategy, MaybeAwaitable, Synthesizer
from airw.values import Artifact, IndexPlan, Surface

SYNOPSIS_PROMPT = """\
Say in two to four sentences what the text below is about, and which questions somebody could have that it answers.
The sentences will be searched to find the text, so use the words that such a person would use. Answer with the
sentences alone.

Text:
{text}
"""
"""What a model is asked unless another prompt is given."""

MAX_CHARS = 20_000
"""Characters of a text that a model is shown at most."""

_CUT = "\n[the text goes on]"
_RECORD = ("name", "description", "readme")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSynthesizer:
    """Has a model, or a function, sum up the text of an artifact; `make_llm_synthesizer` makes it."""

    summarize: Callable[[str], MaybeAwaitable[str]] | ChatPrompt
    synthesizer_id: str | None = None
    text_key: str | None = None
    text_fields: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        """Name what sums up, and what it is shown.

        Raises:
            ArgumentError: It is a function without a name that would tell it from another, nor was an id given.
        """
        if self.synthesizer_id is not None:
            return self.synthesizer_id
        shown_of = [self.text_key] if self.text_fields is None else self.text_fields
        asked = self.summarize
        name = asked.id if isinstance(asked, ChatPrompt) else f"summarize={identity(asked)}"
        return name + "".join(f" field={field}" for field in shown_of if field)

    async def __call__(self, artifact: Artifact) -> str:
        """Return a synopsis of an artifact; `""`, without asking, of one without text.

        Raises:
            SourceError: The raw value holds no text.
            Exception: Whatever the model or the function raises.
        """
        text = self._text(artifact).strip()
        if not text:
            return ""
        text = text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + _CUT
        if isinstance(self.summarize, ChatPrompt):
            return await self.summarize(text=text)
        return await call_user_function(self.summarize, text)

    def _text(self, artifact: Artifact) -> str:
        if self.text_fields is None or not isinstance(artifact.raw, Mapping):
            return text_of(artifact, self.text_key)
        parts = [text_field(artifact, artifact.raw, field).strip() for field in self.text_fields]
        return "\n\n".join(part for part in parts if part)

    def reading_as(self, strategy: object) -> "LlmSynthesizer":
        """Return the one that reads what a strategy indexes, unless this one has been told what to read."""
        if self.text_key is not None or self.text_fields is not None:
            return self
        if isinstance(strategy, Package | Skill):
            return replace(self, text_fields=_RECORD)
        return replace(self, text_key=getattr(strategy, "text_key", None))


def make_llm_synthesizer(
    *,
    summarize: Callable[[str], MaybeAwaitable[str]] | None = None,
    prompt: str | None = None,
    model: ChatLike | None = None,
    synthesizer_id: str | None = None,
    text_key: str | None = None,
    text_fields: Sequence[str] | None = None,
) -> LlmSynthesizer:
    """Make a synthesizer that has a chat model, or a function, sum up the text of an artifact.

    The model is shown at most `MAX_CHARS` (20,000) characters of a text, and told where it goes on. Of a mapping it is
    shown what `text_key` or `text_fields` name; given neither, `with_synopsis` chooses what its strategy indexes: the
    strategy's `text_key`, or of a `Package` or a `Skill` its `name`, `description` and `readme`, never a path or what
    it depends on.

    Args:
        summarize: Called with a text, gives its summary; sync, then in a worker thread, or async.
        prompt: What to ask the model, with `{text}` where the text goes; `SYNOPSIS_PROMPT` when left out.
        model: The model to ask, `"http://host:8080/v1#model"` or a `ChatModel`; what `AIRW_CHAT` names when left out.
        synthesizer_id: Names the synthesizer: with another one, all synopses are written again. Left out, it is made of
            the model's id, the prompt and the fields, or of the function (see `identity`).
        text_key: The field of a mapping that holds the text.
        text_fields: The fields of a mapping to sum up, in this order.

    Raises:
        ArgumentError: A parameter cannot be used, or there is a function and a model or a prompt as well, or a
            `text_key` and `text_fields`.
        ChatUnavailable: There is neither a function nor a model.

    Example:
        >>> import anyio
        >>> synthesize = make_llm_synthesizer(summarize=lambda text: f"About {text.split()[0]}.")
        >>> anyio.run(synthesize, Artifact("a", "Keys are rotated yearly."))
        'About Keys.'
    """
    check_name("synthesizer_id", synthesizer_id)
    check_kind("synopsis", text_key)
    if text_key is not None and text_fields is not None:
        raise ArgumentError("pass text_key or text_fields, not both")
    fields = None if text_fields is None else check_strings("text_fields", text_fields)
    asked = function_or_prompt(
        summarize, "summarize", model=model, prompt=prompt, default=SYNOPSIS_PROMPT, needs=["text"]
    )
    return LlmSynthesizer(summarize=asked, synthesizer_id=synthesizer_id, text_key=text_key, text_fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinDescription:
    """Says which artifacts say little of themselves, so that a synopsis is worth its cost.

    Args:
        min_chars: Characters from which on a description is enough.
        field: The field of a mapping that holds the description; of other artifacts the text counts.

    Raises:
        ArgumentError: `min_chars` is negative, or `field` is blank or not a string.

    Example:
        >>> thin = ThinDescription(min_chars=10)
        >>> thin(Artifact("a", {"description": ""})), thin(Artifact("b", {"description": "Parses dates."}))
        (True, False)
    """

    min_chars: int = 40
    field: str = "description"

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_count("min_chars", self.min_chars)
        check_name("field", self.field)

    @property
    def id(self) -> str:
        """Name it and its parameters."""
        return repr(self)

    def __call__(self, artifact: Artifact) -> bool:
        """Return whether the description, without white space around it, is shorter than `min_chars`.

        Raises:
            SourceError: It is no text.
        """
        raw = artifact.raw
        said = text_field(artifact, raw, self.field) if isinstance(raw, Mapping) else text_of(artifact)
        return len(said.strip()) < self.min_chars


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
        """Return the plan for one artifact; where the synthesizer failed without a synopsis, and with a problem.

        Raises:
            SourceError: The raw value is not of a kind that the strategy within reads.
            Exception: Whatever that strategy or the gate raises.
        """
        plan = await call_user_function(self.strategy.decompose, artifact)
        if self.when is not None and not await call_user_function(self.when, artifact):
            return plan
        try:
            synopsis = _checked(await call_user_function(self.synthesize, artifact))
        except Exception as error:  # noqa: BLE001 - whatever a model's client raises: the artifact is indexed without
            said = one_line(str(error)) if isinstance(error, AirwError) else error_text(error)
            return replace(plan, problems=[*plan.problems, f"no synopsis: {said}"])
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
        when: The gate: says which artifacts are summed up, such as `ThinDescription()`; the synthesizer is not
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
    """Return the name of a function: the one given, else its own, else one made of what it does."""
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
    """Return a synopsis without white space around it, where it is text that can be stored."""
    if not isinstance(synopsis, str):
        raise ArgumentKindError(f"a synthesizer must give a string, not {short_repr(synopsis)}")
    if fault := find_text_fault(synopsis):
        raise ArgumentError(f"it holds {fault}")
    return synopsis.strip()
