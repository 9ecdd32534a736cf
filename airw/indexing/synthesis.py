"""Writing synopses: an artifact's text, summed up by a chat model or a function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from airw._base.checks import check_strings
from airw._base.concurrency import called
from airw._base.messages import short_repr
from airw.chat import ChatLike
from airw.chat.questions import Question, question_or
from airw.errors import ArgumentError
from airw.indexing._fields import text_field
from airw.indexing._identity import identity
from airw.indexing._text import check_kind, text_of
from airw.indexing.package import Package
from airw.indexing.skill import Skill
from airw.protocols import MaybeAwaitable
from airw.values import Artifact

__all__ = ["MAX_CHARS", "SYNOPSIS_PROMPT", "LlmSynthesizer", "check_name", "make_llm_synthesizer"]

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

    summarize: Callable[[str], MaybeAwaitable[str]] | Question
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
        name = asked.id if isinstance(asked, Question) else f"summarize={identity(asked)}"
        return name + "".join(f" field={field}" for field in shown_of if field)

    async def __call__(self, artifact: Artifact) -> str:
        """Give a synopsis of an artifact; `""`, without asking, of one without text.

        Raises:
            SourceError: The raw value holds no text.
            Exception: Whatever the model or the function raises.
        """
        text = self._text(artifact).strip()
        if not text:
            return ""
        text = text if len(text) <= MAX_CHARS else text[:MAX_CHARS] + _CUT
        if isinstance(self.summarize, Question):
            return await self.summarize(text=text)
        return await called(self.summarize, text)

    def _text(self, artifact: Artifact) -> str:
        if self.text_fields is None or not isinstance(artifact.raw, Mapping):
            return text_of(artifact, self.text_key)
        parts = [text_field(artifact, artifact.raw, field).strip() for field in self.text_fields]
        return "\n\n".join(part for part in parts if part)

    def reading_as(self, strategy: object) -> "LlmSynthesizer":
        """Give the one that reads what a strategy indexes, unless this one has been told what to read."""
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
    asked = question_or(summarize, "summarize", model=model, prompt=prompt, default=SYNOPSIS_PROMPT, needs=["text"])
    return LlmSynthesizer(summarize=asked, synthesizer_id=synthesizer_id, text_key=text_key, text_fields=fields)


def check_name(what: str, value: object) -> None:
    """Check a name at birth, where one is given."""
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise ArgumentError(f"{what} must be a text that is not blank, not {short_repr(value)}")
