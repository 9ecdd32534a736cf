"""Overlapping chunks of the text."""

from dataclasses import dataclass
from typing import Any

from airw.indexing._reading import check_kind, clean_fields, text_of
from airw.indexing.windows import Window, chunk_surfaces
from airw.values import Artifact, IndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunked:
    """Cut an artifact's text into overlapping chunks, at blank lines where possible, else line, sentence, word ends.

    Every character but white space is in some chunk, no chunk is longer than `chunk_size`, or than `max_tokens` where
    that is given, and none lies inside another. Metadata of a chunk: `chunk_index`, `n_chunks`, and `start` and `end`,
    so that `text[start:end]` of the artifact's text is the chunk's. The text is read as `WholeText` reads it.

    Args:
        chunk_size: Characters of a chunk, at most.
        overlap: Characters that a chunk repeats of its predecessor, at most; it begins at a word.
        text_key: The field of a mapping that holds the text.
        kind: The kind of the surfaces.
        max_tokens: Tokens of a chunk, at most, also when it is read alone, without the special ones that a model adds;
            only a single token can be more. Then `chunk_size` and `overlap` say what share of a chunk is repeated.
        tokenizer: Counts them and says where they end: a function, or a tokenizer that `token_offsets` takes.

    Raises:
        ArgumentError: `chunk_size` or `max_tokens` is below 1, `overlap` is negative or not below `chunk_size`, a name
            is blank, or of `max_tokens` and `tokenizer` one is given without the other.

    Example:
        >>> plan = Chunked(chunk_size=9, overlap=4).decompose(Artifact("a", "one two three four"))
        >>> [surface.text for surface in plan.surfaces]
        ['one two', 'two three', 'four']
    """

    chunk_size: int = 1200
    overlap: int = 200
    text_key: str | None = None
    kind: str = "chunk"
    max_tokens: int | None = None
    tokenizer: Any = None

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        object.__setattr__(self, "tokenizer", self._window.tokenizer)  # adapted
        check_kind(self.kind, self.text_key)

    @property
    def _window(self) -> Window:
        return Window(self.chunk_size, self.overlap, self.max_tokens, self.tokenizer)

    @property
    def id(self) -> str:
        """Name the strategy and its parameters."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact."""
        text = text_of(artifact, self.text_key)
        return IndexPlan(clean_fields(artifact), chunk_surfaces(artifact.id, text, self.kind, self._window))
