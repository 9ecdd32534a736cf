"""What every exam is made of: cases as data, expectations without a test framework, and a report to print."""

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from airw.errors import AirwError

Examined = TypeVar("Examined")


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


async def run_cases(
    subject: str,
    cases: Sequence[Case[Any]],
    check: Callable[[Case[Any]], Awaitable[None]],
    *,
    offers: Callable[[Case[Any]], bool] = lambda _: True,
) -> Report:
    """Check one case after another, however many fail; those that `offers` denies are left out."""
    outcomes = []
    for case in cases:
        start = time.perf_counter()
        status, why = (
            await _outcome(case, check) if offers(case) else ("left out", f"needs {', '.join(sorted(case.needs))}")
        )
        outcomes.append(Outcome(case.name, case.promise, status, why, time.perf_counter() - start))
    return Report(subject, tuple(outcomes))


async def _outcome(
    case: Case[Any], check: Callable[[Case[Any]], Awaitable[None]]
) -> tuple[Literal["passed", "failed", "left out"], str]:
    try:
        await check(case)
    except Exception as error:  # noqa: BLE001 - whatever a case raises is its outcome
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return "failed", " ".join(f"{kind}{error}".split()) or type(error).__name__
    return "passed", ""


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
