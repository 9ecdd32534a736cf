"""What goes into an embedder, checked, and what comes out of it in an error, in one line."""

from collections.abc import Sequence

from airw.errors import EmbedderError


def checked_texts(texts: Sequence[str], *, of: str) -> list[str]:
    """Give the texts as a list; plain strings are told apart all at once, which a long list needs.

    Raises:
        EmbedderError: They are one string, or one of them is not a string. `of` names who was asked.
    """
    if isinstance(texts, str):
        raise EmbedderError(f"{of} takes a list of texts, not one string; for a query use embed_query")
    given = list(texts)
    if {*map(type, given)} <= {str}:
        return given
    for position, text in enumerate(given):
        if not isinstance(text, str):
            raise EmbedderError(f"{of} takes strings, not {type(text).__name__} (text {position} of {len(given)})")
    return given


def one_line(error: Exception) -> str:
    """Give a foreign error's type and message without line breaks."""
    return " ".join(f"{type(error).__name__}: {error}".split())
