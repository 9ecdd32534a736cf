"""What goes into a reranker, checked."""

from collections.abc import Sequence

from airw._base.messages import short_repr
from airw.errors import RerankerError


def checked_texts(query: str, texts: Sequence[str], *, of: str) -> list[str]:
    """Give the texts as a list; neither they nor the query may hold half characters, which no model takes.

    Raises:
        RerankerError: They are no list of strings, or one holds a lone surrogate. `of` names who was asked.
    """
    if isinstance(texts, str):
        raise RerankerError(f"{of} takes a list of texts, not one string")
    given = list(texts)
    for what, text in (("the query", query), *((f"text {at}", text) for at, text in enumerate(given))):
        if not isinstance(text, str):
            raise RerankerError(f"{of} takes strings: {what} is {short_repr(text)}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RerankerError(
                f"{of} takes no half characters: {what} holds a lone surrogate at {error.start}"
            ) from error
    return given
