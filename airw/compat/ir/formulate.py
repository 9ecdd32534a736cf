"""Formulators, which rewrite a query before a search."""

from collections.abc import Callable, Sequence
from typing import Any

from airw import retrieval
from airw.compat._sync import SyncFunction
from airw.retrieval.formulation import FORMULATION_PROMPT as FORMULATION_PROMPT

Formulator = Callable[[str], str | Sequence[str]]


def identity_formulator(query: str) -> str:
    """Return the query unchanged."""
    return query


def make_llm_formulator(
    *,
    rewriter: Formulator | None = None,
    prompt: str | None = None,
    n: int = 3,
    fallback: Formulator | None = None,
    model: Any = None,
) -> SyncFunction:
    """Return a formulator that calls a model; see `airw.retrieval.make_llm_formulator`.

    Raises:
        ChatUnavailable: If there is neither a rewriter nor a model.

    Example:
        >>> make_llm_formulator(rewriter=lambda query: [query, f"how to {query}"])("rotate keys")
        ('rotate keys', 'how to rotate keys')
    """
    return SyncFunction(
        retrieval.make_llm_formulator(rewriter=rewriter, prompt=prompt, n=n, fallback=fallback, model=model)
    )
