"""The suite that checks walk policies."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import is_dataclass
from typing import Any, ClassVar, cast

from airw._base.checks import check_count
from airw.errors import ArgumentError
from airw.testing._policy_cases import CASES
from airw.testing._policy_tools import PolicyCase, PolicyFixture
from airw.testing.exam import Case, Exam
from airw.walking import WalkPolicy


class PolicySuite(Exam[PolicyFixture]):
    """Checks that a walk policy keeps the promises of `WalkPolicy`.

    Run all cases at once, or one case per test of any test framework. The data that the policy walks should have a
    dozen nodes or more, several in a step, and cycles.

    Args:
        policy: A policy, or a function without parameters that makes one. With a function, the suite also checks that
            two policies made by it are equal.
        open: A function that returns an async context manager of the data to walk. It is called for each case and must
            return the same content every time.
        query: The query of the walks; it must have at least two hits.
        is_corpus: Whether `open` returns a `Corpus`, or another dataclass with a field `store`. The suite then wraps
            the store in a `ScriptedStore`, to delay, fail, hang and count its calls. Otherwise these cases are left
            out.
        max_calls: In how many calls of the store a step may ask for one kind of request, without those for the seeds.
            A request takes many nodes at once, so one is enough, however many nodes there are. `None` leaves these
            cases out, for policies that work one node at a time.

    Raises:
        ArgumentError: If `policy` is neither, `open` is not callable, or `max_calls` is not a whole number.

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

    subject: ClassVar[str] = "policy"
    all_cases: ClassVar[Sequence[Case[Any]]] = CASES

    def __init__(
        self,
        policy: WalkPolicy | Callable[[], WalkPolicy],
        open: Callable[[], AbstractAsyncContextManager[Any]],
        query: str,
        *,
        is_corpus: bool = True,
        max_calls: int | None = 1,
    ) -> None:
        is_maker = isinstance(policy, type) or not hasattr(policy, "to_hits")
        if is_maker and not callable(policy):
            raise ArgumentError(f"policy must be a walk policy or a function that makes one, not {policy!r}")
        if not callable(open):
            raise ArgumentError(f"open must be a function that returns an async context manager, not {open!r}")
        if max_calls is not None:
            check_count("max_calls", max_calls)
        self._make = cast("Callable[[], WalkPolicy]", policy) if is_maker else None
        self._policy = None if is_maker else cast("WalkPolicy", policy)
        self._open, self._query, self._is_corpus, self._max_calls = open, query, is_corpus, max_calls

    def _offers(self, case: PolicyCase) -> bool:
        offered = {"factory": self._make, "corpus": self._is_corpus, "max_calls": self._max_calls is not None}
        return all(offered[need] for need in case.needs)

    @asynccontextmanager
    async def _fixture(self) -> AsyncIterator[PolicyFixture]:
        async with self._open() as store:
            if self._is_corpus and not (is_dataclass(store) and hasattr(store, "store")):
                raise ArgumentError(
                    f"open must return a Corpus, not {store!r}; for anything else, pass is_corpus=False"
                )
            policy = cast("WalkPolicy", self._policy if self._make is None else self._make())
            yield PolicyFixture(policy, self._make, store, self._query, self._is_corpus, self._max_calls)
