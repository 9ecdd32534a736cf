"""The exam that every walk policy passes."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import is_dataclass
from typing import Any, cast

from airw._base.checks import check_count
from airw.errors import ArgumentError
from airw.testing._policy_cases import CASES
from airw.testing._policy_tools import ExaminedPolicy, PolicyCase
from airw.testing.exam import Exam
from airw.walking import WalkPolicy


class PolicySuite(Exam[ExaminedPolicy]):
    """The exam of a walk policy: cases as data, to run all at once or one a test; needs no test framework.

    What it walks should offer it something: a dozen nodes or more, several a step, and cycles.

    Args:
        policy: A policy, or a function without parameters that makes one: then another one must equal the first.
        open: Gives an async context manager of what the policy walks: for each case anew, with the same content.
        query: What to look for there; at least two hits must come of it.
        is_corpus: Whether `open` gives a `Corpus`, or another dataclass with a `store` of its own. The store is then
            wrapped in a `ScriptedStore`, which delays, fails, hangs and counts; otherwise the cases of those are left
            out.
        max_calls: The most calls of the store that one step may take, those for the seeds aside; and no more of them
            for more nodes. `None` leaves that out, for policies that work one node at a time.

    Raises:
        ArgumentError: `policy` is neither, `open` cannot be called, or `max_calls` is no whole number.

    Example:
        >>> from airw import build, from_mapping
        >>> from airw.policies import Eager
        >>> from airw.stores import MemoryStore
        >>> texts = {"a": "signing keys", "b": "rotate the keys", "c": "cake"}
        >>> def corpus():
        ...     return build(from_mapping(texts, name="notes", embedder="light"), store=MemoryStore())
        >>> import anyio
        >>> print(anyio.run(PolicySuite(Eager, corpus, "keys").run).failed)
        ()
    """

    subject, all_cases = "policy", CASES

    def __init__(
        self,
        policy: WalkPolicy | Callable[[], WalkPolicy],
        open: Callable[[], AbstractAsyncContextManager[Any]],
        query: str,
        *,
        is_corpus: bool = True,
        max_calls: int | None = 3,
    ) -> None:
        is_maker = isinstance(policy, type) or not hasattr(policy, "to_hits")
        if is_maker and not callable(policy):
            raise ArgumentError(f"policy must be a walk policy or a function that makes one, not {policy!r}")
        if not callable(open):
            raise ArgumentError(f"open must be a function that gives an async context manager, not {open!r}")
        if max_calls is not None:
            check_count("max_calls", max_calls)
        self._make = cast("Callable[[], WalkPolicy]", policy) if is_maker else None
        self._policy = None if is_maker else cast("WalkPolicy", policy)
        self._open, self._query, self._is_corpus, self._max_calls = open, query, is_corpus, max_calls

    def _offers(self, case: PolicyCase) -> bool:
        offered = {"factory": self._make, "corpus": self._is_corpus, "max_calls": self._max_calls is not None}
        return all(offered[need] for need in case.needs)

    @asynccontextmanager
    async def _examinee(self) -> AsyncIterator[ExaminedPolicy]:
        async with self._open() as store:
            if self._is_corpus and not (is_dataclass(store) and hasattr(store, "store")):
                raise ArgumentError(f"open must give a Corpus, not {store!r}; for anything else, say is_corpus=False")
            policy = cast("WalkPolicy", self._policy if self._make is None else self._make())
            yield ExaminedPolicy(policy, self._make, store, self._query, self._is_corpus, self._max_calls)
