"""From a short specification to a reranker."""

from importlib.util import find_spec
from typing import TYPE_CHECKING

from airw._base.messages import short_repr
from airw.errors import ArgumentError, ArgumentKindError, RerankerUnavailable
from airw.protocols import Reranker

if TYPE_CHECKING:
    from airw.reranking.cross_encoder import CrossEncoderReranker

CROSS_ENCODER = "cross-encoder"
_CHOICES = "'cross-encoder', 'cross-encoder:<model or folder>', or a callable (query, texts) -> scores"
_KNOWN: dict["CrossEncoderReranker", "CrossEncoderReranker"] = {}


def resolve_reranker(spec: str | Reranker | None) -> Reranker | None:
    """Make the reranker that a specification names; no model is loaded, and nothing is put in another's place.

    ```text
    None                      None
    a callable                itself, sync or async: HttpReranker(url, model), a function of yours
    "cross-encoder"           CrossEncoderReranker()
    "cross-encoder:<model>"   CrossEncoderReranker(model), a name on the hub or a folder; one for each model, so that
                              each is loaded once
    ```

    Raises:
        ArgumentError: It is another string.
        ArgumentKindError: It is something else.
        RerankerUnavailable: sentence-transformers, which runs cross-encoders, is not installed.

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
    from airw.reranking.cross_encoder import INSTALL, CrossEncoderReranker

    if find_spec("sentence_transformers") is None:
        raise RerankerUnavailable(f"rerank={spec!r} needs sentence-transformers: {INSTALL}")
    reranker = CrossEncoderReranker(model) if model else CrossEncoderReranker()
    return _KNOWN.setdefault(reranker, reranker)
