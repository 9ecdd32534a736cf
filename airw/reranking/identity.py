"""What a floor is calibrated for: the mode, and everything else that puts scores on another scale."""

import hashlib
import sys
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from airw._base.checks import check_choice, check_count
from airw._base.messages import short_repr
from airw.errors import ArgumentError
from airw.protocols import Reranker

RERANK_TEXTS = ("surface", "artifact")
"""What a reranker can be given to read: the surface that matched, or the artifact's whole text."""

MAX_CHARS = 2_000
_ANONYMOUS = "~anonymous"  # no escaped name holds a "~"
_LONGEST = 120

_SCALES: dict[str, dict[str, float]] = {"rrf": {"rrf_k": 60}, "blend": {"alpha": 0.5, "bm25_sat_k": 8.0}}


def calibration_key(
    mode: str,
    tag: str | None = None,
    *,
    fusion: str = "rrf",
    rrf_k: int = 60,
    alpha: float = 0.5,
    bm25_sat_k: float = 8.0,
) -> str:
    """Name the scale that a search scores on: floors are kept under it, as one for another scale would be wrong.

    A reranker's scores replace those of the first stage, so its `tag` takes the place of the fusion and its constants.
    Without one, the constants that a hybrid search's fusion does not use, and all of them in the other modes, do not
    matter; those that have their usual value are not named.

    Args:
        mode: The mode of the search.
        tag: What `rerank_tag` gives.
        fusion: `"rrf"` or `"blend"`.
        rrf_k: The rank constant of `"rrf"`.
        alpha: The weight of the dense channel in `"blend"`.
        bm25_sat_k: The BM25 score that `"blend"` takes for one half.

    Raises:
        ArgumentError: There is no such fusion.

    Example:
        >>> calibration_key("hybrid"), calibration_key("hybrid", "rerank-my-model+surface")
        ('hybrid', 'hybrid+rerank-my-model+surface')
        >>> calibration_key("hybrid", fusion="blend", alpha=0.3)
        'hybrid+blend+alpha=0.3'
    """
    usual = _SCALES[check_choice("fusion", fusion, tuple(_SCALES))]
    if tag is not None:
        return f"{mode}+{tag}"
    if mode != "hybrid":
        return mode
    given = {"rrf_k": rrf_k, "alpha": float(alpha), "bm25_sat_k": float(bm25_sat_k)}
    constants = [f"{name}={given[name]}" for name, value in usual.items() if given[name] != value]
    return "+".join([mode, *([] if fusion == "rrf" else [fusion]), *constants])


def rerank_tag(
    reranker: Reranker | None,
    rerank_text: str | Callable[..., Any] = "surface",
    *,
    max_chars: int = MAX_CHARS,
) -> str | None:
    """Name a reranker and what it reads, in characters that are safe in keys; `None` without a reranker.

    A name is the attribute `id`, where that is a string. A callable without one goes by its module and its name, where
    these lead back to it: a function of a module does, but no lambda, closure, partial, bound method or instance, and
    nothing of `__main__`, which is another module in each script. What has no name is anonymous. Different names stay
    different, also where a tag is cut to 120 characters.

    `id` may read a model's weights: call it in a worker thread.

    Args:
        reranker: What scores.
        rerank_text: What it reads: one of `RERANK_TEXTS`, or a callable that gives the text.
        max_chars: Where whole artifacts are cut.

    Raises:
        ArgumentError: `rerank_text` is neither, or `max_chars` is not a whole number of at least 1.
        RerankerUnavailable: The reranker's model folder is not there.

    Example:
        >>> def score(query, texts):
        ...     return [len(text) for text in texts]
        >>> score.id = "org/length"
        >>> rerank_tag(score, "artifact", max_chars=500)
        'rerank-org%2Flength+artifact@500'
        >>> rerank_tag(lambda query, texts: [0.0] * len(texts))
        'rerank-~anonymous+surface'
    """
    text = _text_tag(rerank_text, check_count("max_chars", max_chars, least=1))
    if reranker is None:
        return None
    tag = f"rerank-{_escaped(reranker)}+{text}"
    if len(tag) <= _LONGEST:
        return tag
    digest = hashlib.sha256(tag.encode()).hexdigest()[:16]
    head = f"rerank-{_ANONYMOUS}" if is_anonymous(tag) else tag[: _LONGEST - 17]
    return f"{head}~{digest}"


def is_anonymous(tag: str | None) -> bool:
    """Return whether a tag rests on a callable without a name, so that no floor may be kept under it.

    Example:
        >>> is_anonymous(rerank_tag(lambda query, texts: [0.0] * len(texts)))
        True
    """
    return tag is not None and _ANONYMOUS in tag


def named(function: object) -> str | None:
    """Return the name of a callable, as `rerank_tag` finds it; `None` where it has none."""
    id = getattr(function, "id", None)
    if isinstance(id, str) and id.strip():
        return id
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(path, str) or module == "__main__":
        return None
    found: object = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return f"{module}.{path}" if found is function else None


def _text_tag(rerank_text: str | Callable[..., Any], max_chars: int) -> str:
    if isinstance(rerank_text, str):
        cut = rerank_text == "artifact" and max_chars != MAX_CHARS
        return check_choice("rerank_text", rerank_text, RERANK_TEXTS) + (f"@{max_chars}" if cut else "")
    if not callable(rerank_text):
        choices = ", ".join(map(repr, RERANK_TEXTS))
        raise ArgumentError(f"rerank_text must be {choices} or a callable, not {short_repr(rerank_text)}")
    return f"fn-{_escaped(rerank_text)}"


def _escaped(function: object) -> str:
    """Return a callable's name without loss in letters, digits and `_.-%`."""
    name = named(function)
    return _ANONYMOUS if name is None else quote(name, safe="", errors="surrogatepass").replace("~", "%7E")
