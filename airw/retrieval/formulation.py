"""Formulators: what turns a query into the query, or the queries, to search with.

A formulator is any function of a query, sync or async, that gives a string or a list of strings. One query is searched
as if it had been asked; several are fused by rank. It gives queries, never plans: which corpus to ask, and what for, is
its caller's business.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from airw._base.checks import check_count
from airw._base.concurrency import call_user_function
from airw._base.messages import short_repr
from airw.chat import ChatLike
from airw.chat.questions import ChatPrompt, function_or_prompt, list_items, strip_bullet
from airw.errors import ArgumentKindError
from airw.protocols import Formulator, MaybeAwaitable
from airw.retrieval.query import queries_of

FORMULATION_PROMPT = """\
A search for the query below should also find documents that say the same in other words. Write {n} other queries for
the same thing, as different from each other as they can be: with spelling put right, abbreviations and jargon spelled
out, synonyms in place of its words. Each is a few words long. Answer with the queries alone, one a line.

Query: {query}
"""
"""What a model is asked unless another prompt is given."""


def _unchanged(query: str) -> str:
    return query


@dataclass(frozen=True, slots=True)
class LlmFormulator:
    """A formulator that asks a rewriter, and falls back where it fails; `make_llm_formulator` makes it."""

    rewriter: Callable[[str], MaybeAwaitable[str | Sequence[str]]]
    n: int = 3
    fallback: Formulator = _unchanged

    async def __call__(self, query: str) -> str | Sequence[str]:
        """Give at most `n` queries, or what the fallback gives."""
        try:
            queries = queries_of(await call_user_function(self.rewriter, query))
        except Exception:  # noqa: BLE001 - whatever goes wrong with a model, a search with the query as it is still works
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
    """Make a formulator of a rewriter, or of a chat model that is asked for other words.

    A rewriter that raises, or answers with nothing or with what is no query, is not an error: the fallback answers
    instead. What the fallback raises is. The same goes for a model, whose answer is read as a list: one query a line,
    numbered or not, in quotes or not.

    Args:
        rewriter: Gives one query or several for a query; sync, then it is called in a worker thread, or async.
        prompt: What to ask the model, with `{query}` where the query goes, and `{n}` for the number;
            `FORMULATION_PROMPT` when left out.
        n: Use at most this many queries, the first ones.
        fallback: The formulator to fall back on; when left out, the query stays as it is.
        model: The model to ask, `"http://host:8080/v1#model"` or a `ChatModel`; what `AIRW_CHAT` names when left out.

    Raises:
        ArgumentError: A parameter's value cannot be used, or there is a rewriter and a model or a prompt as well.
        ChatUnavailable: There is neither a rewriter nor a model.

    Example:
        >>> import anyio
        >>> formulate = make_llm_formulator(rewriter=lambda query: [query, f"how to {query}"])
        >>> anyio.run(formulate, "rotate keys")
        ('rotate keys', 'how to rotate keys')
    """
    check_count("n", n, least=1)
    if fallback is not None and not callable(fallback):
        raise ArgumentKindError(f"fallback must be a function of a query, not {short_repr(fallback)}")
    asked = function_or_prompt(
        rewriter, "rewriter", model=model, prompt=prompt, default=FORMULATION_PROMPT, needs=["query"]
    )
    rewrite = _Rewriter(asked, n) if isinstance(asked, ChatPrompt) else asked
    return LlmFormulator(rewrite, n, fallback or _unchanged)


@dataclass(frozen=True, slots=True)
class _Rewriter:
    """Asks a chat model for other words."""

    question: ChatPrompt
    n: int

    async def __call__(self, query: str) -> list[str]:
        return queries_in(await self.question(query=query, n=self.n))


def queries_in(answer: str) -> list[str]:
    r"""Give the queries that a model wrote, in their order.

    Example:
        >>> queries_in("Sure:\n1. sign keys\n2. \"key rotation\"")
        ['sign keys', 'key rotation']
    """
    return [strip_bullet(line) for line in list_items(answer)]
