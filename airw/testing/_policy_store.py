"""Cases of a policy and its store: any order of answers, errors, cancellation, and how often it is called."""

import math
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random

import anyio

from airw._base.concurrency import first_error
from airw._base.messages import short_repr
from airw.errors import StoreError
from airw.testing._policy_tools import Asked, Examinee, PolicyCase, fact
from airw.testing.exam import expect, expect_equal
from airw.values import Limits
from airw.walking import Walk

__all__ = ["CASES"]

CASES: list[PolicyCase] = []

_HANG = 1.5  # seconds that a call of the store hangs when the walk is cancelled
_PROMPT = 1.0  # seconds after which the cancelled walk must be over, on a busy machine too


@fact(CASES, "corpus")
async def _a_walk_is_the_same_however_long_the_store_takes_to_answer(given: Examinee) -> None:
    expected = await given.walked()
    for number in range(4):
        chance = Random(number)  # noqa: S311 - nothing secret
        store, _ = given.scripted(delays=lambda: chance.choice((0.0, 0.0, 0.0003, 0.001, 0.002)))  # noqa: B023 - used here
        expect_equal((await given.walked(store=store)).told, expected.told, "the walk over a store that answers late")


async def _moments(given: Examinee) -> list[tuple[str, int]]:
    """Give the first and the last call of each method of the store in a walk, by its number."""
    corpus, store = given.scripted()
    await given.walked(store=corpus)
    return [(method, at) for method, count in store.calls.items() for at in sorted({1, count})]


@fact(CASES, "corpus")
async def _an_error_of_the_store_ends_the_walk_as_itself(given: Examinee) -> None:
    whole = (await given.walked()).told
    for method, at in await _moments(given):
        error = StoreError("a scripted failure")
        corpus, _ = given.scripted(failures={method: [*[None] * (at - 1), error]})
        what = f"the error of call {at} of {method}"
        walk, told = given.start(store=corpus), []
        got: Exception | None = None
        try:
            async for hit in walk:
                told.append(hit.to_dict())  # noqa: PERF401 - what came before the error counts
        except Exception as raised:  # noqa: BLE001 - which one is the question
            got = raised
        expect(got is error, f"expected {what} as itself, got {short_repr(got) if got else 'no error'}")
        expect_equal(told, whole[: len(told)], f"the hits before {what}")


@fact(CASES, "corpus")
async def _a_cancelled_walk_ends_at_once_though_the_store_hangs(given: Examinee) -> None:
    for method, at in await _moments(given):
        begun = anyio.Event()
        corpus, store = given.scripted(delays={method: _hang(at, begun)})
        walk, what = given.start(store=corpus), f"a walk cancelled in call {at} of {method}"
        was_caught, seconds = await _cancelled(walk, begun)
        expect(was_caught, f"expected {what} to let the cancellation through, got it swallowed")
        expect(seconds < _PROMPT, f"expected {what} to end within {_PROMPT:g} s, got {seconds:.2f} s")
        expect(store.running == 0, f"expected no call to outlive {what}, got {store.running}")


def _hang(at: int, begun: anyio.Event) -> Callable[[], float]:
    """Give delays of which the `at`-th is long, and says so."""
    calls = count(1)

    def delay() -> float:
        if next(calls) != at:
            return 0.0
        begun.set()
        return _HANG

    return delay


async def _cancelled(walk: Walk, begun: anyio.Event) -> tuple[bool, float]:
    """Cancel a walk when `begun` is set: whether the cancellation came through, and the seconds that it took."""
    scope, times = anyio.CancelScope(), [math.inf]

    async def cancel() -> None:
        await begun.wait()
        times.append(anyio.current_time())
        scope.cancel()

    with first_error():
        async with anyio.create_task_group() as group:
            group.start_soon(cancel)
            with scope:
                async for _ in walk:
                    pass
            group.cancel_scope.cancel()
    return scope.cancelled_caught, anyio.current_time() - times[-1]


@fact(CASES, "corpus", "max_calls")
async def _a_step_takes_few_calls_of_the_store(given: Examinee) -> None:
    _, asked = await given.watched()
    steps: list[Counter[str]] = [Counter()]
    for call in asked:
        if call.method == "expand":
            steps.append(Counter())
        if call.method != "seed":
            steps[-1] += call.calls
    worst = max(steps, key=Counter.total)
    most = given.max_calls or 0
    expect(
        worst.total() <= most, f"expected at most {most} calls in a step after the seeds are there, got {dict(worst)}"
    )


@fact(CASES, "corpus", "max_calls")
async def _more_nodes_in_a_step_take_no_more_calls_of_the_store(given: Examinee) -> None:
    narrow, wide = [_most_calls((await given.watched(limits=limits))[1]) for limits in (Limits(max_frontier=2), None)]
    for (asked, method), number in wide.items():
        most = max(narrow[asked, method], 1)
        expect(
            number <= most,
            f"expected {asked} to call {method} at most {most} times whatever the number of nodes, got {number}",
        )


def _most_calls(asked: list[Asked]) -> Counter[tuple[str, str]]:
    """Give by method of the policy and of the store the most calls that one call made."""
    most: Counter[tuple[str, str]] = Counter()
    for call in asked:
        for method, number in call.calls.items():
            most[call.method, method] = max(most[call.method, method], number)
    return most
