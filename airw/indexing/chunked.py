"""A strategy that cuts a text into overlapping chunks."""

from dataclasses import dataclass
from typing import Any

from airw.indexing._reading import check_kind, clean_fields, read_with_title, text_id
from airw.indexing.windows import Windowed, chunk_surfaces
from airw.values import Artifact, IndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunked(Windowed):
    """Cuts the text of an artifact into overlapping chunks.

    A chunk ends at a blank line if possible; otherwise at the end of a line, a sentence or a word. Every character
    except white space is in at least one chunk. No chunk is longer than `chunk_size`, or `max_tokens` if that is given,
    and no chunk lies inside another.

    The metadata of a chunk are `chunk_index`, `n_chunks`, `start` and `end`: its text is `text[start:end]` of the
    artifact's text. A field of the artifact with one of these names stays; if it is `start` or `end`, both offsets are
    in `span` instead. The text is read as `WholeText` reads it.

    Args:
        chunk_size: Maximum characters of a chunk.
        overlap: Maximum characters that a chunk repeats of the previous chunk; the repeated part begins at a word.
        text_key: The field of a mapping that contains the text.
        kind: The kind of the surfaces.
        max_tokens: Maximum tokens of a chunk, counted in the chunk alone and without a model's special tokens. Only a
            chunk that cannot be cut further (one token, one character) can exceed it. `chunk_size` is then no limit of
            its own: a chunk repeats at most `max_tokens * overlap / chunk_size` tokens.
        tokenizer: A function from a text to the offsets of its tokens, or a tokenizer that `token_offsets` accepts.
            Required with `max_tokens`.

    Raises:
        ArgumentError: If `chunk_size` or `max_tokens` is below 1, or `overlap` is negative or not below `chunk_size`.
            Also if a name is blank, or only one of `max_tokens` and `tokenizer` is given.

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
        """Check all parameters."""
        Windowed.__post_init__(self)
        check_kind(self.kind, self.text_key)

    @property
    def id(self) -> str:
        """The name of the strategy and its parameters; builds compare it to notice a change."""
        return text_id(self, self.text_key)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Return the plan for one artifact."""
        text = read_with_title(artifact, self.text_key)
        fields = clean_fields(artifact)
        return IndexPlan(fields, chunk_surfaces(artifact.id, text, self.kind, self._window, fields=fields))
