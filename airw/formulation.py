"""Formulators: what turns a query into the query, or the queries, to search with.

A formulator is any function of a query, sync or async, that gives a string or a list of strings. One query is searched
as if it had been asked; several are fused by rank. It gives queries, never plans: which corpus to ask, and what for, is
its caller's business.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from airw._concurrency import called
from airw.errors import ArgumentKindError, shown
from airw.limits import check_count, check_query
from airw.protocols import Formulator, MaybeAwaitable

__all__ = ["LlmFormulator", "identity_formulator", "make_llm_formulator", "queries_of"]


def identity_formulator(query: str) -> str:
    """Give the query as it is.

    Example:
        >>> identity_formulator("signing keys")
        'signing keys'
    """
    return query


def queries_of(formulated: object) -> tuple[str, ...]:
    """Give what a formulator answered as queries, each once and in its order; none where all are blank.

    Raises:
        ArgumentKindError: It is neither a string nor a list of strings.
        ArgumentError: A query holds half a character.

    Example:
        >>> queries_of(["signing keys", " ", "key rotation", "signing keys"])
        ('signing keys', 'key rotation')
    """
    given = [formulated] if isinstance(formulated, str) else formulated
    if not isinstance(given, Sequence) or not all(isinstance(query, str) for query in given):
        raise ArgumentKindError(f"a formulator must give a string or a list of strings, not {shown(formulated)}")
    return tuple(check_query(query) for query in dict.fromkeys(given) if query.strip())


@dataclass(frozen=True, slots=True)
class LlmFormulator:
    """A formulator that asks a rewriter, and falls back where it fails; `make_llm_formulator` makes it."""

    rewriter: Callable[[str], MaybeAwaitable[str | Sequence[str]]]
    n: int = 3
    fallback: Formulator = identity_formulator

    async def __call__(self, query: str) -> str | Sequence[str]:
        """Give at most `n` queries, or what the fallback gives."""
        try:
            queries = queries_of(await called(self.rewriter, query))
        except Exception:  # noqa: BLE001 - whatever goes wrong with a model, a search with the query as it is still works
            queries = ()
        return queries[: self.n] or await called(self.fallback, query)


def make_llm_formulator(
    *, rewriter: Callable[[str], MaybeAwaitable[str | Sequence[str]]], n: int = 3, fallback: Formulator | None = None
) -> LlmFormulator:
    """Make a formulator of a rewriter, such as a model that is asked for other words.

    A rewriter that raises, or answers with nothing or with what is no query, is not an error: the fallback answers
    instead. What the fallback raises is.

    Args:
        rewriter: Gives one query or several for a query; sync, then it is called in a worker thread, or async.
        n: Use at most this many of its queries, the first ones.
        fallback: The formulator to fall back on; `identity_formulator` when left out.

    Raises:
        ArgumentError: A parameter's value cannot be used.

    Example:
        >>> import anyio
        >>> formulate = make_llm_formulator(rewriter=lambda query: [query, f"how to {query}"])
        >>> anyio.run(formulate, "rotate keys")
        ('rotate keys', 'how to rotate keys')
    """
    _check_function("rewriter", rewriter)
    _check_function("fallback", fallback or identity_formulator)
    return LlmFormulator(rewriter, check_count("n", n, least=1), fallback or identity_formulator)


def _check_function(name: str, value: Any) -> None:
    if not callable(value):
        raise ArgumentKindError(f"{name} must be a function of a query, not {shown(value)}")
