"""Strategies that make one surface of the whole text, or several if it is long."""

from dataclasses import dataclass, replace

from airw._base.checks import check_count
from airw._base.frontmatter import split_frontmatter
from airw._base.overriding import override
from airw.indexing._reading import check_kind, clean_fields, read_with_title, text_id
from airw.indexing.windows import Window, chunk_surfaces, spans
from airw.values import Artifact, IndexPlan, Surface

_LONGEST_CONTEXT = 128  # bytes: a title, or a first sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeText:
    """Makes one surface of the whole text of an artifact; no surface if the text is blank.

    The text is the raw value if that is a string or UTF-8 bytes. The text of a mapping is its field `text_key`;
    without a `text_key`, the fields `title` and `text`, and if there is no `text`, all string values, one per line.
    Filter fields are the artifact's metadata.

    Args:
        text_key: The field of a mapping that contains the text.
        kind: The kind of the surface.

    Raises:
        ArgumentError: If a parameter is blank or not a string.

    Example:
        >>> plan = WholeText().decompose(Artifact("a", "some text", {"year": 2026}))
        >>> plan.surfaces[0].text, plan.filter_fields
        ('some text', {'year': 2026})
    """

    text_key: str | None = None
    kind: str = "document"

    def __post_init__(self) -> None:
        """Check all parameters."""
        check_kind(self.kind, self.text_key)

    @property
    def id(self) -> str:
        """The name of the strategy and its parameters; builds compare it to notice a change."""
        return text_id(self, self.text_key)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact."""
        text = read_with_title(artifact, self.text_key)
        surfaces = [Surface(artifact.id, self.kind, text)] if text.strip() else []
        return IndexPlan(clean_fields(artifact), surfaces)


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedText(WholeText):
    """Makes one surface of a text that a model can read, and chunks of a longer one.

    Builds use it in place of `WholeText` if the source names no strategy and the embedder has `max_tokens`. A token of
    English text is about 4 characters. A text of up to `4 * max_tokens` characters is one surface, as `WholeText` makes
    it. A longer one is cut as `Chunked` does it, into surfaces of up to `3 * max_tokens` characters, so that texts with
    shorter tokens fit, too. A chunk from the middle of a text often does not name its subject. So the context of each
    but the first is the beginning of the text, after its frontmatter: up to `max_tokens / 2` bytes, at most 128.

    Args:
        max_tokens: The number of tokens that the model reads.
        text_key: The field of a mapping that contains the text.
        kind: The kind of the surfaces.

    Raises:
        ArgumentError: If `max_tokens` is below 1, or another parameter is blank or not a string.

    Example:
        >>> strategy = FittedText(max_tokens=4)
        >>> [surface.text for surface in strategy.decompose(Artifact("a", "one two")).surfaces]
        ['one two']
        >>> [surface.text for surface in strategy.decompose(Artifact("a", "one two three four")).surfaces]
        ['one two', 'three four']
    """

    max_tokens: int

    @property
    @override
    def id(self) -> str:
        return f"{text_id(self, self.text_key)} and context"

    def __post_init__(self) -> None:
        """Check all parameters."""
        check_count("max_tokens", self.max_tokens, least=1)
        WholeText.__post_init__(self)

    @override
    def decompose(self, artifact: Artifact) -> IndexPlan:
        plan = WholeText.decompose(self, artifact)
        if not plan.surfaces or len(text := plan.surfaces[0].text) <= 4 * self.max_tokens:
            return plan
        overlap = self.max_tokens // 2
        window = Window(3 * self.max_tokens, overlap)
        first, *later = chunk_surfaces(artifact.id, text, self.kind, window, fields=plan.filter_fields)
        context = _read_beginning(text, min(overlap, _LONGEST_CONTEXT))
        return replace(plan, surfaces=[first, *(replace(chunk, context=context) for chunk in later)])


def _read_beginning(text: str, size: int) -> str:
    """Return the beginning of a text after its frontmatter, up to a number of bytes.

    A model reads about four bytes of English as a token, and about one character of Chinese, which has three bytes.
    """
    begin = split_frontmatter(text)[1]
    head = text[begin:].lstrip()[:size]
    size = size * len(head) // max(len(head.encode(errors="replace")), 1)
    start, end = next(spans(text, Window(max(size, 1), 0).ruler(text, begin), begin), (0, 0))
    return text[start:end]
