"""Overlapping chunks of the text."""

from dataclasses import dataclass

from airw.indexing._text import check_kind, check_window, chunk_surfaces, clean_fields, text_of
from airw.values import Artifact, IndexPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunked:
    """Cut an artifact's text into overlapping chunks, at blank lines where possible, else line, sentence, word ends.

    Every character but white space is in some chunk, no chunk is longer than `chunk_size`, and none lies inside
    another. Metadata of a chunk: `chunk_index`, `n_chunks`, and `start` and `end`, so that `text[start:end]` of the
    artifact's text is the chunk's. The text is read as `WholeText` reads it.

    Args:
        chunk_size: Characters of a chunk, at most.
        overlap: Characters that a chunk repeats of its predecessor, at most; it begins at a word.
        text_key: The field of a mapping that holds the text.
        kind: The kind of the surfaces.

    Raises:
        ArgumentError: `chunk_size` is below 1, `overlap` is negative or not below `chunk_size`, or a name is blank.

    Example:
        >>> plan = Chunked(chunk_size=9, overlap=4).decompose(Artifact("a", "one two three four"))
        >>> [surface.text for surface in plan.surfaces]
        ['one two', 'two three', 'four']
    """

    chunk_size: int = 1200
    overlap: int = 200
    text_key: str | None = None
    kind: str = "chunk"

    def __post_init__(self) -> None:
        """Check every parameter at birth."""
        check_window(self.chunk_size, self.overlap)
        check_kind(self.kind, self.text_key)

    @property
    def id(self) -> str:
        """Name the strategy and its parameters."""
        return repr(self)

    def decompose(self, artifact: Artifact) -> IndexPlan:
        """Give the plan for one artifact.

        Raises:
            SourceError: The raw value holds no text.
        """
        text = text_of(artifact, self.text_key)
        chunks = chunk_surfaces(artifact.id, text, self.kind, chunk_size=self.chunk_size, overlap=self.overlap)
        return IndexPlan(clean_fields(artifact), chunks)
