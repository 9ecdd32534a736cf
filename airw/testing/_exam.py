"""What every exam is made of: cases as data, expectations without a test framework, and a report to print."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import anyio

from airw.errors import AirwError

Examined = TypeVar("Examined")

_PATIENCE = 60.0  # seconds that one case may take


@dataclass(frozen=True, slots=True)
class Case(Generic[Examined]):
    """One promise, and the check that it is kept.

    Args:
        name: An identifier, fit for the id of a test.
        promise: The promise in one sentence.
        check: Called with what a suite hands to its cases; raises `AssertionError` where the promise is broken.
        needs: The capabilities without which the promise is not asked for.
    """

    name: str
    promise: str
    check: Callable[[Examined], Awaitable[None]]
    needs: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.name


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
        """Give the outcomes of the cases that failed."""
        return tuple(outcome for outcome in self.outcomes if outcome.status == "failed")

    @property
    def passed(self) -> bool:
        """Tell whether no case failed."""
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
    """What all suites have: cases to check one by one, or all at once; each suite says what it hands to a case."""

    _subject: str
    _all_cases: Sequence[Case[Examined]]

    @property
    def cases(self) -> tuple[Case[Examined], ...]:
        """Give the cases that ask for nothing but what is offered; `str(case)` is a case's name."""
        return tuple(case for case in self._all_cases if self._offers(case))

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
        for case in self._all_cases:
            start = time.perf_counter()
            status, why = await self._outcome(case)
            outcomes.append(Outcome(case.name, case.promise, status, why, time.perf_counter() - start))
        return Report(self._subject, tuple(outcomes))

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
            with anyio.move_on_after(_PATIENCE) as scope:
                async with self._examinee() as given:
                    await case.check(given)
        except AssertionError:
            raise
        except Exception as error:
            raise AssertionError(f"expected no error, got {brief(error)}") from error
        if scope.cancelled_caught:
            raise AssertionError(f"expected an answer, got none in {_PATIENCE:g} s")

    def _offers(self, case: Case[Examined]) -> bool:
        """Tell whether a case asks for nothing but what is offered."""
        raise NotImplementedError

    def _examinee(self) -> AbstractAsyncContextManager[Examined]:
        """Give what is handed to a case, made anew."""
        raise NotImplementedError


def brief(value: object, width: int = 200) -> str:
    """Show a value on one line, its middle left out where it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= width else f"{text[: width // 2]} … {text[-width // 2 :]}"


def expect(holds: object, message: str) -> None:
    """Raise `AssertionError` with the message unless it holds; unlike `assert`, also under `python -O`."""
    if not holds:
        raise AssertionError(message)


@contextmanager
def expect_error(kind: type[AirwError], what: str) -> Iterator[None]:
    """Expect that the block raises an error of this kind whose message is one line; `what` says what was done."""
    try:
        yield
    except kind as error:
        message = str(error)
        expect(message.strip() and "\n" not in message, f"the error for {what} must be one line, not {message!r}")
    except Exception as error:
        raise AssertionError(f"{what} must raise {kind.__name__}, not {type(error).__name__}: {error}") from error
    else:
        raise AssertionError(f"{what} must raise {kind.__name__}, and nothing was raised")
