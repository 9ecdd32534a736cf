"""Committing to few hits, and revealing them; the module is also the function `select`."""

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from airw import discovery
from airw.compat._missing import missing
from airw.compat._sync import Synced, run, unsynced
from airw.compat.ir._both import CallableModule
from airw.compat.ir.expand import neighborhood
from airw.compat.ir.index import opened
from airw.compat.ir.retrieve import tuned
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
    """Commit to few hits or to none; see `airw.select`."""
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
    """Reveal what was committed to; see `airw.disclose`, which reads files below `roots` only.

    Raises:
        ArgumentError: Files would have to be read, and `roots` does not say which may be.
    """
    options: Any = {"level": level, "loader": loader, "store": store, "roots": roots}
    there = {"expand": neighborhood(expand, corpus), "corpus": opened(corpus)}
    return run(discovery.disclose, selection, **options, **there)


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
    """Find what answers a query, commit to few hits or to none, and reveal them; see `airw.discover`.

    Raises:
        ArgumentError: A parameter's value cannot be used.
        CorpusNotFound: There is no corpus of that name.
        DiscoveryError: No corpus answered.
    """
    options: Any = {
        "k": k,
        "mode": mode,
        "strategy": unsynced(strategy),
        "disclose_level": disclose_level,
        "filter": filter,
        "surfaces": surfaces,
        "max_k": max_k,
        "rel": rel,
        "gap_ratio": gap_ratio,
        "min_score": min_score,
        "merge": merge,
        "merge_weights": merge_weights,
        "merge_rrf_k": merge_rrf_k,
        "loader": loader,
        "store": store,
        "expand": neighborhood(expand, _by_name(corpus)),
        "dedup_by": dedup_by,
        "roots": roots,
    }
    return run(discovery.discover, opened(corpus), query, **options, **tuned(corpus, search_kw))


def _by_name(corpus: Any) -> Any:
    if isinstance(corpus, list | tuple):
        return {each if isinstance(each, str) else each.name: each for each in corpus}
    return corpus


def make_llm_selector(
    query: str,
    *,
    chooser: Callable[..., Sequence[str]] | None = None,
    prompt: str | None = None,
    max_candidates: int = DFLT_FETCH_K,
    fallback: Selector | None = None,
    model: Any = None,
) -> Synced:
    """Return a selector that asks a model; see `airw.discovery.make_llm_selector`.

    Raises:
        ChatUnavailable: There is neither a chooser nor a model.
    """
    return Synced(
        discovery.make_llm_selector(
            query, chooser=chooser, prompt=prompt, max_candidates=max_candidates, fallback=fallback, model=model
        )
    )


_AS_STRATEGY = "write select(hits, strategy={!r})"

__getattr__ = missing(
    __name__,
    {name: _AS_STRATEGY.format(name) for name in ("top_k", "abs_threshold", "rel_threshold", "score_gap")}
    | {
        "BodyLoader": "a function of a hit's metadata that returns a text, or None",
        "POINTER_KEYS": "it is in airw.compat.ir.base",
        "DFLT_RERANK_MAX_CHARS": "it is in airw.compat.ir.retrieve",
        "DFLT_MAX_BODY_CHARS": "a body is cut at 20,000 characters, and its Disclosure says `truncated`",
        "SELECTION_PROMPT": "write make_llm_selector(query, prompt=…)",
        "DFLT_DEDUP_BY": "write discover(…, dedup_by='auto')",
    },
)

sys.modules[__name__].__class__ = CallableModule
