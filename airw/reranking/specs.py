"""Make a reranker from a short specification."""

from typing import TYPE_CHECKING

from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError
from airw.protocols import Reranker

if TYPE_CHECKING:
    from airw.reranking.cross_encoder import CrossEncoderReranker

CROSS_ENCODER = "cross-encoder"
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
    if not isinstance(spec, str):
        raise ArgumentKindError(f"rerank must be {_CHOICES}, not {short_repr(spec)}")
    name, separator, model = spec.partition(":")
    if name != CROSS_ENCODER or bool(separator) != bool(model.strip()):
        raise ArgumentError(f"rerank must be {_CHOICES}, not {short_repr(spec)}")
    from airw.reranking.cross_encoder import CrossEncoderReranker

    reranker = CrossEncoderReranker(model) if model else CrossEncoderReranker()
    # Before a query is embedded: a model that is not there would fail only after that.
    reranker.check_runnable()
    return _RERANKERS.setdefault(reranker, reranker)
