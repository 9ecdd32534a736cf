"""The exam that every walk policy passes."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import is_dataclass
from typing import Any, cast

import anyio

from airw.errors import ArgumentError
from airw.limits import check_count
from airw.testing import _policy_cases, _policy_store, _policy_walks
from airw.testing._exam import Report, run_cases
from airw.testing._policy_tools import Examinee, PolicyCase
from airw.testing._store_tools import brief
from airw.walk import WalkPolicy

__all__ = ["PolicySuite"]

_CASES: tuple[PolicyCase, ...] = (*_policy_cases.CASES, *_policy_walks.CASES, *_policy_store.CASES)
_PATIENCE = 60.0  # seconds that one case may take


class PolicySuite:
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
        >>> print(anyio.run(PolicySuite(Eager, corpus, "keys").run).failed)
        ()
    """

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

    @property
    def cases(self) -> tuple[PolicyCase, ...]:
        """Give the cases that ask for nothing but what was given; `str(case)` is a case's name."""
        return tuple(case for case in _CASES if self._offers(case))

    async def check(self, case: PolicyCase) -> None:
        """Check one case.

        Raises:
            AssertionError: The promise is broken; on one line, the case, what was expected, and what came.
        """
        try:
            await self._check(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error.__cause__

    async def run(self) -> Report:
        """Check all cases, however many fail, and give the outcome of each; print it, or ask it."""
        return await run_cases("policy", _CASES, self._check, offers=self._offers)

    def _offers(self, case: PolicyCase) -> bool:
        offered = {"factory": self._make, "corpus": self._is_corpus, "max_calls": self._max_calls is not None}
        return all(offered[need] for need in case.needs)

    async def _check(self, case: PolicyCase) -> None:
        try:
            with anyio.move_on_after(_PATIENCE) as scope:
                async with self._open() as store:
                    await case.check(self._examinee(store))
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"expected no error, got {brief(error)}") from error
        if scope.cancelled_caught:
            raise AssertionError(f"expected an answer, got none in {_PATIENCE:g} s")

    def _examinee(self, store: Any) -> Examinee:
        if self._is_corpus and not (is_dataclass(store) and hasattr(store, "store")):
            raise ArgumentError(f"open must give a Corpus, not {store!r}; for anything else, say is_corpus=False")
        policy = self._policy if self._make is None else self._make()
        return Examinee(cast("WalkPolicy", policy), self._make, store, self._query, self._is_corpus, self._max_calls)
