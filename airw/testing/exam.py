"""The base of all suites: cases as data, checks without a test framework, and a report."""

import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import anyio
import numpy as np

from airw._base.messages import short_repr
from airw.values import Record

Fixture = TypeVar("Fixture")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Case(Generic[Fixture]):
    """A promise that an implementation must keep, and a function that checks it.

    Args:
        name: An identifier, usable as the id of a test.
        promise: The promise in one sentence, for reports.
        check: An async function that raises `AssertionError` if the promise is broken. It is called with the fixture of
            the suite.
        needs: What an implementation must offer for this case to apply, such as the methods that the check calls.
    """

    name: str
    promise: str
    check: Callable[[Fixture], Awaitable[None]]
    needs: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, name: str, check: Callable[[Fixture], Awaitable[None]], needs: Iterable[str] = ()) -> "Case[Fixture]":
        """Return a case whose promise is its name with spaces instead of underscores."""
        return cls(name, f"{name[0].upper()}{name[1:].replace('_', ' ')}.", check, frozenset(needs))


def case(cases: list[Any], *needs: str, promise: str | None = None) -> Callable[[Function], Function]:
    """Return a decorator that adds a check to `cases`, under the name of its function.

    Args:
        cases: The list to add to.
        needs: What an implementation must offer for the case to apply.
        promise: The promise in one sentence. Default: made of the name, as by `Case.of`.
    """

    def add(check: Function) -> Function:
        own = Case.of(check.__name__.strip("_"), check, needs)
        cases.append(replace(own, promise=promise or own.promise))
        return check

    return add


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one case.

    Args:
        name: The name of the case.
        promise: Its promise.
        status: `left out` if the implementation does not offer what the case needs.
        why: The message of a failure, or what is missing; `""` if the case passed.
        seconds: The duration of the check.
    """

    name: str
    promise: str
    status: Literal["passed", "failed", "left out"]
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """The results of all cases; print it to read them.

    Args:
        subject: The kind of implementation, such as `store`.
        outcomes: One outcome per case, in the order of the cases.
    """

    subject: str
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes of the cases that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def passed(self) -> bool:
        """True if no case failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = (
            (status, sum(o.status == status for o in self.outcomes)) for status in ("passed", "failed", "left out")
        )
        head = f"{self.subject}: " + ", ".join(
            f"{count} {status}" for status, count in counts if count or status == "passed"
        )
        whys = (f"\n            {outcome.why}" if outcome.why else "" for outcome in self.outcomes)
        lines = (f"  {own.status:<8}  {own.promise}{why}" for own, why in zip(self.outcomes, whys, strict=True))
        return "\n".join([head, *lines])


