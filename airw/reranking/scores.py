"""Scores from any reranker, checked."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from numbers import Real
from typing import Any

from airw._base.checks import check_texts, find_text_fault
from airw._base.concurrency import call_user_function
from airw._base.messages import error_text, short_repr
from airw.errors import AirwError, RerankerError
from airw.protocols import Reranker


async def score_texts(reranker: Reranker, query: str, texts: Sequence[str]) -> list[float]:
    """Score texts against a query, one number a text, in their order; no texts make no call.

    A reranker that is not async is called in a worker thread. NaN and the infinities are passed on: whoever ranks puts
    NaN last.

    Raises:
        RerankerError: The reranker failed, or gave another count of scores or something that is no number.

    Example:
        >>> import anyio
        >>> def words_shared(query, texts):
        ...     return [len({*query.split()} & {*text.split()}) for text in texts]
        >>> anyio.run(score_texts, words_shared, "signing keys", ["bread", "rotate keys"])
        [0.0, 1.0]
    """
    if not texts:
        return []
    try:
        answer: Any = await call_user_function(reranker, query, list(texts))
    except AirwError:
        raise
    except Exception as error:
        raise RerankerError(f"{_label(reranker)} failed: {error_text(error)}") from error
    return _checked(answer, len(texts), reranker)


def check_asked(query: str, texts: Sequence[str], *, of: str) -> list[str]:
    """Return the texts as a list.

    Raises:
        RerankerError: They are no list of strings, or one of them or the query is none that UTF-8 can say. `of` names
            who was asked.
    """
    fault = find_text_fault(query) if isinstance(query, str) else f"{short_repr(query)}, which is no string"
    if fault:
        raise RerankerError(f"{of} cannot read the query: it holds {fault}")
    return check_texts(texts, of=of, error=RerankerError, encodable=True)


def numbers_of(scores: Sequence[Any], label: Callable[[], str]) -> list[float]:
    """Return scores as floats.

    Raises:
        RerankerError: One is no number, or too long for one. `label` names who gave it.
    """
    return [_number(score, at, label) for at, score in enumerate(scores)]


def _checked(answer: Any, count: int, reranker: Reranker) -> list[float]:
    scores = answer.tolist() if hasattr(answer, "tolist") else answer  # an array's, a tensor's
    if isinstance(scores, str | bytes) or not isinstance(scores, Sequence):
        raise RerankerError(f"{_label(reranker)} must give a list of numbers, one a text, not {short_repr(answer)}")
    if len(scores) != count:
        raise RerankerError(f"{_label(reranker)} gave {len(scores)} scores for {count} texts")
    return numbers_of(scores, partial(_label, reranker))  # not its name: that may read a model's weights


def _number(score: Any, at: int, label: Callable[[], str]) -> float:
    if isinstance(score, Real) and not isinstance(score, bool):
        with suppress(OverflowError):
            return float(score)
    raise RerankerError(f"{label()} must give numbers, not {short_repr(score)} (text {at})")


def _label(reranker: Reranker) -> str:
    """Name a reranker in an error, which must not fail for that."""
    name = None
    with suppress(Exception):
        name = getattr(reranker, "id", None) or getattr(reranker, "__qualname__", None)
    return f"the reranker {name!r}" if isinstance(name, str) else f"the reranker {short_repr(reranker)}"
