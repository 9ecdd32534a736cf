"""Call any reranker, and check the scores that it returns."""

import math
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
    """Return the reranker's score for each text, in their order.

    Without texts the reranker is not called. A sync reranker is called in a worker thread.

    Raises:
        RerankerError: If the reranker fails, or returns something else than one finite number for each text.

    Example:
        >>> import anyio
        >>> def count_common_words(query, texts):
        ...     return [len({*query.split()} & {*text.split()}) for text in texts]
        >>> anyio.run(score_texts, count_common_words, "signing keys", ["bread", "rotate keys"])
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
    return _check_scores(answer, len(texts), reranker)


def check_inputs(query: str, texts: Sequence[str], *, of: str) -> list[str]:
    """Check the query and the texts of a reranker, and return the texts as a list.

    `of` names the reranker in errors.

    Raises:
        RerankerError: If the texts are not a list of strings, or if UTF-8 cannot encode one of them or the query.
    """
    fault = find_text_fault(query) if isinstance(query, str) else f"{short_repr(query)}, which is not a string"
    if fault:
        raise RerankerError(f"{of} cannot read the query: it contains {fault}")
    return check_texts(texts, of=of, error=RerankerError, encodable=True)


def to_floats(scores: Sequence[Any], label: Callable[[], str]) -> list[float]:
    """Convert scores to floats; `label` returns the name of the reranker for errors.

    Raises:
        RerankerError: If a score is not a finite number, or too large for a float.
    """
    return [_to_float(score, index, label) for index, score in enumerate(scores)]


def _check_scores(answer: Any, count: int, reranker: Reranker) -> list[float]:
    scores = answer.tolist() if hasattr(answer, "tolist") else answer  # of an array or a tensor
    if isinstance(scores, str | bytes) or not isinstance(scores, Sequence):
        raise RerankerError(f"{_label(reranker)} must return a list of numbers, one a text, not {short_repr(answer)}")
    if len(scores) != count:
        raise RerankerError(f"{_label(reranker)} returned {len(scores)} scores for {count} texts")
    # The label is only computed for an error: it may read the weights of a model.
    return to_floats(scores, partial(_label, reranker))


def _to_float(score: Any, index: int, label: Callable[[], str]) -> float:
    if isinstance(score, Real) and not isinstance(score, bool):
        with suppress(OverflowError):
            if math.isfinite(number := float(score)):
                return number
    raise RerankerError(f"{label()} must return finite numbers, not {short_repr(score)} (text {index})")


def _label(reranker: Reranker) -> str:
    """Return a name of a reranker for errors; this never raises."""
    name = None
    with suppress(Exception):
        name = getattr(reranker, "id", None) or getattr(reranker, "__qualname__", None)
    return f"the reranker {name!r}" if isinstance(name, str) else f"the reranker {short_repr(reranker)}"