class Exam(Generic[Fixture]):
    """The base class of suites: checks their cases one by one or all at once.

    A subclass decides which cases apply (`_offers`) and what a case is called with (`_fixture`).

    Attributes:
        subject: The kind of implementation that the suite checks, such as `store`.
        all_cases: All cases, including those that do not apply. A subclass may set others.
        patience: The time limit of one case, in seconds.
    """

    subject: ClassVar[str]
    all_cases: ClassVar[Sequence[Case[Any]]]
    patience: ClassVar[float] = 60.0

    @property
    def cases(self) -> tuple[Case[Fixture], ...]:
        """The cases that apply to this implementation; `str(case)` is the name of a case."""
        return tuple(case for case in self.all_cases if self._offers(case))

    async def check(self, case: Case[Fixture]) -> None:
        """Check one case.

        Raises:
            AssertionError: If the promise is broken. The message is one line: the case, the expected value, the value
                that came instead.
        """
        try:
            await self._check(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error.__cause__

    async def run(self) -> Report:
        """Check all cases and return a report; failures do not stop the run.

        Cases that do not apply are in the report with the status `left out`.
        """
        outcomes = []
        for case in self.all_cases:
            start = time.perf_counter()
            status, why = await self._outcome(case)
            outcomes.append(Outcome(case.name, case.promise, status, why, time.perf_counter() - start))
        return Report(self.subject, tuple(outcomes))

    async def _outcome(self, case: Case[Fixture]) -> tuple[Literal["passed", "failed", "left out"], str]:
        if not self._offers(case):
            return "left out", f"needs {', '.join(sorted(case.needs))}"
        try:
            await self._check(case)
        except AssertionError as error:
            return "failed", " ".join(str(error).split()) or "AssertionError"
        return "passed", ""

    async def _check(self, case: Case[Fixture]) -> None:
        try:
            with anyio.move_on_after(self.patience) as scope:
                async with self._fixture() as fixture:
                    await case.check(fixture)
        except AssertionError:
            raise
        except (Exception, SystemExit) as error:  # a store that ends the program would end the exam as if it had passed
            raise AssertionError(f"expected no error, got {short_repr(error)}") from error
        if scope.cancelled_caught:
            raise AssertionError(f"expected an answer, got none in {self.patience:g} s")

    def _offers(self, case: Case[Fixture]) -> bool:
        """Return whether the implementation offers all that a case needs."""
        raise NotImplementedError

    def _fixture(self) -> AbstractAsyncContextManager[Fixture]:
        """Return a new fixture for one case."""
        raise NotImplementedError


def expect(condition: object, message: str) -> None:
    """Raise `AssertionError` if a condition is false; unlike `assert`, also under `python -O`."""
    if not condition:
        raise AssertionError(message)


async def expect_refusal(kind: type[Exception], call: Awaitable[object], action: str, *values: str) -> None:
    """Expect that a call raises an error of this kind with a message of one line.

    The message must contain each of `values`; its words are free. `action` describes the call in messages of the case.
    """
    try:
        await call
    except kind as error:
        message = str(error)
        expect(message.strip() and "\n" not in message, f"{action}: expected a message of one line, got {message!r}")
        for value in values:
            expect(value in message, f"{action}: expected a message that contains {value!r}, got {short_repr(message)}")
    except Exception as error:
        raise AssertionError(f"{action}: expected {kind.__name__}, got {short_repr(error)}") from error
    else:
        raise AssertionError(f"{action}: expected {kind.__name__}, got no error")


def expect_equal(got: object, expected: object, subject: str) -> None:
    """Raise `AssertionError` with the first place that differs if two values are not equal.

    Arrays are equal if shape and dtype are, and the numbers up to 1e-6. NaN is equal to NaN in arrays. `True` is not
    equal to 1.
    """
    difference = find_difference(got, expected)
    if difference is not None:
        place, got_part, expected_part = difference
        raise AssertionError(f"{subject}{place}: expected {short_repr(expected_part)}, got {short_repr(got_part)}")


def find_difference(got: Any, expected: Any, place: str = "") -> tuple[str, object, object] | None:
    """Return the first place where values differ, and the two values there.

    They differ in the sense of `expect_equal`.
    """
    if isinstance(expected, np.ndarray):
        if not isinstance(got, np.ndarray) or (got.shape, got.dtype) != (expected.shape, expected.dtype):
            kind = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray) else got
            return place, kind, f"{expected.dtype} {expected.shape}"
        wrong = np.argwhere(~np.isclose(got, expected, 1e-6, 1e-6, equal_nan=True)).tolist()
        return (f"{place}{wrong[0]}", got[*wrong[0]].item(), expected[*wrong[0]].item()) if wrong else None
    if isinstance(expected, list | tuple) and type(got) is type(expected) and len(got) == len(expected):
        keys: Iterable[Any] = range(len(expected))
    elif isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        keys = expected
    elif isinstance(got, Record) and replace(got, metadata=getattr(expected, "metadata", {})) == expected:
        return find_difference(got.metadata, expected.metadata, f"{place}.metadata")
    else:
        is_same = got == expected and isinstance(got, bool) == isinstance(expected, bool)
        return None if is_same else (place, got, expected)
    parts = (find_difference(got[key], expected[key], f"{place}[{key!r}]") for key in keys)
    return next((part for part in parts if part is not None), None)


if __name__ == "__main__":  # the exam of stores and walks, on a server
    import sys

    from airw.testing._server_exam import main

    sys.exit(main())
