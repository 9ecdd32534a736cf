"""Searches as tools for agents."""

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
    """Search a corpus; return the results as JSON values."""
    options = {} if rerank is None else {"rerank": rerank, "rerank_text": rerank_text}
    return discover(corpus, query, k=k, mode=mode, filter=filter, **options).to_dict()


search_tool = search
"""The same function under the name that the package `ir` exports."""


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
    """Return a function of a query and `k` that searches one corpus.

    It has a name and a docstring for agents.
    """
    label = str(name or (corpus if isinstance(corpus, str) else "corpus"))
    safe = "".join(letter if letter.isalnum() else "_" for letter in label).strip("_") or "corpus"

    def search_corpus(query: str, k: int = k) -> dict[str, Any]:
        return search(query, corpus=corpus, k=k, mode=mode, rerank=rerank, rerank_text=rerank_text)

    search_corpus.__name__ = f"search_{safe}"
    search_corpus.__doc__ = description or f"Search the {label!r} knowledge base; returns ranked, JSON results."
    return search_corpus
