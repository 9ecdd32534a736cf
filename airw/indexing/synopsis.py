"""Synopses: a model sums up each artifact, and the summary becomes a surface to search."""

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
"""The default prompt."""

MAX_CHARS = 20_000
"""Maximum characters of a text that a model is sent."""

_CUT = "\n[the text goes on]"  # a model must not take the cut for the end of the text
_RECORD_FIELDS = ("name", "description", "readme")


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmSynthesizer:
    """A synthesizer that calls a model or a function; made by `make_llm_synthesizer`."""

    summarize: Callable[[str], MaybeAwaitable[str]] | ChatPrompt
    synthesizer_id: str | None = None
    text_key: str | None = None
    text_fields: tuple[str, ...] | None = None

    @property
    def id(self) -> str:
        """The `synthesizer_id`, or a name made of the model or function and the fields it reads.

        Raises:
            ArgumentError: If there is no `synthesizer_id` and the function has no stable identity.
        """
        if self.synthesizer_id is not None:
            return self.synthesizer_id
        fields = [self.text_key] if self.text_fields is None else self.text_fields
        summarize = self.summarize
        name = summarize.id if isinstance(summarize, ChatPrompt) else f"summarize={identity(summarize)}"
        return name + "".join(f" field={field}" for field in fields if field)

    async def __call__(self, artifact: Artifact) -> str:
        """Return a synopsis of an artifact, or `""` if the artifact has no text.

        The model or function is not called for an artifact without text.

        Raises:
            SourceError: If the raw value contains no text.
            Exception: Any error of the model or the function.
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

    def with_fields_of(self, strategy: object) -> "LlmSynthesizer":
        """Return a copy that reads the fields a strategy indexes, unless fields are set."""
        if self.text_key is not None or self.text_fields is not None:
            return self
        if isinstance(strategy, Package | Skill):
            return replace(self, text_fields=_RECORD_FIELDS)
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
    """Make a synthesizer that sums up the text of an artifact with a chat model or a function.

    The model is sent at most `MAX_CHARS` (20,000) characters of a text; a cut text ends with a note that it goes on.
    `text_key` or `text_fields` select the fields of a mapping. Without them, `with_synopsis` selects the fields that
    its strategy indexes: the strategy's `text_key`, or `name`, `description` and `readme` for a `Package` or a `Skill`.
    Paths and dependencies are never sent.

    Args:
        summarize: A function from a text to its summary. A sync function runs in a worker thread; an async one is
            awaited.
        prompt: The prompt for the model; it contains `{text}` where the text goes. Default: `SYNOPSIS_PROMPT`.
        model: The model, `"http://host:8080/v1#model"` or a `ChatModel`. Default: the model that `AIRW_CHAT` names.
        synthesizer_id: The name of the synthesizer. All synopses are written again when it changes. Default: a name
            made of the model's id, the prompt and the fields, or of the function (see `identity`).
        text_key: The field of a mapping that contains the text.
        text_fields: The fields of a mapping to sum up, in this order.

    Raises:
        ArgumentError: If a parameter is not valid, if `summarize` is combined with `model` or `prompt`, or `text_key`
            with `text_fields`.
        ChatUnavailable: If there is neither a function nor a model.

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
    function = function_or_prompt(
        summarize, "summarize", model=model, prompt=prompt, default=SYNOPSIS_PROMPT, needs=["text"]
    )
    return LlmSynthesizer(summarize=function, synthesizer_id=synthesizer_id, text_key=text_key, text_fields=fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinDescription:
    """A gate for `with_synopsis` that accepts artifacts with a short description, or none.

    For these a synopsis is worth the cost of a model.

    Args:
        min_chars: A description of at least this many characters is long enough.
        field: The field of a mapping that contains the description. For other raw values the text counts.

    Raises:
        ArgumentError: If `min_chars` is negative, or `field` is blank or not a string.

    Example:
        >>> thin = ThinDescription(min_chars=10)
        >>> thin(Artifact("a", {"description": ""})), thin(Artifact("b", {"description": "Parses dates."}))
        (True, False)
    """

    min_chars: int = 40
    field: str = "description"

    def __post_init__(self) -> None:
        """Check all parameters."""
        check_count("min_chars", self.min_chars)
        check_name("field", self.field)

    @property
    def id(self) -> str:
        """The name of the gate with its parameters."""
        return repr(self)

    def __call__(self, artifact: Artifact) -> bool:
        """Return whether the stripped description is shorter than `min_chars`.

        Raises:
            SourceError: If the description is not a string.
        """
        raw = artifact.raw
        description = text_field(artifact, raw, self.field) if isinstance(raw, Mapping) else text_of(artifact)
        return len(description.strip()) < self.min_chars


@dataclass(frozen=True, slots=True, kw_only=True)
class SynopsisStrategy:
    """A strategy that adds a synopsis to another strategy; made by `with_synopsis`."""

    strategy: IndexingStrategy
    synthesize: Synthesizer
    synthesizer_id: str
    synopsis_kind: str
    when: Callable[[Artifact], MaybeAwaitable[bool]] | None
    when_id: str | None

    @property
    def id(self) -> str:
        """The name of the inner strategy, the synthesizer, the kind and the gate."""
        settings = f"synthesizer={self.synthesizer_id!r}, kind={self.synopsis_kind!r}, when={self.when_id!r}"
        return f"with_synopsis({self.strategy.id}, {settings})"

    async def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact.

        If the synthesizer fails, the plan has no synopsis and reports a problem.

        Raises:
            SourceError: If the inner strategy cannot read the raw value.
            Exception: Any error of the inner strategy or the gate.
        """
        plan = await call_user_function(self.strategy.decompose, artifact)
        if self.when is not None and not await call_user_function(self.when, artifact):
            return plan
        try:
            synopsis = _check_synopsis(await call_user_function(self.synthesize, artifact))
        except Exception as error:  # noqa: BLE001 - clients of models raise anything; index without a synopsis
            message = one_line(str(error)) if isinstance(error, AirwError) else error_text(error)
            return replace(plan, problems=[*plan.problems, f"no synopsis: {message}"])
        if not synopsis:
            return plan
        metadata = {} if "synthesizer_id" in plan.filter_fields else {"synthesizer_id": self.synthesizer_id}
        surface = Surface(artifact.id, self.synopsis_kind, synopsis, "document", metadata)
        return replace(plan, surfaces=[surface, *plan.surfaces])


def with_synopsis(
    strategy: IndexingStrategy,
    *,
    synthesize: Synthesizer | None = None,
    synthesizer_id: str | None = None,
    synopsis_kind: str = "synopsis",
    when: Callable[[Artifact], MaybeAwaitable[bool]] | None = None,
    when_id: str | None = None,
) -> SynopsisStrategy:
    """Return a strategy that adds a synopsis of each artifact to another strategy.

    A walk can route by the synopsis. It is the first surface of the artifact, of granularity `document`, with the
    metadata `synthesizer_id`. A blank synopsis makes no surface.

    A build sums up only artifacts that are new or changed. It sums up all of them if the id of the inner strategy, the
    synthesizer or the gate changes, or the kind. If the synthesizer fails or does not return a string, the artifact is
    indexed without a synopsis. The build report then lists the problem, and the next build tries again.

    Args:
        strategy: The inner strategy, sync or async; it makes all other surfaces.
        synthesize: A function from an artifact to its synopsis. A sync function runs in a worker thread; an async one
            is awaited. Default: `make_llm_synthesizer()`, which uses the model that `AIRW_CHAT` names.
        synthesizer_id: The name of the synthesizer and its settings. Default: its own `id` or `synthesizer_id`;
            otherwise its `identity`.
        synopsis_kind: The kind of the surface.
        when: The gate, a function that returns whether to sum up an artifact, such as `ThinDescription()`. The
            synthesizer is not called for other artifacts. Default: sum up all.
        when_id: The name of the gate and its settings. Default: its own `id` or `when_id`; otherwise its `identity`.

    Raises:
        ArgumentError: If a parameter is not valid, or a function has neither a stable identity nor a name.
        ChatUnavailable: If there is neither a synthesizer nor a model.

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
            f"strategy must have an id and a method decompose, such as Chunked(), not {short_repr(strategy)}"
        )
    if not isinstance(getattr(strategy, "id", None), str) or not strategy.id:
        raise ArgumentError(f"strategy must have an `id` with its name and settings; {short_repr(strategy)} has none")
    check_kind(synopsis_kind)
    if when is None and when_id is not None:
        raise ArgumentError("when_id is the name of a gate; pass when= as well")
    synthesizer: Synthesizer = make_llm_synthesizer() if synthesize is None else synthesize
    if isinstance(synthesizer, LlmSynthesizer):
        synthesizer = synthesizer.with_fields_of(_innermost(strategy))
    return SynopsisStrategy(
        strategy=strategy,
        synthesize=synthesizer,
        synthesizer_id=_function_id("synthesize", synthesizer, "synthesizer_id", synthesizer_id),
        synopsis_kind=synopsis_kind,
        when=when,
        when_id=None if when is None else _function_id("when", when, "when_id", when_id),
    )


def _innermost(strategy: IndexingStrategy) -> IndexingStrategy:
    return _innermost(strategy.strategy) if isinstance(strategy, SynopsisStrategy) else strategy


def _function_id(parameter: str, function: object, id_parameter: str, explicit_id: str | None) -> str:
    """Return the explicit id of a function, otherwise its own id, otherwise its identity."""
    if not callable(function):
        raise ArgumentKindError(f"{parameter} must be a function of an artifact, not {short_repr(function)}")
    check_name(id_parameter, explicit_id)
    if explicit_id is not None:
        return explicit_id
    try:
        declared = getattr(function, "id", None) or getattr(function, id_parameter, None)
        return declared if isinstance(declared, str) and declared else identity(function)
    except ArgumentError as error:
        raise ArgumentError(f"pass {id_parameter}=, a name of {parameter} and its settings: {error}") from error


def _check_synopsis(synopsis: object) -> str:
    """Return a synopsis without surrounding white space, if it is a text that can be stored."""
    if not isinstance(synopsis, str):
        raise ArgumentKindError(f"a synthesizer must return a string, not {short_repr(synopsis)}")
    if fault := find_text_fault(synopsis):
        raise ArgumentError(f"the synopsis contains {fault}")
    return synopsis.strip()
