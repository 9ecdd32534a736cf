"""What every exam is made of: cases as data, expectations without a test framework, and a report to print."""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar

import anyio
import numpy as np

from airw._base.arrays import NDArray
from airw._base.messages import short_repr
from airw.values import Record

Examined = TypeVar("Examined")
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Case(Generic[Examined]):
    """One promise, and the check that it is kept.

    Args:
        name: An identifier, fit for the id of a test.
        promise: The promise in one sentence.
        check: Called with what a suite hands to its cases; raises `AssertionError` where the promise is broken.
        needs: What must be offered for the promise to be asked for: the methods that the check uses, say.
    """

    name: str
    promise: str
    check: Callable[[Examined], Awaitable[None]]
    needs: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name

    @classmethod
    def of(cls, name: str, check: Callable[[Examined], Awaitable[None]], needs: Iterable[str] = ()) -> "Case[Examined]":
        """Return a case whose promise is its name, read as a sentence."""
        return cls(name, f"{name[0].upper()}{name[1:].replace('_', ' ')}.", check, frozenset(needs))


def case(cases: list[Any], *needs: str) -> Callable[[Function], Function]:
    """Return a decorator that adds a check to the cases, under its function's name."""

    def add(check: Function) -> Function:
        cases.append(Case.of(check.__name__.strip("_"), check, needs))
        return check

    return add


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case: `passed`; `failed`, and why; or `left out`, as it needs what is not offered."""

    name: str
    promise: str
    status: Literal["passed", "failed", "left out"]
    why: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Report:
    """What became of all cases, to print or to ask.

    Args:
        subject: What took the exam.
        outcomes: One a case, in the order of the cases.
    """

    subject: str
    outcomes: tuple[Outcome, ...]

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes of the cases that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def passed(self) -> bool:
        """Whether no case failed."""
        return not self.failed

    def __str__(self) -> str:
        counts = (
            (status, sum(o.status == status for o in self.outcomes)) for status in ("passed", "failed", "left out")
        )
        head = f"{self.subject}: " + ", ".join(
            f"{count} {status}" for status, count in counts if count or status == "passed"
        )
        return "\n".join([head, *map(_line, self.outcomes)])


def _line(outcome: Outcome) -> str:
    why = f"\n            {outcome.why}" if outcome.why else ""
    return f"  {outcome.status:<8}  {outcome.promise}{why}"


class Exam(Generic[Examined]):
    """What all suites have: cases to check one by one, or all at once; each suite says what it hands to a case.

    Attributes:
        subject: What takes the exam.
        all_cases: Every case, asked for or not; a subclass may have others.
        patience: The seconds that one case may take.
    """

    subject: ClassVar[str]
    all_cases: ClassVar[Sequence[Case[Any]]]
    patience: ClassVar[float] = 60.0

    @property
    def cases(self) -> tuple[Case[Examined], ...]:
        """The cases that ask for nothing but what is offered; `str(case)` is a case's name."""
        return tuple(case for case in self.all_cases if self._offers(case))

    async def check(self, case: Case[Examined]) -> None:
        """Check one case.

        Raises:
            AssertionError: The promise is broken; on one line, the case, what was expected, and what came.
        """
        try:
            await self._check(case)
        except AssertionError as error:
            raise AssertionError(f"{case}: {error}") from error.__cause__

    async def run(self) -> Report:
        """Check all cases, however many fail, and give the outcome of each; print it, or ask it.

        The cases that need more than what is offered are in it, as left out.
        """
        outcomes = []
        for case in self.all_cases:
            start = time.perf_counter()
            status, why = await self._outcome(case)
            outcomes.append(Outcome(case.name, case.promise, status, why, time.perf_counter() - start))
        return Report(self.subject, tuple(outcomes))

    async def _outcome(self, case: Case[Examined]) -> tuple[Literal["passed", "failed", "left out"], str]:
        if not self._offers(case):
            return "left out", f"needs {', '.join(sorted(case.needs))}"
        try:
            await self._check(case)
        except AssertionError as error:
            return "failed", " ".join(str(error).split()) or "AssertionError"
        return "passed", ""

    async def _check(self, case: Case[Examined]) -> None:
        try:
            with anyio.move_on_after(self.patience) as scope:
                async with self._examinee() as given:
                    await case.check(given)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"expected no error, got {short_repr(error)}") from error
        if scope.cancelled_caught:
            raise AssertionError(f"expected an answer, got none in {self.patience:g} s")

    def _offers(self, case: Case[Examined]) -> bool:
        """Return whether a case asks for nothing but what is offered."""
        raise NotImplementedError

    def _examinee(self) -> AbstractAsyncContextManager[Examined]:
        """Return what is handed to a case, made anew."""
        raise NotImplementedError


