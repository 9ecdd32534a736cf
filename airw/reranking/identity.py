"""Keys that identify the scale of scores: a stored floor is only used on its own scale.

The scale depends on the mode, the fusion and its constants, and the reranker and the text that it reads.
"""

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter
from typing import Any
from urllib.parse import quote

from airw._base.checks import check_choice, check_count
from airw.protocols import Reranker

RERANK_TEXTS = ("surface", "artifact")
"""The texts that a reranker can read: the surface that matched, or the whole text of the artifact."""

MAX_CHARS = 2_000
_ANONYMOUS = "~anonymous"  # cannot collide with a name: those are escaped and contain no "~"
_MAX_TAG = 120  # characters

_SCALES: dict[str, dict[str, float]] = {
    "scores": {"alpha": 0.5},
    "ranks": {"rrf_k": 10, "alpha": 0.5},
    "rrf": {"rrf_k": 60, "alpha": 0.5},
    "blend": {"alpha": 0.5, "bm25_sat_k": 8.0},
}


def calibration_key(
    mode: str,
    tag: str | None = None,
    *,
    fusion: str = "rrf",
    rrf_k: int | None = None,
    alpha: float = 0.5,
    bm25_sat_k: float = 8.0,
) -> str:
    """Return the key of the scale that a search scores on.

    A corpus stores floors under this key, because a floor for one scale is wrong on another one. The scores of a
    reranker replace those of the first stage, so its `tag` replaces the fusion and its constants. Without a reranker,
    the key contains only the constants that the fusion uses and that differ from their default. Dense and lexical
    searches do not fuse, so their key is the mode.

    Args:
        mode: The mode of the search.
        tag: The tag of the reranker, as `rerank_tag` returns it.
        fusion: `"scores"`, `"ranks"`, `"blend"` or `"rrf"`.
        rrf_k: The rank constant of `"rrf"` or `"ranks"`; by default that of the fusion.
        alpha: The share of the dense channel.
        bm25_sat_k: The BM25 score that counts as one half in `"blend"`.

    Raises:
        ArgumentError: If there is no such fusion.

    Example:
        >>> calibration_key("hybrid"), calibration_key("hybrid", "rerank-my-model+surface")
        ('hybrid', 'hybrid+rerank-my-model+surface')
        >>> calibration_key("hybrid", fusion="blend", alpha=0.3)
        'hybrid+blend+alpha=0.3'
    """
    usual_values = _SCALES[check_choice("fusion", fusion, tuple(_SCALES))]
    if tag is not None:
        return f"{mode}+{tag}"
    if mode != "hybrid":
        return mode
    values = {"rrf_k": rrf_k, "alpha": float(alpha), "bm25_sat_k": float(bm25_sat_k)}
    parts = [mode] if fusion == "rrf" else [mode, fusion]
    parts += [f"{name}={values[name]}" for name, usual in usual_values.items() if values[name] not in (None, usual)]
    return "+".join(parts)


def rerank_tag(
    reranker: Reranker | None,
    rerank_text: str | Callable[..., Any] = "surface",
    *,
    max_chars: int = MAX_CHARS,
) -> str | None:
    """Return a tag for a reranker and the text it reads; `None` without a reranker.

    A tag contains only characters that are safe in keys. The name in it is the reranker's attribute `id`, if that is a
    string. Otherwise it is the module and the name of the callable, if they lead back to it. They do for a function of
    a module, but not for a lambda, closure, partial, bound method or instance. Callables of `__main__` have no name
    either, because `__main__` is another module in each script. A callable without a name is anonymous. Different names
    get different tags, even if a tag is cut to 120 characters.

    Call this in a worker thread: `id` may read the weights of a model.

    Args:
        reranker: The reranker.
        rerank_text: The text it reads: one of `RERANK_TEXTS`, or a callable that returns the text.
        max_chars: The length at which the text of an artifact is cut.

    Raises:
        ArgumentError: If `rerank_text` is neither, or `max_chars` is not a positive whole number.
        RerankerUnavailable: If the folder of the reranker's model does not exist.

    Example:
        >>> def score(query, texts):
        ...     return [len(text) for text in texts]
        >>> score.id = "org/length"
        >>> rerank_tag(score, "artifact", max_chars=500)
        'rerank-org%2Flength+artifact@500'
        >>> rerank_tag(lambda query, texts: [0.0] * len(texts))
        'rerank-~anonymous+surface'
    """
    check_count("max_chars", max_chars, least=1)
    if callable(rerank_text):
        text = f"fn-{_find_name(rerank_text)}"
    else:
        text = check_choice("rerank_text", rerank_text, RERANK_TEXTS)
        if text == "artifact" and max_chars != MAX_CHARS:
            text += f"@{max_chars}"
    if reranker is None:
        return None
    tag = f"rerank-{_find_name(reranker)}+{text}"
    if len(tag) <= _MAX_TAG:
        return tag
    # A cut tag ends with a hash of the whole one, so that long names stay different.
    digest = hashlib.sha256(tag.encode()).hexdigest()[:16]
    head = f"rerank-{_ANONYMOUS}" if is_anonymous(tag) else tag[: _MAX_TAG - 17]
    return f"{head}~{digest}"


def is_anonymous(tag: str | None) -> bool:
    """Return whether a tag contains a callable without a name.

    No floor can be stored for such a tag.

    Example:
        >>> is_anonymous(rerank_tag(lambda query, texts: [0.0] * len(texts)))
        True
    """
    return tag is not None and _ANONYMOUS in tag


def _find_name(function: Any) -> str:
    """Return the name of a callable, or `_ANONYMOUS`.

    It is losslessly escaped to letters, digits and `_.-%`.
    """
    name = getattr(function, "id", None)
    if not isinstance(name, str) or not name.strip():
        name = None
        with suppress(KeyError, AttributeError, TypeError):
            module, path = function.__module__, function.__qualname__
            # A closure or a replaced function has a module and a name too, but another object is there, or none.
            if module != "__main__" and attrgetter(path)(sys.modules[module]) is function:
                name = f"{module}.{path}"
    return _ANONYMOUS if name is None else quote(name, safe="", errors="surrogatepass").replace("~", "%7E")
