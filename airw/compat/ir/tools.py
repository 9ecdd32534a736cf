"""Searches as tools of an agent."""

from collections.abc import Callable, Mapping
from typing import Any

from airw.compat.ir.select import discover


def search(
    query: str,
    *,
    corpus: Any,
    k: int = 8,
    mode: str = "hybrid",
    filter: Mapping[str, Any] | None = None,
    rerank: Any = None,
    rerank_text: Any = "surface",
) -> dict[str, Any]:
    """Find what answers a query, as JSON."""
    options = {} if rerank is None else {"rerank": rerank, "rerank_text": rerank_text}
    return discover(corpus, query, k=k, mode=mode, filter=filter, **options).to_dict()


search_tool = search
"""The same, as the package calls it."""


def make_search(
    corpus: Any,
    *,
    name: str | None = None,
    description: str | None = None,
    k: int = 8,
    mode: str = "hybrid",
    rerank: Any = None,
    rerank_text: Any = "surface",
) -> Callable[..., dict[str, Any]]:
    """Return a function of a query and `k` that searches one corpus, named and described for an agent."""
    label = str(name or (corpus if isinstance(corpus, str) else "corpus"))
    safe = "".join(each if each.isalnum() else "_" for each in label).strip("_") or "corpus"

    def bound_search(query: str, k: int = k) -> dict[str, Any]:
        return search(query, corpus=corpus, k=k, mode=mode, rerank=rerank, rerank_text=rerank_text)

    bound_search.__name__ = f"search_{safe}"
    bound_search.__doc__ = description or f"Search the {label!r} knowledge base; returns ranked, JSON results."
    return bound_search
