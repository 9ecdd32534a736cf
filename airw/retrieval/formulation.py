"""Formulators: functions that turn a query into one or several queries to search with.

A formulator takes the query and returns a string or a list of strings; it may be sync or async. A single returned query
replaces the original one. The rankings of several queries are fused by rank. A formulator only writes queries: its
caller decides which corpora to search.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airw._base.checks import check_count, check_kind
from airw._base.concurrency import call_user_function
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt, list_items, strip_bullet
from airw.protocols import Formulator, MaybeAwaitable
from airw.retrieval.query import queries_of

FORMULATION_PROMPT = """\
A search for the query below should also find documents that say the same in other words. Write {n} other queries for
the same thing, as different from each other as they can be: with spelling put right, abbreviations and jargon spelled
out, synonyms in place of its words. Each is a few words long. Answer with the queries alone, one a line.

Query: {query}
"""
"""The default prompt."""


def _return_query(query: str) -> str:
    return query


@dataclass(frozen=True, slots=True)
class LlmFormulator:
    """A formulator that calls a rewriter or a chat model, and a fallback if that fails.

    `make_llm_formulator` makes it.
    """

    rewriter: Callable[[str], MaybeAwaitable[str | Sequence[str]]] | ChatPrompt
    n: int = 3
    fallback: Formulator = _return_query

    async def __call__(self, query: str) -> str | Sequence[str]:
        """Return at most `n` queries of the rewriter, or the answer of the fallback."""
        try:
            if isinstance(self.rewriter, ChatPrompt):
                answer: str | Sequence[str] = queries_in(await self.rewriter(query=query, n=self.n))
            else:
                answer = await call_user_function(self.rewriter, query)
            queries = queries_of(answer)
        except Exception:  # noqa: BLE001 - whatever goes wrong with a model, the search still works with the original query
            queries = ()
        return queries[: self.n] or await call_user_function(self.fallback, query)


def make_llm_formulator(
    *,
    rewriter: Callable[[str], MaybeAwaitable[str | Sequence[str]]] | None = None,
    prompt: str | None = None,
    n: int = 3,
    fallback: Formulator | None = None,
    model: ChatLike | None = None,
) -> LlmFormulator:
    """Make a formulator from a rewriter function or from a chat model.

    It returns the query in other words, so that a search also finds documents that use them.

    If the rewriter or the model raises, or answers with nothing usable, the fallback answers instead. An error of the
    fallback is raised. The answer of a model is read as a list with one query a line; numbers and quotes around a query
    are removed.

    Args:
        rewriter: A function that returns one or several queries for a query. It may be sync, then it is called in a
            worker thread, or async.
        prompt: The prompt for the model, with the placeholders `{query}` and, optionally, `{n}`; `FORMULATION_PROMPT`
            by default.
        n: Use at most the first `n` queries.
        fallback: The formulator to fall back on; by default the original query is used.
        model: The model to ask: `"http://host:8080/v1#model"` or a `ChatModel`; by default the model that the
            environment variable `AIRW_CHAT` names.

    Raises:
        ArgumentError: If a value cannot be used, or a rewriter is combined with a model or a prompt.
        ChatUnavailable: If there is neither a rewriter nor a model.

    Example:
        >>> import anyio
        >>> formulate = make_llm_formulator(rewriter=lambda query: [query, f"how to {query}"])
        >>> anyio.run(formulate, "rotate keys")
        ('rotate keys', 'how to rotate keys')
    """
    check_count("n", n, least=1)
    check_kind("fallback", fallback, Callable | None, "be a function of a query")
    rewrite = function_or_prompt(
        rewriter, "rewriter", model=model, prompt=prompt, default=FORMULATION_PROMPT, needs=["query"]
    )
    return LlmFormulator(rewrite, n, fallback or _return_query)


def queries_in(answer: str) -> list[str]:
    r"""Return the queries in a model's answer, in their order.

    Example:
        >>> queries_in("Sure:\n1. sign keys\n2. \"key rotation\"")
        ['sign keys', 'key rotation']
    """
    return [strip_bullet(line) for line in list_items(answer)]
