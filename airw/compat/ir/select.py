"""Select hits and disclose their content; the module is also the function `select`."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from airw import discovery
from airw.compat._missing_names import explain_missing
from airw.compat._sync import SyncFunction, run, to_async
from airw.compat.ir._callable_module import CallableModule
from airw.compat.ir.expand import to_airw_policy
from airw.compat.ir.index import to_airw
from airw.compat.ir.retrieve import to_airw_options
from airw.discovery import Disclosure as Disclosure
from airw.discovery import DiscoveryResult as DiscoveryResult
from airw.discovery import Selection as Selection
from airw.values import SearchHit

Selector = Callable[[Sequence[SearchHit]], list[SearchHit]]
DFLT_MAX_K = 3
DFLT_REL_THRESHOLD = 0.9
DFLT_GAP_RATIO = 0.5
DFLT_FETCH_K = 10
DISCLOSURE_LEVELS = ("metadata", "body", "bundled")


def select(
    hits: Sequence[SearchHit],
    *,
    strategy: Any = "conservative",
    max_k: int = DFLT_MAX_K,
    rel: float = DFLT_REL_THRESHOLD,
    gap_ratio: float = DFLT_GAP_RATIO,
    min_score: float | None = None,
) -> Selection:
    """Commit to a few hits or abstain; see `airw.select`."""
    return discovery.select(hits, strategy=strategy, max_k=max_k, rel=rel, gap_ratio=gap_ratio, min_score=min_score)


def disclose(
    selection: Selection,
    *,
    level: str = "body",
    loader: Callable[[dict[str, Any]], str | None] | None = None,
    store: Mapping[str, Any] | None = None,
    expand: Any = None,
    corpus: Any = None,
    roots: Sequence[str | os.PathLike[str]] = (),
) -> list[Disclosure]:
    """Disclose the content of selected hits; see `airw.disclose`.

    Only files below `roots` are read.

    Raises:
        ArgumentError: If files must be read and `roots` is empty.
    """
    options: Any = {"level": level, "loader": loader, "store": store, "roots": roots}
    records = {"expand": to_airw_policy(expand, corpus), "corpus": to_airw(corpus)}
    return run(discovery.disclose, selection, **options, **records)


def discover(
    corpus: Any,
    query: str,
    *,
    k: int = DFLT_FETCH_K,
    mode: str = "hybrid",
    strategy: Any = "conservative",
    disclose_level: str = "metadata",
    filter: Mapping[str, Any] | None = None,
    surfaces: Iterable[str] | None = None,
    max_k: int = DFLT_MAX_K,
    rel: float = DFLT_REL_THRESHOLD,
    gap_ratio: float = DFLT_GAP_RATIO,
    min_score: Any = None,
    merge: Any = "rrf",
    merge_weights: Mapping[str, float] | None = None,
    merge_rrf_k: int | None = None,
    loader: Callable[[dict[str, Any]], str | None] | None = None,
    store: Mapping[str, Any] | None = None,
    expand: Any = None,
    dedup_by: str | None = "auto",
    roots: Sequence[str | os.PathLike[str]] = (),
    **search_kw: Any,
) -> DiscoveryResult:
    """Search, commit to a few hits or abstain, and disclose them; see `airw.discover`.

    Raises:
        ArgumentError: If a parameter is not valid.
        CorpusNotFound: If there is no corpus with that name.
        DiscoveryError: If no corpus answers.
    """
    options: Any = {
        "k": k,
        "mode": mode,
        "strategy": to_async(strategy),
        "disclose_level": disclose_level,
        "filter": filter,
        "surfaces": surfaces,
        "max_k": max_k,
        "rel": rel,
        "gap_ratio": gap_ratio,
        "min_score": min_score,
        # `ir` fuses source by source.
        "merge": "rrf-by-source" if merge == "rrf" and isinstance(corpus, list | tuple | Mapping) else merge,
        "merge_weights": merge_weights,
        "merge_rrf_k": merge_rrf_k,
        "loader": loader,
        "store": store,
        "expand": to_airw_policy(expand, _by_name(corpus)),
        "dedup_by": dedup_by,
        "roots": roots,
    }
    # `ir` fuses by rank, with the same weights for every query.
    options |= {"fusion": "rrf", **to_airw_options(corpus, search_kw)}
    result = run(discovery.discover, to_airw(corpus), query, **options)
    return replace(result, signals={**result.signals, "merge": merge}) if "merge" in result.signals else result


def _by_name(corpus: Any) -> Any:
    if isinstance(corpus, list | tuple):
        return {item if isinstance(item, str) else item.name: item for item in corpus}
    return corpus


def make_llm_selector(
    query: str,
    *,
    chooser: Callable[..., Sequence[str]] | None = None,
    prompt: str | None = None,
    max_candidates: int = DFLT_FETCH_K,
    fallback: Selector | None = None,
    model: Any = None,
) -> SyncFunction:
    """Return a selector that calls a model; see `airw.discovery.make_llm_selector`.

    Raises:
        ChatUnavailable: If there is neither a chooser nor a model.
    """
    return SyncFunction(
        discovery.make_llm_selector(
            query, chooser=chooser, prompt=prompt, max_candidates=max_candidates, fallback=fallback, model=model
        )
    )


_AS_STRATEGY = "call select(hits, strategy={!r})"

__getattr__: Final = explain_missing(
    __name__,
    {name: _AS_STRATEGY.format(name) for name in ("top_k", "abs_threshold", "rel_threshold", "score_gap")}
    | {
        "BodyLoader": "pass a function from the metadata of a hit to a text or None",
        "POINTER_KEYS": "import it from airw.compat.ir.base",
        "DFLT_RERANK_MAX_CHARS": "import it from airw.compat.ir.retrieve",
        "DFLT_MAX_BODY_CHARS": "airw cuts a body at 20,000 characters and sets `truncated` in its Disclosure",
        "SELECTION_PROMPT": "call make_llm_selector(query, prompt=…)",
        "DFLT_DEDUP_BY": "call discover(…, dedup_by='auto')",
    },
)

sys.modules[__name__].__class__ = CallableModule