def expect(holds: object, message: str) -> None:
    """Raise `AssertionError` with the message unless it holds; unlike `assert`, also under `python -O`."""
    if not holds:
        raise AssertionError(message)


@contextmanager
def expect_error(kind: type[Exception], what: str, *values: str) -> Iterator[None]:
    """Expect that the block raises an error of this kind, whose message is one line and holds each of the values.

    How the message puts it is its own affair; `what` says in ours what was done.
    """
    try:
        yield
    except kind as error:
        message = str(error)
        expect(message.strip() and "\n" not in message, f"{what}: expected a message of one line, got {message!r}")
        for value in values:
            expect(value in message, f"{what}: expected a message that holds {value!r}, got {short_repr(message)}")
    except Exception as error:
        raise AssertionError(f"{what}: expected {kind.__name__}, got {short_repr(error)}") from error
    else:
        raise AssertionError(f"{what}: expected {kind.__name__}, got no error")


async def expect_refusal(kind: type[Exception], call: Awaitable[object], what: str, *values: str) -> None:
    """Expect of a call what `expect_error` expects of a block."""
    with expect_error(kind, what, *values):
        await call


def expect_equal(got: object, expected: object, what: str) -> None:
    """Raise, naming the first place that differs, unless both are equal; arrays to 1e-6, NaN equal to NaN."""
    difference = _difference(got, expected, "")
    if difference is not None:
        place, part, wanted = difference
        raise AssertionError(f"{what}{place}: expected {short_repr(wanted)}, got {short_repr(part)}")


def _difference(got: Any, expected: Any, place: str) -> tuple[str, object, object] | None:
    """Return the first place that differs, and both its values."""
    if isinstance(expected, np.ndarray):
        return _array_difference(got, expected, place)
    if isinstance(expected, list | tuple) and type(got) is type(expected) and len(got) == len(expected):
        keys: Iterable[Any] = range(len(expected))
    elif isinstance(expected, dict) and isinstance(got, dict) and got.keys() == expected.keys():
        keys = expected
    elif (
        isinstance(expected, Record)
        and isinstance(got, Record)
        and replace(got, metadata=expected.metadata) == expected
    ):
        return _difference(got.metadata, expected.metadata, f"{place}.metadata")
    else:
        same = got == expected and isinstance(got, bool) == isinstance(expected, bool)
        return None if same else (place, got, expected)
    parts = (_difference(got[key], expected[key], f"{place}[{key!r}]") for key in keys)
    return next((part for part in parts if part is not None), None)


def _array_difference(got: Any, expected: NDArray[Any], place: str) -> tuple[str, object, object] | None:
    if not isinstance(got, np.ndarray) or (got.shape, got.dtype) != (expected.shape, expected.dtype):
        kind = f"{got.dtype} {got.shape}" if isinstance(got, np.ndarray) else got
        return place, kind, f"{expected.dtype} {expected.shape}"
    wrong = np.argwhere(~np.isclose(got, expected, 1e-6, 1e-6, equal_nan=True))
    if not len(wrong):
        return None
    at = tuple(wrong[0].tolist())
    return f"{place}{list(at)}", got[at].item(), expected[at].item()
