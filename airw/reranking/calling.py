"""Resolve and call any reranker, and check the scores that it returns."""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from airw._base.checks import check_number, check_texts, find_text_fault
from airw._base.concurrency import call_user_function
from airw._base.messages import error_text, short_repr
from airw.errors import AirwError, ArgumentError, ArgumentKindError, RerankerError
from airw.protocols import Reranker

if TYPE_CHECKING:
    from airw.reranking.cross_encoder import CrossEncoderReranker

_SPEC = re.compile(r"cross-encoder(?::(.*\S.*))?", re.DOTALL)
_CHOICES = "'cross-encoder', 'cross-encoder:<model or folder>', or a callable (query, texts) -> scores"
_RERANKERS: dict["CrossEncoderReranker", "CrossEncoderReranker"] = {}


def resolve_reranker(spec: str | Reranker | None) -> Reranker | None:
    """Return the reranker of a specification; no model is loaded yet.

    ```text
    spec                      reranker
    None                      None
    a callable                the callable, sync or async: HttpReranker(url, model), your own function
    "cross-encoder"           CrossEncoderReranker()
    "cross-encoder:<model>"   CrossEncoderReranker(model); the model is a name on the hub or a folder
    ```

    Equal specifications return the same object, so each model is loaded once. A missing package is an error: there is
    no fallback to another reranker.

    Raises:
        ArgumentError: If the specification is another string.
        ArgumentKindError: If it is neither a string, a callable nor `None`.
        RerankerUnavailable: If sentence-transformers, which runs cross-encoders, is not installed; or if there is no
            such model folder.

    Example:
        >>> resolve_reranker(None) is None
        True
        >>> resolve_reranker("bm25")
        Traceback (most recent call last):
            ...
        airw.errors.ArgumentError: rerank must be 'cross-encoder', 'cross-encoder:<model or folder>', or a callable \
(query, texts) -> scores, not 'bm25'
    """
    if spec is None or callable(spec):
        return spec
    model = match_spec("rerank", spec, _SPEC, choices=_CHOICES)[1]
    from airw.reranking.cross_encoder import DEFAULT_MODEL, CrossEncoderReranker

    reranker = CrossEncoderReranker(model or DEFAULT_MODEL)
    # Before a query is embedded: a model that is not there would fail only after that.
    reranker.check_runnable()
    return _RERANKERS.setdefault(reranker, reranker)


def match_spec(option: str, spec: object, pattern: re.Pattern[str], *, choices: str) -> re.Match[str]:
    """Return the match of a specification that must be a text.

    Raises:
        ArgumentError: If it is another text; the message names the `choices` of the option.
        ArgumentKindError: If it is no text.
    """
    if isinstance(spec, str) and (match := pattern.fullmatch(spec)):
        return match
    error = ArgumentError if isinstance(spec, str) else ArgumentKindError
    raise error(f"{option} must be {choices}, not {short_repr(spec)}")


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
    # The label is only computed for an error: it may read the weights of a model.
    label = partial(_label, reranker)
    try:
        answer: Any = await call_user_function(reranker, query, list(texts))
    except AirwError:
        raise
    except Exception as error:
        raise RerankerError(f"{label()} failed: {error_text(error)}") from error
    scores = answer.tolist() if hasattr(answer, "tolist") else answer  # of an array or a tensor
    if isinstance(scores, str | bytes) or not isinstance(scores, Sequence):
        raise RerankerError(f"{label()} must return a list of numbers, one a text, not {short_repr(answer)}")
    if len(scores) != len(texts):
        raise RerankerError(f"{label()} returned {len(scores)} scores for {len(texts)} texts")
    return to_floats(scores, label)


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
    numbers = list[float]()
    for index, score in enumerate(scores):
        try:
            numbers.append(check_number("score", score))
        except ArgumentError:
            fault = f"must return finite numbers, not {short_repr(score)} (text {index})"
            raise RerankerError(f"{label()} {fault}") from None
    return numbers


def _label(reranker: Reranker) -> str:
    """Return a name of a reranker for errors; this never raises."""
    name: object = None
    with suppress(Exception):
        name = getattr(reranker, "id", None) or getattr(reranker, "__qualname__", None)
    return f"the reranker {short_repr(name if isinstance(name, str) else reranker)}"
