"""Questions that wait together are asked by one call."""

import random

import anyio
import pytest

from airw._base.coalescing import Coalescer
from tests.support.waiting import PATIENCE


class Oracle:
    """Answers each number by ten times as much; fails for negative numbers."""

    def __init__(self, seconds=0.01):
        self.calls = []
        self.running = self.most = 0
        self.seconds = seconds

    async def answer(self, numbers):
        self.calls.append(list(numbers))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await anyio.sleep(self.seconds)
        finally:
            self.running -= 1
        if min(numbers) < 0:
            raise KeyError(numbers)
        return [10 * number for number in numbers]


async def ask_all(oracle, questions, *, lanes=1):
    """Return each answer or error, in order."""
    coalescer, answers = Coalescer(lanes), {}

    async def ask(at, kind, number):
        try:
            answers[at] = await coalescer.ask(kind, number, oracle.answer)
        except KeyError as error:
            answers[at] = error.args[0]

    async with anyio.create_task_group() as group:
        for at, (kind, number) in enumerate(questions):
            group.start_soon(ask, at, kind, number)
    assert not coalescer._lines
    return [answers[at] for at in range(len(questions))]


async def test_questions_that_wait_together_are_one_call():
    oracle = Oracle()
    assert await ask_all(oracle, [("a", number) for number in range(150)]) == [10 * number for number in range(150)]
    assert [len(call) for call in oracle.calls] == [1, 64, 64, 21]
    assert oracle.most == 1


async def test_questions_of_different_kinds_do_not_wait_for_each_other():
    oracle = Oracle()
    await ask_all(oracle, [(number % 2, number) for number in range(6)])
    assert all(len({number % 2 for number in call}) == 1 for call in oracle.calls)
    assert len(oracle.calls) == 4
    assert oracle.most == 2


async def test_calls_of_one_kind_run_in_as_many_lanes_as_there_are():
    oracle = Oracle()
    assert sorted(await ask_all(oracle, [("a", number) for number in range(9)], lanes=2)) == [*range(0, 90, 10)]
    assert oracle.most == 2


async def test_an_error_reaches_only_the_caller_whose_question_it_is():
    oracle = Oracle()
    assert await ask_all(oracle, [("a", number) for number in (1, 2, -3, 4, -5)]) == [10, 20, [-3], 40, [-5]]


async def test_questions_are_still_asked_when_the_caller_that_asks_for_them_is_cancelled():
    oracle, coalescer, answers = Oracle(60), Coalescer(), []

    async def ask(number, scope):
        with scope:
            answers.append(await coalescer.ask("a", number, oracle.answer))

    scopes = [anyio.CancelScope() for _ in range(4)]
    async with anyio.create_task_group() as group:
        for number, scope in enumerate(scopes):
            group.start_soon(ask, number, scope)
            await anyio.wait_all_tasks_blocked()
        scopes[2].cancel()  # it waits
        scopes[0].cancel()  # it asks
        await anyio.wait_all_tasks_blocked()
        assert oracle.calls == [[0], [1, 3]]
        oracle.seconds = 0
        scopes[1].cancel()  # it asks for 3, too
    assert oracle.calls == [[0], [1, 3], [3]]
    assert answers == [30]
    assert not coalescer._lines


@pytest.mark.parametrize("seed", range(5))
async def test_every_question_is_answered_whatever_others_do(seed):
    draw, oracle, coalescer, wrong = random.Random(seed), Oracle(0.001), Coalescer(2), []

    async def ask(number, kind, patience, delay):
        await anyio.sleep(delay)
        with anyio.move_on_after(patience):
            try:
                if await coalescer.ask(kind, number, oracle.answer) != 10 * number:
                    wrong.append(number)
            except KeyError as error:
                if error.args[0] != [number]:
                    wrong.append(number)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for number in range(-5, 80):
                patience = draw.choice([60, 60, 0.002])
                group.start_soon(ask, number, draw.randrange(2), patience, draw.random() * 0.02)
    assert not wrong
    assert not coalescer._lines
